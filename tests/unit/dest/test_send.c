/* How much is on its way to a store at a time. */
#include "src/dest/manifest.h"
#include "src/dest/s3/send.h"
#include "tests/support/test.h"

enum { CHUNK = MANIFEST_CHUNK_BYTES, SECOND_US = 1000000 };

static uint64_t after(uint64_t bytes, unsigned answers, uint64_t took_us)
{
    for (unsigned i = 0; i < answers; i++)
        bytes = send_window(bytes, took_us);
    return bytes;
}

static void quick_answers_widen_the_window_and_slow_ones_narrow_it(void **unused)
{
    uint64_t bytes = send_window(0, 0);

    (void)unused;
    assert_int_equal(bytes, 4 * CHUNK);
    assert_int_equal(after(bytes, 1, SECOND_US), 5 * CHUNK);
    bytes = after(bytes, 100, SECOND_US / 2);
    assert_int_equal(bytes, SEND_BYTES_MAX);
    assert_int_equal(bytes, 8 * CHUNK);
    assert_int_equal(after(bytes, 1, 5 * SECOND_US), 7 * CHUNK);
    assert_int_equal(after(bytes, 100, 3 * SECOND_US), 8 * CHUNK);
    /* two are hashed together */
    assert_int_equal(after(bytes, 100, 20 * SECOND_US), 2 * CHUNK);
    assert_int_equal(after(2 * CHUNK, 1, SECOND_US), 3 * CHUNK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_answers_widen_the_window_and_slow_ones_narrow_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
