/* What holds for every message by its descriptor: no unknown field, no unknown enum value, no
 * over-long text, at any depth. Shapes: messages nest at most FIELDS_DEPTH_MAX deep, so a small
 * stack replaces recursion. */
#include "fsm/core/state.h"

enum { FIELDS_DEPTH_MAX = 8 };

/* A message on the way down, and how far it was looked at. */
struct frame {
    const ProtobufCMessage *message;
    unsigned field;
    size_t element;
};

/* A oneof's number says which of its fields is there; the others' memory is that one's. */
size_t fsm_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *quantifier = (const char *)message + field->quantifier_offset;

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)quantifier;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return *(const uint32_t *)(const void *)quantifier == field->id;
    return 1;
}

/* Address of the i-th value. */
const void *fsm_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            size_t i)
{
    const char *at = (const char *)message + field->offset;
    size_t size = field->type == PROTOBUF_C_TYPE_ENUM ? sizeof(uint32_t) : sizeof(void *);

    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return at;
    return *(const char *const *)(const void *)at + i * size;
}

/* A value that the enum does not have would be stored, and no name could be shown for it. The bound
 * of texts is for those that have none of their own. */
static enum fsm_status field_check(const ProtobufCFieldDescriptor *field, const void *value,
                                   struct fsm_outcome *outcome)
{
    if (field->type == PROTOBUF_C_TYPE_ENUM) {
        int number = *(const int *)value;

        outcome->current = (uint64_t)(unsigned)number;
        if (protobuf_c_enum_descriptor_get_value(field->descriptor, number) == NULL) {
            outcome->subject = field->name;
            return FSM_INVALID_ARGUMENT;
        }
        outcome->current = 0;
    } else {
        const char *text = *(const char *const *)value;
        size_t length = text == NULL || text[0] == '\0' ? 0 : strlen(text);

        if (length > FSM_PREFIX_MAX_BYTES) {
            outcome->limit = FSM_PREFIX_MAX_BYTES;
            outcome->current = length;
            outcome->subject = field->name;
            return FSM_TOO_LARGE;
        }
    }
    return FSM_OK;
}

/* The next message below the frame, NULL when it is done; checks the plain fields on the way. */
static const ProtobufCMessage *frame_next(struct frame *frame, bool texts,
                                          struct fsm_outcome *outcome, enum fsm_status *ret_status)
{
    const ProtobufCMessageDescriptor *descriptor = frame->message->descriptor;

    CHECK(frame->message != NULL);
    for (; frame->field < descriptor->n_fields; frame->field++, frame->element = 0) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[frame->field];
        bool plain = field->type != PROTOBUF_C_TYPE_MESSAGE;
        size_t count;

        if (plain && field->type != PROTOBUF_C_TYPE_ENUM &&
            (!texts || field->type != PROTOBUF_C_TYPE_STRING))
            continue;
        count = fsm_field_count(frame->message, field);
        while (frame->element < count) {
            const void *value = fsm_field_value(frame->message, field, frame->element++);

            if (!plain && *(const ProtobufCMessage *const *)value != NULL)
                return *(const ProtobufCMessage *const *)value;
            if (plain)
                *ret_status = field_check(field, value, outcome);
            if (*ret_status != FSM_OK)
                return NULL;
        }
    }
    return NULL;
}

/* An unknown field is refused at any depth: a member that knows it would do something else with the
 * same entry. A message that is shorter than the longest text needs no look at texts. */
enum fsm_status fsm_validate_fields(const ProtobufCMessage *message, size_t packed_bytes,
                                    struct fsm_outcome *outcome)
{
    bool texts = packed_bytes > FSM_PREFIX_MAX_BYTES; /* else none is too long */
    struct frame frames[FIELDS_DEPTH_MAX];
    size_t depth = 1;
    enum fsm_status status = message->n_unknown_fields > 0 ? FSM_UNKNOWN_FIELD : FSM_OK;

    CHECK(outcome != NULL);
    frames[0] = (struct frame){message, 0, 0};
    while (depth > 0 && status == FSM_OK) {
        const ProtobufCMessage *below = frame_next(&frames[depth - 1], texts, outcome, &status);

        if (below == NULL) {
            depth--;
            continue;
        }
        CHECK(depth < FIELDS_DEPTH_MAX);
        frames[depth++] = (struct frame){below, 0, 0};
        if (below->n_unknown_fields > 0)
            status = FSM_UNKNOWN_FIELD;
    }
    return status;
}

void fsm_walk_messages(const ProtobufCMessage *message,
                       void (*visit)(void *context, const ProtobufCMessage *message), void *context)
{
    struct frame frames[FIELDS_DEPTH_MAX];
    size_t depth = 1;

    CHECK(visit != NULL);
    frames[0] = (struct frame){message, 0, 0};
    visit(context, message);
    while (depth > 0) {
        struct fsm_outcome ignored;
        enum fsm_status also_ignored = FSM_OK;
        const ProtobufCMessage *below =
            frame_next(&frames[depth - 1], false, &ignored, &also_ignored);

        if (below == NULL && also_ignored != FSM_OK)
            continue; /* it goes on behind a value that is not known */
        if (below == NULL) {
            depth--;
            continue;
        }
        CHECK(depth < FIELDS_DEPTH_MAX);
        frames[depth++] = (struct frame){below, 0, 0};
        visit(context, below);
    }
}

enum fsm_status fsm_check_detail(const char *text, struct fsm_outcome *outcome)
{
    CHECK(text != NULL);
    if (outcome->status != FSM_OK || strlen(text) < FSM_DETAIL_BYTES)
        return outcome->status;
    outcome->current = strlen(text);
    outcome->limit = FSM_DETAIL_BYTES - 1;
    outcome->status = FSM_INVALID_ARGUMENT;
    return outcome->status;
}
