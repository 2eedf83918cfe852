/* Rows of a block with all of their terms: of the many that a cycle decides about, the few that
 * somebody needs to know more of.
 *
 * Flow     the caller sets rows and count, picked_score() takes them out of their block and
 *          computes their terms.
 * Shapes   room for as many as were ever picked at once, at least one.
 */
#ifndef CKPT_BROKER_EVALUATOR_PICKED_H
#define CKPT_BROKER_EVALUATOR_PICKED_H

#include "src/broker/decide/evaluator_block.h"

/* Row i of the view and of the result is row rows[i] of the block. */
struct picked {
    uint32_t count, next; /* to be taken */
    uint16_t rows[EVALUATOR_BLOCK_ROWS];
    struct eval_view view;
    struct eval_result result;
};
_Static_assert(EVALUATOR_BLOCK_ROWS - 1 <= UINT16_MAX, "a row fits");

void picked_init(struct picked *picked);
void picked_close(struct picked *picked);
void picked_score(struct picked *picked, const struct evaluator_block *block,
                  const struct eval_policy *policy);
/* This row alone. */
void picked_score_one(struct picked *picked, const struct evaluator_block *block, uint32_t row,
                      const struct eval_policy *policy);

#endif
