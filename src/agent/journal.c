/* An append-only file of checksummed records. See journal.h. */
#include "src/agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdbool.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/base/lockfile.h"

enum { JOURNAL_PATH_BYTES = 4096, JOURNAL_FILE_MAX_BYTES = 1 << 28 };

static const uint8_t journal_magic[JOURNAL_HEAD_BYTES] = {'C', 'K', 'P', 'T', 'A', 'J', '0', '1'};
static const uint32_t journal_mark =
    0x4a726563; /* where to look for a valid record behind a wrong one */

struct journal {
    int folder_fd;
    int lock_fd;
    int fd;
    size_t bytes;
};

/* CRC32C, bit by bit: the records are small and few. */
static uint32_t journal_crc(uint32_t crc, const uint8_t *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (UINT32_C(0x82f63b78) & (0 - (crc & 1)));
    }
    return ~crc;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

void journal_head(struct buf *content)
{
    buf_append(content, journal_magic, sizeof(journal_magic));
}

void journal_frame(struct buf *content, const uint8_t *body, size_t length)
{
    uint8_t head[JOURNAL_RECORD_HEAD_BYTES];

    CHECK(length > 0 && length <= JOURNAL_RECORD_MAX_BYTES);
    put_u32(head, journal_mark);
    put_u32(head + 4, (uint32_t)length);
    put_u32(head + 8, journal_crc(journal_crc(0, head + 4, 4), body, length));
    buf_append(content, head, sizeof(head));
    buf_append(content, body, length);
}

/* Length of the valid record's body at `bytes`, or 0. */
static size_t record_at(const uint8_t *bytes, size_t length)
{
    uint32_t body;

    if (length < JOURNAL_RECORD_HEAD_BYTES || get_u32(bytes) != journal_mark)
        return 0;
    body = get_u32(bytes + 4);
    if (body == 0 || body > JOURNAL_RECORD_MAX_BYTES || body > length - JOURNAL_RECORD_HEAD_BYTES)
        return 0;
    if (get_u32(bytes + 8) !=
        journal_crc(journal_crc(0, bytes + 4, 4), bytes + JOURNAL_RECORD_HEAD_BYTES, body))
        return 0;
    return body;
}

static bool valid_record_behind(const uint8_t *bytes, size_t length)
{
    for (size_t at = 1; at < length; at++) {
        if (record_at(bytes + at, length - at) > 0)
            return true;
    }
    return false;
}

