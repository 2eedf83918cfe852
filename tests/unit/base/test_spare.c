/* Blocks that are given back come again; no more are kept than was allowed. */
#include "src/base/spare.h"

#include <stdint.h>
#include <string.h>

#include "tests/support/test.h"

enum { BLOCKS = 200 };

static void a_block_that_was_given_back_is_taken_again(void **state)
{
    struct spare spare;
    void *first, *second;

    (void)state;
    spare_init(&spare, 4096);
    first = spare_take(&spare, 100);
    spare_give(&spare, first);
    assert_uint_equal(spare.kept_bytes, 128);
    second = spare_take(&spare, 65);
    assert_ptr_equal(first, second);
    assert_uint_equal(spare.kept_bytes, 0);
    spare_give(&spare, second);
    spare_give(&spare, NULL);
    spare_close(&spare);
}

static void what_is_kept_is_bounded_and_large_blocks_are_not(void **state)
{
    struct spare spare;
    void *blocks[BLOCKS];

    (void)state;
    spare_init(&spare, 1000);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = spare_take(&spare, i % 2 == 0 ? 64 : 5000);
    for (int i = 0; i < BLOCKS; i++)
        spare_give(&spare, blocks[i]);
    assert_uint_equal(spare.kept_bytes, 960);
    spare_close(&spare);
}

/* Every block has its bytes to itself, whatever is taken, resized and given back. */
static void blocks_do_not_overlap(void **state)
{
    struct spare spare;
    uint8_t *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    uint64_t random = test_seed();

    (void)state;
    spare_init(&spare, 20000);
    for (int round = 0; round < 20000; round++) {
        size_t i = test_random(&random) % BLOCKS, size = test_random(&random) % 1500;

        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(blocks[i][k], (uint8_t)i);
        if (test_random(&random) % 3 == 0) {
            spare_give(&spare, blocks[i]);
            blocks[i] = NULL;
            sizes[i] = 0;
            continue;
        }
        if (blocks[i] == NULL) {
            blocks[i] = spare_take_zeroed(&spare, 1, size);
            for (size_t k = 0; k < size; k++)
                assert_int_equal(blocks[i][k], 0);
        } else {
            blocks[i] = spare_resize(&spare, blocks[i], size);
            for (size_t k = 0; k < sizes[i] && k < size; k++)
                assert_int_equal(blocks[i][k], (uint8_t)i);
        }
        memset(blocks[i], (int)i, size);
        sizes[i] = size;
        assert_true(spare.kept_bytes <= 20000);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        spare_give(&spare, blocks[i]);
    spare_close(&spare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_was_given_back_is_taken_again),
        cmocka_unit_test(what_is_kept_is_bounded_and_large_blocks_are_not),
        cmocka_unit_test(blocks_do_not_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
