/* The backup file: the whole replicated state in one file that names its contents and proves that
 * it is whole.
 *
 * The broker writes one for each `ckptctl backup save` and for its schedule; ckptctl checks a
 * backup that it received; `ckptd --restore` and `ckptctl backup verify` read one back. The content
 * is a snapshot, so the file's format stays when a record changes.
 *
 * Flow     writing: backup_writer_begin(header), _put() the content in order, _end(). Reading:
 *          backup_reader_open() gives the header, _read() the content, _finish() checks the rest up
 *          to the last byte. No byte counts before _finish() returned 0.
 *
 *              writer: new ── begin ── put, put ... ── end ── free
 *              reader: open ── read, read ... ── finish ── free
 *
 *          A call out of this order is a bug. After an error only _free() may follow.
 * Shapes   both stream: one chunk of BACKUP_CHUNK_BYTES is in memory. The state machine makes the
 *          content (fsm.h, fsm_snapshot_write).
 * Units    bytes.
 * Errors   ERR_CORRUPT with the name, the offset and the next step; ERR_MISMATCH for a version that
 *          this program does not know; errors of sink and source as they are. Input is not trusted.
 * Absent   encryption and signatures: a backup holds all of the cluster's state, so keep it as safe
 *          as a data folder.
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

/* Where a writer's bytes go: a file, a stream of the API. */
struct backup_sink {
    void *context;
    /* Takes all bytes, in order, or returns -1 with err. May block: a writer runs in a process of
     * its own or in a tool. */
    int (*write)(void *context, const void *bytes, size_t length, struct err *err);
};

/* Where a reader's bytes come from. */
struct backup_source {
    void *context;
    const char *name; /* for messages */
    /* Reads the next bytes, as many as asked for; fewer (*ret_length) only at the end of the file.
     * -1 with err when the file cannot be read. */
    int (*read)(void *context, void *bytes, size_t length, size_t *ret_length, struct err *err);
};

/* About 0.5 MiB, of the heap. */
struct backup_writer;
/* The sink is copied. Never NULL. */
struct backup_writer *backup_writer_new(const struct backup_sink *sink);
/* Writes the caller's header: cluster, epoch, index and time of the content. It packs to at most
 * BACKUP_HEADER_MAX_BYTES. */
int backup_writer_begin(struct backup_writer *writer, const Ckpt__V1__BackupHeader *header,
                        struct err *err);
/* Adds bytes of the content, of any length; the writer cuts them into chunks. */
int backup_writer_put(struct backup_writer *writer, const void *bytes, size_t length,
                      struct err *err);
/* Writes the last chunk and the proof. 0: all bytes were given to the sink; the sink's owner makes
 * them durable. */
int backup_writer_end(struct backup_writer *writer, struct err *err);
void backup_writer_free(struct backup_writer *writer); /* NULL allowed */

/* About 0.5 MiB, of the heap. Lengths in the file are checked before memory is taken for them. */
struct backup_reader;
/* Reads the header. The source is copied; its context lives as long as the reader. ERR_CORRUPT: no
 * backup, or a damaged one; ERR_MISMATCH: another format. */
int backup_reader_open(const struct backup_source *source, struct backup_reader **ret_reader,
                       struct err *err);
/* Proven by its own checksum; lives with the reader. */
const Ckpt__V1__BackupHeader *backup_reader_header(const struct backup_reader *reader);
/* Gives the header away; the caller frees it (ckpt__v1__backup_header__free_unpacked). */
Ckpt__V1__BackupHeader *backup_reader_take_header(struct backup_reader *reader);
/* Reads exactly length bytes of the content; ERR_CORRUPT when it holds fewer. Each chunk's checksum
 * is checked before its bytes are handed out. Only _finish() tells whether the whole file is as it
 * was written. */
int backup_reader_read(struct backup_reader *reader, void *bytes, size_t length, struct err *err);
/* Reads the rest; 0: every byte of the file is as it was written, and nothing follows. */
int backup_reader_finish(struct backup_reader *reader, struct err *err);
/* After _finish(): the file's proof. Two files have the same one exactly when they are equal. */
const uint8_t *backup_reader_sha256(const struct backup_reader *reader);
uint64_t backup_reader_file_bytes(const struct backup_reader *reader);    /* after _finish() */
uint64_t backup_reader_content_bytes(const struct backup_reader *reader); /* after _finish() */
void backup_reader_free(struct backup_reader *reader);                    /* NULL allowed */

/* A file of the local file system as a source; close it after the reader. */
struct backup_file {
    void *stream;   /* FILE *; NULL: closed */
    char path[512]; /* for messages */
};
/* ERR_NOT_FOUND when there is none, ERR_INVALID when the path is too long, ERR_IO. *file must not
 * move while the source is in use. */
int backup_file_open(struct backup_file *file, const char *path, struct backup_source *ret_source,
                     struct err *err);
/* A second call does nothing. */
void backup_file_close(struct backup_file *file);
/* Opens, reads everything and closes. ret_header: the caller frees it
 * (ckpt__v1__backup_header__free_unpacked). ret_sha256: of the whole file as sha256sum(1) prints
 * it. Either may be NULL. */
int backup_file_check(const char *path, Ckpt__V1__BackupHeader **ret_header,
                      char ret_sha256[BACKUP_SHA256_HEX_BYTES], struct err *err);

#endif
