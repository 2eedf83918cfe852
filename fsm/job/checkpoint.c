/* The life of a checkpoint record, from the request to the terminal state; progress.c has what
 * nodes report about it.
 *
 * Flow     ask() creates it REQUESTED; dispatch() grants bandwidth and starts an attempt with a
 *          deadline; pause() and resume() follow its target. A stopping request (preempt, migrate,
 *          ...) that meets an active periodic one upgrades it in place: the same id then stops the
 *          allocation when complete. The application is asked once, and no written byte is lost
 *          (S5-015).
 * Shapes   at most one active per allocation (I21), PAUSED included. Active ones are in their
 *          target's list, by id.
 * Units    a target's granted_bytes_per_s is the sum over DISPATCHED and WRITING.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/quota.h"

#include <malloc.h>

#define STATE(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

/* The record alone, without a state or a target: a restore makes records by this too, and then sets
 * what the snapshot says. The job's list is by id because each new checkpoint is the youngest. */
struct checkpoint *fsm_checkpoint_create(struct fsm *fsm, uint64_t id,
                                         struct allocation *allocation)
{
    struct checkpoint *checkpoint = check_calloc(1, sizeof(*checkpoint));

    CHECK(allocation->view.id != NULL);
    checkpoint->view.id = id;
    fsm_checkpoint_set_detail(fsm, checkpoint, "");
    RECORD_EMPTY_TEXTS(FSM_CHECKPOINT_STATUS, fsm, &checkpoint->view);
    RECORD_EMPTY_TEXTS(FSM_CHECKPOINT_KEPT, fsm, &checkpoint->view);
    checkpoint->view.allocation_slot = allocation->view.slot;
    checkpoint->timer.kind = TIMER_CHECKPOINT;
    checkpoint->timer.key = id;
    list_init(&checkpoint->queue);
    list_init(&checkpoint->copies);
    list_push_back(&allocation->checkpoints, &checkpoint->in_allocation);
    allocation->checkpoint_count++;
    fsm_registry_add(fsm, checkpoint);
    return checkpoint;
}

/* Called when the target slot is final. A restored record has its target only after it was made, so
 * the two steps are apart. A record without a state is one that is about to become REQUESTED. */
void fsm_checkpoint_link(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));

    CHECK(checkpoint->view.id != 0);
    target->checkpoint_count++;
    target->folder_count += fsm_checkpoint_has_folder(checkpoint);
    if (fsm_checkpoint_state_active(checkpoint->view.state) ||
        checkpoint->view.state == STATE(UNSPECIFIED))
        list_push_back(&target->active, &checkpoint->queue);
}

/* A shard names its node by the slot, which no other node may get as long as somebody may restore
 * from the shard or look at it. */
void fsm_checkpoint_name_nodes(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        fsm_node_refer(fsm, checkpoint->shards[i].node_slot);
}

/* A removed node whose last name this was leaves by it. */
static void checkpoint_unname_nodes(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        fsm_node_unrefer(fsm, checkpoint->shards[i].node_slot);
}

/* An active one cannot be freed: its job, its target and its grant know it. Its folder may outlive
 * it: what could not be removed stays among the undeleted ones. */
