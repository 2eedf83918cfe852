/* Commands about checkpoints: request, cancel, migrate, decisions, grants, collected.
 *
 * Flow     people's requests are refused or taken one by one, with a status. The leader's batches
 *          (decisions, grants, collected) were made from a state that is some entries old by now:
 *          each item is judged again, and what no longer holds is passed over without harm.
 */
#include "fsm/core/registry.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

#define AFTER(name)   CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_##name
#define PURPOSE(name) CKPT__V1__PURPOSE__PURPOSE_##name

/* What is not said means a checkpoint now, after which the job goes on. */
enum fsm_status fsm_apply_request_checkpoint(struct fsm *fsm, const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    const Ckpt__V1__RequestCheckpointRequest *request = command->request_checkpoint;
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, request->allocation_id));
    struct checkpoint_ask ask = {.purpose = request->purpose, .after = request->after};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    if (ask.purpose == PURPOSE(UNSPECIFIED))
        ask.purpose = PURPOSE(MANUAL);
    if (ask.after == AFTER(UNSPECIFIED))
        ask.after = AFTER(CONTINUE);
    return fsm_checkpoint_ask(fsm, allocation, &ask, outcome);
}

/* A job that nobody can checkpoint begins anew elsewhere, as one does whose drained node's time is
 * over, unless it may not run again. */
static enum fsm_status migrate_anew(struct fsm *fsm, struct allocation *allocation,
                                    struct fsm_outcome *outcome)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE);
    outcome->current = view->state;
    if (!fsm_allocation_runs(allocation))
        return FSM_ALLOCATION_ENDED;
    if (view->terminating || view->leaving)
        return FSM_CHECKPOINTING;
    if (view->requeue_policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER)
        return FSM_NOT_RERUNNABLE;
    outcome->current = 0;
    fsm_leave_begin(fsm, allocation);
    return FSM_OK;
}

/* S3-056: checkpoint, stop, start elsewhere. */
enum fsm_status fsm_apply_migration(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, command->request_migration->allocation_id));
    struct checkpoint_ask ask = {.purpose = PURPOSE(MIGRATE), .after = AFTER(MIGRATE)};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REQUEST_MIGRATION);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    if (fsm_level(fsm) >= 2 && allocation->view.strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return migrate_anew(fsm, allocation, outcome);
    return fsm_checkpoint_ask(fsm, allocation, &ask, outcome);
}

/* Whoever waited for it is told: nodes that were to leave stay, a preemption looks for another
 * victim, a stop is taken back. A terminate order stands, since it needs no checkpoint. */
enum fsm_status fsm_apply_cancel(struct fsm *fsm, const fsm_command *command,
                                 struct fsm_outcome *outcome)
{
    struct checkpoint *checkpoint =
        checkpoint_edit(fsm, checkpoint_find(fsm, command->cancel_checkpoint->checkpoint_id));
    struct allocation *allocation;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_CANCEL_CHECKPOINT);
    CHECK(outcome != NULL);
    if (checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    outcome->checkpoint_id = checkpoint->view.id;
    if (!fsm_checkpoint_state_active(checkpoint->view.state)) {
        outcome->current = checkpoint->view.state;
        return FSM_CHECKPOINT_ENDED;
    }
    allocation = allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    fsm_checkpoint_end(fsm, checkpoint, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_CANCELLED,
                       CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST);
    if (!allocation->view.terminating) {
        fsm_scale_undo(fsm, allocation);
        fsm_preemption_kept(fsm, allocation, CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST);
    }
    if (allocation->view.terminating) {
        fsm_terminate_settle(fsm, allocation);
    } else if (allocation->view.state ==
               CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP) {
        allocation->preemptor_class = 0;
        fsm_allocation_go_on(fsm, allocation, CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST);
    }
    return FSM_OK;
}

/* From the end of an attempt, whatever became of it, as from a complete one: a declared period goes
 * below it neither way. */
static bool decision_too_soon(const struct fsm *fsm, const struct fsm_allocation *view,
                              Ckpt__V1__Purpose purpose)
{
    CHECK(view->id != NULL);
    if (purpose == PURPOSE(PROACTIVE))
        return fsm_silence_lasts(fsm, view);
    if (purpose != PURPOSE(PERIODIC) && purpose != PURPOSE(UNSPECIFIED))
        return false;
    return view->last_attempt_end_ms != 0 &&
           fsm_since(fsm, view->last_attempt_end_ms) < fsm_attempt_interval_ms(fsm, view);
}

/* A move by the broker itself: somewhere to go where it can start (S3-045), and nobody who wants to
 * be asked first (F-008, F-015). */
