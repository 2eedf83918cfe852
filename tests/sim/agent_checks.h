/* What must hold on compute nodes, looked at after every event of theirs and at each thing that
 * happens to an application.
 *
 * Checks   I20, I22, I25 at the signal; I27 and "no work is lost" at a start, by content; I30 at a
 *          report that an application has ended; I33, I34 on the agent's own timers; never two
 *          living processes of one allocation on one node.
 * Shapes   one per world; what it remembers outlives agents and machines.
 */
#ifndef CKPT_TESTS_SIM_AGENT_CHECKS_H
#define CKPT_TESTS_SIM_AGENT_CHECKS_H

#include "tests/sim/application.h"
#include "tests/sim/world.h"

struct agent_checks;

struct agent_checks *agent_checks_new(struct world *world, struct agent_store *store);
void agent_checks_free(struct agent_checks *checks);
const struct application_checks *agent_checks_of_applications(struct agent_checks *checks);
/* After an event of the machine. */
void agent_checks_machine(struct agent_checks *checks, struct agent_machine *machine);
/* The agent is about to signal the group. */
void agent_checks_signal(struct agent_checks *checks, struct agent_machine *machine, pid_t group,
                         int signal);

/* ... this process alone. */
void agent_checks_signal_one(struct agent_checks *checks, struct agent_machine *machine,
                             const struct machine_process *process, int signal);

/* An application of the allocation lives on the node, and the node's reports up to `known` tell
 * that it has begun. */
bool agent_checks_lives(struct agent_checks *checks, unsigned agent, const char *allocation_id,
                        uint64_t known);

/* It computes, in a run that is one of the job's, and nobody has told it to end. */
bool agent_checks_moves(struct agent_checks *checks, unsigned agent, const char *allocation_id);

/* It lives although its agent is awake, was told to end it, and has given it its grace. */
bool agent_checks_overstays(struct agent_checks *checks, unsigned agent, const char *allocation_id);

/* Once faults have ended: empty, or who still lives on a node that was taken away from its job. */
const char *agent_checks_unsettled(struct agent_checks *checks);

struct agent_checks_counters {
    uint64_t asked, starts, restores, runs_ended, terminated;
    uint64_t whole, spread; /* of the restores: of all parts; on another number of nodes */
};
const struct agent_checks_counters *agent_checks_counters(const struct agent_checks *checks);

#endif
