/* Overwriting files before they go. See wipe.h. */
#include "src/dest/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
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
static bool writes_in_place(int file)
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

/* To where the blocks from `at` on are alike: those that another file has as well (reflinks of
 * XFS) are not written over, but exchanged for others. Where a file system cannot tell there are
 * none. */
static off_t alike_until(int fd, off_t at, off_t end, bool *ret_shared)
{
    union {
        struct fiemap map;
        char room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
    } ask = {
        .map = {.fm_start = (uint64_t)at, .fm_length = (uint64_t)(end - at), .fm_extent_count = 1}};
    const struct fiemap_extent *extent = ask.map.fm_extents;
    uint64_t until;

    *ret_shared = false;
    if (ioctl(fd, FS_IOC_FIEMAP, &ask.map) != 0 || ask.map.fm_mapped_extents == 0)
        return end;
    until = extent->fe_logical;
    if (until <= (uint64_t)at) {
        *ret_shared = (extent->fe_flags & FIEMAP_EXTENT_SHARED) != 0;
        until += extent->fe_length;
    }
    return until > (uint64_t)at && until < (uint64_t)end ? (off_t)until : end;
}

static int wipe_own(int fd, off_t at, off_t end, bool *left)
{
    while (at < end) {
        bool shared;
        off_t until = alike_until(fd, at, end, &shared);

        *left |= shared;
        if (!shared && wipe_range(fd, at, until) != 0)
            return -1;
        at = until;
    }
    return 0;
}

/* Holes have nothing to be overwritten, and no room. A file system that knows none has one range of
 * data. *ret_left: not all of it was overwritten. */
static int wipe_data(int fd, bool *ret_left)
{
    off_t end, at = 0;

    *ret_left = false;
    for (;;) {
        at = lseek(fd, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO ? fsync(fd) : -1; /* no more */
        end = lseek(fd, at, SEEK_HOLE);
        if (end < 0 || wipe_own(fd, at, end, ret_left) != 0)
            return -1;
        at = end;
    }
}

/* Then nothing more can be done for it, and its removal makes some. */
static bool is_without_room(void)
{
    return errno == ENOSPC || errno == EDQUOT;
}

/* When it has so many names, and no others, by which its bytes are somebody's still. They are
 * counted by what a server says as the file is opened. */
static int overwrite_file(int file, nlink_t names, const char *name, struct wipe_result *result,
                          struct err *err)
{
    struct stat status;
    int fd = open_to_write(file), done = 0;
    bool left;

    if (fd < 0)
        return fstat(file, &status) == 0 && status.st_nlink > names
                   ? 0
                   : fault_set(err, "overwrite", name);
    if (fstat(fd, &status) == 0 && status.st_nlink == names) {
        done = wipe_data(fd, &left);
        result->wiped = done == 0 && !left;
        result->unwiped = (done == 0 && left) || (done != 0 && is_without_room());
        if (done != 0 && !result->unwiped)
            fault_set(err, "overwrite", name);
    }
    if (close(fd) != 0 && done == 0)
        return fault_set(err, "overwrite", name);
    return result->unwiped ? 0 : done;
}

/* A file that had another name is held until its own is gone: of two removals that saw each other's
 * name, the later one finds none left. Others are closed before, since NFS would keep what is open
 * under a name of its own. */
static int remove_held(int parent, const char *at, int *file, const char *name,
                       struct wipe_result *result, struct err *err)
{
    bool in_place = writes_in_place(*file);
    struct stat status;

    if (in_place && overwrite_file(*file, 1, name, result, err) != 0)
        return -1;
    if (result->wiped || result->unwiped) {
        close(*file);
        *file = -1;
    }
    if (unlinkat(parent, at, 0) != 0)
        return errno == ENOENT ? 0 : fault_set(err, "unlink", name);
    result->removed = true;
    if (!in_place)
        result->unwiped = fstat(*file, &status) == 0 && status.st_nlink == 0 && status.st_size > 0;
    else if (*file >= 0 && overwrite_file(*file, 0, name, result, NULL) != 0)
        result->unwiped = true;
    return 0;
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
    struct wipe_result result = {0};
    struct stat status;

    *ret_result = result;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return 0; /* what removes it tells */
    if (in_folder && tree_temporary_name("file", "gone", hidden, err) != 0)
        return -1;
    if (in_folder && renameat(parent, name, parent, hidden) != 0) {
        ret_result->unwiped = is_without_room();
        return errno == ENOENT || ret_result->unwiped ? 0 : fault_set(err, "rename", name);
    }
    if (wipe_named(parent, in_folder ? hidden : name, name, &result, err) != 0) {
        if (in_folder)
            (void)renameat(parent, hidden, parent, name); /* who looks for it finds it */
        return -1;
    }
    *ret_result = result;
    return 0;
}
