/* What is learned, as inputs of the model: of the job from its own checkpoints (the state's integers), of its nodes and its class from
 * the whole fleet (learner.h). See evaluator_view.h. */
#include <math.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/evaluator_view.h"
#include "src/broker/node_health.h"
#include "src/eval/learn.h"

#define MICRO 1e-6

/* To ten bits. A rate that is learned moves a little with every cycle; as long as it says nothing new the rows stay the same, and the
 * history of evaluations (history.h) has nothing to keep. */
static double steady(double rate)
{
    int exponent;
    double mantissa = frexp(rate, &exponent);

    return isfinite(rate) ? ldexp(round(mantissa * 1024) / 1024, exponent) : rate;
}

static void hold(double *held, double fresh)
{
    if (!(fabs(fresh - *held) <= *held / 32))
        *held = fresh;
}

void evaluator_hold_rates(struct learned_rates *held, const struct learned_rates *fresh)
{
    held->node_failures_per_s = fresh->node_failures_per_s; /* the policy's, in no row */
    for (size_t i = 0; i < FSM_AGE_BINS; i++)
        hold(&held->age_factors[i], fresh->age_factors[i]);
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        hold(&held->kills_per_s[i], fresh->kills_per_s[i]);
        hold(&held->demands_per_s[i], fresh->demands_per_s[i]);
    }
}

/* What being late would cost grows with a job's age and moves the quantile a little in every cycle. It is taken from the middle of the step in which the time lies, an eighth
 * of an octave (of those below a second there is one), and stays the same until the next: within 6 % of the time. */
struct step {
    double begin_s, end_s;
};

static struct step step_of(double seconds)
{
    int exponent;
    double eighth;

    if (seconds < 1)
        return (struct step){0, 1};
    eighth = floor(frexp(seconds, &exponent) * 16);
    return (struct step){ldexp(eighth / 16, exponent), ldexp((eighth + 1) / 16, exponent)};
}

static double stepped(double seconds)
{
    struct step step = step_of(seconds);

    return isfinite(seconds) ? (step.begin_s + step.end_s) / 2 : seconds;
}

static void steady_rates(struct learned_rates *rates)
{
    for (size_t i = 0; i < FSM_AGE_BINS; i++)
        rates->age_factors[i] = steady(rates->age_factors[i]);
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        rates->kills_per_s[i] = steady(rates->kills_per_s[i]);
        rates->demands_per_s[i] = steady(rates->demands_per_s[i]);
    }
}

void evaluator_cycle_learned(struct evaluator_cycle *cycle, const struct fsm *fsm,
                             const struct learned_rates *rates)
{
    uint32_t slots = fsm_node_slots(fsm);

    CHECK(cycle->age_factors == NULL);
    cycle->rates = *rates;
    steady_rates(&cycle->rates);
    cycle->policy.lambda_node_per_s = cycle->rates.node_failures_per_s;
    cycle->age_factors = check_calloc(slots > 0 ? slots : 1, sizeof(*cycle->age_factors));
    cycle->node_marks = check_calloc(slots > 0 ? slots : 1, sizeof(*cycle->node_marks));
    cycle->age_factor_count = slots;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct fsm_node *node = fsm_node_at(fsm, slot);
        uint32_t bin = FSM_AGE_BINS - 1; /* unknown: as one that did not fail for long */

        if (node != NULL && node->steady_since_ms != 0)
            bin = fsm_age_bin(
                cycle->now_ms > node->steady_since_ms ? cycle->now_ms - node->steady_since_ms : 0);
        cycle->age_factors[slot] = cycle->rates.age_factors[bin];
        cycle->node_marks[slot] = evaluator_mark(
            bin, cycle->health == NULL ? NODE_HEALTH_WELL : node_health_kind(cycle->health, slot));
    }
}

double evaluator_age_factor(const struct evaluator_cycle *cycle, uint32_t node_slot)
{
    return node_slot < cycle->age_factor_count ? cycle->age_factors[node_slot] : 1;
}

/* Bytes per second from asking until the last shard was verified, at most what the target takes, in an outage what it will take. */
static double measured_bandwidth(const struct fsm_allocation *allocation, double budget_bytes_per_s)
{
    double write_s = fmax((double)allocation->learned.write_mean_us * MICRO, MICRO);

    return fmin((double)allocation->size_estimate_bytes / write_s, budget_bytes_per_s);
}

static double write_quantile_s(const struct fsm_learned *learned, double at_risk_s)
{
    struct eval_history history = {.mean = (double)learned->write_mean_us * MICRO,
                                   .deviation = (double)learned->write_deviation_us * MICRO,
                                   .count = learned->count};

    return eval_write_quantile_s(&history, 0, at_risk_s);
}

/* At less bandwidth than its checkpoints had it takes as much longer. */
static double stretched(const struct fsm_learned *learned, double size_bytes,
                        double bandwidth_bytes_per_s)
{
    double mean_s = fmax((double)learned->write_mean_us * MICRO, MICRO);

    return bandwidth_bytes_per_s > 0 ? fmax(size_bytes / bandwidth_bytes_per_s / mean_s, 1) : 1;
}

/* So that the model's stall_fraction * factor * w + quiesce is what was measured. */
static double stall_factor(const struct eval_policy *policy, const struct fsm_learned *learned,
                           double write_s)
{
    double stopped_s = learned->stall_ppm * MICRO * write_s;

    if (!learned->stall_measured || !(policy->stall_fraction * write_s > 0))
        return 1;
    return fmax(stopped_s - policy->quiesce_s, 0) / (policy->stall_fraction * write_s);
}

/* Over the model's horizon, when demands were seen and say more than the backlog does: 0 leaves it to the backlog. */
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

void evaluator_fill_learned(const struct evaluator_cycle *cycle,
                            const struct fsm_allocation *allocation,
                            const struct fsm_target *target, struct eval_view *view, uint32_t row)
{
    const struct fsm_learned *learned = &allocation->learned;
    uint32_t group = fsm_group(allocation);

    if (cycle->age_factors == NULL)
        return; /* nothing was learned */
    view->kill_per_s[row] = cycle->rates.kills_per_s[group];
    view->yield_probability[row] =
        evaluator_yield_probability(cycle, group, view->age_s[row], view->walltime_left_s[row]);
    view->success_probability[row] = fsm_success_ppm(learned) * MICRO;
    if (learned->count == 0)
        return;
    if (view->bandwidth_bytes_per_s[row] > 0)
        view->bandwidth_bytes_per_s[row] =
            measured_bandwidth(allocation, (double)fsm_target_budget_when_up(target));
    if (view->walltime_left_s[row] < INFINITY)
        view->write_quantile_s[row] =
            write_quantile_s(learned, stepped(view->age_s[row])) *
            stretched(learned, view->size_bytes[row], view->bandwidth_bytes_per_s[row]);
    view->stall_factor[row] =
        stall_factor(&cycle->policy, learned, (double)learned->write_mean_us * MICRO);
}

double evaluator_learned_until_ms(const struct evaluator_cycle *cycle,
                                  const struct fsm_allocation *allocation,
                                  const struct eval_view *view, uint32_t row)
{
    double age_s = view->age_s[row];

    if (allocation->learned.count == 0 || isinf(view->walltime_left_s[row]))
        return INFINITY;
    /* a millisecond earlier, so that the last bits of the sum do not count */
    return (double)cycle->now_ms + (step_of(age_s).end_s - age_s) * 1e3 - 1;
}
