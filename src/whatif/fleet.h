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

/* Nodes in the order of an instant of theirs; an entry is stale when its node has a later one. */
struct fleet_queue {
    uint32_t *nodes;
    double *at_s;
    size_t head, count, capacity;
};

#define FLEET_ALARM_LEADS                                                                          \
    6.0 /* after which an alarm announces nothing any more, as the broker has it */

struct fleet {
    const struct world *world;
    struct eval_fleet learned;
    struct eval_fleet_rates rates; /* of the last fleet_advance() */
    double at_s;
    double *failed_at_s;
    uint8_t *bin;
    double bin_nodes[EVAL_AGE_BINS];
    double (*job_bins)[EVAL_AGE_BINS];
    struct fleet_queue queues[EVAL_AGE_BINS];
    struct eval_episode *episodes; /* by node */
    double *alarmed_at_s;
    struct fleet_queue alarms;
    /* since the last fleet_advance() */
    uint32_t failures[EVAL_AGE_BINS];
    uint32_t kills[EVAL_GROUPS], demands[EVAL_GROUPS];
};

void fleet_init(struct fleet *fleet, const struct world *world);
void fleet_free(struct fleet *fleet);
void fleet_failed(struct fleet *fleet, uint32_t node, double now_s);
void fleet_alarmed(struct fleet *fleet, uint32_t node, double now_s);
void fleet_demanded(struct fleet *fleet, uint32_t group, bool kills);
/* running: jobs by group. */
void fleet_advance(struct fleet *fleet, const uint32_t running[EVAL_GROUPS], double now_s);
/* Of a job's nodes: mean of hazard over that of the fleet. */
double fleet_factor(const struct fleet *fleet, size_t job);

#endif
