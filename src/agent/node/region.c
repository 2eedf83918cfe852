/* A region of memory that an application and its agent share. See region.h. */
#include "src/agent/node/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/agent/node/user.h"
#include "src/ask/region.h"
#include "src/base/check.h"

/* The next odd word, from an even one. */
enum { RAISE_BY = 3 };

/* Nobody but root and the file's own user may put another one in its place. */
static bool keeps_names(int folder)
{
    struct stat stat;

    return fstat(folder, &stat) == 0 && stat.st_uid == 0 &&
           ((stat.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (stat.st_mode & S_ISVTX) != 0);
}

static int region_missing(const struct machine_region *region, int number, struct err *err)
{
    if (number == ENOENT)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no shared memory at %s, where ckpt-run makes it at the start: "
                       "start the job anew, with a ckpt-run that sees the /dev/shm of its agent",
                       region->path);
    return err_set(err, number == ELOOP || number == EXDEV ? ERR_INVALID : ERR_IO,
                   "the shared memory %s cannot be opened: %s%s", region->path, strerror(number),
                   number == ELOOP || number == EXDEV ? " (it is a link or a mount: remove it)"
                                                      : "");
}

static int region_judge(const struct machine_region *region, int fd, struct err *err)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return err_set(err, ERR_IO, "the shared memory %s: %s", region->path, strerror(errno));
    if (!S_ISREG(stat.st_mode) || stat.st_uid != region->user.uid)
        return err_set(err, ERR_INVALID,
                       "the shared memory %s is no file of the job's user %u but of %u: remove it, "
                       "and start the job anew",
                       region->path, (unsigned)region->user.uid, (unsigned)stat.st_uid);
    if (stat.st_size != ASK_REGION_BYTES)
        return err_set(err, ERR_INVALID,
                       "the shared memory %s has %lld bytes and not %d: it was cut, or another "
                       "release made it; start the job anew",
                       region->path, (long long)stat.st_size, ASK_REGION_BYTES);
    return 0;
}

static int open_below(const struct machine_region *region, int folder, const char *name,
                      struct err *err)
{
    const struct opened opened = {folder};
    int fd, number;

    user_enter(region->user.uid, region->user.gid);
    fd = opened_at(&opened, name, O_RDWR | O_NONBLOCK, 0);
    number = errno;
    user_leave();
    if (fd < 0)
        return region_missing(region, number, err);
    if (region_judge(region, fd, err) == 0)
        return fd;
    close(fd);
    return -1;
}

