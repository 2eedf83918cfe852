/* fsm_unpack() gives what protobuf_c_message_unpack() gives, for packed messages of every kind and
 * for bytes that are nearly ones. */
#include "fsm/core/unpack.h"

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

/* Now and then longer than it needs to be, up to one byte more than any may have. */
static void put_varint(struct bytes *bytes, uint64_t value)
{
    uint64_t padding = dice(100) == 0 ? dice(11) : 0;

    for (; value >= 0x80 || padding > 0; value >>= 7) {
        bytes->at[bytes->length++] = (uint8_t)(value | 0x80);
        padding -= padding > 0;
    }
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

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &ckpt__log__v1__command__descriptor,
    &ckpt__v1__register_allocation_request__descriptor,
    &ckpt__v1__update_allocation_request__descriptor,
    &ckpt__v1__report_queue_request__descriptor,
    &ckpt__log__v1__decision_batch__descriptor,
    &ckpt__log__v1__set_learned__descriptor};

static void every_message_is_what_the_library_makes_of_it(void **state)
{
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

/* Long varints: a tag and a length may have five bytes, a number ten, and a bool is true by any bit
 * of them. */
static void long_varints_are_what_the_library_makes_of_them(void **state)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"\x88\x80\x80\x80\x00\x07", 6},
        {"\x88\x80\x80\x80\x80\x00\x07", 7},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7e", 11},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12},
        {"\x0a\x81\x80\x80\x80\x00\x41", 7},
        {"\x0a\x81\x80\x80\x80\x80\x00\x41", 8},
        {"\x0b\x08\x01\x0c", 4},
    };
    struct bytes *bytes = calloc(1, sizeof(*bytes));

    (void)state;
    for (size_t d = 0; d < sizeof(descriptors) / sizeof(descriptors[0]); d++)
        for (unsigned field = 0; field < descriptors[d]->n_fields; field++)
            for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint8_t *first = bytes->at;

                if (descriptors[d]->fields[field].id > 15)
                    continue;
                bytes->length = cases[i].length;
                memcpy(bytes->at, cases[i].text, bytes->length);
                *first = (uint8_t)((*first & 0x87) | descriptors[d]->fields[field].id << 3);
                expect_same(descriptors[d], bytes);
            }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_what_the_library_makes_of_it),
        cmocka_unit_test(long_varints_are_what_the_library_makes_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
