/* The rates that a leader learns of the whole fleet: failures of nodes by the time since their last
 * one; kills and demands to yield of jobs by group; outcomes of alarms.
 *
 * Flow     the runner of a cluster (src/broker/decide/learner.c, src/whatif) notes the passed time
 *          and the events; eval_fleet_rates() gives the rates to the model. Both runners use this
 *          code with these priors, so the simulation is of the shipped rule.
 * Shapes   one flat struct of numbers. A group is a preemption class, or jobs on borrowed nodes,
 *          while the queue of their vCluster is calm, or while it is busy: most demands come then.
 * Units    per second of one node or one job.
 * Source   src/eval/learn.h.
 */
#ifndef CKPT_EVAL_FLEET_H
#define CKPT_EVAL_FLEET_H

#include "src/eval/learn.h"

enum { EVAL_GROUPS = 24 };

/* From the policy and the configuration; may change while the fleet learns. */
struct eval_fleet_prior {
    double node_failures_per_s;
    double hazard_forget_s;
    double demand_forget_s;
    struct eval_alarm_rates alarms;
};

struct eval_fleet {
    struct eval_fleet_prior prior;
    struct eval_hazard hazard;
    struct eval_rate kills[EVAL_GROUPS], demands[EVAL_GROUPS];
    struct eval_alarms alarms;
};

void eval_fleet_init(struct eval_fleet *fleet, const struct eval_fleet_prior *prior);
void eval_fleet_set_prior(struct eval_fleet *fleet, const struct eval_fleet_prior *prior);
/* `seconds` passed with so many nodes in each bin of age and so many running jobs in each group.
 * Call it before the events of these seconds are noted. */
void eval_fleet_advance(struct eval_fleet *fleet, const double nodes[EVAL_AGE_BINS],
                        const uint32_t running[EVAL_GROUPS], double seconds);

struct eval_fleet_rates {
    double node_failures_per_s;        /* of a node of average age */
    double age_factors[EVAL_AGE_BINS]; /* times that */
    double certainty;                  /* eval_hazard_certainty() */
    double kills_per_s[EVAL_GROUPS];   /* 0 before the first */
    double demands_per_s[EVAL_GROUPS]; /* 0 before the first */
    struct eval_alarm_rates alarms;
};
/* The rates, steady (eval_steady()) except for the failures of nodes. */
void eval_fleet_rates(const struct eval_fleet *fleet, struct eval_fleet_rates *ret_rates);
/* Holds the rates that the rows are made of: a rate that moved by a thirtieth is taken over, the
 * others stay. The rate of failures and its certainty are in no row. */
void eval_fleet_hold(struct eval_fleet_rates *held, const struct eval_fleet_rates *fresh);

#endif
