/* One record of a snapshot back into a state that is being built.
 *
 * Errors   false when the record contradicts the ones before it: a slot taken twice, a name unknown, a number out of its range.
 *          What remains (sums, indices, invariants) is found by fsm_check over the finished state.
 */
#include "fsm/records/snapshot.h"

#define BODY(name) CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_##name

static bool restore_totals(uint64_t *totals, size_t room, const uint64_t *from, size_t count)
{
    if (count != room)
        return false;
    memcpy(totals, from, count * sizeof(*from));
    return true;
}

static bool restore_fleet(struct fsm *fsm, const Ckpt__Log__V1__SnapshotHeader *header)
{
    if (!restore_totals(fsm->losses.node_failures, FSM_AGE_BINS, header->node_failures_total,
                        header->n_node_failures_total) ||
        !restore_totals(fsm->losses.kills, FSM_GROUPS, header->kills_total,
                        header->n_kills_total) ||
        !restore_totals(fsm->losses.demands, FSM_GROUPS, header->demands_total,
                        header->n_demands_total))
        return false;
    if (header->learned == NULL)
        return true;
    if (!fsm_learned_valid(header->learned) || header->learned->at_ms > FSM_TIME_MAX_MS)
        return false;
    fsm->learned = (Ckpt__Log__V1__SetLearned *)fsm_message_copy(fsm, &header->learned->base);
    return true;
}

static bool restore_header(struct fsm *fsm, const Ckpt__Log__V1__SnapshotHeader *header)
{
    if (header->version != SNAPSHOT_VERSION || strlen(header->cluster_id) >= FSM_ID_BYTES ||
        header->n_checkpoints_total != FSM_STATES_CHECKPOINT || header->epoch > FSM_EPOCH_MAX ||
        header->checkpoint_sequence >> CHECKPOINT_SEQUENCE_BITS != 0 ||
        header->command_count >> CHECKPOINT_SEQUENCE_BITS != 0 ||
        header->undeleted_hand >= FSM_UNDELETED_MAX || header->now_ms > FSM_TIME_MAX_MS ||
        header->next_event_sequence == 0)
        return false;
    fsm->initialised = header->initialised;
    fsm_copy_id(fsm->cluster_id, header->cluster_id);
    fsm->epoch = header->epoch;
    fsm->checkpoint_sequence = header->checkpoint_sequence;
    fsm->preemption_sequence = header->preemption_sequence;
    fsm->now_ms = header->now_ms;
    fsm->index = header->applied_index;
    fsm->term = header->applied_term;
    fsm->state_hash = header->state_hash;
    fsm->command_count = header->command_count;
    fsm->next_event_sequence = header->next_event_sequence;
    memcpy(fsm->checkpoints_total, header->checkpoints_total, sizeof(fsm->checkpoints_total));
    fsm->rejected_reports = header->rejected_reports;
    fsm->duplicate_reports = header->duplicate_reports;
    fsm->earlier_life_reports = header->earlier_life_reports;
    fsm->skipped_decisions = header->skipped_decisions;
    fsm->resumed_total = header->resumed_total;
    fsm->paused_total = header->paused_total;
    fsm->walltime_conflicts = header->walltime_conflicts;
    fsm->preemptions_total = header->preemptions_total;
    fsm->requeues_total = header->requeues_total;
    fsm->malformed_entries = header->malformed_entries;
    fsm->member_id_max = header->member_id_max;
    fsm->undeleted_hand = header->undeleted_hand;
    fsm->undeleted_forgotten = header->undeleted_forgotten;
    fsm->undeleted_forgotten_bytes = header->undeleted_forgotten_bytes;
    fsm->members_index = header->applied_index;
    return restore_fleet(fsm, header);
}

static bool restore_policy(struct fsm *fsm, const Ckpt__V1__Policy *policy)
{
    if (policy->keep_complete > FSM_COMPLETE_KEPT_MAX ||
        policy->retention_ms > FSM_DURATION_MAX_MS || policy->grace_ms > FSM_DURATION_MAX_MS ||
        policy->max_victims > FSM_VICTIMS_MAX ||
        policy->checkpoint_timeout_ms > FSM_DURATION_MAX_MS ||
        policy->retry_backoff_ms > FSM_DURATION_MAX_MS ||
        policy->sensitive_timeout_ms > FSM_DURATION_MAX_MS)
        return false;
    fsm_policy_merge(&fsm->policy, policy);
    return true;
}

