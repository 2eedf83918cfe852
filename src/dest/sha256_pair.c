/* Two digests in turn. See sha256_pair.h.
 *
 * Flow     sha256_pair -> hash_both: whole blocks that both pieces have, in turn; then for each
 *          its other whole blocks; then its last block or two, padded.
 * Shapes   a state is kept in the order of the instructions: the words a b e f, and c d g h.
 *          compress_lanes() is made for one lane and for two: `lanes` is a constant where it is
 *          inlined, so that loops over lanes are none and their arrays are registers.
 */
#include "src/dest/sha256_pair.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8, GROUPS = 16 };

#define USES_SHA __attribute__((target("sha,sse4.1,ssse3")))

static const uint32_t constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* One digest under way. */
struct lane {
    const uint8_t *next;
    size_t left; /* bytes from `next` on */
    __m128i abef, cdgh;
};

static bool has_instructions(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0 && (c & bit_SSSE3) != 0 &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

/* The four words that follow sixteen of which these are the oldest. */
static inline __attribute__((always_inline)) USES_SHA __m128i next_words(const __m128i words[4],
                                                                         size_t oldest)
{
    const __m128i last = words[(oldest + 3) & 3];
    const __m128i sum =
        _mm_add_epi32(_mm_sha256msg1_epu32(words[oldest & 3], words[(oldest + 1) & 3]),
                      _mm_alignr_epi8(last, words[(oldest + 2) & 3], 4));

    return _mm_sha256msg2_epu32(sum, last);
}

static inline __attribute__((always_inline)) USES_SHA void compress_lanes(struct lane *lanes,
                                                                          size_t count,
                                                                          size_t blocks)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i abef[2], cdgh[2], words[2][4];

    for (size_t k = 0; k < count; k++) {
        abef[k] = lanes[k].abef;
        cdgh[k] = lanes[k].cdgh;
    }
    for (; blocks > 0; blocks--) {
#pragma GCC unroll 2
        for (size_t k = 0; k < count; k++) {
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++)
                words[k][i] = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(lanes[k].next + 16 * i)),
                    order);
            lanes[k].next += BLOCK_BYTES;
            lanes[k].abef = abef[k];
            lanes[k].cdgh = cdgh[k];
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < GROUPS; i++) {
            const __m128i constant =
                _mm_load_si128((const __m128i *)(const void *)&constants[4 * i]);
#pragma GCC unroll 2
            for (size_t k = 0; k < count; k++) {
                __m128i sum = _mm_add_epi32(words[k][i & 3], constant);

                cdgh[k] = _mm_sha256rnds2_epu32(cdgh[k], abef[k], sum);
                abef[k] = _mm_sha256rnds2_epu32(abef[k], cdgh[k], _mm_shuffle_epi32(sum, 0x0e));
                if (i < GROUPS - 4)
                    words[k][i & 3] = next_words(words[k], i);
            }
        }
#pragma GCC unroll 2
        for (size_t k = 0; k < count; k++) {
            abef[k] = _mm_add_epi32(abef[k], lanes[k].abef);
            cdgh[k] = _mm_add_epi32(cdgh[k], lanes[k].cdgh);
        }
    }
    for (size_t k = 0; k < count; k++) {
        lanes[k].abef = abef[k];
        lanes[k].cdgh = cdgh[k];
    }
}

static USES_SHA void compress_both(struct lane lanes[2], size_t blocks)
{
    compress_lanes(lanes, 2, blocks);
    lanes[0].left -= blocks * BLOCK_BYTES;
    lanes[1].left -= blocks * BLOCK_BYTES;
}

static USES_SHA void compress_one(struct lane *lane, size_t blocks)
{
    compress_lanes(lane, 1, blocks);
    lane->left -= blocks * BLOCK_BYTES;
}

static USES_SHA void lane_begin(struct lane *lane, const struct sha256_piece *piece)
{
    lane->next = piece->bytes;
    lane->left = piece->length;
    lane->abef = _mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c);
    lane->cdgh = _mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19);
}

/* A byte of 0x80, zeros, and the number of bits. */
static USES_SHA void lane_end(struct lane *lane, size_t length, uint8_t ret_digest[SHA256_BYTES])
{
    uint8_t last[2 * BLOCK_BYTES] = {0};
    size_t rest = lane->left, blocks = rest + 1 + LENGTH_BYTES > BLOCK_BYTES ? 2 : 1;
    uint64_t bits = (uint64_t)length * 8;
    uint32_t words[8];

    CHECK(rest < BLOCK_BYTES);
    if (rest > 0)
        memcpy(last, lane->next, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        last[blocks * BLOCK_BYTES - 1 - i] = (uint8_t)(bits >> (8 * i));
    lane->next = last;
    lane->left = blocks * BLOCK_BYTES;
    compress_one(lane, blocks);
    words[0] = (uint32_t)_mm_extract_epi32(lane->abef, 3);
    words[1] = (uint32_t)_mm_extract_epi32(lane->abef, 2);
    words[2] = (uint32_t)_mm_extract_epi32(lane->cdgh, 3);
    words[3] = (uint32_t)_mm_extract_epi32(lane->cdgh, 2);
    words[4] = (uint32_t)_mm_extract_epi32(lane->abef, 1);
    words[5] = (uint32_t)_mm_extract_epi32(lane->abef, 0);
    words[6] = (uint32_t)_mm_extract_epi32(lane->cdgh, 1);
    words[7] = (uint32_t)_mm_extract_epi32(lane->cdgh, 0);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        ret_digest[i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
}

static USES_SHA void hash_both(const struct sha256_piece pieces[2],
                               uint8_t ret_digests[2][SHA256_BYTES])
{
    struct lane lanes[2];
    size_t shorter = pieces[0].length < pieces[1].length ? 0 : 1;

    lane_begin(&lanes[0], &pieces[0]);
    lane_begin(&lanes[1], &pieces[1]);
    compress_both(lanes, pieces[shorter].length / BLOCK_BYTES);
    compress_one(&lanes[1 - shorter], lanes[1 - shorter].left / BLOCK_BYTES);
    for (size_t k = 0; k < 2; k++)
        lane_end(&lanes[k], pieces[k].length, ret_digests[k]);
}

#else

static bool has_instructions(void)
{
    return false;
}

static void hash_both(const struct sha256_piece pieces[2], uint8_t ret_digests[2][SHA256_BYTES])
{
    (void)pieces;
    (void)ret_digests;
    CHECK_UNREACHABLE("no instructions");
}

#endif

void sha256_pair(const struct sha256_piece pieces[2], uint8_t ret_digests[2][SHA256_BYTES])
{
    CHECK(pieces[0].bytes != NULL && pieces[1].bytes != NULL);
    if (has_instructions()) {
        hash_both(pieces, ret_digests);
        return;
    }
    for (size_t k = 0; k < 2; k++)
        sha256_of(pieces[k].bytes, pieces[k].length, ret_digests[k]);
}
