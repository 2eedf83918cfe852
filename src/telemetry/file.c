/* See file.h. */
#include "src/telemetry/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, const char *path, size_t max_bytes, struct buf *text, struct err *err)
{
    char part[16384];
    ssize_t length;

    while ((length = read(fd, part, sizeof(part))) != 0) {
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return err_set(err, ERR_IO, "read %s: %s", path, strerror(errno));
        if (text->length + (size_t)length > max_bytes)
            return err_set(err, ERR_FULL, "%s is longer than %zu bytes", path, max_bytes);
        buf_append(text, part, (size_t)length);
    }
    return 0;
}

int file_read(const char *path, size_t max_bytes, enum file_kind kind, struct buf *ret_text,
              struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang the caller */
    struct stat stat;
    int result;

    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "open %s: %s", path,
                       strerror(errno));
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        close(fd);
        return err_set(err, ERR_INVALID, "%s is no regular file", path);
    }
    if (kind == FILE_SECRET && (stat.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        close(fd);
        return err_set(err, ERR_REFUSED, "%s may be read by others (mode %03o): chmod 600 %s", path,
                       (unsigned)stat.st_mode & 0777, path);
    }
    buf_init(ret_text);
    result = read_all(fd, path, max_bytes, ret_text, err);
    if (result != 0)
        buf_close(ret_text);
    close(fd);
    return result;
}
