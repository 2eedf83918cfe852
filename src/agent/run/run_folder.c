/* The job's work folder on this node. See run_folder.h. */
#include "src/agent/run/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/durable/end_note.h"
#include "src/agent/run/run_keeper.h"
#include "src/base/check.h"

static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return -1;
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

/* Anybody may have made it in /var/tmp before, and who may rename what is in it gives orders in the
 * job's name. */
static int make_own_folder(char *path, struct err *err)
{
    struct stat stat;

    if (make_folders(path) != 0)
        return 0; /* the work folder below it fails too, and says why */
    if (lstat(path, &stat) != 0 || !S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() ||
        (stat.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return err_set(err, ERR_INVALID,
                       "the folder %s is not a folder that you alone can write to; remove it, or "
                       "choose another with --work-dir",
                       path);
    return 0;
}

/* The same one at each start of a job, whatever the session: TMPDIR of a batch system is another
 * one each time, and goes with its session. -1 without a text: too long. */
static int default_path(const char *allocation_id, char ret_path[PATH_MAX], struct err *err)
{
    int own = snprintf(ret_path, PATH_MAX, RUN_FOLDER_PARENT "/ckpt-%u", (unsigned)geteuid());
    int length;

    if (make_own_folder(ret_path, err) != 0)
        return -1;
    length = snprintf(ret_path + own, (size_t)(PATH_MAX - own), "/%s", allocation_id);
    errno = ENAMETOOLONG;
    return length < PATH_MAX - own ? 0 : -1;
}

/* `request` is read line by line. */
static bool has_control(const char *path)
{
    for (const char *at = path; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            return true;
    return false;
}

/* ---- whose its entries are ---- */

/* Something that would be missed: an empty folder is not. */
static bool holds_something(int folder, const char *name)
{
    struct stat stat;
    struct dirent *entry;
    bool found = false;
    DIR *entries;
    int fd;

    if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    fd = S_ISDIR(stat.st_mode)
             ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
             : -1;
    entries = fd < 0 ? NULL : fdopendir(fd);
    if (entries == NULL)
        return true;
    while (!found && (entry = readdir(entries)) != NULL)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    return found;
}

/* A start before left one of these; release 0.1.0 knows no mark. */
static bool is_marked(int folder)
{
    static const char *const signs[] = {RUN_FOLDER_MARK, END_NOTE_NAME, KEEPER_SOCKET_NAME};

    for (size_t i = 0; i < ARRAY_COUNT(signs); i++)
        if (faccessat(folder, signs[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

/* Entries that a start removes were made by a start: else they are somebody's work. */
static int make_ours(const char *path, bool named, struct err *err)
{
    static const char *const removed[] = {"out", "restore", "copies", "request", "done"};
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd, result = 0;

    if (folder < 0)
        return err_set(err, ERR_INVALID, "cannot open the work folder %s: %s", path,
                       strerror(errno));
    for (size_t i = 0; named && i < ARRAY_COUNT(removed) && result == 0; i++)
        if (!is_marked(folder) && holds_something(folder, removed[i]))
            result =
                err_set(err, ERR_INVALID,
                        "the work folder %s has an entry \"%s\" that no ckpt-run has made, "
                        "and a start would remove it: name an empty folder, or one to be made, "
                        "with --work-dir; where a ckpt-run of release 0.1.0 has made it, "
                        "touch " RUN_FOLDER_MARK " in it",
                        path, removed[i]);
    fd = result != 0 ? -1
                     : openat(folder, RUN_FOLDER_MARK,
                              O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0)
        close(fd);
    close(folder);
    return result;
}

int run_folder_make(const char *wanted, const char *allocation_id, char ret_path[PATH_MAX],
                    struct err *err)
{
    char path[PATH_MAX];
    struct err why = {0};
    struct stat stat;
    bool fits;

    errno = ENAMETOOLONG;
    if (wanted != NULL)
        fits = snprintf(path, sizeof(path), "%s", wanted) < PATH_MAX;
    else
        fits = default_path(allocation_id, path, &why) == 0;
    if (why.text[0] != '\0') {
        *err = why;
        return -1;
    }
    if (path[0] == '\0')
        errno = ENOENT;
    if (!fits || path[0] == '\0' || make_folders(path) != 0 || realpath(path, ret_path) == NULL)
        return err_set(err, ERR_INVALID, "cannot create the work folder %s: %s", path,
                       strerror(errno));
    if (has_control(ret_path))
        return err_set(err, ERR_INVALID,
                       "the name of the work folder has a line's end or another control character; "
                       "name another one with --work-dir");
    if (lstat(ret_path, &stat) != 0 || stat.st_uid != geteuid())
        return err_set(err, ERR_INVALID, "the work folder %s belongs to another user", ret_path);
    return make_ours(ret_path, wanted != NULL, err);
}

int run_folder_keep(const char *wanted, const char *allocation_id, const char *path,
                    struct err *err)
{
    char made[PATH_MAX];

    if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return 0;
    if (run_folder_make(wanted, allocation_id, made, err) != 0)
        return -1;
    if (strcmp(made, path) != 0)
        return err_set(err, ERR_INVALID,
                       "the work folder was %s and has gone, and its name leads to %s now: start "
                       "the same line again",
                       path, made);
    return 0;
}
