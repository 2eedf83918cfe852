/* The verdict of every job: the guards in their order, then value against cost. See model.h.
 *
 * Flow     eval_score() walks the view in blocks that stay in the first-level cache.
 */
#include <math.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"
#include "src/eval/vector.h"

static void pass_worth(const struct eval_result *result, size_t first, size_t count, double *worth)
{
    const double *saved = result->recompute_saved + first;
    const double *preempt = result->preemptability + first;
    const double *relief = result->backlog_relief + first;
    const double *write_time = result->write_time + first;
    const double *waste = result->compute_waste + first;
    const double *storage = result->storage_cost + first;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double value = saved[i] + preempt[i] + relief[i];
        double cost = write_time[i] + waste[i] + storage[i];
        worth[i] =
            value > cost ? 1.0 : 0.0; /* equality is no checkpoint; infinity is never exceeded */
    }
}

/* Assigned from the weakest reason to the strongest, so that the first in the order of precedence stays. The codes are doubles
 * for the loop's sake. */
static void pass_guards(const struct eval_policy *policy, const struct eval_view *view,
                        size_t first, size_t count, const struct block *block, double *verdict)
{
    const double *age = view->age_s + first;
    const double *left = view->walltime_left_s + first;
    const double *period = view->period_s + first;
    const double *late = block->late;
    const double *due = block->due;
    const double *up = block->up;
    double max_interval_s = policy->max_interval_s > 0 ? policy->max_interval_s : INFINITY;
    double min_interval_s = policy->min_interval_s, near_s = policy->near_completion_s;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) { /* verdict holds 1 where value exceeds cost */
        double age_s = age[i], left_s = left[i], period_s = period[i], worth = verdict[i];
        double code = EVAL_SKIP_VALUE;
        period_s = period_s > 0 ? period_s : INFINITY;
        left_s = late[i] > 0 ? -1.0 : left_s;
        code = age_s >= max_interval_s ? (double)EVAL_CHECKPOINT_MAX_INTERVAL : code;
        code = age_s >= period_s ? (double)EVAL_CHECKPOINT_PERIOD : code;
        code = worth > 0 ? (double)EVAL_CHECKPOINT_VALUE : code;
        code = age_s < min_interval_s ? (double)EVAL_SKIP_MIN_INTERVAL : code;
        code = left_s < near_s ? (double)EVAL_SKIP_NEAR_COMPLETION : code;
        code = due[i] * worth > 0 ? (double)EVAL_CHECKPOINT_WALLTIME : code;
        code = up[i] > 0 ? code : (double)EVAL_SKIP_STORAGE_DOWN;
        verdict[i] = code;
    }
}

void block_decide(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, const struct block *block, struct eval_result *result)
{
    const uint32_t *flags = view->flags + first;
    uint8_t *verdict = result->verdict + first;
    double code[BLOCK_JOBS];

    pass_worth(result, first, count, code);
    pass_guards(policy->given, view, first, count, block, code);
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        uint32_t flag = flags[i], chosen = (uint32_t)(int32_t)code[i];
        chosen = (flag & EVAL_FLAG_ACTIVE) != 0 ? (uint32_t)EVAL_SKIP_ACTIVE : chosen;
        chosen = (flag & EVAL_FLAG_NOT_AUTO) != 0 ? (uint32_t)EVAL_SKIP_STRATEGY : chosen;
        chosen = block->bad[i] > 0 ? (uint32_t)EVAL_SKIP_BAD_INPUT : chosen;
        verdict[i] = (uint8_t)chosen;
    }
}

static void refuse_all(const struct eval_view *view, struct eval_result *result)
{
#define X(column) memset(result->column, 0, view->count * sizeof(*result->column));
    EVAL_RESULT_COLUMNS(X)
#undef X
    memset(result->verdict, EVAL_SKIP_BAD_INPUT, view->count);
}

void eval_score(const struct eval_policy *policy, const struct eval_view *view,
                struct eval_result *ret_result)
{
    struct block_policy block_policy;
    struct block block;

    CHECK(view->count <= view->capacity);
    if (!eval_policy_valid(policy)) {
        refuse_all(view, ret_result);
        return;
    }
    block_policy_init(&block_policy, policy);
    for (size_t first = 0; first < view->count; first += BLOCK_JOBS) {
        size_t left = view->count - first;
        size_t count = left < BLOCK_JOBS ? left : BLOCK_JOBS;
        block_timing(&block_policy, view, first, count, &block);
        block_terms(&block_policy, view, first, count, &block, ret_result);
        block_decide(&block_policy, view, first, count, &block, ret_result);
    }
}
