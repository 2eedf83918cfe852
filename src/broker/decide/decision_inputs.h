/* What a decision was made from, for the log and back: the same C function gives the same verdict
 * and the same terms again.
 *
 * Flow     the evaluator puts decision_inputs() beside each decision and decision_basis() beside
 *          each batch; explain recomputes a decision of the log with decision_recompute() and
 *          compares.
 * Shapes   messages point into the caller's structs.
 * Errors   DECISION_OTHER_VERSION: it was made by another model or from other inputs than this
 *          program has.
 */
#ifndef CKPT_BROKER_DECISION_INPUTS_H
#define CKPT_BROKER_DECISION_INPUTS_H

#include "ckpt/log/v1/command.pb-c.h"
#include "fsm/fsm.h"
#include "src/broker/decide/sources.h"
#include "src/eval/inputs.h"

/* Of one decision. Its message points into it: it stays where it is until it was packed. */
struct decision_inputs {
    Ckpt__Log__V1__DecisionInputs message;
    /* bits of doubles: the row's columns, and behind them the situation where payoffs chose */
    uint64_t columns[EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT];
    uint32_t ages_ms[SOURCE_COUNT]; /* how old each source was (sources.h) */
};
/* Of all decisions of one command: the policy, the model's revision and the member. Likewise. */
struct decision_basis {
    Ckpt__Log__V1__DecisionBasis message;
    uint64_t policy[EVAL_POLICY_COUNT]; /* bits of doubles */
};
_Static_assert(EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT <= (int)FSM_INPUT_NUMBERS_MAX,
               "a row fits");
_Static_assert(EVAL_POLICY_COUNT <= (int)FSM_INPUT_NUMBERS_MAX, "a policy fits");
_Static_assert((int)SOURCE_COUNT <= (int)FSM_INPUT_SOURCES_MAX, "the ages fit");

/* ages_ms are the caller's to set before. */
void decision_inputs(const struct eval_view *view, const struct eval_result *result, size_t row,
                     uint64_t now_ms, struct decision_inputs *ret_inputs);
/* Of a decision by the payoffs of actions: what was weighed, behind the row. */
void decision_payoffs(const struct eval_situation *situation, struct decision_inputs *inputs);
/* With this program's revision of the model and the names of its inputs, by which a later program
 * finds out whether it can compute the decisions again. */
void decision_basis(const struct eval_policy *policy, uint64_t member_id,
                    struct decision_basis *ret_basis);

/* False: the row alone decided. */
bool decision_situation(const struct fsm_inputs *inputs, struct eval_situation *ret_situation);

enum decision_match { DECISION_SAME, DECISION_DIFFERS, DECISION_OTHER_VERSION };
/* Where a decision is computed again: row 0 of the caller's view and result. */
struct decision_place {
    struct eval_policy *policy;
    struct eval_view *view;
    struct eval_result *result;
};
/* Computes the decision of the log again and compares it with its terms. ret_what: the number that
 * differs first, or what is of another version; "" when nothing does. */
enum decision_match decision_recompute(const struct fsm_inputs *inputs,
                                       const Ckpt__V1__DecisionTerms *terms,
                                       const struct decision_place *place, char *ret_what,
                                       size_t size);

#endif
