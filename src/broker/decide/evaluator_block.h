/* The rows of a block of allocation slots, kept from one cycle to the next, and the last evaluation
 * of each.
 *
 * Flow     evaluator_block_refresh() brings the rows up to date with a cycle: those alone that
 *          evaluator_keep.h says are not; evaluator_block_decide() gives the verdicts of all;
 *          evaluator_block_row() takes one row out, with its times.
 * Shapes   made when its first slot is reached. A small cluster has a small block: made anew, twice
 *          as large, when its rows have become more. Ages and walltimes are not in the kept view
 *          but follow from the instants beside it, so that a row to which nothing happens is never
 *          written. Row i is slot EVALUATOR_BLOCK_ROWS * n + i; one without a running allocation
 *          has registered_index 0.
 * Units    milliseconds as double, whole.
 * Source   src/eval/README.md, "Cost of a cycle".
 */
#ifndef CKPT_BROKER_EVALUATOR_BLOCK_H
#define CKPT_BROKER_EVALUATOR_BLOCK_H

#include "src/broker/decide/evaluator_view.h"

enum {
    EVALUATOR_BLOCK_ROWS = 4096,
    EVALUATOR_WORD_ROWS = 64,  /* looked at together */
    EVALUATOR_NO_GROUP = 0xff, /* of a row without a running allocation */
    EVALUATOR_NEVER = EVAL_VERDICT_COUNT
};

struct evaluator_keep;

struct evaluator_block {
    struct eval_view view; /* and its capacity; its times are those of when a row was filled last */
    double *since_ms, *end_ms, *until_ms; /* struct evaluator_times */
    uint64_t *registered_index;           /* whose row it is */
    uint8_t *group, *target;              /* fsm_group(), target slot */
    uint8_t *yields;                      /* evaluator_yields_class() */
    uint32_t *gpus;                       /* real ones, whatever it weighs: it would free them */
    uint8_t *verdict; /* of the last cycle; EVALUATOR_NEVER: it had no part in one */
    double words_until_ms[EVALUATOR_BLOCK_ROWS / EVALUATOR_WORD_ROWS]; /* the least of each word */
    uint32_t rows; /* those that were ever filled */
    uint64_t evaluated_at_ms;
    struct eval_policy policy; /* of the last refresh */
};

struct evaluator_block *evaluator_block_new(size_t rows);
void evaluator_block_free(struct evaluator_block *block); /* NULL allowed */
/* What was evaluated is forgotten. */
void evaluator_block_clear(struct evaluator_block *block);
/* All of it into a larger one. */
void evaluator_block_move(const struct evaluator_block *from, struct evaluator_block *to);

/* The rows of the slots first .. first + rows - 1, as they are in the cycle that the keep is at.
 * Returns how many were filled. */
uint32_t evaluator_block_refresh(struct evaluator_block *block, struct evaluator_keep *keep,
                                 uint32_t first, uint32_t rows);
/* Verdicts of all rows as of the last refresh. */
void evaluator_block_decide(const struct evaluator_block *block, const struct eval_policy *policy,
                            uint8_t verdicts[EVALUATOR_BLOCK_ROWS]);
/* Row `at` of another view becomes this row, as of the last refresh. */
void evaluator_block_row(const struct evaluator_block *block, uint32_t row, struct eval_view *view,
                         size_t at);

#endif
