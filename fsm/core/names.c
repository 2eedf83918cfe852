/* Names of states, reasons and purposes, from the descriptors that the generated messages carry: a
 * new value has its name at once. */
#include "fsm/core/state.h"

static char name_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool name_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* The part of a value's name that its enum's name gives: "CheckpointState" is before "PAUSED" in
 * CHECKPOINT_STATE_PAUSED. */
static size_t name_prefix(const char *type, const char *name)
{
    size_t at = 0;

    for (size_t i = 0; type[i] != '\0'; i++) {
        if (i > 0 && name_is_upper(type[i]) && name[at++] != '_')
            return 0;
        if (name[at++] != name_upper(type[i]))
            return 0;
    }
    return name[at] == '_' ? at + 1 : 0;
}

/* The name lies in the generated descriptor, so a pointer behind its prefix is enough. */
const char *fsm_enum_name(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

    return found == NULL ? "UNKNOWN" : found->name + name_prefix(type->short_name, found->name);
}

/* In letters that no locale changes: the words are labels of metrics. */
const char *fsm_enum_word(const ProtobufCEnumDescriptor *type, int value,
                          char ret_word[FSM_WORD_BYTES])
{
    const char *name = fsm_enum_name(type, value);
    size_t size = strlen(name) + 1;

    CHECK(size <= FSM_WORD_BYTES);
    for (size_t i = 0; i < size; i++)
        ret_word[i] = name_is_upper(name[i]) ? (char)(name[i] - 'A' + 'a') : name[i];
    return ret_word;
}

/* People type walltime-exceeded and WALLTIME_EXCEEDED. */
bool fsm_enum_parse(const ProtobufCEnumDescriptor *type, const char *text, int *ret_value)
{
    CHECK(type != NULL);
    CHECK(text != NULL);
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = fsm_enum_name(type, type->values[i].value);
        size_t at = 0;

        while (name[at] != '\0' && name[at] == (text[at] == '-' ? '_' : name_upper(text[at])))
            at++;
        if (name[at] == '\0' && text[at] == '\0') {
            *ret_value = type->values[i].value;
            return true;
        }
    }
    return false;
}

const char *fsm_checkpoint_state_name(Ckpt__V1__CheckpointState state)
{
    return fsm_enum_name(&ckpt__v1__checkpoint_state__descriptor, (int)state);
}

const char *fsm_allocation_state_name(Ckpt__V1__AllocationState state)
{
    return fsm_enum_name(&ckpt__v1__allocation_state__descriptor, (int)state);
}

const char *fsm_reason_word(Ckpt__V1__Reason reason, char ret_word[FSM_WORD_BYTES])
{
    return fsm_enum_word(&ckpt__v1__reason__descriptor, (int)reason, ret_word);
}

const char *fsm_purpose_word(Ckpt__V1__Purpose purpose, char ret_word[FSM_WORD_BYTES])
{
    return fsm_enum_word(&ckpt__v1__purpose__descriptor, (int)purpose, ret_word);
}
