/* The rows of a block, brought up to date and decided. See evaluator_block.h. A refresh goes
 * through the rows 64 at a time (a word): most words of a large cluster have nothing to do, and
 * cost one comparison. */
#include "src/broker/decide/evaluator_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/decide/evaluator_keep.h"

enum { EVALUATOR_ROWS_MIN = 256, WORD_BITS = EVALUATOR_WORD_ROWS, WORDS_AHEAD = 4 };
_Static_assert(EVALUATOR_BLOCK_ROWS % EVALUATOR_ROWS_MIN == 0, "rows fit a block exactly");
_Static_assert((int)FSM_GROUPS <= (int)EVALUATOR_NO_GROUP &&
                   (int)FSM_TARGETS_MAX <= (int)EVALUATOR_NO_GROUP,
               "a byte each");

/* What a row has beside its view. */
#define ROW_ARRAYS(X)                                                                              \
    X(since_ms)                                                                                    \
    X(end_ms) X(until_ms) X(registered_index) X(group) X(target) X(yields) X(gpus) X(verdict)

/* A row without a job: no age, no end, no group, and it is never out of date by itself. */
static void clear_row(struct evaluator_block *block, uint32_t row)
{
    block->since_ms[row] = INFINITY; /* no age */
    block->end_ms[row] = block->until_ms[row] = INFINITY;
    block->registered_index[row] = 0;
    block->group[row] = block->target[row] = EVALUATOR_NO_GROUP;
    block->yields[row] = EVALUATOR_YIELDS_NEVER;
    block->verdict[row] = EVALUATOR_NEVER;
}

/* Capacities are powers of two times the least one, up to a whole block, so that a growing cluster
 * moves its rows a few times only. */
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
}

/* All that a row has, with the times up to which words hold. */
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
    memcpy(to->words_until_ms, from->words_until_ms, sizeof(to->words_until_ms));
    to->rows = from->rows;
    to->policy = from->policy;
    to->evaluated_at_ms = from->evaluated_at_ms;
}

/* ---- out of a block ---- */

/* The ages are of the last refresh, not of now: the row is what was decided about. */
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

/* ---- up to date ---- */

/* The verdict of another job that had the slot is cleared, that of the same job stays. */
static void fill_row(struct evaluator_block *block, struct evaluator_keep *keep, uint32_t row,
                     uint32_t slot)
{
    const struct fsm_allocation *allocation = fsm_allocation_find_slot(keep->fsm, slot);
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
    block->group[row] = (uint8_t)evaluator_group(&keep->cycle, allocation);
    block->target[row] = (uint8_t)fsm_destination(keep->fsm, allocation)->slot;
    block->yields[row] = evaluator_yields_class(allocation);
    block->gpus[row] = allocation->gpu_count;
}

/* What moves in many rows at once, while nothing else of them changes: the gain of what waits, and
 * the probability to yield. */
static void move_row(struct evaluator_block *block, struct evaluator_keep *keep, uint32_t row)
{
    struct eval_view *view = &block->view;
    double age_s, left_s, gain_gpu_s, yield;

    if (block->registered_index[row] == 0)
        return;
    eval_times((double)keep->cycle.now_ms, &block->since_ms[row], &block->end_ms[row], 1, &age_s,
               &left_s);
    gain_gpu_s = evaluator_keep_gain(keep, block, row);
    yield = evaluator_yield_probability(&keep->cycle, block->group[row], age_s, left_s);
    if (gain_gpu_s == view->waiting_gain_gpu_s[row] && yield == view->yield_probability[row])
        return;
    view->waiting_gain_gpu_s[row] = gain_gpu_s;
    view->yield_probability[row] = yield;
    view->age_s[row] = age_s;
    view->walltime_left_s[row] = left_s;
}

/* Of 64 rows, the first at which one may be another by itself. */
static void note_until(struct evaluator_block *block, uint32_t first, uint32_t end)
{
    double until_ms = INFINITY;

    for (uint32_t row = first; row < end; row++)
        until_ms = fmin(until_ms, block->until_ms[row]);
    block->words_until_ms[first / WORD_BITS] = until_ms;
}

/* The rows of a word that `bits` names: those that are out of date are filled. */
static uint32_t refresh_word(struct evaluator_block *block, struct evaluator_keep *keep,
                             uint32_t first, uint64_t bits, uint32_t slot)
{
    uint32_t filled = 0;

    for (; bits != 0; bits &= bits - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(bits), row = first + i;

        if (!evaluator_keep_stale(keep, block, row, slot + i)) {
            if (keep->moving)
                move_row(block, keep, row);
            continue;
        }
        fill_row(block, keep, row, slot + i);
        evaluator_keep_filled(keep, slot + i);
        filled++;
    }
    return filled;
}

/* Every column has its own line for a row that is to be filled. */
static void look_ahead(const struct evaluator_block *block, const struct evaluator_keep *keep,
                       uint32_t first, uint32_t rows, uint32_t row)
{
    uint64_t bits = row < rows ? evaluator_keep_changed(keep, (first + row) / WORD_BITS) : 0;

    for (; bits != 0; bits &= bits - 1) {
        uint32_t at = row + (uint32_t)__builtin_ctzll(bits);

#define X(column) __builtin_prefetch(&block->view.column[at], 1);
        EVAL_VIEW_COLUMNS(X)
#undef X
#define X(array) __builtin_prefetch(&block->array[at], 1);
        ROW_ARRAYS(X)
#undef X
        __builtin_prefetch(&block->view.flags[at], 1);
    }
}

/* Rows that the block never had are out of date from the beginning (until_ms 0). */
uint32_t evaluator_block_refresh(struct evaluator_block *block, struct evaluator_keep *keep,
                                 uint32_t first, uint32_t rows)
{
    uint32_t filled = 0;

    CHECK(first % EVALUATOR_BLOCK_ROWS == 0 && rows <= block->view.capacity);
    for (; block->rows < rows; block->rows++) {
        clear_row(block, block->rows);
        block->until_ms[block->rows] = 0;
        block->words_until_ms[block->rows / WORD_BITS] = 0;
    }
    for (uint32_t row = 0; row < rows; row += WORD_BITS) {
        uint32_t word = (first + row) / WORD_BITS;
        uint32_t end = rows - row < WORD_BITS ? rows : row + WORD_BITS, now;
        uint64_t bits;

        evaluator_keep_take(keep, word);
        look_ahead(block, keep, first, rows, row + WORDS_AHEAD * WORD_BITS);
        bits = evaluator_keep_bits(keep, word, block->words_until_ms[row / WORD_BITS]);
        if (end - row < WORD_BITS)
            bits &= (UINT64_C(1) << (end - row)) - 1;
        now = refresh_word(block, keep, row, bits, first + row);
        if (now > 0)
            note_until(block, row, end);
        filled += now;
    }
    for (uint32_t row = rows; row < block->rows; row++) /* the table became shorter */
        clear_row(block, row);
    block->rows = rows;
    block->policy = keep->cycle.policy;
    block->evaluated_at_ms = keep->cycle.now_ms;
    return filled;
}

/* Ages and walltimes follow from the instants of each row; everything else is as kept. */
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
