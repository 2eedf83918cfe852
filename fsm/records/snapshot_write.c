/* The state's parts as records (proto/ckpt/log/v1/snapshot.proto); the whole state at once. In slices: snapshot_take.c.
 * Shapes: one record in memory at a time. Pointers into the state are borrowed, nothing is copied but packed bytes. */
#include <malloc.h>

#include "fsm/records/snapshot.h"

enum { FEW_WORDS = 128 }; /* messages about this many bytes need no heap */

/* Bytes: a number is at most a tag below 2,048 and ten; a record is a field of its own. */
enum { FIELD_MOST = 12, RECORD_HEAD_MOST = 16 };

/* protobuf-c wants char *, and only reads. */
static char *text(const char *constant)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {constant};

    return pointer.changing;
}

/* Of a record that takes `most` bytes at most. */
static void write_within(struct snapshot_writer *writer, const snapshot_record *record, size_t most)
{
    size_t length;

    if (writer->failed)
        return;
    if (SNAPSHOT_LENGTH_BYTES + most > writer->capacity) {
        writer->capacity = 2 * (SNAPSHOT_LENGTH_BYTES + most);
        writer->buffer = check_realloc(writer->buffer, writer->capacity, 1);
    }
    length = ckpt__log__v1__snapshot_record__pack(record, writer->buffer + SNAPSHOT_LENGTH_BYTES);
    CHECK(length <= most);
    CHECK(length <= SNAPSHOT_RECORD_MAX);
    for (size_t i = 0; i < SNAPSHOT_LENGTH_BYTES; i++)
        writer->buffer[i] = (uint8_t)(length >> (8 * i));
    if (writer->write(writer->context, writer->buffer, SNAPSHOT_LENGTH_BYTES + length) != 0)
        writer->failed = true;
    writer->record_count++;
}

static void write_record(struct snapshot_writer *writer, const snapshot_record *record)
{
    write_within(writer, record, ckpt__log__v1__snapshot_record__get_packed_size(record));
}

/* What a message's numbers, and the heads of its texts and messages, take at most. Of the records of which there are millions nothing
 * more exact is asked: protobuf-c's own size costs as much as packing them. */
static size_t numbers_most(const ProtobufCMessageDescriptor *descriptor)
{
    return RECORD_HEAD_MOST + (size_t)descriptor->n_fields * FIELD_MOST;
}

#define RECORD(member, field, value)                                                               \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&ckpt__log__v1__snapshot_record__descriptor),              \
        .body_case = CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_##member, .field = (value)               \
    }

static void write_header(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__Log__V1__SnapshotHeader header = CKPT__LOG__V1__SNAPSHOT_HEADER__INIT;
    uint64_t totals[FSM_STATES_CHECKPOINT];
    struct fsm_losses losses = fsm->losses;
    snapshot_record record = RECORD(HEADER, header, &header);

    memcpy(totals, fsm->checkpoints_total, sizeof(totals));
    header.version = SNAPSHOT_VERSION;
    header.initialised = fsm->initialised;
    header.cluster_id = text(fsm->cluster_id);
    header.epoch = fsm->epoch;
    header.checkpoint_sequence = fsm->checkpoint_sequence;
    header.preemption_sequence = fsm->preemption_sequence;
    header.now_ms = fsm->now_ms;
    header.applied_index = fsm->index;
    header.applied_term = fsm->term;
    header.state_hash = fsm->state_hash;
    header.command_count = fsm->command_count;
    header.next_event_sequence = fsm->next_event_sequence;
    header.checkpoints_total = totals;
    header.n_checkpoints_total = FSM_STATES_CHECKPOINT;
    header.rejected_reports = fsm->rejected_reports;
    header.duplicate_reports = fsm->duplicate_reports;
    header.earlier_life_reports = fsm->earlier_life_reports;
    header.skipped_decisions = fsm->skipped_decisions;
    header.resumed_total = fsm->resumed_total;
    header.paused_total = fsm->paused_total;
    header.walltime_conflicts = fsm->walltime_conflicts;
    header.preemptions_total = fsm->preemptions_total;
    header.requeues_total = fsm->requeues_total;
    header.malformed_entries = fsm->malformed_entries;
    header.member_id_max = fsm->member_id_max;
    header.node_failures_total = losses.node_failures;
    header.n_node_failures_total = FSM_AGE_BINS;
    header.kills_total = losses.kills;
    header.n_kills_total = FSM_GROUPS;
    header.demands_total = losses.demands;
    header.n_demands_total = FSM_GROUPS;
    header.learned = fsm->learned;
    header.undeleted_hand = fsm->undeleted_hand;
    header.undeleted_forgotten = fsm->undeleted_forgotten;
    header.undeleted_forgotten_bytes = fsm->undeleted_forgotten_bytes;
    write_record(writer, &record);
}

