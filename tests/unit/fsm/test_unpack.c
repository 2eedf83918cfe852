/* fsm_unpack() gives what protobuf_c_message_unpack() gives, for packed messages of every kind and for bytes that are nearly ones. */
#include "fsm/unpack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "ckpt/log/v1/snapshot.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "tests/support/test.h"

enum { BYTES_MAX = 1 << 16, MUTATIONS = 12 };

static uint64_t dice_state;
static size_t blocks; /* that were taken and not given back */

static uint64_t dice(uint64_t sides)
{
    return test_random(&dice_state) % sides;
}

static void *take(void *data, size_t size)
{
    (void)data;
    blocks++;
    return calloc(1, size > 0 ? size : 1);
}

static void give(void *data, void *block)
{
    (void)data;
    blocks -= block != NULL;
    free(block);
}

static ProtobufCAllocator counted = {take, give, NULL};

/* ---- bytes of any message ---- */

struct bytes {
    uint8_t at[BYTES_MAX];
    size_t length;
};

static void put_varint(struct bytes *bytes, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        bytes->at[bytes->length++] = (uint8_t)(value | 0x80);
    bytes->at[bytes->length++] = (uint8_t)value;
}

static void put_message(struct bytes *bytes, const ProtobufCMessageDescriptor *descriptor,
                        int depth);

static void put_field(struct bytes *bytes, const ProtobufCFieldDescriptor *field, int depth)
{
    struct bytes *below;
    size_t length;

    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        below = calloc(1, sizeof(*below));
        put_message(below, field->descriptor, depth + 1);
        put_varint(bytes, field->id << 3 | 2);
        put_varint(bytes, below->length);
        memcpy(bytes->at + bytes->length, below->at, below->length);
        bytes->length += below->length;
        free(below);
        return;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        length = dice(3) == 0 ? 0 : dice(40);
        put_varint(bytes, field->id << 3 | 2);
        put_varint(bytes, length);
        for (size_t i = 0; i < length; i++)
            bytes->at[bytes->length++] = (uint8_t)('a' + dice(26));
        return;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        length = field->type == PROTOBUF_C_TYPE_FIXED32 ||
                         field->type == PROTOBUF_C_TYPE_SFIXED32 ||
                         field->type == PROTOBUF_C_TYPE_FLOAT
                     ? 4
                     : 8;
        put_varint(bytes, field->id << 3 | (length == 4 ? 5 : 1));
        for (size_t i = 0; i < length; i++)
            bytes->at[bytes->length++] = (uint8_t)dice(256);
        return;
    default:
        break;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED && dice(8) > 0) { /* packed */
        length = dice(5);
        put_varint(bytes, field->id << 3 | 2);
        put_varint(bytes, length);
        for (size_t i = 0; i < length; i++)
            bytes->at[bytes->length++] = (uint8_t)dice(128);
        return;
    }
    put_varint(bytes, field->id << 3);
    put_varint(bytes, test_random(&dice_state) >> dice(64));
}

static void put_message(struct bytes *bytes, const ProtobufCMessageDescriptor *descriptor,
                        int depth)
{
    unsigned one = (unsigned)dice(descriptor->n_fields + 1);

    for (unsigned i = 0; i < descriptor->n_fields && depth < 7; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        bool oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
        uint64_t times = field->label == PROTOBUF_C_LABEL_REPEATED ? dice(4) : dice(3) > 0;

        if (oneof)
            times = i == one;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && bytes->length > 2000)
            times = 0;
        for (; times > 0 && bytes->length < 3000; times--)
            put_field(bytes, field, depth);
    }
}

/* ---- the same ---- */

static void expect_same(const ProtobufCMessageDescriptor *descriptor, const struct bytes *bytes)
{
    static uint8_t packed[2][4 * BYTES_MAX];
    ProtobufCMessage *given = fsm_unpack(descriptor, &counted, bytes->length, bytes->at);
    ProtobufCMessage *wanted =
        protobuf_c_message_unpack(descriptor, NULL, bytes->length, bytes->at);
    size_t length;

    assert_int_equal(given == NULL, wanted == NULL);
    if (given != NULL) {
        length = protobuf_c_message_get_packed_size(wanted);
        assert_true(length <= sizeof(packed[0]));
        assert_uint_equal(protobuf_c_message_get_packed_size(given), length);
        assert_uint_equal(given->n_unknown_fields, wanted->n_unknown_fields);
        protobuf_c_message_pack(given, packed[0]);
        protobuf_c_message_pack(wanted, packed[1]);
        assert_memory_equal(packed[0], packed[1], length);
        protobuf_c_message_free_unpacked(given, &counted);
        protobuf_c_message_free_unpacked(wanted, NULL);
    }
    assert_uint_equal(blocks, 0);
}

static void mutate(struct bytes *bytes)
{
    size_t at = bytes->length > 0 ? dice(bytes->length) : 0;
    uint64_t which = dice(4);

    if (which == 0)
        bytes->length = at;
    else if (which == 1)
        bytes->at[at] = (uint8_t)dice(256);
    else if (which == 2 && bytes->length > 0)
        memmove(bytes->at + at, bytes->at + at + 1, --bytes->length - at);
    else if (bytes->length + 8 < BYTES_MAX)
        bytes->at[bytes->length++] = (uint8_t)dice(256);
}

static void every_message_is_what_the_library_makes_of_it(void **state)
{
    static const ProtobufCMessageDescriptor *const descriptors[] = {
        &ckpt__log__v1__command__descriptor,
        &ckpt__v1__register_allocation_request__descriptor,
        &ckpt__v1__update_allocation_request__descriptor,
        &ckpt__v1__report_queue_request__descriptor,
        &ckpt__log__v1__decision_batch__descriptor,
        &ckpt__log__v1__set_learned__descriptor};
    struct bytes *bytes = calloc(1, sizeof(*bytes));

    (void)state;
    dice_state = test_seed();
    for (int round = 0; round < 6000; round++) {
        const ProtobufCMessageDescriptor *descriptor =
            descriptors[dice(sizeof(descriptors) / sizeof(descriptors[0]))];

        bytes->length = 0;
        put_message(bytes, descriptor, 0);
        expect_same(descriptor, bytes);
        for (int i = 0; i < MUTATIONS; i++) {
            mutate(bytes);
            expect_same(descriptor, bytes);
        }
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_what_the_library_makes_of_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
