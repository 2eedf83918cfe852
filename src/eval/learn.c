/* See learn.h. */
#include "src/eval/learn.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"

#define HISTORY_WEIGHT_MIN 0.2  /* of the newest observation, once there are five */
#define DEVIATION_MIN      0.01 /* of the mean: no write repeats more exactly than this */
#define LATE_MIN           1.6  /* of 0.4 A/s: keeps z at about 1 at least */
#define SUCCESS_DONE       49.0 /* prior: 49 of 50 complete */
#define SUCCESS_FAILED     1.0
#define SUCCESS_KEPT       0.95 /* of what is remembered, per outcome */
#define STALL_WEIGHT       0.3
#define BIN_WEIGHT_MAX     200.0 /* failures; where all bins are alike */
#define SAVED_UNIT         1e6
#define CERTAIN_DEVIATIONS                                                                         \
    2.0 /* above what was seen: with the 1 below, 95 % of a Poisson count at least */
#define ALARM_WEIGHT 10.0 /* of what alarms are like before any was seen, in outcomes */

static const double bin_end_s[EVAL_AGE_BINS] = {3600,       4 * 3600,   86400,   4 * 86400,
                                                16 * 86400, 64 * 86400, INFINITY};

static bool number_is_sane(double number)
{
    return number >= 0 && number < EVAL_NUMBER_MAX;
}

/* ---- hazard ---- */

void eval_hazard_init(struct eval_hazard *hazard, const struct eval_hazard_prior *prior)
{
    CHECK(number_is_sane(prior->failures_per_s) && number_is_sane(prior->weight));
    CHECK(number_is_sane(prior->forget_s) && number_is_sane(prior->bin_weight));
    memset(hazard, 0, sizeof(*hazard));
    hazard->prior = *prior;
}

int eval_hazard_bin(double node_age_s)
{
    int bin = 0;

    if (!(node_age_s >= 0))
        return EVAL_AGE_BINS - 1; /* unknown: as a node that did not fail for long */
    while (node_age_s >= bin_end_s[bin] && bin + 1 < EVAL_AGE_BINS)
        bin++;
    return bin;
}

double eval_hazard_bin_end_s(int bin)
{
    CHECK(bin >= 0 && bin < EVAL_AGE_BINS);
    return bin_end_s[bin];
}

double eval_hazard_fleet_per_s(const struct eval_hazard *hazard)
{
    double prior_per_s = hazard->prior.failures_per_s, weight = hazard->prior.weight;
    double prior_s = prior_per_s > 0 ? weight / prior_per_s : 0;
    double exposure_s = hazard->node_s + prior_s;

    return exposure_s > 0 ? (hazard->failures + (prior_s > 0 ? weight : 0)) / exposure_s
                          : prior_per_s;
}

void eval_hazard_advance(struct eval_hazard *hazard, const double nodes[EVAL_AGE_BINS],
                         double seconds)
{
    double fleet_per_s = eval_hazard_fleet_per_s(hazard), sum = 0, kept = 1;

    if (!number_is_sane(seconds))
        return;
    if (hazard->prior.forget_s > 0)
        kept = exp(-seconds / hazard->prior.forget_s);
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        double count = number_is_sane(nodes[bin]) ? nodes[bin] : 0;
        sum += count;
        hazard->bin_expected[bin] += count * seconds * fleet_per_s;
    }
    hazard->failures *= kept;
    hazard->node_s = hazard->node_s * kept + sum * seconds;
}

void eval_hazard_note_failure(struct eval_hazard *hazard, double node_age_s)
{
    hazard->failures += 1;
    hazard->bin_failures[eval_hazard_bin(node_age_s)] += 1;
}

/* Of a bin's prior, that it is as the others: one over the variance between the bins beyond what
 * chance gives (moments of a Gamma-Poisson mixture). Where they are alike each of them tells of
 * chance alone and weighs little. */
