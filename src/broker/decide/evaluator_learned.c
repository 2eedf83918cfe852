/* What is learned, as inputs of the model: of the job from its own checkpoints (the state's
 * integers), of its nodes and its class from the whole fleet (learner.h). See evaluator_view.h. */
#include <math.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/health/node_health.h"
#include "src/eval/learn.h"

#define MICRO 1e-6

/* Which nodes are how old since their last failure, and how well, is noted for each slot:
 * evaluator_keep.c compares these marks with those of the cycle before. */
void evaluator_cycle_learned(struct evaluator_cycle *cycle, const struct fsm *fsm,
                             const struct eval_fleet_rates *rates)
{
    uint32_t slots = fsm_node_slots(fsm);

    CHECK(cycle->age_factors == NULL);
    cycle->rates = *rates;
    cycle->policy.lambda_node_per_s = cycle->rates.node_failures_per_s;
    cycle->policy.certainty = cycle->rates.certainty;
    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        struct fsm_queue queue;

        fsm_queue_at(fsm, i, &queue);
        if (fsm_queue_busy(fsm, i))
            cycle->busy[cycle->busy_count++] = queue.vcluster;
    }
    cycle->age_factors = check_calloc(slots > 0 ? slots : 1, sizeof(*cycle->age_factors));
    cycle->node_marks = check_calloc(slots > 0 ? slots : 1, sizeof(*cycle->node_marks));
    cycle->age_factor_count = slots;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);
        uint32_t bin = FSM_AGE_BINS - 1; /* unknown: as one that did not fail for long */

        if (node != NULL && node->steady_since_ms != 0)
            bin = fsm_age_bin(
                cycle->now_ms > node->steady_since_ms ? cycle->now_ms - node->steady_since_ms : 0);
        cycle->age_factors[slot] = cycle->rates.age_factors[bin];
        cycle->node_marks[slot] = evaluator_mark(
            bin, cycle->health == NULL ? NODE_HEALTH_WELL : node_health_kind(cycle->health, slot));
    }
}

/* 1 for a node that came after the cycle had begun. */
double evaluator_age_factor(const struct evaluator_cycle *cycle, uint32_t node_slot)
{
    return node_slot < cycle->age_factor_count ? cycle->age_factors[node_slot] : 1;
}

/* How long a write may take at the worst, by the job's own history: it counts where a walltime
 * ends. */
static double write_quantile_s(const struct fsm_learned *learned, double at_risk_s)
{
    struct eval_history history = {.mean = (double)learned->write_mean_us * MICRO,
                                   .deviation = (double)learned->write_deviation_us * MICRO,
                                   .count = learned->count};

    return eval_write_quantile_s(&history, 0, at_risk_s);
}

/* Over the model's horizon, when demands were seen and say more than the backlog does: 0 leaves it
 * to the backlog. */
double evaluator_yield_probability(const struct evaluator_cycle *cycle, uint32_t group,
                                   double age_s, double walltime_left_s)
{
    double over = fmax(0, (cycle->policy.pressure - 0.5) / 0.5);
    double learned;

    if (!(cycle->rates.demands_per_s[group] > 0))
        return 0;
    learned =
        eval_rate_probability(cycle->rates.demands_per_s[group], fmin(age_s / 2, walltime_left_s));
    return learned > EVALUATOR_BACKLOG_YIELD * over * over ? learned : 0;
}

uint32_t evaluator_group(const struct evaluator_cycle *cycle,
                         const struct fsm_allocation *allocation)
{
    bool busy = false;

    for (uint32_t i = 0; i < cycle->busy_count; i++) /* equal names are one pointer */
        busy |= cycle->busy[i] == allocation->vcluster;
    return fsm_group(allocation, busy);
}

/* S1-040: what the application said of how long it writes, until a checkpoint has shown it. */
static void fill_told(const struct evaluator_cycle *cycle, const struct fsm_allocation *allocation,
                      struct eval_view *view, uint32_t row)
{
    uint64_t limit_ms = allocation->checkpoint_timeout_ms;

    if (limit_ms == 0)
        limit_ms = allocation->sensitive ? cycle->sensitive_timeout_ms : cycle->timeout_ms;
    view->bandwidth_bytes_per_s[row] =
        eval_told_bandwidth(view->size_bytes[row], (double)allocation->told_write_ms / 1e3,
                            (double)limit_ms / 1e3, view->bandwidth_bytes_per_s[row]);
}

/* Without any complete checkpoint of its own the job has what it registered with and what its
 * application told; beside that only what the fleet taught is filled in. */
void evaluator_fill_learned(const struct evaluator_cycle *cycle,
                            const struct fsm_allocation *allocation,
                            const struct fsm_target *target, struct eval_view *view, uint32_t row)
{
    const struct fsm_learned *learned = &allocation->learned;
    double mean_s = (double)learned->write_mean_us * MICRO;
    uint32_t group;

    if (cycle->age_factors == NULL)
        return; /* nothing was learned */
    group = evaluator_group(cycle, allocation);
    if (allocation->death_count > 0)
        view->flags[row] |= EVAL_FLAG_DOUBTED;
    view->kill_per_s[row] = cycle->rates.kills_per_s[group];
    view->yield_probability[row] =
        evaluator_yield_probability(cycle, group, view->age_s[row], view->walltime_left_s[row]);
    view->success_probability[row] = fsm_success_ppm(learned) * MICRO;
    if (learned->count == 0) {
        fill_told(cycle, allocation, view, row);
        return;
    }
    if (view->bandwidth_bytes_per_s[row] > 0) /* in an outage what it will be afterwards */
        view->bandwidth_bytes_per_s[row] =
            eval_measured_bandwidth((double)allocation->size_estimate_bytes, mean_s,
                                    (double)fsm_target_budget_when_up(target));
    if (view->walltime_left_s[row] < INFINITY)
        view->write_quantile_s[row] =
            write_quantile_s(learned, eval_stepped(view->age_s[row])) *
            eval_write_stretch(mean_s, view->size_bytes[row], view->bandwidth_bytes_per_s[row]);
    if (learned->stall_measured)
        view->stall_factor[row] =
            eval_stall_factor(cycle->policy.stall_fraction, cycle->policy.quiesce_s,
                              learned->stall_ppm * MICRO * mean_s, mean_s);
}

/* The write quantile follows the age in steps (eval_step_of): the row holds until the next one. */
double evaluator_learned_until_ms(const struct evaluator_cycle *cycle,
                                  const struct fsm_allocation *allocation,
                                  const struct eval_view *view, uint32_t row)
{
    double age_s = view->age_s[row];

    if (allocation->learned.count == 0 || isinf(view->walltime_left_s[row]))
        return INFINITY;
    /* a millisecond earlier, so that the last bits of the sum do not count */
    return (double)cycle->now_ms + (eval_step_of(age_s).end_s - age_s) * 1e3 - 1;
}
