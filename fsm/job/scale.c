/* Scale-down: nodes leave a running allocation when a checkpoint of the old node set has ended
 * (S1-081).
 *
 *   update without a node ─► SCALE_DOWN checkpoint with the old nodes
 *       ├► complete:          the nodes leave
 *       ├► failed, timed out: they leave, the loss is counted
 *       └► cancelled:         they stay
 *   leave: the applications on these nodes are terminated, and when they are gone the new set is in
 *   place
 *
 * Flow     ask() keeps the new set and asks for the checkpoint, or waits for the active one; done()
 *          lets the nodes leave. What stops the allocation wins over it: the new set is
 *          forgotten.
 * Shapes   one at a time per allocation: view.next, and an active checkpoint after which the
 *          allocation goes on, or view.leaving.
 * Source   S1-080, S1-081, R-002, R-003.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#include <malloc.h>

/* The set was made by a caller as an array that may change, and is kept as one that may not. */
static void scale_free(const struct fsm_node_share *shares)
{
    union {
        const struct fsm_node_share *constant;
        struct fsm_node_share *changing;
    } pointer = {shares};

    CHECK(shares->node_slot < FSM_NODES_MAX);
    free(pointer.changing);
}

/* A node that is in both sets counts the job once. */
static void scale_count_joining(struct fsm *fsm, const struct allocation *allocation, int change)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t stamp = ++fsm->stamp;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < view->node_count; i++)
        ((struct node *)fsm_pool_at(&fsm->nodes, view->nodes[i].node_slot))->stamp = stamp;
    for (uint32_t i = 0; i < view->next_count; i++) {
        struct node *node = fsm_pool_at(&fsm->nodes, view->next[i].node_slot);

        if (node->stamp != stamp)
            node->going_count += (uint32_t)change;
    }
}

/* Nodes of the new set are named from now on, and count the job among those that have not ended:
 * none of them can be removed before the job has come. */
void fsm_scale_set_next(struct fsm *fsm, struct allocation *allocation,
                        const struct fsm_node_share *take_next, uint32_t count)
{
    CHECK(take_next != NULL);
    CHECK(allocation->view.next_count == 0);
    allocation->view.next = take_next;
    allocation->view.next_count = count;
    fsm->next_set_count++;
    for (uint32_t i = 0; i < count; i++)
        fsm_node_refer(fsm, take_next[i].node_slot);
    scale_count_joining(fsm, allocation, 1);
}

/* The set is the caller's then. Its names are given back before it is used: nodes that stay are
 * named by the job's own shares. */
static const struct fsm_node_share *scale_take_next(struct fsm *fsm, struct allocation *allocation)
{
    const struct fsm_node_share *next = allocation->view.next;
    uint32_t count = allocation->view.next_count;

    CHECK(allocation->view.id != NULL);
    scale_count_joining(fsm, allocation, -1);
    CHECK(fsm->next_set_count > 0);
    fsm->next_set_count--;
    allocation->view.next = NULL;
    allocation->view.next_count = 0;
    for (uint32_t i = 0; i < count; i++)
        fsm_node_unrefer(fsm, next[i].node_slot);
    return next;
}

/* Whatever was on its way: the set, the marks of the parts, the reason. The active checkpoint goes
 * on as what it is. */
void fsm_scale_clear(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    fsm_verify_let_go(fsm, allocation);
    if (allocation->view.next_count > 0)
        scale_free(scale_take_next(fsm, allocation));
    allocation->view.leaving = false;
    allocation->leave_reason = 0;
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        allocation->assignments[i].leaving = false;
}

/* Watchers see a job's size by this: it changed, or stays as it was although somebody had asked. */
void fsm_scale_event(struct fsm *fsm, const struct allocation *allocation, Ckpt__V1__Reason reason)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_UPDATED,
                              .allocation_id = allocation->view.id,
                              .reason = reason,
                              .number = allocation->view.node_count};

    CHECK(allocation->view.id != NULL);
    fsm_event_emit(fsm, &event);
}

/* An active checkpoint is of the old set as well, so it does what a new one would: it is hurried. A
 * paused one is not waited for, since nobody knows for how long. */