void fsm_checkpoint_free(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));
    union {
        const Ckpt__V1__DecisionTerms *constant;
        Ckpt__V1__DecisionTerms *changing;
    } terms = {checkpoint->view.terms};

    CHECK(checkpoint->view.id != 0);
    CHECK(!fsm_checkpoint_state_active(checkpoint->view.state));
    fsm_hold_checkpoint(fsm, checkpoint);
    fsm_timer_set(&fsm->timers, &checkpoint->timer, 0);
    fsm_copies_forget(fsm, checkpoint);
    fsm_verify_end(fsm, checkpoint);
    list_remove(&checkpoint->queue);
    list_remove(&checkpoint->in_allocation);
    allocation->checkpoint_count--;
    target->checkpoint_count--;
    target->folder_count -= fsm_checkpoint_has_folder(checkpoint);
    fsm_checkpoint_forget(fsm, checkpoint);
    fsm_registry_remove(fsm, checkpoint);
    fsm_message_free((ProtobufCMessage *)terms.changing);
    if (checkpoint->undeleted != NULL)
        fsm_undeleted_detach(fsm, checkpoint);
    if (checkpoint->inputs != NULL)
        fsm_basis_release(fsm, checkpoint->inputs->basis);
    fsm_checkpoint_set_detail(fsm, checkpoint, "");
    RECORD_RELEASE_TEXTS(FSM_CHECKPOINT_STATUS, fsm, &checkpoint->view);
    RECORD_RELEASE_TEXTS(FSM_CHECKPOINT_KEPT, fsm, &checkpoint->view);
    checkpoint_unname_nodes(fsm, checkpoint);
    free(checkpoint->inputs);
    free(checkpoint->shards);
    free(checkpoint);
    if (fsm_level(fsm) >= 2) /* level 1 keeps the names of targets that nothing has any more */
        fsm_target_leave(fsm, target);
}

void fsm_checkpoint_set_shards(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t count)
{
    CHECK(checkpoint->view.id != 0);
    fsm_copies_forget(fsm, checkpoint);
    checkpoint_unname_nodes(fsm, checkpoint);
    free(checkpoint->shards);
    checkpoint->shards = check_calloc(count, sizeof(*checkpoint->shards));
    checkpoint->view.shards = checkpoint->shards;
    checkpoint->view.shard_count = count;
}

/* A checkpoint is of the nodes that its job has when nodes begin to write: one that waits while the
 * job changes its nodes gets the new ones (S1-080). */
static void checkpoint_shards_from(struct fsm *fsm, struct checkpoint *checkpoint,
                                   const struct allocation *allocation)
{
    CHECK(checkpoint->view.attempt == 0);
    CHECK(allocation->view.id != NULL);
    fsm_checkpoint_set_shards(fsm, checkpoint, allocation->view.node_count);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        checkpoint->shards[i].node_slot = allocation->view.nodes[i].node_slot;
    fsm_checkpoint_name_nodes(fsm, checkpoint);
}

/* Only ranks of an attempt that is under way agree on a step. */
static void checkpoint_leave_barrier(struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    checkpoint->view.agreed_step = 0;
    checkpoint->view.barrier = CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_NONE;
}

/* What an attempt wrote is worth nothing for the next one. The nodes stay, and their names with
 * them: the next attempt is of the same ones. */
void fsm_checkpoint_clear_shards(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    fsm_copies_forget(fsm, checkpoint);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        uint32_t node_slot = checkpoint->shards[i].node_slot;

        memset(&checkpoint->shards[i], 0, sizeof(checkpoint->shards[i]));
        checkpoint->shards[i].node_slot = node_slot;
    }
    checkpoint->view.snapshot_at_ms = 0;
    checkpoint->view.size_bytes = 0;
    checkpoint->view.started_at_ms = 0;
    checkpoint->view.told_write_ms = 0;
    checkpoint_leave_barrier(checkpoint);
    fsm_intern_set(fsm, &checkpoint->view.label, "");
}

/* One timer serves a whole life: the deadline of an attempt, the end of a back-off, the instant of
 * expiry. A paused one has none, since its target's return wakes it, and an outage may last for
 * days. */
void fsm_checkpoint_arm(struct fsm *fsm, struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t at_ms = checkpoint->collect_at_ms;

    CHECK(checkpoint->view.id != 0);
    if (fsm_checkpoint_writes(checkpoint))
        at_ms = view->deadline_ms;
    else if (view->state == STATE(REQUESTED))
        at_ms = view->retry_at_ms;
    else if (view->state == STATE(PAUSED))
        at_ms = 0;
    fsm_timer_set(&fsm->timers, &checkpoint->timer, at_ms);
}

/* Its attempt has until then, but no longer than the stop that it is of; and never less than it
 * had. */
