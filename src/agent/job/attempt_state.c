/* The states of an attempt: their names, which moves there are, and what holds in each. See
 * attempt_step.h. */
#include "src/agent/job/attempt_step.h"
#include "src/base/check.h"

enum { DEFERRALS_MAX = 32, DEFERRAL_MIN_MS = 1000, RESPONSIVE_LEAD_MAX_MS = 5000 };

static const char *const state_names[] = {
#define X(name) #name,
    ATTEMPT_STATES(X)
#undef X
};
#define TO(name) [ATTEMPT_##name] = true
static const bool state_moves[ATTEMPT_STATE_COUNT][ATTEMPT_STATE_COUNT] = {
    [ATTEMPT_NONE] = {TO(WAITING), TO(DEFERRED), TO(RESUMING), TO(STILL), TO(REMOVING)},
    [ATTEMPT_WAITING] = {TO(NONE), TO(ASKING)},
    [ATTEMPT_ASKING] = {TO(ASKED), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_ASKED] = {TO(BROKEN), TO(DEFERRED), TO(FREEZING), TO(PUTTING), TO(ABANDONING),
                       TO(REMOVING)},
    [ATTEMPT_BROKEN] = {TO(FREEZING), TO(PUTTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_DEFERRED] = {TO(ASKING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_RESUMING] = {TO(ASKED), TO(FREEZING), TO(PUTTING), TO(ABANDONING)},
    [ATTEMPT_FREEZING] = {TO(PUTTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_PUTTING] = {TO(STILL), TO(HALTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_STILL] = {TO(REMOVING)},
    [ATTEMPT_HALTING] = {TO(ABANDONING)},
    [ATTEMPT_ABANDONING] = {TO(REMOVING)},
    [ATTEMPT_REMOVING] = {TO(NONE)},
};
#undef TO

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

bool attempt_state_cleans(enum attempt_state state)
{
    CHECK(state < ATTEMPT_STATE_COUNT);
    return state == ATTEMPT_HALTING || state == ATTEMPT_ABANDONING || state == ATTEMPT_REMOVING;
}

bool attempt_busy(const struct attempt *attempt)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state != ATTEMPT_NONE;
}

bool attempt_writes(const struct attempt *attempt)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state != ATTEMPT_NONE && attempt->state != ATTEMPT_WAITING;
}

/* The journal has the attempt before its application is asked, and until it is over. */
static void check_journal(const struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    CHECK(entry->attempt == attempt->attempt);
    CHECK(entry->attempt_part == attempt->part);
    CHECK(entry->phase != PHASE_NONE);
    CHECK(entry->timeout_ms == attempt->timeout_ms);
    CHECK(entry->longest_deferral_ms == attempt->longest_deferral_ms);
}

static bool phase_asks(const struct ledger_entry *entry)
{
    return entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED;
}

void attempt_check(const struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(attempt->longest_deferral_ms <= attempt->timeout_ms);
    if (attempt_writes(attempt))
        check_journal(attempt, entry);
    switch (attempt->state) {
    case ATTEMPT_NONE:
    case ATTEMPT_WAITING:
        /* checkpoint_id 0: an agent that has restarted has not taken it up yet */
        CHECK(entry->phase == PHASE_NONE || entry->phase == PHASE_ENDED ||
              attempt->checkpoint_id == 0);
        return;
    case ATTEMPT_ASKING:
    case ATTEMPT_RESUMING:
        CHECK(phase_asks(entry));
        CHECK(attempt->done_at_us == 0);
        return;
    case ATTEMPT_ASKED:
        CHECK(entry->phase == PHASE_ASKED);
        CHECK(attempt->done_at_us == 0);
        return;
    case ATTEMPT_BROKEN:
        CHECK(entry->phase == PHASE_ASKED);
        CHECK(attempt->done_at_us == 0);
        CHECK(attempt->outcome.reason != CKPT__V1__REASON__REASON_NONE);
        return;
    case ATTEMPT_DEFERRED:
        CHECK(entry->phase == PHASE_DEFERRED);
        CHECK(attempt->done_at_us == 0);
        return;
    case ATTEMPT_FREEZING:
        CHECK(phase_asks(entry));
        CHECK(entry->still == STANDING_STILL);
        CHECK(attempt->done_at_us != 0);
        return;
    case ATTEMPT_STILL:
        CHECK(entry->phase == PHASE_ENDED);
        CHECK(entry->still == STANDING_STILL);
        return;
    case ATTEMPT_PUTTING:
        CHECK(phase_asks(entry));
        CHECK(attempt->put_started);
        CHECK(attempt->done_at_us != 0);
        ranks_check_done(entry);
        return;
    case ATTEMPT_HALTING:
    case ATTEMPT_ABANDONING:
        CHECK(entry->phase != PHASE_ENDED);
        CHECK(attempt->put_started);
        CHECK(attempt->outcome.kind != CKPT__V1__REPORT_KIND__REPORT_KIND_UNSPECIFIED);
        return;
    case ATTEMPT_REMOVING:
        CHECK(entry->phase == PHASE_ENDED || attempt->outcome.kind != 0);
        return;
    case ATTEMPT_STATE_COUNT:
        return;
    }
}

uint64_t attempt_begun_us(const struct ledger_entry *entry)
{
    CHECK(entry->allocation_id[0] != '\0');
    return entry->deferred_until_us != 0 ? entry->deferred_until_us : entry->asked_at_us;
}

uint64_t attempt_stall_ms(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us)
{
    uint64_t begun_us = attempt_begun_us(entry);

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_RESUMING || begun_us == 0 || begun_us > now_us)
        return 0;
    return (now_us - begun_us) / 1000;
}

uint64_t deferral_granted(uint64_t asked_ms, uint64_t used_ms, uint64_t max_ms)
{
    uint64_t granted_ms = asked_ms;

    CHECK(used_ms <= max_ms);
    if (granted_ms < max_ms / DEFERRALS_MAX)
        granted_ms = max_ms / DEFERRALS_MAX;
    if (granted_ms < DEFERRAL_MIN_MS)
        granted_ms = DEFERRAL_MIN_MS;
    return granted_ms < max_ms - used_ms ? granted_ms : max_ms - used_ms;
}

void deferral_count(uint64_t *timeout_ms, uint64_t *longest_ms, uint64_t deferred_ms)
{
    CHECK(*longest_ms <= *timeout_ms);
    if (deferred_ms <= *longest_ms)
        return;
    *timeout_ms += deferred_ms - *longest_ms;
    *longest_ms = deferred_ms;
}

/* ---- the one extension ---- */

/* In the last half of the timeout, on the call (S1-041). */
bool attempt_told_progress(const struct attempt *attempt, const struct ledger_entry *entry)
{
    return attempt->alive_us > entry->asked_at_us &&
           (attempt->alive_us - entry->asked_at_us) / 1000 >= attempt->timeout_ms / 2;
}

/* P-040: the one extension is asked for a little before the end, so that the request reaches the
 * leader before its own deadline fires. */
bool attempt_near_the_end(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us)
{
    uint64_t lead_ms = attempt->timeout_ms / 10;

    CHECK(now_us >= entry->asked_at_us);
    if (lead_ms > RESPONSIVE_LEAD_MAX_MS)
        lead_ms = RESPONSIVE_LEAD_MAX_MS;
    return (now_us - entry->asked_at_us) / 1000 >= attempt->timeout_ms - lead_ms;
}

bool attempt_second_half(const struct attempt *attempt, const struct ledger_entry *entry,
                         uint64_t now_us)
{
    CHECK(now_us >= entry->asked_at_us);
    return (now_us - entry->asked_at_us) / 1000 >= attempt->timeout_ms / 2;
}

bool attempt_may_be_extended(const struct attempt *attempt, const struct ledger_entry *entry)
{
    return !attempt->extended && !entry->responsive_reported;
}

bool attempt_wants_growth(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state == ATTEMPT_ASKED && attempt_may_be_extended(attempt, entry) &&
           (attempt->progress_taken ? attempt_near_the_end(attempt, entry, now_us)
                                    : attempt_second_half(attempt, entry, now_us));
}