enum fsm_status fsm_scale_ask(struct fsm *fsm, struct allocation *allocation,
                              struct fsm_node_share *take_next, uint32_t count,
                              struct fsm_outcome *outcome)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_SCALE_DOWN,
                                 .after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
    enum fsm_status status = FSM_OK;

    CHECK(take_next != NULL);
    CHECK(outcome != NULL);
    CHECK(count > 0);
    CHECK(allocation->view.next_count == 0);
    outcome->checkpoint_id = allocation->view.active_checkpoint_id;
    if (active == NULL)
        status = fsm_checkpoint_ask(fsm, allocation, &ask, outcome);
    else if (active->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED)
        status = FSM_STORAGE_UNAVAILABLE;
    else
        fsm_checkpoint_hurry(fsm, active, &ask);
    if (status != FSM_OK)
        return status;
    fsm_scale_set_next(fsm, allocation, take_next, count);
    return FSM_OK;
}

/* What must not be forgotten of a part while its shares are made anew. */
struct part_known {
    uint32_t node_slot;
    uint64_t run;
    bool exited, starting, restored, joined;
    uint8_t restored_as;
    uint32_t shard, user;
};

/* Sets keep their order mostly: the search begins behind the last one found. */
static const struct part_known *part_find(const struct part_known *known, uint32_t count,
                                          uint32_t *at, uint32_t node_slot)
{
    CHECK(node_slot < FSM_NODES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct part_known *part = &known[*at];

        *at = *at + 1 < count ? *at + 1 : 0;
        if (part->node_slot == node_slot)
            return part;
    }
    return NULL;
}

/* A node that comes before any part has begun restores the shard of its place. There is none when
 * the job has another number of parts than its checkpoint: then the node joins. */
static bool scale_joins(const struct fsm *fsm, const struct allocation *allocation, uint32_t count)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *point = checkpoint_find(fsm, view->restart_id);

    CHECK(view->id != NULL);
    if (allocation->starting_count < view->node_count)
        return true;
    return point != NULL && view->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN &&
           point->view.shard_count != count;
}

/* No part has begun, and the new set of nodes gives the parts other places. So all parts restore
 * anew, each the shard of its new place. */
static bool scale_begins_anew(const struct fsm *fsm, const struct allocation *allocation,
                              uint32_t count)
{
    CHECK(allocation->view.id != NULL);
    return checkpoint_find(fsm, allocation->view.restart_id) != NULL &&
           !scale_joins(fsm, allocation, count);
}

/* A part that stays keeps everything that is known of it. */
static void scale_set_shares(struct fsm *fsm, struct allocation *allocation,
                             const struct fsm_node_share *next, uint32_t count)
{
    struct fsm_allocation *view = &allocation->view;
    struct part_known *known = check_calloc(view->node_count, sizeof(*known));
    uint32_t known_count = view->node_count;
    struct fsm_node_share *shares;
    bool joins = scale_joins(fsm, allocation, count);
    bool anew = scale_begins_anew(fsm, allocation, count);
    uint32_t at = 0;

    CHECK(next->node_slot < FSM_NODES_MAX);
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < known_count; i++)
        known[i] = (struct part_known){view->nodes[i].node_slot,
                                       view->nodes[i].run,
                                       allocation->assignments[i].exited,
                                       allocation->assignments[i].starting,
                                       allocation->assignments[i].restored,
                                       allocation->assignments[i].joined,
                                       allocation->assignments[i].restored_as,
                                       allocation->assignments[i].shard,
                                       allocation->assignments[i].user};
    shares = fsm_allocation_set_shares(fsm, allocation, count);
    memcpy(shares, next, count * sizeof(*next));
    if (anew)
        fsm_parts_settle(fsm, shares, count, &checkpoint_find(fsm, view->restart_id)->view);
    for (uint32_t i = 0; i < count; i++) {
        const struct part_known *part = part_find(known, known_count, &at, shares[i].node_slot);

        shares[i].run = part != NULL ? part->run : 0;
        allocation->assignments[i].exited = part != NULL && part->exited;
        allocation->exited_count += allocation->assignments[i].exited;
        /* a new part of a running job does not count as starting: it computes as soon as it can */
        allocation->assignments[i].starting =
            part != NULL ? part->starting
                         : view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING;
        allocation->starting_count += allocation->assignments[i].starting;
        allocation->assignments[i].restored = part != NULL && part->restored;
        allocation->restored_count += allocation->assignments[i].restored;
        allocation->assignments[i].restored_as = part != NULL ? part->restored_as : 0;
        allocation->assignments[i].shard = part != NULL ? part->shard : 0;
        allocation->assignments[i].user = part != NULL ? part->user : 0;
        allocation->assignments[i].joined = part != NULL ? part->joined : joins;
        allocation->joined_count += allocation->assignments[i].joined;
    }
    fsm_allocation_name_nodes(fsm, allocation);
    for (uint32_t i = 0; i < known_count; i++)
        if (fsm_allocation_part(allocation, known[i].node_slot) == NULL)
            fsm_node_emptied(fsm, node_at(fsm, known[i].node_slot));
    if (anew)
        fsm_allocation_parts_start(fsm, allocation, view->restart_id);
    fsm_allocation_begin_runs(fsm, allocation, anew);
    free(known);
}

