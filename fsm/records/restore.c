/* One record of a snapshot back into a state that is being built.
 *
 * Errors   false when the record contradicts the ones before it: a slot taken twice, a name
 *          unknown, a number out of its range. What remains (sums, indices, invariants, which
 *          fields of a record may stand together) is found by fsm_check over the finished state:
 *          whatever a CHECK would stop the program for later must be refused here or there.
 */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/core/request_fields.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"
#include "fsm/records/snapshot.h"
#include "fsm/revoked.h"

#define NUMBERS_LEFT (UINT64_C(1) << 32) /* more than are applied until the next snapshot is read */
#define BODY(name)   CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_##name

static bool restore_totals(uint64_t *totals, size_t room, const uint64_t *from, size_t count)
{
    if (count == room)
        memcpy(totals, from, count * sizeof(*from));
    return count == room;
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

/* Numbers that only grow, with room for what will be applied: one that wrapped around would stop
 * the program. */
static bool header_numbers_within(const Ckpt__Log__V1__SnapshotHeader *header)
{
    const uint64_t sequence_end = (UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - NUMBERS_LEFT;
    const uint64_t end = UINT64_MAX - NUMBERS_LEFT;

    return header->checkpoint_sequence < sequence_end && header->command_count < sequence_end &&
           header->preemption_sequence < end && header->next_event_sequence < end &&
           header->applied_index < end;
}

static bool restore_header(struct fsm *fsm, const Ckpt__Log__V1__SnapshotHeader *header)
{
    if (header->version != SNAPSHOT_VERSION || strlen(header->cluster_id) >= FSM_ID_BYTES ||
        header->n_checkpoints_total != FSM_STATES_CHECKPOINT || header->epoch > FSM_EPOCH_MAX ||
        !header_numbers_within(header) || header->undeleted_hand >= FSM_UNDELETED_MAX ||
        header->now_ms > FSM_TIME_MAX_MS || header->next_event_sequence == 0 ||
        header->passive_since_ms > FSM_TIME_MAX_MS || header->adopted_at_ms > header->now_ms ||
        header->adopted_shift_ms > header->adopted_at_ms)
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
    RECORD_COPY(FSM_COUNTERS, header, fsm);
    fsm->member_id_max = header->member_id_max;
    fsm->undeleted_hand = header->undeleted_hand;
    fsm->undeleted_forgotten = header->undeleted_forgotten;
    fsm->undeleted_forgotten_bytes = header->undeleted_forgotten_bytes;
    fsm->retention_review = header->retention_review;
    fsm->passive_since_ms = header->passive_since_ms;
    fsm->adopted_at_ms = header->adopted_at_ms;
    fsm->adopted_shift_ms = header->adopted_shift_ms;
    if (header->pause != NULL && !fsm_pause_restore(fsm, header->pause))
        return false;
    fsm->members_index = header->applied_index;
    return restore_fleet(fsm, header);
}

static bool restore_policy(struct fsm *fsm, const Ckpt__V1__Policy *policy)
{
    struct fsm_outcome ignored;

    if (fsm_policy_check_values(policy, &ignored) != FSM_OK)
        return false;
    fsm_policy_merge(&fsm->policy, policy);
    return fsm_policy_check_order(&fsm->policy, &ignored) == FSM_OK;
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
    bool within = record->spec != NULL;

    if (fsm->tenant_count == FSM_TENANTS_MAX || record->account == NULL ||
        record->at_ms > fsm->now_ms || !within)
        return false;
    RECORD_CHECK(FSM_TENANT_SPEC, record->spec);
    RECORD_CHECK(FSM_TENANT_STATUS, record);
    if (!within)
        return false;
    for (uint32_t i = 0; i < fsm->tenant_count; i++)
        if (strcmp(fsm->tenants[i]->id, record->spec->tenant) == 0)
            return false;
    tenant = fsm_tenant_create(fsm, record->spec->tenant);
    fsm_account_from_message(record->account, &tenant->account);
    RECORD_COPY(FSM_TENANT_SPEC, record->spec, &tenant->quota);
    RECORD_COPY(FSM_TENANT_STATUS, record, &tenant->quota);
    tenant->at_ms = record->at_ms;
    return fsm_account_balanced(&tenant->account);
}

static bool restore_drill(struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    return fsm_drill_valid(fsm, drill) && fsm_drill_add(fsm, drill) != NULL;
}

static bool restore_revoked(struct fsm *fsm, const Ckpt__Log__V1__RevokedRecord *record)
{
    const struct fsm_revoked like = {record->serial, record->note, record->at_ms};

    return fsm_serial_valid(record->serial) && record->at_ms <= fsm->now_ms &&
           fsm_revoked_add(fsm, &like);
}

static bool restore_calibration(struct fsm *fsm, const Ckpt__Log__V1__CalibrationRecord *record)
{
    if (record->calibration == NULL || record->at_ms > fsm->now_ms)
        return false;
    fsm->calibration_at_ms = record->at_ms;
    return fsm_calibration_from_message(record->calibration, &fsm->calibration);
}

static bool target_within(const Ckpt__Log__V1__TargetRecord *record)
{
    bool within = record->slot < FSM_TARGETS_MAX && record->spec != NULL;

    if (!within)
        return false;
    RECORD_CHECK(FSM_TARGET_SPEC, record->spec);
    RECORD_CHECK(FSM_TARGET_STATUS, record);
    RECORD_CHECK(FSM_TARGET_INSIDE, record);
    return within;
}

static bool restore_target(struct fsm *fsm, const Ckpt__Log__V1__TargetRecord *record)
{
    const Ckpt__V1__TargetSpec *spec = record->spec;
    struct fsm_outcome ignored;
    struct target *target;

    if (!target_within(record) || !id_valid(spec->target_id) ||
        target_find_slot(fsm, record->slot) != NULL ||
        target_find_any(fsm, spec->target_id) != NULL || (record->removed && spec->is_default))
        return false;
    fsm_target_create(fsm, record->slot, spec->target_id);
    CHECK(fsm_put_target(fsm, spec, &ignored) == FSM_OK);
    target = target_edit(fsm, target_at(fsm, record->slot));
    target->view.made = record->made;
    RECORD_COPY(FSM_TARGET_STATUS, record, &target->view);
    fsm_target_budget(target);
    RECORD_COPY(FSM_TARGET_INSIDE, record, target);
    fsm_timer_set(&fsm->timers, &target->timer, target->failover_at_ms);
    return (target->failover_at_ms == 0 && !target->view.failed_over) || !target->view.available;
}

static bool node_within(const Ckpt__Log__V1__NodeRecord *record)
{
    bool within = record->slot < FSM_NODES_MAX && id_valid(record->node_id) &&
                  fsm_platform_valid(record->machine) && fsm_platform_valid(record->os) &&
                  (record->domain[0] == '\0' || id_valid(record->domain)) &&
                  (unsigned)record->state < FSM_STATES_NODE &&
                  (record->off_at_ms == 0 || record->silent_since_ms != 0) &&
                  (record->drain_until_ms == 0 || !record->removed);

    RECORD_CHECK(FSM_NODE, record);
    return within;
}

static bool restore_node(struct fsm *fsm, const Ckpt__Log__V1__NodeRecord *record)
{
    struct node *node;

    if (!node_within(record) || node_find_slot(fsm, record->slot) != NULL ||
        node_find_any(fsm, record->node_id) != NULL)
        return false;
    node = fsm_node_create(fsm, record->slot, record->node_id);
    RECORD_TAKE(FSM_NODE, fsm, record, &node->view);
    RECORD_COPY(FSM_NODE_INSIDE, record, node);
    fsm_timer_set(&fsm->timers, &node->timer, node->view.drain_until_ms);
    fsm_node_changed(fsm, node);
    return true;
}

static bool share_within(const Ckpt__Log__V1__ShareRecord *record)
{
    bool within = true;

    RECORD_CHECK(FSM_SHARE_SPEC, record);
    RECORD_CHECK(FSM_SHARE_KEPT, record);
    RECORD_CHECK(FSM_SHARE_PART, record);
    return within;
}

static bool shares_valid(struct fsm *fsm, size_t count, Ckpt__Log__V1__ShareRecord *const *shares)
{
    uint64_t stamp = ++fsm->stamp;

    if (count > FSM_NODES_PER_ALLOCATION_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct node *node = share_within(shares[i])
                                ? node_edit(fsm, node_find_slot(fsm, shares[i]->node_slot))
                                : NULL;

        if (node == NULL || node->stamp == stamp)
            return false;
        node->stamp = stamp;
    }
    return true;
}

/* A node is one of the job's, or has left it once. */
static bool departed_valid(struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    uint64_t stamp = ++fsm->stamp;
    bool within = record->n_departed <= FSM_DEPARTED_MAX;

    for (size_t i = 0; i < record->n_shares; i++)
        node_edit(fsm, node_at(fsm, record->shares[i]->node_slot))->stamp = stamp;
    for (size_t i = 0; within && i < record->n_departed; i++) {
        struct node *node;

        RECORD_CHECK(FSM_DEPARTED, record->departed[i]);
        node = within ? node_edit(fsm, node_find_slot(fsm, record->departed[i]->node_slot)) : NULL;
        if (node == NULL || node->stamp == stamp)
            return false;
        node->stamp = stamp;
    }
    return within;
}

/* One that was removed is named by what ended alone. */
static bool target_valid(const struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    const struct target *target = target_find_slot(fsm, record->target_slot);
    Ckpt__V1__AllocationState state = record->allocation->state;

    return target != NULL && (!target->removed || target->view.draining ||
                              state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED ||
                              state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED);
}

static bool allocation_within(const Ckpt__Log__V1__AllocationRecord *record)
{
    bool within = record->slot < FSM_ALLOCATIONS_MAX && record->account != NULL &&
                  record->learned != NULL && record->allocation != NULL &&
                  record->allocation->spec != NULL;

    if (!within)
        return false;
    RECORD_CHECK(FSM_ALLOCATION_SPEC, record->allocation->spec);
    RECORD_CHECK(FSM_ALLOCATION_STATUS, record->allocation);
    RECORD_CHECK(FSM_ALLOCATION_KEPT, record);
    RECORD_CHECK(FSM_ALLOCATION_INSIDE, record);
    RECORD_CHECK(FSM_ALLOCATION_LEARNED, record->learned);
    return within;
}

static bool allocation_valid(struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    const Ckpt__V1__Allocation *seen = record->allocation;

    if (!allocation_within(record) || !id_valid(seen->spec->allocation_id) ||
        allocation_find_slot(fsm, record->slot) != NULL ||
        allocation_find(fsm, seen->spec->allocation_id) != NULL || !target_valid(fsm, record) ||
        seen->state < CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
        seen->state > CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
        (record->terminating && !fsm_allocation_move_allowed(seen->state, record->plan_state)) ||
        record->n_shares == 0)
        return false;
    return shares_valid(fsm, record->n_shares, record->shares) &&
           shares_valid(fsm, record->n_next_shares, record->next_shares) &&
           departed_valid(fsm, record);
}

static void restore_next(struct fsm *fsm, struct allocation *allocation,
                         const Ckpt__Log__V1__AllocationRecord *record)
{
    struct fsm_node_share *next;

    CHECK(allocation->view.id != NULL);
    if (record->n_next_shares == 0)
        return;
    next = check_calloc(record->n_next_shares, sizeof(*next));
    for (size_t i = 0; i < record->n_next_shares; i++) {
        RECORD_COPY(FSM_SHARE_SPEC, record->next_shares[i], &next[i]);
        RECORD_COPY(FSM_SHARE_KEPT, record->next_shares[i], &next[i]);
    }
    fsm_scale_set_next(fsm, allocation, next, (uint32_t)record->n_next_shares);
}

static void restore_shares(struct fsm *fsm, struct allocation *allocation,
                           const Ckpt__Log__V1__AllocationRecord *record)
{
    struct fsm_node_share *shares =
        fsm_allocation_set_shares(fsm, allocation, (uint32_t)record->n_shares);

    CHECK(allocation->view.id != NULL);
    for (size_t i = 0; i < record->n_shares; i++) {
        struct assignment *part = &allocation->assignments[i];

        RECORD_COPY(FSM_SHARE_SPEC, record->shares[i], &shares[i]);
        RECORD_COPY(FSM_SHARE_KEPT, record->shares[i], &shares[i]);
        RECORD_COPY(FSM_SHARE_PART, record->shares[i], part);
        allocation->starting_count += part->starting;
        allocation->terminated_count += part->terminated;
        allocation->exited_count += part->exited;
        allocation->restored_count += part->restored;
        allocation->joined_count += part->joined;
    }
    fsm_allocation_name_nodes(fsm, allocation);
    fsm_allocation_sum_shares(allocation);
}

static bool restore_allocation(struct fsm *fsm, const Ckpt__Log__V1__AllocationRecord *record)
{
    struct allocation *allocation;

    if (!allocation_valid(fsm, record))
        return false;
    allocation = fsm_allocation_create(fsm, record->slot, record->allocation->spec->allocation_id);
    fsm_spec_from_message(fsm, record->allocation->spec, &allocation->view);
    RECORD_TAKE(FSM_ALLOCATION_STATUS, fsm, record->allocation, &allocation->view);
    RECORD_COPY(FSM_ALLOCATION_KEPT, record, &allocation->view);
    RECORD_COPY(FSM_ALLOCATION_LEARNED, record->learned, &allocation->view.learned);
    RECORD_COPY(FSM_ALLOCATION_INSIDE, record, allocation);
    fsm_account_from_message(record->account, &allocation->account);
    restore_shares(fsm, allocation, record);
    restore_next(fsm, allocation, record);
    for (size_t i = 0; i < record->n_departed; i++)
        fsm_departed_adopt(fsm, allocation, record->departed[i]->node_slot,
                           record->departed[i]->run);
    fsm_scale_adopt(fsm, allocation);
    fsm_allocation_adopt(fsm, allocation);
    if (fsm_allocation_runs(allocation))
        fsm_allocation_assign(fsm, allocation);
    else
        fsm_unended_begin(fsm, allocation);
    fsm_timer_set(&fsm->timers, &allocation->timer, record->timer_at_ms);
    return fsm_read_restore(fsm, allocation) && fsm_account_adopt(fsm, allocation);
}

static bool checkpoint_within(const Ckpt__Log__V1__CheckpointRecord *record)
{
    bool within = record->checkpoint != NULL;

    if (!within)
        return false;
    RECORD_CHECK(FSM_CHECKPOINT_STATUS, record->checkpoint);
    RECORD_CHECK(FSM_CHECKPOINT_KEPT, record);
    RECORD_CHECK(FSM_CHECKPOINT_INSIDE, record);
    return within && fsm_platform_valid(record->machine) && fsm_platform_valid(record->os) &&
           (record->checkpoint->label[0] == '\0' || label_valid(record->checkpoint->label));
}

static bool shard_valid(const struct fsm *fsm, const Ckpt__Log__V1__ShardRecord *record)
{
    bool within = node_find_slot(fsm, record->node_slot) != NULL &&
                  (record->verified || record->n_places == 0) &&
                  record->manifest_sha256.len == (record->verified ? 32 : 0);

    RECORD_CHECK(FSM_SHARD, record);
    return within;
}

/* Where it stands, and what may hold there. */
static bool checkpoint_state_valid(const struct allocation *allocation,
                                   const Ckpt__Log__V1__CheckpointRecord *record)
{
    const Ckpt__V1__Checkpoint *seen = record->checkpoint;
    bool writes = seen->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED ||
                  seen->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;

    CHECK(allocation->view.id != NULL);
    if (seen->state < CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED ||
        seen->state > CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_SUPERSEDED)
        return false;
    if (fsm_checkpoint_state_active(seen->state) &&
        (allocation->view.active_checkpoint_id != 0 || record->expired))
        return false;
    return writes ||
           (seen->granted_bytes_per_s == 0 && !record->bypass_budget && !record->without_place);
}

static bool checkpoint_valid(const struct fsm *fsm, const Ckpt__Log__V1__CheckpointRecord *record)
{
    const struct allocation *allocation = allocation_find_slot(fsm, record->allocation_slot);
    const Ckpt__V1__Checkpoint *seen = record->checkpoint;

    if (!checkpoint_within(record) || !checkpoint_id_valid(seen->checkpoint_id) ||
        strlen(seen->detail) >= FSM_DETAIL_BYTES || allocation == NULL ||
        target_find_slot(fsm, record->target_slot) == NULL ||
        fsm_registry_next(fsm, seen->checkpoint_id - 1) != NULL || record->n_shards == 0 ||
        record->n_shards > FSM_NODES_PER_ALLOCATION_MAX ||
        allocation->checkpoint_count >= FSM_CHECKPOINTS_PER_ALLOCATION_MAX ||
        seen->deferred_ms > record->max_deferral_ms ||
        record->deferred_before_ms > seen->deferred_ms ||
        !checkpoint_state_valid(allocation, record))
        return false;
    for (size_t i = 0; i < record->n_shards; i++)
        if (!shard_valid(fsm, record->shards[i]) ||
            !fsm_copies_valid(fsm, record->target_slot, record->shards[i]->places,
                              record->shards[i]->n_places))
            return false;
    return true;
}

static void restore_shard(const Ckpt__Log__V1__ShardRecord *from, struct fsm_shard *to)
{
    CHECK(to->node_slot < FSM_NODES_MAX);
    RECORD_COPY(FSM_SHARD, from, to);
    to->place_count = (uint32_t)from->n_places;
    for (size_t i = 0; i < from->n_places; i++)
        to->places[i] = from->places[i];
    if (from->verified)
        memcpy(to->manifest_sha256, from->manifest_sha256.data, sizeof(to->manifest_sha256));
}

static void restore_checkpoint_indices(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));

    fsm_checkpoint_link(fsm, checkpoint);
    fsm_checkpoint_adopt(fsm, checkpoint);
    target->view.granted_bytes_per_s += checkpoint->view.granted_bytes_per_s;
    if (fsm_checkpoint_writes(checkpoint))
        target->view.writing_count += checkpoint->view.shard_count;
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
        basis_find_slot(fsm, record->slot) != NULL || fsm_basis_find(fsm, record->basis) != NULL)
        return false;
    fsm_basis_create(fsm, record->slot, record->basis);
    return true;
}

