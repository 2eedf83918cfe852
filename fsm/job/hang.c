/* Jobs that hang. See fsm/hang.h. */
#include "fsm/hang.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

bool fsm_hung(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return view->hung_since_ms != 0;
}

uint64_t fsm_hang_limit_ms(const Ckpt__V1__Policy *policy, uint64_t gap_p99_ms)
{
    CHECK(policy != NULL);
    if (gap_p99_ms == 0)
        return fsm_multiply(policy->hang_after_ms, FSM_HANG_UNPACED);
    return fsm_max(policy->hang_after_ms, fsm_multiply(gap_p99_ms, FSM_HANG_GAPS));
}

/* A node that is silent, or comes back just now, may hide ranks that step. */
static bool node_heard(const struct fsm_node *node)
{
    CHECK(node->id != NULL);
    return (node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY ||
            node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING) &&
           node->silent_since_ms == 0;
}

enum fsm_status fsm_hang_possible(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    if (view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING || view->terminating ||
        view->next_count != 0 || view->active_checkpoint_id != 0)
        return FSM_NOT_HUNG;
    for (uint32_t i = 0; i < view->node_count; i++)
        if (!node_heard(&node_at(fsm, view->nodes[i].node_slot)->view))
            return FSM_NOT_HUNG;
    return FSM_OK;
}

bool fsm_hang_steps(const struct fsm *fsm, const struct fsm_allocation *view, uint32_t place)
{
    CHECK(place < view->node_count);
    return !allocation_at(fsm, view->slot)->assignments[place].exited;
}

/* Whoever moves the job calls it, between fsm_allocation_forget() and _adopt(), which count. */
void fsm_hang_clear(struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    if (view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING &&
        view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP)
        view->hung_since_ms = 0;
}
