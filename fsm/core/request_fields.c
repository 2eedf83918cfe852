/* Prints of a command's fields. See request_fields.h. */
#include "fsm/core/request_fields.h"

#include <string.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "fsm/core/state.h"
#include "fsm/core/wire.h"

enum { NUMBER_MAX = UINT8_MAX };

static const ProtobufCMessageDescriptor *body_type(uint32_t body)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&ckpt__log__v1__command__descriptor, body);

    CHECK(field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE);
    return field->descriptor;
}

/* Values of a repeated field come one behind the other, and have one print. */
static void add_print(struct request_fields *fields, uint64_t number, uint64_t inner, uint8_t print)
{
    uint8_t *next = fields->prints + (size_t)fields->count * REQUEST_FIELD_BYTES;
    uint8_t *last = fields->count == 0 ? NULL : next - REQUEST_FIELD_BYTES;

    CHECK(fields->count <= FSM_REQUEST_FIELDS_MAX);
    if (number > NUMBER_MAX || inner > NUMBER_MAX)
        return;
    if (last != NULL && last[0] == number && last[1] == inner) {
        last[2] = (uint8_t)(last[2] * 31 + print);
        return;
    }
    if (fields->count == FSM_REQUEST_FIELDS_MAX)
        return;
    next[0] = (uint8_t)number;
    next[1] = (uint8_t)inner;
    next[2] = print;
    fields->count++;
}

static uint8_t print_of(const uint8_t *bytes, size_t length)
{
    return (uint8_t)(fsm_hash_bytes(1, bytes, length) >> 56);
}

/* The fields of a message in the command. */
static void add_inner(struct request_fields *fields, uint64_t number, const uint8_t *bytes,
                      size_t length)
{
    struct wire_reader reader = {bytes, bytes + length};
    struct wire_field field;

    CHECK(number > 0);
    while (wire_next(&reader, &field))
        add_print(fields, number, field.number, print_of(field.start, field.length));
}

/* A message that may come once is looked into; of several the list as a whole has one print. */
static bool is_message(const ProtobufCMessageDescriptor *type, uint64_t number)
{
    const ProtobufCFieldDescriptor *field =
        number > NUMBER_MAX ? NULL
                            : protobuf_c_message_descriptor_get_field(type, (unsigned)number);

    return field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
           field->label != PROTOBUF_C_LABEL_REPEATED;
}

void fsm_request_fields(const uint8_t *command, size_t length, uint32_t body,
                        struct request_fields *ret_fields)
{
    const ProtobufCMessageDescriptor *type = body_type(body);
    struct wire_reader outer = {command, command + length};
    struct wire_field whole, field;

    CHECK(command != NULL || length == 0);
    memset(ret_fields, 0, sizeof(*ret_fields));
    while (wire_next(&outer, &whole)) {
        struct wire_reader reader = {whole.value, whole.value + whole.value_length};

        if (whole.number != body || whole.value == NULL)
            continue;
        while (wire_next(&reader, &field)) {
            if (field.value != NULL && is_message(type, field.number))
                add_inner(ret_fields, field.number, field.value, field.value_length);
            else
                add_print(ret_fields, field.number, 0, print_of(field.start, field.length));
        }
    }
}

static void add_name(char name[REQUEST_FIELD_NAME_BYTES], const char *text)
{
    size_t used = strlen(name), length = strlen(text);

    if (used + length >= REQUEST_FIELD_NAME_BYTES)
        length = REQUEST_FIELD_NAME_BYTES - 1 - used;
    memcpy(name + used, text, length);
    name[used + length] = '\0';
}

/* False: a field that this build does not know. */
static bool name_field(const uint8_t print[REQUEST_FIELD_BYTES], uint32_t body,
                       char ret_name[REQUEST_FIELD_NAME_BYTES])
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(body_type(body), print[0]);

    ret_name[0] = '\0';
    if (field == NULL)
        return false;
    add_name(ret_name, field->name);
    if (print[1] == 0 || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return true;
    field = protobuf_c_message_descriptor_get_field(field->descriptor, print[1]);
    if (field == NULL)
        return true;
    add_name(ret_name, ".");
    add_name(ret_name, field->name);
    return true;
}

bool fsm_request_fields_differ(const struct request_fields *a, const struct request_fields *b,
                               uint32_t body, char ret_name[REQUEST_FIELD_NAME_BYTES])
{
    CHECK(a->count <= FSM_REQUEST_FIELDS_MAX && b->count <= FSM_REQUEST_FIELDS_MAX);
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        const uint8_t *one = a->prints + i * REQUEST_FIELD_BYTES;
        const uint8_t *other = b->prints + i * REQUEST_FIELD_BYTES;

        if (i < a->count && i < b->count && memcmp(one, other, REQUEST_FIELD_BYTES) == 0)
            continue;
        /* the lower number of two is missing in one of them */
        if (i >= a->count || (i < b->count && memcmp(other, one, 2) < 0))
            one = other;
        return name_field(one, body, ret_name);
    }
    return false;
}
