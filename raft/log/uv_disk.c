/* The disk table over POSIX calls and libuv's thread pool. See uv_io.h and io_ops.h.
 *
 * Flow     submit() queues to the pool.
 * Shapes   a lock is an open file under flock(2).
 * Errors   ENOSPC and EDQUOT are ERR_FULL, a missing file ERR_NOT_FOUND, everything else ERR_DISK.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/base/check.h"
#include "src/base/lockfile.h"

struct disk_file {
    int fd;
};

struct disk_lock {
    int fd;
};

static int fail_errno(struct err *err, const char *what, const char *path)
{
    int number = errno;
    enum err_code code = ERR_DISK;

    if (number == ENOSPC || number == EDQUOT)
        code = ERR_FULL;
    else if (number == ENOENT)
        code = ERR_NOT_FOUND;
    return err_set(err, code, "%s %s: %s", what, path, strerror(number));
}

/* ---- folders ---- */

/* 0700: the folder holds the whole state, and nobody else on the machine is to read it. */
static int real_make_dir(void *context, const char *path, struct err *err)
{
    (void)context;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return fail_errno(err, "create folder", path);
    return 0;
}

static int real_list_dir(void *context, const char *path,
                         void (*visit)(void *data, const char *name), void *data, struct err *err)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    (void)context;
    if (dir == NULL)
        return fail_errno(err, "open folder", path);
    while (errno = 0, (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            visit(data, entry->d_name);
    if (errno != 0) {
        fail_errno(err, "read folder", path);
        closedir(dir);
        return -1;
    }
    closedir(dir);
    return 0;
}

static int real_sync_dir(void *context, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = 0;

    (void)context;
    if (fd < 0)
        return fail_errno(err, "open folder", path);
    if (fsync(fd) != 0)
        status = fail_errno(err, "sync folder", path);
    close(fd);
    return status;
}

static int real_rename(void *context, const char *from, const char *to, struct err *err)
{
    (void)context;
    return rename(from, to) == 0 ? 0 : fail_errno(err, "rename to", to);
}

static int real_unlink(void *context, const char *path, struct err *err)
{
    (void)context;
    return unlink(path) == 0 ? 0 : fail_errno(err, "remove", path);
}

static int real_lock(void *context, const char *path, struct disk_lock **ret_lock, struct err *err)
{
    struct disk_lock *lock;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)context;
    if (fd < 0)
        return fail_errno(err, "open lock", path);
    if (lockfile_take(fd) != 0) {
        int number = errno;
        close(fd);
        if (number == EWOULDBLOCK)
            return err_set(err, ERR_LOCKED,
                           "%s is locked: another process uses this folder; stop it first", path);
        errno = number;
        return fail_errno(err, "lock", path);
    }
    lock = check_alloc(sizeof(*lock));
    lock->fd = fd;
    *ret_lock = lock;
    return 0;
}

static void real_unlock(void *context, struct disk_lock *lock)
{
    (void)context;
    if (lock == NULL)
        return;
    close(lock->fd);
    free(lock);
}

/* What is free to a process without privileges. A file system that cannot tell is not taken for
 * full. */
static uint64_t real_free_bytes(void *context, const char *path)
{
    struct statvfs stat;

    (void)context;
    if (statvfs(path, &stat) != 0)
        return UINT64_MAX;
    return (uint64_t)stat.f_bavail * stat.f_frsize;
}

/* Without what is reserved for root, so that a disk that is full to us is full to its share. */
static uint64_t real_total_bytes(void *context, const char *path)
{
    struct statvfs stat;

    (void)context;
    if (statvfs(path, &stat) != 0)
        return 0;
    return (uint64_t)(stat.f_blocks - stat.f_bfree + stat.f_bavail) * stat.f_frsize;
}

/* ---- files ---- */

static int real_open(void *context, const char *path, enum disk_open_mode mode,
                     struct disk_file **ret_file, struct err *err)
{
    int flags = O_CLOEXEC;
    struct disk_file *file;
    int fd;

    (void)context;
    switch (mode) {
    case DISK_OPEN_READ:
        flags |= O_RDONLY;
        break;
    case DISK_OPEN_WRITE:
        flags |= O_RDWR;
        break;
    case DISK_OPEN_CREATE:
        flags |= O_RDWR | O_CREAT | O_TRUNC;
        break;
    }
    fd = open(path, flags, 0600);
    if (fd < 0)
        return fail_errno(err, "open", path);
    file = check_alloc(sizeof(*file));
    file->fd = fd;
    *ret_file = file;
    return 0;
}

static void real_close(struct disk_file *file)
{
    if (file == NULL)
        return;
    close(file->fd);
    free(file);
}

