/* See breakdown.h. The formulas are those of terms.c, for one job and without its loops. */
#include "src/eval/breakdown.h"

#include <math.h>

#include "src/base/check.h"
#include "src/eval/block.h"

/* What both shares of a yield are made of. */
struct yield {
    double waiting, backlog; /* U_pre, U_bl: GPU-seconds */
    double share;            /* of each of them that is expected to be gained */
};

static double at_least_0(double number)
{
    return number > 0 ? number : 0;
}

static struct yield yield_of(const struct block_policy *policy, const struct block *block,
                             const struct eval_view *view, size_t i)
{
    double gpus = view->gpus[i], u, gain, probability = view->yield_probability[i];
    double wait_s = at_least_0(fmin(view->walltime_left_s[i], EVAL_WAIT_SAVED_MAX_S));
    struct yield yield = {.waiting = view->waiting_gain_gpu_s[i],
                          .backlog = policy->backlog_per_gpu * gpus * wait_s};

    u = yield.waiting + yield.backlog;
    gain = fmin(u - gpus * policy->given->restart_s, gpus * view->age_s[i]);
    if (!(probability > 0))
        probability = policy->backlog_yield;
    if (yield.waiting > 0)
        probability += (1 - probability) * block->reclaim[0];
    if (block->stays[0] > 0)
        probability = 0;
    yield.share = probability * at_least_0(gain) / (u > 0 ? u : 1);
    return yield;
}

static size_t value_parts(const struct block_policy *policy, const struct block *block,
                          const struct eval_view *view, size_t i, struct eval_part *parts)
{
    double progress = view->gpus[i] * view->age_s[i], success = view->success_probability[i];
    double at_risk = 1 / (1 - (block->h_fail[0] + block->h_kill[0]) * (4.0 / 3));
    double fail = block->due[0] > 0 ? 1 : block->h_fail[0] * at_risk;
    struct yield yield = yield_of(policy, block, view, i);

    parts[0] = (struct eval_part){"recompute_saved", "work since the last complete checkpoint",
                                  progress,          "GPU-s",
                                  success * fail,    "expected share lost to failures"};
    parts[1] = (struct eval_part){"preemptability",
                                  "the same work",
                                  progress,
                                  "GPU-s",
                                  success * block->h_kill[0] * at_risk,
                                  "expected share lost to kills"};
    parts[2] = (struct eval_part){"preemptability",      "waiting jobs of higher classes",
                                  yield.waiting,         "GPU-s",
                                  success * yield.share, "expected share gained by yielding"};
    parts[3] = (struct eval_part){"backlog_relief",      "backlog of the queues",
                                  yield.backlog,         "GPU-s",
                                  success * yield.share, "expected share gained by yielding"};
    return 4;
}

static size_t cost_parts(const struct block_policy *policy, const struct block *block,
                         const struct eval_view *view, size_t i, struct eval_part *parts)
{
    const struct eval_policy *given = policy->given;
    double size_gb = view->size_bytes[i] / 1e9;
    bool priced = given->usd_per_gpu_hour >= EVAL_USD_MIN;

    parts[0] = (struct eval_part){"write_time",
                                  "bytes written",
                                  size_gb,
                                  "GB",
                                  given->phi_gpu_s_per_byte * 1e9,
                                  "GPU-s per GB: price of shared bandwidth"};
    parts[1] = (struct eval_part){"compute_waste",
                                  "pause",
                                  block->up[0] > 0 ? block->stall_s[0] : INFINITY,
                                  "s",
                                  view->gpus[i],
                                  "GPUs that stand still"};
    parts[2] = (struct eval_part){"storage_cost",
                                  "keeping it",
                                  size_gb * view->usd_per_gb_month[i] * given->retention_months,
                                  "USD",
                                  priced ? 3600 / given->usd_per_gpu_hour : 0,
                                  "GPU-s per USD"};
    return 3;
}

size_t eval_breakdown(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                      struct eval_part ret_parts[EVAL_PARTS_MAX])
{
    struct block_policy block_policy;
    struct eval_result result;
    struct block block;
    size_t count = 0;

    CHECK(i < view->count);
    if (!eval_policy_valid(policy))
        return 0;
    block_policy_init(&block_policy, policy);
    block_timing(&block_policy, view, i, 1, &block);
    if (block.bad[0] > 0)
        return 0;
    eval_result_alloc(&result, 1);
    block_terms(&block_policy, view, i, 1, &block, &result);
    eval_result_free(&result);
    count += value_parts(&block_policy, &block, view, i, ret_parts);
    count += cost_parts(&block_policy, &block, view, i, ret_parts + count);
    CHECK(count == EVAL_PARTS_MAX);
    return count;
}
