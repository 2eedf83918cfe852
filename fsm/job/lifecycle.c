/* States of allocations and checkpoints: the tables of allowed moves, and the only functions that
 * move.
 *
 * Checkpoint:
 *   REQUESTED --grant--> DISPATCHED --node reports--> WRITING --all shards verified--> COMPLETE
 *     ^  ^                  |                          |  |                                |
 *     |  +--- resume --- PAUSED <--- storage outage ---+  |                            retention
 *     +-- retry with back-off                             v                                v
 *         (attempt + 1 at the next dispatch)    FAILED | TIMED_OUT |                   COLLECTED
 *                                               CANCELLED | SUPERSEDED
 *
 * Allocation:
 *   registered --> STARTING --runs on all nodes--> RUNNING --> CHECKPOINTING_TO_STOP
 *                  ^  ^  ^                         |  ^           |  |
 *                  |  |  +-- started again --------+  +-----------+  +--> SUSPENDED | COMPLETED
 *                  |  |      in place                 |                   FAILED | REQUEUED
 *                  |  +-------------------------------+ that checkpoint failed or was cancelled
 *                  +--- restart of a SUSPENDED, REQUEUED or FAILED one
 *   registered with `waits` --> REQUEUED
 *   STARTING and RUNNING may also end as each of the four without a checkpoint.
 */
#include "fsm/core/registry.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"

/* A row of moves is a set of states, one bit each. */
#define C(name) (1u << CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name)
#define A(name) (1u << CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name)

enum {
    CHECKPOINT_ENDINGS = C(FAILED) | C(CANCELLED) | C(SUPERSEDED),
    ALLOCATION_ENDINGS = A(SUSPENDED) | A(COMPLETED) | A(FAILED) | A(REQUEUED)
};

static const uint32_t checkpoint_moves[FSM_STATES_CHECKPOINT] = {
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED] = C(REQUESTED),
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED] =
        C(DISPATCHED) | C(PAUSED) | CHECKPOINT_ENDINGS,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED] =
        C(WRITING) | C(PAUSED) | C(REQUESTED) | C(TIMED_OUT) | CHECKPOINT_ENDINGS,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING] =
        C(COMPLETE) | C(PAUSED) | C(REQUESTED) | C(TIMED_OUT) | CHECKPOINT_ENDINGS,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED] = C(REQUESTED) | CHECKPOINT_ENDINGS,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE] = C(COLLECTED),
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COLLECTED] = 0,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED] = 0,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_TIMED_OUT] = 0,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_CANCELLED] = 0,
    [CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED] = 0,
};

static const uint32_t allocation_moves[FSM_STATES_ALLOCATION] = {
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED] = A(STARTING) | A(REQUEUED),
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING] = A(RUNNING) | ALLOCATION_ENDINGS,
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING] =
        A(STARTING) | A(CHECKPOINTING_TO_STOP) | ALLOCATION_ENDINGS,
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP] =
        A(STARTING) | A(RUNNING) | ALLOCATION_ENDINGS,
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED] =
        A(STARTING) | A(COMPLETED) | A(FAILED),
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED] =
        A(STARTING) | A(COMPLETED) | A(FAILED),
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED] = A(STARTING),
    [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED] = 0,
};

/* A number that is no state has no moves: what a snapshot or a test says is not trusted here. */
bool fsm_checkpoint_move_allowed(Ckpt__V1__CheckpointState from, Ckpt__V1__CheckpointState to)
{
    return (unsigned)from < FSM_STATES_CHECKPOINT && (unsigned)to < FSM_STATES_CHECKPOINT &&
           (checkpoint_moves[from] >> to & 1) != 0;
}

bool fsm_allocation_move_allowed(Ckpt__V1__AllocationState from, Ckpt__V1__AllocationState to)
{
    return (unsigned)from < FSM_STATES_ALLOCATION && (unsigned)to < FSM_STATES_ALLOCATION &&
           (allocation_moves[from] >> to & 1) != 0;
}

