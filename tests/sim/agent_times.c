/* See agent_times.h. */
#include "tests/sim/agent_times.h"

#include <inttypes.h>

#include "tests/sim/world_internal.h"

/* What it may take besides what it was put off by: orders tell both in one, and so do agents. */
static uint64_t net_ms(uint64_t timeout_ms, uint64_t deferral_ms)
{
    return timeout_ms > deferral_ms ? timeout_ms - deferral_ms : 0;
}

static bool was_ordered(const struct attempt_times *times, const struct attempt *attempt)
{
    return times->ordered.checkpoint_id == attempt->checkpoint_id &&
           times->ordered.attempt == attempt->attempt;
}

void attempt_times_ordered(struct attempt_times *times, const Ckpt__V1__Order *order)
{
    uint64_t ms = net_ms(order->timeout_ms, order->deferred_ms);

    if (times->ordered.checkpoint_id != order->checkpoint_id ||
        times->ordered.attempt != order->attempt) {
        times->ordered.checkpoint_id = order->checkpoint_id;
        times->ordered.attempt = order->attempt;
        times->ordered.least_ms = times->ordered.most_ms = ms;
        times->ordered.deferral_ms = 0;
    }
    if (ms < times->ordered.least_ms)
        times->ordered.least_ms = ms;
    if (ms > times->ordered.most_ms)
        times->ordered.most_ms = ms;
    if (order->deferred_ms > times->ordered.deferral_ms)
        times->ordered.deferral_ms = order->deferred_ms;
    if (order->max_deferral_ms > times->ordered.deferral_ms)
        times->ordered.deferral_ms = order->max_deferral_ms;
}

/* The agent has begun it with as much as was ordered. */
static void check_begin(struct world *world, const struct attempt_times *times,
                        const struct attempt *attempt)
{
    uint64_t ms = net_ms(attempt->timeout_ms, attempt->longest_deferral_ms);

    if (ms > times->ordered.most_ms || ms < times->ordered.least_ms)
        world_violation(world, "I34",
                        "attempt %u of checkpoint %" PRIx64 " begins with %" PRIu64 " ms, %" PRIu64
                        " to %" PRIu64 " were ordered for it",
                        attempt->attempt, attempt->checkpoint_id, ms, times->ordered.least_ms,
                        times->ordered.most_ms);
}

/* The longest of all nodes counts, once. */
static void check_deferral(struct world *world, const char *machine,
                           const struct attempt_times *times, const struct attempt *attempt)
{
    if (attempt->longest_deferral_ms > times->ordered.deferral_ms)
        world_violation(
            world, "I34", "%s on %s is put off by %" PRIu64 " ms, it may be by %" PRIu64,
            attempt->hint, machine, attempt->longest_deferral_ms, times->ordered.deferral_ms);
}

/* I34: one extension of an attempt, of half its timeout, and of one attempt of the checkpoint; and
 * what its application, or another node of the job, was granted to put it off by. */
void attempt_times_check(struct world *world, const char *machine, const struct attempt *attempt,
                         struct attempt_times *times)
{
    bool same =
        times->checkpoint_id == attempt->checkpoint_id && times->attempt == attempt->attempt;
    bool extended = same && attempt->extended && !times->extended;
    uint64_t most_ms = net_ms(times->timeout_ms, times->longest_deferral_ms);

    if (!attempt_busy(attempt))
        return;
    if (extended)
        most_ms += times->timeout_ms / 2 + 1;
    if (was_ordered(times, attempt)) { /* else: other orders came in the message that began it */
        if (times->ordered.most_ms > most_ms)
            most_ms = times->ordered.most_ms;
        if (!same)
            check_begin(world, times, attempt);
        check_deferral(world, machine, times, attempt);
    }
    if (same && (attempt->timeout_ms < times->timeout_ms ||
                 net_ms(attempt->timeout_ms, attempt->longest_deferral_ms) > most_ms))
        world_violation(world, "I34",
                        "the timeout of %s on %s went from %" PRIu64 " to %" PRIu64
                        " ms, of them put off: from %" PRIu64 " to %" PRIu64,
                        attempt->hint, machine, times->timeout_ms, attempt->timeout_ms,
                        times->longest_deferral_ms, attempt->longest_deferral_ms);
    if (!same || extended)
        world_timeout(world, attempt->checkpoint_id, attempt->attempt, extended, attempt->extended);
    times->checkpoint_id = attempt->checkpoint_id;
    times->attempt = attempt->attempt;
    times->timeout_ms = attempt->timeout_ms;
    times->longest_deferral_ms = attempt->longest_deferral_ms;
    times->extended = attempt->extended;
}
