/* Feature levels: what came after level 1, by the options of the .proto files. See level.h. */
#include "fsm/core/state.h"

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "ckpt/v1/agent.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"

struct level_row {
    const void *descriptor; /* of a message, or of an enum */
    uint32_t number;        /* of the field, or the value */
    uint32_t level;
};

static const struct level_row fields[] = {
#define FIELD_LEVEL(message, number, level) {&message##__descriptor, number, level},
#define VALUE_LEVEL(name, number, level)
#include "ckpt/levels.h"
#undef FIELD_LEVEL
#undef VALUE_LEVEL
};
static const struct level_row values[] = {
#define FIELD_LEVEL(message, number, level)
#define VALUE_LEVEL(name, number, level) {&name##__descriptor, number, level},
#include "ckpt/levels.h"
#undef FIELD_LEVEL
#undef VALUE_LEVEL
    {NULL, 0, 0}};

static uint32_t level_of(const struct level_row *rows, size_t count, const void *descriptor,
                         uint32_t number)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].descriptor == descriptor && rows[i].number == number)
            return rows[i].level;
    return FSM_LEVEL_FIRST;
}

static uint32_t field_level(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    CHECK(field->id != 0);
    return level_of(fields, ARRAY_COUNT(fields), message->descriptor, field->id);
}

/* Of the values that an enumeration's field has, the highest level. */
static uint32_t value_level(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    uint32_t level = FSM_LEVEL_FIRST;

    if (field->type != PROTOBUF_C_TYPE_ENUM)
        return level;
    for (size_t i = 0; i < fsm_field_count(message, field); i++) {
        const uint32_t *value = fsm_field_value(message, field, i);
        uint32_t one = level_of(values, ARRAY_COUNT(values), field->descriptor, *value);

        if (one > level && *value != 0) /* zero is not in the bytes */
            level = one;
    }
    return level;
}

/* A field at its zero is not in the bytes, and nobody meets it. */
static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const uint64_t *number = fsm_field_value(message, field, 0);

    CHECK(field->id != 0);
    if (field->label == PROTOBUF_C_LABEL_REPEATED ||
        (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return fsm_field_count(message, field) > 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const ProtobufCMessage *const *)(const void *)number != NULL;
    case PROTOBUF_C_TYPE_STRING:
        return (*(const char *const *)(const void *)number)[0] != '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)(const void *)number)->len > 0;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return *number != 0;
    default:
        return *(const uint32_t *)(const void *)number != 0;
    }
}

struct level_walk {
    uint32_t level;
    const char *name; /* of the first field with it */
};

static void level_message(void *context, const ProtobufCMessage *message)
{
    struct level_walk *walk = context;
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;

    CHECK(walk->level >= FSM_LEVEL_FIRST);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        uint32_t level = field_level(message, field), value = value_level(message, field);

        if (value > level)
            level = value;
        if (level <= walk->level || !is_there(message, field))
            continue;
        walk->level = level;
        walk->name = field->name;
    }
}

uint32_t fsm_message_level(const ProtobufCMessage *message, const char **ret_field)
{
    struct level_walk walk = {.level = FSM_LEVEL_FIRST, .name = ""};

    CHECK(message != NULL);
    CHECK(ret_field != NULL);
    fsm_walk_messages(message, level_message, &walk);
    *ret_field = walk.name;
    return walk.level;
}

/* Numbers alone: what has texts or messages of a higher level is never filled below it. */
void fsm_message_lower(ProtobufCMessage *message, uint32_t level)
{
    CHECK(level >= FSM_LEVEL_FIRST);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t size = field->type == PROTOBUF_C_TYPE_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t);

        if (field_level(message, field) <= level)
            continue;
        CHECK(field->label == PROTOBUF_C_LABEL_NONE);
        CHECK(field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64 ||
              field->type == PROTOBUF_C_TYPE_ENUM || field->type == PROTOBUF_C_TYPE_BOOL);
        memset((char *)message + field->offset, 0, size);
    }
}

void fsm_policy_lower(Ckpt__V1__Policy *policy, uint32_t level)
{
    CHECK(policy != NULL);
    fsm_message_lower(&policy->base, level);
    policy->zeros &= ~fsm_policy_bits_above(level);
}

uint32_t fsm_level(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->policy.feature_level == 0 ? FSM_LEVEL_FIRST : fsm->policy.feature_level;
}

/* A zero that is meant is a bit, which members of a lower level do not know either. */
static uint32_t zeros_level(const Ckpt__V1__Policy *policy, uint32_t level, const char **ret_field)
{
    for (unsigned i = 0; i < policy->base.descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &policy->base.descriptor->fields[i];
        uint32_t one = field_level(&policy->base, field);

        if (field->id >= 60 || (policy->zeros >> field->id & 1) == 0 || one <= level)
            continue;
        level = one;
        *ret_field = field->name;
    }
    return level;
}

/* The bits of fields that the level has not. */
uint64_t fsm_policy_bits_above(uint32_t level)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;
    uint64_t bits = 0;

    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (descriptor->fields[i].id < 60 &&
            level_of(fields, ARRAY_COUNT(fields), descriptor, descriptor->fields[i].id) > level)
            bits |= UINT64_C(1) << descriptor->fields[i].id;
    return bits;
}

/* A command that raises the level may use it: whoever knows the one knows the other. */
enum fsm_status fsm_validate_level(const struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *ret_outcome)
{
    uint32_t level = fsm_level(fsm), asked = fsm_level_asked(command), needed;

    CHECK(ret_outcome->status == FSM_OK);
    if (asked > FSM_LEVEL_NEWEST) {
        ret_outcome->subject = "feature_level";
        ret_outcome->current = asked;
        ret_outcome->limit = FSM_LEVEL_NEWEST;
        return FSM_INVALID_ARGUMENT;
    }
    if (asked > level)
        level = asked;
    if (level >= FSM_LEVEL_NEWEST)
        return FSM_OK;
    needed = fsm_message_level(&command->base, &ret_outcome->subject);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        needed = zeros_level(command->set_policy->policy, needed, &ret_outcome->subject);
    if (needed <= level) {
        ret_outcome->subject = NULL;
        return FSM_OK;
    }
    ret_outcome->current = needed;
    ret_outcome->limit = level;
    return FSM_FEATURE_LEVEL;
}

uint32_t fsm_level_asked(const fsm_command *command)
{
    const Ckpt__V1__Policy *policy = NULL;

    CHECK(command != NULL);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        policy = command->set_policy->policy;
    else if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT)
        policy = command->cluster_init->policy;
    return policy == NULL ? 0 : policy->feature_level;
}

uint64_t fsm_newer_index(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->newer_index;
}

/* A leader proposes only what its build knows, so that what this one does not know comes from a
 * newer one. */
void fsm_note_newer(struct fsm *fsm, const fsm_command *command, enum fsm_status status)
{
    struct fsm_outcome outcome = {.status = FSM_OK};
    bool newer = fsm_level_asked(command) > FSM_LEVEL_NEWEST;

    if (status != FSM_OK) {
        status = fsm_validate_fields(&command->base, SIZE_MAX, &outcome);
        newer = newer || status == FSM_UNKNOWN_FIELD || status == FSM_INVALID_ARGUMENT;
    }
    if (newer && fsm->newer_index == 0)
        fsm->newer_index = fsm->index;
}
