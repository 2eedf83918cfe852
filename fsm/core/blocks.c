/* Memory of records. See blocks.h. */
#include "fsm/core/blocks.h"

#include <malloc.h>
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/large_page.h"

enum {
    REGION_SMALL_BYTES = 1 << 18,
    REGIONS_SMALL_BYTES = 2 * LARGE_PAGE_BYTES, /* so much in small ones, then large pages */
    REGION_HEAD = 64,                           /* a line of the caches */
};

struct blocks_region {
    struct blocks_region *next;
};
_Static_assert(sizeof(struct blocks_region) <= REGION_HEAD, "the head fits before the bytes");

struct blocks_kept {
    struct blocks_kept *next;
};
_Static_assert(sizeof(struct blocks_kept) <= BLOCKS_STEP, "it fits into each block");

/* What was left of the region before is given up. */
static void region_begin(struct blocks *blocks, struct blocks_rest *rest, size_t size)
{
    bool large =
        blocks->region_bytes >= REGIONS_SMALL_BYTES && size + REGION_HEAD <= LARGE_PAGE_BYTES;
    size_t bytes = large ? LARGE_PAGE_BYTES : REGION_SMALL_BYTES;
    struct blocks_region *region;

    CHECK(rest->bytes < size);
    if (rest->large != NULL)
        large_page_filled(rest->large);
    if (bytes < size + REGION_HEAD)
        bytes = size + REGION_HEAD;
    region = large ? large_page_alloc() : check_alloc(bytes);
    region->next = blocks->regions;
    blocks->regions = region;
    blocks->region_bytes += bytes;
    rest->at = (char *)region + REGION_HEAD;
    rest->bytes = bytes - REGION_HEAD;
    rest->large = large ? region : NULL;
}

static void *rest_take(struct blocks *blocks, struct blocks_rest *rest, size_t size)
{
    char *block;

    if (rest->bytes < size)
        region_begin(blocks, rest, size);
    block = rest->at;
    rest->at += size;
    rest->bytes -= size;
    return block;
}

static size_t bytes_rounded(size_t size)
{
    return size == 0 ? BLOCKS_STEP : (size + BLOCKS_STEP - 1) & ~(size_t)(BLOCKS_STEP - 1);
}

static struct blocks_kept **kept_of(struct blocks *blocks, size_t size)
{
    return &blocks->kept[bytes_rounded(size) / BLOCKS_STEP - 1];
}

void *fsm_block_take(struct blocks *blocks, size_t size)
{
    struct blocks_kept **kept, *block;

    CHECK(blocks != NULL);
    if (size > BLOCKS_SMALL_MAX)
        return check_alloc(size);
    kept = kept_of(blocks, size);
    block = *kept;
    if (block == NULL)
        return rest_take(blocks, &blocks->small, bytes_rounded(size));
    ASAN_UNPOISON_MEMORY_REGION(block, bytes_rounded(size));
    *kept = block->next;
    return block;
}

void fsm_block_give(struct blocks *blocks, void *block, size_t size)
{
    struct blocks_kept *given = block, **kept;

    CHECK(blocks != NULL);
    if (block == NULL)
        return;
    if (size > BLOCKS_SMALL_MAX) {
        free(block);
        return;
    }
    kept = kept_of(blocks, size);
    given->next = *kept;
    *kept = given;
    ASAN_POISON_MEMORY_REGION(block, bytes_rounded(size)); /* whoever still uses it is found */
}

void *fsm_block_page(struct blocks *blocks, size_t size)
{
    CHECK(blocks != NULL);
    CHECK(size > 0);
    return rest_take(blocks, &blocks->pages, (size + REGION_HEAD - 1) & ~(size_t)(REGION_HEAD - 1));
}

void fsm_blocks_free(struct blocks *blocks)
{
    CHECK(blocks != NULL);
    while (blocks->regions != NULL) {
        struct blocks_region *region = blocks->regions;

        blocks->regions = region->next;
        free(region);
    }
    memset(blocks, 0, sizeof(*blocks));
}
