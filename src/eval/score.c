/* The verdict of every job: the guards in their order, then value against cost. See model.h.
 *
 * Flow     eval_score() walks the view in blocks that stay in the first-level cache.
 */
#include <math.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"
#include "src/eval/vector.h"

static double or_infinity(double seconds)
{
    return seconds > 0 ? seconds : INFINITY;
}

/* Assigned from the weakest reason to the strongest, so that the first in the order of precedence stays. The codes are doubles
 * for the loop's sake. Equality of value and cost is no checkpoint; infinity is never exceeded. */
VECTOR_PASS static void pass_guards(const struct eval_policy *policy, const struct eval_view *view,
                                    size_t first, size_t count, const struct block *block,
                                    const struct eval_result *result, double *verdict)
{
    const double *age = view->age_s + first;
    const double *left = view->walltime_left_s + first;
    const double *period = view->period_s + first;
    const double *saved = result->recompute_saved, *preempt = result->preemptability;
    const double *relief = result->backlog_relief, *write_time = result->write_time;
    const double *waste = result->compute_waste, *storage = result->storage_cost;
    const double *late = block->late, *due = block->due, *up = block->up;
    const double *sensitive = block->sensitive;
    double max_usual_s = or_infinity(policy->max_interval_s);
    double max_sensitive_s = or_infinity(policy->sensitive_max_interval_s);
    double min_usual_s = policy->min_interval_s;
    double min_sensitive_s = policy->sensitive_min_interval_s;
    double near_s = policy->near_completion_s;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double age_s = age[i], left_s = left[i], period_s = period[i], own = sensitive[i];
        double value = saved[i] + preempt[i] + relief[i];
        double cost = write_time[i] + waste[i] + storage[i];
        double worth = value > cost ? 1.0 : 0.0, code = EVAL_SKIP_VALUE;
        double min_interval_s = own > 0 ? min_sensitive_s : min_usual_s;
        double max_interval_s = own > 0 ? max_sensitive_s : max_usual_s;
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

VECTOR_PASS static void pass_flags(const uint32_t *flags, const double *bad, const double *code,
                                   size_t count, uint8_t *verdict)
{
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        uint32_t flag = flags[i], chosen = (uint32_t)(int32_t)code[i];
        chosen = (flag & EVAL_FLAG_ACTIVE) != 0 ? (uint32_t)EVAL_SKIP_ACTIVE : chosen;
        chosen = (flag & EVAL_FLAG_NOT_AUTO) != 0 ? (uint32_t)EVAL_SKIP_STRATEGY : chosen;
        chosen = bad[i] > 0 ? (uint32_t)EVAL_SKIP_BAD_INPUT : chosen;
        verdict[i] = (uint8_t)chosen;
    }
}

void block_decide(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, const struct block *block, struct eval_result *result)
{
    double code[BLOCK_JOBS];

    pass_guards(policy->given, view, first, count, block, result, code);
    pass_flags(view->flags + first, block->bad, code, count, result->verdict);
}

static void refuse_all(const struct eval_view *view, struct eval_result *result)
{
#define X(column) memset(result->column, 0, view->count * sizeof(*result->column));
    EVAL_RESULT_COLUMNS(X)
#undef X
    memset(result->verdict, EVAL_SKIP_BAD_INPUT, view->count);
}

static size_t block_jobs(const struct eval_view *view, size_t first)
{
    size_t left = view->count - first;

    return left < BLOCK_JOBS ? left : BLOCK_JOBS;
}

static void score_block(const struct block_policy *policy, const struct eval_view *view,
                        size_t first, struct eval_result *rows)
{
    size_t count = block_jobs(view, first);
    struct block block;

    block_timing(policy, view, first, count, &block);
    block_terms(policy, view, first, count, &block, rows);
    block_decide(policy, view, first, count, &block, rows);
}

void eval_score(const struct eval_policy *policy, const struct eval_view *view,
                struct eval_result *ret_result)
{
    struct block_policy block_policy;

    CHECK(view->count <= view->capacity);
    if (!eval_policy_valid(policy)) {
        refuse_all(view, ret_result);
        return;
    }
    block_policy_init(&block_policy, policy);
    for (size_t first = 0; first < view->count; first += BLOCK_JOBS) {
        struct eval_result rows = {.verdict = ret_result->verdict + first};
#define X(column) rows.column = ret_result->column + first;
        EVAL_RESULT_COLUMNS(X)
#undef X
        score_block(&block_policy, view, first, &rows);
    }
}

void eval_decide(const struct eval_policy *policy, const struct eval_view *view,
                 uint8_t *ret_verdict)
{
    struct block_policy block_policy;
    double saved[BLOCK_JOBS], preempt[BLOCK_JOBS], relief[BLOCK_JOBS];
    double write_time[BLOCK_JOBS], waste[BLOCK_JOBS], storage[BLOCK_JOBS];
    double hazard[BLOCK_JOBS];
    struct eval_result rows = {.recompute_saved = saved,
                               .preemptability = preempt,
                               .backlog_relief = relief,
                               .write_time = write_time,
                               .compute_waste = waste,
                               .storage_cost = storage,
                               .hazard_per_s = hazard};

    CHECK(view->count <= view->capacity);
    if (!eval_policy_valid(policy)) {
        memset(ret_verdict, EVAL_SKIP_BAD_INPUT, view->count);
        return;
    }
    block_policy_init(&block_policy, policy);
    for (size_t first = 0; first < view->count; first += BLOCK_JOBS) {
        rows.verdict = ret_verdict + first;
        score_block(&block_policy, view, first, &rows);
    }
}