static void write_cluster(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__V1__Policy policy = fsm->policy;
    snapshot_record policy_record = RECORD(POLICY, policy, &policy);

    write_record(writer, &policy_record);
    for (size_t i = 0; i < fsm->member_count; i++) {
        snapshot_record record = RECORD(MEMBER, member, fsm->members[i]);

        write_record(writer, &record);
    }
}

static void write_tenants(struct snapshot_writer *writer, const struct fsm *fsm)
{
    for (uint32_t i = 0; i < fsm->tenant_count; i++) {
        Ckpt__Log__V1__TenantRecord message = CKPT__LOG__V1__TENANT_RECORD__INIT;
        Ckpt__V1__GpuAccount account;
        snapshot_record record = RECORD(TENANT, tenant, &message);

        fsm_account_to_message(&fsm->tenants[i]->account, &account);
        message.tenant = text(fsm->tenants[i]->id);
        message.account = &account;
        message.at_ms = fsm->tenants[i]->at_ms;
        write_record(writer, &record);
    }
}

static void write_calibration(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__Log__V1__CalibrationRecord message = CKPT__LOG__V1__CALIBRATION_RECORD__INIT;
    struct fsm_calibration copy = fsm->calibration;
    Ckpt__V1__Calibration calibration;
    snapshot_record record = RECORD(CALIBRATION, calibration, &message);

    fsm_calibration_to_message(&copy, &calibration);
    message.calibration = &calibration;
    message.at_ms = fsm->calibration_at_ms;
    write_record(writer, &record);
}

static void write_targets(struct snapshot_writer *writer, const struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = fsm_target_slot(fsm, slot);
        Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
        Ckpt__Log__V1__TargetRecord message = CKPT__LOG__V1__TARGET_RECORD__INIT;
        snapshot_record record = RECORD(TARGET, target, &message);

        if (target == NULL)
            continue;
        spec.target_id = text(target->view.id);
        spec.kind = target->view.kind;
        spec.prefix = text(target->view.prefix);
        spec.domain = text(target->view.domain);
        spec.write_bytes_per_s = target->view.write_bytes_per_s;
        spec.staging_share_ppm = target->view.staging_share_ppm;
        spec.cost_micro_usd_per_gb_month = target->view.cost_micro_usd_per_gb_month;
        spec.is_default = target->view.is_default;
        message.slot = slot;
        message.spec = &spec;
        message.available = target->view.available;
        message.reason = target->view.reason;
        message.since_ms = target->view.since_ms;
        message.measured_bytes_per_s = target->view.measured_bytes_per_s;
        message.measured_at_ms = target->view.measured_at_ms;
        message.excused_bytes_per_s = target->excused_bytes_per_s;
        message.made = target->view.made;
        message.removed = target->removed;
        write_record(writer, &record);
    }
}

