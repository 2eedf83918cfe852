/* Jobs that leave a node which is being drained. The drain itself: fsm/cluster/apply_drain.c.
 * L-001, L-002 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"

/* Its part leaves, or it ends, already. */
bool fsm_leave_passes(const struct allocation *allocation, const struct node *node)
{
    return allocation->view.terminating ||
           fsm_allocation_part(allocation, node->view.slot)->leaving;
}

/* As a job that moves: it is to run again elsewhere, whatever its policy says of failures. */
void fsm_leave_begin(struct fsm *fsm, struct allocation *allocation)
{
    const struct fsm_plan plan = {CKPT__V1__REASON__REASON_MIGRATED,
                                  CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED,
                                  CKPT__V1__REASON__REASON_MIGRATED};

    CHECK(allocation->view.id != NULL);
    fsm_terminate_begin(fsm, allocation, plan);
}

/* A checkpoint of the job is complete, and one of its nodes is to be left: the job leaves it, and
 * with it all its nodes. */
bool fsm_leave_takes(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; fsm_level(fsm) >= 2 && i < allocation->view.node_count; i++) {
        const struct node *node = node_at(fsm, allocation->view.nodes[i].node_slot);

        if (fsm_node_wanted(&node->view) != CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN ||
            node->view.leave == CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_UNSPECIFIED ||
            fsm_leave_passes(allocation, node))
            continue;
        fsm_leave_begin(fsm, allocation);
        return true;
    }
    return false;
}
