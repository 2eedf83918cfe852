/* One file read to its end, hashed on the way, optionally written to another, at a bounded rate.
 *
 * Shapes   a copier holds one buffer, one digest and the pace of one transfer; files go through it
 *          one after another.
 * Units    bytes per second written (reading alone is not limited); 0 is unlimited. After a stall
 *          the pace does not catch up more than a second's worth.
 * Errors   ERR_IO when a file changes while it is read; fault.h for the rest.
 * Absent   no parallel streams: one worker per shard saturates a node's link, and the grant bounds
 *          it anyway.
 */
#ifndef CKPT_DEST_COPY_H
#define CKPT_DEST_COPY_H

#include <stdint.h>

#include "src/base/err.h"
#include "src/dest/sha256.h"

/* What a series of files shares. Filled by copier_init(); nothing in it is for others. */
struct copier {
    uint8_t *buffer; /* of the heap, until copier_close() */
    struct sha256 sha256;
    uint64_t rate_bytes_per_s;
    uint64_t due_us; /* monotonic time at which what was moved so far is allowed to be done */
};

/* Where bytes come from or go to. The descriptor stays its owner's. */
struct copy_end {
    int fd;           /* of the target: -1 hashes only */
    const char *path; /* for errors */
};

/* Bytes of a file. */
struct copy_range {
    uint64_t offset;
    uint64_t length;
};

/* The clock of the rate begins now. */
void copier_init(struct copier *copier, uint64_t rate_bytes_per_s);
void copier_close(struct copier *copier);
/* Reads `from` from where it stands to its end and writes it to `to`, sleeping where the rate asks
 * for it. Says how many bytes there were and their SHA-256. Neither descriptor is closed, and what
 * was written is not synced: that is the caller's. 0; or -1 with err: ERR_IO when the file's size
 * or time of change is another one afterwards (its writer was not done), and what fault.h makes of
 * a failed read or write. After a failure `to` holds a part and is to be removed. */
int copy_file(struct copier *copier, struct copy_end from, struct copy_end to,
              uint64_t *ret_size_bytes, uint8_t ret_digest[SHA256_BYTES], struct err *err);
/* The same for a range of both files, wherever they stand: as many bytes as asked for, or ERR_IO
 * where the file ends before. Whether it is the same file afterwards is the caller's to ask. */
int copy_range(struct copier *copier, struct copy_end from, struct copy_end to,
               struct copy_range range, uint8_t ret_digest[SHA256_BYTES], struct err *err);
/* The clock that paces and durations are measured with. */
uint64_t copy_monotonic_us(void);

#endif