void fsm_write_node(struct snapshot_writer *writer, const struct node *node)
{
    Ckpt__Log__V1__NodeRecord message = CKPT__LOG__V1__NODE_RECORD__INIT;
    snapshot_record record = RECORD(NODE, node, &message);

    message.slot = node->view.slot;
    message.node_id = text(node->view.id);
    message.boot_id = text(node->view.boot_id);
    message.version = text(node->view.version);
    message.state = node->view.state;
    message.state_since_ms = node->view.state_since_ms;
    message.last_report_sequence = node->view.last_report_sequence;
    message.steady_since_ms = node->view.steady_since_ms;
    message.failure_count = node->view.failure_count;
    message.home_vcluster = text(node->view.home_vcluster);
    message.made = node->view.made;
    message.removed = node->removed;
    write_record(writer, &record);
}

/* Space for n messages and n pointers to them: `few` when they fit, else from the heap. */
struct message_array {
    void *items;
    void **pointers;
    void *heap; /* to be freed */
};

static struct message_array message_array(size_t count, size_t size, void *few, size_t few_bytes)
{
    struct message_array array = {.heap = NULL};
    size_t pointers_bytes = count * sizeof(void *);
    char *space = few;

    if (pointers_bytes + count * size > few_bytes)
        space = array.heap = check_alloc(pointers_bytes + count * size);
    array.pointers = (void **)(void *)space;
    array.items = space + pointers_bytes;
    for (size_t i = 0; i < count; i++)
        array.pointers[i] = (char *)array.items + i * size;
    return array;
}

static void fill_shares(Ckpt__Log__V1__ShareRecord *shares, const struct allocation *allocation)
{
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        ckpt__log__v1__share_record__init(&shares[i]);
        shares[i].node_slot = allocation->view.nodes[i].node_slot;
        shares[i].gpu_count = allocation->view.nodes[i].gpu_count;
        shares[i].gpu_memory_used_bytes = allocation->view.nodes[i].gpu_memory_used_bytes;
        shares[i].borrowed = allocation->view.nodes[i].borrowed;
        shares[i].terminated = allocation->assignments[i].terminated;
        shares[i].away = allocation->assignments[i].away;
        shares[i].exited = allocation->assignments[i].exited;
        shares[i].starting = allocation->assignments[i].starting;
        shares[i].life = allocation->view.nodes[i].life;
    }
}

static void fill_allocation(Ckpt__Log__V1__AllocationRecord *message,
                            const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;

    message->slot = view->slot;
    message->allocation_id = text(view->id);
    message->tenant = text(view->tenant);
    message->project = text(view->project);
    message->vcluster = text(view->vcluster);
    message->owner = text(view->owner);
    message->profile = text(view->profile);
    message->target_slot = view->target_slot;
    message->preemption_class = view->preemption_class;
    message->sensitive = view->sensitive;
    message->non_preemptible = view->non_preemptible;
    message->walltime_asked = view->walltime_asked;
    message->terminating = view->terminating;
    message->strategy = view->strategy;
    message->requeue_policy = view->requeue_policy;
    message->vcluster_kind = view->vcluster_kind;
    message->state = view->state;
    message->reason = view->reason;
    message->terminate_reason = view->terminate_reason;
    message->max_requeue = view->max_requeue;
    message->requeue_count = view->requeue_count;
    message->preempted_count = view->preempted_count;
    message->restart_count = view->restart_count;
    message->death_count = view->death_count;
    message->reactive_min_nodes = view->reactive_min_nodes;
    message->reactive_max_nodes = view->reactive_max_nodes;
    message->registered_index = view->registered_index;
}

