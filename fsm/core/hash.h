/* 64-bit mixing: fast, the same on every machine (bytes are read little-endian), not cryptographic.
 * Source: the multiply-and-fold step of wyhash (public domain). */
#ifndef CKPT_FSM_HASH_H
#define CKPT_FSM_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t fsm_hash_mix(uint64_t hash, uint64_t value);
uint64_t fsm_hash_bytes(uint64_t hash, const void *bytes, size_t length);
uint32_t fsm_hash_text(const char *text);

#endif
