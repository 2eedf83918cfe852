/* 64-bit mixing. See hash.h. */
#include "fsm/core/hash.h"

#include <string.h>

#define HASH_A UINT64_C(0xa0761d6478bd642f)
#define HASH_B UINT64_C(0xe7037ed1a0b428db)

uint64_t fsm_hash_mix(uint64_t hash, uint64_t value)
{
    __uint128_t product;

    /* the rotation keeps the old hash alive when the product collapses to 0 */
    product = (__uint128_t)(hash ^ HASH_A) * (value ^ HASH_B);
    return (uint64_t)product ^ (uint64_t)(product >> 64) ^ (hash << 23 | hash >> 41);
}

/* The least significant byte first, whatever the processor's order. */
static uint64_t hash_load_word(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(value) : value;
}

static uint64_t hash_load_half(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap32(value) : value;
}

/* The up to seven bytes behind the last word. */
static uint64_t hash_load_rest(const uint8_t *bytes, size_t length)
{
    size_t middle = length / 2, last = length - 1;

    if (length >= 4) /* two halves that may overlap, alike where they do */
        return hash_load_half(bytes) | hash_load_half(bytes + length - 4) << (8 * (length - 4));
    if (length == 0)
        return 0;
    return bytes[0] | (uint64_t)bytes[middle] << (8 * middle) | (uint64_t)bytes[last] << (8 * last);
}

/* The length goes in last: bytes of zero at the end would else count for nothing. */
uint64_t fsm_hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    size_t left = length;

    for (; left >= 8; left -= 8, at += 8)
        hash = fsm_hash_mix(hash, hash_load_word(at));
    return fsm_hash_mix(fsm_hash_mix(hash, hash_load_rest(at, left)), length);
}

/* Both halves count: the tables take the low bits alone. */
uint32_t fsm_hash_text(const char *text)
{
    uint64_t hash = fsm_hash_bytes(0, text, strlen(text));

    return (uint32_t)(hash ^ hash >> 32);
}