static void fill_allocation_times(Ckpt__Log__V1__AllocationRecord *message,
                                  const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;

    message->submitted_at_ms = view->submitted_at_ms;
    message->started_at_ms = view->started_at_ms;
    message->state_since_ms = view->state_since_ms;
    message->walltime_ms = view->walltime_ms;
    message->grace_ms = view->grace_ms;
    message->period_ms = view->period_ms;
    message->checkpoint_timeout_ms = view->checkpoint_timeout_ms;
    message->write_bytes_per_s = view->write_bytes_per_s;
    message->last_complete_id = view->last_complete_id;
    message->last_complete_snapshot_ms = view->last_complete_snapshot_ms;
    message->previous_complete_id = view->previous_complete_id;
    message->last_attempt_end_ms = view->last_attempt_end_ms;
    message->complete_count = view->complete_count;
    message->size_estimate_bytes = view->size_estimate_bytes;
    message->write_estimate_ms = view->write_estimate_ms;
    message->account_at_ms = allocation->account_at_ms;
    message->waited_ms = view->waited_ms;
    message->hazard_per_s_e12 = allocation->hazard_e12;
    message->stake_gpu_ms = allocation->stake_gpu_ms;
    message->stake_until_ms = allocation->stake_until_ms;
    message->terminate_deadline_ms = allocation->terminate_deadline_ms;
    message->grace_end_ms = allocation->grace_end_ms;
    message->plan_state = (Ckpt__V1__AllocationState)allocation->plan_state;
    message->plan_reason = (Ckpt__V1__Reason)allocation->plan_reason;
    message->preemptor_class = allocation->preemptor_class;
    message->expired = allocation->expired;
    message->timer_at_ms = allocation->timer.at_ms;
    message->resumed_at_ms = view->resumed_at_ms;
    message->began_life = allocation->began_life;
    message->began_from = allocation->began_from;
    message->leaving = view->leaving;
    message->leave_reason = (Ckpt__V1__Reason)allocation->leave_reason;
}

static void fill_next(Ckpt__Log__V1__ShareRecord *shares, const struct allocation *allocation)
{
    for (uint32_t i = 0; i < allocation->view.next_count; i++) {
        ckpt__log__v1__share_record__init(&shares[i]);
        shares[i].node_slot = allocation->view.next[i].node_slot;
        shares[i].gpu_count = allocation->view.next[i].gpu_count;
        shares[i].gpu_memory_used_bytes = allocation->view.next[i].gpu_memory_used_bytes;
        shares[i].borrowed = allocation->view.next[i].borrowed;
    }
}

static void fill_learned(Ckpt__Log__V1__AllocationRecord *message,
                         const struct fsm_learned *learned)
{
    message->learned_count = learned->count;
    message->write_mean_us = learned->write_mean_us;
    message->write_deviation_us = learned->write_deviation_us;
    message->size_deviation_bytes = learned->size_deviation_bytes;
    message->done_e6 = learned->done_e6;
    message->failed_e6 = learned->failed_e6;
    message->stall_ppm_plus_1 = learned->stall_measured ? learned->stall_ppm + 1 : 0;
}

static size_t allocation_most(const struct fsm_allocation *view)
{
    const char *const texts[] = {view->id,       view->tenant, view->project,
                                 view->vcluster, view->owner,  view->profile};
    size_t most = numbers_most(&ckpt__log__v1__allocation_record__descriptor) +
                  numbers_most(&ckpt__v1__gpu_account__descriptor);

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        most += strlen(texts[i]);
    return most + ((size_t)view->node_count + view->next_count) *
                      numbers_most(&ckpt__log__v1__share_record__descriptor);
}

