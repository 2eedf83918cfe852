/* Protocol messages <-> JSON, by their descriptors. */
#include "src/cli/reflect.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/base/text.h"
#include "src/cli/human.h"

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Runs of allocations' parts are made and shown alike. */
static bool is_checkpoint_id(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_UINT64 &&
           (ends_with(field->name, "checkpoint_id") || ends_with(field->name, "checkpoint_ids") ||
            ends_with(field->name, "_runs"));
}

static bool is_hash(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_UINT64 && ends_with(field->name, "hash");
}

static json_t *json_from_uint64(const ProtobufCFieldDescriptor *field, uint64_t value)
{
    char text[CHECKPOINT_ID_TEXT_BYTES];

    if (is_checkpoint_id(field))
        return value == 0 ? json_null() : json_string(checkpoint_id_format(value, text));
    if (is_hash(field))
        return json_sprintf("%016" PRIx64, value);
    if (value == UINT64_MAX && ends_with(field->name, "_ms"))
        return json_null(); /* never */
    return value <= INT64_MAX ? json_integer((json_int_t)value) : json_sprintf("%" PRIu64, value);
}

static json_t *json_from_text(const char *text)
{
    char safe[4096];
    json_t *json = json_string(text == NULL ? "" : text);

    /* jansson refuses text that is not UTF-8; it is shown all the same, with its odd bytes
     * replaced */
    if (json == NULL) {
        human_safe(text, safe, sizeof(safe));
        for (char *p = safe; *p != '\0'; p++)
            *p = (unsigned char)*p >= 0x80 ? '?' : *p;
        json = json_string(safe);
    }
    CHECK(json != NULL);
    return json;
}

static json_t *json_from_bytes(const ProtobufCBinaryData *data)
{
    char *text = check_alloc(data->len * 2 + 1);
    json_t *json;

    for (size_t i = 0; i < data->len; i++)
        snprintf(text + i * 2, 3, "%02x", data->data[i]);
    text[data->len * 2] = '\0';
    json = json_string(text);
    free(text);
    return json;
}

/* long: one case per wire type of the descriptor; splitting the switch would hide which are
 * handled */
static json_t *json_from_value(const ProtobufCFieldDescriptor *field, const void *value)
{
    char text[HUMAN_BYTES];

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_integer(*(const int32_t *)value);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_integer(*(const uint32_t *)value);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return json_integer(*(const int64_t *)value);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return json_from_uint64(field, *(const uint64_t *)value);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)value);
    case PROTOBUF_C_TYPE_ENUM:
        return json_string(human_enum(field->descriptor, *(const int *)value, text));
    case PROTOBUF_C_TYPE_STRING:
        return json_from_text(*(char *const *)value);
    case PROTOBUF_C_TYPE_BYTES:
        return json_from_bytes(value);
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *message = *(ProtobufCMessage *const *)value;

        return message == NULL ? json_null() : reflect_to_json(message);
    }
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        break;
    }
    CHECK_UNREACHABLE("the protocol has no floating point");
}

static size_t value_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    }
    CHECK_UNREACHABLE("field type");
}

static const void *member_const(const ProtobufCMessage *message, size_t offset)
{
    return (const char *)message + offset;
}

static void *member_at(ProtobufCMessage *message, size_t offset)
{
    return (char *)message + offset;
}

json_t *reflect_to_json(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    json_t *object = json_object();

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const void *place = member_const(message, field->offset);
        json_t *json;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = *(const size_t *)member_const(message, field->quantifier_offset);
            const char *items = *(char *const *)place;

            json = json_array();
            for (size_t k = 0; k < count; k++)
                json_array_append_new(json, json_from_value(field, items + k * value_size(field)));
        } else {
            json = json_from_value(field, place);
        }
        CHECK(json_object_set_new(object, field->name, json) == 0);
    }
    return object;
}

static const char *next_field(const void *context, size_t i)
{
    const ProtobufCMessageDescriptor *type = context;

    return i < type->n_fields ? type->fields[i].name : NULL;
}

static int unknown_key(const ProtobufCMessageDescriptor *type, const char *key, struct err *err)
{
    const char *near = text_nearest(key, next_field, type);
    char shown[HUMAN_BYTES];

    human_safe(key, shown, sizeof(shown));
    return near == NULL
               ? err_set(err, ERR_INVALID, "%s has no field \"%s\"", type->short_name, shown)
               : err_set(err, ERR_INVALID, "%s has no field \"%s\"; nearest: %s", type->short_name,
                         shown, near);
}

static uint64_t unsigned_max(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_UINT32 ? UINT32_MAX : UINT64_MAX;
}

static void set_unsigned(const ProtobufCFieldDescriptor *field, void *place, uint64_t value)
{
    CHECK(value <= unsigned_max(field));
    if (field->type == PROTOBUF_C_TYPE_UINT32)
        *(uint32_t *)place = (uint32_t)value;
    else
        *(uint64_t *)place = value;
}

