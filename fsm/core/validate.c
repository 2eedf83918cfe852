/* What a command must look like before it is proposed: ids, ranges, counts. Apply judges what
 * depends on the state.
 *
 * Flow     fsm_validate_command() checks what holds for all commands, then calls the check of its
 *          body. Apply calls it again, so that bytes that never passed a leader of this version
 *          cannot do more harm than a refusal. Each check keeps the first refusal in
 *          outcome->status and does nothing after one, so checks are simply listed.
 * Errors   the status, with the value found in outcome->current and the limit in outcome->limit.
 */
#include "fsm/cluster/policy_fields.h"
#include "fsm/core/state.h"
#include "fsm/profiles.h"

typedef enum fsm_status validator(const fsm_command *command, struct fsm_outcome *outcome);

/* The field that an expression such as request->spec->tenant names. */
static const char *field_of(const char *expression)
{
    const char *arrow = strrchr(expression, '>');

    return arrow == NULL ? expression : arrow + 1;
}

/* An id becomes part of a path: what could leave its folder is refused here, once for all. */
static enum fsm_status check_id_of(const char *field, const char *text, struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || (text != NULL && id_valid(text)))
        return outcome->status;
    outcome->subject = field;
    fsm_outcome_found(outcome, text == NULL ? "" : text);
    outcome->status = FSM_INVALID_ID;
    return outcome->status;
}

static enum fsm_status check_id_or_empty_of(const char *field, const char *text,
                                            struct fsm_outcome *outcome)
{
    return text != NULL && text[0] == '\0' ? outcome->status : check_id_of(field, text, outcome);
}

/* The limit that was passed is told, low or high. A subject that was set before stays: it says more
 * than the field's name. */
static enum fsm_status check_range_of(const char *field, uint64_t value, uint64_t lowest,
                                      uint64_t highest, struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || (value >= lowest && value <= highest))
        return outcome->status;
    if (outcome->subject == NULL)
        outcome->subject = field;
    outcome->current = value;
    outcome->limit = value < lowest ? lowest : highest;
    outcome->status = FSM_INVALID_ARGUMENT;
    return outcome->status;
}

/* Too many is another refusal than out of range: it may be split. */
static enum fsm_status check_count_of(const char *field, size_t count, size_t highest,
                                      struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || count <= highest)
        return outcome->status;
    outcome->subject = field;
    outcome->current = count;
    outcome->limit = highest;
    outcome->status = FSM_TOO_LARGE;
    return outcome->status;
}

