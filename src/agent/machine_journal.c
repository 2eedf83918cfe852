/* The journal's file on a real disk: one process per folder, everything is synced before it returns. See machine.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/machine.h"
#include "src/base/check.h"
#include "src/base/lockfile.h"

enum { JOURNAL_FILE_MAX_BYTES = 1 << 28 };

struct journal_file {
    int folder_fd;
    int lock_fd;
    int fd; /* -1: not there yet */
};

static void file_close(struct journal_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->lock_fd >= 0)
        close(file->lock_fd);
    if (file->folder_fd >= 0)
        close(file->folder_fd);
    free(file);
}

static int lock_folder(struct journal_file *file, struct err *err)
{
    file->lock_fd = openat(file->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->lock_fd < 0)
        return err_set(err, ERR_IO, "create lock: %s", strerror(errno));
    if (lockfile_take(file->lock_fd) != 0)
        return errno == EWOULDBLOCK ? err_set(err, ERR_LOCKED, "another agent holds this folder")
                                    : err_set(err, ERR_IO, "lock: %s", strerror(errno));
    return 0;
}

static int read_content(const struct journal_file *file, struct buf *content, struct err *err)
{
    struct stat stat;
    uint8_t *bytes;
    ssize_t got;

    if (fstat(file->fd, &stat) != 0)
        return err_set(err, ERR_IO, "stat journal: %s", strerror(errno));
    if (stat.st_size > JOURNAL_FILE_MAX_BYTES)
        return err_set(err, ERR_CORRUPT, "journal has %lld bytes, at most %d are expected",
                       (long long)stat.st_size, JOURNAL_FILE_MAX_BYTES);
    bytes = buf_extend(content, (size_t)stat.st_size);
    for (size_t at = 0; at < (size_t)stat.st_size; at += (size_t)got) {
        got = pread(file->fd, bytes + at, (size_t)stat.st_size - at, (off_t)at);
        if (got <= 0)
            return err_set(err, ERR_IO, "read journal: %s", got == 0 ? "short" : strerror(errno));
    }
    return 0;
}

static int file_open(void *context, const char *folder, struct journal_file **ret_file,
                     bool *ret_exists, struct buf *content, struct err *err)
{
    struct journal_file *file = check_calloc(1, sizeof(*file));

    (void)context;
    file->lock_fd = file->fd = -1;
    file->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->folder_fd < 0) {
        err_set(err, ERR_IO, "open: %s", strerror(errno));
        goto fail;
    }
    if (lock_folder(file, err) != 0)
        goto fail;
    file->fd = openat(file->folder_fd, "journal", O_RDWR | O_CLOEXEC);
    if (file->fd < 0 && errno != ENOENT) {
        err_set(err, ERR_IO, "open journal: %s", strerror(errno));
        goto fail;
    }
    if (file->fd >= 0 && read_content(file, content, err) != 0)
        goto fail;
    *ret_exists = file->fd >= 0;
    *ret_file = file;
    return 0;
fail:
    file_close(file);
    return -1;
}

static int write_all(int fd, uint64_t offset, const uint8_t *bytes, size_t length, struct err *err)
{
    while (length > 0) {
        ssize_t written = pwrite(fd, bytes, length, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return err_set(err, errno == ENOSPC ? ERR_FULL : ERR_IO, "write journal: %s",
                           strerror(errno));
        bytes += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return 0;
}

static int file_write(struct journal_file *file, uint64_t offset, const void *bytes, size_t length,
                      struct err *err)
{
    if (write_all(file->fd, offset, bytes, length, err) != 0)
        return -1;
    return fdatasync(file->fd) == 0 ? 0
                                    : err_set(err, ERR_IO, "fsync journal: %s", strerror(errno));
}

static int file_cut(struct journal_file *file, uint64_t bytes, struct err *err)
{
    if (ftruncate(file->fd, (off_t)bytes) != 0 || fdatasync(file->fd) != 0)
        return err_set(err, ERR_IO, "cut the torn tail: %s", strerror(errno));
    return 0;
}

static int file_replace(struct journal_file *file, const void *bytes, size_t length,
                        struct err *err)
{
    int fd = openat(file->folder_fd, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, ERR_IO, "create journal.new: %s", strerror(errno));
    if (write_all(fd, 0, bytes, length, err) != 0)
        goto fail;
    if (fdatasync(fd) != 0 ||
        renameat(file->folder_fd, "journal.new", file->folder_fd, "journal") != 0 ||
        fsync(file->folder_fd) != 0) {
        err_set(err, ERR_IO, "replace journal: %s", strerror(errno));
        goto fail;
    }
    if (file->fd >= 0)
        close(file->fd);
    file->fd = fd;
    return 0;
fail:
    close(fd);
    return -1;
}

void machine_journal_ops(struct machine_ops *ops)
{
    ops->journal_open = file_open;
    ops->journal_write = file_write;
    ops->journal_cut = file_cut;
    ops->journal_replace = file_replace;
    ops->journal_close = file_close;
}
