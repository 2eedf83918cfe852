/* The job's work folder on this node. See run_folder.h. */
#include "src/agent/run/run_folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Anybody may have made it in /tmp before, and who may rename what is in it gives orders in the
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

/* -1 without a text: too long. */
static int default_path(const char *allocation_id, char ret_path[PATH_MAX], struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    int own, length;

    own = snprintf(ret_path, PATH_MAX, "%s/ckpt-%u",
                   temporary != NULL && temporary[0] == '/' ? temporary : "/tmp",
                   (unsigned)geteuid());
    errno = ENAMETOOLONG;
    if (own >= PATH_MAX || make_own_folder(ret_path, err) != 0)
        return -1;
    length = snprintf(ret_path + own, (size_t)(PATH_MAX - own), "/%s", allocation_id);
    errno = ENAMETOOLONG;
    return length < PATH_MAX - own ? 0 : -1;
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
    if (lstat(ret_path, &stat) != 0 || stat.st_uid != geteuid())
        return err_set(err, ERR_INVALID, "the work folder %s belongs to another user", ret_path);
    return 0;
}
