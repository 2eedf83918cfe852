/* Walks serialized descriptors. See descriptors.h. */
#include "src/rpc/descriptors.h"

#include <string.h>

#include "src/base/check.h"

/* Field numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    ANY_NAME = 1,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2
};
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static bool read_varint(struct rpc_span *rest, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && rest->length > 0; shift += 7) {
        uint8_t byte = *rest->bytes;

        rest->bytes++;
        rest->length--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Takes one field. False at the end or when it is malformed (then rest->length is not 0). value is
 * empty unless the field is bytes. */
static bool read_field(struct rpc_span *rest, uint64_t *ret_number, struct rpc_span *ret_value)
{
    struct rpc_span at = *rest;
    uint64_t key, size = 0;

    *ret_value = (struct rpc_span){0};
    if (rest->length == 0 || !read_varint(&at, &key))
        return false;
    switch (key & 7) {
    case WIRE_VARINT:
        if (!read_varint(&at, &size))
            return false;
        size = 0;
        break;
    case WIRE_FIXED64:
        size = 8;
        break;
    case WIRE_BYTES:
        if (!read_varint(&at, &size))
            return false;
        *ret_value = (struct rpc_span){at.bytes, (size_t)size};
        break;
    case WIRE_FIXED32:
        size = 4;
        break;
    default:
        return false;
    }
    if (size > at.length)
        return false;
    *rest = (struct rpc_span){at.bytes + size, at.length - (size_t)size};
    *ret_number = key >> 3;
    return true;
}

static bool span_is(struct rpc_span span, const char *text, size_t length)
{
    return span.length == length && (length == 0 || memcmp(span.bytes, text, length) == 0);
}

/* The first field of that number; empty when there is none. */
static struct rpc_span first_field(struct rpc_span message, uint64_t wanted)
{
    struct rpc_span value;
    uint64_t number;

    while (read_field(&message, &number, &value))
        if (number == wanted && value.bytes != NULL)
            return value;
    return (struct rpc_span){0};
}

/* The element of repeated field `wanted` whose name is text. */
static bool named_field(struct rpc_span message, uint64_t wanted, const char *text, size_t length,
                        struct rpc_span *ret_value)
{
    struct rpc_span value;
    uint64_t number;

    while (read_field(&message, &number, &value)) {
        if (number == wanted && value.bytes != NULL &&
            span_is(first_field(value, ANY_NAME), text, length)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

int rpc_descriptors_open(struct rpc_descriptors *descriptors, const uint8_t *bytes, size_t length)
{
    struct rpc_span rest = {bytes, length};
    struct rpc_span value;
    uint64_t number;

    descriptors->count = 0;
    while (read_field(&rest, &number, &value)) {
        if (number != SET_FILE || value.bytes == NULL)
            continue;
        if (descriptors->count == RPC_DESCRIPTOR_FILES_MAX)
            return -1;
        descriptors->files[descriptors->count++] = value;
    }
    return rest.length == 0 ? 0 : -1;
}

int rpc_descriptors_find_file(const struct rpc_descriptors *descriptors, const char *name,
                              size_t length)
{
    for (size_t i = 0; i < descriptors->count; i++)
        if (span_is(first_field(descriptors->files[i], FILE_NAME), name, length))
            return (int)i;
    return -1;
}

/* "Method" of a service, "VALUE" of an enum or "field" of a message: the last part of a symbol. */
static bool leaf_found(struct rpc_span parent, uint64_t field, const char *name)
{
    struct rpc_span ignored;

    return named_field(parent, field, name, strlen(name), &ignored);
}

/* Whether "Outer.Inner.leaf" is in the file. */
static bool file_has(struct rpc_span file, const char *symbol)
{
    uint64_t message_field = FILE_MESSAGE, enum_field = FILE_ENUM;
    struct rpc_span scope = file, found;

    for (;;) {
        const char *dot = strchr(symbol, '.');
        size_t length = dot != NULL ? (size_t)(dot - symbol) : strlen(symbol);
        bool in_file = scope.bytes == file.bytes && message_field == FILE_MESSAGE;

        if (named_field(scope, enum_field, symbol, length, &found))
            return dot == NULL || leaf_found(found, ENUM_VALUE, dot + 1);
        if (in_file && named_field(scope, FILE_SERVICE, symbol, length, &found))
            return dot == NULL || leaf_found(found, SERVICE_METHOD, dot + 1);
        if (!in_file && dot == NULL && leaf_found(scope, MESSAGE_FIELD, symbol))
            return true;
        if (!named_field(scope, message_field, symbol, length, &found))
            return false;
        if (dot == NULL)
            return true;
        scope = found;
        message_field = MESSAGE_NESTED;
        enum_field = MESSAGE_ENUM;
        symbol = dot + 1;
    }
}

int rpc_descriptors_find_symbol(const struct rpc_descriptors *descriptors, const char *symbol)
{
    if (symbol[0] == '.')
        symbol++;
    for (size_t i = 0; i < descriptors->count; i++) {
        struct rpc_span package = first_field(descriptors->files[i], FILE_PACKAGE);
        size_t skip = package.length == 0 ? 0 : package.length + 1;

        if (skip > 0 && (strncmp(symbol, (const char *)package.bytes, package.length) != 0 ||
                         symbol[package.length] != '.'))
            continue;
        if (file_has(descriptors->files[i], symbol + skip))
            return (int)i;
    }
    return -1;
}

size_t rpc_descriptors_closure(const struct rpc_descriptors *descriptors, int file,
                               int ret_files[RPC_DESCRIPTOR_FILES_MAX])
{
    bool taken[RPC_DESCRIPTOR_FILES_MAX] = {false};
    size_t count = 0;

    CHECK(file >= 0 && (size_t)file < descriptors->count);
    ret_files[count++] = file;
    taken[file] = true;
    for (size_t i = 0; i < count; i++) {
        struct rpc_span rest = descriptors->files[ret_files[i]], value;
        uint64_t number;

        while (read_field(&rest, &number, &value)) {
            int imported;

            if (number != FILE_DEPENDENCY || value.bytes == NULL)
                continue;
            imported =
                rpc_descriptors_find_file(descriptors, (const char *)value.bytes, value.length);
            if (imported < 0 || taken[imported])
                continue;
            taken[imported] = true;
            ret_files[count++] = imported;
        }
    }
    return count;
}

void rpc_descriptors_services(const struct rpc_descriptors *descriptors,
                              void (*service)(void *data, struct rpc_span package,
                                              struct rpc_span name),
                              void *data)
{
    for (size_t i = 0; i < descriptors->count; i++) {
        struct rpc_span rest = descriptors->files[i], value;
        struct rpc_span package = first_field(rest, FILE_PACKAGE);
        uint64_t number;

        while (read_field(&rest, &number, &value))
            if (number == FILE_SERVICE && value.bytes != NULL)
                service(data, package, first_field(value, ANY_NAME));
    }
}
