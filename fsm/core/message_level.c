/* Feature levels of a message's fields and values, by the options of the .proto files. See
 * message_level.h. */
#include "fsm/message_level.h"

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

uint32_t fsm_field_level(const ProtobufCMessageDescriptor *type,
                         const ProtobufCFieldDescriptor *field)
{
    CHECK(field->id != 0);
    return level_of(fields, ARRAY_COUNT(fields), type, field->id);
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
        uint32_t level = fsm_field_level(descriptor, field), value = value_level(message, field);

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

        if (fsm_field_level(message->descriptor, field) <= level)
            continue;
        CHECK(field->label == PROTOBUF_C_LABEL_NONE);
        CHECK(field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64 ||
              field->type == PROTOBUF_C_TYPE_ENUM || field->type == PROTOBUF_C_TYPE_BOOL);
        memset((char *)message + field->offset, 0, size);
    }
}
