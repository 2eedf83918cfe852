/* Finds texts with a NUL byte in a packed message. See texts.h. */
#include "src/broker/api/texts.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

/* A part of the message that is still to be read, and its type. */
struct span {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *bytes;
    size_t length;
};

/* False: the bytes end within the number. */
static bool take_varint(struct span *span, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && span->length > 0; shift += 7) {
        uint8_t byte = *span->bytes++;
        span->length--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* The next so many bytes as a span of their own; false: there are fewer. */
static bool take_bytes(struct span *span, uint64_t length, struct span *ret_inner)
{
    if (length > span->length)
        return false;
    ret_inner->bytes = span->bytes;
    ret_inner->length = (size_t)length;
    span->bytes += length;
    span->length -= (size_t)length;
    return true;
}

/* Takes one field; ret_inner is empty unless it is length-delimited. */
static bool take_field(struct span *span, uint64_t *ret_number, struct span *ret_inner)
{
    uint64_t key;
    uint64_t value;

    *ret_inner = (struct span){NULL, NULL, 0};
    if (!take_varint(span, &key))
        return false;
    *ret_number = key >> 3;
    switch (key & 7) {
    case WIRE_VARINT:
        return take_varint(span, &value);
    case WIRE_64:
        if (!take_bytes(span, 8, ret_inner))
            return false;
        *ret_inner = (struct span){NULL, NULL, 0};
        return true;
    case WIRE_32:
        if (!take_bytes(span, 4, ret_inner))
            return false;
        *ret_inner = (struct span){NULL, NULL, 0};
        return true;
    case WIRE_LENGTH:
        return take_varint(span, &value) && take_bytes(span, value, ret_inner);
    default:
        return false;
    }
}

/* Depth first, without recursion. Bytes that do not decode are refused elsewhere. */
bool texts_hold_nul(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t length)
{
    struct span stack[TEXTS_DEPTH_MAX];
    size_t depth = 1;

    /* Canonical messages hardly ever hold a zero byte at all. */
    if (length == 0 || memchr(bytes, 0, length) == NULL)
        return false;
    stack[0] = (struct span){type, bytes, length};
    while (depth > 0) {
        struct span *span = &stack[depth - 1];
        const ProtobufCFieldDescriptor *field;
        struct span inner;
        uint64_t number;

        if (span->length == 0) {
            depth--;
            continue;
        }
        if (!take_field(span, &number, &inner))
            return false;
        field = number > UINT32_MAX
                    ? NULL
                    : protobuf_c_message_descriptor_get_field(span->type, (unsigned)number);
        if (field == NULL || inner.length == 0)
            continue;
        if (field->type == PROTOBUF_C_TYPE_STRING && memchr(inner.bytes, 0, inner.length) != NULL)
            return true;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth < TEXTS_DEPTH_MAX) {
            inner.type = field->descriptor;
            stack[depth++] = inner;
        }
    }
    return false;
}
