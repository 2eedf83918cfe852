/* What the leader learns of the whole fleet (src/eval/fleet.h), from the state's counts, the time
 * that passes and the alarms that this member hears.
 *
 * Flow     the state counts what happened (fsm_get_losses()), and keeps the last leader's numbers.
 *          learner_load() takes these when a leadership begins; learner_advance() adds, after each
 *          evaluation, the time that passed and what was counted since. Now and then the numbers go
 *          back into the state by SetLearned. What the last leader had not written yet is not lost:
 *          the counts are in the state, and the exposure since is that of the nodes and jobs that
 *          are there now.
 * Lives    What a job's own checkpoints teach (write time, size, success, pause) the state machine
 *          learns itself, by integers: no log traffic, equal on all members, in every snapshot.
 *          What the fleet teaches needs time that passes between two entries, so it is learned
 *          here. It enters the log at most every `learned_interval` of the policy, every twelfth
 *          one when nothing happened, and never in a cluster without nodes and jobs.
 * Shapes   one, owned by the evaluator. Which alarm is whose is this leader's knowledge; what came
 *          of alarms is in the state.
 * Absent   what a job teaches about itself: fsm/books/learn.c. A failure that many nodes share (a
 *          switch) counts once for each.
 * Source   src/eval/learn.h; src/eval/README.md, "What is learned".
 * Units    seconds as double inside; the state has integers (events in millionths, exposure in
 *          milliseconds).
 * Errors   a proposal that the state refuses is logged (learned_refused), and the next one carries
 *          the same and more.
 */
#ifndef CKPT_BROKER_LEARNER_H
#define CKPT_BROKER_LEARNER_H

#include "src/broker/broker.h"
#include "src/eval/fleet.h"

struct learner;

struct learner *learner_new(struct broker *broker);
void learner_free(struct learner *learner); /* NULL allowed */

/* A leadership begins: goes on from the numbers in the state, and counts anew what happened since
 * they were written. */
void learner_load(struct learner *learner);
/* Up to the state's clock. running: jobs that run now, by fsm_group(). May propose. */
void learner_advance(struct learner *learner, const uint32_t running[FSM_GROUPS]);

/* What it all comes to, for the rows of the next cycle. Before learner_load() it is the prior of
 * the policy. */
void learner_rates(const struct learner *learner, struct eval_fleet_rates *ret_rates);

#endif
