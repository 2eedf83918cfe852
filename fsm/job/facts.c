/* Questions about a job and its checkpoints that change nothing. Files that otherwise know nothing
 * of each other ask them: what decides about a job (victim_rules.c, preemption.c) and what carries
 * it out (checkpoint.c, terminate.c, scale.c). */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define STATE(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

/* It has a grant, a deadline and an order: nodes may be writing, though none has said so yet. */
bool fsm_checkpoint_writes(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return checkpoint->view.state == STATE(DISPATCHED) || checkpoint->view.state == STATE(WRITING);
}

/* Its nodes do not say when they begin after a deferral: perhaps one writes by now. */
bool fsm_checkpoint_put_off(const struct fsm_checkpoint *view)
{
    CHECK(view->id != 0);
    return (view->state == STATE(DISPATCHED) || view->state == STATE(WRITING)) &&
           view->deferred_ms > view->deferred_before_ms;
}

/* Its allocation is being ended; or nodes are leaving it, and it will be of those that stay. */
bool fsm_checkpoint_held(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct fsm_allocation *view = &allocation_at(fsm, checkpoint->view.allocation_slot)->view;

    CHECK(checkpoint->view.id != 0);
    return view->terminating || view->leaving ||
           view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING;
}

/* An attempt may have made it: agents say so only when they are done. One that was collected has
 * none. */
bool fsm_checkpoint_has_folder(const struct checkpoint *checkpoint)
{
    return checkpoint->view.attempt > 0 && !checkpoint->collected;
}

/* Declared or the policy's, never below twice the learned write time (decision 4). */
uint64_t fsm_checkpoint_timeout_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    uint64_t timeout_ms = allocation->view.checkpoint_timeout_ms;

    CHECK(allocation->view.id != NULL);
    if (timeout_ms == 0)
        timeout_ms = allocation->view.sensitive ? fsm->policy.sensitive_timeout_ms
                                                : fsm->policy.checkpoint_timeout_ms;
    timeout_ms = fsm_max(timeout_ms, fsm_multiply(allocation->view.write_estimate_ms, 2));
    return fsm_min(fsm_max(timeout_ms, 1), FSM_DURATION_MAX_MS);
}

uint64_t fsm_attempt_interval_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const Ckpt__V1__Policy *policy = &fsm->policy;
    uint64_t min_ms = view->sensitive ? policy->sensitive_min_interval_ms : policy->min_interval_ms;
    uint64_t max_ms = view->sensitive ? policy->sensitive_max_interval_ms : policy->max_interval_ms;
    uint64_t unsaved_ms = 0;

    CHECK(view->id != NULL);
    if (view->unresponsive && view->last_attempt_end_ms > view->last_complete_snapshot_ms)
        unsaved_ms = view->last_attempt_end_ms - view->last_complete_snapshot_ms;
    if (max_ms != 0)
        unsaved_ms = fsm_min(unsaved_ms, max_ms);
    return fsm_max(min_ms, unsaved_ms);
}

/* What has finished asks nobody, and its last shard is of an earlier instant than what the others
 * would write now. An attempt that is under way may have what it needs. */
bool fsm_part_finished(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    const struct checkpoint *active;

    CHECK(view->id != NULL);
    if (allocation->exited_count == 0)
        return false;
    active = checkpoint_find_active(fsm, allocation);
    return active == NULL || !fsm_checkpoint_writes(active);
}

/* An alarm that lasts would ask it in every cycle. */
bool fsm_silence_lasts(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return view->unresponsive && view->last_attempt_end_ms != 0 &&
           fsm_since(fsm, view->last_attempt_end_ms) < fsm_attempt_interval_ms(fsm, view);
}

/* The newest checkpoint tells, since the job has had none after it: an alarm that lasts would else
 * move the job again in every cycle. */
