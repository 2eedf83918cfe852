/* An append-only file of checksummed records; each append is on disk before it returns.
 *
 * Flow     journal_open() locks the folder, reads every record, cuts a torn tail, and makes durable
 *          what it has read; journal_append() per change; journal_rewrite() replaces the content
 *          when it has grown (temporary file, fsync, rename). The file ends with zeros, so that
 *          most appends change its bytes alone, and not its size: a torn tail to who reads it.
 * Shapes   <folder>/journal: 8 bytes of magic and version, then records: mark, length, CRC32C of
 *          length and body, body. One process per folder, by a lock on <folder>/lock. Bodies are
 *          opaque here (ledger.c).
 * Errors   a record that is incomplete or wrong with nothing valid behind it is the torn tail of
 *          the last append, which was never acted upon: it is cut. A wrong record with a valid one
 *          behind it is corruption: ERR_CORRUPT, nothing is touched. After a failed append or
 *          rewrite the journal must not be used: the program stops and its supervisor restarts it.
 *          The disk's table (raft/io_ops.h) outlives the journal.
 * Absent   no background flushing: an agent makes a few changes per minute, and acts only on what
 *          is on disk.
 */
#ifndef CKPT_AGENT_JOURNAL_H
#define CKPT_AGENT_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

enum { JOURNAL_RECORD_MAX_BYTES = 1 << 16, JOURNAL_HEAD_BYTES = 8, JOURNAL_RECORD_HEAD_BYTES = 12 };

struct disk_ops;
struct journal;
/* Called per record in order; -1 (err set) refuses the file. */
typedef int journal_record_fn(void *data, const uint8_t *bytes, size_t length, struct err *err);

/* The parser alone, over the bytes of a file. *ret_valid_bytes: up to the torn tail, if there is
 * one. */
int journal_scan(const uint8_t *bytes, size_t length, journal_record_fn *record, void *data,
                 size_t *ret_valid_bytes, struct err *err);

int journal_open(const struct disk_ops *disk, const char *folder, journal_record_fn *record,
                 void *data, struct journal **ret_journal, struct err *err);
void journal_close(struct journal *journal); /* NULL allowed */
int journal_append(struct journal *journal, const uint8_t *body, size_t length, struct err *err);
size_t journal_bytes(const struct journal *journal);

/* Builds the content of a rewrite: head once, then one frame per record. */
void journal_head(struct buf *content);
void journal_frame(struct buf *content, const uint8_t *body, size_t length);
int journal_rewrite(struct journal *journal, const struct buf *content, struct err *err);

#endif