static bool inputs_valid(const struct fsm *fsm, const Ckpt__Log__V1__InputsRecord *record)
{
    return record == NULL ||
           (record->inputs != NULL && basis_find_slot(fsm, record->basis_slot) != NULL &&
            record->inputs->n_columns <= FSM_INPUT_NUMBERS_MAX &&
            record->inputs->n_source_age_ms <= FSM_INPUT_SOURCES_MAX);
}

static void restore_inputs(struct fsm *fsm, struct checkpoint *checkpoint,
                           const Ckpt__Log__V1__InputsRecord *record)
{
    struct basis *basis;

    CHECK(checkpoint->view.id != 0);
    if (record == NULL)
        return;
    basis = basis_edit(fsm, basis_at(fsm, record->basis_slot));
    basis->reference_count++;
    fsm_checkpoint_set_inputs(checkpoint, basis, record->index, record->term, record->inputs);
}

static bool restore_verification(struct fsm *fsm, struct checkpoint *checkpoint,
                                 const Ckpt__Log__V1__VerificationRecord *record)
{
    struct fsm_verification view = {.checkpoint_id = checkpoint->view.id};
    bool within = true;

    if (record == NULL)
        return true;
    RECORD_CHECK(FSM_VERIFICATION, record);
    RECORD_COPY(FSM_VERIFICATION, record, &view);
    return within && fsm_verify_adopt(fsm, checkpoint, &view);
}

