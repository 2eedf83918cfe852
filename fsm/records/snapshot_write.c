/* The state's parts as records (proto/ckpt/log/v1/snapshot.proto); the whole state at once. In
 * slices: snapshot_take.c. Shapes: one record in memory at a time. Pointers into the state are
 * borrowed, nothing is copied but packed bytes. */
#include <malloc.h>

#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/core/request_fields.h"
#include "fsm/records/snapshot.h"
#include "fsm/revoked.h"

enum { FEW_WORDS = 128 }; /* messages about this many bytes need no heap */

/* Bytes: a number is at most a tag below 2,048 and ten; a record is a field of its own. */
enum { FIELD_MOST = 12, RECORD_HEAD_MOST = 16, WIRE_BYTES = 2 };

/* Which one of a SnapshotRecord's bodies. */
typedef Ckpt__Log__V1__SnapshotRecord__BodyCase snapshot_body;
#define BODY(name) CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_##name

static uint8_t *put_varint(uint8_t *at, size_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

/* A SnapshotRecord with this body, which takes `most` bytes at most. It is put together by hand:
 * protobuf-c would look at each of the bodies that it does not have, and move the one that it
 * has. */
static void write_within(struct snapshot_writer *writer, snapshot_body number,
                         const ProtobufCMessage *body, size_t most)
{
    uint8_t head[RECORD_HEAD_MOST], *head_end, *at;
    size_t length, head_bytes;

    CHECK(writer->write != NULL);
    if (writer->failed)
        return;
    if (RECORD_HEAD_MOST + most > writer->capacity) {
        writer->capacity = 2 * (RECORD_HEAD_MOST + most);
        writer->buffer = check_realloc(writer->buffer, writer->capacity, 1);
    }
    length = protobuf_c_message_pack(body, writer->buffer + RECORD_HEAD_MOST);
    CHECK(length <= most);
    head_end = put_varint(head + SNAPSHOT_LENGTH_BYTES, (size_t)number << 3 | WIRE_BYTES);
    head_end = put_varint(head_end, length);
    head_bytes = (size_t)(head_end - head);
    length += head_bytes - SNAPSHOT_LENGTH_BYTES;
    CHECK(length <= SNAPSHOT_RECORD_MAX);
    for (size_t i = 0; i < SNAPSHOT_LENGTH_BYTES; i++)
        head[i] = (uint8_t)(length >> (8 * i));
    at = writer->buffer + RECORD_HEAD_MOST - head_bytes;
    memcpy(at, head, head_bytes);
    if (writer->write(writer->context, at, SNAPSHOT_LENGTH_BYTES + length) != 0)
        writer->failed = true;
    writer->record_count++;
}

static void write_record(struct snapshot_writer *writer, snapshot_body number,
                         const ProtobufCMessage *body)
{
    CHECK(writer->write != NULL);
    write_within(writer, number, body, protobuf_c_message_get_packed_size(body));
}

/* What a message's numbers, and the heads of its texts and messages, take at most. Of the records
 * of which there are millions nothing more exact is asked: protobuf-c's own size costs as much as
 * packing them. */
static size_t numbers_most(const ProtobufCMessageDescriptor *descriptor)
{
    return RECORD_HEAD_MOST + (size_t)descriptor->n_fields * FIELD_MOST;
}

static void write_header(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__Log__V1__SnapshotHeader header = CKPT__LOG__V1__SNAPSHOT_HEADER__INIT;
    Ckpt__V1__ClusterPause pause;
    uint64_t totals[FSM_STATES_CHECKPOINT];
    struct fsm_losses losses = fsm->losses;

    CHECK(writer->write != NULL);
    memcpy(totals, fsm->checkpoints_total, sizeof(totals));
    header.version = SNAPSHOT_VERSION;
    header.initialised = fsm->initialised;
    header.cluster_id = record_text(fsm->cluster_id);
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
    RECORD_COPY(FSM_COUNTERS, fsm, &header);
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
    header.retention_review = fsm->retention_review;
    header.passive_since_ms = fsm->passive_since_ms;
    header.adopted_at_ms = fsm->adopted_at_ms;
    header.adopted_shift_ms = fsm->adopted_shift_ms;
    if (fsm->pause != NULL) {
        fsm_pause_to_message(&fsm->pause->view, &pause);
        header.pause = &pause;
    }
    write_record(writer, BODY(HEADER), &header.base);
}

static void write_cluster(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__V1__Policy policy = fsm->policy;

    CHECK(writer->write != NULL);
    fsm_policy_lower(&policy, fsm_level(fsm));
    write_record(writer, BODY(POLICY), &policy.base);
    for (size_t i = 0; i < fsm->member_count; i++) {

        write_record(writer, BODY(MEMBER), &fsm->members[i]->base);
    }
}

static void write_tenants(struct snapshot_writer *writer, const struct fsm *fsm)
{
    CHECK(writer->write != NULL);
    for (uint32_t i = 0; i < fsm->tenant_count; i++) {
        Ckpt__Log__V1__TenantRecord message = CKPT__LOG__V1__TENANT_RECORD__INIT;
        Ckpt__V1__GpuAccount account;
        Ckpt__V1__TenantSpec spec;

        fsm_account_to_message(&fsm->tenants[i]->account, &account);
        fsm_tenant_spec_to_message(fsm->tenants[i]->id, &fsm->tenants[i]->quota, &spec);
        RECORD_COPY(FSM_TENANT_STATUS, &fsm->tenants[i]->quota, &message);
        message.spec = &spec;
        message.account = &account;
        message.at_ms = fsm->tenants[i]->at_ms;
        write_record(writer, BODY(TENANT), &message.base);
    }
}

static void write_drills(struct snapshot_writer *writer, const struct fsm *fsm)
{
    CHECK(writer->write != NULL);
    for (uint32_t i = 0; i < fsm->drills->count; i++)
        write_record(writer, BODY(DRILL), &fsm->drills->items[i]->base);
}

static void write_calibration(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__Log__V1__CalibrationRecord message = CKPT__LOG__V1__CALIBRATION_RECORD__INIT;
    struct fsm_calibration copy = fsm->calibration;
    Ckpt__V1__Calibration calibration;

    CHECK(writer->write != NULL);
    fsm_calibration_to_message(&copy, &calibration);
    message.calibration = &calibration;
    message.at_ms = fsm->calibration_at_ms;
    write_record(writer, BODY(CALIBRATION), &message.base);
}

static void write_revoked(struct snapshot_writer *writer, const struct fsm *fsm)
{
    const struct fsm_revoked *revoked;

    CHECK(writer->write != NULL);
    for (size_t i = 0; (revoked = fsm_revoked_at(fsm, i)) != NULL; i++) {
        Ckpt__Log__V1__RevokedRecord message = CKPT__LOG__V1__REVOKED_RECORD__INIT;

        message.serial = record_text(revoked->serial);
        message.note = record_text(revoked->note);
        message.at_ms = revoked->at_ms;
        write_record(writer, BODY(REVOKED), &message.base);
    }
}

static void write_targets(struct snapshot_writer *writer, const struct fsm *fsm)
{
    CHECK(writer->write != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);
        Ckpt__Log__V1__TargetRecord message = CKPT__LOG__V1__TARGET_RECORD__INIT;
        Ckpt__V1__TargetSpec spec;

        if (target == NULL)
            continue;
        fsm_target_spec_to_message(&target->view, &spec);
        message.spec = &spec;
        message.slot = slot;
        message.made = target->view.made;
        RECORD_COPY(FSM_TARGET_STATUS, &target->view, &message);
        RECORD_COPY(FSM_TARGET_INSIDE, target, &message);
        write_record(writer, BODY(TARGET), &message.base);
    }
}