bool fsm_move_too_soon(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    const struct checkpoint *newest =
        LIST_ITEM(allocation->checkpoints.previous, struct checkpoint, in_allocation);

    CHECK(view->id != NULL);
    if (fsm_silence_lasts(fsm, view))
        return true;
    if (list_empty(&allocation->checkpoints) ||
        newest->view.purpose != CKPT__V1__PURPOSE__PURPOSE_MIGRATE)
        return false;
    return (newest->view.state == STATE(FAILED) || newest->view.state == STATE(CANCELLED)) &&
           fsm_since(fsm, newest->view.state_since_ms) < fsm->policy.min_interval_ms;
}

/* In order, since most jobs have one node and most others few. NULL: the node has no part of it. */
struct assignment *fsm_allocation_part(const struct allocation *allocation, uint32_t node_slot)
{
    CHECK(node_slot < FSM_NODES_MAX);
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        if (allocation->view.nodes[i].node_slot == node_slot)
            return &allocation->assignments[i];
    return NULL;
}

/* Part and shard have the same place as long as the job has the nodes that it had when the
 * checkpoint was made, so that thousands of them need no search. NULL: the node has none of it. */
struct fsm_shard *fsm_checkpoint_shard(const struct checkpoint *checkpoint, uint32_t place,
                                       uint32_t node_slot)
{
    CHECK(node_slot < FSM_NODES_MAX);
    CHECK(checkpoint->view.id != 0);
    if (place < checkpoint->view.shard_count && checkpoint->shards[place].node_slot == node_slot)
        return &checkpoint->shards[place];
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (checkpoint->shards[i].node_slot == node_slot)
            return &checkpoint->shards[i];
    return NULL;
}

/* The policy's at each use, so that a changed one holds for all jobs that named none. */
uint64_t fsm_allocation_grace_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->view.grace_ms != 0 ? allocation->view.grace_ms : fsm->policy.grace_ms;
}

/* What would be computed again if it died now (S1-009, S1-017). */
uint64_t fsm_allocation_age_gpu_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return fsm_multiply(fsm_since(fsm, allocation->view.last_complete_snapshot_ms),
                        allocation->view.gpu_count);
}

/* An expired one is not restored from although its folder may still be there: it may vanish while
 * it is read. */
const struct fsm_checkpoint *fsm_restart_point(const struct fsm *fsm, const char *allocation_id,
                                               uint64_t before)
{
    const struct allocation *allocation = allocation_find(fsm, allocation_id);

    if (allocation == NULL)
        return NULL;
    for (struct list *at = allocation->checkpoints.previous; at != &allocation->checkpoints;
         at = at->previous) {
        const struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (checkpoint->view.state == STATE(COMPLETE) && !checkpoint->expired &&
            !checkpoint->view.damaged && (before == 0 || checkpoint->view.id < before))
            return &checkpoint->view;
    }
    return NULL;
}

/* What a run repeats that begins from the former instead of from the latter. */
static uint64_t discarded_ms(const struct fsm_allocation *view, const struct fsm_checkpoint *from,
                             const struct fsm_checkpoint *newest)
{
    uint64_t before = from == NULL ? 0 : from->useful_gpu_ms;

    CHECK(newest->id != 0);
    return (newest->useful_gpu_ms - fsm_min(before, newest->useful_gpu_ms)) /
           fsm_max(view->gpu_count, 1);
}

static bool point_readable(const struct fsm *fsm, const struct fsm_checkpoint *point)
{
    CHECK(point->id != 0);
    return target_at(fsm, point->target_slot)->view.available || fsm_copies_serve(fsm, point);
}

/* S2-007, S2-008: a job waits for its last checkpoint, unless what it repeats without it is little
 * enough. */
const struct fsm_checkpoint *fsm_begin_choose(const struct fsm *fsm,
                                              const struct fsm_allocation *view,
                                              uint64_t *ret_discarded_ms)
{
    const struct fsm_checkpoint *newest = fsm_restart_point(fsm, view->id, 0);
    const struct fsm_checkpoint *other = newest;

    CHECK(ret_discarded_ms != NULL);
    *ret_discarded_ms = 0;
    while (other != NULL && !point_readable(fsm, other))
        other = fsm_restart_point(fsm, view->id, other->id);
    if (other == newest || discarded_ms(view, other, newest) > fsm->policy.max_discarded_ms ||
        fsm->policy.max_discarded_ms == 0)
        return newest;
    *ret_discarded_ms = fsm_max(discarded_ms(view, other, newest), 1);
    return other;
}

