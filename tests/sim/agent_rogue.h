/* A leader of the past that agents can still reach: it welcomes with a lower (epoch, term) than
 * they have seen, claims that their reports are taken, and orders what nobody committed. An agent
 * that obeys or believes it breaks I20, I22, I25 or I39.
 *
 * Flow     one more endpoint in the agents' list; each hello is refused, left without an answer, or
 *          answered from the past.
 * Shapes   one per world, on a node of its own.
 */
#ifndef CKPT_TESTS_SIM_AGENT_ROGUE_H
#define CKPT_TESTS_SIM_AGENT_ROGUE_H

#include "src/rpc/server.h"
#include "tests/sim/sim_uv.h"

#define AGENT_ROGUE_ADDRESS "old-leader:7443"

struct agent_rogue;

struct agent_rogue *agent_rogue_new(struct sim *sim, unsigned node);
/* From now on it only refuses. */
void agent_rogue_calm(struct agent_rogue *rogue);
uint64_t agent_rogue_welcomes(const struct agent_rogue *rogue);
void agent_rogue_free(struct agent_rogue *rogue); /* NULL allowed */

#endif