void fsm_write_allocation(struct snapshot_writer *writer, const struct allocation *allocation)
{
    Ckpt__Log__V1__AllocationRecord message = CKPT__LOG__V1__ALLOCATION_RECORD__INIT;
    Ckpt__V1__GpuAccount account;
    snapshot_record record = RECORD(ALLOCATION, allocation, &message);
    uint64_t few[FEW_WORDS];
    struct message_array shares = message_array(
        allocation->view.node_count, sizeof(Ckpt__Log__V1__ShareRecord), few, sizeof(few));
    uint64_t few_next[FEW_WORDS];
    struct message_array next =
        message_array(allocation->view.next_count, sizeof(Ckpt__Log__V1__ShareRecord), few_next,
                      sizeof(few_next));

    fsm_account_to_message(&allocation->account, &account);
    message.account = &account;
    fill_allocation(&message, allocation);
    fill_allocation_times(&message, allocation);
    fill_learned(&message, &allocation->view.learned);
    fill_shares(shares.items, allocation);
    message.n_shares = allocation->view.node_count;
    message.shares = (Ckpt__Log__V1__ShareRecord **)shares.pointers;
    fill_next(next.items, allocation);
    message.n_next_shares = allocation->view.next_count;
    message.next_shares = (Ckpt__Log__V1__ShareRecord **)next.pointers;
    write_within(writer, &record, allocation_most(&allocation->view));
    free(shares.heap);
    free(next.heap);
}

static void fill_shards(Ckpt__Log__V1__ShardRecord *shards, const struct checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        struct fsm_shard *shard = &checkpoint->shards[i];

        ckpt__log__v1__shard_record__init(&shards[i]);
        shards[i].node_slot = shard->node_slot;
        shards[i].started = shard->started;
        shards[i].verified = shard->verified;
        shards[i].stopped_writing = shard->stopped_writing;
        shards[i].size_bytes = shard->size_bytes;
        shards[i].write_ms = shard->write_ms;
        shards[i].stall_ms = shard->stall_ms;
        if (shard->verified) {
            shards[i].manifest_sha256.len = sizeof(shard->manifest_sha256);
            shards[i].manifest_sha256.data = shard->manifest_sha256;
        }
    }
}

static void fill_checkpoint(Ckpt__Log__V1__CheckpointRecord *message,
                            const struct fsm_checkpoint *view)
{
    message->checkpoint_id = view->id;
    message->allocation_slot = view->allocation_slot;
    message->target_slot = view->target_slot;
    message->state = view->state;
    message->purpose = view->purpose;
    message->after = view->after;
    message->reason = view->reason;
    message->attempt = view->attempt;
    message->paused_count = view->paused_count;
    message->resumed_count = view->resumed_count;
    message->extended = view->extended;
    message->created_at_ms = view->created_at_ms;
    message->dispatched_at_ms = view->dispatched_at_ms;
    message->started_at_ms = view->started_at_ms;
    message->completed_at_ms = view->completed_at_ms;
    message->state_since_ms = view->state_since_ms;
    message->deadline_ms = view->deadline_ms;
    message->retry_at_ms = view->retry_at_ms;
    message->timeout_ms = view->timeout_ms;
    message->granted_bytes_per_s = view->granted_bytes_per_s;
    message->size_bytes = view->size_bytes;
    message->snapshot_at_ms = view->snapshot_at_ms;
    message->priority_gpu_ms_per_gb = view->priority_gpu_ms_per_gb;
    message->recompute_saved_gpu_ms = view->recompute_saved_gpu_ms;
    message->resumed_from_outage = view->resumed_from_outage;
    message->stall_ms = view->stall_ms;
    message->useful_gpu_ms = view->useful_gpu_ms;
    message->success_ppm = view->success_ppm;
    message->deferred_ms = view->deferred_ms;
    message->deferred_before_ms = view->deferred_before_ms;
    message->max_deferral_ms = view->max_deferral_ms;
    message->detail = text(view->detail);
}

/* protobuf-c wants them not const, and only reads. */
static uint64_t *numbers(const uint64_t *constant)
{
    union {
        const uint64_t *constant;
        uint64_t *changing;
    } pointer = {constant};

    return pointer.changing;
}

