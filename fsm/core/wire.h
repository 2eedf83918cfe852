/* Walks over the fields of a packed message, one after the other, without decoding their values.
 *
 * Shapes   inline: each command brings some, on every member.
 * Errors   wire_next() is false at the end, and at bytes that are no field: wire_whole() tells
 *          which.
 */
#ifndef CKPT_FSM_WIRE_H
#define CKPT_FSM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/check.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, WIRE_VARINT_MAX_BYTES = 10 };

struct wire_reader {
    const uint8_t *at, *end;
};

struct wire_field {
    uint64_t number;
    const uint8_t *start; /* of the field, with its tag; length of both */
    size_t length;
    const uint8_t *value; /* of WIRE_BYTES alone; else NULL */
    size_t value_length;
};

/* Longer than ten bytes, or cut off: false. */
static inline bool wire_read_varint(struct wire_reader *reader, uint64_t *ret_value)
{
    uint64_t value = 0;

    CHECK(reader->at <= reader->end);
    for (unsigned i = 0; i < WIRE_VARINT_MAX_BYTES && reader->at < reader->end; i++) {
        uint8_t byte = *reader->at++;

        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Moves past a field's value, whatever its type. */
static inline bool wire_read_value(struct wire_reader *reader, unsigned wire,
                                   struct wire_field *ret_field)
{
    uint64_t length;

    CHECK(reader->at <= reader->end);
    if (wire == WIRE_VARINT)
        return wire_read_varint(reader, &length);
    if (wire == WIRE_BYTES) {
        if (!wire_read_varint(reader, &length))
            return false;
    } else if (wire == WIRE_64 || wire == WIRE_32) {
        length = wire == WIRE_64 ? 8 : 4;
    } else {
        return false;
    }
    if (length > (uint64_t)(reader->end - reader->at))
        return false;
    if (wire == WIRE_BYTES) {
        ret_field->value = reader->at;
        ret_field->value_length = length;
    }
    reader->at += length;
    return true;
}

static inline bool wire_next(struct wire_reader *reader, struct wire_field *ret_field)
{
    const uint8_t *start = reader->at;
    uint64_t tag;

    CHECK(ret_field != NULL);
    *ret_field = (struct wire_field){.start = start};
    if (reader->at == reader->end || !wire_read_varint(reader, &tag) ||
        !wire_read_value(reader, tag & 7, ret_field)) {
        reader->at = start;
        return false;
    }
    ret_field->number = tag >> 3;
    ret_field->length = (size_t)(reader->at - start);
    return true;
}

static inline bool wire_whole(const struct wire_reader *reader)
{
    return reader->at == reader->end;
}

#endif
