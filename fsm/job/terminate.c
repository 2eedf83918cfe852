/* How an allocation stops: the terminate order, waiting for its nodes, the end with all nodes
 * released at once (I30).
 *
 * Flow     begin() sets the order and the plan (what it becomes); each node's report or loss marks
 *          its part; settle() ends the allocation when every part is done. Parts that stay silent
 *          count as done at the deadline (grace + slack), those of a node that is down for as long
 *          as it is: when it comes back their orders stand again.
 *          When the application has finished on all nodes meanwhile, it has COMPLETED whatever the
 *          plan. Walltime: a checkpoint that is being written may still complete until the grace
 *          ends; then the plan becomes SUSPENDED (F-013).
 * Source   decision 5; rows P-022, P-041, F-007, F-012..F-015, S1-090..S1-093.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"
#include "fsm/restart.h"

/* A sensitive job is never started again by the broker: somebody is asked first (F-008). */
bool fsm_requeue_wanted(const struct allocation *allocation, bool node_failure)
{
    Ckpt__V1__RequeuePolicy policy = allocation->view.requeue_policy;

    return !allocation->view.sensitive && /* F-008 */
           (policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ALWAYS ||
            (node_failure && policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ON_NODE_FAILURE));
}

/* The limit of requeues keeps a job that fails at once from starting for ever (F-015). */
struct fsm_plan fsm_plan_failure(const struct fsm *fsm, const struct allocation *allocation,
                                 Ckpt__V1__Reason reason, bool node_failure)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t limit = view->max_requeue != 0 ? view->max_requeue : fsm->policy.max_requeue;
    struct fsm_plan plan = {reason, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED, reason};

    CHECK(allocation->view.id != NULL);
    if (fsm_requeue_wanted(allocation, node_failure) && view->requeue_count < limit) /* F-015 */
        plan.state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED;
    return plan;
}

/* Its ckpt-run would start it again in place, and on several nodes the broker does so: whatever the
 * policy of requeues says of failures, within the same limit. */
struct fsm_plan fsm_plan_again(const struct fsm *fsm, const struct allocation *allocation)
{
    const Ckpt__V1__Reason reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    bool as_node_failure = fsm_restart_is_auto(fsm, &allocation->view);

    CHECK(allocation->view.id != NULL);
    return fsm_plan_failure(fsm, allocation, reason, as_node_failure);
}

/* The order counts: the account is closed while the job still holds its nodes; the preemption
 * learns which nodes leave before they are released, and that they are free only afterwards (I30).
 * A requeue by a move is no failure and uses none of the job's requeues. */
void fsm_allocation_end(struct fsm *fsm, struct allocation *allocation,
                        Ckpt__V1__AllocationState state, Ckpt__V1__Reason reason)
{
    struct fsm_allocation *view = &allocation->view;
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    bool preempted = state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED ||
                     reason == CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT;
    bool frees = fsm_allocation_runs(allocation) && allocation->preemptor_class != 0;

    CHECK((unsigned)state < FSM_STATES_ALLOCATION);
    CHECK(allocation->view.id != NULL);
    if (active != NULL)
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED,
                           CKPT__V1__REASON__REASON_ALLOCATION_ENDED);
    fsm_verify_let_go(fsm, allocation);
    fsm_account_end(fsm, allocation, state, reason);
    if (state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED &&
        reason != CKPT__V1__REASON__REASON_MIGRATED) {
        view->requeue_count++;
        fsm->requeues_total++;
    }
    if (preempted && allocation->preemptor_class != 0)
        view->preempted_count++;
    if (allocation->preemptor_class != 0 &&
        (reason == CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT ||
         reason == CKPT__V1__REASON__REASON_CHECKPOINT_TIMEOUT))
        fsm->losses.kills[fsm_group(view, fsm_vcluster_busy(fsm, view->vcluster))]++;
    view->terminating = false;
    /* All nodes are given back: a scale-down that waits is forgotten. */
    fsm_scale_clear(fsm, allocation);
    fsm_preemption_leaves(fsm, allocation);
    fsm_allocation_release(fsm, allocation);
    fsm_unended_begin(fsm, allocation);
    fsm_account_update(fsm, allocation);
    fsm_allocation_move(fsm, allocation, state, reason);
    for (uint32_t i = 0; i < view->node_count; i++)
        fsm_node_emptied(fsm, node_at(fsm, view->nodes[i].node_slot));
    for (uint32_t i = 0; frees && i < view->node_count; i++)
        fsm_node_freed(fsm, node_at(fsm, view->nodes[i].node_slot), allocation->preemptor_class);
    fsm_restart_awaits(fsm, allocation);
    fsm_preemption_released(fsm, allocation);
    fsm_retention_review(fsm, allocation);
    fsm_allocation_arm(fsm, allocation);
}