void fsm_write_node(struct snapshot_writer *writer, const struct node *node)
{
    Ckpt__Log__V1__NodeRecord message = CKPT__LOG__V1__NODE_RECORD__INIT;

    CHECK(writer != NULL);
    CHECK(node->view.id != NULL);
    message.slot = node->view.slot;
    message.node_id = record_text(node->view.id);
    RECORD_COPY(FSM_NODE, &node->view, &message);
    RECORD_COPY(FSM_NODE_INSIDE, node, &message);
    write_record(writer, BODY(NODE), &message.base);
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

static void fill_share(const struct fsm_node_share *from, Ckpt__Log__V1__ShareRecord *to)
{
    ckpt__log__v1__share_record__init(to);
    RECORD_COPY(FSM_SHARE_SPEC, from, to);
    RECORD_COPY(FSM_SHARE_KEPT, from, to);
}

static size_t allocation_most(const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    size_t most = numbers_most(&ckpt__log__v1__allocation_record__descriptor) +
                  numbers_most(&ckpt__v1__allocation__descriptor) +
                  numbers_most(&ckpt__v1__allocation_spec__descriptor) +
                  numbers_most(&ckpt__log__v1__learned_record__descriptor) +
                  numbers_most(&ckpt__v1__gpu_account__descriptor) + strlen(view->id);

#define TEXT(name) most += strlen(view->name);
    FSM_ALLOCATION_SPEC(ROW_SKIP, TEXT)
    FSM_ALLOCATION_STATUS(ROW_SKIP, TEXT)
#undef TEXT
    return most +
           ((size_t)view->node_count + view->next_count) *
               numbers_most(&ckpt__log__v1__share_record__descriptor) +
           allocation->departed_count * numbers_most(&ckpt__log__v1__departed_record__descriptor);
}

static void fill_departed(const struct departed *from, Ckpt__Log__V1__DepartedRecord *to)
{
    ckpt__log__v1__departed_record__init(to);
    RECORD_COPY(FSM_DEPARTED, from, to);
}

void fsm_write_allocation(struct snapshot_writer *writer, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    Ckpt__Log__V1__AllocationRecord message = CKPT__LOG__V1__ALLOCATION_RECORD__INIT;
    Ckpt__V1__Allocation seen;
    Ckpt__V1__AllocationSpec spec;
    Ckpt__Log__V1__LearnedRecord learned = CKPT__LOG__V1__LEARNED_RECORD__INIT;
    Ckpt__V1__GpuAccount account;
    uint64_t few[FEW_WORDS], few_next[FEW_WORDS], few_departed[FEW_WORDS];
    struct message_array departed =
        message_array(allocation->departed_count, sizeof(Ckpt__Log__V1__DepartedRecord),
                      few_departed, sizeof(few_departed));
    struct message_array shares =
        message_array(view->node_count, sizeof(Ckpt__Log__V1__ShareRecord), few, sizeof(few));
    struct message_array next = message_array(view->next_count, sizeof(Ckpt__Log__V1__ShareRecord),
                                              few_next, sizeof(few_next));

    CHECK(writer != NULL);
    CHECK(allocation->view.id != NULL);
    fsm_spec_to_message(view, &spec);
    fsm_allocation_to_message(view, &seen);
    fsm_account_to_message(&allocation->account, &account);
    seen.spec = &spec;
    message.allocation = &seen;
    message.account = &account;
    RECORD_COPY(FSM_ALLOCATION_KEPT, view, &message);
    RECORD_COPY(FSM_ALLOCATION_LEARNED, &view->learned, &learned);
    message.learned = &learned;
    RECORD_COPY(FSM_ALLOCATION_INSIDE, allocation, &message);
    message.slot = view->slot;
    message.timer_at_ms = allocation->timer.at_ms;
    message.n_shares = view->node_count;
    message.shares = (Ckpt__Log__V1__ShareRecord **)shares.pointers;
    for (uint32_t i = 0; i < view->node_count; i++) {
        fill_share(&view->nodes[i], message.shares[i]);
        RECORD_COPY(FSM_SHARE_PART, &allocation->assignments[i], message.shares[i]);
    }
    message.n_next_shares = view->next_count;
    message.next_shares = (Ckpt__Log__V1__ShareRecord **)next.pointers;
    for (uint32_t i = 0; i < view->next_count; i++)
        fill_share(&view->next[i], message.next_shares[i]);
    message.n_departed = allocation->departed_count;
    message.departed = (Ckpt__Log__V1__DepartedRecord **)departed.pointers;
    for (uint32_t i = 0; i < allocation->departed_count; i++)
        fill_departed(allocation->departed[i], message.departed[i]);
    write_within(writer, BODY(ALLOCATION), &message.base, allocation_most(allocation));
    free(shares.heap);
    free(next.heap);
    free(departed.heap);
}

/* protobuf-c wants them not const, and only reads. */
static uint64_t *numbers_of(const uint64_t *constant)
{
    union {
        const uint64_t *constant;
        uint64_t *changing;
    } pointer = {constant};

    return pointer.changing;
}

static void fill_shard(const struct fsm_shard *from, Ckpt__Log__V1__ShardRecord *to)
{
    union {
        const uint8_t *constant;
        uint8_t *changing;
    } sha256 = {from->manifest_sha256};

    ckpt__log__v1__shard_record__init(to);
    RECORD_COPY(FSM_SHARD, from, to);
    to->n_places = from->place_count;
    to->places = numbers_of(from->places);
    if (from->verified) {
        to->manifest_sha256.len = sizeof(from->manifest_sha256);
        to->manifest_sha256.data = sha256.changing;
    }
}

void fsm_write_basis(struct snapshot_writer *writer, const struct basis *basis)
{
    Ckpt__Log__V1__DecisionBasis content = CKPT__LOG__V1__DECISION_BASIS__INIT;
    Ckpt__Log__V1__BasisRecord message = CKPT__LOG__V1__BASIS_RECORD__INIT;

    CHECK(writer != NULL);
    CHECK(basis != NULL);
    content.revision = basis->view.revision;
    content.member_id = basis->view.member_id;
    content.names = record_text(basis->view.names);
    content.n_policy = basis->view.policy_count;
    content.policy = numbers_of(basis->view.policy);
    message.slot = basis->view.slot;
    message.basis = &content;
    write_record(writer, BODY(BASIS), &message.base);
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
    const struct fsm_checkpoint *view = &checkpoint->view;
    Ckpt__Log__V1__CheckpointRecord message = CKPT__LOG__V1__CHECKPOINT_RECORD__INIT;
    Ckpt__V1__Checkpoint seen;
    Ckpt__Log__V1__InputsRecord inputs = CKPT__LOG__V1__INPUTS_RECORD__INIT;
    Ckpt__Log__V1__DecisionInputs content = CKPT__LOG__V1__DECISION_INPUTS__INIT;
    Ckpt__Log__V1__VerificationRecord verification = CKPT__LOG__V1__VERIFICATION_RECORD__INIT;
    uint64_t few[FEW_WORDS];
    struct message_array shards =
        message_array(view->shard_count, sizeof(Ckpt__Log__V1__ShardRecord), few, sizeof(few));

    CHECK(writer != NULL);
    CHECK(checkpoint->view.id != 0);
    fsm_checkpoint_to_message(view, &seen);
    message.checkpoint = &seen;
    message.allocation_slot = view->allocation_slot;
    RECORD_COPY(FSM_CHECKPOINT_KEPT, view, &message);
    RECORD_COPY(FSM_CHECKPOINT_INSIDE, checkpoint, &message);
    if (checkpoint->inputs != NULL) {
        fill_inputs(&inputs, &content, checkpoint->inputs);
        message.inputs = &inputs;
    }
    if (checkpoint->verification != NULL) {
        RECORD_COPY(FSM_VERIFICATION, &checkpoint->verification->view, &verification);
        message.verification = &verification;
    }
    message.n_shards = view->shard_count;
    message.shards = (Ckpt__Log__V1__ShardRecord **)shards.pointers;
    for (uint32_t i = 0; i < view->shard_count; i++)
        fill_shard(&checkpoint->shards[i], message.shards[i]);
    write_record(writer, BODY(CHECKPOINT), &message.base);
    free(shards.heap);
}

void fsm_write_undeleted(struct snapshot_writer *writer, const struct undeleted *undeleted)
{
    const struct fsm_undeleted *view = &undeleted->view;
    Ckpt__Log__V1__UndeletedRecord message = CKPT__LOG__V1__UNDELETED_RECORD__INIT;

    CHECK(writer != NULL);
    CHECK(undeleted->view.checkpoint_id != 0);
    message.place = view->place;
    message.checkpoint_id = view->checkpoint_id;
    message.target_slot = view->target_slot;
    RECORD_COPY(FSM_UNDELETED, view, &message);
    RECORD_COPY(FSM_UNDELETED_KEPT, view, &message);
    write_record(writer, BODY(UNDELETED), &message.base);
}

void fsm_write_queue(struct snapshot_writer *writer, const struct queue *queue)
{
    Ckpt__Log__V1__QueueRecord message = CKPT__LOG__V1__QUEUE_RECORD__INIT;

    CHECK(writer != NULL);
    CHECK(queue != NULL);
    message.report = queue->report;
    RECORD_COPY(FSM_QUEUE, queue, &message);
    write_record(writer, BODY(QUEUE), &message.base);
}

static void fill_victim(const struct fsm_preemption_victim *from, Ckpt__Log__V1__VictimRecord *to)
{
    union {
        const uint32_t *constant;
        uint32_t *changing;
    } slots = {from->node_slots};

    ckpt__log__v1__victim_record__init(to);
    to->n_node_slots = from->node_count;
    to->node_slots = slots.changing;
    RECORD_COPY(FSM_VICTIM, from, to);
}

void fsm_write_preemption(struct snapshot_writer *writer, const struct preemption *preemption)
{
    const struct fsm_preemption *view = &preemption->view;
    Ckpt__Log__V1__PreemptionRecord message = CKPT__LOG__V1__PREEMPTION_RECORD__INIT;
    Ckpt__Log__V1__VictimRecord victims[FSM_VICTIMS_MAX];
    Ckpt__Log__V1__VictimRecord *pointers[FSM_VICTIMS_MAX];
    union {
        const Ckpt__V1__RequestPreemptionRequest *constant;
        Ckpt__V1__RequestPreemptionRequest *changing;
    } request = {view->request};

    CHECK(writer != NULL);
    CHECK(preemption->view.id != 0);
    message.preemption_id = view->id;
    message.request = request.changing;
    message.acting_class = view->acting_class;
    RECORD_COPY(FSM_PREEMPTION, view, &message);
    for (uint32_t i = 0; i < view->victim_count; i++) {
        fill_victim(&view->victims[i], &victims[i]);
        pointers[i] = &victims[i];
    }
    message.n_victims = view->victim_count;
    message.victims = pointers;
    write_record(writer, BODY(PREEMPTION), &message.base);
}

void fsm_write_past_request(struct snapshot_writer *writer, const struct past_request *past)
{
    Ckpt__Log__V1__SessionRecord message = CKPT__LOG__V1__SESSION_RECORD__INIT;
    Ckpt__V1__Victim victims[FSM_VICTIMS_MAX];
    Ckpt__V1__Victim *pointers[FSM_VICTIMS_MAX];
    const struct past_request_rest *rest = past->rest;

    CHECK(writer != NULL);
    message.request_id = record_text(past->request_id);
    message.command = past->command;
    message.content_hash = past->content_hash;
    message.at_ms = past->at_ms;
    message.status = past->status;
    message.index = past->index;
    message.fields.data = (uint8_t *)(uintptr_t)past_request_prints(past); /* only read */
    message.fields.len = (size_t)past->field_count * REQUEST_FIELD_BYTES;
    if (rest != NULL) {
        message.checkpoint_id = rest->checkpoint_id;
        message.preemption_id = rest->preemption_id;
        message.current = rest->current;
        message.limit = rest->limit;
    }
    for (uint32_t i = 0; i < past->victim_count; i++) {
        ckpt__v1__victim__init(&victims[i]);
        victims[i].allocation_id = record_text(rest->victims[i].allocation_id);
        victims[i].checkpoint_id = rest->victims[i].checkpoint_id;
        victims[i].node_count = rest->victims[i].node_count;
        pointers[i] = &victims[i];
    }
    message.n_victims = past->victim_count;
    message.victims = pointers;
    write_within(writer, BODY(SESSION), &message.base,
                 numbers_most(&ckpt__log__v1__session_record__descriptor) +
                     strlen(past->request_id) + message.fields.len +
                     past->victim_count *
                         (numbers_most(&ckpt__v1__victim__descriptor) + FSM_ID_BYTES));
}

void fsm_write_event(struct snapshot_writer *writer, const Ckpt__V1__Event *source)
{
    Ckpt__V1__Event event = *source;

    CHECK(writer != NULL);
    write_within(writer, BODY(EVENT), &event.base,
                 numbers_most(&ckpt__v1__event__descriptor) + strlen(event.allocation_id) +
                     strlen(event.subject) + strlen(event.caller));
}

void fsm_write_audit_head(struct snapshot_writer *writer, const struct fsm *fsm)
{
    Ckpt__Log__V1__AuditHead message = CKPT__LOG__V1__AUDIT_HEAD__INIT;
    struct fsm_audit audit;

    CHECK(writer != NULL);
    fsm_get_audit(fsm, &audit);
    message.sequence = audit.sequence;
    message.before = audit.oldest - 1;
    message.hash.data = audit.hash;
    message.hash.len = sizeof(audit.hash);
    message.link = fsm->audit->link;
    message.kept = fsm->audit->count;
    message.shipped = audit.shipped;
    message.lost = audit.lost;
    if (audit.sequence != 0)
        write_record(writer, BODY(AUDIT_HEAD), &message.base);
}

void fsm_write_audit(struct snapshot_writer *writer, const struct fsm *fsm, uint64_t link)
{
    Ckpt__Log__V1__AuditKept message = CKPT__LOG__V1__AUDIT_KEPT__INIT;
    const struct audit_place *place = audit_at(fsm->audit, link);

    CHECK(writer != NULL);
    message.link.data = fsm->audit->ring + place->at; /* only read */
    message.link.len = place->length;
    write_within(writer, BODY(AUDIT), &message.base,
                 numbers_most(&ckpt__log__v1__audit_kept__descriptor) + place->length);
}

void fsm_write_prologue(struct snapshot_writer *writer, const struct fsm *fsm)
{
    CHECK(writer != NULL);
    write_header(writer, fsm);
    write_cluster(writer, fsm);
    write_tenants(writer, fsm);
    write_calibration(writer, fsm);
    write_drills(writer, fsm);
    write_revoked(writer, fsm);
    write_targets(writer, fsm);
}

void fsm_write_footer(struct snapshot_writer *writer, uint64_t state_hash)
{
    Ckpt__Log__V1__SnapshotFooter footer = CKPT__LOG__V1__SNAPSHOT_FOOTER__INIT;

    CHECK(writer != NULL);
    footer.record_count = writer->record_count;
    footer.state_hash = state_hash;
    write_record(writer, BODY(FOOTER), &footer.base);
}

void fsm_write_saved(struct snapshot_writer *writer, const uint8_t *bytes, size_t length)
{
    CHECK(writer != NULL);
    CHECK(bytes != NULL);
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

    CHECK(fsm != NULL);
    fsm_write_prologue(&writer, fsm);
    for (uint32_t slot = 0; slot < fsm->nodes.slot_end && !writer.failed; slot++)
        if (node_find_slot(fsm, slot) != NULL)
            fsm_write_node(&writer, node_at(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end && !writer.failed; slot++)
        if (allocation_find_slot(fsm, slot) != NULL)
            fsm_write_allocation(&writer, allocation_at(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->bases.slot_end && !writer.failed; slot++)
        if (basis_find_slot(fsm, slot) != NULL)
            fsm_write_basis(&writer, basis_at(fsm, slot));
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
    for (struct past_request *at = fsm->past_request_oldest; at != NULL && !writer.failed;
         at = at->next)
        fsm_write_past_request(&writer, at);
    for (uint64_t i = fsm->event_count; i > 0 && !writer.failed; i--)
        fsm_write_event(&writer, fsm_event_at(fsm, fsm->next_event_sequence - i));
    fsm_write_audit_head(&writer, fsm);
    for (uint64_t i = fsm->audit->count; i > 0 && !writer.failed; i--)
        fsm_write_audit(&writer, fsm, fsm->audit->link + 1 - i);
    fsm_write_footer(&writer, fsm->state_hash);
    free(writer.buffer);
    return writer.failed ? -1 : 0;
}
