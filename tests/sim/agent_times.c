/* See agent_times.h. */
#include "tests/sim/agent_times.h"

#include <inttypes.h>

void ordered_time_note(struct ordered_time *time, const Ckpt__V1__Order *order)
{
    if (ordered_time_most_ms(time, order->checkpoint_id, order->attempt) == 0)
        *time = (struct ordered_time){order->checkpoint_id, order->timeout_ms, order->timeout_ms,
                                      order->attempt};
    if (order->timeout_ms < time->least_ms)
        time->least_ms = order->timeout_ms;
    if (order->timeout_ms > time->most_ms)
        time->most_ms = order->timeout_ms;
}

uint64_t ordered_time_most_ms(const struct ordered_time *time, uint64_t checkpoint_id,
                              uint32_t attempt)
{
    return time->checkpoint_id == checkpoint_id && time->attempt == attempt ? time->most_ms : 0;
}

void ordered_time_check(struct world *world, const struct ordered_time *time,
                        uint64_t checkpoint_id, uint32_t attempt, uint64_t timeout_ms)
{
    uint64_t most_ms = ordered_time_most_ms(time, checkpoint_id, attempt);

    if (most_ms == 0)
        return; /* other orders came in the same message as the one that began it */
    if (timeout_ms > most_ms || timeout_ms < time->least_ms)
        world_violation(world, "I34",
                        "attempt %u of checkpoint %" PRIx64 " begins with %" PRIu64 " ms, %" PRIu64
                        " to %" PRIu64 " were ordered for it",
                        attempt, checkpoint_id, timeout_ms, time->least_ms, most_ms);
}