static int real_size(struct disk_file *file, uint64_t *ret_bytes, struct err *err)
{
    struct stat stat;

    if (fstat(file->fd, &stat) != 0)
        return fail_errno(err, "stat", "file");
    *ret_bytes = (uint64_t)stat.st_size;
    return 0;
}

/* Signals and the kernel may give less than was asked for; only the end of the file is a short read
 * to the caller. */
static int real_read(struct disk_file *file, uint64_t offset, void *bytes, size_t length,
                     size_t *ret_length, struct err *err)
{
    size_t got = 0;

    while (got < length) {
        ssize_t n = pread(file->fd, (char *)bytes + got, length - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "read", "file");
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_length = got;
    return 0;
}

static int real_write(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                      struct err *err)
{
    size_t put = 0;

    while (put < length) {
        ssize_t n =
            pwrite(file->fd, (const char *)bytes + put, length - put, (off_t)(offset + put));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_errno(err, "write", "file");
        put += (size_t)n;
    }
    return 0;
}

/* fdatasync() is enough: it leaves out the times alone, and writes a changed size. */
static int real_sync(struct disk_file *file, struct err *err)
{
    return fdatasync(file->fd) == 0 ? 0 : fail_errno(err, "sync", "file");
}

/* One call instead of two: on a log that is synced for each group of entries that is a tenth of the
 * time. */
static int real_write_sync(struct disk_file *file, uint64_t offset, const void *bytes,
                           size_t length, struct err *err)
{
    size_t put = 0;

    while (put < length) {
        struct iovec part = {(char *)(uintptr_t)bytes + put, length - put};
        ssize_t n = pwritev2(file->fd, &part, 1, (off_t)(offset + put), RWF_DSYNC);
        if (n < 0 && errno == EINTR)
            continue;
        /* File systems and kernels without the flag get the two calls. */
        if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
            return real_write(file, offset, bytes, length, err) != 0 ? -1 : real_sync(file, err);
        if (n <= 0)
            return fail_errno(err, "write and sync", "file");
        put += (size_t)n;
    }
    return 0;
}

/* The call allocates blocks and not only a size: a full disk says so here, and not at a later write
 * of the log. */
static int real_allocate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    int number = posix_fallocate(file->fd, 0, (off_t)bytes);

    if (number == 0)
        return 0;
    errno = number;
    return fail_errno(err, "allocate", "file");
}

enum { ZEROS_BYTES = 1 << 16 };

static int real_write_zeros(struct disk_file *file, uint64_t bytes, struct err *err)
{
    static const uint8_t zeros[ZEROS_BYTES];

    for (uint64_t offset = 0; offset < bytes; offset += sizeof(zeros)) {
        uint64_t left = bytes - offset;
        size_t length = left < sizeof(zeros) ? (size_t)left : sizeof(zeros);

        if (real_write(file, offset, zeros, length, err) != 0)
            return -1;
    }
    return 0;
}

static int real_truncate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    return ftruncate(file->fd, (off_t)bytes) == 0 ? 0 : fail_errno(err, "truncate", "file");
}

/* ---- work off the loop ---- */

struct submission {
    uv_work_t work;
    struct disk_job *job;
};

static void submission_work(uv_work_t *work)
{
    struct submission *submission = work->data;

    submission->job->work(submission->job);
}

static void submission_done(uv_work_t *work, int status)
{
    struct submission *submission = work->data;
    struct disk_job *job = submission->job;

    CHECK(status == 0); /* nothing cancels */
    free(submission);
    job->done(job);
}

static void real_submit(void *context, struct disk_job *job)
{
    struct submission *submission = check_alloc(sizeof(*submission));

    CHECK(context != NULL);
    submission->job = job;
    submission->work.data = submission;
    CHECK(uv_queue_work(context, &submission->work, submission_work, submission_done) == 0);
}

void disk_uv_ops(uv_loop_t *loop, struct disk_ops *ret_ops)
{
    CHECK(ret_ops != NULL); /* no loop: nothing is ever submitted */
    *ret_ops = (struct disk_ops){
        .context = loop,
        .make_dir = real_make_dir,
        .list_dir = real_list_dir,
        .sync_dir = real_sync_dir,
        .rename = real_rename,
        .unlink = real_unlink,
        .lock = real_lock,
        .unlock = real_unlock,
        .free_bytes = real_free_bytes,
        .total_bytes = real_total_bytes,
        .open = real_open,
        .close = real_close,
        .size = real_size,
        .read = real_read,
        .write = real_write,
        .write_sync = real_write_sync,
        .allocate = real_allocate,
        .write_zeros = real_write_zeros,
        .truncate = real_truncate,
        .sync = real_sync,
        .submit = real_submit,
    };
}
