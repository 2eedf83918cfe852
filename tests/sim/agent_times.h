/* How long an attempt may take, as ordered: I34. See agent_checks.c.
 *
 * Shapes   of the last attempt that a node's part of a job was ordered to make.
 */
#ifndef CKPT_TESTS_SIM_AGENT_TIMES_H
#define CKPT_TESTS_SIM_AGENT_TIMES_H

#include "tests/sim/world.h"

struct ordered_time {
    uint64_t checkpoint_id, least_ms,
        most_ms; /* of all its orders: it grows with what other nodes told */
    uint32_t attempt;
};

void ordered_time_note(struct ordered_time *time, const Ckpt__V1__Order *order);
/* The most that was ordered for this attempt; 0: nothing was. */
uint64_t ordered_time_most_ms(const struct ordered_time *time, uint64_t checkpoint_id,
                              uint32_t attempt);
/* The agent has begun it with that much. */
void ordered_time_check(struct world *world, const struct ordered_time *time,
                        uint64_t checkpoint_id, uint32_t attempt, uint64_t timeout_ms);

#endif
