/* Memory for one log entry's decoded messages, and for lists that a command needs while it is
 * applied: taken by moving a pointer, given back all at once.
 *
 * Flow     fsm_apply_entry() resets the arena when the entry has been applied. Nothing that lies in
 *          it may be reached from the state: what stays is copied (message.c, intern.c).
 * Order    an arena that is all zero is empty and ready.
 * Shapes   a block of the usual size is kept for the next entry; what is larger has a block of its
 *          own.
 * Errors   running out of memory is check_alloc's business.
 */
#ifndef CKPT_FSM_ARENA_H
#define CKPT_FSM_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t used;                /* of the newest */
};

/* Aligned to 16, not cleared, valid until the reset. Nothing is given back singly. */
void *fsm_arena_take(struct arena *arena, size_t size);
/* Everything that was taken is dead. */
void fsm_arena_reset(struct arena *arena);
void fsm_arena_free(struct arena *arena);
/* For protobuf-c: takes from the arena, gives nothing back. The arena must stay where it is as long
 * as the allocator is used. */
ProtobufCAllocator fsm_arena_allocator(struct arena *arena);

#endif