/* Active means that it still may complete and that its job can have no other (I21). */
bool fsm_checkpoint_state_active(Ckpt__V1__CheckpointState state)
{
    return (unsigned)state < FSM_STATES_CHECKPOINT &&
           ((C(REQUESTED) | C(DISPATCHED) | C(WRITING) | C(PAUSED)) >> state & 1) != 0;
}

/* It holds its nodes: their GPU time is accounted for, and its applications may be there. */
bool fsm_allocation_runs(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return ((A(STARTING) | A(RUNNING) | A(CHECKPOINTING_TO_STOP)) >> allocation->view.state & 1) !=
           0;
}

/* Most have none: no text is held for them. */
void fsm_checkpoint_set_detail(struct fsm *fsm, struct checkpoint *checkpoint, const char *detail)
{
    static const char none[] = "";
    const char *before = checkpoint->view.detail;

    CHECK(checkpoint->view.id != 0);
    CHECK(detail != NULL);
    checkpoint->view.detail = detail[0] == '\0' ? none : fsm_intern(fsm, detail);
    if (before != NULL && before[0] != '\0')
        fsm_intern_release(fsm, before);
}

/* The counters of states are changed with each move, by adopt() and forget() alone, so that a
 * summary need not look at the records. A restore calls adopt() for each record that it read. */
void fsm_checkpoint_adopt(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));

    CHECK(checkpoint->view.id != 0);
    fsm->checkpoints_by_state[checkpoint->view.state]++;
    fsm_quota_count(fsm, checkpoint, fsm_checkpoint_state_active(checkpoint->view.state), true);
    if (checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED)
        target->view.paused_count++;
}

/* A record that never had a state was not counted. */
void fsm_checkpoint_forget(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED)
        return;
    CHECK(fsm->checkpoints_by_state[checkpoint->view.state] > 0);
    fsm->checkpoints_by_state[checkpoint->view.state]--;
    fsm_quota_count(fsm, checkpoint, fsm_checkpoint_state_active(checkpoint->view.state), false);
    if (checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED)
        target->view.paused_count--;
}

/* What schedulers account for (D-007). Its size is known by now. */
static void checkpoint_account(const struct fsm *fsm, const struct fsm_checkpoint *view,
                               struct fsm_event *event)
{
    uint64_t price = target_at(fsm, view->target_slot)->view.cost_micro_usd_per_gb_month;
    __uint128_t cost = (__uint128_t)view->size_bytes * price / 1000000000;

    CHECK(view->completed_at_ms != 0);
    event->size_bytes = view->size_bytes;
    event->duration_ms = fsm_since(fsm, view->created_at_ms);
    event->storage_micro_usd_per_month = cost > UINT64_MAX ? UINT64_MAX : (uint64_t)cost;
}

/* The detail of the report that is being applied goes with the state that it caused: a later move
 * without one clears it. Records that moved are looked at when the command is done (moved.c), since
 * fields that belong to the new state are set after this. */
void fsm_checkpoint_move(struct fsm *fsm, struct checkpoint *checkpoint,
                         Ckpt__V1__CheckpointState to, Ckpt__V1__Reason reason)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *allocation = allocation_at(fsm, view->allocation_slot);
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE,
                              .allocation_id = allocation->view.id,
                              .checkpoint_id = view->id,
                              .old_state = view->state,
                              .new_state = to,
                              .reason = reason,
                              .subject = fsm->detail,
                              .number = view->attempt};

    CHECK(checkpoint->view.id != 0);
    CHECK(fsm_checkpoint_move_allowed(view->state, to));
    fsm_checkpoint_forget(fsm, checkpoint);
    view->state = to;
    view->reason = reason;
    fsm_checkpoint_set_detail(fsm, checkpoint, fsm->detail == NULL ? "" : fsm->detail);
    view->state_since_ms = fsm->now_ms;
    if (to == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        checkpoint_account(fsm, view, &event);
    fsm_checkpoint_adopt(fsm, checkpoint);
    fsm->checkpoints_total[to]++;
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, view->id);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, view->allocation_slot);
    fsm_moved(fsm, FSM_RECORD_TARGET, view->target_slot);
    fsm_audit_checkpoint(fsm, checkpoint, (Ckpt__V1__CheckpointState)event.old_state);
    fsm_event_emit(fsm, &event);
}

