/* The decisions that one command takes, with all that is logged beside them.
 *
 * Flow     evaluator_batch_add() per decision until evaluator_batch_full(), then
 *          evaluator_batch_propose() packs and proposes them and the batch is empty again.
 * Shapes   one for an evaluator, filled and proposed within one turn of the loop: the messages
 *          point to texts of the state (ids of jobs and nodes), which are borrowed until then.
 * Units    the terms as saturated integers (evaluator_view.h), the inputs as the bits of their
 *          doubles (decision_inputs.h).
 * Errors   none of its own: what became of the command is told to the caller's function.
 * Source   S1-053, S1-063; S1-022 for moves.
 */
#ifndef CKPT_BROKER_EVALUATOR_BATCH_H
#define CKPT_BROKER_EVALUATOR_BATCH_H

#include "src/broker/decide/decision_inputs.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/replica/replica.h"

enum { EVALUATOR_BATCH_MAX = 256 }; /* decisions per command */

/* Item i of each array belongs to decision i. */
struct evaluator_batch {
    size_t count;
    Ckpt__Log__V1__Decision decisions[EVALUATOR_BATCH_MAX];
    Ckpt__Log__V1__Decision *pointers[EVALUATOR_BATCH_MAX];
    Ckpt__V1__DecisionTerms terms[EVALUATOR_BATCH_MAX];
    struct decision_inputs inputs[EVALUATOR_BATCH_MAX];
};

static inline bool evaluator_batch_full(const struct evaluator_batch *batch)
{
    return batch->count == EVALUATOR_BATCH_MAX;
}

/* Decides for a checkpoint of the row's job. The batch must not be full. */
void evaluator_batch_add(struct evaluator_batch *batch, const struct evaluator_cycle *cycle,
                         const struct fsm *fsm, const struct fsm_allocation *allocation,
                         const struct evaluator_scored *scored);
/* A move of the job: what was added last, as a checkpoint that ends in a move to the spare node.
 * What the payoffs of actions come from is logged behind the row's inputs. */
void evaluator_batch_make_move(struct evaluator_batch *batch, const char *spare_node_id,
                               const struct eval_situation *situation);
/* Proposes what is in the batch, which must not be empty, and empties it. `policy` is what the
 * cycle scored with. done is called once, maybe before this returns. */
void evaluator_batch_propose(struct evaluator_batch *batch, struct replica *replica,
                             const struct eval_policy *policy, replica_done_fn *done, void *data);

#endif
