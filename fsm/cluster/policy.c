/* The replicated policy: defaults of a new cluster, and changes where a field at zero stays as it
 * is, unless `zeros` says that the zero is meant. In the state `zeros` follows from the values, so
 * that a policy that was read and sent back changes nothing. */
#include "fsm/cluster/policy_fields.h"
#include "fsm/core/state.h"

/* By the name, through the descriptor: nobody keeps numbers of fields beside the .proto file. */
static uint64_t bit_of(const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(&ckpt__v1__policy__descriptor, name);

    CHECK(field != NULL);
    return field->id < 60 ? UINT64_C(1) << field->id : 0; /* 60: the number of `zeros` itself */
}

/* A field whose lowest value is above 0 has no bit: its zero means "as it is". */
uint64_t fsm_policy_zeros(const Ckpt__V1__Policy *policy)
{
    const struct {
        const char *name;
        uint64_t value, lowest;
    } fields[] = {
#define DURATION(name, lowest, highest, usual) {#name "_ms", policy->name##_ms, lowest},
#define COUNT(name, lowest, highest, usual)    {#name, policy->name, lowest},
        FSM_POLICY_FIELDS(DURATION, COUNT, COUNT, COUNT)
#undef DURATION
#undef COUNT
    };
    uint64_t zeros = 0;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        if (fields[i].value != 0 || fields[i].lowest > 0)
            continue;
        CHECK(bit_of(fields[i].name) != 0);
        zeros |= bit_of(fields[i].name);
    }
    return zeros & ~fsm_policy_bits_above(policy->feature_level == 0 ? FSM_LEVEL_FIRST
                                                                     : policy->feature_level);
}

void fsm_policy_defaults(Ckpt__V1__Policy *policy)
{
    CHECK(policy != NULL);
    ckpt__v1__policy__init(policy);
#define DURATION(name, lowest, highest, usual) policy->name##_ms = usual;
#define COUNT(name, lowest, highest, usual)    policy->name = usual;
    FSM_POLICY_FIELDS(DURATION, COUNT, COUNT, COUNT)
#undef DURATION
#undef COUNT
    policy->zeros = fsm_policy_zeros(policy);
}

/* Members of an earlier build read the same founding with its defaults. */
void fsm_policy_founded(Ckpt__V1__Policy *policy, uint32_t level)
{
    CHECK(policy != NULL);
    if (level < 2)
        policy->node_failures_per_1000_node_days_milli = 6500;
}

/* An earlier build let one complete checkpoint be kept: what its log and its snapshots say is two
 * here. New commands are asked for two (fsm_validate_new). */
static Ckpt__V1__Policy policy_raised(const Ckpt__V1__Policy *policy)
{
    Ckpt__V1__Policy raised = *policy;

    if (raised.keep_complete == 1)
        raised.keep_complete = FSM_COMPLETE_KEPT_MIN;
    return raised;
}

/* The limit that was passed, low or high, stands in the text beside the value. */
static enum fsm_status policy_refuse(struct fsm_outcome *outcome, const char *subject,
                                     uint64_t value, uint64_t limit)
{
    outcome->subject = subject;
    outcome->current = value;
    outcome->limit = limit;
    outcome->status = FSM_INVALID_ARGUMENT;
    return outcome->status;
}

/* A zero that is not meant is no value: what it stands for stays as it is. */
enum fsm_status fsm_policy_check_values(const Ckpt__V1__Policy *said, struct fsm_outcome *outcome)
{
    const Ckpt__V1__Policy raised = policy_raised(said), *policy = &raised;
    const struct {
        const char *name;
        uint64_t value, lowest, highest;
    } fields[] = {
#define DURATION(name, lowest, highest, usual) {#name "_ms", policy->name##_ms, lowest, highest},
#define COUNT(name, lowest, highest, usual)    {#name, policy->name, lowest, highest},
        FSM_POLICY_FIELDS(DURATION, COUNT, COUNT, COUNT)
#undef DURATION
#undef COUNT
    };

    CHECK(outcome != NULL);
    uint64_t known = 0;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        uint64_t bit = bit_of(fields[i].name);
        bool given = fields[i].value != 0 || (policy->zeros & bit) != 0;

        known |= bit;
        if (given && fields[i].value < fields[i].lowest)
            return policy_refuse(outcome, fields[i].name, fields[i].value, fields[i].lowest);
        if (fields[i].value > fields[i].highest)
            return policy_refuse(outcome, fields[i].name, fields[i].value, fields[i].highest);
    }
    return (policy->zeros & ~known) == 0 ? FSM_OK
                                         : policy_refuse(outcome, "zeros", policy->zeros, known);
}

/* The name of the other field goes into the refusal, since its value is the limit. */
enum fsm_status fsm_policy_check_order(const Ckpt__V1__Policy *policy, struct fsm_outcome *outcome)
{
    CHECK(policy != NULL);
    CHECK(outcome != NULL);
#define X(least, most)                                                                             \
    if (policy->least > policy->most)                                                              \
        return policy_refuse(outcome, #least " (limited by " #most ")", policy->least,             \
                             policy->most);
    FSM_POLICY_ORDERED(X)
#undef X
    return FSM_OK;
}

enum fsm_status fsm_policy_check_level(const Ckpt__V1__Policy *policy, uint32_t level,
                                       struct fsm_outcome *outcome)
{
    if (policy->feature_level == 0 || policy->feature_level >= level)
        return FSM_OK;
    return policy_refuse(outcome, "feature_level", policy->feature_level, level);
}

/* By the descriptor, so that a new field of the policy needs no line here. */
void fsm_policy_merge(Ckpt__V1__Policy *policy, const Ckpt__V1__Policy *changes)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;

    CHECK(policy != NULL);
    CHECK(changes != NULL);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        size_t size = field->type == PROTOBUF_C_TYPE_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t);
        uint64_t value = 0;

        CHECK(field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64 ||
              field->type == PROTOBUF_C_TYPE_ENUM);
        memcpy(&value, (const char *)changes + field->offset, size);
        if (value != 0 || (field->id < 60 && (changes->zeros >> field->id & 1) != 0))
            memcpy((char *)policy + field->offset, &value, size);
    }
    *policy = policy_raised(policy);
    policy->zeros = fsm_policy_zeros(policy);
}