int journal_scan(const uint8_t *bytes, size_t length, journal_record_fn *record, void *data,
                 size_t *ret_valid_bytes, struct err *err)
{
    size_t at = JOURNAL_HEAD_BYTES;

    if (length < JOURNAL_HEAD_BYTES || memcmp(bytes, journal_magic, JOURNAL_HEAD_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "not an agent journal, or of another version (%zu bytes); move it away to "
                       "start without it",
                       length);
    while (at < length) {
        size_t body = record_at(bytes + at, length - at);
        if (body == 0) {
            if (valid_record_behind(bytes + at, length - at))
                return err_set(err, ERR_CORRUPT,
                               "the record at byte %zu of %zu is damaged and valid ones follow; "
                               "restore the file, or move it away to start without it",
                               at, length);
            break;
        }
        if (record(data, bytes + at + JOURNAL_RECORD_HEAD_BYTES, body, err) != 0)
            return err_wrap(err, "record at byte %zu", at);
        at += JOURNAL_RECORD_HEAD_BYTES + body;
    }
    *ret_valid_bytes = at;
    return 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t length, struct err *err)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return err_set(err, errno == ENOSPC ? ERR_FULL : ERR_IO, "write journal: %s",
                           strerror(errno));
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

static int replace_file(struct journal *journal, const struct buf *content, struct err *err)
{
    int fd =
        openat(journal->folder_fd, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, ERR_IO, "create journal.new: %s", strerror(errno));
    if (write_all(fd, content->bytes, content->length, err) != 0)
        goto fail;
    if (fdatasync(fd) != 0 ||
        renameat(journal->folder_fd, "journal.new", journal->folder_fd, "journal") != 0 ||
        fsync(journal->folder_fd) != 0) {
        err_set(err, ERR_IO, "replace journal: %s", strerror(errno));
        goto fail;
    }
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = fd;
    journal->bytes = content->length;
    return 0;
fail:
    close(fd);
    return -1;
}

int journal_rewrite(struct journal *journal, const struct buf *content, struct err *err)
{
    CHECK(content->length >= JOURNAL_HEAD_BYTES);
    return replace_file(journal, content, err);
}

static int read_file(struct journal *journal, struct buf *content, struct err *err)
{
    struct stat stat;
    ssize_t got;

    if (fstat(journal->fd, &stat) != 0)
        return err_set(err, ERR_IO, "stat journal: %s", strerror(errno));
    if (stat.st_size > JOURNAL_FILE_MAX_BYTES)
        return err_set(err, ERR_CORRUPT, "journal has %lld bytes, at most %d are expected",
                       (long long)stat.st_size, JOURNAL_FILE_MAX_BYTES);
    buf_extend(content, (size_t)stat.st_size);
    for (size_t at = 0; at < content->length; at += (size_t)got) {
        got = pread(journal->fd, content->bytes + at, content->length - at, (off_t)at);
        if (got <= 0)
            return err_set(err, ERR_IO, "read journal: %s", got == 0 ? "short" : strerror(errno));
    }
    return 0;
}

static int load_file(struct journal *journal, journal_record_fn *record, void *data,
                     struct err *err)
{
    struct buf content;
    int result = -1;

    buf_init(&content);
    if (read_file(journal, &content, err) != 0)
        goto done;
    if (journal_scan(content.bytes, content.length, record, data, &journal->bytes, err) != 0)
        goto done;
    if (journal->bytes < content.length &&
        (ftruncate(journal->fd, (off_t)journal->bytes) != 0 || fdatasync(journal->fd) != 0)) {
        err_set(err, ERR_IO, "cut the torn tail: %s", strerror(errno));
        goto done;
    }
    result = 0;
done:
    buf_close(&content);
    return result;
}

static int lock_folder(struct journal *journal, struct err *err)
{
    journal->lock_fd = openat(journal->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->lock_fd < 0)
        return err_set(err, ERR_IO, "create lock: %s", strerror(errno));
    if (lockfile_take(journal->lock_fd) != 0)
        return errno == EWOULDBLOCK ? err_set(err, ERR_LOCKED, "another agent holds this folder")
                                    : err_set(err, ERR_IO, "lock: %s", strerror(errno));
    return 0;
}

static int open_file(struct journal *journal, journal_record_fn *record, void *data,
                     struct err *err)
{
    struct buf content;
    int result;

    journal->fd = openat(journal->folder_fd, "journal", O_RDWR | O_CLOEXEC);
    if (journal->fd >= 0)
        return load_file(journal, record, data, err);
    if (errno != ENOENT)
        return err_set(err, ERR_IO, "open journal: %s", strerror(errno));
    buf_init(&content);
    journal_head(&content);
    result = replace_file(journal, &content, err);
    buf_close(&content);
    return result;
}

int journal_open(const char *folder, journal_record_fn *record, void *data,
                 struct journal **ret_journal, struct err *err)
{
    struct journal *journal = check_calloc(1, sizeof(*journal));

    journal->lock_fd = -1;
    journal->fd = -1;
    journal->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal->folder_fd < 0) {
        err_set(err, ERR_IO, "open: %s", strerror(errno));
        goto fail;
    }
    if (lock_folder(journal, err) != 0 || open_file(journal, record, data, err) != 0)
        goto fail;
    *ret_journal = journal;
    return 0;
fail:
    err_wrap(err, "%s", folder);
    journal_close(journal);
    return -1;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    if (journal->fd >= 0)
        close(journal->fd);
    if (journal->lock_fd >= 0)
        close(journal->lock_fd);
    if (journal->folder_fd >= 0)
        close(journal->folder_fd);
    free(journal);
}

int journal_append(struct journal *journal, const uint8_t *body, size_t length, struct err *err)
{
    struct buf frame;
    int result;

    buf_init(&frame);
    journal_frame(&frame, body, length);
    result = lseek(journal->fd, (off_t)journal->bytes, SEEK_SET) < 0
                 ? err_set(err, ERR_IO, "seek journal: %s", strerror(errno))
                 : write_all(journal->fd, frame.bytes, frame.length, err);
    if (result == 0 && fdatasync(journal->fd) != 0)
        result = err_set(err, ERR_IO, "fsync journal: %s", strerror(errno));
    if (result == 0)
        journal->bytes += frame.length;
    buf_close(&frame);
    return result;
}

size_t journal_bytes(const struct journal *journal)
{
    return journal->bytes;
}
