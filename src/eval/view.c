/* Allocating views and results, and the names of verdicts. See model.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"
#include "src/eval/inputs.h"

/* Columns of equal size that begin at the same place of a page would fall into the same few sets of
 * a cache, and push each other out while a loop goes over all of them: each begins three cache
 * lines further into its page than the one before. All begin at a line, so that no vector of eight
 * numbers lies in two. */
enum {
    PAGE_DOUBLES = 512,
    COLUMN_SHIFT_DOUBLES = 24,
#define X(column) +1
    RESULT_COLUMNS = 0 EVAL_RESULT_COLUMNS(X)
#undef X
};
_Static_assert(COLUMN_SHIFT_DOUBLES % EVAL_LINE_DOUBLES == 0, "columns begin at a cache line");

static size_t column_stride(size_t capacity)
{
    if (capacity < PAGE_DOUBLES)
        return capacity == 0 ? 1 : capacity;
    return (capacity + PAGE_DOUBLES - 1) / PAGE_DOUBLES * PAGE_DOUBLES + COLUMN_SHIFT_DOUBLES;
}

/* One allocation of all columns, from its first cache line on. Zeros from calloc(): what is never
 * written takes no memory. */
static double *columns_alloc(size_t count, double **ret_memory)
{
    uintptr_t begin;

    *ret_memory = check_calloc(count + EVAL_LINE_DOUBLES, sizeof(double));
    begin = (uintptr_t)*ret_memory / sizeof(double);
    return *ret_memory + (EVAL_LINE_DOUBLES - begin % EVAL_LINE_DOUBLES) % EVAL_LINE_DOUBLES;
}

void eval_view_alloc(struct eval_view *view, size_t capacity)
{
    size_t stride = column_stride(capacity);
    double *next;

    memset(view, 0, sizeof(*view));
    view->capacity = capacity;
    next = columns_alloc(stride * EVAL_COLUMN_COUNT, &view->memory);
#define X(column)                                                                                  \
    view->column = next;                                                                           \
    next += stride;
    EVAL_VIEW_COLUMNS(X)
#undef X
    for (size_t i = 0; i < capacity; i++) {
        view->hazard_factor[i] = 1;
        view->success_probability[i] = 1;
        view->stall_factor[i] = 1;
        view->walltime_left_s[i] = INFINITY;
    }
    view->flags = check_calloc(capacity == 0 ? 1 : capacity, sizeof(*view->flags));
}

void eval_view_free(struct eval_view *view)
{
    free(view->memory);
    free(view->flags);
    memset(view, 0, sizeof(*view));
}

void eval_view_copy_row(const struct eval_view *view, size_t i, struct eval_view *ret_one)
{
    CHECK(i < view->count && ret_one->capacity >= 1);
    ret_one->count = 1;
#define X(column) ret_one->column[0] = view->column[i];
    EVAL_VIEW_COLUMNS(X)
#undef X
    ret_one->flags[0] = view->flags[i];
}

void eval_result_alloc(struct eval_result *result, size_t capacity)
{
    size_t stride = column_stride(capacity);
    double *next = columns_alloc(stride * RESULT_COLUMNS, &result->memory);

#define X(column)                                                                                  \
    result->column = next;                                                                         \
    next += stride;
    EVAL_RESULT_COLUMNS(X)
#undef X
    result->verdict = check_calloc(capacity == 0 ? 1 : capacity, sizeof(*result->verdict));
}

void eval_result_free(struct eval_result *result)
{
    free(result->memory);
    free(result->verdict);
    memset(result, 0, sizeof(*result));
}

double eval_result_value(const struct eval_result *result, size_t i)
{
    return result->recompute_saved[i] + result->preemptability[i] + result->backlog_relief[i];
}

double eval_result_cost(const struct eval_result *result, size_t i)
{
    return result->write_time[i] + result->compute_waste[i] + result->storage_cost[i];
}

const char *eval_verdict_name(enum eval_verdict verdict)
{
    static const char *const names[] = {
#define X(name, text) text,
        EVAL_VERDICTS(X)
#undef X
    };
    return (size_t)verdict < ARRAY_COUNT(names) ? names[verdict] : "unknown";
}

bool eval_verdict_fires(enum eval_verdict verdict)
{
    return verdict == EVAL_CHECKPOINT_VALUE || verdict == EVAL_CHECKPOINT_MAX_INTERVAL ||
           verdict == EVAL_CHECKPOINT_PERIOD || verdict == EVAL_CHECKPOINT_WALLTIME ||
           verdict == EVAL_CHECKPOINT_MOVE;
}
