/* The model's inputs for one job as integers that can be kept: the bits of the numbers. From them
 * eval_score() gives the same verdict and the same terms, bit for bit, a month later.
 *
 * Flow     take() turns a row or a policy into bits, give() turns them back. eval_input_names()
 *          names the numbers, so a reader of another version notices a difference.
 * Shapes   the caller's arrays, in the order of EVAL_VIEW_COLUMNS and EVAL_POLICY_NUMBERS. A row's
 *          flags are an integer already.
 * Units    bits of IEEE-754 doubles.
 * Errors   none: all bits are some number, and eval_score() refuses numbers that make no sense.
 */
#ifndef CKPT_EVAL_INPUTS_H
#define CKPT_EVAL_INPUTS_H

#include "src/eval/actions.h"
#include "src/eval/model.h"

/* Raised with every change of the model after which the same inputs give other terms. A decision of
 * an older version can then not be recomputed, and is not compared. tests/unit/eval/test_inputs.c
 * notices a change. */
enum { EVAL_MODEL_REVISION = 3 };

enum {
#define X(number) +1
    EVAL_COLUMN_COUNT = 0 EVAL_VIEW_COLUMNS(X),
    EVAL_POLICY_COUNT = 0 EVAL_POLICY_NUMBERS(X),
#undef X
#define X(type, number) +1
    EVAL_SITUATION_COUNT = 0 EVAL_SITUATION_NUMBERS(X)
#undef X
};

/* "age_s gpus ... | cycle_s ... | gpus ...": the names of the columns, of the policy's numbers and
 * of the numbers behind the payoffs of actions. */
const char *eval_input_names(void);

void eval_row_take(const struct eval_view *view, size_t i, uint64_t ret_bits[EVAL_COLUMN_COUNT]);
void eval_row_give(const uint64_t bits[EVAL_COLUMN_COUNT], struct eval_view *view, size_t i);
void eval_policy_take(const struct eval_policy *policy, uint64_t ret_bits[EVAL_POLICY_COUNT]);
void eval_policy_give(const uint64_t bits[EVAL_POLICY_COUNT], struct eval_policy *ret_policy);

void eval_situation_take(const struct eval_situation *situation,
                         uint64_t ret_bits[EVAL_SITUATION_COUNT]);
void eval_situation_give(const uint64_t bits[EVAL_SITUATION_COUNT],
                         struct eval_situation *ret_situation);

/* A digest of all columns of the result and the verdict: equal only when every bit is. */
uint64_t eval_result_digest(const struct eval_result *result, size_t i);
/* The same with every net gain and the best action. */
uint64_t eval_payoffs_digest(uint64_t result_digest, const struct eval_payoffs *payoffs);

#endif
