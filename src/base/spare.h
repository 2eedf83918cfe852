/* Small blocks that come and go all the time: given back ones are kept for the next that asks for
 * as much.
 *
 * Shapes   blocks of up to SPARE_BLOCK_MAX_BYTES, in steps of SPARE_STEP_BYTES; larger ones are
 *          malloc()'s. At most kept_max_bytes are kept. Of one thread. A block must not outlive its
 *          spare.
 * Errors   as check_alloc(): running out of memory stops the program.
 */
#ifndef CKPT_BASE_SPARE_H
#define CKPT_BASE_SPARE_H

#include <stddef.h>

enum { SPARE_STEP_BYTES = 64, SPARE_BLOCK_MAX_BYTES = 1024 };
enum { SPARE_SIZES = SPARE_BLOCK_MAX_BYTES / SPARE_STEP_BYTES };

struct spare_block;
struct spare {
    struct spare_block *kept[SPARE_SIZES];
    size_t kept_bytes, kept_max_bytes;
    size_t out_count; /* blocks that were taken and not given back */
};

/* kept_max_bytes: how much may lie here for the next who asks; 0: nothing is kept. */
void spare_init(struct spare *spare, size_t kept_max_bytes);
void spare_close(struct spare *spare); /* every block was given back */

/* Never NULL; contents are whatever they were. */
void *spare_take(struct spare *spare, size_t size);
void *spare_take_zeroed(struct spare *spare, size_t count, size_t size);
void spare_give(struct spare *spare, void *block); /* NULL allowed */
/* As realloc(), but it never moves a block that is large enough, nor gives back what it needs no
 * more. */
void *spare_resize(struct spare *spare, void *block, size_t size);

#endif
