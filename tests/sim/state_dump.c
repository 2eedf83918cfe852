/* Every field of a living state. See state_dump.h. */
#include "tests/sim/state_dump.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/core/registry.h"
#include "fsm/core/request_fields.h"
#include "fsm/core/state.h"

static void add(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    *hash ^= *hash >> 29;
}

static void add_bytes(uint64_t *hash, const void *bytes, size_t length)
{
    *hash = fsm_hash_bytes(*hash, bytes, length);
}

static void add_text(uint64_t *hash, const char *text)
{
    add_bytes(hash, text, strlen(text));
}

static void add_message(uint64_t *hash, const ProtobufCMessage *message)
{
    size_t length = message == NULL ? 0 : protobuf_c_message_get_packed_size(message);
    uint8_t *bytes;

    add(hash, message != NULL);
    if (length == 0)
        return;
    bytes = check_alloc(length);
    protobuf_c_message_pack(message, bytes);
    add_bytes(hash, bytes, length);
    free(bytes);
}

/* Each in one step: a field is a number. */
#define ADD(hash, ...)                                                                             \
    do {                                                                                           \
        const uint64_t numbers_[] = {__VA_ARGS__};                                                 \
        for (size_t n_ = 0; n_ < sizeof(numbers_) / sizeof(numbers_[0]); n_++)                     \
            add(hash, numbers_[n_]);                                                               \
    } while (0)

static void add_shares(uint64_t *hash, const struct fsm_node_share *shares, uint32_t count)
{
    add(hash, count);
    for (uint32_t i = 0; i < count; i++)
        ADD(hash, shares[i].node_slot, shares[i].gpu_count, shares[i].gpu_memory_used_bytes,
            shares[i].borrowed);
}

static void add_parts(uint64_t *hash, const struct allocation *allocation)
{
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];
        ADD(hash, allocation->view.nodes[i].run, part->share, part->terminated, part->away,
            part->exited, part->leaving, part->starting, part->restored, part->joined,
            part->restored_as, part->read_waits, part->reads, part->read_bytes_per_s);
    }
    for (uint32_t i = 0; i < allocation->departed_count; i++)
        ADD(hash, allocation->departed[i]->node_slot, allocation->departed[i]->run);
    ADD(hash, allocation->departed_count);
    ADD(hash, allocation->terminated_count, allocation->exited_count, allocation->starting_count,
        allocation->restored_count, allocation->joined_count, allocation->checkpoint_count);
    ADD(hash, allocation->read_waiting_count, allocation->reading_count, allocation->read_sequence,
        allocation->read_until_ms, allocation->read_target_slot);
}

static void add_learned(uint64_t *hash, const struct fsm_learned *learned)
{
    ADD(hash, learned->write_mean_us, learned->write_deviation_us, learned->size_deviation_bytes,
        learned->count, learned->done_e6, learned->failed_e6, learned->stall_ppm,
        learned->stall_measured);
}

static void add_allocation_view(uint64_t *hash, const struct fsm_allocation *view)
{
    add_text(hash, view->id);
    add_text(hash, view->tenant);
    add_text(hash, view->project);
    add_text(hash, view->vcluster);
    add_text(hash, view->owner);
    add_text(hash, view->profile);
    add_text(hash, view->attributes);
    add_text(hash, view->jurisdiction);
    ADD(hash, view->slot, view->target_slot, view->preemption_class, view->sensitive,
        view->unresponsive, view->restore, view->walltime_asked, view->terminating, view->strategy,
        view->requeue_policy, view->vcluster_kind, view->state, view->reason,
        view->terminate_reason, view->gpu_count, view->borrowed_count, view->node_gpus,
        view->profile_named);
    ADD(hash, view->max_requeue, view->requeue_count, view->preempted_count, view->restart_count,
        view->reactive_min_nodes, view->reactive_max_nodes, view->registered_index,
        view->submitted_at_ms, view->started_at_ms, view->state_since_ms, view->walltime_ms,
        view->grace_ms, view->period_ms, view->checkpoint_timeout_ms, view->write_bytes_per_s);
    ADD(hash, view->active_checkpoint_id, view->last_complete_id, view->last_complete_snapshot_ms,
        view->previous_complete_id, view->last_attempt_end_ms, view->complete_count,
        view->size_estimate_bytes, view->write_estimate_ms, view->waited_ms, view->resumed_at_ms,
        view->preemption_id, view->leaving, view->restart_id, view->scaled_at_ms);
    add_learned(hash, &view->learned);
    add_shares(hash, view->nodes, view->node_count);
    add_shares(hash, view->next, view->next_count);
}

