/* BLAKE2b-256. See blake2b.h. */
#include "src/base/blake2b.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"

enum { BLOCK_BYTES = 128, ROUNDS = 12, WORDS = 16, STATE_WORDS = 8 };

/* RFC 7693, 2.6: the fractions of the square roots of the first eight primes. */
static const uint64_t initial[STATE_WORDS] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

/* RFC 7693, 2.7: the order of a block's words; the last two rounds are the first two again. */
static const uint8_t order[ROUNDS][WORDS] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

static inline uint64_t rotate_right(uint64_t word, unsigned bits)
{
    return word >> bits | word << (64 - bits);
}

/* Always inlined: the indices are constants then, and the words stay in registers. */
#define INLINED static inline __attribute__((always_inline))

INLINED void mix_words(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y)
{
    *a += *b + x;
    *d = rotate_right(*d ^ *a, 32);
    *c += *d;
    *b = rotate_right(*b ^ *c, 24);
    *a += *b + y;
    *d = rotate_right(*d ^ *a, 16);
    *c += *d;
    *b = rotate_right(*b ^ *c, 63);
}

/* The columns, then the diagonals. */
INLINED void mix_round(uint64_t *v, const uint64_t *words, const uint8_t *of)
{
    mix_words(&v[0], &v[4], &v[8], &v[12], words[of[0]], words[of[1]]);
    mix_words(&v[1], &v[5], &v[9], &v[13], words[of[2]], words[of[3]]);
    mix_words(&v[2], &v[6], &v[10], &v[14], words[of[4]], words[of[5]]);
    mix_words(&v[3], &v[7], &v[11], &v[15], words[of[6]], words[of[7]]);
    mix_words(&v[0], &v[5], &v[10], &v[15], words[of[8]], words[of[9]]);
    mix_words(&v[1], &v[6], &v[11], &v[12], words[of[10]], words[of[11]]);
    mix_words(&v[2], &v[7], &v[8], &v[13], words[of[12]], words[of[13]]);
    mix_words(&v[3], &v[4], &v[9], &v[14], words[of[14]], words[of[15]]);
}

/* The least significant byte first, whatever the processor's order. */
static inline uint64_t load_word(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(value) : value;
}

/* so_far: bytes of the message up to the end of this block. */
static void take_block(uint64_t *state, const uint8_t *block, uint64_t so_far, bool is_last)
{
    uint64_t words[WORDS], v[WORDS];

    for (size_t i = 0; i < WORDS; i++)
        words[i] = load_word(block + 8 * i);
    for (size_t i = 0; i < STATE_WORDS; i++) {
        v[i] = state[i];
        v[STATE_WORDS + i] = initial[i];
    }
    v[12] ^= so_far;
    if (is_last)
        v[14] = ~v[14];
#pragma GCC unroll 12
    for (size_t i = 0; i < ROUNDS; i++)
        mix_round(v, words, order[i]);
    for (size_t i = 0; i < STATE_WORDS; i++)
        state[i] ^= v[i] ^ v[STATE_WORDS + i];
}

void blake2b(const void *bytes, size_t length, uint8_t ret_digest[BLAKE2B_BYTES])
{
    const uint8_t *at = bytes;
    uint64_t state[STATE_WORDS], so_far = 0;
    uint8_t last[BLOCK_BYTES] = {0};

    CHECK(bytes != NULL || length == 0);
    memcpy(state, initial, sizeof(state));
    state[0] ^= 0x01010000 ^ BLAKE2B_BYTES; /* no key */
    for (; length - so_far > BLOCK_BYTES; at += BLOCK_BYTES) {
        so_far += BLOCK_BYTES;
        take_block(state, at, so_far, false);
    }
    if (length > so_far)
        memcpy(last, at, length - so_far);
    take_block(state, last, length, true);
    for (size_t i = 0; i < BLAKE2B_BYTES; i++)
        ret_digest[i] = (uint8_t)(state[i / 8] >> 8 * (i % 8));
}

char *blake2b_text(const uint8_t digest[BLAKE2B_BYTES], char text[BLAKE2B_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    CHECK(digest != NULL);
    for (size_t i = 0; i < BLAKE2B_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[BLAKE2B_TEXT_BYTES - 1] = '\0';
    return text;
}
