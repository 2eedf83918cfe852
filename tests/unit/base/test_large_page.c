/* A large page that was filled becomes one page of the system's, with the same bytes. */
#include "src/base/large_page.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/support/test.h"

enum { PAGES = 4, WAIT_MS = 10000, STEP_MS = 10 };

/* Of the mapping that holds the address: how much of it lies in large pages. */
static uint64_t large_kb(const void *at)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    uint64_t begin = 0, end = 0, kb = 0;
    char line[512];
    bool within = false;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
            within = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (within && sscanf(line, "AnonHugePages: %" SCNu64, &kb) == 1)
            break;
    }
    fclose(file);
    return kb;
}

/* Whether this system makes large pages of memory at all, and now has one. */
static bool system_can(void)
{
    void *page = large_page_alloc();
    bool can;

    memset(page, 1, LARGE_PAGE_BYTES);
    can = madvise(page, LARGE_PAGE_BYTES, 25 /* MADV_COLLAPSE */) == 0;
    free(page);
    return can;
}

static void filled_pages_become_large_ones(void **state)
{
    const struct timespec step = {0, STEP_MS * 1000000};
    uint8_t *pages[PAGES];
    bool can = system_can();

    (void)state;
    for (int i = 0; i < PAGES; i++) {
        pages[i] = large_page_alloc();
        assert_uint_equal((uintptr_t)pages[i] % LARGE_PAGE_BYTES, 0);
        memset(pages[i], i + 1, LARGE_PAGE_BYTES);
        large_page_filled(pages[i]);
    }
    for (int i = 0; i < PAGES; i++) {
        for (int ms = 0; can && large_kb(pages[i]) < LARGE_PAGE_BYTES / 1024; ms += STEP_MS) {
            assert_true(ms < WAIT_MS);
            (void)nanosleep(&step, NULL);
        }
        for (size_t at = 0; at < LARGE_PAGE_BYTES; at++)
            assert_uint_equal(pages[i][at], i + 1);
    }
    for (int i = 0; i < PAGES; i++)
        free(pages[i]);
    if (!can)
        skip(); /* the bytes were looked at */
}

/* Zeros from the first byte to the last, on a boundary; a size that is no multiple is rounded
 * up. */
static void arrays_are_zero_and_whole(void **state)
{
    static const size_t sizes[] = {1, LARGE_PAGE_BYTES, 3 * LARGE_PAGE_BYTES + 8};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *pages = large_pages_zeroed(sizes[i]);

        assert_uint_equal((uintptr_t)pages % LARGE_PAGE_BYTES, 0);
        for (size_t at = 0; at < sizes[i]; at++)
            assert_uint_equal(pages[at], 0);
        memset(pages, 1, sizes[i]);
        large_pages_free(pages, sizes[i]);
    }
}

/* More than can wait: what is beyond is passed over, and nobody waits. */
static void too_many_are_passed_over(void **state)
{
    void *page = large_page_alloc();

    (void)state;
    memset(page, 7, LARGE_PAGE_BYTES);
    for (int i = 0; i < 3 * LARGE_PAGES_WAITING; i++)
        large_page_filled(page);
    assert_uint_equal(((uint8_t *)page)[LARGE_PAGE_BYTES - 1], 7);
    free(page); /* while it waits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filled_pages_become_large_ones),
        cmocka_unit_test(arrays_are_zero_and_whole),
        cmocka_unit_test(too_many_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
