/* Files and ranges of files read to their end, hashed on the way, optionally written to others, at
 * the pace of their transfer.
 *
 * Shapes   a copier holds one buffer and one digest and is one thread's; files go through it one
 *          after another. Threads that work side by side share a pace (pool.h).
 * Errors   ERR_IO when a file changes while it is read; fault.h for the rest.
 */
#ifndef CKPT_DEST_COPY_H
#define CKPT_DEST_COPY_H

#include <stdint.h>

#include "src/base/err.h"
#include "src/dest/pace.h"
#include "src/dest/sha256.h"

/* What a series of files shares: a buffer of 256 KiB and the digest of the file or range at hand.
 * Filled by copier_init(); nothing in it is for others, and no two threads use one at a time. */
struct copier {
    uint8_t *buffer; /* of the heap, until copier_close() */
    struct sha256 sha256;
    struct pace *pace;
    uint8_t *held; /* of copy_hold(), COPY_HELD_BYTES once it was called */
};

/* Where bytes come from or go to. The descriptor stays its owner's. */
struct copy_end {
    int fd;           /* of the target: -1 hashes only */
    const char *path; /* for errors */
};

enum { COPY_HELD_BYTES = 16 << 20 };

/* Bytes of a file. */
struct copy_range {
    uint64_t offset;
    uint64_t length;
};

/* pace: the transfer's; it outlives the copier. */
void copier_init(struct copier *copier, struct pace *pace);
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

/* In two steps, for a range of at most COPY_HELD_BYTES that may turn out not to be wanted: reads it
 * into memory, and hashes it unless ret_digest is NULL; writes what was read last. */
int copy_hold(struct copier *copier, struct copy_end from, struct copy_range range,
              uint8_t *ret_digest, struct err *err);
int copy_release(struct copier *copier, struct copy_end to, struct copy_range range,
                 struct err *err);

#endif
