/* Checking inputs, write times, the walltime slot and the horizon: everything about one job that is measured in seconds.
 * See block.h for how the passes fit together and README.md for the formulas.
 */
#include <math.h>

#include "src/eval/block.h"

/* The loops hold no branches; this lets gcc turn them into vector instructions in a build with -O2. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#endif

static bool number_valid(double number)
{
    return number >= 0 && number < EVAL_NUMBER_MAX;
}

bool eval_policy_valid(const struct eval_policy *policy)
{
    const double numbers[] = {
        policy->cycle_s,           policy->min_interval_s,     policy->max_interval_s,
        policy->lambda_node_per_s, policy->quiesce_s,          policy->stall_fraction,
        policy->restart_s,         policy->usd_per_gpu_hour,   policy->retention_months,
        policy->pressure,          policy->phi_gpu_s_per_byte, policy->backlog_urgency,
        policy->near_completion_s};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!number_valid(numbers[i]))
            return false;
    }
    return true;
}

void block_policy_init(struct block_policy *ret_block_policy, const struct eval_policy *policy)
{
    double clamp = policy->horizon_clamp;
    double pressure = policy->pressure < 1 ? policy->pressure : 1;
    double over_half = pressure > 0.5 ? (pressure - 0.5) / 0.5 : 0;
    double urgency = policy->backlog_urgency > 1 ? policy->backlog_urgency - 1 : 0;

    ret_block_policy->given = policy;
    ret_block_policy->clamp = clamp > 0 && clamp <= 0.74 ? clamp : 0.7;
    ret_block_policy->backlog_yield = EVAL_BACKLOG_YIELD_MAX * over_half * over_half;
    ret_block_policy->backlog_per_gpu = pressure * urgency;
    ret_block_policy->storage_factor =
        policy->usd_per_gpu_hour >= EVAL_USD_MIN
            ? 1e-9 * policy->retention_months * 3600 / policy->usd_per_gpu_hour
            : 0;
}

/* 1 when any input makes no sense. Comparisons with NaN are false, so the good case is what is asked for. */
static void pass_check(const struct eval_view *view, size_t first, size_t count,
                       struct block *block)
{
    const double *restrict finite[] = {view->age_s + first,
                                       view->gpus + first,
                                       view->nodes + first,
                                       view->size_bytes + first,
                                       view->hazard_factor + first,
                                       view->kill_per_s + first,
                                       view->write_quantile_s + first,
                                       view->period_s + first,
                                       view->usd_per_gb_month + first,
                                       view->waiting_gain_gpu_s + first,
                                       view->grace_s + first};
    const double *restrict bandwidth = view->bandwidth_bytes_per_s + first;
    const double *restrict walltime = view->walltime_left_s + first;
    const double *restrict alarm = view->alarm_h + first;
    const double *restrict yield = view->yield_probability + first;
    double *restrict bad = block->bad;

    for (size_t i = 0; i < count; i++) {
        double good = (bandwidth[i] >= 0 ? 1.0 : 0.0) * (walltime[i] == walltime[i] ? 1.0 : 0.0);
        good *= (alarm[i] >= 0 ? 1.0 : 0.0) * (yield[i] >= 0 ? 1.0 : 0.0);
        bad[i] = 1 - good * (yield[i] <= 1 ? 1.0 : 0.0);
    }
    for (size_t k = 0; k < sizeof(finite) / sizeof(finite[0]); k++) {
        const double *restrict column = finite[k];
        for (size_t i = 0; i < count; i++) {
            double good = (column[i] >= 0 ? 1.0 : 0.0) * (column[i] < EVAL_NUMBER_MAX ? 1.0 : 0.0);
            bad[i] = good > 0 ? bad[i] : 1.0;
        }
    }
}