/* Nobody said that what ran on a node that is down has ended: such a part is done only for as long
 * as its node stays away. The GPUs of all parts are held until the last one is done (I30). */
void fsm_terminate_mark(const struct fsm *fsm, struct allocation *allocation,
                        struct assignment *part)
{
    const struct node *node = node_at(fsm, allocation->view.nodes[part->share].node_slot);

    if (part->terminated)
        return;
    part->terminated = true;
    part->away = !part->exited && fsm_node_gone(&node->view);
    allocation->terminated_count++;
    CHECK(allocation->terminated_count <= allocation->view.node_count);
    fsm_part_check(allocation, part);
}

/* Parts that need no order: their node is down, or their application has finished. */
static void terminate_mark_gone(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct node *node = node_at(fsm, allocation->view.nodes[i].node_slot);
        struct assignment *part = &allocation->assignments[i];

        if (part->exited || fsm_node_gone(&node->view))
            fsm_terminate_mark(fsm, allocation, part);
    }
}

/* Nothing is ended here unless nobody has to be waited for: the order stands until each node said
 * that its part is done. An active checkpoint ends now, but for one that writes when the walltime
 * ends: it may still complete in the grace. */
void fsm_terminate_begin(struct fsm *fsm, struct allocation *allocation, struct fsm_plan plan)
{
    struct fsm_allocation *view = &allocation->view;
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    bool walltime = plan.order_reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;

    CHECK(allocation->view.id != NULL);
    CHECK(fsm_allocation_runs(allocation));
    CHECK(!view->terminating);
    CHECK(fsm_allocation_move_allowed(view->state, plan.state));
    fsm_scale_clear(fsm, allocation);
    fsm_verify_let_go(fsm, allocation);
    fsm_read_clear(fsm, allocation);
    view->terminating = true;
    view->terminate_reason = plan.order_reason;
    allocation->plan_state = (uint8_t)plan.state;
    allocation->plan_reason = (uint8_t)plan.reason;
    allocation->grace_end_ms = fsm->now_ms + fsm_stop_grace_ms(fsm, allocation);
    allocation->terminate_deadline_ms = allocation->grace_end_ms + FSM_TERMINATE_SLACK_MS;
    if (active != NULL && walltime)
        fsm->walltime_conflicts++; /* F-014 */
    if (active != NULL && !walltime)
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED,
                           CKPT__V1__REASON__REASON_ALLOCATION_ENDED);
    else if (active != NULL && !fsm_checkpoint_writes(active))
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED,
                           CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED);
    terminate_mark_gone(fsm, allocation);
    fsm_allocation_changed(fsm, allocation);
    fsm_terminate_settle(fsm, allocation);
}

/* The word of one node, or its loss: its order is withdrawn, the others' stand. */
void fsm_terminate_part(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    CHECK(allocation->view.id != NULL);
    CHECK(part != NULL);
    fsm_terminate_mark(fsm, allocation, part);
    fsm_node_changed(fsm,
                     node_edit(fsm, node_at(fsm, allocation->view.nodes[part->share].node_slot)));
    fsm_terminate_settle(fsm, allocation);
}

/* A part that counted as done, its node being lost or its application ended, runs again, or its
 * node is back: it is to be ended like the others. */
void fsm_terminate_again(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    if (!part->terminated || !(allocation->view.terminating || part->leaving))
        return;
    CHECK(allocation->terminated_count > 0);
    part->terminated = false;
    part->away = false;
    allocation->terminated_count--;
    fsm_node_changed(fsm,
                     node_edit(fsm, node_at(fsm, allocation->view.nodes[part->share].node_slot)));
}

