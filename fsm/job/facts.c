/* Questions about a job and its checkpoints that change nothing. Files that otherwise know nothing
 * of each other ask them: what decides about a job (victim_rules.c, preemption.c) and what carries
 * it out (checkpoint.c, terminate.c, scale.c). */
#include "fsm/begin.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/restart.h"

#define STATE(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

/* It has a grant, a deadline and an order: nodes may be writing, though none has said so yet. */
bool fsm_checkpoint_writes(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return checkpoint->view.state == STATE(DISPATCHED) || checkpoint->view.state == STATE(WRITING);
}

/* The value says it, not the purpose: an upgrade changes the purpose and keeps the deadline. */
bool fsm_grant_urgent(const struct fsm_checkpoint *checkpoint)
{
    CHECK(checkpoint->id != 0);
    return checkpoint->priority_gpu_ms_per_gb == FSM_PRIORITY_URGENT;
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

/* Declared, or the policy's. */
static uint64_t fact_timeout_ms(const Ckpt__V1__Policy *policy, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    if (view->checkpoint_timeout_ms != 0)
        return view->checkpoint_timeout_ms;
    return view->sensitive ? policy->sensitive_timeout_ms : policy->checkpoint_timeout_ms;
}

/* Never below twice the learned write time (decision 4). */
uint64_t fsm_checkpoint_timeout_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t timeout_ms =
        fsm_max(fact_timeout_ms(&fsm->policy, view), fsm_multiply(view->write_estimate_ms, 2));

    CHECK(view->id != NULL);
    return fsm_min(fsm_max(timeout_ms, 1), FSM_DURATION_MAX_MS);
}

/* S1-040. Not beyond the timeout, after which an attempt is given up: no job becomes too dear for a
 * victim by its own word alone. */
uint64_t fsm_told_write_ms(const Ckpt__V1__Policy *policy, const struct fsm_allocation *view)
{
    CHECK(policy != NULL);
    if (view->write_estimate_ms != 0 || view->told_write_ms == 0)
        return 0;
    return fsm_min(view->told_write_ms, fact_timeout_ms(policy, view));
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

/* Ranks whose peer has died hang in a collective: they have nothing to save, and each second of
 * theirs is one of the job's restart. */
uint64_t fsm_stop_grace_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    bool peer_died = view->terminating && view->node_count > 1 && fsm_level(fsm) >= 2 &&
                     (view->terminate_reason == CKPT__V1__REASON__REASON_APPLICATION_EXITED ||
                      view->terminate_reason == CKPT__V1__REASON__REASON_NODE_DOWN);
    uint64_t grace_ms = fsm_allocation_grace_ms(fsm, allocation);

    return peer_died ? fsm_min(grace_ms, FSM_PEERS_GRACE_MS) : grace_ms;
}

/* What would be computed again if it died now (S1-009, S1-017). */
uint64_t fsm_allocation_age_gpu_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return fsm_multiply(fsm_since(fsm, allocation->view.last_complete_snapshot_ms),
                        fsm_allocation_weight(fsm, &allocation->view).gpus);
}

/* An expired one is not restored from although its folder may still be there: it may vanish while
 * it is read. */
bool fsm_checkpoint_restorable(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return checkpoint->view.state == STATE(COMPLETE) && !checkpoint->expired &&
           !checkpoint->view.damaged;
}

const struct fsm_checkpoint *fsm_restart_point(const struct fsm *fsm, const char *allocation_id,
                                               uint64_t before)
{
    const struct allocation *allocation = allocation_find(fsm, allocation_id);

    if (allocation == NULL)
        return NULL;
    for (struct list *at = allocation->checkpoints.previous; at != &allocation->checkpoints;
         at = at->previous) {
        const struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (fsm_checkpoint_restorable(checkpoint) && (before == 0 || checkpoint->view.id < before))
            return &checkpoint->view;
    }
    return NULL;
}