/* The new set at once. With a reason: no checkpoint was written for it, and the nodes that leave
 * take their share of the work with them. */
void fsm_scale_now(struct fsm *fsm, struct allocation *allocation,
                   const struct fsm_node_share *next, uint32_t count, Ckpt__V1__Reason reason)
{
    struct fsm_allocation *view = &allocation->view;
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    uint32_t old_count = view->node_count;
    uint32_t gpus = 0, stays;

    CHECK(allocation->view.id != NULL);
    CHECK(next != NULL);
    CHECK(active == NULL || !fsm_checkpoint_writes(active));
    for (uint32_t i = 0; i < count; i++)
        gpus += next[i].gpu_count;
    stays = fsm_weight_of(gpus, count, view->node_gpus).gpus;
    if (reason != CKPT__V1__REASON__REASON_NONE && stays < fsm_account_gpus(view))
        fsm_account_left(fsm, allocation, stays);
    if (count < old_count)
        view->scaled_at_ms = fsm->now_ms;
    fsm_preemption_leaves(fsm, allocation);
    fsm_departed_note(fsm, allocation, next, count);
    fsm_allocation_release(fsm, allocation);
    scale_set_shares(fsm, allocation, next, count);
    fsm_allocation_sum_shares(allocation);
    fsm_allocation_estimate(allocation, old_count);
    fsm_allocation_assign(fsm, allocation);
    fsm_account_update(fsm, allocation);
    if (view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING)
        fsm_allocation_go_on(fsm, allocation, CKPT__V1__REASON__REASON_NONE);
    if (active != NULL)
        fsm_checkpoint_follow_nodes(fsm, active);
    fsm_preemption_released(fsm, allocation);
}

/* Marks those that are not in the new set, with a stamp for each node that is. */
static void scale_mark(struct fsm *fsm, struct allocation *allocation)
{
    uint64_t stamp = ++fsm->stamp;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.next_count; i++)
        node_edit(fsm, node_at(fsm, allocation->view.next[i].node_slot))->stamp = stamp;
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        allocation->assignments[i].leaving =
            node_at(fsm, allocation->view.nodes[i].node_slot)->stamp != stamp;
}

/* The marks follow from the two sets, so that no snapshot holds them. */
void fsm_scale_adopt(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->view.leaving)
        scale_mark(fsm, allocation);
}

/* F-021 for those that stay: the application may have ended on all of them while the others were
 * leaving. */
void fsm_scale_ended(struct fsm *fsm, struct allocation *allocation)
{
    if (fsm_terminate_finished(allocation) && !allocation->view.terminating)
        fsm_allocation_end(fsm, allocation, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED,
                           CKPT__V1__REASON__REASON_NONE);
}

/* Nobody waits for it: the job hangs, does not answer, or is forced. One that is being written is
 * of parts that end now; one that waits for its turn is of those that stay. */
static void scale_end_writing(struct fsm *fsm, const struct allocation *allocation)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

    CHECK(allocation->view.id != NULL);
    if (active != NULL && fsm_checkpoint_writes(active))
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_CANCELLED,
                           CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT);
}

/* Nodes that join were looked at when they were asked for, and the checkpoint took its time:
 * nothing begins on one that has gone since, or is out of use. 0: none of the set is left. */
static uint32_t scale_drop_joining(const struct fsm *fsm, const struct allocation *allocation,
                                   struct fsm_node_share *next, uint32_t count)
{
    uint32_t kept = 0;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct fsm_node *node = &node_at(fsm, next[i].node_slot)->view;

        if (fsm_allocation_part(allocation, node->slot) != NULL ||
            (!fsm_node_gone(node) && fsm_node_refusal(node) != FSM_NODE_DISABLED))
            next[kept++] = next[i];
    }
    return kept;
}

/* Level 1 lets it be written on: what has ended by then completes, and is not waited for. */
void fsm_scale_level_raised(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->view.leaving)
        scale_end_writing(fsm, allocation);
}