void fsm_checkpoint_give_until(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t deadline_ms)
{
    struct fsm_checkpoint *view = &checkpoint->view;

    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (checkpoint->stop_deadline_ms != 0)
        deadline_ms = fsm_min(deadline_ms, checkpoint->stop_deadline_ms);
    view->deadline_ms = fsm_max(view->deadline_ms, deadline_ms);
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* All attempts of a stop have until then, but no longer than its limit; and never less than they
 * had. */
void fsm_checkpoint_stop_until(struct checkpoint *checkpoint, uint64_t deadline_ms)
{
    CHECK(checkpoint->view.id != 0);
    if (checkpoint->stop_deadline_ms != 0)
        checkpoint->stop_deadline_ms =
            fsm_max(checkpoint->stop_deadline_ms, fsm_min(deadline_ms, checkpoint->stop_limit_ms));
}

/* L4: from now on all that it takes until a victim stops, or nodes leave it, ends within one and a
 * half timeouts and what is put off, in however many attempts, and however late a node's first word
 * of them is. One that has begun goes on, whatever else it becomes. */
void fsm_checkpoint_begin_stop(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t deadline_ms)
{
    struct fsm_checkpoint *view = &checkpoint->view;

    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (checkpoint->stop_deadline_ms != 0)
        return;
    checkpoint->stop_limit_ms = fsm->now_ms + checkpoint->base_timeout_ms +
                                checkpoint->base_timeout_ms / 2 +
                                (view->deferred_ms - view->deferred_before_ms);
    checkpoint->stop_deadline_ms = fsm_min(deadline_ms, checkpoint->stop_limit_ms);
    view->deadline_ms = fsm_min(view->deadline_ms, checkpoint->stop_deadline_ms);
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* A victim's that stops or shrinks. The preemption waits for it, so all of its attempts share one
 * stop deadline (L4); a scale-down that nobody waits for has all of its attempts. */
static bool checkpoint_awaited(const struct checkpoint *checkpoint,
                               const struct allocation *allocation)
{
    CHECK(checkpoint->view.id != 0);
    CHECK(allocation->view.id != NULL);
    return checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT ||
           allocation->view.preemption_id != 0;
}

/* Somebody waits for these until a fixed instant: the one who preempts, or the walltime. */
static bool checkpoint_urgent(Ckpt__V1__Purpose purpose)
{
    return purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT ||
           purpose == CKPT__V1__PURPOSE__PURPOSE_WALLTIME;
}

/* Three bands that do not overlap. What people ask for has no computed gain to be compared by, and
 * comes before all that has. */
static uint64_t checkpoint_priority(const struct checkpoint_ask *ask)
{
    if (checkpoint_urgent(ask->purpose))
        return FSM_PRIORITY_URGENT;
    if (ask->terms == NULL) /* people asked: before the evaluator's */
        return FSM_PRIORITY_URGENT - 1;
    return fsm_min(ask->priority_gpu_ms_per_gb, FSM_PRIORITY_WEIGHED_MAX);
}

/* A request of people has no terms: the work at stake stands in for what a failure would cost. The
 * chance of success is kept as it is now, so that calibration compares it with what becomes of this
 * one. */
static void checkpoint_new(struct fsm *fsm, struct allocation *allocation,
                           const struct checkpoint_ask *ask)
{
    struct checkpoint *checkpoint;
    uint64_t recompute_gpu_ms = fsm_allocation_age_gpu_ms(fsm, allocation);

    CHECK(allocation->view.id != NULL);
    CHECK(fsm->checkpoint_sequence + 1 < UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS);
    checkpoint = fsm_checkpoint_create(
        fsm, checkpoint_id_make(fsm->epoch, ++fsm->checkpoint_sequence), allocation);
    checkpoint->view.target_slot = fsm_destination(fsm, &allocation->view)->slot;
    checkpoint->view.purpose = ask->purpose;
    checkpoint->view.after = ask->after;
    checkpoint->view.created_at_ms = fsm->now_ms;
    checkpoint->expected_bytes = allocation->view.size_estimate_bytes;
    checkpoint->view.priority_gpu_ms_per_gb = checkpoint_priority(ask);
    if (ask->terms != NULL) {
        fsm_calibrate_decided(fsm, allocation, ask->terms);
        checkpoint->view.terms =
            (const Ckpt__V1__DecisionTerms *)fsm_message_copy(fsm, &ask->terms->base);
        if (ask->terms->recompute_saved_gpu_ms > 0)
            recompute_gpu_ms = (uint64_t)ask->terms->recompute_saved_gpu_ms;
    }
    checkpoint->view.recompute_saved_gpu_ms = recompute_gpu_ms;
    checkpoint->view.success_ppm = fsm_success_ppm(&allocation->view.learned);
    checkpoint_shards_from(fsm, checkpoint, allocation);
    fsm_checkpoint_link(fsm, checkpoint);
    fsm_checkpoint_move(fsm, checkpoint, STATE(REQUESTED), CKPT__V1__REASON__REASON_NONE);
    allocation->view.active_checkpoint_id = checkpoint->view.id;
}

/* What is urgent waits for no back-off. */
static void checkpoint_skip_backoff(struct fsm *fsm, struct checkpoint *checkpoint,
                                    const struct checkpoint_ask *ask)
{
    CHECK(checkpoint->view.id != 0);
    if (!checkpoint_urgent(ask->purpose) || checkpoint->view.state != STATE(REQUESTED))
        return;
    checkpoint->view.retry_at_ms = 0;
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* A stop that meets an active checkpoint takes it over under its id: the application is not asked
 * twice, and what is written counts. The priority never falls: the last safe slot, which comes
 * once, goes on passing the limit, since the walltime ends no later for what follows. */
static void checkpoint_upgrade(struct fsm *fsm, struct checkpoint *checkpoint,
                               const struct checkpoint_ask *ask)
{
    CHECK(checkpoint->view.id != 0);
    checkpoint->view.purpose = ask->purpose;
    checkpoint->view.after = ask->after;
    checkpoint->view.priority_gpu_ms_per_gb =
        fsm_max(checkpoint->view.priority_gpu_ms_per_gb, checkpoint_priority(ask));
    checkpoint_skip_backoff(fsm, checkpoint, ask);
    if (ask->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT && fsm_checkpoint_writes(checkpoint))
        fsm_checkpoint_begin_stop(fsm, checkpoint, checkpoint->view.deadline_ms);
    fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

/* It keeps its place among those that wait, and the decision that made it. */
void fsm_checkpoint_hurry(struct fsm *fsm, struct checkpoint *checkpoint,
                          const struct checkpoint_ask *ask)
{
    CHECK(ask != NULL);
    CHECK(checkpoint->view.after == ask->after);
    checkpoint_skip_backoff(fsm, checkpoint, ask);
    if (fsm_checkpoint_put_off(&checkpoint->view)) {
        checkpoint->hurried = true;
        fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    }
    checkpoint->view.priority_gpu_ms_per_gb =
        fsm_max(checkpoint->view.priority_gpu_ms_per_gb, checkpoint_priority(ask));
    if (!checkpoint_urgent(checkpoint->view.purpose))
        checkpoint->view.purpose = ask->purpose;
}

/* What ends the job, or moves it, is atomic with its checkpoint: nothing is computed once the ranks
 * have said done, and of an attempt that is under way some may have. A stop may take that over, as
 * somebody waits for the nodes, and what was computed since is computed again. */
static bool checkpoint_too_late(const struct checkpoint *active, Ckpt__V1__AfterCheckpoint after)
{
    return active != NULL && fsm_checkpoint_writes(active) &&
           (after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_KILL ||
            after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE);
}

/* The first refusal that holds is told, with the numbers of its text. All are asked before anything
 * changes. */
enum fsm_status fsm_checkpoint_refusal(const struct fsm *fsm, const struct allocation *allocation,
                                       const struct checkpoint_ask *ask,
                                       struct fsm_outcome *outcome)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(allocation->view.id != NULL);
    outcome->checkpoint_id = view->active_checkpoint_id;
    outcome->current = view->state;
    if (!fsm_allocation_runs(allocation))
        return FSM_ALLOCATION_ENDED;
    if (view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return FSM_NOT_CHECKPOINTABLE;
    if (view->terminating || view->leaving ||
        view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP ||
        (fsm_verify_held(fsm, allocation) != NULL && /* of one that shrinks */
         ask->after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE))
        return FSM_CHECKPOINTING;
    if (view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING) {
        outcome->current = view->node_count - allocation->starting_count;
        outcome->limit = view->node_count;
        return FSM_NOT_STARTED;
    }
    if (view->active_checkpoint_id != 0 &&
        ask->after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE)
        return FSM_CHECKPOINT_ACTIVE;
    if (checkpoint_too_late(checkpoint_find_active(fsm, allocation), ask->after))
        return FSM_CHECKPOINT_ACTIVE;
    if (!fsm_destination_available(fsm, view))
        return FSM_STORAGE_UNAVAILABLE;
    if (fsm_part_finished(fsm, view)) {
        outcome->current = allocation->exited_count;
        outcome->limit = view->node_count;
        return FSM_PART_FINISHED;
    }
    return fsm_quota_concerns(ask->purpose) &&
                   ask->after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE &&
                   fsm_quota_refuses(fsm, view, NULL)
               ? FSM_TENANT_OVER_QUOTA
               : FSM_OK;
}

/* Room in the job's list is made only for a new record; an upgrade keeps its own. A stop forgets a
 * scale-down that waits, since all nodes will leave. The walltime's slot is noted here, so that the
 * evaluator asks for it once in a run. */
enum fsm_status fsm_checkpoint_ask(struct fsm *fsm, struct allocation *allocation,
                                   const struct checkpoint_ask *ask, struct fsm_outcome *outcome)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    enum fsm_status status = fsm_checkpoint_refusal(fsm, allocation, ask, outcome);

    CHECK(allocation->view.id != NULL);
    if (status == FSM_TENANT_OVER_QUOTA)
        fsm_quota_refused(fsm, allocation, outcome);
    if (status != FSM_OK)
        return status;
    if (active == NULL) {
        fsm_retention_make_room(fsm, allocation);
        checkpoint_new(fsm, allocation, ask);
    } else {
        checkpoint_upgrade(fsm, active, ask);
    }
    if (ask->after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE) {
        fsm_scale_clear(fsm, allocation); /* */
        fsm_allocation_move(fsm, allocation,
                            CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP,
                            CKPT__V1__REASON__REASON_NONE);
    }
    if (ask->purpose == CKPT__V1__PURPOSE__PURPOSE_WALLTIME)
        allocation->view.walltime_asked = true;
    outcome->checkpoint_id = allocation->view.active_checkpoint_id;
    outcome->current = 0;
    return FSM_OK;
}

/* What passes the limit is summed apart from what is within it: the budget that the others share
 * would else be gone by somebody's deadline. */
static void checkpoint_take_grant(struct fsm *fsm, struct checkpoint *checkpoint,
                                  uint64_t bytes_per_s, bool bypass)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));

    CHECK(checkpoint->view.id != 0);
    checkpoint->view.granted_bytes_per_s = bytes_per_s;
    checkpoint->bypass_budget = bypass;
    checkpoint->without_place = fsm_grant_urgent(&checkpoint->view);
    target->view.granted_bytes_per_s += bytes_per_s;
    target->view.writing_count += checkpoint->view.shard_count;
    if (!bypass)
        target->budgeted_bytes_per_s += bytes_per_s;
}

