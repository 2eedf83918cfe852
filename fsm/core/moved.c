/* What a single record must look like when a command has been applied: the legal combinations of
 * its fields, one condition each.
 *
 * Flow     whoever moves a record notes it with fsm_moved(); fsm_moved_check() looks at those
 *          records when the command is done, because a move and the fields that go with it are
 *          set one after another. A record that left meanwhile is passed over.
 *          fsm_records_expect() looks at all of them, for fsm_check(): a snapshot with a record
 *          that would stop the program later is refused while it is read.
 * Errors   a condition that does not hold is noted, the first one; the caller says what that
 *          means.
 * Shapes   FSM_MOVED_MAX records per command, three for each move of a checkpoint. What moves
 *          beyond that (a target with thousands of paused checkpoints comes back) is left to
 *          fsm_check(), which looks at everything.
 * Absent   nothing that takes a walk over a list: the cost of a command does not grow with the
 *          state. Sums over other records are check.c's.
 */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/drill.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define PREEMPTION(name) CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name)     CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define BARRIER(name)    CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_##name
#define CONTINUES        CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE

/* The first condition that does not hold; line 0: all do. */
struct broken {
    const char *condition;
    int line;
};

#define EXPECT(holds)                                                                              \
    (__builtin_expect((holds) || broken->line != 0, 1)                                             \
         ? (void)0                                                                                 \
         : (void)(*broken = (struct broken){#holds, __LINE__}))

/* ---- allocations ---- */

static void allocation_check_state(const struct fsm *fsm, const struct allocation *allocation,
                                   struct broken *broken)
{
    const struct fsm_allocation *view = &allocation->view;
    bool runs = fsm_allocation_runs(allocation);

    EXPECT(view->state != ALLOCATION(UNSPECIFIED));
    EXPECT((unsigned)view->state < FSM_STATES_ALLOCATION);
    EXPECT(view->state_since_ms <= fsm->now_ms);
    EXPECT(runs == allocation->assigned); /* an ended one holds no nodes */
    EXPECT(runs || view->active_checkpoint_id == 0);
    EXPECT(runs || !view->terminating);
    EXPECT(runs || view->preemption_id == 0);
    EXPECT(runs || view->next_count == 0);
    EXPECT(!view->sensitive || view->preempted_count == 0);
    EXPECT(!view->sensitive || allocation->preemptor_class == 0);
    EXPECT(!view->sensitive || view->preemption_id == 0);
    EXPECT(allocation->preemptor_class == 0 ||
           allocation->preemptor_class > view->preemption_class);
    EXPECT(!allocation->expired || !fsm_allocation_goes_on(allocation));
    /* what was stopped waits for its scheduler, however long */
    EXPECT(runs || !fsm_allocation_goes_on(allocation) || allocation->timer.at_ms == 0);
    EXPECT(allocation->going == fsm_allocation_goes_on(allocation));
    /* I66: what does not run does not hang, and there is evidence */
    EXPECT(!fsm_hung(view) || view->state == ALLOCATION(RUNNING) ||
           view->state == ALLOCATION(CHECKPOINTING_TO_STOP));
    EXPECT(!fsm_hung(view) || view->hang_text[0] != '\0');
    EXPECT(view->hung_since_ms <= fsm->now_ms);
}

/* A terminate order stands, and says what the job becomes. */
static void allocation_check_plan(const struct allocation *allocation, struct broken *broken)
{
    const struct fsm_allocation *view = &allocation->view;

    if (!view->terminating)
        return;
    EXPECT(allocation->plan_state == ALLOCATION(SUSPENDED) ||
           allocation->plan_state == ALLOCATION(REQUEUED) ||
           allocation->plan_state == ALLOCATION(COMPLETED) ||
           allocation->plan_state == ALLOCATION(FAILED));
    /* in the grace after the walltime a checkpoint may still complete */
    EXPECT(view->active_checkpoint_id == 0 ||
           view->terminate_reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED);
}

static void allocation_check_parts(const struct allocation *allocation, struct broken *broken)
{
    const struct fsm_allocation *view = &allocation->view;
    bool starting = allocation->starting_count > 0;

    EXPECT(view->node_count > 0);
    EXPECT(allocation->assignments != NULL);
    EXPECT(allocation->terminated_count <= view->node_count);
    EXPECT(allocation->exited_count <= view->node_count);
    EXPECT(allocation->starting_count <= view->node_count);
    EXPECT(allocation->account_restarting == starting);
    EXPECT(allocation->account_gpus == (allocation->assigned ? fsm_account_gpus(view) : 0));
    if (!allocation->assigned)
        return;
    EXPECT(view->state == ALLOCATION(CHECKPOINTING_TO_STOP) ||
           (view->state == ALLOCATION(STARTING)) == starting);
    /* parts end by an order only, and the last one's end is the allocation's */
    EXPECT(view->terminating || view->leaving || allocation->terminated_count == 0);
    EXPECT(view->terminating || allocation->exited_count < view->node_count);
    EXPECT(!view->terminating || view->active_checkpoint_id != 0 ||
           allocation->terminated_count < view->node_count);
}

/* Who reads holds nodes that are not to be given back. */
static void allocation_check_reads(const struct allocation *allocation, struct broken *broken)
{
    bool reads = allocation->read_waiting_count + allocation->reading_count > 0;

    EXPECT(reads != list_empty(&allocation->in_reads));
    EXPECT(!reads || allocation->assigned);
    EXPECT(!reads || !allocation->view.terminating);
    EXPECT((allocation->reading_count > 0) == (allocation->read_until_ms != 0));
    EXPECT(allocation->read_until_ms == 0 || allocation->timer.at_ms != 0);
}

static void allocation_check_active(const struct fsm *fsm, const struct allocation *allocation,
                                    struct broken *broken)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);
    bool stops = active != NULL && active->view.after != CONTINUES;

    EXPECT(view->last_complete_id == 0 || view->previous_complete_id < view->last_complete_id);
    EXPECT(allocation->checkpoint_count <= FSM_CHECKPOINTS_PER_ALLOCATION_MAX);
    EXPECT(active == NULL || allocation->checkpoint_count > 0);
    EXPECT(active == NULL || active->view.allocation_slot == view->slot);
    EXPECT(active == NULL || fsm_checkpoint_state_active(active->view.state));
    /* a stopping checkpoint and the state that says so go together */
    EXPECT(!stops || view->state == ALLOCATION(CHECKPOINTING_TO_STOP));
    EXPECT(view->state != ALLOCATION(CHECKPOINTING_TO_STOP) || stops || view->terminating ||
           fsm_verify_held(fsm, allocation) != NULL);
    /* nodes leave after a checkpoint behind which the job goes on */
    EXPECT(view->next_count == 0 || !view->terminating);
    EXPECT(view->next_count == 0 || view->next != NULL);
    EXPECT(view->next_count == 0 || view->state != ALLOCATION(CHECKPOINTING_TO_STOP));
    EXPECT(view->next_count == 0 || active != NULL || view->leaving ||
           fsm_verify_held(fsm, allocation) != NULL);
    EXPECT(!view->leaving || view->next_count > 0);
    EXPECT(!view->leaving || allocation->timer.at_ms != 0);
}

static void allocation_check(const struct fsm *fsm, const struct allocation *allocation,
                             struct broken *broken)
{
    EXPECT(allocation->view.id != NULL);
    EXPECT(allocation->tenant_slot < fsm->tenant_count);
    EXPECT(target_at(fsm, allocation->view.target_slot)->job_count > 0);
    EXPECT(allocation->timer.kind == TIMER_ALLOCATION);
    allocation_check_state(fsm, allocation, broken);
    allocation_check_plan(allocation, broken);
    allocation_check_parts(allocation, broken);
    allocation_check_reads(allocation, broken);
    allocation_check_active(fsm, allocation, broken);
}

/* ---- checkpoints ---- */

static void checkpoint_check_times(const struct fsm *fsm, const struct checkpoint *checkpoint,
                                   struct broken *broken)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    uint64_t longest_ms =
        checkpoint->base_timeout_ms + (view->extended ? checkpoint->base_timeout_ms / 2 : 0);

    EXPECT(view->state_since_ms <= fsm->now_ms);
    EXPECT(view->created_at_ms <= fsm->now_ms);
    EXPECT(view->dispatched_at_ms <= fsm->now_ms);
    EXPECT(view->deferred_before_ms <= view->deferred_ms);
    EXPECT(view->deferred_ms <= view->max_deferral_ms);
    EXPECT(view->max_deferral_ms <= FSM_DURATION_MAX_MS);
    EXPECT(view->timeout_ms <= longest_ms + (view->deferred_ms - view->deferred_before_ms));
    EXPECT(fsm_checkpoint_writes(checkpoint) == (view->deadline_ms != 0));
    EXPECT(checkpoint->stop_deadline_ms == 0 ||
           checkpoint->stop_deadline_ms <= checkpoint->stop_limit_ms);
    EXPECT(checkpoint->timer.position == 0 || checkpoint->timer.at_ms != 0);
}

