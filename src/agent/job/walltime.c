/* The agent's own walltime. See walltime.h. */
#include "src/agent/job/walltime.h"

#include <inttypes.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/base/log.h"

/* Estimates differ by how long a message travelled; a journal write for each of those would be
 * noise. */
enum { WALLTIME_TOLERANCE_US = 50000 };

uint64_t walltime_choose(uint64_t kept_us, uint64_t estimate_us, bool holds)
{
    if (kept_us == 0 || !holds)
        return estimate_us;
    return estimate_us + WALLTIME_TOLERANCE_US < kept_us ? estimate_us : kept_us;
}

uint64_t walltime_moved(uint64_t kept_us, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t apart_ms = from_ms < to_ms ? to_ms - from_ms : from_ms - to_ms;
    uint64_t apart_us = apart_ms < UINT64_MAX / 1000 ? apart_ms * 1000 : UINT64_MAX;

    if (kept_us == 0)
        return 0;
    if (from_ms < to_ms)
        return apart_us < UINT64_MAX - kept_us ? kept_us + apart_us : UINT64_MAX;
    return apart_us < kept_us ? kept_us - apart_us : 1;
}

static void walltime_fired(void *data)
{
    struct allocation *allocation = data;

    if (allocation->process.state == PROCESS_ABSENT &&
        (allocation->stream == NULL || allocation->entry.ended ||
         allocation->entry.named_life != allocation->entry.life))
        return; /* nobody is about to start one of this life */
    if (process_state_unstopped(allocation->process.state)) {
        allocation->agent->counters.walltime_kills++;
        if (attempt_busy(&allocation->attempt))
            allocation->agent->counters.walltime_conflicts++;
    }
    process_stop(allocation,
                 &(struct process_stop_ask){.cause = STOP_BY_WALLTIME,
                                            .reason = CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED,
                                            .grace_ms = allocation->entry.grace_ms,
                                            .life = allocation->entry.life});
}

void walltime_init(struct allocation *allocation)
{
    const struct clock_ops *clock = &allocation->agent->clock;

    allocation->walltime_timer = clock->timer_new(clock->context, walltime_fired, allocation);
}

void walltime_close(struct allocation *allocation)
{
    allocation->agent->clock.timer_free(allocation->walltime_timer);
    allocation->walltime_timer = NULL;
}

void walltime_start(struct allocation *allocation)
{
    const struct clock_ops *clock = &allocation->agent->clock;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t deadline_us = allocation->entry.deadline_us;

    if (deadline_us == 0)
        clock->timer_stop(allocation->walltime_timer);
    else
        clock->timer_start(allocation->walltime_timer,
                           deadline_us > now_us ? deadline_us - now_us : 0);
}

static uint64_t walltime_end_us(const struct allocation *allocation,
                                const Ckpt__V1__AllocationPart *part,
                                const struct walltime_word *word)
{
    const struct ledger_entry *entry = &allocation->entry;
    bool changed = entry->walltime_ms != 0 && part->walltime_ms != entry->walltime_ms;
    bool running = allocation->process.state != PROCESS_ABSENT;
    bool holds = word->life == entry->life || (running && !changed);
    uint64_t kept_us =
        changed ? walltime_moved(entry->deadline_us, entry->walltime_ms, part->walltime_ms)
                : entry->deadline_us;
    uint64_t remaining_ms =
        part->remaining_ms < UINT64_MAX / 2000 ? part->remaining_ms : UINT64_MAX / 2000;

    if (part->walltime_ms == 0)
        return 0;
    return walltime_choose(kept_us, word->came_us + remaining_ms * 1000, holds);
}

/* Nothing that is worth a write to the journal: what is left is told with each set, and came a
 * little sooner or later. */
static bool walltime_same(const struct allocation *allocation, const Ckpt__V1__AllocationPart *part,
                          uint64_t life, uint64_t end_us)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (life != entry->named_life || part->grace_ms != entry->grace_ms ||
        part->walltime_ms != entry->walltime_ms)
        return false;
    if (end_us == entry->deadline_us)
        return true;
    return allocation->process.state == PROCESS_ABSENT && entry->deadline_us != 0 &&
           end_us + WALLTIME_TOLERANCE_US > entry->deadline_us &&
           end_us < entry->deadline_us + WALLTIME_TOLERANCE_US;
}

bool walltime_stale(const struct ledger_entry *entry, const struct walltime_word *word)
{
    return word->epoch < entry->told_epoch ||
           (word->epoch == entry->told_epoch && word->index < entry->told_index);
}

void walltime_set(struct allocation *allocation, const Ckpt__V1__AllocationPart *part,
                  const struct walltime_word *word)
{
    struct ledger_entry *entry = &allocation->entry;
    uint64_t end_us = walltime_end_us(allocation, part, word);

    if (walltime_stale(entry, word))
        return;
    entry->told_epoch = word->epoch;
    entry->told_index = word->index;
    if (walltime_same(allocation, part, word->life, end_us))
        return;
    entry->named_life = word->life;
    entry->deadline_us = end_us;
    entry->grace_ms = part->grace_ms;
    entry->walltime_ms = part->walltime_ms;
    allocation_commit(allocation, NULL, 0);
    if (end_us != 0)
        log_info("walltime", "allocation=%s remaining_ms=%" PRIu64 " grace_ms=%" PRIu64,
                 entry->allocation_id, part->remaining_ms, entry->grace_ms);
    walltime_start(allocation);
}
