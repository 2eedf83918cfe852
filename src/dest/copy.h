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

struct copier {
    uint8_t *buffer;
    struct sha256 sha256;
    uint64_t rate_bytes_per_s;
    uint64_t due_us; /* monotonic time at which what was moved so far is allowed to be done */
};

struct copy_end {
    int fd;           /* of the target: -1 hashes only */
    const char *path; /* for errors */
};

void copier_init(struct copier *copier, uint64_t rate_bytes_per_s);
void copier_close(struct copier *copier);
/* Neither descriptor is closed. */
int copy_file(struct copier *copier, struct copy_end from, struct copy_end to,
              uint64_t *ret_size_bytes, uint8_t ret_digest[SHA256_BYTES], struct err *err);
uint64_t copy_monotonic_us(void);

#endif
