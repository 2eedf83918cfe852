/* Views of the replicated state as messages of the API.
 *
 * Flow     a handler fills a reply with translate_*(), packs it, and drops everything with
 *          scratch_free(). Texts are borrowed from the state: pack before the next apply.
 * Shapes   struct scratch is a bump allocator for one reply; what it hands out is zeroed.
 */
#ifndef CKPT_BROKER_TRANSLATE_H
#define CKPT_BROKER_TRANSLATE_H

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "fsm/fsm.h"
#include "src/broker/replica/replica.h"

struct scratch {
    struct scratch_block *blocks;
};
void *scratch_take(struct scratch *scratch, size_t count, size_t size);
__attribute__((format(printf, 2, 3))) char *scratch_printf(struct scratch *scratch,
                                                           const char *format, ...);
void scratch_free(struct scratch *scratch);

/* protobuf-c's members are not const; a message that is only packed does not write them. */
char *translate_text(const char *text);

void translate_allocation(const struct fsm *fsm, const struct fsm_allocation *allocation,
                          struct scratch *scratch, Ckpt__V1__Allocation *ret_allocation);
void translate_checkpoint(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                          struct scratch *scratch, Ckpt__V1__Checkpoint *ret_checkpoint);
/* Returns the number of shards. */
/* now_ms: the later of the state's clock and the wall: neither a slow state nor a wall that stepped
 * back makes more time. Without a life. */
void translate_part(const struct fsm *fsm, const struct fsm_allocation *allocation, uint64_t now_ms,
                    Ckpt__V1__AllocationPart *ret_part);
size_t translate_shards(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                        struct scratch *scratch, Ckpt__V1__ShardInfo ***ret_shards);
void translate_target(const struct fsm_target *target, struct scratch *scratch,
                      Ckpt__V1__TargetStatus *ret_target);
/* Of the member whose status it is. */
const char *translate_role(const struct consensus_status *status);
/* "ready", "degraded", "down", "draining", "drained": the last one when nothing is left on it. */
const char *translate_node_state(const struct fsm_node *node);
char *translate_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                                struct scratch *scratch);

/* f8 = 1 / (1 + estimated minutes to write a checkpoint), parts per million; 0 when it cannot be
 * checkpointed. */
uint32_t translate_checkpoint_efficiency(const Ckpt__V1__Policy *policy,
                                         const struct fsm_allocation *allocation);

#endif
