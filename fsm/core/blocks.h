/* Memory of the records of which there are a million: pages of pools, and the small blocks that go
 * with a record (its id, its parts).
 *
 * With small pages of memory nearly every record lies on a page of its own, and the processor waits
 * for the page's table before it waits for the record. This took a seventh of the time of an update
 * among a million, beside other programs up to a third. So records lie together in regions of large
 * pages. As long as there are few, regions are small and from malloc(): a small state takes little
 * memory.
 *
 * Flow     a large page that is full is told to the system (large_page_filled).
 * Order    blocks that are all zero are empty and ready.
 * Shapes   a block that is given back is the next one of its size to be taken, since it is the one
 *          that is in the caches. Regions are kept until fsm_blocks_free(). Small blocks of more
 *          than BLOCKS_SMALL_MAX bytes are malloc()'s.
 * Errors   as check_alloc().
 */
#ifndef CKPT_FSM_BLOCKS_H
#define CKPT_FSM_BLOCKS_H

#include <stddef.h>

enum { BLOCKS_STEP = 16, BLOCKS_SMALL_MAX = 512, BLOCKS_SIZES = BLOCKS_SMALL_MAX / BLOCKS_STEP };

struct blocks_region;
struct blocks_kept;

/* The rest of a region. */
struct blocks_rest {
    char *at;
    size_t bytes;
    void *large; /* the region, when it is a large page; else NULL */
};

struct blocks {
    struct blocks_region *regions;
    size_t region_bytes;
    struct blocks_rest small, pages; /* of a region each */
    struct blocks_kept *kept[BLOCKS_SIZES];
};

void *fsm_block_take(struct blocks *blocks, size_t size); /* undefined bytes */
/* Of the size that it was taken with; NULL is allowed. */
void fsm_block_give(struct blocks *blocks, void *block, size_t size);
/* For a page of a pool: never given back. Undefined bytes. */
void *fsm_block_page(struct blocks *blocks, size_t size);
void fsm_blocks_free(struct blocks *blocks);

#endif