static bool decision_may_move(const struct fsm *fsm, const struct fsm_allocation *view,
                              const Ckpt__Log__V1__Decision *decision)
{
    const struct node *spare = node_find(fsm, decision->spare_node_id);
    const struct holder holder = {view->sensitive, allocation_at(fsm, view->slot), NULL};

    return spare != NULL && !fsm_move_too_soon(fsm, view) &&
           !fsm_node_is_shared(fsm, spare, &holder) &&
           spare->view.state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
           spare->view.allocation_count == 0 && fsm_platform_may_move(fsm, view, &spare->view) &&
           fsm_domain_allows(fsm, view, &spare->view) && !view->sensitive &&
           view->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER;
}

/* The last safe slot meets a checkpoint that waits for its turn, or that its application put off:
 * what is written in time is that one (S1-094). */
static bool decision_hurries(const struct fsm *fsm, const struct allocation *allocation,
                             const Ckpt__Log__V1__Decision *decision)
{
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);

    CHECK(allocation->view.id != NULL);
    return decision->purpose == PURPOSE(WALLTIME) && decision->after <= AFTER(CONTINUE) &&
           active != NULL && active->view.after == AFTER(CONTINUE) &&
           (!fsm_checkpoint_writes(active) || fsm_checkpoint_put_off(&active->view));
}

/* Every guard again: between the evaluation and now anything may have happened (S1-056, S1-063,
 * F-021). */
static bool decision_holds(const struct fsm *fsm, const struct allocation *allocation,
                           const Ckpt__Log__V1__Decision *decision)
{
    const struct fsm_allocation *view;

    if (allocation == NULL)
        return false;
    view = &allocation->view;
    if (view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING || view->terminating ||
        fsm_hung(view) || view->strategy != CKPT__V1__STRATEGY__STRATEGY_AUTO)
        return false;
    if (view->active_checkpoint_id != 0 && !decision_hurries(fsm, allocation, decision))
        return false;
    if (decision->purpose == PURPOSE(WALLTIME) && view->walltime_asked)
        return false;
    if (decision->purpose == PURPOSE(MIGRATE) && !decision_may_move(fsm, view, decision))
        return false;
    if (decision->purpose == PURPOSE(PREEMPT) &&
        (view->unresponsive || !fsm_victim_allowed(fsm, allocation)))
        return false;
    return !decision_too_soon(fsm, view, decision->purpose) && fsm_destination_available(fsm, view);
}

/* The purpose says what follows, whatever the batch says: a victim stops, and a job that moves
 * moves. A decision without room for its inputs is taken all the same; it can only not be explained
 * later. */
static bool decision_apply(struct fsm *fsm, const Ckpt__Log__V1__Decision *decision,
                           const Ckpt__Log__V1__DecisionBasis *basis, struct fsm_outcome *outcome)
{
    struct allocation *allocation;
    struct basis *shared = NULL;
    struct checkpoint_ask ask = {decision->purpose, decision->after, decision->terms,
                                 decision->priority_gpu_ms_per_gb};

    if (!decision_holds(fsm, allocation_find(fsm, decision->allocation_id), decision))
        return false;
    allocation = allocation_edit(fsm, allocation_find(fsm, decision->allocation_id));
    if (ask.purpose == PURPOSE(UNSPECIFIED))
        ask.purpose = PURPOSE(PERIODIC);
    if (ask.purpose == PURPOSE(PREEMPT))
        ask.after = AFTER(STOP);
    if (ask.purpose == PURPOSE(MIGRATE))
        ask.after = AFTER(MIGRATE);
    if (ask.after == AFTER(UNSPECIFIED))
        ask.after = AFTER(CONTINUE);
    if (allocation->view.active_checkpoint_id != 0) {
        fsm_checkpoint_hurry(fsm, checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation)),
                             &ask);
        allocation->view.walltime_asked = true;
        outcome->checkpoint_id = allocation->view.active_checkpoint_id;
        return true;
    }
    if (fsm_checkpoint_ask(fsm, allocation, &ask, outcome) != FSM_OK)
        return false;
    if (ask.purpose == PURPOSE(PREEMPT))
        allocation->preemptor_class = FSM_CLASS_MAX;
    if (decision->inputs != NULL)
        shared = fsm_basis_of(fsm, basis);
    if (shared != NULL)
        fsm_checkpoint_set_inputs(checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation)),
                                  shared, fsm->index, fsm->term, decision->inputs);
    return true;
}

/* outcome: current decisions taken of limit proposed; checkpoint_id of the last one. */
enum fsm_status fsm_apply_decisions(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__DecisionBatch *batch = command->decisions;
    uint64_t taken = 0;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_DECISIONS);
    CHECK(outcome != NULL);
    for (size_t i = 0; i < batch->n_decisions; i++)
        if (decision_apply(fsm, batch->decisions[i], batch->basis, outcome))
            taken++;
    fsm->skipped_decisions += batch->n_decisions - taken;
    outcome->current = taken;
    outcome->limit = batch->n_decisions;
    return FSM_OK;
}