static void checkpoint_check_state(const struct fsm *fsm, const struct checkpoint *checkpoint,
                                   struct broken *broken)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct target *target = target_at(fsm, view->target_slot);
    bool active = fsm_checkpoint_state_active(view->state);
    bool paused = view->state == CHECKPOINT(PAUSED);

    EXPECT(view->state != CHECKPOINT(UNSPECIFIED));
    EXPECT((unsigned)view->state < FSM_STATES_CHECKPOINT);
    /* paused is what an unavailable target makes of every active one, and nothing else is */
    EXPECT(!paused || !target->view.available);
    EXPECT(!active || paused || target->view.available);
    EXPECT(view->resumed_count <= view->paused_count);
    EXPECT(view->paused_count - view->resumed_count <= 1);
    EXPECT(!paused || view->paused_count == view->resumed_count + 1);
    EXPECT(!active || paused || view->paused_count == view->resumed_count);
    EXPECT(fsm_checkpoint_writes(checkpoint) || view->granted_bytes_per_s == 0);
    EXPECT(!fsm_checkpoint_writes(checkpoint) || view->attempt > 0);
    EXPECT(checkpoint->failure_count <= view->attempt);
    EXPECT(!checkpoint->expired || !active);
    EXPECT(!view->damaged || !active);
    EXPECT(fsm_verify_broken(fsm, checkpoint) == NULL);
    EXPECT(!checkpoint->collected || checkpoint->expired);
    EXPECT(view->state != CHECKPOINT(COLLECTED) || checkpoint->collected);
    EXPECT(checkpoint->inputs == NULL || active || fsm_checkpoint_has_folder(checkpoint));
    EXPECT((view->barrier == BARRIER(AGREED)) == (view->agreed_step != 0));
    EXPECT(view->barrier == BARRIER(NONE) || fsm_checkpoint_writes(checkpoint));
}