static void add_allocation(uint64_t *hash, const struct allocation *allocation)
{
    add_allocation_view(hash, &allocation->view);
    add_parts(hash, allocation);
    add_bytes(hash, &allocation->account, sizeof(allocation->account));
    ADD(hash, allocation->timer.at_ms, allocation->terminate_deadline_ms, allocation->grace_end_ms,
        allocation->account_at_ms, allocation->account_gpus, allocation->tenant_slot,
        allocation->account_restarting, allocation->hazard_e12, allocation->hazard_rate_e12,
        allocation->stake_gpu_ms, allocation->stake_until_ms);
    ADD(hash, allocation->plan_state, allocation->plan_reason, allocation->leave_reason,
        allocation->preemptor_class, allocation->assigned, allocation->expired);
}

static void add_checkpoint_view(uint64_t *hash, const struct fsm_checkpoint *view)
{
    ADD(hash, view->id, view->allocation_slot, view->target_slot, view->state, view->purpose,
        view->after, view->reason, view->attempt, view->paused_count, view->resumed_count,
        view->extended, view->created_at_ms, view->dispatched_at_ms, view->started_at_ms,
        view->completed_at_ms, view->state_since_ms);
    ADD(hash, view->deadline_ms, view->retry_at_ms, view->timeout_ms, view->deferred_ms,
        view->deferred_before_ms, view->max_deferral_ms, view->granted_bytes_per_s,
        view->size_bytes, view->snapshot_at_ms, view->priority_gpu_ms_per_gb,
        view->recompute_saved_gpu_ms, view->stall_ms, view->useful_gpu_ms, view->success_ppm,
        view->resumed_from_outage, view->shard_count, view->agreed_step, view->barrier,
        view->damaged, view->verified_at_ms);
    add_text(hash, view->detail);
    add_text(hash, view->label);
    add_text(hash, view->machine);
    add_text(hash, view->os);
}

static void add_inputs(uint64_t *hash, const struct inputs *inputs)
{
    const struct fsm_inputs *view;

    add(hash, inputs != NULL);
    if (inputs == NULL)
        return;
    view = &inputs->view;
    ADD(hash, inputs->basis->view.slot, view->index, view->term, view->evaluated_at_ms,
        view->result_digest, view->flags);
    add_bytes(hash, view->columns, view->column_count * sizeof(*view->columns));
    add_bytes(hash, view->source_age_ms, view->source_count * sizeof(*view->source_age_ms));
}

static void add_checkpoint(uint64_t *hash, const struct checkpoint *checkpoint)
{
    add_checkpoint_view(hash, &checkpoint->view);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];
        ADD(hash, shard->node_slot, shard->started, shard->verified, shard->stopped_writing,
            shard->size_bytes, shard->write_ms, shard->stall_ms, shard->barrier, shard->aware,
            shard->step, shard->ranks, shard->rank_print, shard->ranks_all, shard->written_bytes,
            shard->staging);
        if (shard->verified)
            add_bytes(hash, shard->manifest_sha256, sizeof(shard->manifest_sha256));
    }
    ADD(hash, checkpoint->timer.at_ms, checkpoint->stop_deadline_ms, checkpoint->stop_limit_ms,
        checkpoint->base_timeout_ms, checkpoint->collect_at_ms, checkpoint->failure_count,
        checkpoint->bypass_budget, checkpoint->without_place, checkpoint->hurried,
        checkpoint->expired, checkpoint->collected, checkpoint->verify_asked_at_ms,
        checkpoint->verify_tried_at_ms, checkpoint->verify_orders);
    if (checkpoint->verification != NULL) {
        const struct fsm_verification *read = &checkpoint->verification->view;

        ADD(hash, read->given_at_ms, read->deadline_ms, read->node_slot, read->part, read->tries);
    }
    add_inputs(hash, checkpoint->inputs);
    if (checkpoint->view.terms != NULL)
        add_message(hash, &checkpoint->view.terms->base);
}