static double bin_weight(const struct eval_hazard *hazard)
{
    double least = hazard->prior.bin_weight, sum = 0, squares = 0, spread = 0, between;

    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        double expected = hazard->bin_expected[bin], error = hazard->bin_failures[bin] - expected;

        sum += expected;
        squares += expected * expected;
        spread += error * error / (expected + 1);
    }
    between = sum > 0 ? sum - squares / sum : 0;
    spread -= EVAL_AGE_BINS;
    if (!(spread > 0) || between / spread > BIN_WEIGHT_MAX)
        return fmax(least, BIN_WEIGHT_MAX);
    return fmax(least, between / spread);
}

double eval_hazard_bin_factor(const struct eval_hazard *hazard, int bin)
{
    double weight, expected;

    if (bin < 0 || bin >= EVAL_AGE_BINS)
        return 1;
    weight = hazard->prior.bin_weight > 0 ? bin_weight(hazard) : 0;
    expected = hazard->bin_expected[bin] + weight;
    return expected > 0 ? (hazard->bin_failures[bin] + weight) / expected : 1;
}

double eval_hazard_certainty(const struct eval_hazard *hazard)
{
    double seen = hazard->failures, highest;

    if (!(hazard->node_s > 0) || !number_is_sane(seen))
        return 0;
    highest = (seen + 1 + CERTAIN_DEVIATIONS * sqrt(seen + 1)) / hazard->node_s;
    return fmin(eval_hazard_fleet_per_s(hazard) / highest, 1);
}

static int64_t to_word(double number)
{
    double scaled = number * SAVED_UNIT;

    return scaled < 9e18 ? (int64_t)(scaled + 0.5) : INT64_C(9000000000000000000);
}

void eval_hazard_save(const struct eval_hazard *hazard, int64_t ret_words[EVAL_HAZARD_WORDS])
{
    ret_words[0] = to_word(hazard->failures);
    ret_words[1] = to_word(hazard->node_s / SAVED_UNIT); /* whole node-seconds */
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        ret_words[2 + bin] = to_word(hazard->bin_failures[bin]);
        ret_words[2 + EVAL_AGE_BINS + bin] = to_word(hazard->bin_expected[bin]);
    }
}

bool eval_hazard_load(struct eval_hazard *hazard, const int64_t words[EVAL_HAZARD_WORDS])
{
    for (size_t i = 0; i < EVAL_HAZARD_WORDS; i++) {
        if (words[i] < 0)
            return false;
    }
    hazard->failures = (double)words[0] / SAVED_UNIT;
    hazard->node_s = (double)words[1];
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        hazard->bin_failures[bin] = (double)words[2 + bin] / SAVED_UNIT;
        hazard->bin_expected[bin] = (double)words[2 + EVAL_AGE_BINS + bin] / SAVED_UNIT;
    }
    return true;
}

double eval_multiplier_decayed(double multiplier, double since_s, double half_life_s)
{
    if (!number_is_sane(multiplier) || !(since_s >= 0) || !number_is_sane(half_life_s) ||
        half_life_s <= 0)
        return 1;
    return 1 + (multiplier - 1) * exp2(-since_s / half_life_s);
}

/* ---- rates ---- */

/* Pulled back to the prior as it forgets: after a long calm the rate is low, and after no
 * observation it is the prior's. */
void eval_rate_advance(struct eval_rate *rate, const struct eval_rate *prior, double exposed_s,
                       double forget_s)
{
    double kept;

    if (!number_is_sane(exposed_s) || !(forget_s > 0))
        return;
    kept = exp(-exposed_s / forget_s);
    rate->events = prior->events + (rate->events - prior->events) * kept;
    rate->seconds = prior->seconds + (rate->seconds - prior->seconds) * kept + exposed_s * kept;
}

void eval_rate_note(struct eval_rate *rate)
{
    rate->events += 1;
}

double eval_rate_per_s(const struct eval_rate *rate)
{
    return rate->seconds > 0 && number_is_sane(rate->events) ? rate->events / rate->seconds : 0;
}

