/* Snapshots whose records are well-formed and wrong: fields of a real state's records are changed,
 * records left out or told twice. Each is refused, or restored into a state that goes on working.
 *
 * Flow     the input's first byte chooses one of the states, which random lives made; each eight
 *          bytes behind it are one edit: which record, the way down to a field, the new value.
 */
#include "tests/fuzz/restored.h"

#include "ckpt/log/v1/snapshot.pb-c.h"

enum {
    STATES = 24,
    LINES_PER_STATE = 60, /* of the first; each has as many more */
    EDIT_BYTES = 8,
    EDITS_MAX = 3,
    RECORD_MAX = 1 << 20,
    PREFIX_BYTES = 4,
    MEMORY_BYTES = 1 << 22,
    ENUM_END = 20,
};

static struct script_bytes states[STATES];
static _Alignas(16) uint8_t memory[MEMORY_BYTES]; /* of the record that is edited */
static size_t memory_used;
static uint8_t packed[RECORD_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void *memory_take(void *unused, size_t size)
{
    size_t at = memory_used;

    (void)unused;
    memory_used += (size + 15) & ~(size_t)15;
    if (memory_used > sizeof(memory))
        abort();
    return memory + at;
}

static void memory_keep(void *unused, void *pointer)
{
    (void)unused;
    (void)pointer;
}

static ProtobufCAllocator allocator = {memory_take, memory_keep, NULL};

static void states_make(void)
{
    for (uint64_t i = 0; i < STATES; i++) {
        struct script script;
        uint64_t dice = i;
        char line[512];

        script_start(&script);
        for (uint64_t lines = (i + 1) * LINES_PER_STATE; lines > 0; lines--) {
            random_line(&script, &dice, line, sizeof(line));
            script_run(&script, "%s", line);
        }
        fsm_snapshot_write(script.fsm, script_write, &states[i]);
        script_close(&script);
    }
}

static uint64_t value_of(uint64_t old, uint8_t choice)
{
    static const uint64_t values[] = {0, 1, 2, 7, UINT32_MAX, INT64_MAX, UINT64_MAX};

    if (choice % 16 < 7)
        return values[choice % 16];
    if (choice % 16 < 11)
        return old + 1 + choice / 16;
    return old - 1 - choice / 16;
}

static void edit_value(const ProtobufCFieldDescriptor *field, void *value, uint8_t choice)
{
    uint64_t number = 0;
    char *text;

    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)value ^= 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int32_t *)value = choice % ENUM_END;
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = *(char **)value;
        if (text != NULL && text[0] != '\0')
            text[choice % 4 == 0 ? 0 : strlen(text) - 1] = choice % 4 == 0 ? '\0' : '7';
        break;
    case PROTOBUF_C_TYPE_BYTES:
        ((ProtobufCBinaryData *)value)->len /= 2;
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        memcpy(&number, value, 4);
        number = value_of(number, choice);
        memcpy(value, &number, 4);
        break;
    default:
        memcpy(&number, value, 8);
        number = value_of(number, choice);
        memcpy(value, &number, 8);
    }
}

static size_t item_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return 4;
    default:
        return 8;
    }
}

/* The next byte of the way says which field, and if it is a list which of its items: the last edit
 * of a list is to lose its end. */
static void edit_message(ProtobufCMessage *message, const uint8_t *way, uint8_t choice)
{
    for (int depth = 0; depth < 4 && message != NULL; depth++) {
        const ProtobufCMessageDescriptor *type = message->descriptor;
        const ProtobufCFieldDescriptor *field;
        char *value;

        if (type->n_fields == 0)
            return;
        field = &type->fields[way[depth] % type->n_fields];
        value = (char *)message + field->offset;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t *count = (size_t *)(void *)((char *)message + field->quantifier_offset);

            if (*count == 0)
                return;
            if (way[depth] >= 240) {
                --*count;
                return;
            }
            value = *(char **)(void *)value + (choice % *count) * item_bytes(field);
        }
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            edit_value(field, value, choice);
            return;
        }
        if (way[depth] >= 240) {
            if (field->label != PROTOBUF_C_LABEL_REPEATED)
                *(ProtobufCMessage **)(void *)value = NULL;
            return;
        }
        message = *(ProtobufCMessage **)(void *)value;
    }
}

