/* Writes a backup file. See backup.h. */
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#include "src/backup/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/dest/sha256.h"

struct backup_writer {
    struct backup_sink sink;
    struct sha256 sha256;
    uint8_t raw[BACKUP_CHUNK_BYTES];
    size_t raw_length;
    uint8_t stored[FORMAT_CHUNK_HEAD_BYTES + LZ4_COMPRESSBOUND(BACKUP_CHUNK_BYTES)];
    uint64_t raw_total;
    uint64_t chunk_count;
    bool begun, ended;
};

struct backup_writer *backup_writer_new(const struct backup_sink *sink)
{
    struct backup_writer *writer = check_calloc(1, sizeof(*writer));

    writer->sink = *sink;
    sha256_init(&writer->sha256);
    sha256_start(&writer->sha256);
    return writer;
}

void backup_writer_free(struct backup_writer *writer)
{
    if (writer == NULL)
        return;
    sha256_close(&writer->sha256);
    free(writer);
}

/* Everything but the digest itself goes through here. */
static int sink_put(struct backup_writer *writer, const void *bytes, size_t length, struct err *err)
{
    sha256_update(&writer->sha256, bytes, length);
    return writer->sink.write(writer->sink.context, bytes, length, err);
}

int backup_writer_begin(struct backup_writer *writer, const Ckpt__V1__BackupHeader *header,
                        struct err *err)
{
    size_t length = ckpt__v1__backup_header__get_packed_size(header);
    struct buf buf;
    int status;

    CHECK(!writer->begun && length <= BACKUP_HEADER_MAX_BYTES);
    writer->begun = true;
    buf_init(&buf);
    buf_append(&buf, FORMAT_MAGIC, FORMAT_MAGIC_BYTES);
    buf_put(&buf, BACKUP_VERSION, 4);
    buf_put(&buf, length, 4);
    ckpt__v1__backup_header__pack(header, buf_extend(&buf, length));
    buf_put(&buf, crc32c(0, buf.bytes, buf.length), 4);
    status = sink_put(writer, buf.bytes, buf.length, err);
    buf_close(&buf);
    return status;
}

/* Incompressible bytes are stored as they are: a chunk never takes more than its raw bytes and the
 * head. */
static int chunk_put(struct backup_writer *writer, struct err *err)
{
    uint8_t *body = writer->stored + FORMAT_CHUNK_HEAD_BYTES;
    size_t raw = writer->raw_length, stored = 0;

    if (raw > 0)
        stored =
            (size_t)LZ4_compress_default((const char *)writer->raw, (char *)body, (int)raw,
                                         (int)(sizeof(writer->stored) - FORMAT_CHUNK_HEAD_BYTES));
    if (raw > 0 && (stored == 0 || stored >= raw)) {
        memcpy(body, writer->raw, raw);
        stored = raw;
    }
    bytes_put(writer->stored, stored, 4);
    bytes_put(writer->stored + 4, raw, 4);
    bytes_put(writer->stored + 8, crc32c(crc32c(0, writer->stored, 8), body, stored), 4);
    writer->raw_total += raw;
    writer->chunk_count += raw > 0;
    writer->raw_length = 0;
    return sink_put(writer, writer->stored, FORMAT_CHUNK_HEAD_BYTES + stored, err);
}

int backup_writer_put(struct backup_writer *writer, const void *bytes, size_t length,
                      struct err *err)
{
    const uint8_t *at = bytes;

    CHECK(writer->begun && !writer->ended);
    while (length > 0) {
        size_t room = BACKUP_CHUNK_BYTES - writer->raw_length;
        size_t n = length < room ? length : room;

        memcpy(writer->raw + writer->raw_length, at, n);
        writer->raw_length += n;
        at += n;
        length -= n;
        if (writer->raw_length == BACKUP_CHUNK_BYTES && chunk_put(writer, err) != 0)
            return -1;
    }
    return 0;
}

int backup_writer_end(struct backup_writer *writer, struct err *err)
{
    uint8_t end[FORMAT_END_BYTES + BACKUP_SHA256_BYTES];

    CHECK(writer->begun && !writer->ended);
    writer->ended = true;
    if (writer->raw_length > 0 && chunk_put(writer, err) != 0)
        return -1;
    if (chunk_put(writer, err) != 0)
        return -1;
    memcpy(end, FORMAT_END_MAGIC, FORMAT_MAGIC_BYTES);
    bytes_put(end + 8, writer->raw_total, 8);
    bytes_put(end + 16, writer->chunk_count, 8);
    sha256_update(&writer->sha256, end, FORMAT_END_BYTES);
    sha256_finish(&writer->sha256, end + FORMAT_END_BYTES);
    return writer->sink.write(writer->sink.context, end, sizeof(end), err);
}
