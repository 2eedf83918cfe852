/* Memory for one log entry's decoded messages: taken by moving a pointer, given back all at once.
 * Shapes: blocks are kept for the next entry, up to ARENA_KEPT_BYTES. Errors: running out of memory
 * is check_alloc's business. */
#ifndef CKPT_FSM_ARENA_H
#define CKPT_FSM_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t used;                /* of the newest */
};

void *fsm_arena_take(struct arena *arena, size_t size); /* aligned to 16, not cleared */
void fsm_arena_reset(struct arena *arena);
void fsm_arena_free(struct arena *arena);
/* For protobuf-c: takes from the arena, gives nothing back. */
ProtobufCAllocator fsm_arena_allocator(struct arena *arena);

#endif