double eval_rate_probability(double events_per_s, double horizon_s)
{
    if (!(events_per_s > 0) || !(horizon_s > 0))
        return 0;
    return -expm1(-events_per_s * horizon_s);
}

/* ---- alarms ---- */

void eval_alarms_advance(struct eval_alarms *alarms, double seconds, double forget_s)
{
    double kept;

    if (!number_is_sane(seconds) || !(forget_s > 0))
        return;
    kept = exp(-seconds / forget_s);
    alarms->followed *= kept;
    alarms->lead_sum_s *= kept;
    alarms->unfollowed *= kept;
    alarms->unannounced *= kept;
}

void eval_alarms_note_followed(struct eval_alarms *alarms, double lead_s)
{
    alarms->followed += 1;
    alarms->lead_sum_s += number_is_sane(lead_s) ? lead_s : 0;
}

void eval_alarms_note_unfollowed(struct eval_alarms *alarms)
{
    alarms->unfollowed += 1;
}

void eval_alarms_note_unannounced(struct eval_alarms *alarms)
{
    alarms->unannounced += 1;
}

void eval_episode_see(struct eval_episode *episode, const struct eval_sight *sight,
                      struct eval_alarms *alarms)
{
    bool was_on = episode->on;

    if (sight->alarm && !was_on) {
        episode->on = true;
        episode->began_s = sight->now_s - sight->alarm_age_s;
    }
    if (sight->failed && episode->on)
        eval_alarms_note_followed(alarms, sight->now_s - episode->began_s);
    else if (sight->failed && sight->watched)
        eval_alarms_note_unannounced(alarms);
    else if (!sight->alarm && was_on && !sight->emptied)
        eval_alarms_note_unfollowed(alarms);
    episode->on = sight->alarm && !sight->failed;
}

static double weighted_share(double some, double others, double prior)
{
    return (some + ALARM_WEIGHT * prior) / (some + others + ALARM_WEIGHT);
}

void eval_alarms_rates(const struct eval_alarms *alarms, const struct eval_alarm_rates *prior,
                       struct eval_alarm_rates *ret_rates)
{
    ret_rates->recall = weighted_share(alarms->followed, alarms->unannounced, prior->recall);
    ret_rates->precision = weighted_share(alarms->followed, alarms->unfollowed, prior->precision);
    ret_rates->lead_s =
        (alarms->lead_sum_s + ALARM_WEIGHT * prior->lead_s) / (alarms->followed + ALARM_WEIGHT);
}

void eval_alarms_save(const struct eval_alarms *alarms, int64_t ret_words[EVAL_ALARM_WORDS])
{
    ret_words[0] = to_word(alarms->followed);
    ret_words[1] = to_word(alarms->lead_sum_s);
    ret_words[2] = to_word(alarms->unfollowed);
    ret_words[3] = to_word(alarms->unannounced);
}

bool eval_alarms_load(struct eval_alarms *alarms, const int64_t words[EVAL_ALARM_WORDS])
{
    for (size_t i = 0; i < EVAL_ALARM_WORDS; i++) {
        if (words[i] < 0)
            return false;
    }
    *alarms = (struct eval_alarms){.followed = (double)words[0] / SAVED_UNIT,
                                   .lead_sum_s = (double)words[1] / SAVED_UNIT,
                                   .unfollowed = (double)words[2] / SAVED_UNIT,
                                   .unannounced = (double)words[3] / SAVED_UNIT};
    return true;
}

/* ---- histories ---- */

void eval_history_note(struct eval_history *history, double observed)
{
    double weight, error;

    if (!number_is_sane(observed))
        return;
    history->count = fmin(history->count + 1, EVAL_NUMBER_MAX);
    weight = fmax(1 / history->count, HISTORY_WEIGHT_MIN);
    error = observed - history->mean;
    if (history->count > 1)
        history->deviation =
            sqrt((1 - weight) * (history->deviation * history->deviation + weight * error * error));
    history->mean += weight * error;
}

