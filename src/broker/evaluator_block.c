/* See evaluator_block.h. */
#include "src/broker/evaluator_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/evaluator_keep.h"

enum { EVALUATOR_ROWS_MIN = 256, WORD_BITS = 64 };
_Static_assert(EVALUATOR_BLOCK_ROWS % EVALUATOR_ROWS_MIN == 0, "rows fit a block exactly");
_Static_assert((int)FSM_GROUPS <= (int)EVALUATOR_NO_GROUP &&
                   (int)FSM_TARGETS_MAX <= (int)EVALUATOR_NO_GROUP,
               "a byte each");

/* What a row has beside its view. */
#define ROW_ARRAYS(X)                                                                              \
    X(since_ms)                                                                                    \
    X(end_ms) X(until_ms) X(registered_index) X(group) X(target) X(yields) X(verdict) X(history)

static void clear_row(struct evaluator_block *block, uint32_t row)
{
    block->since_ms[row] = INFINITY; /* no age */
    block->end_ms[row] = block->until_ms[row] = INFINITY;
    block->registered_index[row] = 0;
    block->group[row] = block->target[row] = EVALUATOR_NO_GROUP;
    block->yields[row] = EVALUATOR_YIELDS_NEVER;
    block->verdict[row] = EVALUATOR_NEVER;
    block->history[row] = (struct history_row){0};
}

struct evaluator_block *evaluator_block_new(size_t rows)
{
    struct evaluator_block *block = check_calloc(1, sizeof(*block));
    size_t capacity = EVALUATOR_ROWS_MIN;

    CHECK(rows <= EVALUATOR_BLOCK_ROWS);
    while (capacity < rows)
        capacity *= 2;
    eval_view_alloc(&block->view, capacity);
#define X(array) block->array = check_calloc(capacity, sizeof(*block->array));
    ROW_ARRAYS(X)
#undef X
    for (uint32_t row = 0; row < capacity; row++)
        clear_row(block, row);
    return block;
}

void evaluator_block_free(struct evaluator_block *block)
{
    if (block == NULL)
        return;
    eval_view_free(&block->view);
#define X(array) free(block->array);
    ROW_ARRAYS(X)
#undef X
    free(block);
}

void evaluator_block_clear(struct evaluator_block *block)
{
    for (uint32_t row = 0; row < block->rows; row++)
        clear_row(block, row);
    block->rows = 0;
    block->cycle = 0;
}

void evaluator_block_move(const struct evaluator_block *from, struct evaluator_block *to)
{
    CHECK(from->rows <= to->view.capacity);
#define X(column) memcpy(to->view.column, from->view.column, from->rows * sizeof(double));
    EVAL_VIEW_COLUMNS(X)
#undef X
    memcpy(to->view.flags, from->view.flags, from->rows * sizeof(*to->view.flags));
#define X(array) memcpy(to->array, from->array, from->rows * sizeof(*to->array));
    ROW_ARRAYS(X)
#undef X
    to->rows = from->rows;
    to->cycle = from->cycle;
    to->evaluated_at_ms = from->evaluated_at_ms;
}

/* ---- out of a block --------------------------------------------------------------------------------------------------- */

void evaluator_block_row(const struct evaluator_block *block, uint32_t row, struct eval_view *view,
                         size_t at)
{
    CHECK(row < block->rows && at < view->capacity);
#define X(column) view->column[at] = block->view.column[row];
    EVAL_VIEW_COLUMNS(X)
#undef X
    view->flags[at] = block->view.flags[row];
    eval_times((double)block->evaluated_at_ms, &block->since_ms[row], &block->end_ms[row], 1,
               &view->age_s[at], &view->walltime_left_s[at]);
}

struct history_row evaluator_block_run(const struct evaluator_block *block, uint32_t row)
{
    struct history_row run = block->history[row];

    CHECK(row < block->rows);
    if (run.first_cycle != 0)
        run.last_cycle = block->cycle;
    return run;
}

/* ---- up to date ------------------------------------------------------------------------------------------------------- */

/* The row as it was before it is filled anew; the cycle before is the block's. */
static struct history_sample take_old(const struct evaluator_block *block,
                                      struct evaluator_keep *keep, uint32_t row)
{
    if (block->registered_index[row] != 0)
        evaluator_block_row(block, row, &keep->old, 0);
    keep->old.count = 1;
    return (struct history_sample){&keep->old, 0, block->verdict[row]};
}

/* Its verdict is not known yet: it is noted with the last one. */
static void note_row(struct evaluator_block *block, struct history *history, uint32_t row,
                     struct history_sample old)
{
    block->history[row] = evaluator_block_run(block, row);
    history_note(history, &block->history[row], old,
                 (struct history_sample){&block->view, row, block->verdict[row]});
}

