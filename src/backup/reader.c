/* Reads and checks a backup file. See backup.h. */
#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#include "src/backup/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/dest/sha256.h"

struct backup_reader {
    struct backup_source source;
    struct sha256 sha256; /* of all before the digest */
    Ckpt__V1__BackupHeader *header;
    uint64_t offset; /* in the file, of the next byte */
    uint8_t raw[BACKUP_CHUNK_BYTES];
    size_t raw_at, raw_length;
    uint8_t stored[BACKUP_CHUNK_BYTES];
    uint64_t raw_total;
    uint64_t chunk_count;
    bool content_ended;
    uint8_t digest[BACKUP_SHA256_BYTES];
};

static int reader_refuse(const struct backup_reader *reader, uint64_t offset, const char *what,
                         struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s offset %" PRIu64 ": %s; copy the file again from where it was made, or take "
                   "an older backup",
                   reader->source.name, offset, what);
}

/* Exactly length bytes of the file. */
static int read_exactly(struct backup_reader *reader, void *bytes, size_t length, struct err *err)
{
    size_t got = 0;

    if (reader->source.read(reader->source.context, bytes, length, &got, err) != 0)
        return -1;
    if (got != length)
        return reader_refuse(reader, reader->offset + got, "the file is cut short here", err);
    reader->offset += length;
    return 0;
}

static int header_read(struct backup_reader *reader, struct err *err)
{
    uint8_t head[FORMAT_HEAD_BYTES], crc[4];
    uint8_t *bytes;
    size_t length;
    int status;

    if (read_exactly(reader, head, sizeof(head), err) != 0)
        return -1;
    if (memcmp(head, FORMAT_MAGIC, FORMAT_MAGIC_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "%s is no backup: it does not begin with " FORMAT_MAGIC
                       "; give a file made by ckptctl backup save",
                       reader->source.name);
    if (bytes_get(head + 8, 4) != BACKUP_VERSION)
        return err_set(
            err, ERR_MISMATCH,
            "%s has format version %" PRIu64
            ", this program reads %d; use the version of ckptd that wrote it, or a later "
            "one",
            reader->source.name, bytes_get(head + 8, 4), BACKUP_VERSION);
    length = bytes_get(head + 12, 4);
    if (length > BACKUP_HEADER_MAX_BYTES)
        return reader_refuse(reader, 12, "the header's length makes no sense", err);
    bytes = check_alloc(length + 1);
    status = read_exactly(reader, bytes, length, err);
    if (status == 0)
        status = read_exactly(reader, crc, sizeof(crc), err);
    if (status == 0 &&
        crc32c(crc32c(0, head, sizeof(head)), bytes, length) != bytes_get(crc, sizeof(crc)))
        status = reader_refuse(reader, 0, "the header is damaged", err);
    if (status == 0) {
        sha256_update(&reader->sha256, head, sizeof(head));
        sha256_update(&reader->sha256, bytes, length);
        sha256_update(&reader->sha256, crc, sizeof(crc));
        reader->header = ckpt__v1__backup_header__unpack(NULL, length, bytes);
        if (reader->header == NULL)
            status = reader_refuse(reader, FORMAT_HEAD_BYTES, "the header does not decode", err);
    }
    free(bytes);
    return status;
}

int backup_reader_open(const struct backup_source *source, struct backup_reader **ret_reader,
                       struct err *err)
{
    struct backup_reader *reader = check_calloc(1, sizeof(*reader));

    reader->source = *source;
    sha256_init(&reader->sha256);
    sha256_start(&reader->sha256);
    if (header_read(reader, err) != 0) {
        backup_reader_free(reader);
        return -1;
    }
    *ret_reader = reader;
    return 0;
}

void backup_reader_free(struct backup_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->header != NULL)
        ckpt__v1__backup_header__free_unpacked(reader->header, NULL);
    sha256_close(&reader->sha256);
    free(reader);
}

const Ckpt__V1__BackupHeader *backup_reader_header(const struct backup_reader *reader)
{
    return reader->header;
}

