/* What a single record must look like when a command has been applied: the legal combinations of
 * its fields, one condition each.
 *
 * Flow     whoever moves a record notes it with fsm_moved(); fsm_moved_check() looks at those
 *          records when the command is done, because a move and the fields that go with it are
 *          set one after another. A record that left meanwhile is passed over.
 * Shapes   FSM_MOVED_MAX records per command, three for each move of a checkpoint. What moves
 *          beyond that (a target with thousands of paused checkpoints comes back) is left to
 *          fsm_check(), which looks at everything.
 * Absent   nothing that takes a walk over a list: the cost of a command does not grow with the
 *          state. Sums over other records are check.c's.
 */
#include "fsm/core/registry.h"
#include "fsm/core/state.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define PREEMPTION(name) CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name)     CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define CONTINUES        CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE

/* ---- allocations ---- */

static void allocation_check_state(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    bool runs = fsm_allocation_runs(allocation);

    CHECK(view->state != ALLOCATION(UNSPECIFIED));
    CHECK((unsigned)view->state < FSM_STATES_ALLOCATION);
    CHECK(view->state_since_ms <= fsm->now_ms);
    CHECK(runs == allocation->assigned); /* an ended one holds no nodes */
    CHECK(runs || view->active_checkpoint_id == 0);
    CHECK(runs || !view->terminating);
    CHECK(runs || view->preemption_id == 0);
    CHECK(runs || view->next_count == 0);
    CHECK(!view->sensitive || view->preempted_count == 0);
    CHECK(!view->sensitive || allocation->preemptor_class == 0);
    CHECK(!view->sensitive || view->preemption_id == 0);
    CHECK(allocation->preemptor_class == 0 || allocation->preemptor_class > view->preemption_class);
    CHECK(!allocation->expired || !fsm_allocation_goes_on(allocation));
    CHECK(allocation->going == fsm_allocation_goes_on(allocation));
}

static void allocation_check_parts(const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    bool starting = allocation->starting_count > 0;

    CHECK(view->node_count > 0);
    CHECK(allocation->assignments != NULL);
    CHECK(allocation->terminated_count <= view->node_count);
    CHECK(allocation->exited_count <= view->node_count);
    CHECK(allocation->starting_count <= view->node_count);
    CHECK(allocation->account_restarting == starting);
    CHECK(allocation->account_gpus == (allocation->assigned ? view->gpu_count : 0));
    if (!allocation->assigned)
        return;
    CHECK(view->state == ALLOCATION(CHECKPOINTING_TO_STOP) ||
          (view->state == ALLOCATION(STARTING)) == starting);
    /* parts end by an order only, and the last one's end is the allocation's */
    CHECK(view->terminating || view->leaving || allocation->terminated_count == 0);
    CHECK(view->terminating || allocation->exited_count < view->node_count);
    CHECK(!view->terminating || view->active_checkpoint_id != 0 ||
          allocation->terminated_count < view->node_count);
}

static void allocation_check_active(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);
    bool stops = active != NULL && active->view.after != CONTINUES;

    CHECK(view->last_complete_id == 0 || view->previous_complete_id < view->last_complete_id);
    CHECK(allocation->checkpoint_count <= FSM_CHECKPOINTS_PER_ALLOCATION_MAX);
    CHECK(active == NULL || allocation->checkpoint_count > 0);
    CHECK(active == NULL || active->view.allocation_slot == view->slot);
    CHECK(active == NULL || fsm_checkpoint_state_active(active->view.state));
    /* a stopping checkpoint and the state that says so go together */
    CHECK(!stops || view->state == ALLOCATION(CHECKPOINTING_TO_STOP));
    CHECK(view->state != ALLOCATION(CHECKPOINTING_TO_STOP) || stops || view->terminating);
    /* nodes leave after a checkpoint behind which the job goes on */
    CHECK(view->next_count == 0 || !view->terminating);
    CHECK(view->next_count == 0 || view->next != NULL);
    CHECK(view->next_count == 0 || view->state != ALLOCATION(CHECKPOINTING_TO_STOP));
    CHECK(view->next_count == 0 || active != NULL || view->leaving);
    CHECK(!view->leaving || view->next_count > 0);
    CHECK(!view->leaving || allocation->timer.at_ms != 0);
}

