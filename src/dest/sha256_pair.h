/* SHA-256 of two pieces of memory at a time.
 *
 * Flow     a round of SHA-256 needs the round before: a processor's SHA instructions stand idle for
 *          most of their time. With two digests in turn one waits while the other works, so that
 *          both take little longer than one. Where a processor has none of these instructions, the
 *          pieces are hashed one after the other by libcrypto.
 * Shapes   the longer piece's rest is hashed alone: pieces of one size are the fastest.
 * Errors   none.
 * Source   FIPS 180-4; Intel's "SHA Extensions" (2013).
 */
#ifndef CKPT_DEST_SHA256_PAIR_H
#define CKPT_DEST_SHA256_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "src/dest/sha256.h"

/* What is hashed, whole. The memory is the caller's. */
struct sha256_piece {
    const uint8_t *bytes;
    size_t length;
};

/* Both digests are what sha256_of() says of each. */
void sha256_pair(const struct sha256_piece pieces[2], uint8_t ret_digests[2][SHA256_BYTES]);

#endif