/* Text into one scalar. A whole number is in the field's own unit when the key names it. */
static int set_scalar(const ProtobufCFieldDescriptor *field, void *place, bool in_unit,
                      const char *text, struct err *err)
{
    struct number_range range = {0, unsigned_max(field)};
    enum number_kind kind;
    uint64_t number;
    size_t stem;
    int value;

    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
        kind = number_named(field->name, &stem);
        if ((in_unit ? number_parse_in_unit(kind, text, range, &number, err)
                     : number_parse(kind, text, range, &number, err)) != 0)
            return err_wrap(err, "%s", field->name);
        set_unsigned(field, place, number);
        return 0;
    case PROTOBUF_C_TYPE_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return err_set(err, ERR_INVALID, "%s: neither true nor false", field->name);
        *(protobuf_c_boolean *)place = strcmp(text, "true") == 0;
        return 0;
    case PROTOBUF_C_TYPE_ENUM:
        if (!fsm_enum_parse(field->descriptor, text, &value))
            return err_set(err, ERR_INVALID, "%s: no such value", field->name);
        *(int *)place = value;
        return 0;
    case PROTOBUF_C_TYPE_STRING:
        if (*(char **)place != protobuf_c_empty_string)
            free(*(char **)place);
        *(char **)place = check_strdup(text);
        return 0;
    default:
        return err_set(err, ERR_INVALID, "%s cannot be given as text", field->name);
    }
}

const ProtobufCFieldDescriptor *reflect_field(const ProtobufCMessageDescriptor *type,
                                              const char *key)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        size_t stem;

        number_named(type->fields[i].name, &stem);
        if (strcmp(type->fields[i].name, key) == 0 ||
            (strlen(key) == stem && memcmp(type->fields[i].name, key, stem) == 0))
            return &type->fields[i];
    }
    return NULL;
}

int reflect_set_text(ProtobufCMessage *message, const char *key, const char *text, struct err *err)
{
    const ProtobufCFieldDescriptor *field = reflect_field(message->descriptor, key);

    if (field == NULL || field->label == PROTOBUF_C_LABEL_REPEATED)
        return unknown_key(message->descriptor, key, err);
    return set_scalar(field, member_at(message, field->offset), strcmp(field->name, key) == 0, text,
                      err);
}

static int set_from_json(const ProtobufCFieldDescriptor *field, void *place, bool in_unit,
                         json_t *json, struct err *err)
{
    char digits[32];

    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return reflect_from_json(field->descriptor, json, place, err);
    if (json_is_integer(json)) {
        snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        return set_scalar(field, place, in_unit, digits, err);
    }
    if (json_is_boolean(json))
        return set_scalar(field, place, in_unit, json_is_true(json) ? "true" : "false", err);
    if (json_is_string(json))
        return set_scalar(field, place, in_unit, json_string_value(json), err);
    return err_set(err, ERR_INVALID, "%s: not a value of this field's type", field->name);
}

static int set_repeated(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                        json_t *json, struct err *err)
{
    size_t *count = member_at(message, field->quantifier_offset);
    char **items = member_at(message, field->offset);
    size_t length = json_array_size(json);

    if (!json_is_array(json))
        return err_set(err, ERR_INVALID, "%s is a list", field->name);
    if (length == 0)
        return 0;
    *items = check_calloc(length, value_size(field));
    for (; *count < length; (*count)++)
        if (set_from_json(field, *items + *count * value_size(field), true,
                          json_array_get(json, *count), err) != 0)
            return err_wrap(err, "item %zu of %s", *count + 1, field->name);
    return 0;
}

int reflect_from_json(const ProtobufCMessageDescriptor *type, json_t *json,
                      ProtobufCMessage **ret_message, struct err *err)
{
    ProtobufCMessage *message;
    const char *key;
    json_t *value;
    int result = 0;

    if (!json_is_object(json))
        return err_set(err, ERR_INVALID, "%s is a set of keys and values", type->short_name);
    message = check_calloc(1, type->sizeof_message);
    protobuf_c_message_init(type, message);
    json_object_foreach(json, key, value)
    {
        const ProtobufCFieldDescriptor *field = reflect_field(type, key);

        if (field == NULL)
            result = unknown_key(type, key, err);
        else if (strcmp(field->name, key) != 0 && json_is_integer(value) &&
                 json_integer_value(value) != 0)
            result = err_set(err, ERR_INVALID, "%s needs a unit (or the key %s)", key, field->name);
        else if (field->label == PROTOBUF_C_LABEL_REPEATED)
            result = set_repeated(message, field, value, err);
        else
            result = set_from_json(field, member_at(message, field->offset),
                                   strcmp(field->name, key) == 0, value, err);
        if (result != 0) {
            protobuf_c_message_free_unpacked(message, NULL);
            return -1;
        }
    }
    *ret_message = message;
    return 0;
}

static const void *field_of(const ProtobufCMessage *message, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    return field == NULL || field->type != type || field->label == PROTOBUF_C_LABEL_REPEATED
               ? NULL
               : (const char *)message + field->offset;
}

char **reflect_text_field(ProtobufCMessage *message, const char *name)
{
    return (char **)(uintptr_t)field_of(message, name, PROTOBUF_C_TYPE_STRING);
}

const uint64_t *reflect_uint64_field(const ProtobufCMessage *message, const char *name)
{
    return field_of(message, name, PROTOBUF_C_TYPE_UINT64);
}

bool reflect_flag(const ProtobufCMessage *message, const char *name)
{
    const protobuf_c_boolean *flag = field_of(message, name, PROTOBUF_C_TYPE_BOOL);

    return flag != NULL && *flag != 0;
}
