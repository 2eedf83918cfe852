/* The verdict of every job: the guards in their order, then value against cost. See model.h.
 *
 * Flow     eval_score() walks the view in blocks that stay in the first-level cache.
 */
#include <math.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#endif

/* Assigned from the weakest reason to the strongest, so that the first in the order of precedence stays. Equality of value and
 * cost is no checkpoint; comparisons with an infinite cost are false. */
void block_decide(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, const struct block *block, struct eval_result *result)
{
    const struct eval_policy *given = policy->given;
    double max_interval_s = given->max_interval_s > 0 ? given->max_interval_s : INFINITY;

    for (size_t i = 0; i < count; i++) {
        size_t j = first + i;
        double value = eval_result_value(result, j), cost = eval_result_cost(result, j);
        double period_s = view->period_s[j] > 0 ? view->period_s[j] : INFINITY;
        double age_s = view->age_s[j], left_s = view->walltime_left_s[j];
        uint32_t flags = view->flags[j];
        enum eval_verdict verdict = EVAL_SKIP_VALUE;

        verdict = age_s >= max_interval_s ? EVAL_CHECKPOINT_MAX_INTERVAL : verdict;
        verdict = age_s >= period_s ? EVAL_CHECKPOINT_PERIOD : verdict;
        verdict = value > cost ? EVAL_CHECKPOINT_VALUE : verdict;
        verdict = age_s < given->min_interval_s ? EVAL_SKIP_MIN_INTERVAL : verdict;
        verdict = left_s < given->near_completion_s || block->late[i] > 0
                      ? EVAL_SKIP_NEAR_COMPLETION
                      : verdict;
        verdict = block->due[i] > 0 && value > cost ? EVAL_CHECKPOINT_WALLTIME : verdict;
        verdict = block->up[i] > 0 ? verdict : EVAL_SKIP_STORAGE_DOWN;
        verdict = (flags & EVAL_FLAG_ACTIVE) != 0 ? EVAL_SKIP_ACTIVE : verdict;
        verdict = (flags & EVAL_FLAG_NOT_AUTO) != 0 ? EVAL_SKIP_STRATEGY : verdict;
        verdict = block->bad[i] > 0 ? EVAL_SKIP_BAD_INPUT : verdict;
        result->verdict[j] = (uint8_t)verdict;
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