/* Every way out of DISPATCHED and WRITING comes by here, so no bandwidth is lost with a checkpoint.
 * An excused target (its budget was lowered below what was granted) may be back within its budget
 * now. */
static void checkpoint_give_grant(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));
    uint64_t bytes_per_s = checkpoint->view.granted_bytes_per_s;

    CHECK(target->view.granted_bytes_per_s >= bytes_per_s);
    target->view.granted_bytes_per_s -= bytes_per_s;
    if (fsm_checkpoint_writes(checkpoint)) {
        CHECK(target->view.writing_count >= checkpoint->view.shard_count);
        target->view.writing_count -= checkpoint->view.shard_count;
        fsm_writes_excused(target, target->excused_writes);
    }
    if (!checkpoint->bypass_budget) {
        CHECK(target->budgeted_bytes_per_s >= bytes_per_s);
        target->budgeted_bytes_per_s -= bytes_per_s;
    }
    checkpoint->view.granted_bytes_per_s = 0;
    checkpoint->bypass_budget = checkpoint->without_place = false;
    checkpoint->view.deadline_ms = 0;
    fsm_target_budget(target);
}

/* P-043: what earlier attempts left of the policy's, and none that reaches into the last timeout
 * before the walltime ends (I33). */
static void checkpoint_allow_deferral(const struct fsm *fsm, struct checkpoint *checkpoint,
                                      const struct allocation *allocation)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    const struct fsm_allocation *job = &allocation->view;
    uint64_t left_ms =
        fsm->policy.max_deferral_ms - fsm_min(fsm->policy.max_deferral_ms, view->deferred_ms);
    uint64_t end_ms = fsm_add(fsm->now_ms, view->timeout_ms);

    CHECK(allocation->view.id != NULL);
    CHECK(checkpoint->view.id != 0);
    if (job->walltime_ms != 0)
        left_ms = fsm_min(left_ms, job->started_at_ms + job->walltime_ms -
                                       fsm_min(end_ms, job->started_at_ms + job->walltime_ms));
    view->deferred_before_ms = view->deferred_ms;
    view->max_deferral_ms = view->deferred_ms + left_ms;
}