static void checkpoint_check(const struct fsm *fsm, const struct checkpoint *checkpoint,
                             struct broken *broken)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *allocation = allocation_at(fsm, view->allocation_slot);

    EXPECT(view->id != 0);
    EXPECT(view->id >> CHECKPOINT_SEQUENCE_BITS <= fsm->epoch);
    EXPECT(allocation->checkpoint_count > 0);
    EXPECT(fsm_checkpoint_state_active(view->state) ==
           (allocation->view.active_checkpoint_id == view->id));
    EXPECT(view->shard_count > 0);
    EXPECT(checkpoint->shards != NULL);
    EXPECT(view->shards == checkpoint->shards);
    EXPECT(view->detail != NULL);
    EXPECT(checkpoint->timer.kind == TIMER_CHECKPOINT);
    checkpoint_check_state(fsm, checkpoint, broken);
    checkpoint_check_times(fsm, checkpoint, broken);
}

/* ---- nodes, targets, preemptions ---- */

static void node_check(const struct fsm *fsm, const struct node *node, struct broken *broken)
{
    bool empty = list_empty(&node->assignments);

    EXPECT(node->view.id != NULL);
    EXPECT(node->view.home_vcluster != NULL);
    EXPECT(node->view.state_since_ms <= fsm->now_ms);
    EXPECT(empty == (node->view.allocation_count == 0));
    EXPECT(node->going_count >= node->view.allocation_count);
    EXPECT(node->name_count >= node->view.allocation_count);
    EXPECT(!node->removed || empty);
    EXPECT(!node->removed || node->going_count == 0);
    EXPECT(node->removal_count <= FSM_REMOVALS_PER_NODE_MAX);
    EXPECT(list_empty(&node->removals) == (node->removal_count == 0));
    EXPECT(!node->removed || node->removal_count == 0);
    EXPECT(!fsm_node_gone(&node->view) || node->removal_count == 0);
    EXPECT(node->verification_count <= FSM_VERIFICATIONS_PER_NODE_MAX);
    EXPECT(list_empty(&node->verifications) == (node->verification_count == 0));
    EXPECT(!fsm_node_gone(&node->view) || node->verification_count == 0);
    EXPECT(node->view.state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINED || empty);
    EXPECT(node->view.off_at_ms == 0 || node->view.silent_since_ms != 0);
}