static bool restore_member(struct fsm *fsm, const Ckpt__Log__V1__MemberFacts *member)
{
    if (fsm->member_count == FSM_MEMBERS_MAX || member->member_id == 0 ||
        member->member_id > fsm->member_id_max)
        return false;
    fsm->members[fsm->member_count++] =
        (Ckpt__Log__V1__MemberFacts *)fsm_message_copy(fsm, &member->base);
    return true;
}

static bool restore_tenant(struct fsm *fsm, const Ckpt__Log__V1__TenantRecord *record)
{
    struct tenant *tenant;

    if (fsm->tenant_count == FSM_TENANTS_MAX || record->account == NULL ||
        record->at_ms > fsm->now_ms)
        return false;
    for (uint32_t i = 0; i < fsm->tenant_count; i++)
        if (strcmp(fsm->tenants[i]->id, record->tenant) == 0)
            return false;
    tenant = fsm_tenant_create(fsm, record->tenant);
    fsm_account_from_message(record->account, &tenant->account);
    tenant->at_ms = record->at_ms;
    return fsm_account_balanced(&tenant->account);
}

static bool restore_calibration(struct fsm *fsm, const Ckpt__Log__V1__CalibrationRecord *record)
{
    if (record->calibration == NULL || record->at_ms > fsm->now_ms)
        return false;
    fsm->calibration_at_ms = record->at_ms;
    return fsm_calibration_from_message(record->calibration, &fsm->calibration);
}

static bool restore_target(struct fsm *fsm, const Ckpt__Log__V1__TargetRecord *record)
{
    const Ckpt__V1__TargetSpec *spec = record->spec;
    struct fsm_outcome ignored;
    struct target *target;

    if (spec == NULL || record->slot >= FSM_TARGETS_MAX || !id_valid(spec->target_id) ||
        fsm_target_slot(fsm, record->slot) != NULL ||
        fsm_target_look(fsm, spec->target_id) != NULL || (record->removed && spec->is_default) ||
        spec->write_bytes_per_s > FSM_BANDWIDTH_MAX ||
        record->measured_bytes_per_s > FSM_BANDWIDTH_MAX)
        return false;
    fsm_target_create(fsm, record->slot, spec->target_id);
    CHECK(fsm_put_target(fsm, spec, &ignored) == FSM_OK);
    target = fsm_target_slot(fsm, record->slot);
    target->view.available = record->available;
    target->view.reason = record->reason;
    target->view.since_ms = record->since_ms;
    target->view.measured_bytes_per_s = record->measured_bytes_per_s;
    target->view.measured_at_ms = record->measured_at_ms;
    fsm_target_budget(target);
    target->excused_bytes_per_s = record->excused_bytes_per_s;
    target->view.made = record->made;
    target->removed = record->removed;
    return true;
}

static bool restore_node(struct fsm *fsm, const Ckpt__Log__V1__NodeRecord *record)
{
    struct node *node;

    if (record->slot >= FSM_NODES_MAX || !id_valid(record->node_id) ||
        record->steady_since_ms > FSM_TIME_MAX_MS ||
        (unsigned)record->state > CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING ||
        fsm_node_look(fsm, record->slot) != NULL || fsm_node_record(fsm, record->node_id) != NULL)
        return false;
    node = fsm_node_create(fsm, record->slot, record->node_id);
    fsm_intern_release(fsm, node->view.boot_id);
    fsm_intern_release(fsm, node->view.version);
    node->view.boot_id = fsm_intern(fsm, record->boot_id);
    node->view.version = fsm_intern(fsm, record->version);
    node->view.state = record->state;
    node->view.state_since_ms = record->state_since_ms;
    node->view.last_report_sequence = record->last_report_sequence;
    node->view.steady_since_ms = record->steady_since_ms;
    node->view.failure_count = record->failure_count;
    fsm_intern_release(fsm, node->view.home_vcluster);
    node->view.home_vcluster = fsm_intern(fsm, record->home_vcluster);
    node->view.made = record->made;
    node->removed = record->removed;
    fsm_node_changed(fsm, node);
    return true;
}

static bool shares_valid(struct fsm *fsm, size_t count, Ckpt__Log__V1__ShareRecord *const *shares)
{
    uint64_t stamp = ++fsm->stamp;

    for (size_t i = 0; i < count; i++) {
        struct node *node = fsm_node_slot(fsm, shares[i]->node_slot);

        if (node == NULL || node->stamp == stamp || shares[i]->gpu_count > FSM_GPUS_PER_NODE_MAX ||
            shares[i]->gpu_memory_used_bytes > FSM_NODE_BYTES_MAX)
            return false;
        node->stamp = stamp;
    }
    return true;
}