bool fsm_newest_damaged(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    for (struct list *at = allocation->checkpoints.previous; at != &allocation->checkpoints;
         at = at->previous) {
        const struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (checkpoint->view.state == STATE(COMPLETE))
            return checkpoint->view.damaged;
    }
    return false;
}

/* What a run repeats that begins from the former instead of from the latter. Of a job that weighed
 * nothing no account says so: at most what passed between the two. */
static uint64_t discarded_ms(const struct allocation *allocation, const struct fsm_checkpoint *from,
                             const struct fsm_checkpoint *newest)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t before = from == NULL ? 0 : from->useful_gpu_ms;

    CHECK(newest->id != 0);
    if (newest->useful_gpu_ms == 0) {
        uint64_t first_ms = allocation->inherited_since_ms != 0 ? allocation->inherited_since_ms
                                                                : view->submitted_at_ms;
        uint64_t from_ms = from == NULL ? first_ms : from->state_since_ms;

        return newest->state_since_ms - fsm_min(from_ms, newest->state_since_ms);
    }
    return (newest->useful_gpu_ms - fsm_min(before, newest->useful_gpu_ms)) /
           fsm_max(fsm_account_gpus(view), 1);
}

/* Copies are of no use to a part that stands in the target's line: its own cannot be read, or it
 * restores what others wrote. */
static bool point_readable(const struct fsm *fsm, const struct fsm_checkpoint *point)
{
    const struct allocation *allocation = allocation_at(fsm, point->allocation_slot);

    CHECK(point->id != 0);
    if (target_at(fsm, point->target_slot)->view.available)
        return true;
    return (list_empty(&allocation->in_reads) || point->id != allocation->view.restart_id) &&
           fsm_copies_serve(fsm, point);
}

/* Where each node restores the part of its own place, another number of parts is of no use. */
static bool point_fits(const struct fsm *fsm, const struct fsm_allocation *view,
                       const struct fsm_checkpoint *point)
{
    CHECK(point->id != 0);
    return !allocation_at(fsm, view->slot)->assigned ||
           view->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN ||
           point->shard_count == view->node_count;
}

/* What to begin from in place of what cannot be read. */
struct begin_other {
    const struct fsm_checkpoint *point; /* NULL: from scratch */
    uint64_t discarded_ms;              /* what is repeated, from 1 */
    uint64_t at_ms;                     /* UINT64_MAX: that is too much, it is waited for */
};

/* S2-007, S2-008: an outage is waited for as long as what would be repeated is worth, so that
 * neither the waiting nor the repeating costs much more than the other one would have. False: the
 * newest can be read, or there is none. */
static bool begin_find_other(const struct fsm *fsm, const struct fsm_allocation *view,
                             struct begin_other *ret_other)
{
    const struct fsm_checkpoint *newest = fsm_restart_point(fsm, view->id, 0);
    const struct fsm_checkpoint *other = newest;
    uint64_t since_ms, discarded;

    if (newest == NULL || point_readable(fsm, newest))
        return false;
    since_ms = target_at(fsm, newest->target_slot)->view.since_ms;
    while (other != NULL && (!point_readable(fsm, other) || !point_fits(fsm, view, other)))
        other = fsm_restart_point(fsm, view->id, other->id);
    discarded = fsm_max(discarded_ms(allocation_at(fsm, view->slot), other, newest), 1);
    *ret_other = (struct begin_other){
        other, discarded,
        discarded > fsm->policy.max_discarded_ms ? UINT64_MAX : fsm_add(since_ms, discarded)};
    return true;
}

const struct fsm_checkpoint *fsm_begin_choose(const struct fsm *fsm,
                                              const struct fsm_allocation *view,
                                              uint64_t *ret_discarded_ms)
{
    struct begin_other other;

    CHECK(ret_discarded_ms != NULL);
    *ret_discarded_ms = 0;
    if (!begin_find_other(fsm, view, &other) || other.at_ms > fsm->now_ms)
        return fsm_restart_point(fsm, view->id, 0);
    *ret_discarded_ms = other.discarded_ms;
    return other.point;
}

