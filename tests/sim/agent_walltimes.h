/* I33 of what an agent keeps. See world_walltimes.c. */
#ifndef CKPT_TESTS_SIM_AGENT_WALLTIMES_H
#define CKPT_TESTS_SIM_AGENT_WALLTIMES_H

struct agent_machine;
struct allocation;
struct world;

/* The end that the agent keeps for what it runs, after it has changed or orders have come, is the
 * one that its leaders told. */
void walltimes_kept(struct world *world, const struct agent_machine *machine,
                    const struct allocation *allocation);
/* I30: what runs and is not named by the orders that its agent has, which is awake, is being
 * ended. */
void walltimes_named(struct world *world, const struct agent_machine *machine,
                     const struct allocation *allocation);

#endif