/* One that was removed is named by what ended alone. */
static bool target_valid(const struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    const struct target *target = fsm_target_slot(fsm, record->target_slot);

    return target != NULL &&
           (!target->removed ||
            record->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED ||
            record->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED);
}

static bool allocation_valid(struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    if (record->slot >= FSM_ALLOCATIONS_MAX || !id_valid(record->allocation_id) ||
        fsm_allocation_look(fsm, record->slot) != NULL ||
        fsm_allocation_named(fsm, record->allocation_id) != NULL || !target_valid(fsm, record) ||
        record->preemption_class > FSM_CLASS_MAX || record->preemptor_class > FSM_CLASS_MAX ||
        record->state < CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
        record->state > CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
        record->started_at_ms > FSM_TIME_MAX_MS || record->walltime_ms > FSM_DURATION_MAX_MS ||
        record->grace_ms > FSM_DURATION_MAX_MS || record->state_since_ms > FSM_TIME_MAX_MS ||
        record->checkpoint_timeout_ms > FSM_DURATION_MAX_MS || record->n_shares == 0 ||
        record->n_shares > FSM_NODES_PER_ALLOCATION_MAX ||
        record->size_estimate_bytes > FSM_ALLOCATION_BYTES_MAX ||
        record->size_deviation_bytes > FSM_ALLOCATION_BYTES_MAX ||
        record->write_mean_us > 2 * FSM_DURATION_MAX_MS * 1000 ||
        record->write_deviation_us > 2 * FSM_DURATION_MAX_MS * 1000 ||
        record->stall_ppm_plus_1 > FSM_PPM + 1 || record->done_e6 > FSM_OUTCOMES_E6_MAX ||
        record->failed_e6 > FSM_OUTCOMES_E6_MAX ||
        (record->terminating && !fsm_allocation_move_allowed(record->state, record->plan_state)) ||
        record->n_next_shares > FSM_NODES_PER_ALLOCATION_MAX)
        return false;
    return shares_valid(fsm, record->n_shares, record->shares) &&
           shares_valid(fsm, record->n_next_shares, record->next_shares);
}

static void restore_next(struct fsm *fsm, struct allocation *allocation,
                         const Ckpt__Log__V1__AllocationRecord *record)
{
    struct fsm_node_share *next;

    if (record->n_next_shares == 0)
        return;
    next = check_calloc(record->n_next_shares, sizeof(*next));
    for (size_t i = 0; i < record->n_next_shares; i++) {
        next[i].node_slot = record->next_shares[i]->node_slot;
        next[i].gpu_count = record->next_shares[i]->gpu_count;
        next[i].gpu_memory_used_bytes = record->next_shares[i]->gpu_memory_used_bytes;
        next[i].borrowed = record->next_shares[i]->borrowed;
    }
    fsm_scale_set_next(fsm, allocation, next, (uint32_t)record->n_next_shares);
    allocation->view.leaving = record->leaving;
    allocation->leave_reason = (uint8_t)record->leave_reason;
}

static void restore_shares(struct fsm *fsm, struct allocation *allocation,
                           const Ckpt__Log__V1__AllocationRecord *record)
{
    struct fsm_node_share *shares =
        fsm_allocation_set_shares(fsm, allocation, (uint32_t)record->n_shares);

    for (size_t i = 0; i < record->n_shares; i++) {
        const Ckpt__Log__V1__ShareRecord *source = record->shares[i];

        shares[i].node_slot = source->node_slot;
        shares[i].gpu_count = source->gpu_count;
        shares[i].gpu_memory_used_bytes = source->gpu_memory_used_bytes;
        shares[i].borrowed = source->borrowed;
        shares[i].life = source->life;
        allocation->assignments[i].terminated = source->terminated;
        allocation->assignments[i].away = source->away;
        allocation->assignments[i].exited = source->exited;
        allocation->assignments[i].starting = source->starting;
        allocation->starting_count += source->starting;
        allocation->terminated_count += source->terminated;
        allocation->exited_count += source->exited;
    }
    fsm_allocation_name_nodes(fsm, allocation);
    fsm_allocation_sum_shares(allocation);
}