static void target_check(const struct fsm *fsm, const struct target *target, struct broken *broken)
{
    const struct fsm_target *view = &target->view;
    bool empty = list_empty(&target->active);

    EXPECT(view->id != NULL);
    EXPECT(view->since_ms <= fsm->now_ms);
    EXPECT(!view->available || view->paused_count == 0);
    EXPECT(view->available || view->granted_bytes_per_s == 0);
    EXPECT(view->available || view->budget_bytes_per_s == 0);
    EXPECT(target->budgeted_bytes_per_s <= view->granted_bytes_per_s);
    EXPECT(target->budgeted_bytes_per_s <=
           fsm_max(view->budget_bytes_per_s, target->excused_bytes_per_s));
    EXPECT(view->paused_count <= target->checkpoint_count);
    EXPECT(!empty || view->granted_bytes_per_s == 0);
    EXPECT(!empty || view->writing_count == 0);
    EXPECT(view->writing_count > 0 || view->granted_bytes_per_s == 0);
    EXPECT(!empty || view->paused_count == 0);
    EXPECT(target->going_count <= target->job_count);
    EXPECT(!target->removed || target->going_count == 0 || view->draining);
    EXPECT(!target->removed || !view->is_default);
    EXPECT(!target->removed || empty);
    EXPECT(!view->draining || !view->is_default);
    EXPECT(!view->failed_over || !view->available);
    EXPECT(list_empty(&target->line) == (view->line_count == 0));
    EXPECT(view->line_count <= view->waiting_count);
    EXPECT(view->waiting_count == 0 || view->line_count > 0);
    EXPECT(view->reading_count > 0 || view->read_granted_bytes_per_s == 0);
    EXPECT(view->max_restores == 0 ||
           view->reading_count <= fsm_max(view->max_restores, target->excused_restores));
    EXPECT(view->read_bytes_per_s == 0 ||
           view->read_granted_bytes_per_s <=
               fsm_max(view->read_bytes_per_s, target->excused_read_bytes_per_s));
}

static void victim_check(const struct preemption *preemption,
                         const struct fsm_preemption_victim *victim, struct broken *broken)
{
    EXPECT(victim->allocation_id != NULL);
    EXPECT(victim->state != VICTIM(UNSPECIFIED));
    EXPECT(victim->node_count == 0 || victim->node_slots != NULL);
    EXPECT(preemption->view.state != PREEMPTION(RELEASED) || victim->state == VICTIM(RELEASED) ||
           victim->state == VICTIM(WITHDRAWN));
}

static void preemption_check(const struct fsm *fsm, const struct preemption *preemption,
                             struct broken *broken)
{
    const struct fsm_preemption *view = &preemption->view;
    bool waits = view->state == PREEMPTION(WAITING);

    EXPECT(view->id <= fsm->preemption_sequence);
    EXPECT(view->state != PREEMPTION(UNSPECIFIED));
    EXPECT(view->request != NULL);
    EXPECT(view->asked_at_ms <= fsm->now_ms);
    EXPECT(waits == (view->ended_at_ms == 0));
    EXPECT(waits == (preemption->timer.position != 0));
    EXPECT(!waits || preemption->timer.at_ms == view->deadline_ms);
    EXPECT(!preemption->taking);
    EXPECT(view->victim_count <= FSM_VICTIMS_MAX);
    for (uint32_t i = 0; i < view->victim_count; i++)
        victim_check(preemption, &view->victims[i], broken);
}

/* ---- what lies beside them ---- */

