/* How long an agent's attempts may take, and as ordered: I34. See agent_checks.c.
 *
 * Shapes   of the last attempt of a node's part of a job.
 */
#ifndef CKPT_TESTS_SIM_AGENT_TIMES_H
#define CKPT_TESTS_SIM_AGENT_TIMES_H

#include "src/agent/job/attempt_step.h"
#include "tests/sim/world.h"

struct attempt_times {
    struct {
        uint64_t checkpoint_id, least_ms, most_ms; /* of all its orders, without deferrals */
        uint64_t deferral_ms; /* that it may be put off by, here or elsewhere */
        uint32_t attempt;
    } ordered;
    /* as it was last seen */
    uint64_t checkpoint_id, timeout_ms, longest_deferral_ms;
    uint32_t attempt;
    bool extended;
};

void attempt_times_ordered(struct attempt_times *times, const Ckpt__V1__Order *order);
/* On each look at the agent. */
void attempt_times_check(struct world *world, const char *machine, const struct attempt *attempt,
                         struct attempt_times *times);

#endif
