/* The shipping agents of a world: their table, the store that their workers use, and what happened
 * to them. See agent_world.c. */
#ifndef CKPT_TESTS_SIM_AGENT_WORLD_H
#define CKPT_TESTS_SIM_AGENT_WORLD_H

#include "tests/sim/agent_checks.h"

extern const struct world_agent_ops world_agent_shipping;

/* Where a part writes its shard. */
struct world_place {
    const char *path; /* of the checkpoint */
    uint32_t part;
};

/* What the model's part of a job has written, where shipping agents may restore it. */
void world_shipping_publish(struct world *world, unsigned agent, const char *allocation_id,
                            const struct world_place *place, uint64_t checkpoint_id,
                            uint32_t attempt, char ret_manifest[AGENT_STORE_MANIFEST_BYTES]);
/* NULL while no shipping agent is in the world. */
struct agent_store *world_shipping_store(void);

/* The same of a node that may have a shipping agent. */
bool world_shipping_lives(unsigned agent, const char *allocation_id, uint64_t known);

/* An application of the job runs on a node with a model agent, and the node's reports up to `known`
 * tell that it has begun. */
bool world_model_lives(unsigned agent, unsigned job, uint64_t known);
/* Of which run it is; 0: none runs there. */
uint64_t world_model_run(unsigned agent, unsigned job);

/* It computes there, in a run that is one of the job's. */
bool world_shipping_moves(unsigned agent, const char *allocation_id);

/* It lives although its agent is awake, was told to end it, and has given it its grace. */
bool world_shipping_overstays(unsigned agent, const char *allocation_id);

/* A ckpt-run there is kept for a restart by the broker. */
bool world_shipping_waits(unsigned agent, const char *allocation_id);

/* Its agent has heard steps of ranks of the job that live; the longest of their gaps, 0: there is
 * none. */
bool world_shipping_pace(unsigned agent, const char *allocation_id, uint64_t *ret_gap_ms);

/* Each sync of its journal takes up to so long, during which the agent stands still. 0: none
 * does. */
void world_shipping_slow_disk(unsigned agent, uint64_t most_us);

/* The machine has power; a model's has it always. since_us: when it was last without; 0: never. */
bool world_shipping_powered(unsigned agent, uint64_t *ret_off_us);

struct world_journal {
    uint64_t bytes;                          /* on its disk */
    uint64_t entries, reports, report_bytes; /* in memory */
};
/* False: its agent does not run. */
bool world_shipping_journal(unsigned agent, struct world_journal *ret_journal);

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
