/* Memory for chunks: what is idle gives way to what is needed. */
#include "src/dest/s3/buffers.h"

#include <string.h>

#include "tests/support/test.h"

enum { MIB = 1 << 20 };

static void a_buffer_serves_again_what_fits_it(void **unused)
{
    struct buffers buffers = {.idle_max_bytes = 128 * MIB};
    struct buffer small = buffers_take(&buffers, 5), large = buffers_take(&buffers, 17 * MIB);
    const uint8_t *bytes[] = {small.bytes, large.bytes};

    (void)unused;
    assert_int_equal(small.capacity, MIB);
    assert_int_equal(large.capacity, 32 * MIB);
    memset(large.bytes, 1, 17 * MIB);
    buffers_give(&buffers, &small);
    buffers_give(&buffers, &large);
    assert_null(small.bytes);
    small = buffers_take(&buffers, 0);
    assert_ptr_equal(small.bytes, bytes[0]); /* not the larger one */
    large = buffers_take(&buffers, 20 * MIB);
    assert_ptr_equal(large.bytes, bytes[1]);
    assert_int_equal(buffers.all_bytes, 33 * MIB);
    buffers_give(&buffers, &small);
    buffers_give(&buffers, &large);
    buffers_give(&buffers, &large); /* none */
    buffers_close(&buffers);
}

static void what_is_idle_is_bounded_and_gives_way(void **unused)
{
    struct buffers buffers = {.idle_max_bytes = 64 * MIB};
    struct buffer chunks[6];

    (void)unused;
    for (size_t i = 0; i < 6; i++)
        chunks[i] = buffers_take(&buffers, 16 * MIB);
    assert_int_equal(buffers.all_bytes, 96 * MIB); /* what is in use is the caller's to bound */
    for (size_t i = 0; i < 6; i++)
        buffers_give(&buffers, &chunks[i]);
    assert_int_equal(buffers.all_bytes, 64 * MIB);
    chunks[0] = buffers_take(&buffers, 48 * MIB);
    assert_int_equal(buffers.all_bytes, 64 * MIB);
    assert_int_equal(buffers.idle_count, 1);
    chunks[1] = buffers_take(&buffers, 256 * MIB);
    assert_int_equal(buffers.idle_count, 0);
    buffers_give(&buffers, &chunks[1]);
    assert_int_equal(buffers.all_bytes, 48 * MIB);
    buffers_give(&buffers, &chunks[0]);
    buffers_close(&buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_serves_again_what_fits_it),
        cmocka_unit_test(what_is_idle_is_bounded_and_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
