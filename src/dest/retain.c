/* A node's own copy of what its job wrote. See retain.h. */
#include "src/dest/retain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/copy.h"
#include "src/dest/fault.h"
#include "src/dest/manifest.h"
#include "src/dest/tree.h"

int retain_free_bytes(const char *folder, uint64_t *ret_bytes, struct err *err)
{
    struct statvfs status;

    if (statvfs(folder, &status) != 0)
        return fault_set(err, "look at the file system of", folder);
    *ret_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

int retain_write(const char *path, const void *bytes, size_t length, struct err *err)
{
    int fd, result;

    if (unlink(path) != 0 && errno != ENOENT)
        return fault_set(err, "remove", path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fault_set(err, "create", path);
    result = copy_append((struct copy_end){fd, path}, bytes, length, err);
    if (close(fd) != 0 && result == 0)
        result = fault_set(err, "close", path);
    if (result != 0)
        (void)unlink(path); /* the first error counts */
    return result;
}

/* The folder's name without its last component: the one above it. */
static int make_folder(const char *path, struct err *err)
{
    char parent[MANIFEST_PATH_MAX_BYTES];
    const char *slash = strrchr(path, '/');

    if (path[0] != '/' || slash == path || strlen(path) >= sizeof(parent))
        return err_set(err, ERR_INVALID, "--path \"%.256s\" is not an absolute path below another",
                       path);
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    if (mkdir(parent, 0700) != 0 && errno != EEXIST)
        return fault_set(err, "mkdir", parent);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return fault_set(err, "mkdir", path);
    return 0;
}

/* A move takes no room, but the next checkpoint does, in the same file system: a copy that left
 * none would make each later attempt fail. */
static int check_room(const struct retain_request *request, struct err *err)
{
    uint64_t free_bytes = 0;

    if (retain_free_bytes(request->source, &free_bytes, err) != 0)
        return -1;
    if (free_bytes >= request->keep_free_bytes)
        return 0;
    return err_set(err, ERR_FULL,
                   "%s has %" PRIu64 " bytes free, and %" PRIu64
                   " are to stay free for the next checkpoint: no copy is kept",
                   request->source, free_bytes, request->keep_free_bytes);
}

/* A MANIFEST that is not beside the source any more has come into it before a kill. */
static int move_manifest(const struct retain_request *request, struct err *err)
{
    char inside[MANIFEST_PATH_MAX_BYTES];

    if (snprintf(inside, sizeof(inside), "%s/" MANIFEST_NAME, request->source) >=
        (int)sizeof(inside))
        return err_set(err, ERR_INVALID, "the path of the source is too long");
    if (rename(request->manifest, inside) == 0)
        return 0;
    if (errno == ENOENT && access(inside, F_OK) == 0)
        return 0;
    return fault_set(err, "move the manifest", request->manifest);
}

int retain_copy(const struct retain_request *request, struct err *err)
{
    char copy[MANIFEST_PATH_MAX_BYTES];
    struct stat status;

    if (strchr(request->part, '/') != NULL || request->part[0] == '.' ||
        snprintf(copy, sizeof(copy), "%s/%s", request->folder, request->part) >= (int)sizeof(copy))
        return err_set(err, ERR_INVALID, "--part \"%.128s\" is not a name", request->part);
    if (lstat(copy, &status) == 0)
        return 0;
    if (check_room(request, err) != 0 || make_folder(request->folder, err) != 0 ||
        move_manifest(request, err) != 0)
        return -1;
    return rename(request->source, copy) == 0 ? 0 : fault_set(err, "move the files to", copy);
}
