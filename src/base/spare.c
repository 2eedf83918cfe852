/* Blocks kept for reuse. See spare.h. */
#include "src/base/spare.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

/* In front of each block. */
struct spare_block {
    struct spare_block *next; /* while it is kept */
    size_t size;              /* usable bytes */
};
enum { HEAD_BYTES = 16 };
_Static_assert(sizeof(struct spare_block) <= HEAD_BYTES, "the head fits before the bytes");

void spare_init(struct spare *spare, size_t kept_max_bytes)
{
    *spare = (struct spare){.kept_max_bytes = kept_max_bytes};
}

void spare_close(struct spare *spare)
{
    CHECK(spare->out_count == 0);
    for (size_t i = 0; i < SPARE_SIZES; i++)
        while (spare->kept[i] != NULL) {
            struct spare_block *block = spare->kept[i];

            spare->kept[i] = block->next;
            free(block);
        }
    spare->kept_bytes = 0;
}

static struct spare_block *head_of(void *bytes)
{
    return (struct spare_block *)(void *)((char *)bytes - HEAD_BYTES);
}

/* Of blocks with so many usable bytes. */
static struct spare_block **list_of(struct spare *spare, size_t size)
{
    return &spare->kept[size / SPARE_STEP_BYTES - 1];
}

void *spare_take(struct spare *spare, size_t size)
{
    size_t rounded = size == 0 ? SPARE_STEP_BYTES
                               : (size + SPARE_STEP_BYTES - 1) & ~(size_t)(SPARE_STEP_BYTES - 1);
    struct spare_block *block = NULL, **list;

    CHECK(rounded >= size && rounded <= SIZE_MAX - HEAD_BYTES);
    if (rounded <= SPARE_BLOCK_MAX_BYTES) {
        list = list_of(spare, rounded);
        block = *list;
        if (block != NULL) {
            *list = block->next;
            spare->kept_bytes -= rounded;
            __builtin_prefetch(block->next, 1); /* the next one to be taken waits for it no more */
        }
    }
    if (block == NULL)
        block = check_alloc(HEAD_BYTES + rounded);
    block->size = rounded;
    spare->out_count++;
    return (char *)block + HEAD_BYTES;
}

void *spare_take_zeroed(struct spare *spare, size_t count, size_t size)
{
    size_t bytes;

    CHECK(!__builtin_mul_overflow(count, size, &bytes));
    return memset(spare_take(spare, bytes), 0, bytes);
}

void spare_give(struct spare *spare, void *bytes)
{
    struct spare_block *block, **list;

    if (bytes == NULL)
        return;
    CHECK(spare->out_count > 0);
    spare->out_count--;
    block = head_of(bytes);
    if (block->size > SPARE_BLOCK_MAX_BYTES ||
        spare->kept_bytes + block->size > spare->kept_max_bytes) {
        free(block);
        return;
    }
    list = list_of(spare, block->size);
    block->next = *list;
    *list = block;
    spare->kept_bytes += block->size;
}

void *spare_resize(struct spare *spare, void *bytes, size_t size)
{
    size_t had = bytes == NULL ? 0 : head_of(bytes)->size;
    void *larger;

    if (bytes != NULL && size <= had)
        return bytes;
    larger = spare_take(spare, size);
    if (bytes != NULL)
        memcpy(larger, bytes, had);
    spare_give(spare, bytes);
    return larger;
}