static void pass_write(const struct eval_policy *policy, const struct eval_view *view, size_t first,
                       size_t count, struct block *block)
{
    const double *restrict size = view->size_bytes + first;
    const double *restrict bandwidth = view->bandwidth_bytes_per_s + first;
    const uint32_t *restrict flags = view->flags + first;
    double stall_fraction = policy->stall_fraction, quiesce_s = policy->quiesce_s;

    for (size_t i = 0; i < count; i++)
        block->up[i] = (flags[i] & EVAL_FLAG_STORAGE_DOWN) == 0 ? 1.0 : 0.0;
    for (size_t i = 0; i < count; i++) {
        double up = bandwidth[i] > 0 ? block->up[i] : 0.0;
        double write_s = size[i] / (up > 0 ? bandwidth[i] : INFINITY);
        up = write_s < EVAL_NUMBER_MAX ? up
                                       : 0.0; /* a bandwidth so small that the write never ends */
        block->up[i] = up;
        block->write_s[i] = up > 0 ? write_s : 0.0;
        block->stall_s[i] = stall_fraction * block->write_s[i] + quiesce_s;
    }
}

/* The slot: the last moment at which a checkpoint asked for now, rather than a cycle (or a grace) later, ends in time. */
static void pass_walltime(const struct eval_policy *policy, const struct eval_view *view,
                          size_t first, size_t count, struct block *block)
{
    const double *restrict age = view->age_s + first;
    const double *restrict left = view->walltime_left_s + first;
    const double *restrict quantile = view->write_quantile_s + first;
    const double *restrict grace = view->grace_s + first;
    const uint32_t *restrict flags = view->flags + first;
    double done[BLOCK_JOBS];
    double cycle_s = policy->cycle_s, quiesce_s = policy->quiesce_s;

    for (size_t i = 0; i < count; i++)
        done[i] = (flags[i] & EVAL_FLAG_WALLTIME_DONE) != 0 ? 1.0 : 0.0;
    for (size_t i = 0; i < count; i++) {
        double estimate = EVAL_WRITE_QUANTILE_FACTOR * block->write_s[i];
        double write_s = quantile[i] > 0 ? quantile[i] : estimate;
        double margin = cycle_s > grace[i] ? cycle_s : grace[i];
        double slot_s = write_s + quiesce_s + margin;
        double until = left[i] - (done[i] > 0 ? 0.0 : slot_s);
        double half = age[i] / 2;
        double late = left[i] + grace[i] < block->write_s[i] + quiesce_s ? 1.0 : 0.0;
        until = until > 0 ? until : 0.0;
        block->slot_s[i] = slot_s;
        block->horizon_s[i] = half < until ? half : until;
        block->due[i] = left[i] <= slot_s ? (1 - late) * (1 - done[i]) : 0.0;
        block->late[i] = late;
    }
}

void block_timing(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, struct block *block)
{
    pass_check(view, first, count, block);
    pass_write(policy->given, view, first, count, block);
    pass_walltime(policy->given, view, first, count, block);
}

double eval_horizon_s(const struct eval_policy *policy, const struct eval_view *view, size_t i)
{
    struct block_policy block_policy;
    struct block block;

    block_policy_init(&block_policy, policy);
    block_timing(&block_policy, view, i, 1, &block);
    return block.bad[0] > 0 ? 0 : block.horizon_s[0];
}

double eval_alarm_hazard(const struct eval_alarm *alarm, double horizon_s)
{
    double p = alarm->precision, survived, posterior, within;

    if (!(p > 0 && p <= 1) || !(alarm->lead_s > 0) || !(alarm->since_s >= 0) || !(horizon_s >= 0))
        return 0;
    survived = p * exp(-alarm->since_s / alarm->lead_s);
    posterior = survived > 0 ? survived / (1 - p + survived) : 0;
    within = posterior * -expm1(-horizon_s / alarm->lead_s);
    return within < 1 ? fmin(-log1p(-within), EVAL_ALARM_H_MAX) : EVAL_ALARM_H_MAX;
}