/* The set changes in one step when the last one has ended: until then the job holds all its nodes
 * (I30), and nobody else may be let in. */
static void scale_settle(struct fsm *fsm, struct allocation *allocation)
{
    uint32_t count = allocation->view.next_count, fit_count;
    const struct fsm_node_share *next;
    struct fsm_node_share *fit;

    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        if (allocation->assignments[i].leaving && !allocation->assignments[i].terminated)
            return;
    scale_end_writing(fsm, allocation); /* of level 1 */
    next = scale_take_next(fsm, allocation);
    allocation->view.leaving = false;
    fit = check_calloc(count, sizeof(*fit));
    memcpy(fit, next, count * sizeof(*fit));
    fit_count = fsm_level(fsm) < 2 ? count : scale_drop_joining(fsm, allocation, fit, count);
    if (fit_count == 0) /* it has none of its nodes any more */
        fsm_scale_now(fsm, allocation, next, count, CKPT__V1__REASON__REASON_NONE);
    else
        fsm_scale_now(fsm, allocation, fit, fit_count, CKPT__V1__REASON__REASON_NONE);
    free(fit);
    fsm_scale_event(fsm, allocation, (Ckpt__V1__Reason)allocation->leave_reason);
    allocation->leave_reason = 0;
    fsm_allocation_arm(fsm, allocation);
    scale_free(next);
    if (fit_count == 0 && fsm_allocation_runs(allocation) && !allocation->view.terminating)
        fsm_terminate_begin(
            fsm, allocation,
            fsm_plan_failure(fsm, allocation, CKPT__V1__REASON__REASON_NODE_DOWN, true));
    fsm_scale_ended(fsm, allocation);
}

/* One of those that leave has ended: said by its node, or lost with it. */
void fsm_scale_part(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    CHECK(allocation->view.id != NULL);
    CHECK(part->leaving);
    fsm_terminate_mark(fsm, allocation, part);
    fsm_node_changed(fsm,
                     node_edit(fsm, node_at(fsm, allocation->view.nodes[part->share].node_slot)));
    scale_settle(fsm, allocation);
}

/* Silent nodes count as done. Whoever waits for the nodes does not wait for an agent that is gone;
 * what still runs there is ended when the agent is back (departed.c). */
void fsm_scale_due(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct assignment *part = &allocation->assignments[i];
        bool untold = !part->terminated && !part->exited;

        if (!part->leaving)
            continue;
        fsm_terminate_mark(fsm, allocation, part);
        part->away |= untold; /* nobody has said that it ended (departed.c) */
    }
    fsm_allocation_changed(fsm, allocation);
    scale_settle(fsm, allocation);
}

/* The applications on the nodes that leave are ended first: who gets the nodes finds them empty. */
void fsm_scale_done(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason)
{
    struct fsm_allocation *view = &allocation->view;
    uint32_t gpus = 0, nodes = 0; /* of the parts that stay */

    CHECK(allocation->view.id != NULL);
    if (view->next_count == 0 || view->leaving)
        return;
    if (fsm_level(fsm) >= 2)
        scale_end_writing(fsm, allocation);
    fsm_verify_let_go(fsm, allocation);
    view->leaving = true;
    allocation->leave_reason = (uint8_t)reason;
    allocation->terminate_deadline_ms =
        fsm->now_ms + fsm_allocation_grace_ms(fsm, allocation) + FSM_TERMINATE_SLACK_MS;
    scale_mark(fsm, allocation);
    for (uint32_t i = 0; i < view->node_count; i++) {
        struct assignment *part = &allocation->assignments[i];

        if (!part->leaving) {
            gpus += view->nodes[i].gpu_count;
            nodes++;
            continue;
        }
        fsm_read_ended(fsm, allocation, part);
        if (part->exited || fsm_node_gone(&node_at(fsm, view->nodes[i].node_slot)->view))
            fsm_terminate_mark(fsm, allocation, part);
    }
    if (reason != CKPT__V1__REASON__REASON_NONE)
        fsm_account_left(fsm, allocation, fsm_weight_of(gpus, nodes, view->node_gpus).gpus);
    fsm_allocation_changed(fsm, allocation);
    fsm_allocation_arm(fsm, allocation);
    scale_settle(fsm, allocation);
}

/* What is terminated already cannot be taken back: it leaves all the same. */
void fsm_scale_undo(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->view.next_count == 0 || allocation->view.leaving)
        return;
    fsm_scale_clear(fsm, allocation);
    fsm_scale_event(fsm, allocation, CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST);
}