/* It is to begin from what cannot be read now, and no part of it can have begun. */
static bool begin_is_stuck(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *chosen = checkpoint_find(fsm, view->restart_id);

    CHECK(view->id != NULL);
    return allocation->assigned && !view->terminating &&
           allocation->starting_count == view->node_count && chosen != NULL &&
           (view->node_count == 1 || !fsm_begin_all_restored(allocation)) &&
           !point_readable(fsm, &chosen->view);
}

uint64_t fsm_begin_discard_at_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    struct begin_other other;

    CHECK(view->id != NULL);
    if (!begin_is_stuck(fsm, allocation_at(fsm, view->slot)) ||
        !begin_find_other(fsm, view, &other) ||
        (other.point != NULL && other.point->id == view->restart_id))
        return UINT64_MAX;
    return other.at_ms;
}

/* The first instant at which something is due of those who read; UINT64_MAX: nothing. */
uint64_t fsm_read_due_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    uint64_t due_ms = UINT64_MAX;

    CHECK(allocation->view.id != NULL);
    if (allocation->reading_count > 0)
        due_ms = allocation->read_until_ms;
    if (!list_empty(&allocation->in_reads))
        due_ms = fsm_min(due_ms, fsm_begin_discard_at_ms(fsm, &allocation->view));
    return due_ms;
}

void fsm_begin_discards(const struct fsm *fsm, const struct fsm_allocation *view,
                        struct fsm_discard *ret_discard)
{
    struct begin_other other;
    uint64_t at_ms = fsm_begin_discard_at_ms(fsm, view);

    CHECK(ret_discard != NULL);
    *ret_discard = (struct fsm_discard){.at_ms = at_ms == UINT64_MAX ? 0 : at_ms};
    if (begin_is_stuck(fsm, allocation_at(fsm, view->slot)) && begin_find_other(fsm, view, &other))
        ret_discard->discarded_ms = other.discarded_ms;
}

/* NULL: it was found damaged, or is on its way out, while its run began or was ended for that. */
static const struct fsm_checkpoint *begin_usable(const struct checkpoint *checkpoint)
{
    if (checkpoint == NULL || checkpoint->view.state != STATE(COMPLETE) || checkpoint->expired ||
        checkpoint->view.damaged)
        return NULL;
    CHECK(checkpoint->view.completed_at_ms > 0);
    return &checkpoint->view;
}

/* While a part is to start it is what was chosen for all. Of a run whose end has not been told yet
 * nothing is chosen. */
const struct fsm_checkpoint *fsm_begin_point(const struct fsm *fsm,
                                             const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(view->id != NULL);
    if (allocation->starting_count == 0 || !allocation->assigned)
        return fsm_restart_point(fsm, view->id, 0);
    return begin_usable(checkpoint_find(fsm, view->restart_id));
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
    CHECK(view->id != NULL);
    return begin_usable(checkpoint_find(fsm, fsm_begin_id(fsm, view)));
}

void fsm_begin_without(const struct fsm *fsm, const struct fsm_allocation *view,
                       struct fsm_begin_without *ret_without)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    const struct fsm_checkpoint *newest = fsm_restart_point(fsm, view->id, 0);
    const struct fsm_checkpoint *point = fsm_begin_of_part(fsm, view);
    struct fsm_begin_without without = {.cause = CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNSPECIFIED};

    CHECK(ret_without != NULL);
    if (newest == NULL) {
        without.cause = view->complete_count == 0 && fsm_damaged_count(allocation) == 0
                            ? CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE
                            : CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE;
    } else if (point == NULL || point->id != newest->id) {
        without.cause = point_readable(fsm, newest) ? CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_LEFT
                                                    : CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP;
        without.checkpoint_id = newest->id;
        without.repeated_ms = discarded_ms(allocation, point, newest);
    }
    *ret_without = without;
}