/* A refusal names the field that is checked. */
#define check_id(text, outcome)          check_id_of(field_of(#text), (text), (outcome))
#define check_id_or_empty(text, outcome) check_id_or_empty_of(field_of(#text), (text), (outcome))
#define check_count(count, highest, outcome)                                                       \
    check_count_of(field_of(#count), (count), (highest), (outcome))
#define check_range(value, lowest, highest, outcome)                                               \
    check_range_of(field_of(#value), (value), (lowest), (highest), (outcome))

enum { SHARE_TABLE = 8192 };
_Static_assert(SHARE_TABLE >= 2 * FSM_NODES_PER_ALLOCATION_MAX, "the table is at most half full");
_Static_assert((SHARE_TABLE & (SHARE_TABLE - 1)) == 0, "a power of two");

/* A table on the stack: 4,096 nodes compared in pairs would be eight million comparisons. */
static enum fsm_status check_nodes_distinct(size_t count, fsm_share_message **shares,
                                            struct fsm_outcome *outcome)
{
    uint16_t table[SHARE_TABLE] = {0}; /* 1 + index; 0: free */

    for (size_t i = 0; i < count; i++) {
        uint32_t at = fsm_hash_text(shares[i]->node_id) & (SHARE_TABLE - 1);

        for (; table[at] != 0; at = (at + 1) & (SHARE_TABLE - 1)) {
            if (strcmp(shares[table[at] - 1]->node_id, shares[i]->node_id) == 0) {
                outcome->current = table[at];
                outcome->limit = i + 1;
                return FSM_NODE_TWICE;
            }
        }
        table[at] = (uint16_t)(i + 1);
    }
    return FSM_OK;
}

/* An update or a restart may name no nodes: those stay as they are. */
static enum fsm_status check_nodes(size_t count, fsm_share_message **shares, bool required,
                                   struct fsm_outcome *outcome)
{
    check_count_of("nodes", count, FSM_NODES_PER_ALLOCATION_MAX, outcome);
    check_range_of("nodes", count, required ? 1 : 0, FSM_NODES_PER_ALLOCATION_MAX, outcome);
    for (size_t i = 0; i < count && outcome->status == FSM_OK; i++) {
        check_id(shares[i]->node_id, outcome);
        check_range(shares[i]->gpu_count, 0, FSM_GPUS_PER_NODE_MAX, outcome);
        check_range(shares[i]->gpu_memory_used_bytes, 0, FSM_NODE_BYTES_MAX, outcome);
    }
    if (count > 1 && outcome->status == FSM_OK)
        outcome->status = check_nodes_distinct(count, shares, outcome);
    return outcome->status;
}

/* A text of the record's table is an id or empty. The bounds of numbers are the table's, so that
 * what is taken here can be read from a snapshot. */
static enum fsm_status validate_spec(const Ckpt__V1__AllocationSpec *spec,
                                     struct fsm_outcome *outcome)
{
    check_id(spec->allocation_id, outcome);
    check_id(spec->tenant, outcome);
    check_id(spec->project, outcome);
#define TEXT(name)                                                                                 \
    if (fsm_spec_text_is_id(#name))                                                                \
        check_id_or_empty(spec->name, outcome);
    FSM_ALLOCATION_SPEC(ROW_SKIP, TEXT)
#undef TEXT
    fsm_check_profile(spec, outcome);
    fsm_check_attributes(spec, outcome);
    check_id_or_empty(spec->target_id, outcome);
#define FIELD(type, name, highest)                                                                 \
    if (!record_within((uint64_t)spec->name, highest, sizeof(type)))                               \
        check_range_of(#name, (uint64_t)spec->name, 0, highest, outcome);
    FSM_ALLOCATION_SPEC(FIELD, ROW_SKIP_TEXT)
#undef FIELD
    check_range(spec->reactive_max_nodes, spec->reactive_min_nodes, FSM_NODES_PER_ALLOCATION_MAX,
                outcome);
    check_nodes(spec->n_nodes, spec->nodes, true, outcome);
    if (spec->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL) {
        check_range_of("nodes of restore ALL", spec->n_nodes, 1, FSM_RESTORE_ALL_NODES_MAX,
                       outcome);
        check_range_of("reactive_max_nodes of restore ALL", spec->reactive_max_nodes, 0,
                       FSM_RESTORE_ALL_NODES_MAX, outcome);
    }
    return outcome->status;
}

/* A bounded text of printable characters. What a location must look like is its kind's to say,
 * which was asked before the command was proposed. */
static bool prefix_valid(const char *prefix)
{
    size_t length = strlen(prefix);

    for (const char *at = prefix; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            return false;
    return length > 0 && length <= FSM_PREFIX_MAX_BYTES;
}

/* A whole one: a change is made whole before (validate_put_target, fsm_apply_put_target). */
static enum fsm_status validate_target_spec(const Ckpt__V1__TargetSpec *spec,
                                            struct fsm_outcome *outcome)
{
    if (spec == NULL)
        return FSM_INVALID_ARGUMENT;
    check_id(spec->target_id, outcome);
    check_id_or_empty(spec->domain, outcome);
    check_id_or_empty(spec->tier, outcome);
    check_id_or_empty(spec->failover_target_id, outcome);
    check_id_or_empty(spec->jurisdiction, outcome);
    check_range(spec->encrypted, 0, CKPT__V1__ASSURED__ASSURED_YES, outcome);
    check_range(spec->hot_only, 0, CKPT__V1__ASSURED__ASSURED_YES, outcome);
    check_range(spec->read_bytes_per_s, 0, FSM_BANDWIDTH_MAX, outcome);
    check_range(spec->max_restores, 0, FSM_RESTORES_MAX, outcome);
    check_range(spec->max_writes, 0, FSM_WRITES_MAX, outcome);
    check_range(spec->write_bytes_per_s, 1, FSM_BANDWIDTH_MAX, outcome);
    check_range(spec->staging_share_ppm, 0, FSM_PPM, outcome);
    check_range(spec->read_back, 0, CKPT__V1__READ_BACK__READ_BACK_ALWAYS, outcome);
    check_range(spec->generations, 0, FSM_GENERATIONS_MAX, outcome);
    check_range(spec->pool, 0, CKPT__V1__POOL__POOL_SENSITIVE, outcome);
    check_range(spec->staging, 0, CKPT__V1__STAGING__STAGING_MEMORY, outcome);
    check_range(spec->compression, 0, CKPT__V1__COMPRESSION__COMPRESSION_LZ4, outcome);
    check_range(spec->cost_micro_usd_per_gb_month, 0, FSM_BANDWIDTH_MAX, outcome);
    if (outcome->status == FSM_OK && !prefix_valid(spec->prefix)) {
        outcome->current = strlen(spec->prefix);
        outcome->limit = FSM_PREFIX_MAX_BYTES;
        return FSM_PREFIX_INVALID;
    }
    return outcome->status;
}

/* Apply takes the targets without a way to refuse: all is asked here. */
static enum fsm_status validate_cluster_init(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__ClusterInit *init = command->cluster_init;
    enum fsm_status status;

    check_id(init->cluster_id, outcome);
    check_range(init->epoch, 1, FSM_EPOCH_MAX, outcome);
    check_count(init->n_targets, FSM_TARGETS_MAX, outcome);
    status = outcome->status;
    if (status == FSM_OK && init->policy != NULL)
        status = fsm_policy_check_values(init->policy, outcome);
    for (size_t i = 0; i < init->n_targets && status == FSM_OK; i++) {
        status = validate_target_spec(init->targets[i], outcome);
        for (size_t j = 0; j < i && status == FSM_OK; j++)
            if (strcmp(init->targets[i]->target_id, init->targets[j]->target_id) == 0)
                status = FSM_INVALID_ARGUMENT;
    }
    return status;
}

/* A role is not the member's to say. */
static enum fsm_status validate_member_facts(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    check_id(command->member_facts->name, outcome);
    check_range(command->member_facts->member_id, 1, UINT64_MAX, outcome);
    check_range(command->member_facts->role, 0, 0, outcome);
    return check_range(command->member_facts->role_since_ms, 0, 0, outcome);
}

static enum fsm_status validate_member_role(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->member_role->name, outcome);
    check_range(command->member_role->member_id, 1, UINT64_MAX, outcome);
    return check_range(command->member_role->role, CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_LEARNER,
                       CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED, outcome);
}

static enum fsm_status validate_register(const fsm_command *command, struct fsm_outcome *outcome)
{
    if (command->register_allocation->spec == NULL)
        return FSM_INVALID_ARGUMENT;
    return validate_spec(command->register_allocation->spec, outcome);
}

/* Bits that stand for a field that may be emptied. A bit of another field would be ignored, and
 * whoever set it would believe that the field is empty. */
static void check_zeros(uint64_t zeros, uint64_t allowed, struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || (zeros & ~allowed) == 0)
        return;
    outcome->subject = "zeros";
    outcome->current = zeros;
    outcome->limit = allowed;
    outcome->status = FSM_INVALID_ARGUMENT;
}

enum {
    UPDATE_ZEROS = 1 << 4 | 1 << 5,
    TARGET_ZEROS = 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 15 |
                   1 << 18 | 1 << 21
};

static enum fsm_status validate_update(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__UpdateAllocationRequest *request = command->update_allocation;

    check_id(request->allocation_id, outcome);
    check_range(request->walltime_ms, 0, FSM_DURATION_MAX_MS, outcome);
    check_range(request->period_ms, 0, FSM_DURATION_MAX_MS, outcome);
    check_zeros(request->zeros, UPDATE_ZEROS, outcome);
    check_id_or_empty(request->target_id, outcome);
    check_nodes(request->n_nodes, request->nodes, false, outcome);
    return outcome->status;
}

static enum fsm_status validate_end(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_id(command->end_allocation->allocation_id, outcome);
}

/* A job that is listed twice would be weighed twice. */
static enum fsm_status check_waiting_distinct(const Ckpt__V1__ReportQueueRequest *request,
                                              struct fsm_outcome *outcome)
{
    for (size_t i = 0; i < request->n_waiting && outcome->status == FSM_OK; i++) {
        const char *id = request->waiting[i]->job_id;

        for (size_t j = 0; j < i && id[0] != '\0'; j++) {
            if (strcmp(request->waiting[j]->job_id, id) != 0)
                continue;
            outcome->subject = "how often one job waits";
            check_range(2, 1, 1, outcome);
        }
    }
    return outcome->status;
}

/* A waiting job without a name is counted, but compared with no other. */
static enum fsm_status validate_report_queue(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    const Ckpt__V1__ReportQueueRequest *request = command->report_queue;

    check_id(request->vcluster, outcome);
    check_count(request->n_waiting, FSM_WAITING_PER_QUEUE_MAX, outcome);
    check_range(request->queued_gpu_ms, 0, INT64_MAX, outcome);
    check_range(request->running_gpu_ms, 0, INT64_MAX, outcome);
    for (size_t i = 0; i < request->n_waiting && outcome->status == FSM_OK; i++) {
        check_id_or_empty(request->waiting[i]->job_id, outcome);
        check_range(request->waiting[i]->preemption_class, 0, FSM_CLASS_MAX, outcome);
        check_range(request->waiting[i]->waited_ms, 0, FSM_DURATION_MAX_MS, outcome);
    }
    return check_waiting_distinct(request, outcome);
}

/* PREEMPT has its own request: only there classes are compared. WALLTIME is the last safe slot's:
 * it is decided once a run and passes all that waits for the same storage, so a request for it
 * would take the slot away and overtake the others. */
static enum fsm_status validate_request_checkpoint(const fsm_command *command,
                                                   struct fsm_outcome *outcome)
{
    Ckpt__V1__Purpose purpose = command->request_checkpoint->purpose;

    if (purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT ||
        purpose == CKPT__V1__PURPOSE__PURPOSE_WALLTIME) {
        outcome->current = purpose;
        return FSM_PURPOSE_RESERVED;
    }
    return check_id(command->request_checkpoint->allocation_id, outcome);
}

static enum fsm_status validate_cancel(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_range(command->cancel_checkpoint->checkpoint_id, 1, UINT64_MAX, outcome);
}

/* A sensitive claim says the highest class, which it has anyhow. Something must be needed, nodes or
 * GPUs. */
static enum fsm_status validate_preemption(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__RequestPreemptionRequest *request = command->request_preemption;

    bool sensitive = request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE;

    check_range(request->preemption_class, sensitive ? FSM_CLASS_MAX : 0, FSM_CLASS_MAX, outcome);
    check_range(request->nodes_needed, request->gpus_needed == 0, FSM_NODES_MAX, outcome);
    check_range(request->gpus_needed, 0, FSM_NODES_MAX * FSM_GPUS_PER_NODE_MAX, outcome);
    check_range(request->value_gpu_ms, 0, INT64_MAX, outcome);
    check_count(request->n_candidates, FSM_NODES_PER_ALLOCATION_MAX, outcome);
    check_count(request->n_useful_nodes, FSM_NODES_PER_ALLOCATION_MAX, outcome);
    check_id_or_empty(request->for_job, outcome);
    check_id_or_empty(request->home_vcluster, outcome);
    if (request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM &&
        request->home_vcluster[0] == '\0' && request->n_useful_nodes == 0 &&
        outcome->status == FSM_OK)
        outcome->status = FSM_INVALID_ARGUMENT; /* whose nodes? */
    for (size_t i = 0; i < request->n_candidates && outcome->status == FSM_OK; i++)
        check_id(request->candidates[i], outcome);
    for (size_t i = 0; i < request->n_useful_nodes && outcome->status == FSM_OK; i++)
        check_id(request->useful_nodes[i], outcome);
    return outcome->status;
}

static enum fsm_status validate_migration(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_id(command->request_migration->allocation_id, outcome);
}

static enum fsm_status validate_restart(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__RestartAllocationRequest *request = command->restart_allocation;

    check_id(request->allocation_id, outcome);
    check_nodes(request->n_nodes, request->nodes, false, outcome);
    return outcome->status;
}

/* The evaluator's batches: ids and sizes. Inputs without what they share explain nothing. */
static enum fsm_status validate_decisions(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__DecisionBatch *batch = command->decisions;

    check_count(batch->n_decisions, FSM_DECISIONS_PER_COMMAND_MAX, outcome);
    if (batch->basis != NULL)
        check_count(batch->basis->n_policy, FSM_INPUT_NUMBERS_MAX, outcome);
    for (size_t i = 0; i < batch->n_decisions && outcome->status == FSM_OK; i++) {
        const Ckpt__Log__V1__DecisionInputs *inputs = batch->decisions[i]->inputs;

        if (check_id(batch->decisions[i]->allocation_id, outcome) == FSM_OK)
            check_id_or_empty(batch->decisions[i]->spare_node_id, outcome);
        if (inputs == NULL)
            continue;
        check_range(batch->basis != NULL, 1, 1, outcome);
        check_count(inputs->n_columns, FSM_INPUT_NUMBERS_MAX, outcome);
        check_count(inputs->n_source_age_ms, FSM_INPUT_SOURCES_MAX, outcome);
    }
    return outcome->status;
}

/* A grant without bandwidth is only for what passes the limit: a victim writes even where nothing
 * is left. */
static enum fsm_status validate_grants(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__GrantBatch *batch = command->grants;

    check_count(batch->n_grants, FSM_DECISIONS_PER_COMMAND_MAX, outcome);
    for (size_t i = 0; i < batch->n_grants && outcome->status == FSM_OK; i++) {
        const Ckpt__Log__V1__Grant *grant = batch->grants[i];

        check_range(grant->checkpoint_id, 1, UINT64_MAX, outcome);
        check_range(grant->bytes_per_s, grant->bypass_budget ? 0 : 1, FSM_BANDWIDTH_MAX, outcome);
        check_range(grant->timeout_ms, 0, FSM_DURATION_MAX_MS, outcome);
    }
    return outcome->status;
}

/* Loose on purpose: a report that is refused here would block all later ones of its node, so apply
 * judges its content. */
static enum fsm_status validate_node_report(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__AgentReport *report = command->node_report->report;

    if (report == NULL)
        return FSM_INVALID_ARGUMENT;
    check_id(command->node_report->node_id, outcome);
    check_id_or_empty(report->allocation_id, outcome);
    check_range(report->sequence, 1, INT64_MAX, outcome);
    check_range(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED,
                CKPT__V1__REPORT_KIND__REPORT_KIND_READ_ENDED, outcome);
    return outcome->status;
}

bool fsm_platform_valid(const char *text)
{
    size_t length = 0;

    CHECK(text != NULL);
    for (const char *at = text; *at != '\0'; at++, length++)
        if (*at < ' ' || *at > '~')
            return false;
    return length < FSM_PLATFORM_BYTES;
}

static void check_platform_of(const char *field, const char *text, struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || fsm_platform_valid(text))
        return;
    outcome->subject = field;
    outcome->current = strlen(text);
    outcome->limit = FSM_PLATFORM_BYTES - 1;
    outcome->status = FSM_INVALID_ARGUMENT;
}

static enum fsm_status validate_node_seen(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->node_seen->node_id, outcome);
    check_platform_of("machine", command->node_seen->machine, outcome);
    check_platform_of("os", command->node_seen->os, outcome);
    check_id_or_empty(command->node_seen->domain, outcome);
    check_range(command->node_seen->state, CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY,
                CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST, outcome);
    check_range(command->node_seen->heard_ms, 0, FSM_TIME_MAX_MS, outcome);
    fsm_check_detail(command->node_seen->evidence, outcome);
    return fsm_check_detail(command->node_seen->probe, outcome);
}

/* Either a measurement, or that it is to be forgotten. */
static enum fsm_status validate_availability(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    check_id(command->target_availability->target_id, outcome);
    check_range(command->target_availability->write_bytes_per_s, 0,
                command->target_availability->forget_measured ? 0 : FSM_BANDWIDTH_MAX, outcome);
    return outcome->status;
}

/* What a change leaves out is filled with values that pass: the rest is judged as a whole one's
 * would be, and the whole by apply. */
static enum fsm_status validate_put_target(const fsm_command *command, struct fsm_outcome *outcome)
{
    char root[] = "/";
    Ckpt__V1__TargetSpec spec;

    if (command->put_target->spec == NULL)
        return FSM_INVALID_ARGUMENT;
    check_zeros(command->put_target->zeros, TARGET_ZEROS, outcome);
    if (outcome->status != FSM_OK)
        return outcome->status;
    spec = *command->put_target->spec; /* what is not said is said by the target that is known */
    if (spec.write_bytes_per_s == 0)
        spec.write_bytes_per_s = 1;
    if (spec.prefix[0] == '\0')
        spec.prefix = root;
    return validate_target_spec(&spec, outcome);
}

static enum fsm_status validate_set_policy(const fsm_command *command, struct fsm_outcome *outcome)
{
    if (command->set_policy->policy == NULL)
        return FSM_INVALID_ARGUMENT;
    return fsm_policy_check_values(command->set_policy->policy, outcome);
}

/* Nothing in it can be wrong: what it holds is only told to people. */
static enum fsm_status validate_nothing(const fsm_command *command, struct fsm_outcome *outcome)
{
    (void)command;
    (void)outcome;
    return FSM_OK;
}

static enum fsm_status validate_collected(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__CheckpointsCollected *collected = command->checkpoints_collected;

    for (size_t i = 0; i < collected->n_failed; i++)
        if (strlen(collected->failed[i]->reason) >= FSM_UNDELETED_REASON_BYTES)
            return FSM_INVALID_ARGUMENT;
    return check_count(collected->n_checkpoint_ids + collected->n_failed,
                       FSM_DECISIONS_PER_COMMAND_MAX, outcome);
}

static enum fsm_status validate_expire(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_count(command->expire_checkpoints->n_checkpoint_ids, FSM_EXPIRED_PER_COMMAND_MAX,
                       outcome);
}

static enum fsm_status validate_verify(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_count(command->verify_checkpoints->n_checkpoint_ids, FSM_EXPIRED_PER_COMMAND_MAX,
                       outcome);
}

static enum fsm_status validate_verified(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__CheckpointsVerified *verified = command->checkpoints_verified;

    for (size_t i = 0; i < verified->n_items; i++)
        if (strlen(verified->items[i]->detail) >= FSM_DETAIL_BYTES ||
            verified->items[i]->result == CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_UNSPECIFIED)
            return FSM_INVALID_ARGUMENT;
    return check_count(verified->n_items, FSM_VERIFIED_PER_COMMAND_MAX, outcome);
}

static enum fsm_status validate_drain_node(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->drain_node->node_id, outcome);
    return check_range(command->drain_node->deadline_ms, 0, FSM_DRAIN_MAX_MS, outcome);
}

static enum fsm_status validate_drain_target(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    return check_id(command->drain_target->target_id, outcome);
}

static enum fsm_status validate_scan_target(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_id(command->scan_target->target_id, outcome);
}

/* The names make a path below the target's prefix. */
static enum fsm_status validate_orphan(const Ckpt__V1__Orphan *orphan, struct fsm_outcome *outcome)
{
    const char *const ids[] = {orphan->allocation_id, orphan->tenant, orphan->project,
                               orphan->target_id};
    enum fsm_status status = orphan->checkpoint_id == 0 ? FSM_INVALID_ARGUMENT : FSM_OK;

    for (size_t i = 0; i < ARRAY_COUNT(ids) && status == FSM_OK; i++)
        status = check_id(ids[i], outcome);
    if (status == FSM_OK && orphan->owner[0] != '\0')
        status = check_id(orphan->owner, outcome);
    return status;
}

static enum fsm_status validate_remove_orphans(const fsm_command *command,
                                               struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__RemoveOrphans *named = command->remove_orphans;
    enum fsm_status status = check_count(named->n_orphans, FSM_ORPHANS_PER_COMMAND_MAX, outcome);

    for (size_t i = 0; i < named->n_orphans && status == FSM_OK; i++)
        status = validate_orphan(named->orphans[i], outcome);
    return status;
}

static enum fsm_status validate_remove_target(const fsm_command *command,
                                              struct fsm_outcome *outcome)
{
    return check_id(command->remove_target->target_id, outcome);
}

static enum fsm_status validate_remove_node(const fsm_command *command, struct fsm_outcome *outcome)
{
    return check_id(command->remove_node->node_id, outcome);
}

static enum fsm_status validate_node_off(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->node_off->node_id, outcome);
    check_range(command->node_off->witness, CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED,
                CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC, outcome);
    return fsm_check_detail(command->node_off->evidence, outcome);
}

static enum fsm_status validate_restart_choice(const fsm_command *command,
                                               struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__RestartChoice *choice = command->restart_choice;

    check_id(choice->allocation_id, outcome);
    if (choice->absent_node_id[0] != '\0')
        check_id(choice->absent_node_id, outcome);
    else
        check_nodes(choice->n_nodes, choice->nodes, true, outcome);
    return fsm_check_detail(choice->reason, outcome);
}

static enum fsm_status validate_hang(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->hang->allocation_id, outcome);
    check_range(command->hang->quiet_ms, 0, FSM_DURATION_MAX_MS, outcome);
    return fsm_check_detail(command->hang->evidence, outcome);
}

static enum fsm_status validate_pause_cluster(const fsm_command *command,
                                              struct fsm_outcome *outcome)
{
    return fsm_pause_check(command->pause_cluster, outcome);
}

/* The first epoch is cluster_init's. */
static enum fsm_status validate_new_epoch(const fsm_command *command, struct fsm_outcome *outcome)
{
    check_id(command->new_epoch->cluster_id, outcome);
    return check_range(command->new_epoch->epoch, 2, FSM_EPOCH_MAX, outcome);
}

/* Whether its numbers agree with the state's is for apply. */
static enum fsm_status validate_set_learned(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__SetLearned *learned = command->set_learned;

    check_range(learned->term, 1, INT64_MAX, outcome);
    check_range(learned->at_ms, 0, FSM_TIME_MAX_MS, outcome);
    if (outcome->status == FSM_OK && !fsm_learned_valid(learned))
        outcome->status = FSM_INVALID_ARGUMENT;
    return outcome->status;
}

static enum fsm_status validate_node_running(const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NodeRunning *seen = command->node_running;

    check_id(seen->node_id, outcome);
    check_range(seen->report_sequence, 0, INT64_MAX, outcome);
    check_range(seen->n_running, 1, FSM_RUNNING_PER_COMMAND_MAX, outcome);
    for (size_t i = 0; i < seen->n_running && outcome->status == FSM_OK; i++)
        check_id(seen->running[i]->allocation_id, outcome);
    return outcome->status;
}

/* 0 stays, or gives the field back to the policy. */
static enum fsm_status validate_put_tenant(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__TenantSpec *spec = command->put_tenant->spec;

    if (spec == NULL)
        return FSM_INVALID_ARGUMENT;
    check_id(spec->tenant, outcome);
    check_range(spec->max_bytes, 0, FSM_ALLOCATION_BYTES_MAX, outcome);
    check_range(spec->keep_complete, 0, FSM_COMPLETE_KEPT_MAX, outcome);
    return spec->retention_ms == 0
               ? outcome->status
               : check_range(spec->retention_ms, FSM_SECOND_MS, FSM_DURATION_MAX_MS, outcome);
}

static enum fsm_status validate_expire_over_quota(const fsm_command *command,
                                                  struct fsm_outcome *outcome)
{
    return check_count(command->expire_over_quota->n_checkpoint_ids, FSM_QUOTA_BATCH_MAX, outcome);
}

enum { COMMAND_FIRST = CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT };

/* By the number of the body; a command without its row would call NULL in its first test. */
static validator *const validators[] = {
#define V(name) [CKPT__LOG__V1__COMMAND__BODY_##name - COMMAND_FIRST]
    V(CLUSTER_INIT) = validate_cluster_init,
    V(MEMBER_FACTS) = validate_member_facts,
    V(REGISTER_ALLOCATION) = validate_register,
    V(UPDATE_ALLOCATION) = validate_update,
    V(END_ALLOCATION) = validate_end,
    V(REPORT_QUEUE) = validate_report_queue,
    V(REQUEST_CHECKPOINT) = validate_request_checkpoint,
    V(CANCEL_CHECKPOINT) = validate_cancel,
    V(REQUEST_PREEMPTION) = validate_preemption,
    V(REQUEST_MIGRATION) = validate_migration,
    V(RESTART_ALLOCATION) = validate_restart,
    V(DECISIONS) = validate_decisions,
    V(GRANTS) = validate_grants,
    V(NODE_REPORT) = validate_node_report,
    V(NODE_SEEN) = validate_node_seen,
    V(TARGET_AVAILABILITY) = validate_availability,
    V(PUT_TARGET) = validate_put_target,
    V(SET_POLICY) = validate_set_policy,
    V(TICK) = validate_nothing,
    V(LEADER_ELECTED) = validate_nothing,
    V(CHECKPOINTS_COLLECTED) = validate_collected,
    V(DRAIN_NODE) = validate_drain_node,
    V(NEW_EPOCH) = validate_new_epoch,
    V(MEMBER_ROLE) = validate_member_role,
    V(SET_LEARNED) = validate_set_learned,
    V(NODE_RUNNING) = validate_node_running,
    V(REMOVE_TARGET) = validate_remove_target,
    V(REMOVE_NODE) = validate_remove_node,
    V(PIN_CHECKPOINT) = validate_nothing,
    V(EXPIRE_CHECKPOINTS) = validate_expire,
    V(VERIFY_CHECKPOINTS) = validate_verify,
    V(CHECKPOINTS_VERIFIED) = validate_verified,
    V(DRAIN_TARGET) = validate_drain_target,
    V(PUT_TENANT) = validate_put_tenant,
    V(EXPIRE_OVER_QUOTA) = validate_expire_over_quota,
    V(SCAN_TARGET) = validate_scan_target,
    V(REMOVE_ORPHANS) = validate_remove_orphans,
    V(ADOPT_CLUSTER) = validate_nothing,
    V(NODE_OFF) = validate_node_off,
    V(RESTART_CHOICE) = validate_restart_choice,
    V(HANG) = validate_hang,
    V(AUDIT_CALLS) = fsm_validate_audit_calls,
    V(AUDIT_SHIPPED) = validate_nothing,
    V(REVOKE_CERTIFICATE) = fsm_validate_revoke,
    V(PAUSE_CLUSTER) = validate_pause_cluster,
    V(START_DRILL) = fsm_validate_start_drill,
    V(PROBE_DRILL) = fsm_validate_probe_drill,
    V(TELL_DRILL) = fsm_validate_tell_drill,
#undef V
};

/* Only a client's command can grow without the leader's doing; the leader's batches have counts. */
static enum fsm_status validate_request(const fsm_command *command,
                                        const struct fsm_command_info *info,
                                        struct fsm_outcome *outcome)
{
    if (command->request_id[0] == '\0')
        return info->from_client ? FSM_REQUEST_ID_MISSING : FSM_OK;
    return check_id(command->request_id, outcome);
}

enum fsm_status fsm_validate_command(const fsm_command *command, struct fsm_outcome *ret_outcome)
{
    CHECK(ret_outcome != NULL);
    CHECK(command != NULL);
    return fsm_validate_packed(command, ckpt__log__v1__command__get_packed_size(command),
                               ret_outcome);
}

/* A short command holds no over-long text, and but one part that has fields to look at: its body.
 * The walk over all that it could hold would take longer than the one through the body. */
static enum fsm_status validate_shape(const fsm_command *command, size_t packed_bytes,
                                      struct fsm_outcome *outcome)
{
    const ProtobufCMessage *whole = &command->base;

    if (packed_bytes > FSM_PREFIX_MAX_BYTES || command->body_case == 0 ||
        command->register_allocation == NULL || whole->n_unknown_fields > 0)
        return fsm_validate_fields(whole, packed_bytes, outcome);
    return fsm_validate_fields(&command->register_allocation->base, packed_bytes, outcome);
}

/* From the outside in: the shape, then the stamp and the request id, then the body, whose check may
 * trust the shape. Only what clients send has a size of its own to keep. */
enum fsm_status fsm_validate_packed(const fsm_command *command, size_t packed_bytes,
                                    struct fsm_outcome *ret_outcome)
{
    const struct fsm_command_info *info = fsm_command_info((uint32_t)command->body_case);
    size_t number = (size_t)command->body_case - COMMAND_FIRST;
    enum fsm_status status;

    CHECK(ret_outcome != NULL);
    ret_outcome->status = FSM_OK;
    status = validate_shape(command, packed_bytes, ret_outcome);
    if (status == FSM_OK && command->caller != NULL) /* beside the body */
        status = fsm_validate_fields(&command->caller->base, packed_bytes, ret_outcome);
    if (status != FSM_OK)
        return ret_outcome->status = status;
    /* a body of this case is never absent, but a oneof may be unset */
    if (info == NULL || command->register_allocation == NULL)
        return ret_outcome->status = FSM_INVALID_ARGUMENT;
    CHECK(number < ARRAY_COUNT(validators));
    status = check_range(command->now_ms, 0, FSM_TIME_MAX_MS, ret_outcome);
    if (status == FSM_OK)
        status = validate_request(command, info, ret_outcome);
    if (status == FSM_OK)
        status = validators[number](command, ret_outcome);
    if (status == FSM_OK && info->from_client)
        status = check_count(packed_bytes, FSM_COMMAND_MAX_BYTES, ret_outcome);
    return ret_outcome->status = status;
}
