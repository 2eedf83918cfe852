/* Memory for one log entry's decoded messages. See arena.h. */
#include "fsm/core/arena.h"

#include <malloc.h>

#include "src/base/check.h"

enum { ARENA_BLOCK_BYTES = 1 << 18, ARENA_ALIGN = 16, ARENA_HEAD = 32 };

struct arena_block {
    struct arena_block *next;
    size_t size;
};
_Static_assert(sizeof(struct arena_block) <= ARENA_HEAD, "the head fits before the bytes");

/* What is left of a block is given up when the next piece does not fit: entries are small beside a
 * block. */
void *fsm_arena_take(struct arena *arena, size_t size)
{
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    char *bytes;

    CHECK(arena != NULL);
    CHECK(rounded >= size);
    if (arena->blocks == NULL || arena->blocks->size - arena->used < rounded) {
        size_t block_size = rounded > ARENA_BLOCK_BYTES ? rounded : ARENA_BLOCK_BYTES;
        struct arena_block *block = check_alloc(ARENA_HEAD + block_size);

        block->next = arena->blocks;
        block->size = block_size;
        arena->blocks = block;
        arena->used = 0;
    }
    bytes = (char *)arena->blocks + ARENA_HEAD + arena->used;
    arena->used += rounded;
    return bytes;
}

/* Keeps one block of the usual size: most entries need no more. */
void fsm_arena_reset(struct arena *arena)
{
    struct arena_block *kept = NULL;

    CHECK(arena != NULL);
    while (arena->blocks != NULL) {
        struct arena_block *block = arena->blocks;

        arena->blocks = block->next;
        if (kept == NULL && block->size == ARENA_BLOCK_BYTES) {
            kept = block;
            kept->next = NULL;
        } else {
            free(block);
        }
    }
    arena->blocks = kept;
    arena->used = 0;
}

void fsm_arena_free(struct arena *arena)
{
    CHECK(arena != NULL);
    fsm_arena_reset(arena);
    free(arena->blocks);
    arena->blocks = NULL;
}

static void *arena_alloc(void *context, size_t size)
{
    return fsm_arena_take(context, size);
}

static void arena_ignore(void *context, void *pointer)
{
    (void)context;
    (void)pointer;
}

ProtobufCAllocator fsm_arena_allocator(struct arena *arena)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_ignore, arena};

    return allocator;
}
