/* A failure in a work folder, for people. See folder_fault.h. */
#include "src/agent/node/folder_fault.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/agent/run/words.h"

enum { ROOM_BYTES = 2 * WORDS_BYTES + 32, SHOWN_PATH_BYTES = 200 };

/* "": it cannot be told. */
static void path_of(const struct opened *folder, char path[SHOWN_PATH_BYTES])
{
    char link[32], found[PATH_MAX];
    ssize_t length;

    path[0] = '\0';
    if (folder == NULL)
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", folder->fd);
    length = readlink(link, found, sizeof(found));
    if (length > 0)
        snprintf(path, SHOWN_PATH_BYTES, " %.*s",
                 (int)(length < SHOWN_PATH_BYTES - 2 ? length : SHOWN_PATH_BYTES - 2), found);
}

static void room_of(const struct opened *folder, char room[ROOM_BYTES])
{
    char available[WORDS_BYTES], size[WORDS_BYTES];
    struct statvfs stat;

    room[0] = '\0';
    if (folder == NULL || fstatvfs(folder->fd, &stat) != 0)
        return;
    snprintf(room, ROOM_BYTES, " (%s of %s are free)",
             words_size((uint64_t)stat.f_bavail * stat.f_frsize, available),
             words_size((uint64_t)stat.f_blocks * stat.f_frsize, size));
}

int folder_fault(const struct opened *folder, const char *what, const char *name, int failure,
                 struct err *err)
{
    const bool full = failure == ENOSPC || failure == EDQUOT;
    char path[SHOWN_PATH_BYTES], room[ROOM_BYTES] = "";

    path_of(folder, path);
    if (full)
        room_of(folder, room);
    return err_set(err, full ? ERR_FULL : ERR_IO, "%s %.64s in the work folder%s: %s%s", what, name,
                   path, strerror(failure), room);
}