void fsm_write_basis(struct snapshot_writer *writer, const struct basis *basis)
{
    Ckpt__Log__V1__DecisionBasis content = CKPT__LOG__V1__DECISION_BASIS__INIT;
    Ckpt__Log__V1__BasisRecord message = CKPT__LOG__V1__BASIS_RECORD__INIT;
    snapshot_record record = RECORD(BASIS, basis, &message);

    content.revision = basis->view.revision;
    content.member_id = basis->view.member_id;
    content.names = text(basis->view.names);
    content.n_policy = basis->view.policy_count;
    content.policy = numbers(basis->view.policy);
    message.slot = basis->view.slot;
    message.basis = &content;
    write_record(writer, &record);
}

static void fill_inputs(Ckpt__Log__V1__InputsRecord *message,
                        Ckpt__Log__V1__DecisionInputs *content, struct inputs *inputs)
{
    message->basis_slot = inputs->basis->view.slot;
    message->index = inputs->view.index;
    message->term = inputs->view.term;
    message->inputs = content;
    content->evaluated_at_ms = inputs->view.evaluated_at_ms;
    content->n_columns = inputs->view.column_count;
    content->columns = inputs->numbers;
    content->flags = inputs->view.flags;
    content->result_digest = inputs->view.result_digest;
    content->n_source_age_ms = inputs->view.source_count;
    content->source_age_ms = (uint32_t *)(void *)(inputs->numbers + inputs->view.column_count);
}

void fsm_write_checkpoint(struct snapshot_writer *writer, const struct checkpoint *checkpoint)
{
    Ckpt__Log__V1__CheckpointRecord message = CKPT__LOG__V1__CHECKPOINT_RECORD__INIT;
    Ckpt__Log__V1__InputsRecord inputs = CKPT__LOG__V1__INPUTS_RECORD__INIT;
    Ckpt__Log__V1__DecisionInputs content = CKPT__LOG__V1__DECISION_INPUTS__INIT;
    snapshot_record record = RECORD(CHECKPOINT, checkpoint, &message);
    union {
        const Ckpt__V1__DecisionTerms *constant;
        Ckpt__V1__DecisionTerms *changing;
    } terms = {checkpoint->view.terms};
    uint64_t few[FEW_WORDS];
    struct message_array shards = message_array(
        checkpoint->view.shard_count, sizeof(Ckpt__Log__V1__ShardRecord), few, sizeof(few));

    fill_checkpoint(&message, &checkpoint->view);
    message.terms = terms.changing;
    if (checkpoint->inputs != NULL) {
        fill_inputs(&inputs, &content, checkpoint->inputs);
        message.inputs = &inputs;
    }
    message.failure_count = checkpoint->failure_count;
    message.stop_deadline_ms = checkpoint->stop_deadline_ms;
    message.stop_limit_ms = checkpoint->stop_limit_ms;
    message.base_timeout_ms = checkpoint->base_timeout_ms;
    message.bypass_budget = checkpoint->bypass_budget;
    message.hurried = checkpoint->hurried;
    message.expired = checkpoint->expired;
    message.collected = checkpoint->collected;
    message.collect_at_ms = checkpoint->collect_at_ms;
    fill_shards(shards.items, checkpoint);
    message.n_shards = checkpoint->view.shard_count;
    message.shards = (Ckpt__Log__V1__ShardRecord **)shards.pointers;
    write_record(writer, &record);
    free(shards.heap);
}

void fsm_write_undeleted(struct snapshot_writer *writer, const struct undeleted *undeleted)
{
    const struct fsm_undeleted *view = &undeleted->view;
    Ckpt__Log__V1__UndeletedRecord message = CKPT__LOG__V1__UNDELETED_RECORD__INIT;
    snapshot_record record = RECORD(UNDELETED, undeleted, &message);

    message.place = view->place;
    message.checkpoint_id = view->checkpoint_id;
    message.allocation_id = text(view->allocation_id);
    message.tenant = text(view->tenant);
    message.project = text(view->project);
    message.target_slot = view->target_slot;
    message.size_bytes = view->size_bytes;
    message.since_ms = view->since_ms;
    message.tried_at_ms = view->tried_at_ms;
    message.not_before_ms = view->not_before_ms;
    message.attempts = view->attempts;
    message.reason = text(view->reason);
    write_record(writer, &record);
}