/* The index by class that a preemption walks: sensitive ones are never in it (I31), so no rule that
 * is asked later can let one through. */
static bool allocation_may_be_victim(const struct allocation *allocation)
{
    return fsm_allocation_runs(allocation) && !allocation->view.sensitive;
}

bool fsm_allocation_goes_on(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return ((A(COMPLETED) | A(FAILED)) >> allocation->view.state & 1) == 0;
}

/* Beside the counters: who still needs its target and its nodes, by which these can be removed, and
 * the index of possible victims. */
void fsm_allocation_adopt(struct fsm *fsm, struct allocation *allocation)
{
    struct bitmap *victims = &fsm->running_by_class[allocation->view.preemption_class];
    struct target *target = target_edit(fsm, target_at(fsm, allocation->view.target_slot));

    CHECK(allocation->view.id != NULL);
    fsm->allocations_by_state[allocation->view.state]++;
    fsm->hung_count += fsm_hung(&allocation->view);
    target->job_count++;
    target->going_count += fsm_allocation_goes_on(allocation);
    fsm_allocation_count_going(fsm, allocation, fsm_allocation_goes_on(allocation));
    if (allocation_may_be_victim(allocation))
        fsm_bitmap_set(victims, allocation->view.slot);
}

/* The nodes' counts stay: a move between two states that go on changes none of them. */
void fsm_allocation_forget(struct fsm *fsm, const struct allocation *allocation)
{
    struct target *target = target_edit(fsm, target_at(fsm, allocation->view.target_slot));

    CHECK(allocation->view.id != NULL);
    if (allocation->view.state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED)
        return;
    CHECK(fsm->allocations_by_state[allocation->view.state] > 0);
    fsm->allocations_by_state[allocation->view.state]--;
    fsm->hung_count -= fsm_hung(&allocation->view);
    target->job_count--;
    target->going_count -= fsm_allocation_goes_on(allocation);
    fsm_bitmap_clear(&fsm->running_by_class[allocation->view.preemption_class],
                     allocation->view.slot);
}

/* A record's first move is its registration, and is told as that. */
void fsm_allocation_move(struct fsm *fsm, struct allocation *allocation,
                         Ckpt__V1__AllocationState to, Ckpt__V1__Reason reason)
{
    struct fsm_allocation *view = &allocation->view;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE,
                              .allocation_id = view->id,
                              .checkpoint_id = view->active_checkpoint_id,
                              .old_state = view->state,
                              .new_state = to,
                              .reason = reason};

    CHECK(allocation->view.id != NULL);
    CHECK(fsm_allocation_move_allowed(view->state, to));
    if (view->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED)
        event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_REGISTERED;
    fsm_allocation_forget(fsm, allocation);
    view->state = to;
    view->reason = reason;
    view->state_since_ms = fsm->now_ms;
    view->restart_at_ms = 0; /* of the state before */
    fsm_hang_clear(view);
    fsm_allocation_adopt(fsm, allocation);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, view->slot);
    fsm_audit_job(fsm, allocation, (Ckpt__V1__AllocationState)event.old_state);
    fsm_event_emit(fsm, &event);
}

/* A job is STARTING exactly as long as a part of it is to start (I43), whatever it was before. */
void fsm_allocation_go_on(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason)
{
    Ckpt__V1__AllocationState state = allocation->starting_count > 0
                                          ? CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING
                                          : CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;

    CHECK(allocation->view.id != NULL);
    if (allocation->view.state != state)
        fsm_allocation_move(fsm, allocation, state, reason);
}
