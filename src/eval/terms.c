/* The terms of value and cost for a block of jobs. See block.h for how the passes fit together,
 * README.md for the formulas.
 *
 * Flow     pass_hazard, pass_value, pass_cost write the results; pass_clean replaces what bad
 *          inputs made of them by zeros.
 * Absent   no exp(): 1 - exp(-H) is a polynomial, because H is at most 0.74 and a call would end
 *          the vector loop.
 */
#include <math.h>
#include <stddef.h>

#include "src/eval/block.h"
#include "src/eval/job.h"
#include "src/eval/vector.h"

VECTOR_PASS static void pass_hazard(const struct job_policy *given, const struct eval_view *view,
                                    size_t first, size_t count, struct block *block,
                                    struct eval_result *result)
{
    const struct job_policy policy = *given;
    const double *nodes = view->nodes + first;
    const double *factor = view->hazard_factor + first;
    const double *kill = view->kill_per_s + first;
    const double *alarm = view->alarm_h + first;
    double *hazard = result->hazard_per_s;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.nodes = nodes[i],
                          .hazard_factor = factor[i],
                          .kill_per_s = kill[i],
                          .alarm_h = alarm[i],
                          .horizon_s = block->horizon_s[i]};
        job_hazard(&policy, &job);
        hazard[i] = job.hazard_per_s;
        block->h_fail[i] = job.h_fail;
        block->h_kill[i] = job.h_kill;
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

VECTOR_PASS static void pass_value(const struct job_policy *given, const struct eval_view *view,
                                   size_t first, size_t count, const struct block *block,
                                   struct eval_result *result)
{
    const struct job_policy policy = *given;
    const double *age = view->age_s + first;
    const double *gpus = view->gpus + first;
    const double *waiting = view->waiting_gain_gpu_s + first;
    const double *left = view->walltime_left_s + first;
    const double *success = view->success_probability + first;
    const double *told = view->yield_probability + first;
    double *saved = result->recompute_saved;
    double *preempt = result->preemptability;
    double *relief = result->backlog_relief;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.age_s = age[i],
                          .gpus = gpus[i],
                          .waiting_gain_gpu_s = waiting[i],
                          .walltime_left_s = left[i],
                          .success_probability = success[i],
                          .yield_probability = told[i],
                          .reclaim = block->reclaim[i],
                          .stays = block->stays[i],
                          .h_fail = block->h_fail[i],
                          .h_kill = block->h_kill[i],
                          .due = block->due[i]};
        job_value(&policy, &job);
        saved[i] = job.recompute_saved;
        preempt[i] = job.preemptability;
        relief[i] = job.backlog_relief;
    }
}

VECTOR_PASS static void pass_cost(const struct job_policy *given, const struct eval_view *view,
                                  size_t first, size_t count, const struct block *block,
                                  struct eval_result *result)
{
    const struct job_policy policy = *given;
    const double *gpus = view->gpus + first;
    const double *size = view->size_bytes + first;
    const double *price = view->usd_per_gb_month + first;
    double *write_time = result->write_time;
    double *waste = result->compute_waste;
    double *storage = result->storage_cost;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.gpus = gpus[i],
                          .size_bytes = size[i],
                          .usd_per_gb_month = price[i],
                          .up = block->up[i],
                          .stall_s = block->stall_s[i]};
        job_cost(&policy, &job);
        write_time[i] = job.write_time;
        waste[i] = job.compute_waste;
        storage[i] = job.storage_cost;
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
    const struct job_policy numbers = job_policy_of(policy);

    pass_hazard(&numbers, view, first, count, block, result);
    if (result->young_daly_s != NULL)
        pass_shown(count, block, result);
    pass_value(&numbers, view, first, count, block, result);
    pass_cost(&numbers, view, first, count, block, result);
    pass_clean(count, block, result);
}
