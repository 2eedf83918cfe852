/* Slots with stable addresses. See pool.h. */
#include "fsm/core/pool.h"

#include <malloc.h>
#include <string.h>

#include "src/base/check.h"

enum { POOL_PAGE_ITEMS = 256, BITMAP_WORD_BITS = 64 };

static void bitmap_reach(struct bitmap *bitmap, uint32_t word)
{
    uint32_t count = bitmap->word_count;

    if (word < count)
        return;
    while (count <= word)
        count = count == 0 ? 4 : count * 2;
    bitmap->words = check_realloc(bitmap->words, count, sizeof(*bitmap->words));
    memset(bitmap->words + bitmap->word_count, 0,
           (count - bitmap->word_count) * sizeof(*bitmap->words));
    bitmap->word_count = count;
}

void fsm_bitmap_set(struct bitmap *bitmap, uint32_t bit)
{
    CHECK(bitmap != NULL);
    bitmap_reach(bitmap, bit / BITMAP_WORD_BITS);
    bitmap->words[bit / BITMAP_WORD_BITS] |= UINT64_C(1) << bit % BITMAP_WORD_BITS;
}

void fsm_bitmap_clear(struct bitmap *bitmap, uint32_t bit)
{
    uint32_t word = bit / BITMAP_WORD_BITS;

    CHECK(bitmap != NULL);
    if (word >= bitmap->word_count)
        return;
    bitmap->words[word] &= ~(UINT64_C(1) << bit % BITMAP_WORD_BITS);
    if (word < bitmap->first_free_word)
        bitmap->first_free_word = word;
}

bool fsm_bitmap_get(const struct bitmap *bitmap, uint32_t bit)
{
    uint32_t word = bit / BITMAP_WORD_BITS;

    CHECK(bitmap != NULL);
    return word < bitmap->word_count && (bitmap->words[word] >> bit % BITMAP_WORD_BITS & 1) != 0;
}

/* Words below first_free_word are full, so a table of a million slots is not looked through for
 * each new record. */
uint32_t fsm_bitmap_first_zero(struct bitmap *bitmap)
{
    uint32_t word = bitmap->first_free_word;

    while (word < bitmap->word_count && bitmap->words[word] == UINT64_MAX)
        word++;
    bitmap->first_free_word = word;
    if (word >= bitmap->word_count)
        return word * BITMAP_WORD_BITS;
    return word * BITMAP_WORD_BITS + (uint32_t)__builtin_ctzll(~bitmap->words[word]);
}

/* Whole words of zeros are passed at once: most sets are sparse. */
uint32_t fsm_bitmap_next(const struct bitmap *bitmap, uint32_t from)
{
    uint32_t word = from / BITMAP_WORD_BITS;
    uint64_t bits;

    CHECK(bitmap != NULL);
    if (word >= bitmap->word_count)
        return UINT32_MAX;
    bits = bitmap->words[word] & UINT64_MAX << from % BITMAP_WORD_BITS;
    while (bits == 0) {
        if (++word == bitmap->word_count)
            return UINT32_MAX;
        bits = bitmap->words[word];
    }
    return word * BITMAP_WORD_BITS + (uint32_t)__builtin_ctzll(bits);
}

void fsm_bitmap_free(struct bitmap *bitmap)
{
    CHECK(bitmap != NULL);
    free(bitmap->words);
    memset(bitmap, 0, sizeof(*bitmap));
}

void fsm_pool_init(struct pool *pool, size_t item_size, struct blocks *blocks)
{
    CHECK(pool != NULL);
    CHECK(item_size > 0);
    CHECK(blocks != NULL);
    memset(pool, 0, sizeof(*pool));
    pool->blocks = blocks;
    pool->item_size = item_size;
}

void fsm_pool_free(struct pool *pool)
{
    CHECK(pool != NULL);
    free(pool->pages);
    fsm_bitmap_free(&pool->taken);
    fsm_pool_init(pool, pool->item_size, pool->blocks);
}

uint32_t fsm_pool_free_slot(struct pool *pool)
{
    CHECK(pool != NULL);
    return fsm_bitmap_first_zero(&pool->taken);
}

/* Only the list of pages moves when it grows; items stay where they are. */
static void pool_reach(struct pool *pool, uint32_t page)
{
    uint32_t count = page + 1;

    CHECK(pool->item_size > 0);
    if (count <= pool->page_count)
        return;
    pool->pages = check_realloc(pool->pages, count, sizeof(*pool->pages));
    memset(pool->pages + pool->page_count, 0, (count - pool->page_count) * sizeof(*pool->pages));
    pool->page_count = count;
}

/* A page is made at its first item: a restore may take a high slot before the low ones. */
void *fsm_pool_take(struct pool *pool, uint32_t slot)
{
    uint32_t page = slot / POOL_PAGE_ITEMS;
    char *item;

    CHECK(pool != NULL);
    CHECK(!fsm_bitmap_get(&pool->taken, slot));
    pool_reach(pool, page);
    if (pool->pages[page] == NULL)
        pool->pages[page] = fsm_block_page(pool->blocks, POOL_PAGE_ITEMS * pool->item_size);
    fsm_bitmap_set(&pool->taken, slot);
    if (slot >= pool->slot_end)
        pool->slot_end = slot + 1;
    pool->used++;
    item = pool->pages[page] + slot % POOL_PAGE_ITEMS * pool->item_size;
    memset(item, 0, pool->item_size);
    return item;
}

/* What is given back is cleared, so that a record that is used afterwards has no id. The page
 * stays: the next record of the table needs it. The end follows the last slot that is taken, as on
 * a member that has read a snapshot: choices are made by it. */
void fsm_pool_give(struct pool *pool, uint32_t slot)
{
    CHECK(pool != NULL);
    CHECK(fsm_bitmap_get(&pool->taken, slot));
    memset(fsm_pool_at(pool, slot), 0, pool->item_size);
    fsm_bitmap_clear(&pool->taken, slot);
    pool->used--;
    while (pool->slot_end > 0 && !fsm_bitmap_get(&pool->taken, pool->slot_end - 1))
        pool->slot_end--;
}

void *fsm_pool_at(const struct pool *pool, uint32_t slot)
{
    CHECK(pool->item_size > 0);
    if (!fsm_bitmap_get(&pool->taken, slot))
        return NULL;
    return pool->pages[slot / POOL_PAGE_ITEMS] + slot % POOL_PAGE_ITEMS * pool->item_size;
}