void fsm_write_queue(struct snapshot_writer *writer, const struct queue *queue)
{
    Ckpt__Log__V1__QueueRecord message = CKPT__LOG__V1__QUEUE_RECORD__INIT;
    snapshot_record record = RECORD(QUEUE, queue, &message);

    message.reported_at_ms = queue->reported_at_ms;
    message.report = queue->report;
    message.told_pressure_ppm = queue->told_pressure_ppm;
    message.told_gpus = queue->told_gpus;
    write_record(writer, &record);
}

static void fill_victim(Ckpt__Log__V1__VictimRecord *message,
                        const struct fsm_preemption_victim *victim)
{
    union {
        const uint32_t *constant;
        uint32_t *changing;
    } slots = {victim->node_slots};

    ckpt__log__v1__victim_record__init(message);
    message->allocation_id = text(victim->allocation_id);
    message->checkpoint_id = victim->checkpoint_id;
    message->state = victim->state;
    message->since_ms = victim->since_ms;
    message->gpu_count = victim->gpu_count;
    message->n_node_slots = victim->node_count;
    message->node_slots = slots.changing;
}

void fsm_write_preemption(struct snapshot_writer *writer, const struct preemption *preemption)
{
    const struct fsm_preemption *view = &preemption->view;
    Ckpt__Log__V1__PreemptionRecord message = CKPT__LOG__V1__PREEMPTION_RECORD__INIT;
    snapshot_record record = RECORD(PREEMPTION, preemption, &message);
    Ckpt__Log__V1__VictimRecord victims[FSM_VICTIMS_MAX];
    Ckpt__Log__V1__VictimRecord *pointers[FSM_VICTIMS_MAX];
    union {
        const Ckpt__V1__RequestPreemptionRequest *constant;
        Ckpt__V1__RequestPreemptionRequest *changing;
    } request = {view->request};

    message.preemption_id = view->id;
    message.request = request.changing;
    message.state = view->state;
    message.acting_class = view->acting_class;
    message.cost_gpu_ms = view->cost_gpu_ms;
    message.asked_at_ms = view->asked_at_ms;
    message.deadline_ms = view->deadline_ms;
    message.ended_at_ms = view->ended_at_ms;
    message.escalations = view->escalations;
    for (uint32_t i = 0; i < view->victim_count; i++) {
        fill_victim(&victims[i], &view->victims[i]);
        pointers[i] = &victims[i];
    }
    message.n_victims = view->victim_count;
    message.victims = pointers;
    write_record(writer, &record);
}

void fsm_write_session(struct snapshot_writer *writer, const struct session *session)
{
    Ckpt__Log__V1__SessionRecord message = CKPT__LOG__V1__SESSION_RECORD__INIT;
    snapshot_record record = RECORD(SESSION, session, &message);
    Ckpt__V1__Victim victims[FSM_VICTIMS_MAX];
    Ckpt__V1__Victim *pointers[FSM_VICTIMS_MAX];
    const struct session_rest *rest = session->rest;

    message.request_id = text(session->request_id);
    message.command = session->command;
    message.content_hash = session->content_hash;
    message.at_ms = session->at_ms;
    message.status = session->status;
    message.index = session->index;
    if (rest != NULL) {
        message.checkpoint_id = rest->checkpoint_id;
        message.preemption_id = rest->preemption_id;
        message.current = rest->current;
        message.limit = rest->limit;
    }
    for (uint32_t i = 0; i < session->victim_count; i++) {
        ckpt__v1__victim__init(&victims[i]);
        victims[i].allocation_id = text(rest->victims[i].allocation_id);
        victims[i].checkpoint_id = rest->victims[i].checkpoint_id;
        victims[i].node_count = rest->victims[i].node_count;
        pointers[i] = &victims[i];
    }
    message.n_victims = session->victim_count;
    message.victims = pointers;
    write_within(
        writer, &record,
        numbers_most(&ckpt__log__v1__session_record__descriptor) + strlen(session->request_id) +
            session->victim_count * (numbers_most(&ckpt__v1__victim__descriptor) + FSM_ID_BYTES));
}