static size_t length_at(const uint8_t *bytes)
{
    return bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
}

static void put_record(struct script_bytes *to, const Ckpt__Log__V1__SnapshotRecord *record)
{
    size_t length = ckpt__log__v1__snapshot_record__get_packed_size(record);
    uint8_t prefix[PREFIX_BYTES] = {(uint8_t)length, (uint8_t)(length >> 8),
                                    (uint8_t)(length >> 16), (uint8_t)(length >> 24)};

    if (length > sizeof(packed))
        abort();
    ckpt__log__v1__snapshot_record__pack(record, packed);
    script_write(to, prefix, sizeof(prefix));
    script_write(to, packed, length);
}

static ProtobufCMessage *body_of(Ckpt__Log__V1__SnapshotRecord *record)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        record->base.descriptor, (unsigned)record->body_case);

    return field == NULL ? NULL
                         : *(ProtobufCMessage **)(void *)((char *)&record->base + field->offset);
}

/* The past requests and events behind them are many and alike: most edits are of others. */
static size_t records_before(const struct script_bytes *state, bool past_requests)
{
    size_t count = 0;

    for (size_t at = 0; at < state->length; at += PREFIX_BYTES + length_at(state->bytes + at)) {
        const Ckpt__Log__V1__SnapshotRecord *record;

        memory_used = 0;
        record = ckpt__log__v1__snapshot_record__unpack(&allocator, length_at(state->bytes + at),
                                                        state->bytes + at + PREFIX_BYTES);
        if (past_requests && record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_SESSION)
            break;
        count++;
    }
    return count;
}

/* The state's records with the edits; the footer counts what is left of them. */
static void edited(const struct script_bytes *state, const uint8_t *edits, size_t edit_count,
                   struct script_bytes *to)
{
    const size_t counts[2] = {records_before(state, true), records_before(state, false)};
    size_t number = 0;
    uint64_t written = 0;

    for (size_t at = 0; at < state->length; number++) {
        size_t length = length_at(state->bytes + at);
        Ckpt__Log__V1__SnapshotRecord *record;
        unsigned times = 1;

        memory_used = 0;
        record = ckpt__log__v1__snapshot_record__unpack(&allocator, length,
                                                        state->bytes + at + PREFIX_BYTES);
        at += PREFIX_BYTES + length;
        for (size_t i = 0; i < edit_count; i++) {
            const uint8_t *edit = edits + i * EDIT_BYTES;

            if ((edit[0] | (size_t)edit[1] << 8) % counts[edit[2] % 8 == 7] != number)
                continue;
            if (edit[2] < 16)
                times = edit[2] % 2 * 2;
            else
                edit_message(body_of(record), edit + 3, edit[7]);
        }
        if (record->body_case == CKPT__LOG__V1__SNAPSHOT_RECORD__BODY_FOOTER)
            record->footer->record_count = written;
        for (; times > 0; times--, written++)
            put_record(to, record);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct script_bytes wrong = {NULL, 0, 0, 0};
    struct script script;
    size_t edits;
    char text[256];

    if (states[0].bytes == NULL)
        states_make();
    if (length <= EDIT_BYTES)
        return 0;
    edits = 1 + bytes[0] / STATES % EDITS_MAX;
    if (edits > (length - 1) / EDIT_BYTES)
        edits = (length - 1) / EDIT_BYTES;
    edited(&states[bytes[0] % STATES], bytes + 1, edits, &wrong);
    script_open(&script);
    if (fsm_snapshot_read(script.fsm, script_read, &wrong, text, sizeof(text)) == 0)
        restored_goes_on(&script, bytes[1]);
    script_close(&script);
    free(wrong.bytes);
    return 0;
}
