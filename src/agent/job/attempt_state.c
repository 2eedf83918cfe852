/* The states of an attempt: their names, which moves there are, and what holds in each. See
 * attempt_step.h. */
#include "src/agent/job/attempt_step.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum { DEFERRALS_MAX = 32, DEFERRAL_MIN_MS = 1000, RESPONSIVE_LEAD_MAX_MS = 5000 };

static const char *const state_names[] = {ATTEMPT_STATES(TEXT_OF_NAME)};
#define TO(name) [ATTEMPT_##name] = true
static const bool state_moves[ATTEMPT_STATE_COUNT][ATTEMPT_STATE_COUNT] = {
    [ATTEMPT_NONE] = {TO(WAITING), TO(DEFERRED), TO(RESUMING), TO(STILL), TO(REMOVING)},
    [ATTEMPT_WAITING] = {TO(NONE), TO(STAGING), TO(ASKING)},
    [ATTEMPT_STAGING] = {TO(STAGED), TO(HALTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_STAGED] = {TO(ASKING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_ASKING] = {TO(ASKED), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_ASKED] = {TO(BROKEN), TO(DEFERRED), TO(FREEZING), TO(PUTTING), TO(ABANDONING),
                       TO(REMOVING)},
    [ATTEMPT_BROKEN] = {TO(FREEZING), TO(PUTTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_DEFERRED] = {TO(ASKING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_RESUMING] = {TO(ASKED), TO(FREEZING), TO(PUTTING), TO(ABANDONING)},
    [ATTEMPT_FREEZING] = {TO(PUTTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_PUTTING] = {TO(STILL), TO(HALTING), TO(ABANDONING), TO(REMOVING)},
    [ATTEMPT_STILL] = {TO(REMOVING)},
    [ATTEMPT_HALTING] = {TO(ABANDONING), TO(REMOVING)},
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

bool attempt_awaits(const struct attempt *attempt)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state == ATTEMPT_WAITING || attempt->state == ATTEMPT_STAGED;
}

bool attempt_writes(const struct attempt *attempt)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state != ATTEMPT_NONE && attempt->state != ATTEMPT_WAITING;
}

bool attempt_elsewhere(const struct ledger_entry *entry)
{
    CHECK(entry->staged[0] == '\0' || entry->memory[0] == '\0');
    return entry->staged[0] != '\0' || entry->memory[0] != '\0';
}

/* The journal has the attempt before its application is asked, and until it is over. */
static void check_journal(const struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    CHECK(entry->attempt == attempt->attempt);
    CHECK(entry->attempt_part == attempt->part);
    CHECK(entry->phase != PHASE_NONE);
    CHECK(entry->staging == (uint32_t)attempt->staging);
    CHECK(entry->timeout_ms == attempt->timeout_ms);
    CHECK(entry->longest_deferral_ms == attempt->longest_deferral_ms);
}

static bool phase_asks(const struct ledger_entry *entry)
{
    return entry->phase == PHASE_ASKING || entry->phase == PHASE_ASKED;
}

/* That it is to write into, which only a destination's worker gives a name. */
static void check_folder(const struct attempt *attempt, const struct ledger_entry *entry)
{
    bool direct = attempt->staging == CKPT__V1__STAGING__STAGING_DIRECT;

    if (attempt->staging == CKPT__V1__STAGING__STAGING_LOCAL) { /* the memory was full */
        CHECK(attempt->state == ATTEMPT_STAGED && !attempt->put_started);
        CHECK(entry->memory[0] == '\0' && entry->staged[0] == '\0');
        return;
    }
    CHECK(direct || attempt->staging == CKPT__V1__STAGING__STAGING_MEMORY);
    CHECK(direct == (entry->memory[0] == '\0'));
    CHECK((direct && attempt->state == ATTEMPT_STAGED) == (entry->staged[0] != '\0'));
    CHECK(direct == attempt->put_started);
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
    case ATTEMPT_STAGING:
    case ATTEMPT_STAGED:
        CHECK(entry->phase == PHASE_ASKING);
        check_folder(attempt, entry);
        CHECK(attempt->done_at_us == 0);
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
        CHECK(attempt->put_started || attempt->state == ATTEMPT_HALTING);
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

/* ---- how the put is to write ---- */

void attempt_order_put(struct attempt *attempt, const Ckpt__V1__Order *order)
{
    CHECK(order->checkpoint_id == attempt->checkpoint_id);
    attempt->read_back = order->read_back;
    attempt->generations = order->generations;
    attempt->staging = order->staging;
    attempt->compression = order->compression;
    attempt->cluster_mark = order->cluster_mark;
    attempt->wipe = order->wipe;
}

void attempt_keep_put(const struct attempt *attempt, struct ledger_entry *entry)
{
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    entry->read_back = (uint32_t)attempt->read_back;
    entry->generations = attempt->generations;
    entry->staging = (uint32_t)attempt->staging;
    entry->compression = (uint32_t)attempt->compression;
    entry->cluster_mark = attempt->cluster_mark;
    entry->wipe = attempt->wipe;
}

void attempt_resume_put(struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(entry->checkpoint_id == attempt->checkpoint_id);
    attempt->read_back = (Ckpt__V1__ReadBack)entry->read_back;
    attempt->generations = entry->generations;
    attempt->staging = (Ckpt__V1__Staging)entry->staging;
    attempt->compression = (Ckpt__V1__Compression)entry->compression;
    attempt->put_started = entry->staged[0] != '\0'; /* the folder is */
    attempt->cluster_mark = entry->cluster_mark;
    attempt->wipe = entry->wipe;
}
