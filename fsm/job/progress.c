/* How an attempt goes on and ends: started, extended, deferred, complete, failed, timed out.
 *
 * Flow     apply_report.c (nodes) and Tick (deadlines) call in here.
 *          Complete: estimates are learned, then what follows (`after`) begins in the same step.
 *          Failed: WRITE_FAILED, VERIFY_FAILED, AGENT_LOST_ATTEMPT, NOT_ATTACHED and storage errors
 *          are retried with back-off up to max_attempts; what a retry cannot cure (NO_HANDLER,
 *          refused, empty) is not.
 *          Given up: an allocation that should stop goes on running (S3-017, S3-069), a preempted
 *          one as well. It is terminated when its preemption is forced, or when its application
 *          did not answer (decision 5, L4).
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define STATE(name)  CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define REASON(name) CKPT__V1__REASON__REASON_##name
#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum { BACKOFF_DOUBLINGS_MAX = 4 }; /* at most 16 times the first */

/* A tenth of the timeout within bounds: a short one would leave no time for the delivery of a
 * report, a long one would wait long for an agent that is gone. */
static uint64_t progress_slack_ms(uint64_t timeout_ms)
{
    return fsm_min(fsm_max(timeout_ms / 10, FSM_REPORT_SLACK_MIN_MS), FSM_REPORT_SLACK_MAX_MS);
}

/* For writing: nearly all that happens to a checkpoint changes its job as well. */
static struct allocation *progress_allocation(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

/* The agents' timeout runs from the moment they asked, so the deadline restarts at the first
 * report, plus time for delivery. A stop has its end moved once, by the first attempt: each later
 * one would else begin the time anew. */
static void progress_restart_deadline(struct fsm *fsm, struct checkpoint *checkpoint)
{
    uint64_t timeout_ms = checkpoint->view.timeout_ms;
    uint64_t deadline_ms = fsm->now_ms + timeout_ms + progress_slack_ms(timeout_ms);

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->failure_count == 0)
        fsm_checkpoint_stop_until(checkpoint, deadline_ms);
    fsm_checkpoint_give_until(fsm, checkpoint, deadline_ms);
}

/* An application that was asked is one that runs, whatever else was reported of it. */
static void progress_runs(struct fsm *fsm, const struct checkpoint *checkpoint,
                          const struct fsm_shard *shard)
{
    struct allocation *allocation = progress_allocation(fsm, checkpoint);
    struct assignment *part = NULL;

    CHECK(shard->node_slot < FSM_NODES_MAX);
    CHECK(checkpoint->view.id != 0);
    if (allocation->starting_count > 0)
        part = fsm_allocation_part(allocation, shard->node_slot);
    if (part != NULL)
        fsm_allocation_part_starting(fsm, allocation, part, false);
}

/* The first node that asked makes it WRITING and gives the instant of the snapshot: what another
 * part computed after that may not be in it. The age in the report is bounded by the dispatch, so
 * that no agent's clock can put the snapshot before it. */
void fsm_checkpoint_started(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                            uint64_t age_ms)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t asked_ms = fsm->now_ms - fsm_min(age_ms, fsm_since(fsm, view->dispatched_at_ms));

    CHECK(checkpoint->view.id != 0);
    CHECK(shard != NULL);
    CHECK(fsm_checkpoint_writes(checkpoint));
    shard->started = true;
    progress_runs(fsm, checkpoint, shard);
    if (view->snapshot_at_ms == 0 || asked_ms < view->snapshot_at_ms)
        view->snapshot_at_ms = asked_ms;
    if (view->state == STATE(WRITING))
        return;
    view->started_at_ms = fsm->now_ms;
    fsm_checkpoint_move(fsm, checkpoint, STATE(WRITING), REASON(NONE));
    progress_restart_deadline(fsm, checkpoint);
}

/* A part says that its files are older than the question. No word puts the state before the start
 * of the run. */
void fsm_checkpoint_saved_before(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t age_ms,
                                 uint64_t before_ms)
{
    const struct allocation *allocation = progress_allocation(fsm, checkpoint);
    struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t asked_ms = fsm->now_ms - fsm_min(age_ms, fsm_since(fsm, view->dispatched_at_ms));
    uint64_t oldest_ms = fsm_min(asked_ms, allocation->view.started_at_ms);

    CHECK(view->snapshot_at_ms != 0);
    view->snapshot_at_ms =
        fsm_min(view->snapshot_at_ms, asked_ms - fsm_min(before_ms, asked_ms - oldest_ms));
}

