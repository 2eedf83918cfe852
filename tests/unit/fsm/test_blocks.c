/* Blocks: none lies in another, the one given back last is taken first, many fill large pages. */
#include "fsm/core/blocks.h"

#include <stdint.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/large_page.h"
#include "tests/support/test.h"

enum { MANY = 200000, PAGE_BYTES = 160000 };

static void blocks_do_not_overlap(void **state)
{
    static uint8_t *taken[MANY];
    static size_t sizes[MANY];
    struct blocks blocks = {NULL};
    uint64_t dice = test_seed();

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        sizes[i] = test_random(&dice) % (BLOCKS_SMALL_MAX + 100);
        taken[i] = fsm_block_take(&blocks, sizes[i]);
        assert_uint_equal((uintptr_t)taken[i] % BLOCKS_STEP, 0);
        memset(taken[i], (int)(i % 251), sizes[i]);
        if (i % 3 == 0) { /* another one gets its place */
            fsm_block_give(&blocks, taken[i], sizes[i]);
            sizes[i] = sizes[i] > BLOCKS_STEP ? sizes[i] - 1 : sizes[i];
            taken[i] = fsm_block_take(&blocks, sizes[i]);
            memset(taken[i], (int)(i % 251), sizes[i]);
        }
        if (i % 1000 == 0)
            memset(fsm_block_page(&blocks, PAGE_BYTES), 255, PAGE_BYTES);
    }
    for (size_t i = 0; i < MANY; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(taken[i][k], i % 251);
        fsm_block_give(&blocks, taken[i], sizes[i]);
    }
    fsm_blocks_free(&blocks);
}

static void the_block_given_back_last_is_taken_first(void **state)
{
    struct blocks blocks = {NULL};
    void *first = fsm_block_take(&blocks, 100), *second = fsm_block_take(&blocks, 97);

    (void)state;
    fsm_block_give(&blocks, first, 100);
    fsm_block_give(&blocks, second, 97);
    fsm_block_give(&blocks, NULL, 97);
    assert_ptr_equal(fsm_block_take(&blocks, 112), second);
    assert_ptr_equal(fsm_block_take(&blocks, 99), first);
    fsm_blocks_free(&blocks);
}

/* A small state takes little memory, a large one whole pages. */
static void regions_are_small_while_there_is_little(void **state)
{
    struct blocks blocks = {NULL};

    (void)state;
    (void)fsm_block_take(&blocks, 1);
    assert_in_range(blocks.region_bytes, 1, 1 << 18);
    while (blocks.pages.large == NULL)
        (void)fsm_block_page(&blocks, PAGE_BYTES);
    assert_in_range(blocks.region_bytes, 2 * LARGE_PAGE_BYTES, 4 * LARGE_PAGE_BYTES);
    assert_uint_equal((uintptr_t)blocks.pages.large % LARGE_PAGE_BYTES, 0);
    assert_non_null(fsm_block_page(&blocks, 2 * LARGE_PAGE_BYTES)); /* larger than a region */
    fsm_blocks_free(&blocks);
    assert_null(blocks.regions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(the_block_given_back_last_is_taken_first),
        cmocka_unit_test(regions_are_small_while_there_is_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