static void restore_allocation_facts(struct fsm *fsm, struct fsm_allocation *view,
                                     const Ckpt__Log__V1__AllocationRecord *record)
{
    view->tenant = fsm_intern(fsm, record->tenant);
    view->project = fsm_intern(fsm, record->project);
    view->vcluster = fsm_intern(fsm, record->vcluster);
    view->owner = fsm_intern(fsm, record->owner);
    view->profile = fsm_intern(fsm, record->profile);
    view->target_slot = record->target_slot;
    view->preemption_class = (uint8_t)record->preemption_class;
    view->sensitive = record->sensitive;
    view->non_preemptible = record->non_preemptible;
    view->walltime_asked = record->walltime_asked;
    view->terminating = record->terminating;
    view->strategy = record->strategy;
    view->requeue_policy = record->requeue_policy;
    view->vcluster_kind = record->vcluster_kind;
    view->state = record->state;
    view->reason = record->reason;
    view->terminate_reason = record->terminate_reason;
    view->max_requeue = record->max_requeue;
    view->requeue_count = record->requeue_count;
    view->preempted_count = record->preempted_count;
    view->restart_count = record->restart_count;
    view->death_count = record->death_count;
    view->reactive_min_nodes = record->reactive_min_nodes;
    view->reactive_max_nodes = record->reactive_max_nodes;
    view->registered_index = record->registered_index;
}

static void restore_allocation_times(struct allocation *allocation,
                                     const Ckpt__Log__V1__AllocationRecord *record)
{
    struct fsm_allocation *view = &allocation->view;

    view->submitted_at_ms = record->submitted_at_ms;
    view->started_at_ms = record->started_at_ms;
    view->state_since_ms = record->state_since_ms;
    view->walltime_ms = record->walltime_ms;
    view->grace_ms = record->grace_ms;
    view->period_ms = record->period_ms;
    view->checkpoint_timeout_ms = record->checkpoint_timeout_ms;
    view->write_bytes_per_s = record->write_bytes_per_s;
    view->last_complete_id = record->last_complete_id;
    view->last_complete_snapshot_ms = record->last_complete_snapshot_ms;
    view->previous_complete_id = record->previous_complete_id;
    view->last_attempt_end_ms = record->last_attempt_end_ms;
    view->complete_count = record->complete_count;
    view->size_estimate_bytes = record->size_estimate_bytes;
    view->write_estimate_ms = record->write_estimate_ms;
    view->waited_ms = record->waited_ms;
    allocation->hazard_e12 = record->hazard_per_s_e12;
    allocation->stake_gpu_ms = record->stake_gpu_ms;
    allocation->stake_until_ms = record->stake_until_ms;
    view->resumed_at_ms = record->resumed_at_ms;
    allocation->began_life = record->began_life;
    allocation->began_from = record->began_from;
    allocation->terminate_deadline_ms = record->terminate_deadline_ms;
    allocation->grace_end_ms = record->grace_end_ms;
    allocation->plan_state = (uint8_t)record->plan_state;
    allocation->plan_reason = (uint8_t)record->plan_reason;
    allocation->preemptor_class = (uint8_t)record->preemptor_class;
    allocation->expired = record->expired;
}

static void restore_learned(struct fsm_learned *learned,
                            const Ckpt__Log__V1__AllocationRecord *record)
{
    learned->count = record->learned_count;
    learned->write_mean_us = record->write_mean_us;
    learned->write_deviation_us = record->write_deviation_us;
    learned->size_deviation_bytes = record->size_deviation_bytes;
    learned->done_e6 = record->done_e6;
    learned->failed_e6 = record->failed_e6;
    learned->stall_measured = record->stall_ppm_plus_1 != 0;
    learned->stall_ppm = learned->stall_measured ? record->stall_ppm_plus_1 - 1 : 0;
}

/* Of a version without accounts: it begins now. */
static void restore_account(const struct fsm *fsm, struct allocation *allocation,
                            const Ckpt__Log__V1__AllocationRecord *record)
{
    if (record->account != NULL) {
        fsm_account_from_message(record->account, &allocation->account);
        allocation->account_at_ms = record->account_at_ms;
        return;
    }
    allocation->account_at_ms = fsm->now_ms;
}

static bool restore_allocation(struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    struct allocation *allocation;

    if (!allocation_valid(fsm, record))
        return false;
    allocation = fsm_allocation_create(fsm, record->slot, record->allocation_id);
    restore_allocation_facts(fsm, &allocation->view, record);
    restore_allocation_times(allocation, record);
    restore_learned(&allocation->view.learned, record);
    restore_shares(fsm, allocation, record);
    restore_account(fsm, allocation, record);
    restore_next(fsm, allocation, record);
    fsm_scale_adopt(fsm, allocation);
    fsm_allocation_adopt(fsm, allocation);
    if (fsm_allocation_runs(allocation))
        fsm_allocation_assign(fsm, allocation);
    fsm_timer_set(&fsm->timers, &allocation->timer, record->timer_at_ms);
    return fsm_ledger_adopt(fsm, allocation);
}