static bool restore_checkpoint(struct fsm *fsm, const Ckpt__Log__V1__CheckpointRecord *record)
{
    struct checkpoint *checkpoint;

    if (!checkpoint_valid(fsm, record) || !inputs_valid(fsm, record->inputs))
        return false;
    checkpoint =
        fsm_checkpoint_create(fsm, record->checkpoint->checkpoint_id,
                              allocation_edit(fsm, allocation_at(fsm, record->allocation_slot)));
    RECORD_TAKE(FSM_CHECKPOINT_STATUS, fsm, record->checkpoint, &checkpoint->view);
    if (record->checkpoint->terms != NULL)
        checkpoint->view.terms = (const Ckpt__V1__DecisionTerms *)fsm_message_copy(
            fsm, &record->checkpoint->terms->base);
    RECORD_TAKE(FSM_CHECKPOINT_KEPT, fsm, record, &checkpoint->view);
    RECORD_COPY(FSM_CHECKPOINT_INSIDE, record, checkpoint);
    fsm_checkpoint_set_detail(fsm, checkpoint, record->checkpoint->detail);
    fsm_checkpoint_set_shards(fsm, checkpoint, (uint32_t)record->n_shards);
    for (size_t i = 0; i < record->n_shards; i++)
        restore_shard(record->shards[i], &checkpoint->shards[i]);
    fsm_checkpoint_name_nodes(fsm, checkpoint);
    restore_inputs(fsm, checkpoint, record->inputs);
    restore_checkpoint_indices(fsm, checkpoint);
    return fsm_copies_restore(fsm, checkpoint) &&
           restore_verification(fsm, checkpoint, record->verification);
}

