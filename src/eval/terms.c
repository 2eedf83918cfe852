/* The terms of value and cost for a block of jobs. See block.h for how the passes fit together, README.md for the
 * formulas.
 *
 * Flow     pass_hazard, pass_value, pass_cost write the results; pass_clean replaces what bad inputs made of them
 *          by zeros.
 * Absent   no exp(): 1 - exp(-H) is a polynomial, because H is at most 0.74 and a call would end the vector loop.
 */
#include <math.h>
#include <stddef.h>

#include "src/eval/block.h"
#include "src/eval/vector.h"

VECTOR_PASS static void pass_hazard(const struct block_policy *policy, const struct eval_view *view,
                                    size_t first, size_t count, struct block *block,
                                    struct eval_result *result)
{
    const double *nodes = view->nodes + first;
    const double *factor = view->hazard_factor + first;
    const double *kill = view->kill_per_s + first;
    const double *alarm = view->alarm_h + first;
    double *hazard = result->hazard_per_s;
    const double *horizon = block->horizon_s;
    double *h_fail = block->h_fail;
    double *h_kill = block->h_kill;
    double lambda_node = policy->given->lambda_node_per_s, clamp = policy->clamp;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double fail = nodes[i] * lambda_node * factor[i];
        double killed = kill[i], h_alarm = alarm[i];
        double h, scale;
        h_alarm = h_alarm < EVAL_ALARM_H_MAX ? h_alarm : EVAL_ALARM_H_MAX;
        h_alarm += fail * horizon[i];
        h = h_alarm + killed * horizon[i];
        scale = clamp / (h > clamp ? h : clamp);
        hazard[i] = fail + killed;
        h_fail[i] = h_alarm * scale;
        h_kill[i] = killed * horizon[i] * scale;
    }
}

/* What explain shows beside the decision. */
VECTOR_PASS static void pass_shown(size_t count, const struct block *block,
                                   struct eval_result *result)
{
    const double *hazard = result->hazard_per_s;
    double *young_daly = result->young_daly_s;
    double *probability = result->failure_probability;
    double *write_s = result->write_s;
    const double *expected = block->write_s;
    const double *stall = block->stall_s;
    const double *up = block->up;
    const double *h_fail = block->h_fail;
    const double *h_kill = block->h_kill;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double h = h_fail[i] + h_kill[i], per_s = hazard[i], stall_s = stall[i];
        double interval_s, seconds = expected[i];
        write_s[i] = up[i] > 0 ? seconds : INFINITY;
        stall_s = up[i] > 0 ? stall_s : INFINITY;
        interval_s = sqrt(2 * stall_s / (per_s > 0 ? per_s : 1.0));
        probability[i] =
            h * (1 - h * (1.0 / 2) *
                         (1 - h * (1.0 / 3) *
                                  (1 - h * (1.0 / 4) *
                                           (1 - h * (1.0 / 5) *
                                                    (1 - h * (1.0 / 6) * (1 - h * (1.0 / 7)))))));
        young_daly[i] = per_s > 0 ? interval_s : INFINITY;
    }
}

VECTOR_PASS static void pass_value(const struct block_policy *policy, const struct eval_view *view,
                                   size_t first, size_t count, const struct block *block,
                                   struct eval_result *result)
{
    const double *age = view->age_s + first;
    const double *gpus = view->gpus + first;
    const double *waiting = view->waiting_gain_gpu_s + first;
    const double *left = view->walltime_left_s + first;
    const double *success = view->success_probability + first;
    const double *told = view->yield_probability + first;
    const double *reclaim = block->reclaim;
    double backlog_yield = policy->backlog_yield;
    double *saved = result->recompute_saved;
    double *preempt = result->preemptability;
    double *relief = result->backlog_relief;
    const double *h_fail = block->h_fail;
    const double *h_kill = block->h_kill;
    const double *due = block->due;
    double restart_s = policy->given->restart_s, backlog_per_gpu = policy->backlog_per_gpu;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double job_gpus = gpus[i], u_waiting = waiting[i], left_s = left[i];
        double progress = job_gpus * age[i], fail = h_fail[i], killed = h_kill[i];
        double at_risk = progress / (1 - (fail + killed) * (4.0 / 3));
        double wait_s = left_s < EVAL_WAIT_SAVED_MAX_S ? left_s : EVAL_WAIT_SAVED_MAX_S;
        double u_backlog = backlog_per_gpu * job_gpus * (wait_s > 0 ? wait_s : 0.0);
        double u = u_waiting + u_backlog;
        double gain = u - job_gpus * restart_s;
        double bounded = gain < progress ? gain : progress;
        double yield = told[i], called = reclaim[i];
        double share;
        /* p_y: what the scheduler says, else from the backlog alone; more on borrowed nodes while higher work waits */
        yield = yield > 0 ? yield : backlog_yield;
        called = u_waiting > 0 ? called : 0.0;
        yield += (1 - yield) * called;
        share = yield * (bounded > 0 ? bounded : 0.0) / (u > 0 ? u : 1.0);
        double expected = at_risk * fail, completes = success[i];
        expected = due[i] > 0 ? progress : expected;
        saved[i] = completes * expected;
        preempt[i] = completes * (at_risk * killed + share * u_waiting);
        relief[i] = completes * (share * u_backlog);
    }
}

VECTOR_PASS static void pass_cost(const struct block_policy *policy, const struct eval_view *view,
                                  size_t first, size_t count, const struct block *block,
                                  struct eval_result *result)
{
    const double *gpus = view->gpus + first;
    const double *size = view->size_bytes + first;
    const double *price = view->usd_per_gb_month + first;
    double *write_time = result->write_time;
    double *waste = result->compute_waste;
    double *storage = result->storage_cost;
    const double *stall = block->stall_s;
    const double *up = block->up;
    double phi = policy->given->phi_gpu_s_per_byte, storage_factor = policy->storage_factor;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double wasted = gpus[i] * stall[i];
        write_time[i] = phi * size[i];
        waste[i] = up[i] > 0 ? wasted : INFINITY;
        storage[i] = size[i] * price[i] * storage_factor;
    }
}

VECTOR_PASS static void clean_column(double *column, const double *bad, size_t count)
{
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        column[i] = bad[i] > 0 ? 0.0 : column[i];
}

VECTOR_PASS static void pass_clean(size_t count, const struct block *block,
                                   struct eval_result *result)
{
    double any = 0;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        any = block->bad[i] > 0 ? 1.0 : any;
    if (any == 0)
        return;
#define X(column)                                                                                  \
    if (result->column != NULL)                                                                    \
        clean_column(result->column, block->bad, count);
    EVAL_RESULT_COLUMNS(X)
#undef X
}

void block_terms(const struct block_policy *policy, const struct eval_view *view, size_t first,
                 size_t count, struct block *block, struct eval_result *result)
{
    pass_hazard(policy, view, first, count, block, result);
    if (result->young_daly_s != NULL)
        pass_shown(count, block, result);
    pass_value(policy, view, first, count, block, result);
    pass_cost(policy, view, first, count, block, result);
    pass_clean(count, block, result);
}