static void add_node(uint64_t *hash, const struct node *node)
{
    const struct fsm_node *view = &node->view;

    add_text(hash, view->id);
    add_text(hash, view->boot_id);
    add_text(hash, view->version);
    add_text(hash, view->home_vcluster);
    add_text(hash, view->machine);
    add_text(hash, view->os);
    add_text(hash, view->domain);
    ADD(hash, view->slot, view->state, view->state_since_ms, view->last_report_sequence,
        view->steady_since_ms, view->failure_count, view->allocation_count, view->made);
    ADD(hash, node->name_count, node->going_count, node->removed);
}

static void add_target(uint64_t *hash, const struct target *target)
{
    const struct fsm_target *view = &target->view;

    add_text(hash, view->id);
    add_text(hash, view->prefix);
    add_text(hash, view->domain);
    add_text(hash, view->tier);
    add_text(hash, view->failover_target_id);
    add_text(hash, view->jurisdiction);
    ADD(hash, view->slot, view->draining, view->failed_over, target->failover_at_ms,
        target->timer.at_ms, view->read_bytes_per_s, view->kind, view->available, view->is_default,
        view->reason, view->since_ms, view->write_bytes_per_s, view->measured_bytes_per_s,
        view->measured_at_ms, view->staging_share_ppm, view->cost_micro_usd_per_gb_month,
        view->granted_bytes_per_s, view->budget_bytes_per_s, view->paused_count, view->read_back,
        view->generations, view->staging, view->compression, view->max_restores, view->max_writes,
        view->pool, view->encrypted, view->hot_only, view->writing_count, view->reading_count,
        view->waiting_count, view->line_count, view->read_granted_bytes_per_s);
    ADD(hash, target->budgeted_bytes_per_s, target->excused_bytes_per_s, target->checkpoint_count,
        target->excused_restores, target->excused_read_bytes_per_s, target->excused_writes);
}

static void add_preemption(uint64_t *hash, const struct preemption *preemption)
{
    const struct fsm_preemption *view = &preemption->view;

    ADD(hash, view->id, view->state, view->acting_class, view->cost_gpu_ms, view->asked_at_ms,
        view->ended_at_ms, view->deadline_ms, view->escalations, view->victim_count,
        preemption->timer.at_ms, preemption->taking);
    add_message(hash, &view->request->base);
    for (uint32_t i = 0; i < view->victim_count; i++) {
        const struct fsm_preemption_victim *victim = &view->victims[i];
        add_text(hash, victim->allocation_id);
        ADD(hash, victim->checkpoint_id, victim->state, victim->since_ms, victim->gpu_count,
            victim->node_count);
        add_bytes(hash, victim->node_slots, victim->node_count * sizeof(*victim->node_slots));
    }
}

static void add_tenants(uint64_t *hash, const struct fsm *fsm)
{
    for (uint32_t i = 0; i < fsm->tenant_count; i++) {
        const struct tenant *tenant = fsm->tenants[i];
        add_text(hash, tenant->id);
        add_bytes(hash, &tenant->account, sizeof(tenant->account));
        ADD(hash, tenant->at_ms, tenant->computing_gpus, tenant->restarting_gpus);
        add_bytes(hash, &tenant->quota, sizeof(tenant->quota));
    }
}