/* Which shard the part at a place restores alone, + 1; 0: none. Who wrote one has its place already
 * (parts.c), but for the one that is left of several. */
uint32_t fsm_begin_shard_at(const struct fsm_allocation *view, uint32_t place,
                            const struct fsm_checkpoint *point)
{
    CHECK(place < view->node_count);
    for (uint32_t i = 0; view->node_count == 1 && i < point->shard_count; i++)
        if (point->shards[i].node_slot == view->nodes[place].node_slot)
            return i + 1;
    return place < point->shard_count ? place + 1 : 0;
}

/* What was chosen at the start stays: two parts of which one has not heard yet that places moved
 * would restore the same shard. */
uint32_t fsm_begin_shard(const struct fsm *fsm, const struct fsm_part *part,
                         const struct fsm_checkpoint *point)
{
    const struct fsm_allocation *view = part->allocation;
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(point->allocation_slot == view->slot);
    if (part->joined)
        return 0;
    if (allocation->starting_count > 0 && view->restart_id == point->id)
        return allocation->assignments[part->place].shard;
    return fsm_begin_shard_at(view, part->place, point);
}

bool fsm_allocation_state_waits(Ckpt__V1__AllocationState state)
{
    CHECK((unsigned)state < FSM_STATES_ALLOCATION);
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED;
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

/* A single part reads for whom nobody has heard yet that the one before has ended. */
bool fsm_read_concerns(const struct assignment *part)
{
    const struct fsm_allocation *view = &part->allocation->view;

    CHECK(view->id != NULL);
    return part->allocation->assigned && !view->terminating && !part->terminated &&
           !part->leaving && !part->joined && (part->starting || view->node_count == 1);
}

/* Who has a place may read, whatever it is told else. */
static Ckpt__V1__ReadState read_state(const struct assignment *part)
{
    CHECK(!part->reads || !part->read_waits);
    if (part->read_waits)
        return CKPT__V1__READ_STATE__READ_STATE_WAITS;
    return part->reads || !fsm_read_concerns(part) ? CKPT__V1__READ_STATE__READ_STATE_MAY
                                                   : CKPT__V1__READ_STATE__READ_STATE_ASK;
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
                             .begin = begin_state(part),
                             .read = read_state(part),
                             .read_bytes_per_s = part->read_bytes_per_s,
                             .user = part->user};
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

/* A job of a sensitive vCluster is sensitive whether its registration says so or not: one that were
 * no victim, yet wrote to an open target, would be half of both. Neither can change later. */
bool fsm_spec_sensitive(const Ckpt__V1__AllocationSpec *spec)
{
    CHECK(spec->allocation_id != NULL);
    return spec->sensitive ||
           spec->vcluster_kind == CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE;
}

/* It has completed none since. */
bool fsm_allocation_continued(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->view.continued_by[0] != '\0' && allocation->view.last_complete_id == 0;
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

/* An application that hangs holds what it was granted until its timeout. Whether it will can only
 * be told from what came before: of the first checkpoint nothing did, and who did not answer the
 * last time may not answer this time either. */
bool fsm_allocation_unproven(const struct fsm_allocation *allocation)
{
    CHECK(allocation->id != NULL);
    return allocation->learned.count == 0 || allocation->unresponsive;
}

/* It is to give nodes up after a checkpoint, and goes on with the others: they do not leave yet. */
bool fsm_allocation_shrinks(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->view.next_count > 0 && !allocation->view.leaving;
}

/* A FAILED one stays restartable for the retention time, a SUSPENDED or REQUEUED one for ever. */
bool fsm_allocation_restartable(const struct allocation *allocation)
{
    return allocation->view.state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED &&
           !allocation->expired;
}
