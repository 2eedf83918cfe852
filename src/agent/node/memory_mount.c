/* The tmpfs of the node's memory for checkpoints. See memory_mount.h. */
#include "src/agent/node/memory_mount.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/base/check.h"

static bool is_on_tmpfs(const char *path)
{
    struct statfs status;

    return statfs(path, &status) == 0 && status.f_type == TMPFS_MAGIC;
}

/* Another file system than the folder above it. */
static bool is_mounted(const char *path)
{
    char above[PATH_MAX];
    struct stat own, parent;

    snprintf(above, sizeof(above), "%s/..", path);
    return stat(path, &own) == 0 && stat(above, &parent) == 0 && own.st_dev != parent.st_dev;
}

/* A kernel without such quotas knows no such option. */
static bool mount_own(const char *path, uint64_t max_bytes, uint64_t user_max_bytes)
{
    char options[160];
    int length = snprintf(options, sizeof(options), "size=%" PRIu64 ",mode=0755", max_bytes);

    CHECK(length > 0 && length < (int)sizeof(options));
    snprintf(options + length, sizeof(options) - (size_t)length,
             ",usrquota,usrquota_block_hardlimit=%" PRIu64, user_max_bytes);
    if (mount("ckpt-memory", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0)
        return true;
    options[length] = '\0';
    return mount("ckpt-memory", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

int memory_mount(const char *path, uint64_t max_bytes, uint64_t user_max_bytes, struct err *err)
{

    if (path[0] == '\0')
        return 0;
    CHECK(path[0] == '/');
    CHECK(max_bytes > 0);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "memory.path: mkdir %s: %s", path, strerror(errno));
    if (is_on_tmpfs(path) && (geteuid() != 0 || is_mounted(path)))
        return 0;
    if (geteuid() == 0 && mount_own(path, max_bytes, user_max_bytes))
        return 0;
    if (is_on_tmpfs(path)) /* a part of another one: its owner bounds it */
        return 0;
    return err_set(
        err, ERR_REFUSED,
        "memory.path %s is on no tmpfs, and this agent may mount none; before it starts: "
        "mount -t tmpfs -o size=%" PRIu64 ",mode=0755,nosuid,nodev ckpt-memory %s",
        path, max_bytes, path);
}
