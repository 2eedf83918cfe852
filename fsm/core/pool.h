/* Slots with stable addresses; the lowest free one is taken first, so that slot numbers depend on
 * the state alone. Shapes: pages of POOL_PAGE_ITEMS zeroed items, kept until fsm_pool_free. */
#ifndef CKPT_FSM_POOL_H
#define CKPT_FSM_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing set of small numbers. */
struct bitmap {
    uint64_t *words;
    uint32_t word_count;
    uint32_t first_free_word; /* no word below it has a zero bit */
};

void fsm_bitmap_set(struct bitmap *bitmap, uint32_t bit);
void fsm_bitmap_clear(struct bitmap *bitmap, uint32_t bit);
bool fsm_bitmap_get(const struct bitmap *bitmap, uint32_t bit);
uint32_t fsm_bitmap_first_zero(struct bitmap *bitmap);
/* The first set bit >= from; UINT32_MAX: none. */
uint32_t fsm_bitmap_next(const struct bitmap *bitmap, uint32_t from);
void fsm_bitmap_free(struct bitmap *bitmap);

struct pool {
    size_t item_size;
    char **pages;
    uint32_t page_count;
    uint32_t slot_end; /* 1 + the highest slot ever used */
    uint32_t used;
    struct bitmap taken;
};

void fsm_pool_init(struct pool *pool, size_t item_size);
void fsm_pool_free(struct pool *pool);
uint32_t fsm_pool_free_slot(struct pool *pool);        /* the one to take next */
void *fsm_pool_take(struct pool *pool, uint32_t slot); /* a free one; returns zeroed memory */
void fsm_pool_give(struct pool *pool, uint32_t slot);
void *fsm_pool_at(const struct pool *pool, uint32_t slot); /* NULL: empty or out of range */

#endif