static void add_counters(uint64_t *hash, const struct fsm *fsm)
{
    ADD(hash, fsm->initialised, fsm->epoch, fsm->checkpoint_sequence, fsm->preemption_sequence,
        fsm->now_ms, fsm->index, fsm->term, fsm->state_hash, fsm->command_count,
        fsm->calibration_at_ms, fsm->hazard_sum_e12, fsm->member_id_max, fsm->past_request_count,
        fsm->next_event_sequence);
    ADD(hash, fsm->rejected_reports, fsm->duplicate_reports, fsm->earlier_run_reports,
        fsm->skipped_decisions, fsm->resumed_total, fsm->paused_total, fsm->walltime_conflicts,
        fsm->preemptions_total, fsm->requeues_total, fsm->malformed_entries);
    add_bytes(hash, fsm->allocations_by_state, sizeof(fsm->allocations_by_state));
    add_bytes(hash, fsm->checkpoints_by_state, sizeof(fsm->checkpoints_by_state));
    add_bytes(hash, fsm->checkpoints_total, sizeof(fsm->checkpoints_total));
    add_bytes(hash, &fsm->losses, sizeof(fsm->losses));
    add_bytes(hash, &fsm->calibration, sizeof(fsm->calibration));
}

static void add_cluster(uint64_t *hash, const struct fsm *fsm)
{
    add_text(hash, fsm->cluster_id);
    add_counters(hash, fsm);
    add_message(hash, &fsm->policy.base);
    add_message(hash, fsm->learned == NULL ? NULL : &fsm->learned->base);
    for (size_t i = 0; i < fsm->member_count; i++)
        add_message(hash, &fsm->members[i]->base);
    for (size_t i = 0; i < fsm->queue_count; i++) {
        ADD(hash, fsm->queues[i].reported_at_ms, fsm->queues[i].told_pressure_ppm,
            fsm->queues[i].told_gpus);
        add_message(hash, &fsm->queues[i].report->base);
    }
    add_tenants(hash, fsm);
}

uint64_t state_dump(const struct fsm *fsm)
{
    uint64_t hash = 1;

    add_cluster(&hash, fsm);
    for (uint32_t slot = 0; slot < fsm->nodes.slot_end; slot++)
        if (node_find_slot(fsm, slot) != NULL)
            add_node(&hash, node_at(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++)
        if (target_find_slot(fsm, slot) != NULL)
            add_target(&hash, target_at(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++)
        if (allocation_find_slot(fsm, slot) != NULL)
            add_allocation(&hash, allocation_at(fsm, slot));
    for (size_t i = 0; i < fsm->checkpoint_refs; i++)
        if (fsm->checkpoints[i].checkpoint != NULL)
            add_checkpoint(&hash, fsm->checkpoints[i].checkpoint);
    for (size_t i = 0; i < FSM_PREEMPTIONS_MAX; i++)
        if (fsm->preemptions[i] != NULL)
            add_preemption(&hash, fsm->preemptions[i]);
    return hash | 1;
}

uint64_t state_dump_past(const struct fsm *fsm)
{
    uint64_t hash = 1;

    for (const struct past_request *at = fsm->past_request_oldest; at != NULL; at = at->next) {
        const struct past_request_rest *rest = at->rest;
        add_text(&hash, at->request_id);
        add_bytes(&hash, past_request_prints(at), (size_t)at->field_count * REQUEST_FIELD_BYTES);
        ADD(&hash, at->content_hash, at->at_ms, at->index, at->status, at->command,
            at->victim_count, rest == NULL ? 0 : rest->checkpoint_id,
            rest == NULL ? 0 : rest->preemption_id, rest == NULL ? 0 : rest->current,
            rest == NULL ? 0 : rest->limit);
        for (size_t i = 0; rest != NULL && i < at->victim_count; i++) {
            add_text(&hash, rest->victims[i].allocation_id);
            ADD(&hash, rest->victims[i].checkpoint_id, rest->victims[i].node_count);
        }
    }
    for (uint64_t i = fsm->event_count; i > 0; i--)
        add_message(&hash, &fsm_event_at(fsm, fsm->next_event_sequence - i)->base);
    return hash;
}