/* One part is gone already: its node, or its application, which did not finish. */
void fsm_terminate_without(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                           struct fsm_plan plan)
{
    CHECK(part != NULL);
    if (!allocation->view.terminating)
        fsm_terminate_begin(fsm, allocation, plan);
    if (allocation->view.terminating)
        fsm_terminate_part(fsm, allocation, part);
}

/* Who has finished needs no other run, whatever it was being stopped for (F-021). Parts that ended
 * with an error do not count here. */
bool fsm_terminate_finished(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->exited_count == allocation->view.node_count;
}

/* The one place where a job that stops becomes what it was to be: when all parts are done, and no
 * checkpoint may complete any more. */
void fsm_terminate_settle(struct fsm *fsm, struct allocation *allocation)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    bool may_complete = active != NULL && fsm->now_ms < allocation->grace_end_ms;

    if (!allocation->view.terminating)
        return;
    if (fsm_terminate_finished(allocation)) {
        fsm_allocation_end(fsm, allocation, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED,
                           CKPT__V1__REASON__REASON_NONE);
        return;
    }
    if (may_complete || allocation->terminated_count < allocation->view.node_count) {
        fsm_allocation_arm(fsm, allocation);
        return;
    }
    if (active != NULL)
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED,
                           CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED);
    fsm_allocation_end(fsm, allocation, (Ckpt__V1__AllocationState)allocation->plan_state,
                       (Ckpt__V1__Reason)allocation->plan_reason);
}

/* Two instants: at the end of the grace a checkpoint that still writes has failed; at the deadline
 * silent nodes count as done, so that one dead agent does not keep all other nodes. After the end
 * of an application they are waited for until they are heard or down: one may be its cause. */
static void terminate_overdue(struct fsm *fsm, struct allocation *allocation)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

    CHECK(allocation->view.id != NULL);
    if (active != NULL && fsm->now_ms >= allocation->grace_end_ms) /* S1-092 */
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED,
                           CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED);
    if (fsm->now_ms >= allocation->terminate_deadline_ms && fsm_cause_open(fsm, allocation))
        allocation->terminate_deadline_ms = fsm_add(fsm->now_ms, FSM_CAUSE_AGAIN_MS);
    for (uint32_t i = 0;
         fsm->now_ms >= allocation->terminate_deadline_ms && i < allocation->view.node_count; i++) {
        struct assignment *part = &allocation->assignments[i];
        const struct node *node = node_at(fsm, allocation->view.nodes[i].node_slot);
        bool untold = !part->terminated && !part->exited &&
                      (fsm_level(fsm) >= 2 || node->view.silent_since_ms != 0);

        fsm_terminate_mark(fsm, allocation, part);
        part->away |= untold; /* nobody has said that it ended (unended.c) */
    }
    fsm_terminate_settle(fsm, allocation);
}

/* One timer for all that a job waits for: the end of its retention when it has ended, else the
 * stop, the leaving nodes, the walltime or a reader's time, whichever allocation_due_ms() armed. */
void fsm_terminate_due(struct fsm *fsm, struct allocation *allocation)
{
    struct fsm_plan walltime = {CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED,
                                CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
                                CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED};

    CHECK(allocation->view.id != NULL);
    if (!fsm_allocation_runs(allocation)) {
        allocation->expired = true;
        fsm_allocation_arm(fsm, allocation);
        fsm_retention_review(fsm, allocation);
        fsm_retention_leave(fsm, allocation);
    } else if (allocation->view.terminating) {
        terminate_overdue(fsm, allocation);
    } else if (allocation->view.leaving && fsm->now_ms >= allocation->terminate_deadline_ms) {
        fsm_scale_due(fsm, allocation);
    } else if (fsm->now_ms >= fsm_read_due_ms(fsm, allocation)) {
        fsm_read_due(fsm, allocation);
        fsm_allocation_arm(fsm, allocation);
    } else if (allocation->view.walltime_ms != 0 &&
               fsm->now_ms >= allocation->view.started_at_ms + allocation->view.walltime_ms) {
        fsm_terminate_begin(fsm, allocation, walltime);
    } else if (fsm_walltime_warns(fsm, allocation)) {
        fsm_allocation_arm(fsm, allocation);
    } else { /* what it was armed for is due later now, or never: no end of the job */
        fsm_allocation_arm(fsm, allocation);
    }
}