/* The attempt's number makes agents ask anew and tells late reports of the attempt before from
 * those of this one. What that one wrote and how long it stood still is forgotten; the time that
 * was put off is not, since its limit holds for all attempts together. */
void fsm_checkpoint_dispatch(struct fsm *fsm, struct checkpoint *checkpoint,
                             const Ckpt__Log__V1__Grant *grant, bool bypass)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *allocation = allocation_at(fsm, view->allocation_slot);
    uint64_t timeout_ms =
        grant->timeout_ms != 0 ? grant->timeout_ms : fsm_checkpoint_timeout_ms(fsm, allocation);

    CHECK(checkpoint->view.id != 0);
    CHECK(view->state == STATE(REQUESTED));
    CHECK(view->retry_at_ms == 0);
    if (!fsm_checkpoint_has_folder(checkpoint))
        target_edit(fsm, target_at(fsm, view->target_slot))->folder_count++;
    checkpoint_take_grant(fsm, checkpoint, grant->bytes_per_s, bypass);
    fsm_checkpoint_clear_shards(fsm, checkpoint);
    view->attempt++;
    view->stall_ms = 0;
    view->resumed_from_outage = false;
    view->dispatched_at_ms = fsm->now_ms;
    view->timeout_ms = timeout_ms;
    checkpoint->base_timeout_ms = timeout_ms;
    checkpoint_allow_deferral(fsm, checkpoint, allocation);
    view->deadline_ms = fsm->now_ms + 1; /* at the least: its stop may be over */
    fsm_checkpoint_move(fsm, checkpoint, STATE(DISPATCHED), CKPT__V1__REASON__REASON_NONE);
    if (checkpoint_awaited(checkpoint, allocation))
        fsm_checkpoint_begin_stop(fsm, checkpoint, fsm->now_ms + timeout_ms);
    fsm_checkpoint_give_until(fsm, checkpoint, fsm->now_ms + timeout_ms);
    fsm_allocation_changed(fsm, allocation);
}