static bool checkpoint_valid(const struct fsm *fsm, const Ckpt__Log__V1__CheckpointRecord *record)
{
    const struct allocation *allocation = fsm_allocation_look(fsm, record->allocation_slot);
    bool active = fsm_checkpoint_state_active(record->state);
    bool writes = record->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED ||
                  record->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;

    if (allocation == NULL || fsm_target_slot(fsm, record->target_slot) == NULL ||
        fsm_registry_next(fsm, record->checkpoint_id - 1) != NULL || record->checkpoint_id == 0 ||
        record->state < CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED ||
        record->state > CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED ||
        record->n_shards == 0 || record->n_shards > FSM_NODES_PER_ALLOCATION_MAX ||
        allocation->checkpoint_count >= FSM_CHECKPOINTS_PER_ALLOCATION_MAX ||
        record->granted_bytes_per_s > FSM_BANDWIDTH_MAX || record->timeout_ms > FSM_TIME_MAX_MS ||
        record->completed_at_ms > FSM_TIME_MAX_MS || record->state_since_ms > FSM_TIME_MAX_MS ||
        record->deadline_ms > 2 * FSM_TIME_MAX_MS || record->failure_count > FSM_ATTEMPTS_MAX ||
        record->max_deferral_ms > FSM_DURATION_MAX_MS ||
        record->deferred_ms > record->max_deferral_ms ||
        record->deferred_before_ms > record->deferred_ms ||
        strlen(record->detail) >= FSM_DETAIL_BYTES ||
        (active && (allocation->view.active_checkpoint_id != 0 || record->expired)) ||
        (!writes && (record->granted_bytes_per_s != 0 || record->bypass_budget)))
        return false;
    for (size_t i = 0; i < record->n_shards; i++)
        if (fsm_node_look(fsm, record->shards[i]->node_slot) == NULL ||
            record->shards[i]->size_bytes > FSM_NODE_BYTES_MAX ||
            record->shards[i]->manifest_sha256.len != (record->shards[i]->verified ? 32 : 0))
            return false;
    return true;
}

static void restore_shards(struct fsm *fsm, struct checkpoint *checkpoint,
                           const Ckpt__Log__V1__CheckpointRecord *record)
{
    fsm_checkpoint_set_shards(fsm, checkpoint, (uint32_t)record->n_shards);
    for (size_t i = 0; i < record->n_shards; i++) {
        const Ckpt__Log__V1__ShardRecord *source = record->shards[i];
        struct fsm_shard *shard = &checkpoint->shards[i];

        shard->node_slot = source->node_slot;
        shard->started = source->started;
        shard->verified = source->verified;
        shard->stopped_writing = source->stopped_writing;
        shard->size_bytes = source->size_bytes;
        shard->write_ms = source->write_ms;
        shard->stall_ms = source->stall_ms;
        if (source->verified)
            memcpy(shard->manifest_sha256, source->manifest_sha256.data,
                   sizeof(shard->manifest_sha256));
    }
    fsm_checkpoint_name_nodes(fsm, checkpoint);
}

static void restore_checkpoint_facts(struct fsm_checkpoint *view,
                                     const Ckpt__Log__V1__CheckpointRecord *record)
{
    view->target_slot = record->target_slot;
    view->state = record->state;
    view->purpose = record->purpose;
    view->after = record->after;
    view->reason = record->reason;
    view->attempt = record->attempt;
    view->paused_count = record->paused_count;
    view->resumed_count = record->resumed_count;
    view->extended = record->extended;
    view->created_at_ms = record->created_at_ms;
    view->dispatched_at_ms = record->dispatched_at_ms;
    view->started_at_ms = record->started_at_ms;
    view->completed_at_ms = record->completed_at_ms;
    view->state_since_ms = record->state_since_ms;
    view->deadline_ms = record->deadline_ms;
    view->retry_at_ms = record->retry_at_ms;
    view->timeout_ms = record->timeout_ms;
    view->granted_bytes_per_s = record->granted_bytes_per_s;
    view->size_bytes = record->size_bytes;
    view->snapshot_at_ms = record->snapshot_at_ms;
    view->priority_gpu_ms_per_gb = record->priority_gpu_ms_per_gb;
    view->recompute_saved_gpu_ms = record->recompute_saved_gpu_ms;
    view->resumed_from_outage = record->resumed_from_outage;
    view->stall_ms = record->stall_ms;
    view->useful_gpu_ms = record->useful_gpu_ms;
    view->success_ppm = record->success_ppm;
    view->deferred_ms = record->deferred_ms;
    view->deferred_before_ms = record->deferred_before_ms;
    view->max_deferral_ms = record->max_deferral_ms;
}

