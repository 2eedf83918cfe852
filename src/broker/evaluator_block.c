/* See evaluator_block.h. */
#include "src/broker/evaluator_block.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { EVALUATOR_ROWS_MIN = 256 };
_Static_assert(EVALUATOR_CHUNK_ROWS % EVALUATOR_ROWS_MIN == 0,
               "a whole chunk fits a block exactly");

struct evaluator_block *evaluator_block_new(size_t rows)
{
    struct evaluator_block *block = check_calloc(1, sizeof(*block));
    size_t capacity = EVALUATOR_ROWS_MIN;

    while (capacity < rows)
        capacity *= 2;
    eval_view_alloc(&block->view, capacity);
    eval_result_alloc(&block->result, capacity);
    block->evaluated_at_ms = check_calloc(capacity, sizeof(*block->evaluated_at_ms));
    block->registered_index = check_calloc(capacity, sizeof(*block->registered_index));
    block->history = check_calloc(capacity, sizeof(*block->history));
    return block;
}

void evaluator_block_free(struct evaluator_block *block)
{
    if (block == NULL)
        return;
    eval_view_free(&block->view);
    eval_result_free(&block->result);
    free(block->evaluated_at_ms);
    free(block->registered_index);
    free(block->history);
    free(block);
}

void evaluator_block_copy(const struct evaluator_block *from, uint32_t rows,
                          struct evaluator_block *to)
{
    CHECK(rows <= from->view.capacity && rows <= to->view.capacity);
#define X(column) memcpy(to->view.column, from->view.column, rows * sizeof(double));
    EVAL_VIEW_COLUMNS(X)
#undef X
    memcpy(to->view.flags, from->view.flags, rows * sizeof(*to->view.flags));
    memcpy(to->result.verdict, from->result.verdict, rows);
    memcpy(to->registered_index, from->registered_index, rows * sizeof(uint64_t));
    memcpy(to->history, from->history, rows * sizeof(*to->history));
    to->view.count = rows;
}