static int region_open(const struct machine_region *region, struct err *err)
{
    const char *name = ask_region_name(region->path);
    int folder = open(ASK_REGION_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;

    CHECK(name != NULL);
    if (folder < 0)
        return err_set(err, ERR_IO, "the folder %s: %s", ASK_REGION_FOLDER, strerror(errno));
    if (keeps_names(folder))
        fd = open_below(region, folder, name, err);
    else
        (void)err_set(err, ERR_INVALID,
                      "in %s others can replace files: it must be root's, with the sticky bit",
                      ASK_REGION_FOLDER);
    close(folder);
    return fd;
}

static bool is_users(int folder, const char *name, uid_t uid)
{
    struct stat stat;

    return fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && stat.st_uid == uid;
}

/* Whatever lies there goes to the new name, which nobody looks for: a folder of somebody cannot be
 * replaced by a file. 0, or errno. */
static int put_aside(int folder, const char *name, const char *other)
{
    if (renameat(folder, other, folder, name) == 0)
        return 0;
    if (renameat2(folder, other, folder, name, RENAME_EXCHANGE) != 0)
        return errno;
    if (unlinkat(folder, other, 0) != 0)
        (void)unlinkat(folder, other, AT_REMOVEDIR);
    return 0;
}

/* An empty file of the user at the name: by the folder's sticky bit nobody else can replace it. */
static int put_users(int folder, const char *name, const struct machine_user *user)
{
    char other[32];
    uint64_t random;
    int fd, failure;

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return EAGAIN;
    snprintf(other, sizeof(other), ".ckpt-%016" PRIx64, random);
    fd = openat(folder, other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    failure = fchown(fd, user->uid, user->gid) == 0 ? put_aside(folder, name, other) : errno;
    close(fd);
    if (failure != 0)
        (void)unlinkat(folder, other, 0);
    return failure;
}

int region_claim(const struct machine_region *region, struct err *err)
{
    const char *name = ask_region_name(region->path);
    int folder, failure = 0;

    CHECK(name != NULL);
    if (geteuid() != 0)
        return 0;
    folder = open(ASK_REGION_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_set(err, ERR_IO, "the folder %s: %s", ASK_REGION_FOLDER, strerror(errno));
    if (keeps_names(folder) && !is_users(folder, name, region->user.uid))
        failure = put_users(folder, name, &region->user);
    close(folder);
    return failure == 0 ? 0
                        : err_set(err, ERR_IO, "the shared memory %s cannot be claimed: %s",
                                  region->path, strerror(failure));
}

int region_read(const struct machine_region *region, size_t offset, void *ret_bytes, size_t length,
                struct err *err)
{
    int fd = region_open(region, err);
    ssize_t got;

    CHECK(offset + length <= ASK_REGION_BYTES);
    if (fd < 0)
        return -1;
    got = pread(fd, ret_bytes, length, (off_t)offset);
    close(fd);
    return got == (ssize_t)length
               ? 0
               : err_set(err, ERR_IO, "the shared memory %s cannot be read", region->path);
}

int region_write(const struct machine_region *region, size_t offset, const void *bytes,
                 size_t length, struct err *err)
{
    int fd = region_open(region, err);
    ssize_t written;

    CHECK(offset + length <= ASK_REGION_BYTES);
    if (fd < 0)
        return -1;
    written = pwrite(fd, bytes, length, (off_t)offset);
    close(fd);
    return written == (ssize_t)length
               ? 0
               : err_set(err, ERR_IO, "the shared memory %s cannot be written", region->path);
}

/* One operation on the word, and then all that wait on it are woken. The kernel does both, so that
 * a region that was cut meanwhile is EFAULT and no SIGBUS. */
static int word_change(void *word, uint32_t operation)
{
    return syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, (void *)0, word, operation) < 0 ? -1
                                                                                            : 0;
}

static int word_raise(void *word)
{
    if (word_change(word, FUTEX_OP(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_EQ, 0)) != 0)
        return -1;
    return word_change(word, FUTEX_OP(FUTEX_OP_ADD, RAISE_BY, FUTEX_OP_CMP_EQ, 0));
}

int region_change(const struct machine_region *region, enum ask_region_change change,
                  const size_t *offsets, size_t count, struct err *err)
{
    int fd = region_open(region, err);
    char *mapped;
    int failure = 0;

    if (fd < 0)
        return -1;
    mapped = mmap(NULL, ASK_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    failure = mapped == MAP_FAILED ? errno : 0;
    close(fd);
    for (size_t i = 0; i < count && failure == 0; i++) {
        CHECK(offsets[i] % sizeof(uint32_t) == 0);
        CHECK(offsets[i] < ASK_REGION_BYTES);
        if ((change == ASK_REGION_RAISE
                 ? word_raise(mapped + offsets[i])
                 : word_change(mapped + offsets[i],
                               FUTEX_OP(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_EQ, 0))) != 0)
            failure = errno;
    }
    if (mapped != MAP_FAILED)
        munmap(mapped, ASK_REGION_BYTES);
    return failure == 0 ? 0
                        : err_set(err, ERR_IO, "the shared memory %s cannot be changed: %s",
                                  region->path, strerror(failure));
}

void region_remove(const struct machine_region *region)
{
    const char *name = ask_region_name(region->path);
    int folder = open(ASK_REGION_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);

    CHECK(name != NULL);
    if (folder < 0)
        return;
    user_enter(region->user.uid, region->user.gid);
    (void)unlinkat(folder, name, 0); /* as that user: what is another one's stays */
    user_leave();
    close(folder);
}
