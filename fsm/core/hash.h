/* 64-bit mixing: fast, the same on every machine (bytes are read little-endian), not cryptographic.
 *
 * Shapes   one state hash over all entries and what came of them lets members compare what they
 *          have become in eight bytes. The same functions hash the keys of tables. The order of
 *          what is mixed counts, which is meant.
 * Absent   protection from keys that somebody chose to collide.
 * Source   the multiply-and-fold step of wyhash (public domain).
 */
#ifndef CKPT_FSM_HASH_H
#define CKPT_FSM_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash with one more number in it. */
uint64_t fsm_hash_mix(uint64_t hash, uint64_t value);
/* With so many more bytes, and their count, in it: parts that are cut elsewhere differ. */
uint64_t fsm_hash_bytes(uint64_t hash, const void *bytes, size_t length);
/* Of a text without its terminator, as the tables of names use it. */
uint32_t fsm_hash_text(const char *text);

#endif
