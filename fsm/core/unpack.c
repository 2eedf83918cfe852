/* Messages out of bytes. See unpack.h. */
#include "fsm/core/unpack.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { NUMBER_MAX_BYTES = 10, TAG_MAX_BYTES = 5, LENGTH_MAX_BYTES = 5 }; /* of varints */

/* A message that is being filled. */
struct frame {
    ProtobufCMessage *message;
    const uint8_t *at, *end;
    unsigned next; /* where the next field is looked for first */
};

/* One field as it was read; the tag's type says which member counts. */
struct field {
    const ProtobufCFieldDescriptor *descriptor;
    uint64_t number;      /* VARINT, 64, 32 */
    const uint8_t *bytes; /* BYTES */
    size_t length;
};

/* One with more than 64 bits is unusual: a bool is true by any of them. */
static inline bool read_varint(struct frame *frame, unsigned bytes_max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (frame->at < frame->end && *frame->at < 0x80) {
        *ret_value = *frame->at++;
        return true;
    }
    for (unsigned i = 0; i < bytes_max && frame->at < frame->end; i++) {
        uint8_t byte = *frame->at++;

        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret_value = value;
            return i + 1 < NUMBER_MAX_BYTES || byte <= 1;
        }
    }
    return false;
}

/* Byte by byte: it is the same on every processor. */
static bool read_fixed(struct frame *frame, size_t size, uint64_t *ret_value)
{
    uint64_t value = 0;

    if ((size_t)(frame->end - frame->at) < size)
        return false;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)frame->at[i] << (8 * i);
    frame->at += size;
    *ret_value = value;
    return true;
}

/* Bytes are not copied here; their length is compared with what is left, so that no message can
 * make this read beyond its end. */
static bool read_value(struct frame *frame, unsigned wire, struct field *field)
{
    uint64_t length;

    if (wire == WIRE_VARINT)
        return read_varint(frame, NUMBER_MAX_BYTES, &field->number);
    if (wire == WIRE_64 || wire == WIRE_32)
        return read_fixed(frame, wire == WIRE_64 ? 8 : 4, &field->number);
    if (wire != WIRE_BYTES || !read_varint(frame, LENGTH_MAX_BYTES, &length) ||
        length > (uint64_t)(frame->end - frame->at))
        return false;
    field->bytes = frame->at;
    field->length = length;
    frame->at += length;
    return true;
}

/* How a value of this type is written when it stands alone. */
static unsigned wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        break;
    }
    return WIRE_VARINT;
}

/* Fields mostly come in the order of their numbers, which is that of the descriptor. */
static const ProtobufCFieldDescriptor *field_find(struct frame *frame, uint64_t id)
{
    const ProtobufCMessageDescriptor *descriptor = frame->message->descriptor;

    for (unsigned i = frame->next; i < descriptor->n_fields && descriptor->fields[i].id <= id; i++)
        if (descriptor->fields[i].id == id) {
            frame->next = i;
            return &descriptor->fields[i];
        }
    return NULL; /* unknown, or out of order */
}

static void *member_at(ProtobufCMessage *message, size_t offset)
{
    return (char *)message + offset;
}

static ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *descriptor,
                                     ProtobufCAllocator *allocator)
{
    ProtobufCMessage *message =
        allocator->alloc(allocator->allocator_data, descriptor->sizeof_message);

    CHECK(message != NULL && descriptor->message_init != NULL);
    descriptor->message_init(message);
    return message;
}

/* `more` zeros behind them end a text. */
static void *copy_bytes(ProtobufCAllocator *allocator, const struct field *field, size_t more)
{
    uint8_t *copy = allocator->alloc(allocator->allocator_data, field->length + more);

    memcpy(copy, field->bytes, field->length);
    memset(copy + field->length, 0, more);
    return copy;
}