double eval_write_quantile_s(const struct eval_history *history, double expected_s,
                             double at_risk_s)
{
    double deviation, late, mean = history->mean;

    if (!(history->count >= 1) || !number_is_sane(mean) || !number_is_sane(history->deviation))
        return EVAL_WRITE_QUANTILE_FACTOR * (number_is_sane(expected_s) ? expected_s : 0);
    deviation = fmax(history->deviation, DEVIATION_MIN * mean);
    if (history->count < 3) /* one or two say little about their spread */
        deviation = fmax(deviation, (EVAL_WRITE_QUANTILE_FACTOR - 1) / 2 * mean);
    late = deviation > 0 && number_is_sane(at_risk_s) ? 0.4 * at_risk_s / deviation : 0;
    return mean + deviation * sqrt(2 * log(fmax(late, LATE_MIN)));
}

double eval_history_ratio(const struct eval_history *history, double predicted)
{
    return history->count >= 1 && history->mean > 0 && number_is_sane(predicted)
               ? predicted / history->mean
               : 1;
}

/* ---- success and stall ---- */

void eval_success_note(struct eval_success *success, bool completed)
{
    success->done = success->done * SUCCESS_KEPT + (completed ? 1 : 0);
    success->failed = success->failed * SUCCESS_KEPT + (completed ? 0 : 1);
}

double eval_success_probability(const struct eval_success *success)
{
    double done = number_is_sane(success->done) ? success->done : 0;
    double failed = number_is_sane(success->failed) ? success->failed : 0;

    return (done + SUCCESS_DONE) / (done + failed + SUCCESS_DONE + SUCCESS_FAILED);
}

void eval_stall_note(double *fraction, double stopped_s, double write_s)
{
    double observed;

    if (!number_is_sane(stopped_s) || !number_is_sane(write_s) || write_s <= 0)
        return;
    observed = fmin(stopped_s / write_s, 1);
    *fraction = *fraction >= 0 ? *fraction + STALL_WEIGHT * (observed - *fraction) : observed;
}

/* ---- from that to the model's inputs ---- */

double eval_measured_bandwidth(double size_bytes, double write_mean_s, double budget_bytes_per_s)
{
    return fmin(size_bytes / fmax(write_mean_s, 1 / SAVED_UNIT), budget_bytes_per_s);
}

double eval_told_bandwidth(double size_bytes, double told_s, double limit_s,
                           double usable_bytes_per_s)
{
    if (!(told_s > 0) || !(limit_s > 0) || !(size_bytes > 0))
        return usable_bytes_per_s;
    return fmin(size_bytes / fmax(fmin(told_s, limit_s), 1 / SAVED_UNIT), usable_bytes_per_s);
}

double eval_write_stretch(double write_mean_s, double size_bytes, double bandwidth_bytes_per_s)
{
    double mean_s = fmax(write_mean_s, 1 / SAVED_UNIT);

    return bandwidth_bytes_per_s > 0 ? fmax(size_bytes / bandwidth_bytes_per_s / mean_s, 1) : 1;
}

double eval_stall_factor(double stall_fraction, double quiesce_s, double stopped_s, double write_s)
{
    if (!(stall_fraction * write_s > 0))
        return 1;
    return fmax(stopped_s - quiesce_s, 0) / (stall_fraction * write_s);
}

double eval_steady(double rate)
{
    int exponent;
    double mantissa = frexp(rate, &exponent);

    return isfinite(rate) ? ldexp(round(mantissa * 1024) / 1024, exponent) : rate;
}

struct eval_step eval_step_of(double seconds)
{
    int exponent;
    double eighth;

    if (seconds < 1)
        return (struct eval_step){0, 1};
    eighth = floor(frexp(seconds, &exponent) * 16);
    return (struct eval_step){ldexp(eighth / 16, exponent), ldexp((eighth + 1) / 16, exponent)};
}

double eval_stepped(double seconds)
{
    struct eval_step step = eval_step_of(seconds);

    return isfinite(seconds) ? (step.begin_s + step.end_s) / 2 : seconds;
}