static void restore_checkpoint_indices(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation = fsm_allocation_slot(fsm, checkpoint->view.allocation_slot);
    struct target *target = fsm_target_slot(fsm, checkpoint->view.target_slot);

    fsm_checkpoint_link(fsm, checkpoint);
    fsm_checkpoint_adopt(fsm, checkpoint);
    target->view.granted_bytes_per_s += checkpoint->view.granted_bytes_per_s;
    if (!checkpoint->bypass_budget)
        target->budgeted_bytes_per_s += checkpoint->view.granted_bytes_per_s;
    if (fsm_checkpoint_state_active(checkpoint->view.state)) {
        allocation->view.active_checkpoint_id = checkpoint->view.id;
    } else if (checkpoint->expired && !checkpoint->collected) {
        list_push_back(fsm->collectable, &checkpoint->queue);
    }
    fsm_checkpoint_arm(fsm, checkpoint);
}

static bool restore_basis(struct fsm *fsm, const Ckpt__Log__V1__BasisRecord *record)
{
    if (record->basis == NULL || record->slot >= FSM_BASES_MAX ||
        record->basis->n_policy > FSM_INPUT_NUMBERS_MAX ||
        fsm_basis_slot(fsm, record->slot) != NULL || fsm_basis_find(fsm, record->basis) != NULL)
        return false;
    fsm_basis_create(fsm, record->slot, record->basis);
    return true;
}

static bool inputs_valid(const struct fsm *fsm, const Ckpt__Log__V1__InputsRecord *record)
{
    return record == NULL ||
           (record->inputs != NULL && fsm_basis_slot(fsm, record->basis_slot) != NULL &&
            record->inputs->n_columns <= FSM_INPUT_NUMBERS_MAX &&
            record->inputs->n_source_age_ms <= FSM_INPUT_SOURCES_MAX);
}

static void restore_inputs(struct fsm *fsm, struct checkpoint *checkpoint,
                           const Ckpt__Log__V1__InputsRecord *record)
{
    struct basis *basis;

    if (record == NULL)
        return;
    basis = fsm_basis_slot(fsm, record->basis_slot);
    basis->reference_count++;
    fsm_checkpoint_set_inputs(checkpoint, basis, record->index, record->term, record->inputs);
}

static bool restore_checkpoint(struct fsm *fsm, const Ckpt__Log__V1__CheckpointRecord *record)
{
    struct checkpoint *checkpoint;

    if (!checkpoint_valid(fsm, record) || !inputs_valid(fsm, record->inputs))
        return false;
    checkpoint = fsm_checkpoint_create(fsm, record->checkpoint_id,
                                       fsm_allocation_slot(fsm, record->allocation_slot));
    restore_checkpoint_facts(&checkpoint->view, record);
    fsm_checkpoint_set_detail(fsm, checkpoint, record->detail);
    restore_shards(fsm, checkpoint, record);
    restore_inputs(fsm, checkpoint, record->inputs);
    if (record->terms != NULL)
        checkpoint->view.terms =
            (const Ckpt__V1__DecisionTerms *)fsm_message_copy(fsm, &record->terms->base);
    checkpoint->failure_count = record->failure_count;
    checkpoint->base_timeout_ms = record->base_timeout_ms;
    checkpoint->stop_deadline_ms = record->stop_deadline_ms;
    checkpoint->stop_limit_ms = record->stop_limit_ms;
    checkpoint->bypass_budget = record->bypass_budget;
    checkpoint->hurried = record->hurried;
    checkpoint->expired = record->expired;
    checkpoint->collected = record->collected;
    checkpoint->collect_at_ms = record->collect_at_ms;
    restore_checkpoint_indices(fsm, checkpoint);
    return true;
}