/* The orders hold the timeout, so the agents learn of it by their next order sets. */
static void progress_give_time(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t more_ms)
{
    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_writes(checkpoint));
    checkpoint->view.timeout_ms += more_ms;
    fsm_checkpoint_stop_until(checkpoint, checkpoint->stop_deadline_ms + more_ms);
    fsm_checkpoint_give_until(fsm, checkpoint, checkpoint->view.deadline_ms + more_ms);
    fsm_allocation_changed(fsm, progress_allocation(fsm, checkpoint));
}

/* P-040, I34: once in the checkpoint's life. */
static void progress_extend(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (checkpoint->view.extended)
        return;
    checkpoint->view.extended = true;
    progress_give_time(fsm, checkpoint, checkpoint->base_timeout_ms / 2);
}

/* P-043, I34. Nodes that put it off do so side by side: the longest counts. Its end in the grace
 * after a walltime stays. */
void fsm_checkpoint_defer(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t deferral_ms)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t deferred_ms =
        fsm_min(fsm_add(view->deferred_before_ms, deferral_ms), view->max_deferral_ms);
    uint64_t more_ms;

    CHECK(checkpoint->view.id != 0);
    if (deferred_ms <= view->deferred_ms || progress_allocation(fsm, checkpoint)->view.terminating)
        return;
    more_ms = deferred_ms - view->deferred_ms;
    view->deferred_ms = deferred_ms;
    if (checkpoint->stop_deadline_ms != 0)
        checkpoint->stop_limit_ms += more_ms;
    progress_give_time(fsm, checkpoint, more_ms);
}

/* The bound for timeouts rises at once with a slow checkpoint and falls by a quarter each time at
 * most: one fast checkpoint must not make the next one time out. A job that has completed one can
 * be preempted again. */
static void progress_learn(struct fsm *fsm, struct allocation *allocation,
                           struct checkpoint *checkpoint)
{
    struct fsm_allocation *view = &allocation->view;
    uint64_t write_ms = 0;

    CHECK(allocation->view.id != NULL);
    checkpoint->view.size_bytes = 0;
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        CHECK(checkpoint->shards[i].verified); /* I27 */
        checkpoint->view.size_bytes += checkpoint->shards[i].size_bytes;
        write_ms = fsm_max(write_ms, checkpoint->shards[i].write_ms);
    }
    if (write_ms == 0)
        write_ms = fsm_since(fsm, checkpoint->view.dispatched_at_ms);
    fsm_learn_complete(view, checkpoint);
    view->write_estimate_ms =
        fsm_max(write_ms, view->write_estimate_ms - view->write_estimate_ms / 4);
    view->previous_complete_id = view->last_complete_id;
    view->last_complete_id = checkpoint->view.id;
    fsm_begin_whole(allocation);
    view->last_complete_snapshot_ms =
        fsm_max(view->last_complete_snapshot_ms, checkpoint->view.snapshot_at_ms);
    view->complete_count++;
    view->unresponsive = false;
}

/* In the grace after the walltime only the plan changes, since the terminate order stands: the job
 * has been saved, so it becomes SUSPENDED instead of FAILED (F-013). A checkpoint that goes on lets
 * the nodes leave that waited for it. */
void fsm_checkpoint_complete(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation = progress_allocation(fsm, checkpoint);

    CHECK(checkpoint->view.state == STATE(WRITING));
    fsm_account_saved(fsm, allocation, checkpoint);
    fsm_checkpoint_leave_active(fsm, checkpoint);
    checkpoint->view.completed_at_ms = fsm->now_ms;
    fsm_platform_note(fsm, checkpoint);
    fsm_calibrate_complete(fsm, allocation, checkpoint);
    progress_learn(fsm, allocation, checkpoint);
    fsm_checkpoint_move(fsm, checkpoint, STATE(COMPLETE), REASON(NONE));
    fsm_restart_progress(fsm, allocation);
    fsm_checkpoint_arm(fsm, checkpoint);
    fsm_retention_review(fsm, allocation);
    if (allocation->view.terminating) { /* F-013: in the grace after the walltime */
        CHECK(allocation->view.terminate_reason == REASON(WALLTIME_EXCEEDED));
        allocation->plan_state = ENDS(SUSPENDED);
        allocation->plan_reason = REASON(WALLTIME_EXCEEDED);
        fsm_terminate_settle(fsm, allocation);
    } else if (checkpoint->view.after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE ||
               allocation->view.next_count > 0) {
        fsm_release_begin(fsm, checkpoint);
    } else {
        (void)fsm_leave_takes(fsm, allocation);
    }
}