static void allocation_check(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    CHECK(allocation->tenant_slot < fsm->tenant_count);
    CHECK(target_at(fsm, allocation->view.target_slot)->job_count > 0);
    CHECK(allocation->timer.kind == TIMER_ALLOCATION);
    allocation_check_state(fsm, allocation);
    allocation_check_parts(allocation);
    allocation_check_active(fsm, allocation);
}

/* ---- checkpoints ---- */

static void checkpoint_check_times(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t longest_ms = checkpoint->base_timeout_ms + checkpoint->base_timeout_ms / 2;

    CHECK(view->state_since_ms <= fsm->now_ms);
    CHECK(view->created_at_ms <= fsm->now_ms);
    CHECK(view->dispatched_at_ms <= fsm->now_ms);
    CHECK(view->deferred_before_ms <= view->deferred_ms);
    CHECK(view->deferred_ms <= view->max_deferral_ms);
    CHECK(view->max_deferral_ms <= FSM_DURATION_MAX_MS);
    CHECK(view->timeout_ms <= longest_ms + (view->deferred_ms - view->deferred_before_ms));
    CHECK(fsm_checkpoint_writes(checkpoint) == (view->deadline_ms != 0));
    CHECK(checkpoint->stop_deadline_ms == 0 ||
          checkpoint->stop_deadline_ms <= checkpoint->stop_limit_ms);
    CHECK(checkpoint->timer.position == 0 || checkpoint->timer.at_ms != 0);
}

static void checkpoint_check_state(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct target *target = target_at(fsm, view->target_slot);
    bool active = fsm_checkpoint_state_active(view->state);
    bool paused = view->state == CHECKPOINT(PAUSED);

    CHECK(view->state != CHECKPOINT(UNSPECIFIED));
    CHECK((unsigned)view->state < FSM_STATES_CHECKPOINT);
    /* paused is what an unavailable target makes of every active one, and nothing else is */
    CHECK(!paused || !target->view.available);
    CHECK(!active || paused || target->view.available);
    CHECK(view->resumed_count <= view->paused_count);
    CHECK(view->paused_count - view->resumed_count <= 1);
    CHECK(!paused || view->paused_count == view->resumed_count + 1);
    CHECK(!active || paused || view->paused_count == view->resumed_count);
    CHECK(fsm_checkpoint_writes(checkpoint) || view->granted_bytes_per_s == 0);
    CHECK(!fsm_checkpoint_writes(checkpoint) || view->attempt > 0);
    CHECK(checkpoint->failure_count <= view->attempt);
    CHECK(!checkpoint->expired || !active);
    CHECK(!checkpoint->collected || checkpoint->expired);
    CHECK(view->state != CHECKPOINT(COLLECTED) || checkpoint->collected);
    CHECK(checkpoint->inputs == NULL || active || fsm_checkpoint_has_folder(checkpoint));
}

static void checkpoint_check(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *allocation = allocation_at(fsm, view->allocation_slot);

    CHECK(view->id != 0);
    CHECK(view->id >> CHECKPOINT_SEQUENCE_BITS <= fsm->epoch);
    CHECK(allocation->checkpoint_count > 0);
    CHECK(fsm_checkpoint_state_active(view->state) ==
          (allocation->view.active_checkpoint_id == view->id));
    CHECK(view->shard_count > 0);
    CHECK(checkpoint->shards != NULL);
    CHECK(view->shards == checkpoint->shards);
    CHECK(view->detail != NULL);
    CHECK(checkpoint->timer.kind == TIMER_CHECKPOINT);
    checkpoint_check_state(fsm, checkpoint);
    checkpoint_check_times(fsm, checkpoint);
}

/* ---- nodes, targets, preemptions ---- */

static void node_check(const struct fsm *fsm, const struct node *node)
{
    bool empty = list_empty(&node->assignments);

    CHECK(node->view.id != NULL);
    CHECK(node->view.home_vcluster != NULL);
    CHECK(node->view.state_since_ms <= fsm->now_ms);
    CHECK(empty == (node->view.allocation_count == 0));
    CHECK(node->going_count >= node->view.allocation_count);
    CHECK(node->name_count >= node->view.allocation_count);
    CHECK(!node->removed || empty);
    CHECK(!node->removed || node->going_count == 0);
}