static void undeleted_check(const struct fsm *fsm, uint32_t place, struct broken *broken)
{
    const struct undeleted *undeleted = fsm->undeleted[place];

    if (undeleted == NULL)
        return;
    EXPECT(undeleted->view.place == place);
    EXPECT(undeleted->view.checkpoint_id != 0);
    EXPECT(undeleted->view.allocation_id != NULL);
    EXPECT(undeleted->view.since_ms <= fsm->now_ms);
    EXPECT(undeleted->view.tried_at_ms <= fsm->now_ms);
    EXPECT(target_at(fsm, undeleted->view.target_slot)->folder_count > 0);
    EXPECT(undeleted->view.listed == (undeleted->checkpoint != NULL));
    EXPECT(undeleted->checkpoint == NULL || undeleted->checkpoint->undeleted == undeleted);
    EXPECT(undeleted->checkpoint == NULL || undeleted->checkpoint->expired);
    EXPECT(undeleted->view.given_at_ms <= fsm->now_ms);
    EXPECT(undeleted->view.given || undeleted->view.node_slot == 0);
    EXPECT(!undeleted->view.given || node_at(fsm, undeleted->view.node_slot)->removal_count > 0);
}

static void queue_check(const struct fsm *fsm, size_t i, struct broken *broken)
{
    const struct queue *queue = &fsm->queues[i];

    if (i >= fsm->queue_count)
        return;
    EXPECT(queue->vcluster != NULL);
    EXPECT(queue->report != NULL);
    EXPECT(queue->reported_at_ms <= fsm->now_ms);
}

static void tenant_check(const struct fsm *fsm, uint32_t slot, struct broken *broken)
{
    const struct tenant *tenant = fsm->tenants[slot];

    EXPECT(slot < fsm->tenant_count);
    EXPECT(tenant->id != NULL);
    EXPECT(tenant->at_ms <= fsm->now_ms);
    EXPECT(fsm_account_balanced(&tenant->account));
    EXPECT(tenant->quota.keep_complete <= FSM_COMPLETE_KEPT_MAX);
    EXPECT(tenant->quota.refused_at_ms <= fsm->now_ms);
}

static void basis_check(const struct basis *basis, struct broken *broken)
{
    EXPECT(basis->view.names != NULL);
    EXPECT(basis->view.policy != NULL);
    EXPECT(basis->view.policy_count <= FSM_INPUT_NUMBERS_MAX);
    EXPECT(basis->reference_count > 0);
}

/* The tables themselves: their counts and limits. */
static void tables_check(const struct fsm *fsm, struct broken *broken)
{
    EXPECT(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    EXPECT(fsm->allocations.used <= fsm->allocations.slot_end);
    EXPECT(fsm->nodes.used <= FSM_NODES_MAX);
    EXPECT(fsm->nodes.used <= fsm->nodes.slot_end);
    EXPECT(fsm->targets.used <= FSM_TARGETS_MAX);
    EXPECT(fsm->targets.used <= fsm->targets.slot_end);
    EXPECT(fsm->bases.used <= FSM_BASES_MAX);
    EXPECT(fsm->bases.used <= fsm->bases.slot_end);
    EXPECT(fsm->checkpoint_refs <= fsm->checkpoint_capacity);
    EXPECT(fsm->checkpoint_holes <= fsm->checkpoint_refs);
    EXPECT(fsm->timers.count <= fsm->timers.capacity);
    EXPECT(fsm->past_request_count <= FSM_PAST_REQUESTS_MAX);
    EXPECT((fsm->past_request_count == 0) == (fsm->past_request_oldest == NULL));
    EXPECT((fsm->past_request_oldest == NULL) == (fsm->past_request_newest == NULL));
    EXPECT(fsm->past_request_ahead_count <= fsm->past_request_count);
    EXPECT(fsm->undeleted_count <= FSM_UNDELETED_MAX);
    EXPECT(fsm->queue_count <= FSM_QUEUES_MAX);
    EXPECT(fsm->tenant_count <= FSM_TENANTS_MAX);
    EXPECT(fsm->member_count <= FSM_MEMBERS_MAX);
    EXPECT(fsm->event_count <= FSM_EVENTS_MAX);
    EXPECT(fsm->event_count < fsm->next_event_sequence);
    EXPECT(fsm->detail == NULL); /* it is of a report that is being applied */
    EXPECT(!fsm->initialised || fsm->epoch > 0);
    EXPECT(!fsm->initialised || fsm->cluster_id[0] != '\0');
    EXPECT(fsm->calibration_at_ms <= fsm->now_ms);
    EXPECT(fsm_drills_kept(fsm));
}

/* Of the key that stands for one record of its table, see enum fsm_record. */
static void record_check(const struct fsm *fsm, enum fsm_record kind, uint64_t key,
                         struct broken *broken)
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
            allocation_check(fsm, allocation, broken);
        return;
    case FSM_RECORD_CHECKPOINT:
        checkpoint = checkpoint_find(fsm, key);
        if (checkpoint != NULL)
            checkpoint_check(fsm, checkpoint, broken);
        return;
    case FSM_RECORD_NODE:
        node = node_find_slot(fsm, (uint32_t)key);
        if (node != NULL)
            node_check(fsm, node, broken);
        return;
    case FSM_RECORD_TARGET:
        target = target_find_slot(fsm, (uint32_t)key);
        if (target != NULL)
            target_check(fsm, target, broken);
        return;
    case FSM_RECORD_PREEMPTION:
        preemption = preemption_find(fsm, key);
        if (preemption != NULL)
            preemption_check(fsm, preemption, broken);
        return;
    case FSM_RECORD_UNDELETED:
        undeleted_check(fsm, (uint32_t)key, broken);
        return;
    case FSM_RECORD_QUEUE:
        queue_check(fsm, (size_t)key, broken);
        return;
    case FSM_RECORD_TENANT:
        tenant_check(fsm, (uint32_t)key, broken);
        return;
    case FSM_RECORD_BASIS:
        basis = basis_find_slot(fsm, (uint32_t)key);
        if (basis != NULL)
            basis_check(basis, broken);
        return;
    }
    CHECK_UNREACHABLE("a kind of record");
}