/* While a part is to start it is what was chosen for all. Of a run whose end has not been told yet
 * nothing is chosen. */
const struct fsm_checkpoint *fsm_begin_point(const struct fsm *fsm,
                                             const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    const struct checkpoint *chosen = checkpoint_find(fsm, view->restart_id);

    CHECK(view->id != NULL);
    if (allocation->starting_count == 0 || !allocation->assigned)
        return fsm_restart_point(fsm, view->id, 0);
    return chosen == NULL ? NULL : &chosen->view;
}

/* The parts of a run begin from one checkpoint for as long as it goes on: one that is started again
 * beside others does not go to a newer one. */
uint64_t fsm_begin_id(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct fsm_checkpoint *point;

    CHECK(view->id != NULL);
    if (allocation_at(fsm, view->slot)->assigned && view->node_count > 1)
        return view->restart_id;
    point = fsm_begin_point(fsm, view);
    return point == NULL ? 0 : point->id;
}

const struct fsm_checkpoint *fsm_begin_of_part(const struct fsm *fsm,
                                               const struct fsm_allocation *view)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, fsm_begin_id(fsm, view));

    CHECK(view->id != NULL);
    return checkpoint == NULL || checkpoint->view.state != STATE(COMPLETE) || checkpoint->expired ||
                   checkpoint->view.damaged
               ? NULL
               : &checkpoint->view;
}

/* A single part waits for nobody, so that it need not say that it has restored. */
bool fsm_begin_all_restored(const struct allocation *allocation)
{
    uint32_t count = allocation->view.node_count;

    CHECK(allocation->view.id != NULL);
    return allocation->view.restart_id == 0 || count == 1 ||
           allocation->restored_count + allocation->joined_count == count;
}

/* Nothing begins in a run that is being ended, nor beside others from what they went on from long
 * ago: a part of several that has begun waits until its end is known, which ends them all. */
static Ckpt__V1__BeginState begin_state(const struct assignment *part)
{
    const struct allocation *allocation = part->allocation;

    CHECK(allocation != NULL);
    if (allocation->view.terminating)
        return CKPT__V1__BEGIN_STATE__BEGIN_STATE_ENDING;
    if (allocation->view.node_count == 1 || part->joined)
        return CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY;
    if (!part->starting)
        return CKPT__V1__BEGIN_STATE__BEGIN_STATE_RUNS;
    return fsm_begin_all_restored(allocation) ? CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY
                                              : CKPT__V1__BEGIN_STATE__BEGIN_STATE_RESTORING;
}

struct fsm_part fsm_begin_part(const struct assignment *part)
{
    const struct allocation *allocation = part->allocation;

    CHECK(part->share < allocation->view.node_count);
    return (struct fsm_part){.allocation = &allocation->view,
                             .run = allocation->view.nodes[part->share].run,
                             .place = part->share,
                             .joined = part->joined,
                             .restored = part->restored,
                             .begin = begin_state(part)};
}

bool fsm_part_on(const struct fsm *fsm, const struct fsm_allocation *view, uint32_t node_slot,
                 struct fsm_part *ret_part)
{
    const struct assignment *part = fsm_allocation_part(allocation_at(fsm, view->slot), node_slot);

    CHECK(ret_part != NULL);
    if (part != NULL)
        *ret_part = fsm_begin_part(part);
    return part != NULL;
}

/* Those that are still in the list. */
uint32_t fsm_damaged_count(const struct allocation *allocation)
{
    uint32_t count = 0;

    CHECK(allocation->view.id != NULL);
    for (const struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next)
        count += LIST_ITEM(at, const struct checkpoint, in_allocation)->view.damaged;
    return count;
}

/* A FAILED one stays restartable for the retention time, a SUSPENDED or REQUEUED one for ever. */
bool fsm_allocation_restartable(const struct allocation *allocation)
{
    return allocation->view.state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED &&
           !allocation->expired;
}