static void target_check(const struct fsm *fsm, const struct target *target)
{
    const struct fsm_target *view = &target->view;
    bool empty = list_empty(&target->active);

    CHECK(view->id != NULL);
    CHECK(view->since_ms <= fsm->now_ms);
    CHECK(!view->available || view->paused_count == 0);
    CHECK(view->available || view->granted_bytes_per_s == 0);
    CHECK(view->available || view->budget_bytes_per_s == 0);
    CHECK(target->budgeted_bytes_per_s <= view->granted_bytes_per_s);
    CHECK(target->budgeted_bytes_per_s <=
          fsm_max(view->budget_bytes_per_s, target->excused_bytes_per_s));
    CHECK(view->paused_count <= target->checkpoint_count);
    CHECK(!empty || view->granted_bytes_per_s == 0);
    CHECK(!empty || view->paused_count == 0);
    CHECK(target->going_count <= target->job_count);
    CHECK(!target->removed || target->going_count == 0);
    CHECK(!target->removed || !view->is_default);
    CHECK(!target->removed || empty);
}

static void victim_check(const struct preemption *preemption,
                         const struct fsm_preemption_victim *victim)
{
    CHECK(victim->allocation_id != NULL);
    CHECK(victim->state != VICTIM(UNSPECIFIED));
    CHECK(victim->node_count == 0 || victim->node_slots != NULL);
    CHECK(preemption->view.state != PREEMPTION(RELEASED) || victim->state == VICTIM(RELEASED) ||
          victim->state == VICTIM(WITHDRAWN));
}

static void preemption_check(const struct fsm *fsm, const struct preemption *preemption)
{
    const struct fsm_preemption *view = &preemption->view;
    bool waits = view->state == PREEMPTION(WAITING);

    CHECK(view->id <= fsm->preemption_sequence);
    CHECK(view->state != PREEMPTION(UNSPECIFIED));
    CHECK(view->request != NULL);
    CHECK(view->asked_at_ms <= fsm->now_ms);
    CHECK(waits == (view->ended_at_ms == 0));
    CHECK(waits == (preemption->timer.position != 0));
    CHECK(!waits || preemption->timer.at_ms == view->deadline_ms);
    CHECK(!preemption->taking);
    CHECK(view->victim_count <= FSM_VICTIMS_MAX);
    for (uint32_t i = 0; i < view->victim_count; i++)
        victim_check(preemption, &view->victims[i]);
}

/* ---- what lies beside them ---- */

static void undeleted_check(const struct fsm *fsm, uint32_t place)
{
    const struct undeleted *undeleted = fsm->undeleted[place];

    if (undeleted == NULL)
        return;
    CHECK(undeleted->view.place == place);
    CHECK(undeleted->view.checkpoint_id != 0);
    CHECK(undeleted->view.allocation_id != NULL);
    CHECK(undeleted->view.since_ms <= fsm->now_ms);
    CHECK(undeleted->view.tried_at_ms <= fsm->now_ms);
    CHECK(target_at(fsm, undeleted->view.target_slot)->folder_count > 0);
    CHECK(undeleted->view.listed == (undeleted->checkpoint != NULL));
    CHECK(undeleted->checkpoint == NULL || undeleted->checkpoint->undeleted == undeleted);
    CHECK(undeleted->checkpoint == NULL || undeleted->checkpoint->expired);
}

static void queue_check(const struct fsm *fsm, size_t i)
{
    const struct queue *queue = &fsm->queues[i];

    if (i >= fsm->queue_count)
        return;
    CHECK(queue->vcluster != NULL);
    CHECK(queue->report != NULL);
    CHECK(queue->reported_at_ms <= fsm->now_ms);
}

static void tenant_check(const struct fsm *fsm, uint32_t slot)
{
    const struct tenant *tenant = fsm->tenants[slot];

    CHECK(slot < fsm->tenant_count);
    CHECK(tenant->id != NULL);
    CHECK(tenant->at_ms <= fsm->now_ms);
    CHECK(fsm_account_balanced(&tenant->account));
}

