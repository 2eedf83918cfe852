/* The terms of value and cost for a block of jobs. See block.h for how the passes fit together, README.md for the formulas.
 *
 * Flow     pass_hazard, pass_value, pass_cost write the results; pass_clean replaces what bad inputs made of them by zeros.
 * Absent   no exp(): 1 - exp(-H) is a polynomial, because H is at most 0.74 and a call would end the vector loop.
 */
#include <math.h>

#include "src/eval/block.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#endif

static void pass_hazard(const struct block_policy *policy, const struct eval_view *view,
                        size_t first, size_t count, struct block *block, struct eval_result *result)
{
    const double *restrict nodes = view->nodes + first;
    const double *restrict factor = view->hazard_factor + first;
    const double *restrict kill = view->kill_per_s + first;
    const double *restrict alarm = view->alarm_h + first;
    double *restrict hazard = result->hazard_per_s + first;
    double *restrict young_daly = result->young_daly_s + first;
    double *restrict probability = result->failure_probability + first;
    double lambda_node = policy->given->lambda_node_per_s, clamp = policy->clamp;

    for (size_t i = 0; i < count; i++) {
        double fail = nodes[i] * lambda_node * factor[i];
        double alarm_h = alarm[i] < EVAL_ALARM_H_MAX ? alarm[i] : EVAL_ALARM_H_MAX;
        double h_fail = fail * block->horizon_s[i] + alarm_h;
        double h_kill = kill[i] * block->horizon_s[i];
        double h = h_fail + h_kill;
        double scale = h > clamp ? clamp / h : 1.0;
        hazard[i] = fail + kill[i];
        block->h_fail[i] = h_fail * scale;
        block->h_kill[i] = h_kill * scale;
    }
    for (size_t i = 0; i < count; i++) {
        double h = block->h_fail[i] + block->h_kill[i];
        double stall_s = block->up[i] > 0 ? block->stall_s[i] : INFINITY;
        double interval_s = sqrt(2 * stall_s / (hazard[i] > 0 ? hazard[i] : 1.0));
        probability[i] =
            h * (1 - h / 2 * (1 - h / 3 * (1 - h / 4 * (1 - h / 5 * (1 - h / 6 * (1 - h / 7))))));
        young_daly[i] = hazard[i] > 0 ? interval_s : INFINITY;
    }
}

/* p_y: what the scheduler says, else from the backlog alone; more on borrowed nodes while higher work waits. */
static void pass_yield(const struct block_policy *policy, const struct eval_view *view,
                       size_t first, size_t count, struct block *block)
{
    const double *restrict told = view->yield_probability + first;
    const double *restrict waiting = view->waiting_gain_gpu_s + first;
    const uint32_t *restrict flags = view->flags + first;
    double backlog_yield = policy->backlog_yield;

    for (size_t i = 0; i < count; i++)
        block->yield[i] = (flags[i] & EVAL_FLAG_RECLAIMABLE) != 0 ? EVAL_RECLAIM_PROBABILITY : 0.0;
    for (size_t i = 0; i < count; i++) {
        double yield = told[i] > 0 ? told[i] : backlog_yield;
        double reclaim = waiting[i] > 0 ? block->yield[i] : 0.0;
        block->yield[i] = yield + (1 - yield) * reclaim;
    }
}

static void pass_value(const struct block_policy *policy, const struct eval_view *view,
                       size_t first, size_t count, const struct block *block,
                       struct eval_result *result)
{
    const double *restrict age = view->age_s + first;
    const double *restrict gpus = view->gpus + first;
    const double *restrict waiting = view->waiting_gain_gpu_s + first;
    const double *restrict left = view->walltime_left_s + first;
    double *restrict saved = result->recompute_saved + first;
    double *restrict preempt = result->preemptability + first;
    double *restrict relief = result->backlog_relief + first;
    double restart_s = policy->given->restart_s, backlog_per_gpu = policy->backlog_per_gpu;

    for (size_t i = 0; i < count; i++) {
        double progress = gpus[i] * age[i];
        double h = block->h_fail[i] + block->h_kill[i];
        double at_risk = progress / (1 - h * (4.0 / 3));
        double wait_s = left[i] < EVAL_WAIT_SAVED_MAX_S ? left[i] : EVAL_WAIT_SAVED_MAX_S;
        double u_backlog = backlog_per_gpu * gpus[i] * (wait_s > 0 ? wait_s : 0.0);
        double u = waiting[i] + u_backlog;
        double gain = u - gpus[i] * restart_s;
        double bounded = gain < progress ? gain : progress;
        double share = block->yield[i] * (bounded > 0 ? bounded : 0.0) / (u > 0 ? u : 1.0);
        saved[i] = block->due[i] > 0 ? progress : at_risk * block->h_fail[i];
        preempt[i] = at_risk * block->h_kill[i] + share * waiting[i];
        relief[i] = share * u_backlog;
    }
}

static void pass_cost(const struct block_policy *policy, const struct eval_view *view, size_t first,
                      size_t count, const struct block *block, struct eval_result *result)
{
    const double *restrict gpus = view->gpus + first;
    const double *restrict size = view->size_bytes + first;
    const double *restrict price = view->usd_per_gb_month + first;
    double *restrict write_time = result->write_time + first;
    double *restrict waste = result->compute_waste + first;
    double *restrict storage = result->storage_cost + first;
    double *restrict write_s = result->write_s + first;
    double phi = policy->given->phi_gpu_s_per_byte, storage_factor = policy->storage_factor;

    for (size_t i = 0; i < count; i++) {
        write_time[i] = phi * size[i];
        waste[i] = block->up[i] > 0 ? gpus[i] * block->stall_s[i] : INFINITY;
        storage[i] = size[i] * price[i] * storage_factor;
        write_s[i] = block->up[i] > 0 ? block->write_s[i] : INFINITY;
    }
}

static void clean_column(double *restrict column, const double *restrict bad, size_t count)
{
    for (size_t i = 0; i < count; i++)
        column[i] = bad[i] > 0 ? 0.0 : column[i];
}

static void pass_clean(size_t first, size_t count, const struct block *block,
                       struct eval_result *result)
{
    double any = 0;

    for (size_t i = 0; i < count; i++)
        any = block->bad[i] > 0 ? 1.0 : any;
    if (any == 0)
        return;
#define X(column) clean_column(result->column + first, block->bad, count);
    EVAL_RESULT_COLUMNS(X)
#undef X
}

void block_terms(const struct block_policy *policy, const struct eval_view *view, size_t first,
                 size_t count, struct block *block, struct eval_result *result)
{
    pass_hazard(policy, view, first, count, block, result);
    pass_yield(policy, view, first, count, block);
    pass_value(policy, view, first, count, block, result);
    pass_cost(policy, view, first, count, block, result);
    pass_clean(first, count, block, result);
}
