/* A folder in a node's memory. See reserve.h. */
#include "src/dest/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/tree.h"

enum { WALK_DESCRIPTORS = 16 };

/* Open, and on a tmpfs; else -1. */
static int open_memory(const char *path, struct err *err)
{
    struct statfs status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fault_set(err, "open", path);
    if (fstatfs(fd, &status) == 0 && status.f_type == TMPFS_MAGIC)
        return fd;
    close(fd);
    return err_set(err, ERR_REFUSED,
                   "%s is not on a tmpfs: let memory.path of the agent's configuration name one",
                   path);
}

/* The memory's folder: its owner alone gives users theirs in it. */
static int open_above(const char *home, const char **ret_name, struct err *err)
{
    const char *slash = strrchr(home, '/');
    char above[PATH_MAX];
    struct stat status;
    int fd;

    if (home[0] != '/' || slash == home || slash[1] == '\0' ||
        (size_t)(slash - home) >= sizeof(above))
        return err_set(err, ERR_INVALID, "--path \"%.256s\" is not an absolute path below another",
                       home);
    snprintf(above, sizeof(above), "%.*s", (int)(slash - home), home);
    *ret_name = slash + 1;
    fd = open_memory(above, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 022) == 0)
        return fd;
    close(fd);
    return err_set(err, ERR_REFUSED,
                   "%s belongs to, or may be written to by others than user %u: give it to that "
                   "one, with mode 0755",
                   above, (unsigned)geteuid());
}

/* Made by this process, or by one before it that was killed here: it is given to the user. Another
 * one at work may do so and the user put something into it meanwhile, so whose it is counts after
 * whether something is in it. */
static int give_to_user(int fd, const char *home, uid_t uid, gid_t gid, struct err *err)
{
    bool empty = geteuid() == 0 && tree_is_empty(fd);
    struct stat status;

    if (fstat(fd, &status) != 0)
        return fault_set(err, "stat", home);
    if (status.st_uid == uid)
        return 0;
    if (status.st_uid != 0 || !empty)
        return err_set(err, ERR_REFUSED, "%s is no folder of user %u: remove it", home,
                       (unsigned)uid);
    return fchown(fd, uid, gid) == 0 ? 0 : fault_set(err, "give to its user", home);
}

int reserve_claim(const char *home, uid_t uid, gid_t gid, struct err *err)
{
    const char *name;
    int above = open_above(home, &name, err), fd, result;
    bool made;

    if (above < 0)
        return -1;
    made = mkdirat(above, name, 0700) == 0;
    if (!made && errno != EEXIST) {
        fault_set(err, "mkdir", home);
        close(above);
        return -1;
    }
    fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        result = give_to_user(fd, home, uid, gid, err);
    else
        result = errno == ENOTDIR || errno == ELOOP
                     ? err_set(err, ERR_REFUSED, "%s is no folder of user %u: remove it", home,
                               (unsigned)uid)
                     : fault_set(err, "open", home);
    if (result != 0 && made)
        (void)unlinkat(above, name, AT_REMOVEDIR); /* the next one makes it anew */
    if (fd >= 0)
        close(fd);
    close(above);
    return result;
}

static int check_room(int home, const char *label, uint64_t bytes, struct err *err)
{
    struct statfs status;
    uint64_t room;

    if (fstatfs(home, &status) != 0)
        return fault_set(err, "look at the file system of", label);
    room = (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
    if (room > 0 && room >= bytes)
        return 0;
    return err_set(err, ERR_FULL,
                   "%s has %" PRIu64 " bytes free, and the last checkpoint took %" PRIu64
                   ": give the tmpfs more",
                   label, room, bytes);
}

static uint64_t used_bytes; /* by what count_used() was shown; nftw(3) hands nothing on */

static int count_used(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)path;
    (void)kind;
    (void)walk;
    used_bytes += (uint64_t)status->st_blocks * 512;
    return 0;
}

/* Also by what no attempt has written: whoever keeps other files there has less for checkpoints,
 * and the others as much as ever. */
static int check_share(const char *home, uint64_t bytes, uint64_t most, struct err *err)
{
    used_bytes = 0;
    if (most == 0)
        return 0;
    if (nftw(home, count_used, WALK_DESCRIPTORS, FTW_PHYS | FTW_MOUNT) != 0)
        return fault_set(err, "look at what lies in", home);
    if (used_bytes < most && bytes <= most - used_bytes)
        return 0;
    return err_set(err, ERR_FULL,
                   "%s has %" PRIu64 " bytes already, the last checkpoint took %" PRIu64
                   ", and one user may have %" PRIu64 " there (memory.user_max_bytes): remove what "
                   "no checkpoint needs",
                   home, used_bytes, bytes, most);
}

int reserve_folder(const char *home, const char *name, uint64_t bytes, uint64_t most,
                   struct err *err)
{
    int fd = open_memory(home, err), out = -1, result;

    if (fd < 0)
        return -1;
    CHECK(strchr(name, '/') == NULL && name[0] != '.');
    result =
        mkdirat(fd, "out", 0700) == 0 || errno == EEXIST ? 0 : fault_set(err, "mkdir out in", home);
    if (result == 0) {
        out = openat(fd, "out", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        result = out >= 0 ? 0 : fault_set(err, "open out in", home);
    }
    if (result == 0)
        result = tree_remove(out, name, err);
    if (result == 0)
        result = check_room(fd, home, bytes, err);
    if (result == 0)
        result = check_share(home, bytes, most, err);
    if (result == 0 && mkdirat(out, name, 0700) != 0)
        result = fault_set(err, "mkdir", name);
    if (out >= 0)
        close(out);
    close(fd);
    return result;
}