static bool undeleted_within(const Ckpt__Log__V1__UndeletedRecord *record)
{
    bool within =
        record->place < FSM_UNDELETED_MAX && strlen(record->reason) < FSM_UNDELETED_REASON_BYTES;

    RECORD_CHECK(FSM_UNDELETED, record);
    RECORD_CHECK(FSM_UNDELETED_KEPT, record);
    return within;
}

static bool restore_undeleted(struct fsm *fsm, const Ckpt__Log__V1__UndeletedRecord *record)
{
    struct checkpoint *checkpoint =
        checkpoint_edit(fsm, checkpoint_find(fsm, record->checkpoint_id));
    struct undeleted *undeleted;

    if (!undeleted_within(record) || !checkpoint_id_valid(record->checkpoint_id) ||
        fsm->undeleted[record->place] != NULL ||
        (checkpoint != NULL && checkpoint->view.target_slot != record->target_slot) ||
        fsm_undeleted_find(fsm, record->checkpoint_id) != NULL ||
        target_find_slot(fsm, record->target_slot) == NULL || !id_valid(record->allocation_id) ||
        !id_valid(record->tenant) || !id_valid(record->project) ||
        (!record->given && (record->node_slot != 0 || record->given_at_ms != 0)))
        return false;
    undeleted = fsm_undeleted_place(fsm, record->place, record->checkpoint_id, record->target_slot);
    RECORD_TAKE(FSM_UNDELETED, fsm, record, &undeleted->view);
    RECORD_TAKE(FSM_UNDELETED_KEPT, fsm, record, &undeleted->view);
    if (checkpoint != NULL)
        fsm_undeleted_attach(fsm, undeleted, checkpoint);
    return !record->given || fsm_removal_link(fsm, undeleted);
}

