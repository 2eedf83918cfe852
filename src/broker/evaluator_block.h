/* The last evaluation of the jobs of a chunk of slots.
 *
 * Shapes   made when its first chunk is scored: room for a million rows at once takes longer than the loop may be held. A small cluster
 *          has small ones: made anew, twice as large, when its rows have become more.
 */
#ifndef CKPT_BROKER_EVALUATOR_BLOCK_H
#define CKPT_BROKER_EVALUATOR_BLOCK_H

#include "src/broker/evaluator.h"
#include "src/broker/history.h"
#include "src/eval/model.h"

struct evaluator_block {
    struct eval_view view; /* and its capacity */
    struct eval_result result;
    uint64_t *evaluated_at_ms;  /* 0: never */
    uint64_t *registered_index; /* whose evaluation it is */
    struct history_row *history;
    uint32_t cycle; /* in which its rows were scored */
};

struct evaluator_block *evaluator_block_new(size_t rows);
void evaluator_block_free(struct evaluator_block *block); /* NULL allowed */
/* The first rows, all but when they were evaluated. */
void evaluator_block_copy(const struct evaluator_block *from, uint32_t rows,
                          struct evaluator_block *to);

#endif
