/* The words of a registration about how its job is asked: its profile, and the attributes of one
 * that checkpoints itself. See validate.c. */
#include "fsm/attributes.h"
#include "fsm/core/state.h"
#include "fsm/profiles.h"

/* Tools that save from outside see the processes of one node, and not what is between nodes. */
static void check_parts(const Ckpt__V1__AllocationSpec *spec, struct fsm_outcome *outcome)
{
    static const char *const alone[] = {FSM_PROFILES_OF_ONE_PART};

    CHECK(outcome->status == FSM_OK);
    for (size_t i = 0; i < ARRAY_COUNT(alone); i++) {
        if (spec->n_nodes <= 1 || strcmp(alone[i], spec->profile) != 0)
            continue;
        fsm_outcome_found(outcome, spec->profile);
        outcome->status = FSM_PROFILE_ONE_PART;
    }
}

/* An agent that does not know the way of asking would fail every checkpoint; the scheduler hears at
 * the registration. */
void fsm_check_profile(const Ckpt__V1__AllocationSpec *spec, struct fsm_outcome *outcome)
{
    const char *profile = spec->profile;
    static const char *const profiles[] = {
#define X(row, name, level) name,
        FSM_PROFILES(X)
#undef X
    };

    CHECK(profile != NULL);
    if (outcome->status != FSM_OK || profile[0] == '\0')
        return;
    for (size_t i = 0; i < ARRAY_COUNT(profiles); i++) {
        if (strcmp(profiles[i], profile) == 0) {
            check_parts(spec, outcome);
            return;
        }
    }
    outcome->status = FSM_PROFILE_UNKNOWN;
}

/* Each text of the record's table is an id or empty, but for the attributes. */
bool fsm_spec_text_is_id(const char *field)
{
    CHECK(field != NULL);
    return strcmp(field, "attributes") != 0;
}

void fsm_check_attributes(const Ckpt__V1__AllocationSpec *spec, struct fsm_outcome *outcome)
{
    struct fsm_attributes attributes;
    char found[FSM_FOUND_BYTES];

    CHECK(spec->attributes != NULL);
    CHECK(spec->profile != NULL);
    if (outcome->status != FSM_OK || spec->attributes[0] == '\0')
        return;
    if (strlen(spec->attributes) > FSM_ATTRIBUTES_MAX_BYTES) {
        outcome->current = strlen(spec->attributes);
        outcome->limit = FSM_ATTRIBUTES_MAX_BYTES;
        outcome->status = FSM_TOO_LARGE;
        return;
    }
    outcome->status = fsm_attributes_read(spec->attributes, &attributes, found);
    fsm_outcome_found(outcome, found);
    if (outcome->status != FSM_OK || strcmp(spec->profile, FSM_PROFILE_FILE) == 0)
        return;
    fsm_outcome_found(outcome, spec->profile[0] == '\0' ? FSM_PROFILE_DEFAULT : spec->profile);
    outcome->status = FSM_ATTRIBUTES_PROFILE;
}
