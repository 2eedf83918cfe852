/* The shipping agents of a world: their table, the store that their workers use, and what happened to them. See agent_world.c. */
#ifndef CKPT_TESTS_SIM_AGENT_WORLD_H
#define CKPT_TESTS_SIM_AGENT_WORLD_H

#include "tests/sim/agent_checks.h"

extern const struct world_agent_ops world_agent_shipping;

/* NULL while no shipping agent is in the world. */
struct agent_store *world_shipping_store(void);

/* What has not come to its end yet after calm; "": nothing. */
const char *world_shipping_unsettled(void);

struct world_shipping_counters {
    uint64_t runs, runs_killed, refused, deaths, start_failures, power_losses, rogue_welcomes,
        storms, clock_steps;
    struct agent_checks_counters checks;
    struct agent_store_counters store;
};
/* So far; zeros without a shipping agent. */
struct world_shipping_counters world_shipping_counters(void);

#endif