/* What another try may cure. What the application refuses, or cannot do, it would refuse again.
 * All reasons of a destination are among them: space and rights come back as well, while the job
 * goes on, and a try costs little beside what would be lost. */
static bool progress_curable(Ckpt__V1__Reason reason)
{
    switch (reason) {
    case REASON(NONE):
    case REASON(WRITE_FAILED):
    case REASON(VERIFY_FAILED):
    case REASON(AGENT_LOST_ATTEMPT):
    case REASON(NOT_ATTACHED):
    case REASON(STORAGE_UNAVAILABLE):
    case REASON(STORAGE_FULL):
    case REASON(STORAGE_QUOTA):
    case REASON(STORAGE_DENIED):
    case REASON(STORAGE_UNREACHABLE):
    case REASON(STORAGE_HANGS):
    case REASON(STORAGE_ERROR):
    case REASON(STORAGE_SLOW):
    case REASON(MEMORY_FULL):
    case REASON(APPLICATION_EXITED): /* and is started again in place */
    case REASON(STEP_MISMATCH):
    case REASON(STEP_MISSED):
    case REASON(RANKS_MISSING):
        return true;
    default: /* the catalogue of reasons grows: a new one is not retried */
        return false;
    }
}

/* What somebody has to mend: the record says it, rather than that it was tried often. The job's
 * owner reads there whom to ask: who runs the storage, or whoever gave out the quota. */
static bool progress_lasts(Ckpt__V1__Reason reason)
{
    return reason == REASON(STORAGE_FULL) || reason == REASON(STORAGE_QUOTA) ||
           reason == REASON(STORAGE_DENIED) || reason == REASON(MEMORY_FULL);
}

/* Decision 5: terminated; SUSPENDED only when there is something to restart from. A job without any
 * checkpoint cannot go on from anything: it is what its requeue policy makes of a failure. */
void fsm_checkpoint_stop_without(struct fsm *fsm, struct allocation *allocation,
                                 Ckpt__V1__Reason reason)
{
    struct fsm_plan plan = fsm_plan_failure(fsm, allocation, reason, false);

    CHECK(allocation->view.id != NULL);
    if (allocation->view.last_complete_id != 0)
        plan.state = ENDS(SUSPENDED);
    fsm_terminate_begin(fsm, allocation, plan);
}

/* It keeps its nodes, and is nobody's victim. A stop may have taken its last safe slot over, which
 * it gets again. */
void fsm_checkpoint_spare(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason)
{
    CHECK(allocation->view.id != NULL);
    if (fsm_level(fsm) >= 2 && allocation->preemptor_class != 0)
        allocation->view.walltime_asked = false;
    fsm_preemption_kept(fsm, allocation, reason);
    allocation->preemptor_class = 0;
    if (allocation->view.state == ENDS(CHECKPOINTING_TO_STOP))
        fsm_allocation_go_on(fsm, allocation, reason);
    fsm_allocation_changed(fsm, allocation);
}

/* The allocation's checkpoint ended without completing. A job that is being ended goes on ending;
 * nodes that were to leave do so with a loss. A victim that is forced stops without the checkpoint;
 * any other job that was to stop goes on running. */
static void progress_given_up(struct fsm *fsm, struct allocation *allocation, bool force,
                              Ckpt__V1__Reason reason)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->view.terminating)
        fsm_terminate_settle(fsm, allocation);
    else if (allocation->view.next_count > 0)
        fsm_scale_done(fsm, allocation, reason);
    else if (force)
        fsm_checkpoint_stop_without(fsm, allocation, reason);
    else if (allocation->view.state ==
             ENDS(CHECKPOINTING_TO_STOP)) /* its shrinking is off, R-002 */
        fsm_checkpoint_spare(fsm, allocation, reason);
}

/* Whether a victim is ended although nothing was saved. Until level 2 every one was. */
static bool progress_kills(const struct fsm *fsm, const struct checkpoint *checkpoint, bool silent)
{
    const struct allocation *allocation = allocation_at(fsm, checkpoint->view.allocation_slot);

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->view.purpose != CKPT__V1__PURPOSE__PURPOSE_PREEMPT)
        return false;
    return silent || fsm_level(fsm) < 2 || fsm_preemption_forced(fsm, allocation);
}

