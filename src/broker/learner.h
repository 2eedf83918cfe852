/* What the leader learns of the whole fleet: how often nodes fail, by the time since they failed last; how often jobs are killed for
 * others, or asked to yield, by preemption class and on borrowed nodes.
 *
 * Flow     the state counts what happened (fsm_get_losses()), and keeps the last leader's numbers. learner_load() takes these when a
 *          leadership begins; learner_advance() adds, after each evaluation, the time that passed and what was counted since. Now and
 *          then the numbers go back into the state by SetLearned. What the last leader had not written yet is not lost: the counts
 *          are in the state, and the exposure since is that of the nodes and jobs that are there now.
 * Shapes   one, owned by the evaluator.
 * Units    per second, of one node or one job.
 * Absent   what a job teaches about itself: fsm/learn.c. A failure that many nodes share (a switch) counts once for each.
 * Source   src/eval/learn.h; src/eval/README.md, "What is learned".
 */
#ifndef CKPT_BROKER_LEARNER_H
#define CKPT_BROKER_LEARNER_H

#include "src/broker/broker.h"

struct learner;

struct learner *learner_new(struct broker *broker);
void learner_free(struct learner *learner); /* NULL allowed */

/* A leadership begins: goes on from the state. */
void learner_load(struct learner *learner);
/* Up to the state's clock. running: jobs that run now, by fsm_group(). May propose. */
void learner_advance(struct learner *learner, const uint32_t running[FSM_GROUPS]);

struct learned_rates {
    double node_failures_per_s;       /* of a node of average age */
    double age_factors[FSM_AGE_BINS]; /* times that, by fsm_age_bin() */
    double kills_per_s[FSM_GROUPS];   /* 0 before the first */
    double demands_per_s[FSM_GROUPS]; /* 0 before the first */
};
void learner_rates(const struct learner *learner, struct learned_rates *ret_rates);

#endif
