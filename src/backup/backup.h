/* The backup file: the whole replicated state in one file that says what it is and proves that it
 * is whole.
 *
 * Flow     writing: backup_writer_begin(header), _put() the content in order, _end(). Reading:
 *          backup_reader_open() gives the header, _read() the content, _finish() checks what is
 *          left up to the last byte. Nothing that was read counts before _finish() returned 0.
 * Shapes   both stream: one chunk of BACKUP_CHUNK_BYTES in memory. The content is the state
 *          machine's business (fsm.h, fsm_snapshot_write).
 * Units    bytes.
 * Errors   ERR_CORRUPT with the name, the offset and what to do; ERR_MISMATCH for a version that
 *          this program does not know; errors of sink and source as they are. Input is not trusted.
 * Absent   encryption and signatures: a backup holds what the cluster holds; keep it where the data
 *          folder could be kept.
 * Source   little endian. "CKPTBKUP", version u32, header length u32, header
 *          (ckpt.v1.BackupHeader), crc32c u32 of all before. Chunks: stored length u32, raw length
 *          u32, crc32c u32 of these 8 bytes and the stored ones, stored bytes: an LZ4 block, or the
 *          raw bytes when the lengths are equal. A chunk of length 0 ends them. Then "CKPTBEND",
 *          raw bytes u64, chunks u64, SHA-256 of all before.
 */
#ifndef CKPT_BACKUP_BACKUP_H
#define CKPT_BACKUP_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/err.h"

enum {
    BACKUP_VERSION = 1,
    BACKUP_CHUNK_BYTES = 256 << 10, /* raw, at most */
    BACKUP_HEADER_MAX_BYTES = 64 << 10,
    BACKUP_SHA256_BYTES = 32,
    BACKUP_SHA256_HEX_BYTES = 65,
};

struct backup_sink {
    void *context;
    int (*write)(void *context, const void *bytes, size_t length, struct err *err);
};

struct backup_source {
    void *context;
    const char *name; /* for messages */
    /* Short only at the end. */
    int (*read)(void *context, void *bytes, size_t length, size_t *ret_length, struct err *err);
};

struct backup_writer;
struct backup_writer *backup_writer_new(const struct backup_sink *sink);
int backup_writer_begin(struct backup_writer *writer, const Ckpt__V1__BackupHeader *header,
                        struct err *err);
int backup_writer_put(struct backup_writer *writer, const void *bytes, size_t length,
                      struct err *err);
int backup_writer_end(struct backup_writer *writer, struct err *err);
void backup_writer_free(struct backup_writer *writer); /* NULL allowed */

struct backup_reader;
/* Reads the header. The source lives as long as the reader. */
int backup_reader_open(const struct backup_source *source, struct backup_reader **ret_reader,
                       struct err *err);
const Ckpt__V1__BackupHeader *backup_reader_header(const struct backup_reader *reader);
/* Gives the header away; the caller frees it (ckpt__v1__backup_header__free_unpacked). */
Ckpt__V1__BackupHeader *backup_reader_take_header(struct backup_reader *reader);
/* Exactly length bytes of the content. */
int backup_reader_read(struct backup_reader *reader, void *bytes, size_t length, struct err *err);
/* Reads what is left; 0 when every byte of the file is what was written and nothing follows. */
int backup_reader_finish(struct backup_reader *reader, struct err *err);
/* After _finish(): of everything before it in the file; the same for two files exactly when they
 * are equal. */
const uint8_t *backup_reader_sha256(const struct backup_reader *reader);
uint64_t backup_reader_file_bytes(const struct backup_reader *reader);    /* after _finish() */
uint64_t backup_reader_content_bytes(const struct backup_reader *reader); /* after _finish() */
void backup_reader_free(struct backup_reader *reader);                    /* NULL allowed */

/* A file of the local file system as a source; close it after the reader. */
struct backup_file {
    void *stream;
    char path[512];
};
int backup_file_open(struct backup_file *file, const char *path, struct backup_source *ret_source,
                     struct err *err);
void backup_file_close(struct backup_file *file);
/* Opens, reads everything and closes. ret_header: the caller frees it
 * (ckpt__v1__backup_header__free_unpacked). ret_sha256: of the whole file as sha256sum(1) prints
 * it. Either may be NULL. */
int backup_file_check(const char *path, Ckpt__V1__BackupHeader **ret_header,
                      char ret_sha256[BACKUP_SHA256_HEX_BYTES], struct err *err);

#endif