/* S1-062: the attempt is given up, the checkpoint is not. Its stop has its time anew after the
 * outage: nobody could have written meanwhile. */
void fsm_checkpoint_pause(struct fsm *fsm, struct checkpoint *checkpoint)
{
    Ckpt__V1__Reason reason = target_at(fsm, checkpoint->view.target_slot)->view.reason;

    CHECK(checkpoint->view.id != 0);
    checkpoint_give_grant(fsm, checkpoint);
    fsm_checkpoint_clear_shards(fsm, checkpoint);
    checkpoint->view.retry_at_ms = 0;
    checkpoint->view.resumed_from_outage = false;
    checkpoint->stop_deadline_ms = 0;
    checkpoint->view.paused_count++;
    fsm->paused_total++;
    if (reason == CKPT__V1__REASON__REASON_NONE) /* nobody said what is wrong */
        reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    fsm_checkpoint_move(fsm, checkpoint, STATE(PAUSED), reason);
    fsm_checkpoint_arm(fsm, checkpoint);
    fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

/* It waits for a grant like the others, but is looked at first (grantable.c). */
void fsm_checkpoint_resume(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.resumed_count + 1 == checkpoint->view.paused_count); /* I24 */
    checkpoint->view.resumed_count++;
    checkpoint->view.resumed_from_outage = true;
    fsm->resumed_total++;
    fsm_checkpoint_move(fsm, checkpoint, STATE(REQUESTED), CKPT__V1__REASON__REASON_NONE);
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* What all ends have in common, complete or not. The minimal interval counts from here, whatever
 * the checkpoint came to: an application that cannot write would else be asked without a pause. */
void fsm_checkpoint_leave_active(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));

    CHECK(checkpoint->view.id != 0);
    CHECK(allocation->view.active_checkpoint_id == checkpoint->view.id);
    checkpoint_give_grant(fsm, checkpoint);
    list_remove(&checkpoint->queue);
    checkpoint_leave_barrier(checkpoint);
    checkpoint->view.retry_at_ms = 0;
    checkpoint->view.resumed_from_outage = false;
    allocation->view.active_checkpoint_id = 0;
    allocation->view.last_attempt_end_ms = fsm->now_ms;
    fsm_allocation_changed(fsm, allocation);
}

