/* What the evaluator does beside checkpoints: moves a job off nodes that are about to fail, when
 * the payoffs of actions say so.
 *
 * Flow     evaluator_actions_begin() each cycle; evaluator_actions_move() per scored row with an
 *          alarm: eval_payoffs() weighs going on, a checkpoint and a move. A move needs a spare for
 *          each node with an alarm: READY, well, without an allocation, and of the architecture and
 *          operating system of the job's nodes.
 * Shapes   spares are looked for once per cycle, when the first row needs them; at most
 *          EVALUATOR_SPARES_MAX. Each is promised once.
 * Value    a checkpoint saves at most the work at stake times the probability of its loss: the
 *          model's value is its weight against waiting, and grows beyond that under an alarm. A
 *          move saves that, the failure, and the checkpoints until it comes.
 * Units    GPU-seconds inside; only names and the terms' integers enter the log. The state machine
 *          checks the spare again.
 * Absent   yielding: schedulers ask for it (RequestPreemption), and evaluator_claims.c for
 *          sensitive jobs; the state machine decides who yields, with the payoffs' kill-and-yield
 *          rule in integers (fsm/preempt/victims.c). Whether to move a job that shares its node.
 * Source   S1-022, S1-024; src/eval/README.md, "Actions and pacing".
 */
#ifndef CKPT_BROKER_EVALUATOR_ACTIONS_H
#define CKPT_BROKER_EVALUATOR_ACTIONS_H

#include "fsm/fsm.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/eval/actions.h"

enum { EVALUATOR_SPARES_MAX = 64 };

struct evaluator_actions {
    bool looked; /* for spares, in this cycle */
    uint32_t spare_count;
    uint32_t spares[EVALUATOR_SPARES_MAX]; /* node slots; the last one is promised next */
    struct eval_situation situation;       /* of the last move */
};

/* READY, well, without an allocation. */
bool evaluator_node_idle(const struct evaluator_cycle *cycle, const struct fsm *fsm, uint32_t slot);

void evaluator_actions_begin(struct evaluator_actions *actions);

/* What weighs for and against a move of the row's job. false: none of its nodes has an alarm. */
bool evaluator_actions_situation(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                                 const struct fsm_allocation *allocation,
                                 const struct evaluator_scored *scored,
                                 struct eval_situation *ret_situation, uint32_t *ret_alarmed);

/* True when moving is the best action; *ret_spare is the spare to name, and as many as the job
 * needs are taken. */
bool evaluator_actions_move(struct evaluator_actions *actions, const struct evaluator_cycle *cycle,
                            const struct fsm *fsm, const struct fsm_allocation *allocation,
                            const struct evaluator_scored *scored, const char **ret_spare);

#endif
