/* The values of what a command is about, before it and after it, by the messages that the API tells
 * of each. See audit.h.
 *
 * Shapes   numbers, texts and enumerations are compared; of lists and messages within a message
 *          only how many there are, and of a job's nodes the names.
 */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"

enum { NODES_BYTES = 512, AUDIT_WORDS_MAX = 256 };

/* ---- taking ---- */

static ProtobufCMessage *message_new(struct fsm *fsm, const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = fsm_arena_take(&fsm->arena, descriptor->sizeof_message);

    CHECK(message != NULL);
    descriptor->message_init(message);
    return message;
}

static void view_add(struct audit_view *view, ProtobufCMessage *message)
{
    size_t i = view->messages[0] == NULL ? 0 : 1;

    CHECK(view->messages[i] == NULL);
    view->messages[i] = message;
}

/* "n1 n2 n3", cut where there is no more room. */
static const char *node_names(struct fsm *fsm, const struct fsm_allocation *view)
{
    char *text = fsm_arena_take(&fsm->arena, NODES_BYTES);
    size_t used = 0;

    CHECK(view->id != NULL);
    text[0] = '\0';
    for (uint32_t i = 0; i < view->node_count; i++) {
        const char *name = node_at(fsm, view->nodes[i].node_slot)->view.id;
        size_t length = strlen(name);

        if (used + length + 5 > NODES_BYTES) {
            memcpy(text + used, " ...", 5);
            break;
        }
        if (used > 0)
            text[used++] = ' ';
        memcpy(text + used, name, length + 1);
        used += length;
    }
    return text;
}

static void take_policy(struct fsm *fsm, const struct audit_subject *subject,
                        struct audit_view *view)
{
    ProtobufCMessage *message = message_new(fsm, &ckpt__v1__policy__descriptor);

    CHECK(subject->kind == AUDIT_POLICY);
    CHECK(subject->id == NULL);
    *(Ckpt__V1__Policy *)(void *)message = fsm->policy;
    view_add(view, message);
}

static void take_job(struct fsm *fsm, const struct audit_subject *subject, struct audit_view *view)
{
    const struct allocation *allocation = allocation_find(fsm, subject->id);
    ProtobufCMessage *seen, *spec;

    CHECK(subject->id != NULL);
    view->is_there = allocation != NULL;
    if (allocation == NULL && view->is_first)
        return; /* it is compared with nothing */
    seen = message_new(fsm, &ckpt__v1__allocation__descriptor);
    spec = message_new(fsm, &ckpt__v1__allocation_spec__descriptor);
    view_add(view, seen);
    view_add(view, spec);
    if (allocation == NULL)
        return;
    fsm_allocation_to_message(&allocation->view, (Ckpt__V1__Allocation *)(void *)seen);
    fsm_spec_to_message(&allocation->view, (Ckpt__V1__AllocationSpec *)(void *)spec);
    view->nodes = node_names(fsm, &allocation->view);
}

static void take_checkpoint(struct fsm *fsm, const struct audit_subject *subject,
                            struct audit_view *view)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, subject->checkpoint_id);
    ProtobufCMessage *message = message_new(fsm, &ckpt__v1__checkpoint__descriptor);

    CHECK(subject->kind == AUDIT_CHECKPOINT);
    view->is_there = checkpoint != NULL;
    view_add(view, message);
    if (checkpoint != NULL)
        fsm_checkpoint_to_message(&checkpoint->view, (Ckpt__V1__Checkpoint *)(void *)message);
}

static void take_node(struct fsm *fsm, const struct audit_subject *subject, struct audit_view *view)
{
    const struct node *node = node_find(fsm, subject->id);
    ProtobufCMessage *message = message_new(fsm, &ckpt__log__v1__node_record__descriptor);

    CHECK(subject->id != NULL);
    view->is_there = node != NULL;
    view_add(view, message);
    if (node != NULL)
        RECORD_COPY(FSM_NODE, &node->view, (Ckpt__Log__V1__NodeRecord *)(void *)message);
}

static void take_target(struct fsm *fsm, const struct audit_subject *subject,
                        struct audit_view *view)
{
    const struct target *target = target_find(fsm, subject->id);
    ProtobufCMessage *spec = message_new(fsm, &ckpt__v1__target_spec__descriptor);
    ProtobufCMessage *record = message_new(fsm, &ckpt__log__v1__target_record__descriptor);

    CHECK(subject->id != NULL);
    view->is_there = target != NULL;
    view_add(view, spec);
    view_add(view, record);
    if (target == NULL)
        return;
    fsm_target_spec_to_message(&target->view, (Ckpt__V1__TargetSpec *)(void *)spec);
    RECORD_COPY(FSM_TARGET_STATUS, &target->view, (Ckpt__Log__V1__TargetRecord *)(void *)record);
}

