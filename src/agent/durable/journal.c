/* An append-only file of checksummed records. See journal.h. */
#include "src/agent/durable/journal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/io_ops.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { JOURNAL_FILE_MAX_BYTES = 1 << 28, JOURNAL_ROOM_BYTES = 1 << 16 };

enum { JOURNAL_NAME_BYTES = 6 }; /* of the magic bytes; the rest is the version of the format */
static const uint8_t journal_magic[JOURNAL_HEAD_BYTES] = {'C', 'K', 'P', 'T', 'A', 'J', '0', '2'};
static const uint32_t journal_mark =
    0x4a726563; /* where to look for a valid record behind a wrong one */

struct journal {
    const struct disk_ops *disk;
    char *folder;
    struct disk_lock *lock;
    struct disk_file *file;
    size_t bytes;
    size_t room_bytes; /* so long is the file: behind its records are zeros, durable ones */
};

void journal_head(struct buf *content)
{
    buf_append(content, journal_magic, sizeof(journal_magic));
}

void journal_frame(struct buf *content, const uint8_t *body, size_t length)
{
    uint8_t head[JOURNAL_RECORD_HEAD_BYTES];

    CHECK(length > 0 && length <= JOURNAL_RECORD_MAX_BYTES);
    bytes_put(head, journal_mark, 4);
    bytes_put(head + 4, (uint32_t)length, 4);
    bytes_put(head + 8, crc32c(crc32c(0, head + 4, 4), body, length), 4);
    buf_append(content, head, sizeof(head));
    buf_append(content, body, length);
}

