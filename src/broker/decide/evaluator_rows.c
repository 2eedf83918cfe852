/* See evaluator_rows.h. */
#include "src/broker/decide/evaluator_rows.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

void evaluator_rows_reach(struct evaluator_rows *rows, uint32_t slot_count)
{
    uint32_t count = (slot_count + EVALUATOR_BLOCK_ROWS - 1) / EVALUATOR_BLOCK_ROWS;

    if (count <= rows->block_count)
        return;
    rows->blocks = check_realloc(rows->blocks, count, sizeof(*rows->blocks));
    memset(rows->blocks + rows->block_count, 0,
           (count - rows->block_count) * sizeof(*rows->blocks));
    rows->block_count = count;
}

struct evaluator_block *evaluator_rows_block(const struct evaluator_rows *rows, uint32_t slot)
{
    return slot / EVALUATOR_BLOCK_ROWS < rows->block_count
               ? rows->blocks[slot / EVALUATOR_BLOCK_ROWS]
               : NULL;
}

/* The last block of a small cluster is small: it is made anew, larger, when jobs have come. */
struct evaluator_block *evaluator_rows_make(struct evaluator_rows *rows, uint32_t first,
                                            uint32_t count)
{
    struct evaluator_block **block, *larger;

    CHECK(first / EVALUATOR_BLOCK_ROWS < rows->block_count);
    block = &rows->blocks[first / EVALUATOR_BLOCK_ROWS];
    if (*block != NULL && (*block)->view.capacity >= count)
        return *block;
    larger = evaluator_block_new(count);
    if (*block != NULL)
        evaluator_block_move(*block, larger);
    evaluator_block_free(*block);
    *block = larger;
    return larger;
}

const struct evaluator_block *evaluator_rows_find(const struct evaluator_rows *rows,
                                                  const struct fsm_allocation *allocation,
                                                  uint32_t *ret_row)
{
    const struct evaluator_block *block = evaluator_rows_block(rows, allocation->slot);
    uint32_t row = allocation->slot % EVALUATOR_BLOCK_ROWS;

    if (block == NULL || row >= block->rows || block->registered_index[row] == 0 ||
        block->registered_index[row] != allocation->registered_index)
        return NULL;
    *ret_row = row;
    return block;
}

void evaluator_rows_clear(struct evaluator_rows *rows)
{
    for (uint32_t i = 0; i < rows->block_count; i++)
        if (rows->blocks[i] != NULL)
            evaluator_block_clear(rows->blocks[i]);
}

void evaluator_rows_close(struct evaluator_rows *rows)
{
    for (uint32_t i = 0; i < rows->block_count; i++)
        evaluator_block_free(rows->blocks[i]);
    free(rows->blocks);
    *rows = (struct evaluator_rows){0};
}