static void take_tenant(struct fsm *fsm, const struct audit_subject *subject,
                        struct audit_view *view)
{
    ProtobufCMessage *message = message_new(fsm, &ckpt__v1__tenant_spec__descriptor);

    CHECK(subject->id != NULL);
    view->is_there = false;
    view_add(view, message);
    for (uint32_t i = 0; i < fsm->tenant_count && !view->is_there; i++) {
        view->is_there = strcmp(fsm->tenants[i]->id, subject->id) == 0;
        if (view->is_there)
            fsm_tenant_spec_to_message(fsm->tenants[i]->id, &fsm->tenants[i]->quota,
                                       (Ckpt__V1__TenantSpec *)(void *)message);
    }
}

static void take_queue(struct fsm *fsm, const struct audit_subject *subject,
                       struct audit_view *view)
{
    ProtobufCMessage *message = message_new(fsm, &ckpt__v1__report_queue_request__descriptor);

    CHECK(subject->id != NULL);
    view->is_there = false;
    view_add(view, message);
    for (size_t i = 0; i < fsm->queue_count && !view->is_there; i++) {
        view->is_there = strcmp(fsm->queues[i].vcluster, subject->id) == 0;
        if (view->is_there)
            *(Ckpt__V1__ReportQueueRequest *)(void *)message = *fsm->queues[i].report;
    }
}

/* Whether it is passive, and since when. */
static void take_cluster(struct fsm *fsm, const struct audit_subject *subject,
                         struct audit_view *view)
{
    ProtobufCMessage *message = message_new(fsm, &ckpt__log__v1__snapshot_header__descriptor);
    Ckpt__Log__V1__SnapshotHeader *header = (Ckpt__Log__V1__SnapshotHeader *)(void *)message;

    CHECK(subject->kind == AUDIT_CLUSTER);
    view_add(view, message);
    header->passive_since_ms = fsm->passive_since_ms;
    header->adopted_at_ms = fsm->adopted_at_ms;
}

/* Something that is only added has no value before. */
static void take_nothing(struct fsm *fsm, const struct audit_subject *subject,
                         struct audit_view *view)
{
    CHECK(fsm != NULL);
    CHECK(subject->kind == AUDIT_CERTIFICATE);
    view->is_there = false;
}

/* Texts of the state may go with what the command does. */
static void keep_texts(struct fsm *fsm, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;

    CHECK(descriptor != NULL);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        char **text = (char **)(void *)((char *)message + field->offset);
        size_t size;
        char *copy;

        if (field->type != PROTOBUF_C_TYPE_STRING || field->label == PROTOBUF_C_LABEL_REPEATED ||
            (*text)[0] == '\0')
            continue;
        size = strlen(*text) + 1;
        copy = fsm_arena_take(&fsm->arena, size);
        memcpy(copy, *text, size);
        *text = copy;
    }
}

void audit_view_take(struct fsm *fsm, const struct audit_subject *subject, bool keep,
                     struct audit_view *ret_view)
{
    static void (*const takes[])(struct fsm * fsm, const struct audit_subject *subject,
                                 struct audit_view *view) = {
        [AUDIT_POLICY] = take_policy,         [AUDIT_JOB] = take_job,
        [AUDIT_CHECKPOINT] = take_checkpoint, [AUDIT_NODE] = take_node,
        [AUDIT_TARGET] = take_target,         [AUDIT_TENANT] = take_tenant,
        [AUDIT_QUEUE] = take_queue,           [AUDIT_CLUSTER] = take_cluster,
        [AUDIT_CERTIFICATE] = take_nothing};

    *ret_view = (struct audit_view){.is_there = true, .is_first = keep, .nodes = ""};
    if (subject->kind == AUDIT_NOTHING)
        return;
    CHECK(subject->kind < ARRAY_COUNT(takes));
    takes[subject->kind](fsm, subject, ret_view);
    for (size_t i = 0; keep && ret_view->is_there && i < AUDIT_MESSAGES_MAX; i++)
        if (ret_view->messages[i] != NULL)
            keep_texts(fsm, ret_view->messages[i]);
}

/* ---- comparing ---- */

/* A value as bits; of a text see the caller. */
static uint64_t number_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *at = (const char *)message + field->offset;

    CHECK(field->type != PROTOBUF_C_TYPE_STRING);
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return *(const uint64_t *)(const void *)at;
    default:
        return *(const uint32_t *)(const void *)at;
    }
}

static const char *text_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    CHECK(field->type == PROTOBUF_C_TYPE_STRING);
    return *(const char *const *)(const void *)((const char *)message + field->offset);
}

