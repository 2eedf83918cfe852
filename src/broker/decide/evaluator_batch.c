/* See evaluator_batch.h. */
#include "src/broker/decide/evaluator_batch.h"

#include "src/base/check.h"
#include "src/broker/explain/translate.h"
#include "src/eval/actions.h"

/* What a decision takes at most when it is packed: its ids and terms, a row of inputs with what the
 * payoffs of actions come from, and an age for each source. */
enum {
    EVALUATOR_DECISION_MAX_BYTES = 640 +
                                   (EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT) * sizeof(uint64_t) +
                                   SOURCE_COUNT * sizeof(uint64_t)
};
_Static_assert(EVALUATOR_BATCH_MAX <= (int)FSM_DECISIONS_PER_COMMAND_MAX, "a batch is one command");
_Static_assert(EVALUATOR_BATCH_MAX *EVALUATOR_DECISION_MAX_BYTES <= FSM_COMMAND_MAX_BYTES,
               "a batch fits into a command");

void evaluator_batch_add(struct evaluator_batch *batch, const struct evaluator_cycle *cycle,
                         const struct fsm *fsm, const struct fsm_allocation *allocation,
                         const struct evaluator_scored *scored)
{
    size_t i = batch->count;
    Ckpt__Log__V1__Decision *decision = &batch->decisions[i];

    CHECK(i < EVALUATOR_BATCH_MAX);
    ckpt__log__v1__decision__init(decision);
    decision->allocation_id = translate_text(allocation->id);
    decision->purpose = decision_purpose(scored->view, scored->result, scored->row);
    decision->after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    decision->priority_gpu_ms_per_gb = decision_priority(scored->view, scored->result, scored->row);
    decision_terms(scored->view, scored->result, scored->row, decision->purpose, &batch->terms[i]);
    decision_weighed(fsm, allocation, &batch->terms[i]);
    decision->terms = &batch->terms[i];
    sources_age(fsm, cycle->nodes, allocation, cycle->now_ms, batch->inputs[i].ages_ms);
    decision_inputs(scored->view, scored->result, scored->row, cycle->now_ms, &batch->inputs[i]);
    decision->inputs = &batch->inputs[i].message;
    batch->pointers[i] = decision;
    batch->count++;
}

void evaluator_batch_make_move(struct evaluator_batch *batch, const char *spare_node_id,
                               const struct eval_situation *situation)
{
    Ckpt__Log__V1__Decision *decision;
    size_t i;

    CHECK(batch->count > 0);
    i = batch->count - 1;
    decision = &batch->decisions[i];
    decision->purpose = CKPT__V1__PURPOSE__PURPOSE_MIGRATE;
    decision->after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE;
    decision->spare_node_id = translate_text(spare_node_id);
    batch->terms[i].purpose = decision->purpose;
    batch->terms[i].verdict = translate_text(eval_action_name(EVAL_ACTION_MIGRATE));
    decision_payoffs(situation, &batch->inputs[i]);
}

void evaluator_batch_propose(struct evaluator_batch *batch, struct replica *replica,
                             const struct eval_policy *policy, replica_done_fn *done, void *data)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DecisionBatch message = CKPT__LOG__V1__DECISION_BATCH__INIT;
    struct consensus_status status;
    struct decision_basis basis;

    CHECK(batch->count > 0);
    message.n_decisions = batch->count;
    message.decisions = batch->pointers;
    replica_get_status(replica, &status);
    decision_basis(policy, status.member_id, &basis);
    message.basis = &basis.message;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DECISIONS;
    command.decisions = &message;
    batch->count =
        0; /* the messages stay until they are packed, before replica_propose() returns */
    replica_propose(replica, &command, done, data);
}
