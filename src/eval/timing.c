/* Checking inputs, write times, the walltime slot and the horizon: everything about one job that is
 * measured in seconds. See block.h for how the passes fit together and README.md for the
 * formulas. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "src/eval/block.h"
#include "src/eval/job.h"
#include "src/eval/vector.h"

static bool number_valid(double number)
{
    return number >= 0 && number < EVAL_NUMBER_MAX;
}

bool eval_policy_valid(const struct eval_policy *policy)
{
    const double numbers[] = {policy->cycle_s,
                              policy->min_interval_s,
                              policy->max_interval_s,
                              policy->lambda_node_per_s,
                              policy->quiesce_s,
                              policy->stall_fraction,
                              policy->restart_s,
                              policy->usd_per_gpu_hour,
                              policy->retention_months,
                              policy->pressure,
                              policy->phi_gpu_s_per_byte,
                              policy->backlog_urgency,
                              policy->near_completion_s,
                              policy->certainty,
                              policy->sensitive_min_interval_s,
                              policy->sensitive_max_interval_s};

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

/* The bits of a double in [0, EVAL_NUMBER_MAX) are below those of the limit; of anything else they
 * are above, or the sign is set. Adding 0 makes -0 a 0. */
static inline uint64_t outside_limit(double number, uint64_t limit)
{
    double plain = number + 0.0;
    uint64_t bits;

    memcpy(&bits, &plain, sizeof(bits));
    return bits | (limit - bits);
}

VECTOR_PASS static void check_columns(const double *const columns[4], uint64_t limit, size_t count,
                                      uint64_t *wrong)
{
    const double *a = columns[0], *b = columns[1], *c = columns[2], *d = columns[3];

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        wrong[i] |= outside_limit(a[i], limit) | outside_limit(b[i], limit) |
                    outside_limit(c[i], limit) | outside_limit(d[i], limit);
}

/* 1 when any input makes no sense. Comparisons with NaN are false, so the good case is what is
 * asked for. */
VECTOR_PASS static void pass_check(const struct eval_view *view, size_t first, size_t count,
                                   struct block *block)
{
    const double *const finite[3][4] = {
        {view->age_s + first, view->gpus + first, view->nodes + first, view->size_bytes + first},
        {view->hazard_factor + first, view->kill_per_s + first, view->write_quantile_s + first,
         view->period_s + first},
        {view->usd_per_gb_month + first, view->waiting_gain_gpu_s + first, view->grace_s + first,
         view->stall_factor + first}};
    const double *bandwidth = view->bandwidth_bytes_per_s + first;
    const double *walltime = view->walltime_left_s + first;
    const double *alarm = view->alarm_h + first;
    const double *yield = view->yield_probability + first;
    const double *success = view->success_probability + first;
    double *bad = block->bad;
    const double below = EVAL_NUMBER_MAX * (1 - DBL_EPSILON), one = 1;
    uint64_t wrong[BLOCK_JOBS], limit, limit_one;

    memcpy(&limit, &below, sizeof(limit));
    memcpy(&limit_one, &one, sizeof(limit_one));
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        wrong[i] = outside_limit(yield[i], limit_one) | outside_limit(success[i], limit_one);
    for (size_t k = 0; k < sizeof(finite) / sizeof(finite[0]); k++)
        check_columns(finite[k], limit, count, wrong);
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double good = (walltime[i] == walltime[i] ? 1.0 : 0.0) * (bandwidth[i] >= 0 ? 1.0 : 0.0) *
                      (alarm[i] >= 0 ? 1.0 : 0.0);
        bad[i] = (int64_t)wrong[i] < 0 ? 1.0 : 1 - good;
    }
}

