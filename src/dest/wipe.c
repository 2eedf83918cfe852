/* Overwriting files before they go. See wipe.h. */
#include "src/dest/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/tree.h"

enum { WIPE_BYTES = 1 << 18 };
#define BTRFS    0x9123683E
#define ZFS      0x2FC12FC1
#define BCACHEFS 0xCA451A4E

/* Whether what is written takes the place of what was there. */
static bool overwrites(int file)
{
    struct statfs system;

    return fstatfs(file, &system) == 0 && (unsigned)system.f_type != BTRFS &&
           (unsigned)system.f_type != ZFS && (unsigned)system.f_type != BCACHEFS;
}

/* Of a file that is held by O_PATH. What is published is read-only, and its owner may make it
 * writable; by the descriptor, since its name may be a link to somebody else's file by then. */
static int open_to_write(int file)
{
    char path[32];
    struct stat status;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fstat(file, &status) == 0 && status.st_nlink <= 1 &&
        chmod(path, S_IRUSR | S_IWUSR) == 0)
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd;
}

static int wipe_range(int fd, off_t at, off_t end)
{
    static unsigned char noise[WIPE_BYTES];
    static bool filled;

    for (size_t i = 0; !filled && i < sizeof(noise); i += 256)
        CHECK(getrandom(noise + i, 256, 0) == 256);
    filled = true;
    while (at < end) {
        size_t length = end - at < WIPE_BYTES ? (size_t)(end - at) : WIPE_BYTES;
        ssize_t written = pwrite(fd, noise, length, at);

        if (written < 0 && errno != EINTR)
            return -1;
        at += written > 0 ? written : 0;
    }
    return 0;
}

/* Holes have nothing to be overwritten, and no room. A file system that knows none has one range of
 * data. */
static int wipe_data(int fd)
{
    off_t end, at = 0;

    for (;;) {
        at = lseek(fd, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO ? 0 : -1; /* no more */
        end = lseek(fd, at, SEEK_HOLE);
        if (end < 0 || wipe_range(fd, at, end) != 0)
            return -1;
        at = end;
    }
}

/* When it has so many names, and no others, by which its bytes are somebody's still. They are
 * counted by what a server says as the file is opened. */
static int overwrite(int file, nlink_t names, const char *name, bool *ret_wiped, struct err *err)
{
    struct stat status;
    int fd = open_to_write(file);
    int result = 0;

    if (fd < 0)
        return fstat(file, &status) == 0 && status.st_nlink > names
                   ? 0
                   : fault_set(err, "overwrite", name);
    if (fstat(fd, &status) == 0 && status.st_nlink == names) {
        result = wipe_data(fd) == 0 && fsync(fd) == 0 ? 0 : fault_set(err, "overwrite", name);
        *ret_wiped = result == 0;
    }
    if (close(fd) != 0 && result == 0)
        result = fault_set(err, "overwrite", name);
    return result;
}

/* A file that had another name is held until its own is gone: of two removals that saw each other's
 * name, the later one finds none left. Others are closed before, since NFS would keep what is open
 * under a name of its own. */
static int remove_held(int parent, const char *at, int *file, const char *name,
                       struct wipe_result *result, struct err *err)
{
    bool in_place = overwrites(*file);

    if (in_place && overwrite(*file, 1, name, &result->wiped, err) != 0)
        return -1;
    if (result->wiped) {
        close(*file);
        *file = -1;
    }
    if (unlinkat(parent, at, 0) != 0)
        return errno == ENOENT ? 0 : fault_set(err, "unlink", name);
    result->removed = true;
    return !in_place || result->wiped ? 0 : overwrite(*file, 0, name, &result->wiped, err);
}

/* A file of that name; what others put there meanwhile is none of it. */
static int wipe_named(int parent, const char *at, const char *name, struct wipe_result *result,
                      struct err *err)
{
    struct stat status;
    int file = openat(parent, at, O_PATH | O_NOFOLLOW | O_CLOEXEC), done = 0;

    if (file < 0)
        return errno == ENOENT ? 0 : fault_set(err, "overwrite", name);
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        done = remove_held(parent, at, &file, name, result, err);
    if (file >= 0)
        close(file);
    return done;
}

int wipe_file(int parent, const char *name, bool in_folder, struct wipe_result *ret_result,
              struct err *err)
{
    char hidden[TREE_TEMPORARY_BYTES];
    struct wipe_result result = {false, false};
    struct stat status;

    *ret_result = result;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return 0; /* what removes it tells */
    if (in_folder && tree_temporary_name("file", "gone", hidden, err) != 0)
        return -1;
    if (in_folder && renameat(parent, name, parent, hidden) != 0)
        return errno == ENOENT ? 0 : fault_set(err, "rename", name);
    if (wipe_named(parent, in_folder ? hidden : name, name, &result, err) != 0) {
        if (in_folder)
            (void)renameat(parent, hidden, parent, name); /* who looks for it finds it */
        return -1;
    }
    *ret_result = result;
    return 0;
}
