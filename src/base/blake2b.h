/* BLAKE2b with a digest of 256 bits and no key: pure, so that the state machine may use it.
 *
 * Shapes   one call over bytes that are whole; nothing is kept.
 * Absent   keys, other lengths, parts of a message. `b2sum -l 256` and Python's
 *          hashlib.blake2b(digest_size=32) give the same digest.
 * Source   RFC 7693. SHA-256 takes four times as long without instructions of its own, which
 *          objects without vector registers cannot use.
 */
#ifndef CKPT_BASE_BLAKE2B_H
#define CKPT_BASE_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

enum { BLAKE2B_BYTES = 32, BLAKE2B_TEXT_BYTES = 2 * BLAKE2B_BYTES + 1 };

void blake2b(const void *bytes, size_t length, uint8_t ret_digest[BLAKE2B_BYTES]);
/* In hexadecimal, small letters. Returns text. */
char *blake2b_text(const uint8_t digest[BLAKE2B_BYTES], char text[BLAKE2B_TEXT_BYTES]);

#endif