/* A number or a text, which can be compared. */
static bool is_plain(const ProtobufCFieldDescriptor *field)
{
    return field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_BYTES &&
           field->label != PROTOBUF_C_LABEL_REPEATED &&
           (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0;
}

/* Marks of the state's own bookkeeping, which say nothing beside the values. */
static bool is_shown(const ProtobufCFieldDescriptor *field)
{
    static const char *const hidden[] = {"state_since_ms", "request_id", "made", "slot"};

    CHECK(field->name != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(hidden); i++)
        if (strcmp(field->name, hidden[i]) == 0)
            return false;
    return true;
}

/* "RUNNING" of ALLOCATION_STATE_RUNNING: the type's name, in capitals and with a bar in front of
 * each of its words, is left out. */
static const char *enum_word(const ProtobufCEnumDescriptor *type, uint64_t number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, (int)number);
    size_t prefix = 0;

    CHECK(type->short_name != NULL);
    if (value == NULL)
        return "?";
    for (const char *at = type->short_name; *at != '\0'; at++)
        prefix += *at >= 'A' && *at <= 'Z' ? 2 : 1;
    return prefix < strlen(value->name) ? value->name + prefix : value->name;
}

static void add_value(struct audit_text *text, const ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    uint64_t number;

    CHECK(field->label != PROTOBUF_C_LABEL_REPEATED);
    audit_text_name(text, field->name);
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        audit_text_add(text, text_of(message, field));
        return;
    }
    number = number_of(message, field);
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        audit_text_add(text, enum_word(field->descriptor, number));
    else if (field->type == PROTOBUF_C_TYPE_BOOL)
        audit_text_add(text, number != 0 ? "true" : "false");
    else if (strcmp(field->name, "checkpoint_id") == 0 && number != 0)
        audit_text_checkpoint(text, number);
    else
        audit_text_number(text, number);
}

static bool is_equal(const ProtobufCMessage *a, const ProtobufCMessage *b,
                     const ProtobufCFieldDescriptor *field)
{
    CHECK(a->descriptor == b->descriptor);
    if (field->type != PROTOBUF_C_TYPE_STRING)
        return number_of(a, field) == number_of(b, field);
    return text_of(a, field) == text_of(b, field) ||
           strcmp(text_of(a, field), text_of(b, field)) == 0;
}

/* Words of two messages of a type that differ, a bit each: most are equal, and no field of these is
 * looked at. */
struct differing {
    uint64_t bits[AUDIT_WORDS_MAX / 64];
};
static void words_compare(const ProtobufCMessage *was, const ProtobufCMessage *is,
                          struct differing *ret)
{
    size_t words = was->descriptor->sizeof_message / sizeof(uint64_t);
    const uint64_t *a = (const uint64_t *)(const void *)was, *b = (const void *)is;

    CHECK(words <= AUDIT_WORDS_MAX);
    *ret = (struct differing){{0}};
    for (size_t i = 0; i < words; i++)
        ret->bits[i / 64] |= (uint64_t)(a[i] != b[i]) << i % 64;
}

static inline bool word_differs(const struct differing *differing, unsigned offset)
{
    size_t word = offset / sizeof(uint64_t);

    return (differing->bits[word / 64] >> word % 64 & 1) != 0;
}

static void compare_messages(const ProtobufCMessage *was, const ProtobufCMessage *is, bool both,
                             struct audit_text *old, struct audit_text *fresh)
{
    const ProtobufCMessageDescriptor *descriptor = was->descriptor;
    struct differing differing;

    CHECK(is->descriptor == descriptor);
    words_compare(was, is, &differing);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if (!word_differs(&differing, field->offset) || !is_plain(field) ||
            is_equal(was, is, field) || !is_shown(field))
            continue; /* names are compared last */
        if (both || fresh == NULL)
            add_value(old, was, field);
        if (fresh != NULL)
            add_value(fresh, is, field);
    }
}

/* Of what was not there before, or is not any more, the values of the other one alone. */
void audit_view_compare(const struct audit_view *was, const struct audit_view *is,
                        struct audit_text *old, struct audit_text *fresh)
{
    for (size_t i = 0; i < AUDIT_MESSAGES_MAX && was->messages[i] != NULL; i++) {
        CHECK(is->messages[i] != NULL);
        compare_messages(was->messages[i], is->messages[i], was->is_there, old,
                         is->is_there ? fresh : NULL);
    }
    if (strcmp(was->nodes, is->nodes) == 0)
        return;
    if (was->is_there) {
        audit_text_name(old, "nodes");
        audit_text_add(old, was->nodes);
    }
    if (is->is_there) {
        audit_text_name(fresh, "nodes");
        audit_text_add(fresh, is->nodes);
    }
}

static bool is_zero(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    CHECK(message->descriptor != NULL);
    return field->type == PROTOBUF_C_TYPE_STRING ? text_of(message, field)[0] == '\0'
                                                 : number_of(message, field) == 0;
}

void audit_view_asked(const ProtobufCMessage *message, struct audit_text *text)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;

    CHECK(text->used == 0);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if (!is_plain(field) || is_zero(message, field) || !is_shown(field))
            continue;
        add_value(text, message, field);
    }
}
