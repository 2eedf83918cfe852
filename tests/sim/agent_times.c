/* See agent_times.h. */
#include "tests/sim/agent_times.h"

#include <inttypes.h>

#include "tests/sim/world_internal.h"

/* The most that was ordered for this attempt; 0: nothing was. */
static uint64_t ordered_most_ms(const struct attempt_times *times, uint64_t checkpoint_id,
                                uint32_t attempt)
{
    return times->ordered.checkpoint_id == checkpoint_id && times->ordered.attempt == attempt
               ? times->ordered.most_ms
               : 0;
}

void attempt_times_ordered(struct attempt_times *times, const Ckpt__V1__Order *order)
{
    if (ordered_most_ms(times, order->checkpoint_id, order->attempt) == 0) {
        times->ordered.checkpoint_id = order->checkpoint_id;
        times->ordered.attempt = order->attempt;
        times->ordered.least_ms = times->ordered.most_ms = order->timeout_ms;
    }
    if (order->timeout_ms < times->ordered.least_ms)
        times->ordered.least_ms = order->timeout_ms;
    if (order->timeout_ms > times->ordered.most_ms)
        times->ordered.most_ms = order->timeout_ms;
}

/* The agent has begun it with as much as was ordered. */
static void check_begin(struct world *world, const struct attempt_times *times,
                        const struct attempt *attempt)
{
    uint64_t most_ms = ordered_most_ms(times, attempt->checkpoint_id, attempt->attempt);

    if (most_ms == 0)
        return; /* other orders came in the same message as the one that began it */
    if (attempt->timeout_ms > most_ms || attempt->timeout_ms < times->ordered.least_ms)
        world_violation(world, "I34",
                        "attempt %u of checkpoint %" PRIx64 " begins with %" PRIu64 " ms, %" PRIu64
                        " to %" PRIu64 " were ordered for it",
                        attempt->attempt, attempt->checkpoint_id, attempt->timeout_ms,
                        times->ordered.least_ms, most_ms);
}

/* I34: one extension of an attempt, of half its timeout, and of one attempt of the checkpoint; and what another node of the job was
 * granted to put it off by. */
void attempt_times_check(struct world *world, const char *machine, const struct attempt *attempt,
                         struct attempt_times *times)
{
    bool same =
        times->checkpoint_id == attempt->checkpoint_id && times->attempt == attempt->attempt;
    bool extended = same && attempt->extended && !times->extended;
    uint64_t most_ms = times->timeout_ms;
    uint64_t ordered_ms = ordered_most_ms(times, attempt->checkpoint_id, attempt->attempt);

    if (!attempt_busy(attempt))
        return;
    if (extended)
        most_ms += times->timeout_ms / 2 + 1;
    if (ordered_ms > most_ms)
        most_ms = ordered_ms;
    if (!same)
        check_begin(world, times, attempt);
    if (same && (attempt->timeout_ms < times->timeout_ms || attempt->timeout_ms > most_ms))
        world_violation(world, "I34",
                        "the timeout of %s on %s went from %" PRIu64 " to %" PRIu64 " ms",
                        attempt->hint, machine, times->timeout_ms, attempt->timeout_ms);
    if (!same || extended)
        world_timeout(world, attempt->checkpoint_id, attempt->attempt, extended, attempt->extended);
    times->checkpoint_id = attempt->checkpoint_id;
    times->attempt = attempt->attempt;
    times->timeout_ms = attempt->timeout_ms;
    times->extended = attempt->extended;
}
