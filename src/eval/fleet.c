/* See fleet.h. */
#include "src/eval/fleet.h"

#include <math.h>
#include <string.h>

#define PRIOR_FAILURES     10.0
#define PRIOR_BIN_FAILURES 5.0
#define PRIOR_CALM_S                                                                               \
    86400.0 /* a kill or a demand is as if a job of its group had run so long without any before */

static const struct eval_rate calm = {.events = 0, .seconds = PRIOR_CALM_S};

static struct eval_hazard_prior hazard_prior(const struct eval_fleet_prior *prior)
{
    return (struct eval_hazard_prior){.failures_per_s = prior->node_failures_per_s,
                                      .weight = PRIOR_FAILURES,
                                      .forget_s = prior->hazard_forget_s,
                                      .bin_weight = PRIOR_BIN_FAILURES};
}

void eval_fleet_init(struct eval_fleet *fleet, const struct eval_fleet_prior *prior)
{
    struct eval_hazard_prior hazard = hazard_prior(prior);

    memset(fleet, 0, sizeof(*fleet));
    fleet->prior = *prior;
    eval_hazard_init(&fleet->hazard, &hazard);
    for (int i = 0; i < EVAL_GROUPS; i++)
        fleet->kills[i] = fleet->demands[i] = calm;
}

void eval_fleet_set_prior(struct eval_fleet *fleet, const struct eval_fleet_prior *prior)
{
    fleet->prior = *prior;
    fleet->hazard.prior = hazard_prior(prior);
}

void eval_fleet_advance(struct eval_fleet *fleet, const double nodes[EVAL_AGE_BINS],
                        const uint32_t running[EVAL_GROUPS], double seconds)
{
    eval_hazard_advance(&fleet->hazard, nodes, seconds);
    eval_alarms_advance(&fleet->alarms, seconds, fleet->prior.hazard_forget_s);
    for (int i = 0; i < EVAL_GROUPS; i++) {
        double jobs = running[i];

        if (running[i] == 0)
            continue;
        /* events are forgotten with the time that passes, not with how many jobs it passes for */
        eval_rate_advance(&fleet->kills[i], &calm, jobs * seconds,
                          jobs * fleet->prior.demand_forget_s);
        eval_rate_advance(&fleet->demands[i], &calm, jobs * seconds,
                          jobs * fleet->prior.demand_forget_s);
    }
}

void eval_fleet_rates(const struct eval_fleet *fleet, struct eval_fleet_rates *ret_rates)
{
    ret_rates->node_failures_per_s = eval_hazard_fleet_per_s(&fleet->hazard);
    ret_rates->certainty = eval_steady(eval_hazard_certainty(&fleet->hazard));
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        ret_rates->age_factors[bin] = eval_steady(eval_hazard_bin_factor(&fleet->hazard, bin));
    for (int i = 0; i < EVAL_GROUPS; i++) {
        ret_rates->kills_per_s[i] = eval_steady(eval_rate_per_s(&fleet->kills[i]));
        ret_rates->demands_per_s[i] = eval_steady(eval_rate_per_s(&fleet->demands[i]));
    }
    eval_alarms_rates(&fleet->alarms, &fleet->prior.alarms, &ret_rates->alarms);
    ret_rates->alarms.recall = eval_steady(ret_rates->alarms.recall);
    ret_rates->alarms.precision = eval_steady(ret_rates->alarms.precision);
    ret_rates->alarms.lead_s = eval_steady(ret_rates->alarms.lead_s);
}

static void hold_rate(double *held, double fresh)
{
    if (!(fabs(fresh - *held) <= *held / 32))
        *held = fresh;
}

void eval_fleet_hold(struct eval_fleet_rates *held, const struct eval_fleet_rates *fresh)
{
    held->node_failures_per_s = fresh->node_failures_per_s;
    held->certainty = fresh->certainty;
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        hold_rate(&held->age_factors[bin], fresh->age_factors[bin]);
    for (int i = 0; i < EVAL_GROUPS; i++) {
        hold_rate(&held->kills_per_s[i], fresh->kills_per_s[i]);
        hold_rate(&held->demands_per_s[i], fresh->demands_per_s[i]);
    }
    hold_rate(&held->alarms.recall, fresh->alarms.recall);
    hold_rate(&held->alarms.precision, fresh->alarms.precision);
    hold_rate(&held->alarms.lead_s, fresh->alarms.lead_s);
}