/* A node's failure, the end of the walltime or of the application is none of the checkpoint's: the
 * model counts those elsewhere. Counted here as well, one dying node would make a job look like one
 * that cannot write. */
static bool checkpoint_failed_itself(Ckpt__V1__CheckpointState state, Ckpt__V1__Reason reason)
{
    CHECK((unsigned)state < FSM_STATES_CHECKPOINT);
    return state == STATE(TIMED_OUT) ||
           (state == STATE(FAILED) && reason != CKPT__V1__REASON__REASON_NODE_DOWN &&
            reason != CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED &&
            reason != CKPT__V1__REASON__REASON_APPLICATION_EXITED);
}

/* What becomes of the job is the caller's business: only it knows whether the job stops, goes on or
 * loses nodes. A checkpoint of no attempt has no folder, so nobody will ask why it was decided. */
void fsm_checkpoint_end(struct fsm *fsm, struct checkpoint *checkpoint,
                        Ckpt__V1__CheckpointState state, Ckpt__V1__Reason reason)
{
    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_state_active(checkpoint->view.state));
    CHECK(state != STATE(COMPLETE));
    fsm_checkpoint_leave_active(fsm, checkpoint);
    if (checkpoint_failed_itself(state, reason)) {
        fsm_calibrate_ended(fsm, checkpoint, false);
        fsm_learn_outcome(
            &allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot))->view,
            false);
    }
    fsm_checkpoint_move(fsm, checkpoint, state, reason);
    if (checkpoint->view.attempt == 0) /* it has no folder */
        fsm_checkpoint_drop_inputs(fsm, checkpoint);
    fsm_retention_review(
        fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)));
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* Back to the queue of the same target; the next dispatch is the next attempt. The job stays
 * without another checkpoint meanwhile (I21): this one is still its active one. */
