/* The kept rows of all allocation slots: a table of blocks (evaluator_block.h).
 *
 * Flow     evaluator_rows_reach() when a cycle begins, evaluator_rows_make() when its first slot is
 *          scored, evaluator_rows_find() for whoever asks what the last cycle said of a job.
 * Shapes   one block for EVALUATOR_BLOCK_ROWS slots, made when one of them is scored for the first
 *          time; blocks belong to the table. A pointer to a block is valid until a later
 *          evaluator_rows_make() of the same slots, which may make the block anew and larger.
 * Errors   none: what a leader has not evaluated yet is not found.
 */
#ifndef CKPT_BROKER_EVALUATOR_ROWS_H
#define CKPT_BROKER_EVALUATOR_ROWS_H

#include "src/broker/decide/evaluator_block.h"

struct evaluator_rows {
    struct evaluator_block **blocks; /* by slot / EVALUATOR_BLOCK_ROWS; NULL: never scored */
    uint32_t block_count;
};

/* Makes places for the blocks of so many slots; the table never shrinks. */
void evaluator_rows_reach(struct evaluator_rows *rows, uint32_t slot_count);
/* The block of a slot; NULL: no cycle came to it. */
struct evaluator_block *evaluator_rows_block(const struct evaluator_rows *rows, uint32_t slot);
/* The block of the slots from `first` on, with room for `count` of them. The slots were reached
 * before, and `first` is a multiple of EVALUATOR_BLOCK_ROWS. */
struct evaluator_block *evaluator_rows_make(struct evaluator_rows *rows, uint32_t first,
                                            uint32_t count);
/* The block that holds the job's last evaluation, and its row there. NULL: this leader has not
 * evaluated it. The slot's evaluation of an earlier job is not the job's. */
const struct evaluator_block *evaluator_rows_find(const struct evaluator_rows *rows,
                                                  const struct fsm_allocation *allocation,
                                                  uint32_t *ret_row);
/* Leadership ends: what was evaluated is forgotten, the memory stays. */
void evaluator_rows_clear(struct evaluator_rows *rows);
void evaluator_rows_close(struct evaluator_rows *rows);

#endif