static void fill_row(struct evaluator_block *block, struct evaluator_keep *keep,
                     struct history *history, uint32_t row, uint32_t slot)
{
    const struct fsm_allocation *allocation = fsm_allocation_at(keep->fsm, slot);
    struct history_sample old = take_old(block, keep, row);
    struct eval_view one = evaluator_view_rows(&block->view, row, row + 1);
    struct evaluator_times times;

    evaluator_fill(&keep->cycle, keep->fsm, &one, slot, slot + 1);
    if (!evaluator_runs(allocation)) {
        clear_row(block, row);
        return;
    }
    evaluator_row_times(&keep->cycle, keep->fsm, allocation, &block->view, row, &times);
    if (block->registered_index[row] != allocation->registered_index)
        clear_row(block, row);
    block->since_ms[row] = times.since_ms;
    block->end_ms[row] = times.end_ms;
    block->until_ms[row] = times.until_ms;
    block->registered_index[row] = allocation->registered_index;
    block->group[row] = (uint8_t)fsm_group(allocation);
    block->target[row] = (uint8_t)allocation->target_slot;
    block->yields[row] = evaluator_yields_class(allocation);
    note_row(block, history, row, old);
}

/* What moves in many rows at once, while nothing else of them changes: the gain of what waits, and the probability to yield. */
static void move_row(struct evaluator_block *block, struct evaluator_keep *keep,
                     struct history *history, uint32_t row)
{
    struct eval_view *view = &block->view;
    double age_s, left_s, gain_gpu_s, yield;
    struct history_sample old;

    if (block->registered_index[row] == 0)
        return;
    eval_times((double)keep->cycle.now_ms, &block->since_ms[row], &block->end_ms[row], 1, &age_s,
               &left_s);
    gain_gpu_s = evaluator_keep_gain(keep, block, row);
    yield = evaluator_yield_probability(&keep->cycle, block->group[row], age_s, left_s);
    if (gain_gpu_s == view->waiting_gain_gpu_s[row] && yield == view->yield_probability[row])
        return;
    old = take_old(block, keep, row);
    view->waiting_gain_gpu_s[row] = gain_gpu_s;
    view->yield_probability[row] = yield;
    view->age_s[row] = age_s;
    view->walltime_left_s[row] = left_s;
    note_row(block, history, row, old);
}

uint32_t evaluator_block_refresh(struct evaluator_block *block, struct evaluator_keep *keep,
                                 struct history *history, uint32_t first, uint32_t rows)
{
    uint32_t filled = 0;

    CHECK(first % EVALUATOR_BLOCK_ROWS == 0 && rows <= block->view.capacity);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t slot = first + row;

        if (slot % WORD_BITS == 0)
            evaluator_keep_take(keep, slot / WORD_BITS);
        if (row >= block->rows) {
            clear_row(block, row);
            block->rows = row + 1;
        } else if (!evaluator_keep_stale(keep, block, row, slot)) {
            if (keep->moving)
                move_row(block, keep, history, row);
            continue;
        }
        fill_row(block, keep, history, row, slot);
        evaluator_keep_filled(keep, slot);
        filled++;
    }
    for (uint32_t row = rows; row < block->rows; row++) /* the table became shorter */
        clear_row(block, row);
    block->rows = rows;
    block->cycle = history_last_cycle(history);
    block->evaluated_at_ms = keep->cycle.now_ms;
    return filled;
}

void evaluator_block_decide(const struct evaluator_block *block, const struct eval_policy *policy,
                            uint8_t verdicts[EVALUATOR_BLOCK_ROWS])
{
    double age_s[EVALUATOR_BLOCK_ROWS], walltime_left_s[EVALUATOR_BLOCK_ROWS];
    struct eval_view rows = evaluator_view_rows(&block->view, 0, block->rows);

    eval_times((double)block->evaluated_at_ms, block->since_ms, block->end_ms, block->rows, age_s,
               walltime_left_s);
    rows.age_s = age_s;
    rows.walltime_left_s = walltime_left_s;
    eval_decide(policy, &rows, verdicts);
}

void evaluator_block_turn(struct evaluator_block *block, struct history *history, uint32_t row,
                          enum eval_verdict verdict)
{
    uint8_t before = block->verdict[row];

    if (before == verdict)
        return;
    block->history[row] = evaluator_block_run(block, row);
    if (block->history[row].first_cycle != 0)
        history_turn(history, &block->history[row],
                     (struct history_sample){&block->view, row, before});
    block->verdict[row] = (uint8_t)verdict;
}