void fsm_checkpoint_retry(struct fsm *fsm, struct checkpoint *checkpoint, Ckpt__V1__Reason reason,
                          uint64_t retry_at_ms)
{
    CHECK(checkpoint->view.id != 0);
    checkpoint_give_grant(fsm, checkpoint);
    fsm_checkpoint_clear_shards(fsm, checkpoint);
    checkpoint->view.retry_at_ms = retry_at_ms;
    fsm_checkpoint_move(fsm, checkpoint, STATE(REQUESTED), reason);
    fsm_checkpoint_arm(fsm, checkpoint);
    fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

static void checkpoint_renew(struct fsm *fsm, struct checkpoint *old, Ckpt__V1__Reason reason)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, old->view.allocation_slot));
    struct checkpoint_ask ask = {old->view.purpose, old->view.after, old->view.terms,
                                 old->view.priority_gpu_ms_per_gb};
    struct checkpoint *renewed;
    struct checkpoint inputs_of = {.inputs = NULL};

    CHECK(old->view.id != 0);
    CHECK(fsm_checkpoint_state_active(old->view.state));
    CHECK(!allocation->view.terminating);
    fsm_retention_make_room(fsm, allocation);
    fsm_checkpoint_move_inputs(old, &inputs_of);
    fsm_checkpoint_end(fsm, old, STATE(SUPERSEDED), reason);
    checkpoint_new(fsm, allocation, &ask);
    renewed = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    renewed->view.priority_gpu_ms_per_gb =
        ask.priority_gpu_ms_per_gb; /* its purpose need not tell */
    fsm_checkpoint_move_inputs(&inputs_of, renewed);
    fsm_preemption_renewed(fsm, allocation);
    if (!target_at(fsm, renewed->view.target_slot)->view.available)
        fsm_checkpoint_pause(fsm, renewed); /* it waits on, or was bound for another one */
}

/* The attempts that agents began under the old epoch are not all known here: only a new id is
 * certainly above every one of them (I22, I26). A checkpoint of an allocation that is being
 * terminated ends with it. */
void fsm_checkpoint_renew(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (!allocation_at(fsm, checkpoint->view.allocation_slot)->view.terminating)
        checkpoint_renew(fsm, checkpoint, CKPT__V1__REASON__REASON_NEW_EPOCH);
}

/* What an attempt left at the target that is away stays under the old id, which retention knows. */
void fsm_checkpoint_fail_over(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (!allocation_at(fsm, checkpoint->view.allocation_slot)->view.terminating)
        checkpoint_renew(fsm, checkpoint, CKPT__V1__REASON__REASON_FAILED_OVER);
}

static bool checkpoint_is_of(const struct checkpoint *checkpoint,
                             const struct allocation *allocation)
{
    CHECK(checkpoint->view.id != 0);
    CHECK(allocation->view.id != NULL);
    if (checkpoint->view.shard_count != allocation->view.node_count)
        return false;
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        if (checkpoint->shards[i].node_slot != allocation->view.nodes[i].node_slot)
            return false;
    return true;
}

/* A part's folder has its place's name, not its node's: what an attempt of the old nodes left
 * behind could come to lie in the new node's (I47), but for a new id. Its stop ends when it would
 * have. */
void fsm_checkpoint_follow_nodes(struct fsm *fsm, struct checkpoint *checkpoint)
{
    const struct allocation *allocation = allocation_at(fsm, checkpoint->view.allocation_slot);
    uint64_t stop_deadline_ms = checkpoint->stop_deadline_ms;
    uint64_t stop_limit_ms = checkpoint->stop_limit_ms;
    bool hurried = checkpoint->hurried;

    CHECK(!fsm_checkpoint_writes(checkpoint));
    if (checkpoint->view.attempt == 0) {
        checkpoint_shards_from(fsm, checkpoint, allocation);
    } else if (!checkpoint_is_of(checkpoint, allocation)) {
        checkpoint_renew(fsm, checkpoint, CKPT__V1__REASON__REASON_REPLACED);
        checkpoint = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
        checkpoint->stop_deadline_ms = stop_deadline_ms;
        checkpoint->stop_limit_ms = stop_limit_ms;
        checkpoint->hurried = hurried;
    }
}
