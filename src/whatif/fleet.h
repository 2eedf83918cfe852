/* What the model knows about its nodes, and what it learns as a leader of the broker does:
 * src/eval/fleet.h does the learning.
 *
 * Flow     fleet_failed(), fleet_alarmed() and fleet_demanded() when it happens; fleet_advance()
 *          after each decision, as the broker's learner; fleet_factor() when a job's row is filled.
 * Shapes   per node when it failed last (first seen: at the beginning) and its alarm; nodes counted
 *          by bin of age, per job and of all. Each bin holds its nodes in the order in which they
 *          leave it.
 */
#ifndef CKPT_WHATIF_FLEET_H
#define CKPT_WHATIF_FLEET_H

#include "src/eval/fleet.h"
#include "src/whatif/world.h"

/* Nodes in the order of an instant of theirs; an entry is stale when its node has a later one.
 * Nothing is removed in the middle, so every step costs what it finds, not how many nodes there
 * are. */
struct fleet_queue {
    uint32_t *nodes;
    double *at_s;                 /* of each, rising */
    size_t head, count, capacity; /* entries before head are gone */
};

#define FLEET_ALARM_LEADS                                                                          \
    6.0 /* after which an alarm announces nothing any more, as the broker has it */

/* All of it is fleet.c's; rules.c reads `rates`. world NULL: nothing is learned. */
struct fleet {
    const struct world *world;
    struct eval_fleet learned;
    struct eval_fleet_rates rates;     /* of the last fleet_advance() */
    double at_s;                       /* when that was */
    double *failed_at_s;               /* by node: when it failed last, 0 without */
    uint8_t *bin;                      /* by node: of its age since then */
    double bin_nodes[EVAL_AGE_BINS];   /* how many nodes are in each */
    double (*job_bins)[EVAL_AGE_BINS]; /* the same of each job's nodes */
    struct fleet_queue queues[EVAL_AGE_BINS];
    struct eval_episode *episodes; /* by node: from an alarm to what came of it */
    double *alarmed_at_s;          /* by node: its newest alarm */
    struct fleet_queue alarms;
    /* since the last fleet_advance() */
    uint32_t failures[EVAL_AGE_BINS];
    uint32_t kills[EVAL_GROUPS], demands[EVAL_GROUPS];
};

/* Everything as at second 0 of the world, which outlives the fleet: the priors are what the
 * scenario says that a new cluster believes. */
void fleet_init(struct fleet *fleet, const struct world *world);
void fleet_free(struct fleet *fleet);
/* What happens, told when it happens; now_s never falls. A failure counts in the bin of the age
 * that the node had, and the node is young again. A demand is counted for a group (engine_group()),
 * also as a kill when it leaves no time. The rates change at the next fleet_advance() only. */
void fleet_failed(struct fleet *fleet, uint32_t node, double now_s);
void fleet_alarmed(struct fleet *fleet, uint32_t node, double now_s);
void fleet_demanded(struct fleet *fleet, uint32_t group, bool kills);
/* A step of learning, after each decision: the time since the last one, with the nodes in each bin
 * and the jobs that run, by group, is what rates are measured against; then what happened meanwhile
 * is noted, and fresh rates are taken over as the broker's leader does (eval_fleet_hold()). */
void fleet_advance(struct fleet *fleet, const uint32_t running[EVAL_GROUPS], double now_s);
/* How many times the fleet's mean hazard the job's nodes have on the average, by their ages: 1
 * where age says nothing. */
double fleet_factor(const struct fleet *fleet, size_t job);

#endif
