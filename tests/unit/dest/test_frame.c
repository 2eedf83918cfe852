/* Frames: what is written is read back, by `lz4` too; what is not a frame is refused. */
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>

#include "src/dest/frame.h"
#include "tests/support/test.h"

enum { CHUNK = 3 * FRAME_BLOCK_BYTES + 4711 };

/* Text, then noise, then text. */
static uint8_t *make_chunk(void)
{
    uint8_t *chunk = malloc(CHUNK);
    uint64_t random = 88172645463325252u;

    assert_non_null(chunk);
    for (size_t i = 0; i < CHUNK; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        chunk[i] = i / FRAME_BLOCK_BYTES == 1 ? (uint8_t)random : (uint8_t) "0.125 "[i % 6];
    }
    return chunk;
}

/* What a frame holds, or SIZE_MAX. */
static size_t unpack(const uint8_t *bytes, size_t length, uint8_t *to, size_t room)
{
    static uint8_t block[FRAME_BLOCK_BYTES];
    struct frame frame;
    size_t used = 0, got = 0;

    if (!frame_open(&frame, bytes, length))
        return SIZE_MAX;
    do {
        if (!frame_next(&frame, block, &got) || used + got > room)
            return SIZE_MAX;
        memcpy(to + used, block, got);
        used += got;
    } while (got > 0);
    return used;
}

static void what_is_compressed_comes_back_and_lz4_reads_it(void **state)
{
    uint8_t *chunk = make_chunk(), *packed = malloc(frame_bound(CHUNK)), *back = malloc(CHUNK);
    size_t length = frame_make(packed, chunk, CHUNK), read = length, made = CHUNK;
    LZ4F_dctx *context = NULL;

    (void)state;
    assert_true(length > FRAME_BLOCK_BYTES && length < 2 * FRAME_BLOCK_BYTES);
    assert_uint_equal(unpack(packed, length, back, CHUNK), CHUNK);
    assert_memory_equal(back, chunk, CHUNK);
    memset(back, 0, CHUNK);
    assert_false(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
    assert_uint_equal(LZ4F_decompress(context, back, &made, packed, &read, NULL), 0);
    assert_uint_equal(made, CHUNK);
    assert_uint_equal(read, length);
    assert_memory_equal(back, chunk, CHUNK);
    LZ4F_freeDecompressionContext(context);
    free(chunk), free(packed), free(back);
}

/* Each byte of the frame's own fields changed, each shorter length, and one that is longer:
 * refused, or other bytes, which the manifest's hash tells; never outside of the memory (asan). */
static void what_is_not_whole_is_refused(void **state)
{
    uint8_t *chunk = make_chunk(), *packed = malloc(frame_bound(CHUNK) + 1), *back = malloc(CHUNK);
    size_t length = frame_make(packed, chunk, CHUNK);

    (void)state;
    packed[length] = 0;
    assert_uint_equal(unpack(packed, length + 1, back, CHUNK), SIZE_MAX);
    for (size_t cut = 0; cut < length; cut += cut < 64 || cut + 64 > length ? 1 : 997)
        assert_uint_equal(unpack(packed, cut, back, CHUNK), SIZE_MAX);
    for (size_t i = 0; i < FRAME_HEADER_BYTES + FRAME_LENGTH_BYTES; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            packed[i] ^= (uint8_t)(1 << bit);
            size_t got = unpack(packed, length, back, CHUNK);
            assert_true(got == SIZE_MAX || got != CHUNK || memcmp(back, chunk, CHUNK) != 0);
            packed[i] ^= (uint8_t)(1 << bit);
        }
    }
    free(chunk), free(packed), free(back);
}

static void a_sample_that_does_not_shrink_by_a_tenth_is_left(void **state)
{
    uint8_t *chunk = make_chunk();

    (void)state;
    assert_true(frame_try(chunk, FRAME_SAMPLE_BYTES) < FRAME_SAMPLE_BYTES / 10);
    assert_uint_equal(frame_try(chunk + FRAME_BLOCK_BYTES, FRAME_SAMPLE_BYTES), FRAME_SAMPLE_BYTES);
    assert_uint_equal(frame_try(chunk, 0), 0);
    free(chunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_compressed_comes_back_and_lz4_reads_it),
        cmocka_unit_test(what_is_not_whole_is_refused),
        cmocka_unit_test(a_sample_that_does_not_shrink_by_a_tenth_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