static bool restore_queue(struct fsm *fsm, const Ckpt__Log__V1__QueueRecord *record)
{
    struct queue *queue = &fsm->queues[fsm->queue_count];

    if (record->report == NULL || fsm->queue_count == FSM_QUEUES_MAX)
        return false;
    RECORD_COPY(FSM_QUEUE, record, queue);
    queue->report = (Ckpt__V1__ReportQueueRequest *)fsm_message_copy(fsm, &record->report->base);
    queue->vcluster = fsm_intern(fsm, record->report->vcluster);
    fsm->queue_count++;
    return true;
}

static bool victim_within(const Ckpt__Log__V1__VictimRecord *record)
{
    bool within = id_valid(record->allocation_id);

    RECORD_CHECK(FSM_VICTIM, record);
    return within;
}

static bool victim_valid(const struct fsm *fsm, const Ckpt__Log__V1__VictimRecord *record)
{
    if (!victim_within(record) || record->n_node_slots > FSM_NODES_PER_ALLOCATION_MAX)
        return false;
    for (size_t i = 0; i < record->n_node_slots; i++)
        if (node_find_slot(fsm, record->node_slots[i]) == NULL)
            return false;
    return true;
}

static bool preemption_within(const Ckpt__Log__V1__PreemptionRecord *record)
{
    bool within = record->preemption_id != 0 && record->acting_class <= FSM_CLASS_MAX;

    RECORD_CHECK(FSM_PREEMPTION, record);
    return within;
}