/* Numbers are kept in the width that protobuf-c gives their type, whatever came on the wire. */
static void put_number(void *member, ProtobufCType type, uint64_t number)
{
    uint32_t low = (uint32_t)number;

    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)member = number != 0;
        return;
    case PROTOBUF_C_TYPE_SINT32:
        low = (low >> 1) ^ -(low & 1);
        memcpy(member, &low, sizeof(low));
        return;
    case PROTOBUF_C_TYPE_SINT64:
        number = (number >> 1) ^ -(number & 1);
        memcpy(member, &number, sizeof(number));
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(member, &number, sizeof(number));
        return;
    default: /* the others are of 32 bits */
        memcpy(member, &low, sizeof(low));
    }
}

/* Of one element in the array of a repeated field. */
static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return wire_of(type) == WIRE_64 || type == PROTOBUF_C_TYPE_INT64 ||
                       type == PROTOBUF_C_TYPE_SINT64 || type == PROTOBUF_C_TYPE_UINT64
                   ? 8
                   : 4;
    }
}

/* A value of its type; a message comes out in ret_below to be filled. False: it is there
 * already. */
static bool put_value(void *member, const struct field *field, ProtobufCAllocator *allocator,
                      bool fresh, ProtobufCMessage **ret_below)
{
    ProtobufCType type = field->descriptor->type;

    if (type == PROTOBUF_C_TYPE_STRING) {
        if (!fresh && *(char **)member != field->descriptor->default_value &&
            *(char **)member != &protobuf_c_empty_string[0])
            return false;
        *(char **)member = copy_bytes(allocator, field, 1);
    } else if (type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData *data = member;

        if (!fresh && data->data != NULL)
            return false;
        data->data = field->length > 0 ? copy_bytes(allocator, field, 0) : NULL;
        data->len = field->length;
    } else if (type == PROTOBUF_C_TYPE_MESSAGE) {
        if (!fresh && *(ProtobufCMessage **)member != NULL)
            return false;
        *ret_below = message_new(field->descriptor->descriptor, allocator);
        *(ProtobufCMessage **)member = *ret_below;
    } else {
        put_number(member, type, field->number);
    }
    return true;
}

/* How often the field comes from here on, right behind each other; false: later again. One array of
 * the right size can then be made at once. */
static bool count_repeated(const struct frame *frame, uint64_t tag, size_t *ret_count)
{
    struct frame ahead = *frame;
    struct field skipped;
    uint64_t next;
    bool other = false;

    *ret_count = 1;
    while (ahead.at < ahead.end) {
        if (!read_varint(&ahead, TAG_MAX_BYTES, &next) || !read_value(&ahead, next & 7, &skipped))
            return false;
        if (next == tag && other)
            return false;
        other |= next != tag;
        *ret_count += next == tag;
    }
    return true;
}

/* An empty or a second run is unusual: protobuf_c_message_unpack() joins them. The array has room
 * for one element per byte, since none takes less. */
static bool put_packed(ProtobufCMessage *message, const struct field *field,
                       ProtobufCAllocator *allocator)
{
    const ProtobufCFieldDescriptor *descriptor = field->descriptor;
    unsigned wire = wire_of(descriptor->type);
    size_t size = size_of(descriptor->type),
           *count = member_at(message, descriptor->quantifier_offset);
    struct frame values = {.at = field->bytes, .end = field->bytes + field->length};
    char *array;

    if (*count != 0 || field->length == 0)
        return false;
    array = allocator->alloc(allocator->allocator_data, field->length * size);
    *(void **)member_at(message, descriptor->offset) = array;
    for (; values.at < values.end; (*count)++) {
        struct field one;

        if (!read_value(&values, wire, &one))
            return false;
        put_number(array + *count * size, descriptor->type, one.number);
    }
    return true;
}