void fsm_write_event(struct snapshot_writer *writer, const Ckpt__V1__Event *source)
{
    Ckpt__V1__Event event = *source;
    snapshot_record record = RECORD(EVENT, event, &event);

    write_within(writer, &record,
                 numbers_most(&ckpt__v1__event__descriptor) + strlen(event.allocation_id) +
                     strlen(event.subject));
}

void fsm_write_prologue(struct snapshot_writer *writer, const struct fsm *fsm)
{
    write_header(writer, fsm);
    write_cluster(writer, fsm);
    write_tenants(writer, fsm);
    write_calibration(writer, fsm);
    write_targets(writer, fsm);
}

void fsm_write_footer(struct snapshot_writer *writer, uint64_t state_hash)
{
    Ckpt__Log__V1__SnapshotFooter footer = CKPT__LOG__V1__SNAPSHOT_FOOTER__INIT;
    snapshot_record record = RECORD(FOOTER, footer, &footer);

    footer.record_count = writer->record_count;
    footer.state_hash = state_hash;
    write_record(writer, &record);
}

void fsm_write_saved(struct snapshot_writer *writer, const uint8_t *bytes, size_t length)
{
    if (writer->failed)
        return;
    if (writer->write(writer->context, bytes, length) != 0)
        writer->failed = true;
    writer->record_count++;
}

int fsm_snapshot_write(const struct fsm *fsm,
                       int (*write)(void *context, const void *bytes, size_t length), void *context)
{
    struct snapshot_writer writer = {.write = write, .context = context};

    fsm_write_prologue(&writer, fsm);
    for (uint32_t slot = 0; slot < fsm->nodes.slot_end && !writer.failed; slot++)
        if (fsm_node_look(fsm, slot) != NULL)
            fsm_write_node(&writer, fsm_node_look(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end && !writer.failed; slot++)
        if (fsm_allocation_look(fsm, slot) != NULL)
            fsm_write_allocation(&writer, fsm_allocation_look(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->bases.slot_end && !writer.failed; slot++)
        if (fsm_basis_slot(fsm, slot) != NULL)
            fsm_write_basis(&writer, fsm_basis_slot(fsm, slot));
    for (size_t i = 0; i < fsm->checkpoint_refs && !writer.failed; i++)
        if (fsm->checkpoints[i].checkpoint != NULL)
            fsm_write_checkpoint(&writer, fsm->checkpoints[i].checkpoint);
    for (uint32_t i = 0; i < FSM_UNDELETED_MAX && !writer.failed; i++)
        if (fsm->undeleted[i] != NULL)
            fsm_write_undeleted(&writer, fsm->undeleted[i]);
    for (size_t i = 0; i < fsm->queue_count; i++)
        fsm_write_queue(&writer, &fsm->queues[i]);
    for (size_t i = 0; i < FSM_PREEMPTIONS_MAX; i++)
        if (fsm->preemptions[i] != NULL)
            fsm_write_preemption(&writer, fsm->preemptions[i]);
    for (struct session *at = fsm->session_oldest; at != NULL && !writer.failed; at = at->next)
        fsm_write_session(&writer, at);
    for (uint64_t i = fsm->event_count; i > 0 && !writer.failed; i--)
        fsm_write_event(&writer, fsm_event_at(fsm, fsm->next_event_sequence - i));
    fsm_write_footer(&writer, fsm->state_hash);
    free(writer.buffer);
    return writer.failed ? -1 : 0;
}