static bool preemption_valid(const struct fsm *fsm, const Ckpt__Log__V1__PreemptionRecord *record)
{
    bool waits = record->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;

    if (!preemption_within(record) || record->preemption_id > fsm->preemption_sequence ||
        fsm->preemption_sequence - record->preemption_id >= FSM_PREEMPTIONS_MAX ||
        preemption_find(fsm, record->preemption_id) != NULL || record->request == NULL ||
        record->n_victims > FSM_VICTIMS_MAX || waits != (record->deadline_ms != 0))
        return false;
    for (size_t i = 0; i < record->n_victims; i++)
        if (!victim_valid(fsm, record->victims[i]))
            return false;
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

    CHECK(preemption->view.id != 0);
    RECORD_TAKE(FSM_VICTIM, fsm, record, victim);
    if (record->n_node_slots > 0)
        memcpy(slots, record->node_slots, record->n_node_slots * sizeof(*slots));
    victim->node_count = (uint32_t)record->n_node_slots;
    victim->node_slots = slots;
    for (uint32_t i = 0; i < victim->node_count; i++)
        fsm_node_refer(fsm, victim->node_slots[i]);
    if (record->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING &&
        record->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING)
        return true;
    allocation = allocation_edit(fsm, allocation_find(fsm, record->allocation_id));
    if (allocation == NULL || allocation->view.preemption_id != 0)
        return false;
    allocation->view.preemption_id = preemption->view.id;
    return true;
}