/* The first one finds out how many there are; the others follow right behind it. */
static bool put_repeated(struct frame *frame, uint64_t tag, const struct field *field,
                         ProtobufCAllocator *allocator, ProtobufCMessage **ret_below)
{
    const ProtobufCFieldDescriptor *descriptor = field->descriptor;
    size_t size = size_of(descriptor->type), all;
    size_t *count = member_at(frame->message, descriptor->quantifier_offset);
    void **array = member_at(frame->message, descriptor->offset);

    if (*count == 0) {
        if (!count_repeated(frame, tag, &all))
            return false;
        *array = allocator->alloc(allocator->allocator_data, all * size);
        CHECK(*array != NULL);
    }
    if (!put_value((char *)*array + *count * size, field, allocator, true, ret_below))
        return false;
    (*count)++;
    return true;
}

/* A oneof, or an optional number, tells that it is there. False: it did already. */
static bool put_quantifier(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *kind = member_at(message, field->quantifier_offset);

        if (*kind != 0)
            return false;
        *kind = field->id;
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset != 0) {
        *(protobuf_c_boolean *)member_at(message, field->quantifier_offset) = true;
    }
    return true;
}

/* False: something unusual. */
static bool take_field(struct frame *frame, ProtobufCAllocator *allocator,
                       ProtobufCMessage **ret_below)
{
    struct field field;
    uint64_t tag;
    bool repeated, in_oneof;

    if (!read_varint(frame, TAG_MAX_BYTES, &tag))
        return false;
    field.descriptor = field_find(frame, tag >> 3);
    if (field.descriptor == NULL || !read_value(frame, tag & 7, &field))
        return false;
    repeated = field.descriptor->label == PROTOBUF_C_LABEL_REPEATED;
    if ((tag & 7) != wire_of(field.descriptor->type))
        return repeated && (tag & 7) == WIRE_BYTES && put_packed(frame->message, &field, allocator);
    if (repeated)
        return wire_of(field.descriptor->type) == WIRE_BYTES &&
               put_repeated(frame, tag, &field, allocator, ret_below);
    in_oneof = (field.descriptor->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    return put_quantifier(frame->message, field.descriptor) &&
           put_value(member_at(frame->message, field.descriptor->offset), &field, allocator,
                     in_oneof, ret_below);
}

/* A stack in place of recursion. Each round takes one field, so it ends with the bytes. */
static bool frames_fill(struct frame *frames, ProtobufCAllocator *allocator)
{
    size_t depth = 1;

    CHECK(frames->message != NULL);
    while (depth > 0) {
        struct frame *frame = &frames[depth - 1];
        ProtobufCMessage *below = NULL;
        const uint8_t *began = frame->at;

        if (frame->at == frame->end) {
            depth--;
            continue;
        }
        if (!take_field(frame, allocator, &below) || (below != NULL && depth == UNPACK_DEPTH_MAX))
            return false;
        CHECK(frame->at > began);
        if (below != NULL) { /* its bytes are the last ones that were read */
            struct frame value = {.at = began, .end = frame->end};
            uint64_t skipped;

            CHECK(read_varint(&value, TAG_MAX_BYTES, &skipped) &&
                  read_varint(&value, LENGTH_MAX_BYTES, &skipped));
            frames[depth++] = (struct frame){below, value.at, frame->at, 0};
        }
    }
    return true;
}

/* What was begun is thrown away when something unusual comes: the slow way knows all of it. */
ProtobufCMessage *fsm_unpack(const ProtobufCMessageDescriptor *descriptor,
                             ProtobufCAllocator *allocator, size_t length, const uint8_t *bytes)
{
    struct frame frames[UNPACK_DEPTH_MAX];

    CHECK(descriptor != NULL);
    CHECK(bytes != NULL);
    CHECK(allocator != NULL);
    frames[0] = (struct frame){message_new(descriptor, allocator), bytes, bytes + length, 0};
    if (frames_fill(frames, allocator))
        return frames[0].message;
    protobuf_c_message_free_unpacked(frames[0].message, allocator);
    return protobuf_c_message_unpack(descriptor, allocator, length, bytes);
}