/* Between the proposal and now another grant, an outage or a lower measurement may have used the
 * room (I36). */
static enum fsm_status grant_apply(struct fsm *fsm, const Ckpt__Log__V1__Grant *grant,
                                   struct fsm_outcome *outcome)
{
    struct checkpoint *checkpoint =
        checkpoint_edit(fsm, checkpoint_find(fsm, grant->checkpoint_id));
    const struct target *target;
    bool bypass;

    outcome->checkpoint_id = grant->checkpoint_id;
    if (checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    outcome->current = checkpoint->view.state;
    if (!fsm_checkpoint_state_active(checkpoint->view.state))
        return FSM_CHECKPOINT_ENDED;
    if (fsm_checkpoint_writes(checkpoint) || checkpoint->view.retry_at_ms != 0 ||
        fsm_checkpoint_held(fsm, checkpoint))
        return FSM_CHECKPOINT_ACTIVE;
    target = target_at(fsm, checkpoint->view.target_slot);
    if (!target->view.available)
        return FSM_STORAGE_UNAVAILABLE;
    outcome->current = target->budgeted_bytes_per_s + grant->bytes_per_s;
    outcome->limit = target->view.budget_bytes_per_s;
    /* The victim may have been turned back since it was proposed. */
    bypass = grant->bypass_budget && fsm_grant_urgent(&checkpoint->view);
    if (!bypass && outcome->current > outcome->limit) /* I36 */
        return FSM_BUDGET_EXCEEDED;
    if (!fsm_grant_urgent(&checkpoint->view) && !fsm_writes_fit(target, checkpoint)) {
        outcome->current = target->view.writing_count;
        outcome->limit = target->view.max_writes;
        return FSM_WRITES_FULL;
    }
    fsm_checkpoint_dispatch(fsm, checkpoint, grant, bypass);
    return FSM_OK;
}

/* Each grant stands alone: the outcome names the first that was refused, the others are applied. */
enum fsm_status fsm_apply_grants(struct fsm *fsm, const fsm_command *command,
                                 struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__GrantBatch *batch = command->grants;
    enum fsm_status first = FSM_OK;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_GRANTS);
    CHECK(outcome != NULL);
    for (size_t i = 0; i < batch->n_grants; i++) {
        struct fsm_outcome *numbers = outcome;
        struct fsm_outcome ignored;
        enum fsm_status status;

        if (first != FSM_OK)
            numbers = &ignored;
        status = grant_apply(fsm, batch->grants[i], numbers);
        if (status != FSM_OK && first == FSM_OK)
            first = status;
    }
    if (first == FSM_OK) {
        outcome->current = 0;
        outcome->limit = 0;
    }
    return first;
}

/* Idempotent: what is unknown, collected already or not expired changes nothing. outcome: current
 * collected of limit named. A collector that dies after the removal of a folder, and before this
 * command, finds it listed again and says it then. */
enum fsm_status fsm_apply_collected(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__CheckpointsCollected *collected = command->checkpoints_collected;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_COLLECTED);
    CHECK(outcome != NULL);
    outcome->limit = collected->n_checkpoint_ids;
    for (size_t i = 0; i < collected->n_checkpoint_ids; i++)
        outcome->current +=
            fsm_retention_collected(fsm, collected->checkpoint_ids[i],
                                    i < collected->n_removed_bytes ? collected->removed_bytes[i]
                                                                   : 0) == FSM_OK;
    for (size_t i = 0; i < collected->n_failed; i++)
        fsm_undeleted_failed(fsm, collected->failed[i]->checkpoint_id, collected->failed[i]->reason,
                             collected->failed[i]->elsewhere);
    return FSM_OK;
}

enum fsm_status fsm_apply_pin(struct fsm *fsm, const fsm_command *command,
                              struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__PinCheckpoint *pin = command->pin_checkpoint;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_PIN_CHECKPOINT);
    outcome->checkpoint_id = pin->checkpoint_id;
    if (pin->reject)
        return fsm_verify_reject(fsm, pin->checkpoint_id);
    return fsm_retention_pin(fsm, pin->checkpoint_id, !pin->unpin, outcome);
}

/* outcome: current expired of limit named. What has become needed since it was planned stays. */
enum fsm_status fsm_apply_expire(struct fsm *fsm, const fsm_command *command,
                                 struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__ExpireCheckpoints *named = command->expire_checkpoints;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_EXPIRE_CHECKPOINTS);
    CHECK(outcome != NULL);
    outcome->limit = named->n_checkpoint_ids;
    for (size_t i = 0; i < named->n_checkpoint_ids; i++)
        outcome->current += fsm_retention_expire(fsm, named->checkpoint_ids[i]);
    return FSM_OK;
}
