/* The agent's own walltime. See walltime_step.h. */
#include "src/agent/job/walltime_step.h"

#include "src/base/check.h"

/* Estimates differ by how long a message travelled; a journal write for each of those would be
 * noise. */
enum { WALLTIME_TOLERANCE_US = 50000 };

uint64_t walltime_choose(uint64_t kept_us, uint64_t estimate_us, bool holds)
{
    CHECK(estimate_us <= UINT64_MAX - WALLTIME_TOLERANCE_US);
    if (kept_us == 0 || !holds)
        return estimate_us;
    return estimate_us + WALLTIME_TOLERANCE_US < kept_us ? estimate_us : kept_us;
}

uint64_t walltime_moved(uint64_t kept_us, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t apart_ms = from_ms < to_ms ? to_ms - from_ms : from_ms - to_ms;
    uint64_t apart_us = apart_ms < UINT64_MAX / 1000 ? apart_ms * 1000 : UINT64_MAX;

    CHECK(from_ms != to_ms);
    if (kept_us == 0)
        return 0;
    if (from_ms < to_ms)
        return apart_us < UINT64_MAX - kept_us ? kept_us + apart_us : UINT64_MAX;
    return apart_us < kept_us ? kept_us - apart_us : 1;
}

bool walltime_stale(const struct ledger_entry *entry, const struct walltime_word *word)
{
    return word->epoch < entry->told_epoch ||
           (word->epoch == entry->told_epoch && word->index < entry->told_index);
}

static uint64_t walltime_end_us(const struct ledger_entry *entry, bool runs,
                                const struct walltime_word *word)
{
    bool changed = entry->walltime_ms != 0 && word->walltime_ms != entry->walltime_ms;
    bool holds = word->run == entry->run || (runs && !changed);
    uint64_t kept_us =
        changed ? walltime_moved(entry->deadline_us, entry->walltime_ms, word->walltime_ms)
                : entry->deadline_us;
    uint64_t remaining_ms =
        word->remaining_ms < UINT64_MAX / 2000 ? word->remaining_ms : UINT64_MAX / 2000;

    CHECK(!walltime_stale(entry, word));
    if (word->walltime_ms == 0)
        return 0;
    return walltime_choose(kept_us, word->came_us + remaining_ms * 1000, holds);
}

/* Nothing that is worth a write to the journal: what is left is told with each set, and came a
 * little sooner or later. */
static bool walltime_same(const struct ledger_entry *entry, bool runs,
                          const struct walltime_word *word, uint64_t end_us)
{
    CHECK(!walltime_stale(entry, word));
    if (word->run != entry->named_run || word->restart != entry->named_restart ||
        word->grace_ms != entry->grace_ms || word->walltime_ms != entry->walltime_ms)
        return false;
    if (end_us == entry->deadline_us)
        return true;
    return !runs && entry->deadline_us != 0 &&
           end_us + WALLTIME_TOLERANCE_US > entry->deadline_us &&
           end_us < entry->deadline_us + WALLTIME_TOLERANCE_US;
}

bool walltime_take(struct ledger_entry *entry, bool runs, const struct walltime_word *word)
{
    uint64_t end_us;

    if (walltime_stale(entry, word))
        return false;
    end_us = walltime_end_us(entry, runs, word);
    entry->told_epoch = word->epoch;
    entry->told_index = word->index;
    if (walltime_same(entry, runs, word, end_us))
        return false;
    entry->named_run = word->run;
    entry->named_restart = word->restart;
    entry->deadline_us = end_us;
    entry->grace_ms = word->grace_ms;
    entry->walltime_ms = word->walltime_ms;
    CHECK(entry->walltime_ms != 0 || entry->deadline_us == 0);
    return true;
}

bool walltime_unname(struct ledger_entry *entry, const struct walltime_word *word)
{
    if (entry->named_run == 0 || walltime_stale(entry, word))
        return false;
    entry->named_run = 0; /* nothing of it may start here in an outage */
    return true;
}
