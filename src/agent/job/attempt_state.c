/* The states of an attempt: their names, which moves there are, and what holds in each. See
 * attempt.h. */
#include "src/agent/job/attempt.h"
#include "src/base/check.h"

static const char *const state_names[] = {
#define X(name) #name,
    ATTEMPT_STATES(X)
#undef X
};
static const bool state_moves[ATTEMPT_STATE_COUNT][ATTEMPT_STATE_COUNT] = {
    [ATTEMPT_NONE] =
        {[ATTEMPT_WAITING] = true, [ATTEMPT_DEFERRED] = true, [ATTEMPT_RESUMING] = true},
    [ATTEMPT_RESUMING] = {[ATTEMPT_ASKED] = true, [ATTEMPT_CLEANING] = true},
    [ATTEMPT_WAITING] = {[ATTEMPT_NONE] = true, [ATTEMPT_ASKED] = true, [ATTEMPT_CLEANING] = true},
    [ATTEMPT_ASKED] =
        {[ATTEMPT_DEFERRED] = true, [ATTEMPT_PUTTING] = true, [ATTEMPT_CLEANING] = true},
    [ATTEMPT_DEFERRED] = {[ATTEMPT_ASKED] = true, [ATTEMPT_CLEANING] = true},
    [ATTEMPT_PUTTING] = {[ATTEMPT_CLEANING] = true},
    [ATTEMPT_CLEANING] = {[ATTEMPT_NONE] = true},
};

const char *attempt_state_name(enum attempt_state state)
{
    CHECK(state < ATTEMPT_STATE_COUNT);
    return state_names[state];
}

bool attempt_move_allowed(enum attempt_state from, enum attempt_state to)
{
    CHECK(from < ATTEMPT_STATE_COUNT);
    CHECK(to < ATTEMPT_STATE_COUNT);
    return state_moves[from][to];
}

/* The journal has the attempt before its application is asked, and until it is over. */
static void check_journal(const struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    CHECK(entry->attempt == attempt->attempt);
    CHECK(entry->phase != PHASE_NONE);
    CHECK((entry->phase == PHASE_ENDED) == attempt->reported);
}

/* Nothing is heard of it, and nothing of it runs. */
static void check_still(const struct attempt *attempt)
{
    CHECK(attempt->call == NULL);
    CHECK(attempt->watch == NULL);
    CHECK(attempt->worker == NULL);
    CHECK(attempt->cleanup == NULL);
}

void attempt_check(const struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state != ATTEMPT_NONE && attempt->state != ATTEMPT_WAITING)
        check_journal(attempt, entry);
    switch (attempt->state) {
    case ATTEMPT_NONE:
        CHECK(attempt->reported);
        check_still(attempt);
        return;
    case ATTEMPT_WAITING:
        CHECK(!attempt->reported);
        check_still(attempt);
        return;
    case ATTEMPT_RESUMING:
        CHECK(entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED);
        check_still(attempt);
        return;
    case ATTEMPT_ASKED:
        CHECK(entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED);
        CHECK(attempt->worker == NULL);
        return;
    case ATTEMPT_DEFERRED:
        CHECK(entry->phase == PHASE_DEFERRED);
        check_still(attempt);
        return;
    case ATTEMPT_PUTTING:
        CHECK(entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED);
        CHECK(attempt->watch == NULL);
        CHECK(attempt->worker == NULL);
        return;
    case ATTEMPT_CLEANING:
        CHECK(attempt->call == NULL);
        CHECK(attempt->watch == NULL);
        return;
    case ATTEMPT_STATE_COUNT:
        return;
    }
}