Ckpt__V1__BackupHeader *backup_reader_take_header(struct backup_reader *reader)
{
    Ckpt__V1__BackupHeader *header = reader->header;

    reader->header = NULL;
    return header;
}

/* Fills raw with the next chunk, or sets content_ended. */
static int chunk_read(struct backup_reader *reader, struct err *err)
{
    uint64_t begin = reader->offset;
    uint8_t head[FORMAT_CHUNK_HEAD_BYTES];
    size_t stored, raw;

    if (read_exactly(reader, head, sizeof(head), err) != 0)
        return -1;
    stored = bytes_get(head, 4);
    raw = bytes_get(head + 4, 4);
    if (stored > raw || raw > BACKUP_CHUNK_BYTES || (stored == 0) != (raw == 0))
        return reader_refuse(reader, begin, "the length of a chunk makes no sense", err);
    if (read_exactly(reader, reader->stored, stored, err) != 0)
        return -1;
    if (crc32c(crc32c(0, head, 8), reader->stored, stored) != bytes_get(head + 8, 4))
        return reader_refuse(reader, begin, "a chunk is damaged", err);
    sha256_update(&reader->sha256, head, sizeof(head));
    sha256_update(&reader->sha256, reader->stored, stored);
    if (stored == raw)
        memcpy(reader->raw, reader->stored, raw);
    else if (LZ4_decompress_safe((const char *)reader->stored, (char *)reader->raw, (int)stored,
                                 BACKUP_CHUNK_BYTES) != (int)raw)
        return reader_refuse(reader, begin, "a chunk does not decompress", err);
    reader->raw_at = 0;
    reader->raw_length = raw;
    reader->raw_total += raw;
    reader->chunk_count += raw > 0;
    reader->content_ended = raw == 0;
    return 0;
}

int backup_reader_read(struct backup_reader *reader, void *bytes, size_t length, struct err *err)
{
    uint8_t *at = bytes;

    while (length > 0) {
        size_t have = reader->raw_length - reader->raw_at;
        size_t n = length < have ? length : have;

        if (n == 0) {
            if (reader->content_ended)
                return reader_refuse(reader, reader->offset, "the content ends too early", err);
            if (chunk_read(reader, err) != 0)
                return -1;
            continue;
        }
        memcpy(at, reader->raw + reader->raw_at, n);
        reader->raw_at += n;
        at += n;
        length -= n;
    }
    return 0;
}

/* The counts catch whole chunks that are missing, the digest everything else. */
int backup_reader_finish(struct backup_reader *reader, struct err *err)
{
    uint8_t end[FORMAT_END_BYTES], digest[BACKUP_SHA256_BYTES], more;
    uint64_t begin;
    size_t got = 0;

    while (!reader->content_ended)
        if (chunk_read(reader, err) != 0)
            return -1;
    begin = reader->offset;
    if (read_exactly(reader, end, sizeof(end), err) != 0 ||
        read_exactly(reader, digest, sizeof(digest), err) != 0)
        return -1;
    if (memcmp(end, FORMAT_END_MAGIC, FORMAT_MAGIC_BYTES) != 0 ||
        bytes_get(end + 8, 8) != reader->raw_total || bytes_get(end + 16, 8) != reader->chunk_count)
        return reader_refuse(reader, begin, "the end of the file is damaged", err);
    sha256_update(&reader->sha256, end, sizeof(end));
    sha256_finish(&reader->sha256, reader->digest);
    if (memcmp(reader->digest, digest, sizeof(digest)) != 0)
        return reader_refuse(reader, begin + FORMAT_END_BYTES,
                             "the SHA-256 of the file is another one", err);
    if (reader->source.read(reader->source.context, &more, 1, &got, err) != 0)
        return -1;
    if (got != 0)
        return reader_refuse(reader, reader->offset, "something follows the end of the backup",
                             err);
    return 0;
}

const uint8_t *backup_reader_sha256(const struct backup_reader *reader)
{
    return reader->digest;
}

uint64_t backup_reader_file_bytes(const struct backup_reader *reader)
{
    return reader->offset;
}

uint64_t backup_reader_content_bytes(const struct backup_reader *reader)
{
    return reader->raw_total;
}
