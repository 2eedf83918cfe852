/* Feature levels: what came after level 1, by the options of the .proto files. See level.h. */
#include "fsm/core/state.h"
#include "fsm/profiles.h"

void fsm_policy_lower(Ckpt__V1__Policy *policy, uint32_t level)
{
    CHECK(policy != NULL);
    fsm_message_lower(&policy->base, level);
    policy->zeros &= ~fsm_policy_bits_above(level);
}

uint32_t fsm_level(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->policy.feature_level == 0 ? FSM_LEVEL_FIRST : fsm->policy.feature_level;
}

/* A zero that is meant is a bit, which members of a lower level do not know either. */
static uint32_t zeros_level(const Ckpt__V1__Policy *policy, uint32_t level, const char **ret_field)
{
    for (unsigned i = 0; i < policy->base.descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &policy->base.descriptor->fields[i];
        uint32_t one = fsm_field_level(&ckpt__v1__policy__descriptor, field);

        if (field->id >= 60 || (policy->zeros >> field->id & 1) == 0 || one <= level)
            continue;
        level = one;
        *ret_field = field->name;
    }
    return level;
}

/* The bits of fields that the level has not. */
uint64_t fsm_policy_bits_above(uint32_t level)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;
    uint64_t bits = 0;

    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (descriptor->fields[i].id < 60 &&
            fsm_field_level(descriptor, &descriptor->fields[i]) > level)
            bits |= UINT64_C(1) << descriptor->fields[i].id;
    return bits;
}

/* A way of asking is a text, which has no option: its level is in its row. An
 * unknown one was refused before. */
static uint32_t profile_level(const char *profile, uint32_t level, const char **ret_field)
{
    static const struct {
        const char *name;
        uint32_t level;
    } profiles[] = {
#define X(row, name, level) {name, level},
        FSM_PROFILES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_COUNT(profiles); i++) {
        if (strcmp(profiles[i].name, profile) != 0 || profiles[i].level <= level)
            continue;
        level = profiles[i].level;
        *ret_field = "profile";
    }
    return level;
}

/* A command that raises the level may use it: whoever knows the one knows the other. */
enum fsm_status fsm_validate_level(const struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *ret_outcome)
{
    uint32_t level = fsm_level(fsm), asked = fsm_level_asked(command), needed;

    CHECK(ret_outcome->status == FSM_OK);
    if (asked > FSM_LEVEL_NEWEST) {
        ret_outcome->subject = "feature_level";
        ret_outcome->current = asked;
        ret_outcome->limit = FSM_LEVEL_NEWEST;
        return FSM_INVALID_ARGUMENT;
    }
    if (asked > level)
        level = asked;
    if (level >= FSM_LEVEL_NEWEST)
        return FSM_OK;
    needed = fsm_message_level(&command->base, &ret_outcome->subject);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        needed = zeros_level(command->set_policy->policy, needed, &ret_outcome->subject);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION)
        needed = profile_level(command->register_allocation->spec->profile, needed,
                               &ret_outcome->subject);
    if (needed <= level) {
        ret_outcome->subject = NULL;
        return FSM_OK;
    }
    ret_outcome->current = needed;
    ret_outcome->limit = level;
    return FSM_FEATURE_LEVEL;
}

uint32_t fsm_level_asked(const fsm_command *command)
{
    const Ckpt__V1__Policy *policy = NULL;

    CHECK(command != NULL);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        policy = command->set_policy->policy;
    else if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT)
        policy = command->cluster_init->policy;
    return policy == NULL ? 0 : policy->feature_level;
}

uint64_t fsm_newer_index(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->newer_index;
}

/* A leader proposes only what its build knows, so that what this one does not know comes from a
 * newer one. */
void fsm_note_newer(struct fsm *fsm, const fsm_command *command, enum fsm_status status)
{
    struct fsm_outcome outcome = {.status = FSM_OK};
    bool newer = fsm_level_asked(command) > FSM_LEVEL_NEWEST;

    if (status != FSM_OK) {
        status = fsm_validate_fields(&command->base, SIZE_MAX, &outcome);
        newer = newer || status == FSM_UNKNOWN_FIELD || status == FSM_INVALID_ARGUMENT;
    }
    if (newer && fsm->newer_index == 0)
        fsm->newer_index = fsm->index;
}