static bool restore_undeleted(struct fsm *fsm, const Ckpt__Log__V1__UndeletedRecord *record)
{
    struct checkpoint *checkpoint = fsm_registry_find(fsm, record->checkpoint_id);
    struct undeleted *undeleted;
    struct fsm_undeleted *view;

    if (record->place >= FSM_UNDELETED_MAX || fsm->undeleted[record->place] != NULL ||
        fsm_undeleted_find(fsm, record->checkpoint_id) != NULL ||
        fsm_target_slot(fsm, record->target_slot) == NULL || !id_valid(record->allocation_id) ||
        !id_valid(record->tenant) || !id_valid(record->project) ||
        strlen(record->reason) >= FSM_UNDELETED_REASON_BYTES ||
        record->since_ms > FSM_TIME_MAX_MS || record->tried_at_ms > FSM_TIME_MAX_MS ||
        record->not_before_ms > 2 * FSM_TIME_MAX_MS)
        return false;
    undeleted = fsm_undeleted_place(fsm, record->place, record->checkpoint_id, record->target_slot);
    view = &undeleted->view;
    view->allocation_id = fsm_intern(fsm, record->allocation_id);
    view->tenant = fsm_intern(fsm, record->tenant);
    view->project = fsm_intern(fsm, record->project);
    view->reason = fsm_intern(fsm, record->reason);
    view->size_bytes = record->size_bytes;
    view->since_ms = record->since_ms;
    view->tried_at_ms = record->tried_at_ms;
    view->not_before_ms = record->not_before_ms;
    view->attempts = record->attempts;
    if (checkpoint != NULL)
        fsm_undeleted_attach(fsm, undeleted, checkpoint);
    return true;
}

static bool restore_queue(struct fsm *fsm, const Ckpt__Log__V1__QueueRecord *record)
{
    struct queue *queue = &fsm->queues[fsm->queue_count];

    if (record->report == NULL || fsm->queue_count == FSM_QUEUES_MAX)
        return false;
    queue->reported_at_ms = record->reported_at_ms;
    queue->report = (Ckpt__V1__ReportQueueRequest *)fsm_message_copy(fsm, &record->report->base);
    queue->vcluster = fsm_intern(fsm, record->report->vcluster);
    queue->told_pressure_ppm = record->told_pressure_ppm;
    queue->told_gpus = record->told_gpus;
    fsm->queue_count++;
    return true;
}

static bool preemption_valid(const struct fsm *fsm, const Ckpt__Log__V1__PreemptionRecord *record)
{
    bool waits = record->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;

    if (record->preemption_id == 0 || record->preemption_id > fsm->preemption_sequence ||
        fsm->preemption_sequence - record->preemption_id >= FSM_PREEMPTIONS_MAX ||
        fsm_preemption_look(fsm, record->preemption_id) != NULL || record->request == NULL ||
        record->acting_class > FSM_CLASS_MAX || record->n_victims > FSM_VICTIMS_MAX ||
        record->deadline_ms > 2 * FSM_TIME_MAX_MS || waits != (record->deadline_ms != 0))
        return false;
    for (size_t i = 0; i < record->n_victims; i++) {
        const Ckpt__Log__V1__VictimRecord *victim = record->victims[i];

        if (!id_valid(victim->allocation_id) || victim->since_ms > FSM_TIME_MAX_MS ||
            victim->n_node_slots > FSM_NODES_PER_ALLOCATION_MAX)
            return false;
        for (size_t j = 0; j < victim->n_node_slots; j++)
            if (fsm_node_look(fsm, victim->node_slots[j]) == NULL)
                return false;
    }
    return true;
}

/* Who still gives nodes up knows for whom. */
static bool restore_victim(struct fsm *fsm, struct preemption *preemption,
                           const Ckpt__Log__V1__VictimRecord *record)
{
    struct fsm_preemption_victim *victim =
        &preemption->view.victims[preemption->view.victim_count++];
    uint32_t *slots = check_calloc(record->n_node_slots + 1, sizeof(*slots));
    struct allocation *allocation;

    if (record->n_node_slots > 0)
        memcpy(slots, record->node_slots, record->n_node_slots * sizeof(*slots));
    victim->allocation_id = fsm_intern(fsm, record->allocation_id);
    victim->checkpoint_id = record->checkpoint_id;
    victim->state = record->state;
    victim->since_ms = record->since_ms;
    victim->gpu_count = record->gpu_count;
    victim->node_count = (uint32_t)record->n_node_slots;
    victim->node_slots = slots;
    for (uint32_t i = 0; i < victim->node_count; i++)
        fsm_node_refer(fsm, slots[i]);
    if (record->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING &&
        record->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING)
        return true;
    allocation = fsm_allocation_get(fsm, record->allocation_id);
    if (allocation == NULL || allocation->view.preemption_id != 0)
        return false;
    allocation->view.preemption_id = preemption->view.id;
    return true;
}