/* A retry must still be of use: not when a part has finished, not beyond the instant until which
 * somebody waits, not while the job is ended. The back-off doubles, so that a storage system in
 * trouble is not asked by all jobs at once. */
void fsm_checkpoint_attempt_failed(struct fsm *fsm, struct checkpoint *checkpoint,
                                   Ckpt__V1__Reason reason)
{
    struct allocation *allocation = progress_allocation(fsm, checkpoint);
    uint32_t doublings = checkpoint->failure_count < BACKOFF_DOUBLINGS_MAX
                             ? checkpoint->failure_count
                             : BACKOFF_DOUBLINGS_MAX;
    uint64_t retry_at_ms = fsm->now_ms + (fsm->policy.retry_backoff_ms << doublings);
    bool kills = progress_kills(fsm, checkpoint, false);
    bool too_late =
        checkpoint->stop_deadline_ms != 0 && retry_at_ms >= checkpoint->stop_deadline_ms;
    bool whole = allocation->exited_count == 0; /* else no attempt can complete */

    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_writes(checkpoint));
    checkpoint->failure_count++;
    if (progress_curable(reason) && whole && !too_late && !allocation->view.terminating) {
        if (checkpoint->failure_count < fsm->policy.max_attempts) {
            fsm_checkpoint_retry(fsm, checkpoint, reason, retry_at_ms);
            return;
        }
        if (fsm->policy.max_attempts > 1 && !progress_lasts(reason))
            reason = REASON(RETRIES_EXHAUSTED);
    }
    if (reason == REASON(NO_HANDLER)) /* S1-046 */
        allocation->view.unresponsive = true;
    fsm_checkpoint_end(fsm, checkpoint, STATE(FAILED), reason);
    progress_given_up(fsm, allocation, kills,
                      kills ? REASON(PREEMPTED_WITHOUT_CHECKPOINT) : reason);
}

/* The application was asked, and has not said that it is done. A part that was never asked tells of
 * its agent, one that has answered of its destination, and so does an earlier attempt that failed:
 * the deadline is then the broker's. */
static bool progress_silent(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count && checkpoint->failure_count == 0; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        if (shard->started && !shard->verified && shard->stall_ms == 0)
            return true;
    }
    return false;
}

/* An application that did not answer in time may not answer the next time either: it is no victim
 * that can be saved, until it completes one. Nobody retries: the next attempt would hold its nodes
 * for as long again. A victim that was not silent would only be ended by the next preemption, if it
 * were marked. */
void fsm_checkpoint_timed_out(struct fsm *fsm, struct checkpoint *checkpoint, bool told)
{
    struct allocation *allocation = progress_allocation(fsm, checkpoint);
    bool stops = checkpoint->view.after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    bool silent = told || progress_silent(checkpoint);
    bool kills = stops && progress_kills(fsm, checkpoint, silent);
    bool spared = !kills && stops && fsm_level(fsm) >= 2 &&
                  checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT;

    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (!spared)
        allocation->view.unresponsive = true; /* S1-033, S1-046 */
    fsm_checkpoint_end(fsm, checkpoint, STATE(TIMED_OUT), REASON(CHECKPOINT_TIMEOUT));
    progress_given_up(fsm, allocation, kills, REASON(CHECKPOINT_TIMEOUT));
}

/* P-040. A pause that its agent tells is over: the application has answered, and only its files are
 * still on their way. */
void fsm_checkpoint_responsive(struct fsm *fsm, struct checkpoint *checkpoint,
                               struct fsm_shard *shard, uint64_t stall_ms)
{
    CHECK(shard != NULL);
    if (fsm_level(fsm) >= 2)
        shard->stall_ms = fsm_max(shard->stall_ms, fsm_min(stall_ms, FSM_DURATION_MAX_MS));
    progress_extend(fsm, checkpoint);
}

/* A deadline that passed, a back-off that is over, or an expiry, by the state. After a back-off
 * nothing is begun: the checkpoint may be granted again. */
void fsm_checkpoint_due(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (fsm_checkpoint_writes(checkpoint)) {
        fsm_checkpoint_timed_out(fsm, checkpoint, false);
    } else if (checkpoint->view.state == STATE(REQUESTED)) {
        checkpoint->view.retry_at_ms = 0;
        fsm_checkpoint_arm(fsm, checkpoint);
    } else {
        fsm_retention_due(fsm, checkpoint);
    }
}