void fsm_moved_check(struct fsm *fsm)
{
    struct broken broken = {NULL, 0};

    for (uint32_t i = 0; i < fsm->moved.count; i++)
        record_check(fsm, fsm->moved.items[i].kind, fsm->moved.items[i].key, &broken);
    fsm->moved.count = 0;
    if (broken.line != 0)
        check_failed(__FILE__, broken.line, broken.condition);
}

void fsm_tables_check(const struct fsm *fsm)
{
    struct broken broken = {NULL, 0};

    tables_check(fsm, &broken);
    if (broken.line != 0)
        check_failed(__FILE__, broken.line, broken.condition);
}

/* ---- all of them ---- */

static void record_expect(const struct fsm *fsm, enum fsm_record kind, uint64_t key,
                          const struct record_report *report)
{
    struct broken broken = {NULL, 0};

    record_check(fsm, kind, key, &broken);
    if (broken.line != 0)
        report->broken(report->context, broken.condition, key);
}

void fsm_records_expect(const struct fsm *fsm, const struct record_report *report)
{
    const struct {
        enum fsm_record kind;
        uint64_t end;
    } tables[] = {
        {FSM_RECORD_ALLOCATION, fsm->allocations.slot_end},
        {FSM_RECORD_NODE, fsm->nodes.slot_end},
        {FSM_RECORD_TARGET, fsm->targets.slot_end},
        {FSM_RECORD_BASIS, fsm->bases.slot_end},
        {FSM_RECORD_UNDELETED, FSM_UNDELETED_MAX},
        {FSM_RECORD_QUEUE, fsm->queue_count},
        {FSM_RECORD_TENANT, fsm->tenant_count},
    };
    struct broken broken = {NULL, 0};

    CHECK(report->broken != NULL);
    tables_check(fsm, &broken);
    if (broken.line != 0)
        report->broken(report->context, broken.condition, 0);
    if (!audit_whole(fsm, AUDIT_LOOKED))
        report->broken(report->context, "I41 the audit trail leads to its head", 0);
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++)
        for (uint64_t key = 0; key < tables[i].end; key++)
            record_expect(fsm, tables[i].kind, key, report);
    for (size_t i = 0; i < fsm->checkpoint_refs; i++)
        record_expect(fsm, FSM_RECORD_CHECKPOINT, fsm->checkpoints[i].id, report);
    for (size_t i = 0; i < FSM_PREEMPTIONS_MAX; i++)
        if (fsm->preemptions[i] != NULL)
            record_expect(fsm, FSM_RECORD_PREEMPTION, fsm->preemptions[i]->view.id, report);
}
