/* Views of the replicated state as messages of the API.
 *
 * Flow     a handler fills a reply with translate_*(), packs it, and drops everything with
 *          scratch_free(). Texts are borrowed from the state: pack before the next apply.
 * Shapes   struct scratch is a bump allocator for one reply; what it hands out is zeroed.
 * Units    those of the messages: milliseconds, bytes, parts per million; ids as 64 bits.
 * Errors   none: what is asked for is in the state, and what does not fit a message cannot be in
 *          it.
 */
#ifndef CKPT_BROKER_TRANSLATE_H
#define CKPT_BROKER_TRANSLATE_H

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "fsm/fsm.h"
#include "fsm/weight.h"
#include "src/broker/replica/replica.h"

/* Begins as {NULL}. Everything that was taken from it goes at once with scratch_free(), so that a
 * handler with many ways out has one thing to free. */
struct scratch {
    struct scratch_block *blocks;
};
/* `count` zeroed items of `size` bytes, aligned for anything. Never NULL, also for none. */
void *scratch_take(struct scratch *scratch, size_t count, size_t size);
__attribute__((format(printf, 2, 3))) char *scratch_printf(struct scratch *scratch,
                                                           const char *format, ...);
void scratch_free(struct scratch *scratch);

/* protobuf-c's members are not const; a message that is only packed does not write them. */
char *translate_text(const char *text);

/* "8 GPUs", or "2 nodes x 1". Returns text. */
enum { WEIGHT_TEXT_BYTES = 48 };
const char *translate_weight(struct fsm_weight weight, char text[WEIGHT_TEXT_BYTES]);
/* Fills the whole message: the registration, what it came to, what was learned, and what is about
 * to change. */
void translate_allocation(const struct fsm *fsm, const struct fsm_allocation *allocation,
                          struct scratch *scratch, Ckpt__V1__Allocation *ret_allocation);
/* NULL: its nodes wait for none. */
Ckpt__V1__ReleaseCheck *translate_release_check(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                struct scratch *scratch);
/* With its path and its shards. What only the leader knows (its place among those that wait) is not
 * in it: dispatcher_fill_place(). */
void translate_checkpoint(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                          struct scratch *scratch, Ckpt__V1__Checkpoint *ret_checkpoint);
/* now_ms: the later of the state's clock and the wall: neither a slow state nor a wall that stepped
 * back makes more time. Without a run. */
void translate_part(const struct fsm *fsm, const struct fsm_part *part, uint64_t now_ms,
                    Ckpt__V1__AllocationPart *ret_part);
/* Returns how many there are, which may be none yet. */
size_t translate_shards(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                        struct scratch *scratch, Ckpt__V1__ShardInfo ***ret_shards);
/* With the budget and what of it is granted. What the last probe said is not in it:
 * storage_watch_last_probe(). */
void translate_target(const struct fsm_target *target, struct scratch *scratch,
                      Ckpt__V1__TargetStatus *ret_target);
/* Of the member whose status it is. */
const char *translate_role(const struct consensus_status *status);
/* "ready", "degraded", "down", "draining", "drained": the last one when nothing is left on it. */
const char *translate_node_state(const struct fsm_node *node);
/* The path below the target's prefix, as agents and people see it. */
char *translate_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                                struct scratch *scratch);
/* ... of the folder that the job's checkpoints at that target lie in. */
char *translate_checkpoints_path(const struct fsm *fsm, const struct fsm_allocation *allocation,
                                 const struct fsm_target *target, struct scratch *scratch);

/* f8 = 1 / (1 + estimated minutes to write a checkpoint), parts per million; 0 when it cannot be
 * checkpointed. */
uint32_t translate_checkpoint_efficiency(const Ckpt__V1__Policy *policy,
                                         const struct fsm_allocation *allocation);

#endif
