/* See evaluator_picked.h. */
#include "src/broker/decide/evaluator_picked.h"

#include "src/base/check.h"

void picked_init(struct picked *picked)
{
    picked->count = picked->next = 0;
    eval_view_alloc(&picked->view, 1);
    eval_result_alloc(&picked->result, 1);
}

void picked_close(struct picked *picked)
{
    eval_view_free(&picked->view);
    eval_result_free(&picked->result);
}

/* The content need not be kept: the caller fills it anew. */
static void picked_reach(struct picked *picked, uint32_t count)
{
    size_t capacity = picked->view.capacity;

    if (count <= capacity)
        return;
    while (capacity < count)
        capacity *= 2;
    picked_close(picked);
    eval_view_alloc(&picked->view, capacity);
    eval_result_alloc(&picked->result, capacity);
}

/* The rows that were picked become one view without gaps, so that all of their terms are computed
 * in one go. */
void picked_score(struct picked *picked, const struct evaluator_block *block,
                  const struct eval_policy *policy)
{
    CHECK(picked->count <= EVALUATOR_BLOCK_ROWS);
    picked_reach(picked, picked->count);
    for (uint32_t i = 0; i < picked->count; i++)
        evaluator_block_row(block, picked->rows[i], &picked->view, i);
    picked->view.count = picked->count;
    eval_score(policy, &picked->view, &picked->result);
}

void picked_score_one(struct picked *picked, const struct evaluator_block *block, uint32_t row,
                      const struct eval_policy *policy)
{
    picked->count = 1;
    picked->next = 0;
    picked->rows[0] = (uint16_t)row;
    picked_score(picked, block, policy);
}