/* Length of the valid record's body at `bytes`, or 0. */
static size_t record_at(const uint8_t *bytes, size_t length)
{
    uint32_t body;

    if (length < JOURNAL_RECORD_HEAD_BYTES || (uint32_t)bytes_get(bytes, 4) != journal_mark)
        return 0;
    body = (uint32_t)bytes_get(bytes + 4, 4);
    if (body == 0 || body > JOURNAL_RECORD_MAX_BYTES || body > length - JOURNAL_RECORD_HEAD_BYTES)
        return 0;
    if ((uint32_t)bytes_get(bytes + 8, 4) !=
        crc32c(crc32c(0, bytes + 4, 4), bytes + JOURNAL_RECORD_HEAD_BYTES, body))
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

static int head_check(const uint8_t *bytes, size_t length, struct err *err)
{
    if (length < JOURNAL_HEAD_BYTES || memcmp(bytes, journal_magic, JOURNAL_NAME_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "not an agent's journal (%zu bytes); move it away to start without it",
                       length);
    if (memcmp(bytes, journal_magic, JOURNAL_HEAD_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "a journal of format \"%.2s\", this agent reads \"%.2s\"; start the agent "
                       "that wrote it, or move it away to start without it",
                       (const char *)bytes + JOURNAL_NAME_BYTES,
                       (const char *)journal_magic + JOURNAL_NAME_BYTES);
    return 0;
}

int journal_scan(const uint8_t *bytes, size_t length, journal_record_fn *record, void *data,
                 size_t *ret_valid_bytes, struct err *err)
{
    size_t at = JOURNAL_HEAD_BYTES;

    if (head_check(bytes, length, err) != 0)
        return -1;
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

/* ---- the file ---- */

static void journal_path(const struct journal *journal, const char *name, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s", journal->folder, name);

    CHECK(length > 0 && length < PATH_MAX); /* of the configuration, which is shorter */
}

int journal_rewrite(struct journal *journal, const struct buf *content, struct err *err)
{
    const struct disk_ops *disk = journal->disk;
    struct disk_file *file;
    char temporary[PATH_MAX];
    char final[PATH_MAX];

    CHECK(content->length >= JOURNAL_HEAD_BYTES);
    journal_path(journal, "journal.new", temporary);
    journal_path(journal, "journal", final);
    if (disk->open(disk->context, temporary, DISK_OPEN_CREATE, &file, err) != 0)
        return -1;
    if (disk->write(file, 0, content->bytes, content->length, err) != 0 ||
        disk->sync(file, err) != 0 || disk->rename(disk->context, temporary, final, err) != 0 ||
        disk->sync_dir(disk->context, journal->folder, err) != 0) {
        disk->close(file);
        return err_wrap(err, "%s", temporary);
    }
    disk->close(journal->file);
    journal->file = file;
    journal->bytes = journal->room_bytes = content->length;
    return 0;
}

static int journal_begin(struct journal *journal, struct err *err)
{
    struct buf content;
    int result;

    buf_init(&content);
    journal_head(&content);
    result = journal_rewrite(journal, &content, err);
    buf_close(&content);
    return result;
}

static int read_content(struct journal *journal, struct buf *content, struct err *err)
{
    const struct disk_ops *disk = journal->disk;
    uint64_t size;
    size_t got;

    if (disk->size(journal->file, &size, err) != 0)
        return -1;
    if (size > JOURNAL_FILE_MAX_BYTES)
        return err_set(err, ERR_CORRUPT, "journal has %" PRIu64 " bytes, at most %d are expected",
                       size, JOURNAL_FILE_MAX_BYTES);
    buf_extend(content, size);
    if (disk->read(journal->file, 0, content->bytes, content->length, &got, err) != 0)
        return -1;
    return got == content->length ? 0 : err_set(err, ERR_IO, "the journal became shorter");
}

/* What was read may be in memory only: the process before died between its write and its sync, or
 * of a sync that failed, after which the system calls the bytes clean. Before anything is built
 * upon them they are written again, and the name with them. */
static int content_settle(struct journal *journal, const struct buf *content, struct err *err)
{
    const struct disk_ops *disk = journal->disk;

    if (journal->bytes < content->length && disk->truncate(journal->file, journal->bytes, err) != 0)
        return err_wrap(err, "cut the torn tail");
    if (disk->write(journal->file, 0, content->bytes, journal->bytes, err) != 0 ||
        disk->sync(journal->file, err) != 0 ||
        disk->sync_dir(disk->context, journal->folder, err) != 0)
        return err_wrap(err, "write the journal again");
    return 0;
}

static int journal_load(struct journal *journal, journal_record_fn *record, void *data,
                        struct err *err)
{
    struct buf content;
    int result;

    buf_init(&content);
    result = read_content(journal, &content, err);
    if (result == 0)
        result = journal_scan(content.bytes, content.length, record, data, &journal->bytes, err);
    if (result == 0)
        result = content_settle(journal, &content, err);
    journal->room_bytes = journal->bytes;
    buf_close(&content);
    return result;
}

static int journal_start(struct journal *journal, journal_record_fn *record, void *data,
                         struct err *err)
{
    const struct disk_ops *disk = journal->disk;
    struct err absent;
    char path[PATH_MAX];

    journal_path(journal, "lock", path);
    if (disk->lock(disk->context, path, &journal->lock, err) != 0)
        return -1;
    journal_path(journal, "journal", path);
    if (disk->open(disk->context, path, DISK_OPEN_WRITE, &journal->file, &absent) == 0)
        return journal_load(journal, record, data, err);
    journal->file = NULL;
    if (absent.code == ERR_NOT_FOUND)
        return journal_begin(journal, err);
    *err = absent;
    return -1;
}

int journal_open(const struct disk_ops *disk, const char *folder, journal_record_fn *record,
                 void *data, struct journal **ret_journal, struct err *err)
{
    struct journal *journal = check_calloc(1, sizeof(*journal));

    journal->disk = disk;
    journal->folder = check_strdup(folder);
    if (journal_start(journal, record, data, err) != 0) {
        err_wrap(err, "%s", folder);
        journal_close(journal);
        return -1;
    }
    *ret_journal = journal;
    return 0;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    journal->disk->close(journal->file);
    journal->disk->unlock(journal->disk->context, journal->lock);
    free(journal->folder);
    free(journal);
}

/* The file grows, and so does the room behind the frame. */
static int append_with_room(struct journal *journal, const struct buf *frame, struct err *err)
{
    static const uint8_t zeros[JOURNAL_ROOM_BYTES];
    const struct disk_ops *disk = journal->disk;
    size_t end = journal->bytes + frame->length;

    if (disk->write(journal->file, journal->bytes, frame->bytes, frame->length, err) != 0 ||
        disk->write(journal->file, end, zeros, sizeof(zeros), err) != 0 ||
        disk->sync(journal->file, err) != 0)
        return -1;
    journal->room_bytes = end + sizeof(zeros);
    return 0;
}

int journal_append(struct journal *journal, const uint8_t *body, size_t length, struct err *err)
{
    struct buf frame;
    int result;

    buf_init(&frame);
    journal_frame(&frame, body, length);
    result = journal->bytes + frame.length > journal->room_bytes
                 ? append_with_room(journal, &frame, err)
                 : journal->disk->write_sync(journal->file, journal->bytes, frame.bytes,
                                             frame.length, err);
    if (result == 0)
        journal->bytes += frame.length;
    buf_close(&frame);
    return result == 0 ? 0 : err_wrap(err, "%s/journal", journal->folder);
}

size_t journal_bytes(const struct journal *journal)
{
    return journal->bytes;
}