static void basis_check(const struct basis *basis)
{
    CHECK(basis->view.names != NULL);
    CHECK(basis->view.policy != NULL);
    CHECK(basis->view.policy_count <= FSM_INPUT_NUMBERS_MAX);
    CHECK(basis->reference_count > 0);
}

/* The tables themselves: their counts and limits. */
void fsm_tables_check(const struct fsm *fsm)
{
    CHECK(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    CHECK(fsm->allocations.used <= fsm->allocations.slot_end);
    CHECK(fsm->nodes.used <= FSM_NODES_MAX);
    CHECK(fsm->nodes.used <= fsm->nodes.slot_end);
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    CHECK(fsm->targets.used <= fsm->targets.slot_end);
    CHECK(fsm->bases.used <= FSM_BASES_MAX);
    CHECK(fsm->bases.used <= fsm->bases.slot_end);
    CHECK(fsm->checkpoint_refs <= fsm->checkpoint_capacity);
    CHECK(fsm->checkpoint_holes <= fsm->checkpoint_refs);
    CHECK(fsm->timers.count <= fsm->timers.capacity);
    CHECK(fsm->session_count <= FSM_SESSIONS_MAX);
    CHECK((fsm->session_count == 0) == (fsm->session_oldest == NULL));
    CHECK((fsm->session_oldest == NULL) == (fsm->session_newest == NULL));
    CHECK(fsm->session_ahead_count <= fsm->session_count);
    CHECK(fsm->undeleted_count <= FSM_UNDELETED_MAX);
    CHECK(fsm->queue_count <= FSM_QUEUES_MAX);
    CHECK(fsm->tenant_count <= FSM_TENANTS_MAX);
    CHECK(fsm->member_count <= FSM_MEMBERS_MAX);
    CHECK(fsm->event_count <= FSM_EVENTS_MAX);
    CHECK(fsm->event_count < fsm->next_event_sequence);
    CHECK(fsm->detail == NULL); /* it is of a report that is being applied */
    CHECK(!fsm->initialised || fsm->epoch > 0);
    CHECK(!fsm->initialised || fsm->cluster_id[0] != '\0');
    CHECK(fsm->calibration_at_ms <= fsm->now_ms);
}

static void record_check(const struct fsm *fsm, enum fsm_record kind, uint64_t key)
{
    const struct allocation *allocation;
    const struct checkpoint *checkpoint;
    const struct preemption *preemption;
    const struct basis *basis;
    const struct target *target;
    const struct node *node;

    switch (kind) {
    case FSM_RECORD_ALLOCATION:
        allocation = allocation_find_slot(fsm, (uint32_t)key);
        if (allocation != NULL)
            allocation_check(fsm, allocation);
        return;
    case FSM_RECORD_CHECKPOINT:
        checkpoint = checkpoint_find(fsm, key);
        if (checkpoint != NULL)
            checkpoint_check(fsm, checkpoint);
        return;
    case FSM_RECORD_NODE:
        node = node_find_slot(fsm, (uint32_t)key);
        if (node != NULL)
            node_check(fsm, node);
        return;
    case FSM_RECORD_TARGET:
        target = target_find_slot(fsm, (uint32_t)key);
        if (target != NULL)
            target_check(fsm, target);
        return;
    case FSM_RECORD_PREEMPTION:
        preemption = preemption_find(fsm, key);
        if (preemption != NULL)
            preemption_check(fsm, preemption);
        return;
    case FSM_RECORD_UNDELETED:
        undeleted_check(fsm, (uint32_t)key);
        return;
    case FSM_RECORD_QUEUE:
        queue_check(fsm, (size_t)key);
        return;
    case FSM_RECORD_TENANT:
        tenant_check(fsm, (uint32_t)key);
        return;
    case FSM_RECORD_BASIS:
        basis = basis_find_slot(fsm, (uint32_t)key);
        if (basis != NULL)
            basis_check(basis);
        return;
    }
    CHECK_UNREACHABLE("a kind of record");
}

void fsm_moved_check(struct fsm *fsm)
{
    for (uint32_t i = 0; i < fsm->moved.count; i++)
        record_check(fsm, fsm->moved.items[i].kind, fsm->moved.items[i].key);
    fsm->moved.count = 0;
}