static bool restore_preemption(struct fsm *fsm, const Ckpt__Log__V1__PreemptionRecord *record)
{
    struct preemption *preemption;
    struct fsm_preemption *view;

    if (!preemption_valid(fsm, record))
        return false;
    preemption = fsm_preemption_place(fsm, record->preemption_id);
    view = &preemption->view;
    view->state = record->state;
    view->request =
        (const Ckpt__V1__RequestPreemptionRequest *)fsm_message_copy(fsm, &record->request->base);
    view->acting_class = (uint8_t)record->acting_class;
    view->cost_gpu_ms = record->cost_gpu_ms;
    view->asked_at_ms = record->asked_at_ms;
    view->deadline_ms = record->deadline_ms;
    view->ended_at_ms = record->ended_at_ms;
    view->escalations = record->escalations;
    for (size_t i = 0; i < record->n_victims; i++)
        if (!restore_victim(fsm, preemption, record->victims[i]))
            return false;
    fsm_timer_set(&fsm->timers, &preemption->timer, record->deadline_ms);
    return true;
}

static bool restore_session(struct fsm *fsm, const Ckpt__Log__V1__SessionRecord *record)
{
    struct fsm_outcome outcome = {.status = (enum fsm_status)record->status,
                                  .index = record->index,
                                  .checkpoint_id = record->checkpoint_id,
                                  .preemption_id = record->preemption_id,
                                  .current = record->current,
                                  .limit = record->limit,
                                  .victim_count = (uint32_t)record->n_victims};

    struct request request = {.id = record->request_id,
                              .content_hash = record->content_hash,
                              .hash = fsm_hash_text(record->request_id)};

    if (!id_valid(record->request_id) || fsm_session_find(fsm, &request) != NULL ||
        fsm_command_info(record->command) == NULL || record->status >= fsm_status_count() ||
        record->n_victims > FSM_VICTIMS_MAX || fsm->session_count >= FSM_SESSIONS_MAX)
        return false;
    for (size_t i = 0; i < record->n_victims; i++) {
        if (!id_valid(record->victims[i]->allocation_id))
            return false;
        fsm_copy_id(outcome.victims[i].allocation_id, record->victims[i]->allocation_id);
        outcome.victims[i].checkpoint_id = record->victims[i]->checkpoint_id;
        outcome.victims[i].node_count = record->victims[i]->node_count;
    }
    fsm_session_add(fsm, &request, (uint8_t)record->command, record->at_ms, &outcome);
    return true;
}

/* The ring's events are the last ones before next_event_sequence, without gaps: the first record says how many. */
static bool restore_event(struct fsm *fsm, const Ckpt__V1__Event *source)
{
    uint64_t next = fsm->next_event_sequence;
    Ckpt__V1__Event *event;

    if (fsm->event_count == 0) {
        if (source->sequence == 0 || source->sequence >= next ||
            next - source->sequence > FSM_EVENTS_MAX)
            return false;
        fsm->event_first = source->sequence;
    }
    if (source->sequence != fsm->event_first + fsm->event_count || source->sequence >= next)
        return false;
    event = fsm_event_slot(fsm, source->sequence);
    fsm_event_fill(fsm, event, source);
    fsm->event_count++;
    return true;
}

bool fsm_restore_record(struct fsm *fsm, const snapshot_record *record)
{
    switch (record->body_case) {
    case BODY(HEADER):
        return restore_header(fsm, record->header);
    case BODY(POLICY):
        return restore_policy(fsm, record->policy);
    case BODY(MEMBER):
        return restore_member(fsm, record->member);
    case BODY(TENANT):
        return restore_tenant(fsm, record->tenant);
    case BODY(CALIBRATION):
        return restore_calibration(fsm, record->calibration);
    case BODY(TARGET):
        return restore_target(fsm, record->target);
    case BODY(NODE):
        return restore_node(fsm, record->node);
    case BODY(ALLOCATION):
        return restore_allocation(fsm, record->allocation);
    case BODY(BASIS):
        return restore_basis(fsm, record->basis);
    case BODY(CHECKPOINT):
        return restore_checkpoint(fsm, record->checkpoint);
    case BODY(UNDELETED):
        return restore_undeleted(fsm, record->undeleted);
    case BODY(QUEUE):
        return restore_queue(fsm, record->queue);
    case BODY(PREEMPTION):
        return restore_preemption(fsm, record->preemption);
    case BODY(SESSION):
        return restore_session(fsm, record->session);
    case BODY(EVENT):
        return restore_event(fsm, record->event);
    case BODY(FOOTER):
    case CKPT__LOG__V1__SNAPSHOT_RECORD__BODY__NOT_SET:
    default: /* protobuf-c adds a value that only sizes the enum */
        return false;
    }
}