VECTOR_PASS static void decode_flags(const uint32_t *flags, size_t count, struct block *block)
{
    double *up = block->up, *sensitive = block->sensitive, *first_one = block->first_one;
    double *done = block->done, *reclaim = block->reclaim, *stays = block->stays;
    double *sure = block->sure;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        up[i] = (flags[i] & EVAL_FLAG_STORAGE_DOWN) == 0 ? 1.0 : 0.0;
        sensitive[i] = (flags[i] & EVAL_FLAG_SENSITIVE) != 0 ? 1.0 : 0.0;
        first_one[i] = (flags[i] & EVAL_FLAG_FIRST) != 0 ? 1.0 : 0.0;
        done[i] = (flags[i] & EVAL_FLAG_WALLTIME_DONE) != 0 ? 1.0 : 0.0;
        reclaim[i] = (flags[i] & EVAL_FLAG_RECLAIMABLE) != 0 ? EVAL_RECLAIM_PROBABILITY : 0.0;
        stays[i] = (flags[i] & EVAL_FLAG_STAYS) != 0 ? 1.0 : 0.0;
        sure[i] = (flags[i] & (EVAL_FLAG_SENSITIVE | EVAL_FLAG_DOUBTED)) != 0 ? 0.0 : 1.0;
    }
}

void block_decode_flags(const struct eval_view *view, size_t first, size_t count,
                        struct block *block)
{
    decode_flags(view->flags + first, count, block);
}

VECTOR_PASS static uint32_t flags_of_any(const uint32_t *flags, size_t count)
{
    uint32_t any = 0;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        any |= flags[i];
    return any;
}

bool block_flags_tell(const struct eval_view *view, size_t first, size_t count)
{
    return (flags_of_any(view->flags + first, count) &
            (EVAL_FLAG_STORAGE_DOWN | EVAL_FLAG_SENSITIVE | EVAL_FLAG_WALLTIME_DONE |
             EVAL_FLAG_RECLAIMABLE | EVAL_FLAG_STAYS | EVAL_FLAG_DOUBTED | EVAL_FLAG_FIRST)) != 0;
}

/* Most blocks hold no flag that changes a number. */
static void pass_flags(const struct eval_view *view, size_t first, size_t count,
                       struct block *block)
{
    if (block_flags_tell(view, first, count)) {
        block_decode_flags(view, first, count, block);
        return;
    }
    for (size_t i = 0; i < count; i++)
        block->up[i] = block->sure[i] = 1;
    memset(block->sensitive, 0, sizeof(block->sensitive));
    memset(block->first_one, 0, sizeof(block->first_one));
    memset(block->done, 0, sizeof(block->done));
    memset(block->reclaim, 0, sizeof(block->reclaim));
    memset(block->stays, 0, sizeof(block->stays));
}

VECTOR_PASS static void pass_write(const struct job_policy *given, const struct eval_view *view,
                                   size_t first, size_t count, struct block *block)
{
    const struct job_policy policy = *given;
    const double *size = view->size_bytes + first;
    const double *bandwidth = view->bandwidth_bytes_per_s + first;
    const double *measured = view->stall_factor + first;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.size_bytes = size[i],
                          .bandwidth_bytes_per_s = bandwidth[i],
                          .stall_factor = measured[i],
                          .up = block->up[i]};
        job_write(&policy, &job);
        block->up[i] = job.up;
        block->write_s[i] = job.write_s;
        block->stall_s[i] = job.stall_s;
    }
}

VECTOR_PASS static void pass_walltime(const struct job_policy *given, const struct eval_view *view,
                                      size_t first, size_t count, struct block *block)
{
    const struct job_policy policy = *given;
    const double *age = view->age_s + first;
    const double *left = view->walltime_left_s + first;
    const double *quantile = view->write_quantile_s + first;
    const double *grace = view->grace_s + first;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.age_s = age[i],
                          .walltime_left_s = left[i],
                          .write_quantile_s = quantile[i],
                          .grace_s = grace[i],
                          .write_s = block->write_s[i],
                          .done = block->done[i]};
        job_walltime(&policy, &job);
        block->slot_s[i] = job.slot_s;
        block->horizon_s[i] = job.horizon_s;
        block->late[i] = job.late;
        block->due[i] = job.due;
    }
}

void block_timing(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, struct block *block)
{
    const struct job_policy numbers = job_policy_of(policy);

    pass_check(view, first, count, block);
    pass_flags(view, first, count, block);
    pass_write(&numbers, view, first, count, block);
    pass_walltime(&numbers, view, first, count, block);
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