static bool restore_preemption(struct fsm *fsm, const Ckpt__Log__V1__PreemptionRecord *record)
{
    struct preemption *preemption;

    if (!preemption_valid(fsm, record))
        return false;
    preemption = fsm_preemption_place(fsm, record->preemption_id);
    RECORD_COPY(FSM_PREEMPTION, record, &preemption->view);
    preemption->view.acting_class = (uint8_t)record->acting_class;
    preemption->view.request =
        (const Ckpt__V1__RequestPreemptionRequest *)fsm_message_copy(fsm, &record->request->base);
    for (size_t i = 0; i < record->n_victims; i++)
        if (!restore_victim(fsm, preemption, record->victims[i]))
            return false;
    fsm_timer_set(&fsm->timers, &preemption->timer, record->deadline_ms);
    return true;
}

static bool restore_past_request(struct fsm *fsm, const Ckpt__Log__V1__SessionRecord *record)
{
    struct fsm_outcome outcome = {.status = (enum fsm_status)record->status,
                                  .index = record->index,
                                  .checkpoint_id = record->checkpoint_id,
                                  .preemption_id = record->preemption_id,
                                  .current = record->current,
                                  .limit = record->limit,
                                  .victim_count = (uint32_t)record->n_victims};

    struct request_fields fields = {0};
    struct request request = {.id = record->request_id,
                              .content_hash = record->content_hash,
                              .hash = fsm_hash_text(record->request_id),
                              .fields = &fields};

    if (!id_valid(record->request_id) || fsm_past_request_find(fsm, &request) != NULL ||
        fsm_command_info(record->command) == NULL || record->status >= fsm_status_count() ||
        record->index > fsm->index || record->at_ms > fsm->now_ms ||
        record->n_victims > FSM_VICTIMS_MAX || fsm->past_request_count >= FSM_PAST_REQUESTS_MAX ||
        record->fields.len > sizeof(fields.prints) || record->fields.len % REQUEST_FIELD_BYTES != 0)
        return false;
    if (record->fields.len > 0)
        memcpy(fields.prints, record->fields.data, record->fields.len);
    fields.count = (uint8_t)(record->fields.len / REQUEST_FIELD_BYTES);
    for (size_t i = 0; i < record->n_victims; i++) {
        if (!id_valid(record->victims[i]->allocation_id))
            return false;
        fsm_copy_id(outcome.victims[i].allocation_id, record->victims[i]->allocation_id);
        outcome.victims[i].checkpoint_id = record->victims[i]->checkpoint_id;
        outcome.victims[i].node_count = record->victims[i]->node_count;
    }
    fsm_past_request_add(fsm, &request, (uint8_t)record->command, record->at_ms, &outcome);
    return true;
}

/* The ring's events are the last ones before next_event_sequence, without gaps: the first record
 * says how many. */
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
    event = fsm_event_edit(fsm, source->sequence);
    fsm_event_fill(fsm, event, source);
    fsm->event_count++;
    return true;
}

bool fsm_restore_record(struct fsm *fsm, const snapshot_record *record)
{
    CHECK(record != NULL);
    switch (record->body_case) {
    case BODY(HEADER):
        return restore_header(fsm, record->header);
    case BODY(POLICY):
        return restore_policy(fsm, record->policy);
    case BODY(MEMBER):
        return restore_member(fsm, record->member);
    case BODY(TENANT):
        return restore_tenant(fsm, record->tenant);
    case BODY(DRILL):
        return restore_drill(fsm, record->drill);
    case BODY(CALIBRATION):
        return restore_calibration(fsm, record->calibration);
    case BODY(REVOKED):
        return restore_revoked(fsm, record->revoked);
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
        return restore_past_request(fsm, record->session);
    case BODY(EVENT):
        return restore_event(fsm, record->event);
    case BODY(AUDIT_HEAD):
        return audit_restore_head(fsm, record->audit_head);
    case BODY(AUDIT):
        return audit_restore(fsm, record->audit);
    case BODY(FOOTER):
    case CKPT__LOG__V1__SNAPSHOT_RECORD__BODY__NOT_SET:
    default: /* protobuf-c adds a value that only sizes the enum */
        return false;
    }
}
