/* One file read to its end, hashed, optionally written. See copy.h. */
#include "src/dest/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"

/* Large enough for few calls, small enough to stay in a processor's cache between reading, hashing
 * and writing. */
enum { COPY_BUFFER_BYTES = 256 << 10 };

void copier_init(struct copier *copier, struct pace *pace)
{
    copier->buffer = check_alloc(COPY_BUFFER_BYTES);
    sha256_init(&copier->sha256);
    copier->pace = pace;
    copier->held = NULL;
}

void copier_close(struct copier *copier)
{
    free(copier->buffer);
    free(copier->held);
    copier->buffer = copier->held = NULL;
    sha256_close(&copier->sha256);
}

/* At the offset, or where the file stands when that is negative. */
static int write_all(struct copy_end to, const uint8_t *bytes, size_t length, off_t offset,
                     struct err *err)
{
    while (length > 0) {
        ssize_t written =
            offset < 0 ? write(to.fd, bytes, length) : pwrite(to.fd, bytes, length, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fault_set(err, "write", to.path);
        bytes += written;
        length -= (size_t)written;
        offset = offset < 0 ? offset : offset + written;
    }
    return 0;
}

/* Whether somebody wrote meanwhile: the size and the time of change tell, as for make(1). */
static bool same_moment(const struct stat *before, const struct stat *after)
{
    return before->st_size == after->st_size && before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == after->st_mtim.tv_nsec;
}

/* Reading alone goes at full speed: the grant is of writing. */
static int copy_stream(struct copier *copier, struct copy_end from, struct copy_end to,
                       uint64_t *ret_size_bytes, struct err *err)
{
    size_t chunk = to.fd < 0 ? COPY_BUFFER_BYTES : pace_piece(copier->pace, COPY_BUFFER_BYTES);
    uint64_t size_bytes = 0;

    for (;;) {
        ssize_t got = read(from.fd, copier->buffer, chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(err, "read", from.path);
        if (got == 0)
            break;
        sha256_update(&copier->sha256, copier->buffer, (size_t)got);
        size_bytes += (uint64_t)got;
        if (to.fd < 0)
            continue;
        if (write_all(to, copier->buffer, (size_t)got, -1, err) != 0)
            return -1;
        pace_book(copier->pace, (size_t)got);
    }
    *ret_size_bytes = size_bytes;
    return 0;
}

static int range_piece(struct copier *copier, struct copy_end from, struct copy_end to,
                       struct copy_range range, size_t *ret_length, struct err *err)
{
    size_t wanted = to.fd < 0 ? COPY_BUFFER_BYTES : pace_piece(copier->pace, COPY_BUFFER_BYTES);
    ssize_t got;

    if (wanted > range.length)
        wanted = (size_t)range.length;
    do
        got = pread(from.fd, copier->buffer, wanted, (off_t)range.offset);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fault_set(err, "read", from.path);
    if (got == 0)
        return err_set(err, ERR_IO, "%s became shorter while it was read", from.path);
    sha256_update(&copier->sha256, copier->buffer, (size_t)got);
    *ret_length = (size_t)got;
    if (to.fd < 0)
        return 0;
    if (write_all(to, copier->buffer, (size_t)got, (off_t)range.offset, err) != 0)
        return -1;
    pace_book(copier->pace, (size_t)got);
    return 0;
}

int copy_range(struct copier *copier, struct copy_end from, struct copy_end to,
               struct copy_range range, uint8_t ret_digest[SHA256_BYTES], struct err *err)
{
    size_t length = 0;

    sha256_start(&copier->sha256);
    while (range.length > 0) {
        if (range_piece(copier, from, to, range, &length, err) != 0)
            return -1;
        range.offset += length;
        range.length -= length;
    }
    sha256_finish(&copier->sha256, ret_digest);
    return 0;
}

int copy_hold(struct copier *copier, struct copy_end from, struct copy_range range,
              uint8_t *ret_digest, struct err *err)
{
    uint64_t done = 0;

    CHECK(range.length <= COPY_HELD_BYTES);
    if (copier->held == NULL)
        copier->held = check_alloc(COPY_HELD_BYTES);
    while (done < range.length) {
        ssize_t got = pread(from.fd, copier->held + done, (size_t)(range.length - done),
                            (off_t)(range.offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(err, "read", from.path);
        if (got == 0)
            return err_set(err, ERR_IO, "%s became shorter while it was read", from.path);
        done += (uint64_t)got;
    }
    if (ret_digest == NULL)
        return 0;
    sha256_start(&copier->sha256);
    sha256_update(&copier->sha256, copier->held, (size_t)range.length);
    sha256_finish(&copier->sha256, ret_digest);
    return 0;
}

int copy_release(struct copier *copier, struct copy_end to, struct copy_range range,
                 struct err *err)
{
    for (uint64_t done = 0; done < range.length;) {
        uint64_t left = range.length - done;
        size_t piece =
            pace_piece(copier->pace, left < COPY_BUFFER_BYTES ? (size_t)left : COPY_BUFFER_BYTES);
        if (write_all(to, copier->held + done, piece, (off_t)(range.offset + done), err) != 0)
            return -1;
        pace_book(copier->pace, piece);
        done += piece;
    }
    return 0;
}

int copy_file(struct copier *copier, struct copy_end from, struct copy_end to,
              uint64_t *ret_size_bytes, uint8_t ret_digest[SHA256_BYTES], struct err *err)
{
    struct stat before, after;
    uint64_t size_bytes = 0;

    if (fstat(from.fd, &before) != 0)
        return fault_set(err, "fstat", from.path);
    sha256_start(&copier->sha256);
    if (copy_stream(copier, from, to, &size_bytes, err) != 0)
        return -1;
    if (fstat(from.fd, &after) != 0)
        return fault_set(err, "fstat", from.path);
    if (!same_moment(&before, &after) || size_bytes != (uint64_t)after.st_size)
        return err_set(err, ERR_IO,
                       "%s changed while it was read; let the application finish writing before it "
                       "says done",
                       from.path);
    sha256_finish(&copier->sha256, ret_digest);
    *ret_size_bytes = size_bytes;
    return 0;
}
