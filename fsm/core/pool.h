/* Slots with stable addresses. The lowest free one is taken first, so slot numbers depend on the
 * state alone: a member that was restored from a snapshot numbers the next record as the others do.
 *
 * Order    fsm_pool_init() once; a bitmap that is all zero is empty and ready.
 * Shapes   pages of POOL_PAGE_ITEMS zeroed items, kept as long as the blocks. An item never moves
 *          while it is taken, so records may point to each other. A pool never shrinks.
 * Errors   taking a slot that is taken, or giving back one that is free, is a bug.
 */
#ifndef CKPT_FSM_POOL_H
#define CKPT_FSM_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsm/core/blocks.h"

/* A growing set of small numbers. A number beyond its end is not in it, and removing one is no
 * error. */
struct bitmap {
    uint64_t *words;
    uint32_t word_count;
    uint32_t first_free_word; /* no word below it has a zero bit */
};

/* Grows the set when it must: memory for the highest number there ever was. */
void fsm_bitmap_set(struct bitmap *bitmap, uint32_t bit);
void fsm_bitmap_clear(struct bitmap *bitmap, uint32_t bit);
bool fsm_bitmap_get(const struct bitmap *bitmap, uint32_t bit);
/* The lowest number that is not in the set, which may lie behind its end. It remembers how far it
 * looked, so that the next call need not begin anew. */
uint32_t fsm_bitmap_first_zero(struct bitmap *bitmap);
/* The first number in the set that is >= from; UINT32_MAX: none. */
uint32_t fsm_bitmap_next(const struct bitmap *bitmap, uint32_t from);
void fsm_bitmap_free(struct bitmap *bitmap);

/* slot_end is what loops over a pool run to; there are at most as many taken slots. */
struct pool {
    struct blocks *blocks; /* of which its pages are */
    size_t item_size;
    char **pages;
    uint32_t page_count;
    uint32_t slot_end; /* 1 + the highest slot ever used */
    uint32_t used;
    struct bitmap taken;
};

/* Its pages are given back with the blocks, which must stay as long as the pool. */
void fsm_pool_init(struct pool *pool, size_t item_size, struct blocks *blocks);
void fsm_pool_free(struct pool *pool);
/* The slot to take next; it is not taken by that. */
uint32_t fsm_pool_free_slot(struct pool *pool);
/* A free slot; any one, because a restore takes those that the snapshot names. Zeroed memory. */
void *fsm_pool_take(struct pool *pool, uint32_t slot);
/* The memory is cleared, and the slot may be taken again at once: pointers to the item are dead. */
void fsm_pool_give(struct pool *pool, uint32_t slot);
void *fsm_pool_at(const struct pool *pool, uint32_t slot); /* NULL: empty or out of range */

#endif
