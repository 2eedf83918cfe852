/* What is learned from, how fast, and what senseless observations do. */
#include <math.h>

#include "src/eval/learn.h"
#include "tests/support/test.h"

static const struct eval_hazard_prior prior = {
    .failures_per_s = 6.5e-3 / 86400, .weight = 10, .forget_s = 30 * 86400.0, .bin_weight = 5};

static double uniform(uint64_t *state)
{
    return ((double)(test_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

static void without_any_observation_the_hazard_is_the_prior(void **state)
{
    struct eval_hazard hazard;

    (void)state;
    eval_hazard_init(&hazard, &prior);
    assert_double_near(eval_hazard_fleet_per_s(&hazard), prior.failures_per_s, 1e-18);
    for (int bin = -1; bin <= EVAL_AGE_BINS; bin++)
        assert_true(eval_hazard_bin_factor(&hazard, bin) == 1);
    eval_hazard_init(&hazard, &(struct eval_hazard_prior){0}); /* nothing known, nothing seen */
    assert_true(eval_hazard_fleet_per_s(&hazard) == 0);
    assert_true(eval_hazard_bin_factor(&hazard, 0) == 1);
}

/* 1000 nodes at three times the prior's rate for 60 days: 1170 failures outweigh the prior's ten */
static void fleet_rate_follows_what_is_observed(void **state)
{
    struct eval_hazard hazard;
    double nodes[EVAL_AGE_BINS] = {0}, per_s = 3 * prior.failures_per_s;
    uint64_t random = test_seed();

    (void)state;
    nodes[4] = 1000;
    eval_hazard_init(&hazard, &prior);
    for (int hour = 0; hour < 60 * 24; hour++) {
        eval_hazard_advance(&hazard, nodes, 3600);
        if (uniform(&random) < 1000 * per_s * 3600)
            eval_hazard_note_failure(&hazard, 10 * 86400.0);
    }
    assert_double_near(eval_hazard_fleet_per_s(&hazard) / per_s, 1, 0.2);
    for (int hour = 0; hour < 120 * 24; hour++) /* then nothing fails any more */
        eval_hazard_advance(&hazard, nodes, 3600);
    assert_true(eval_hazard_fleet_per_s(&hazard) < 0.1 * per_s);
}

/* Nodes that failed within the hour fail ten times as often as others: the bins tell them apart */
static void bins_learn_that_young_nodes_fail_more(void **state)
{
    struct eval_hazard hazard;
    double nodes[EVAL_AGE_BINS] = {50, 0, 0, 0, 0, 0, 950};

    (void)state;
    eval_hazard_init(&hazard, &prior);
    for (int day = 0; day < 365; day++) {
        eval_hazard_advance(&hazard, nodes, 86400);
        for (int i = 0; i < 3; i++)
            eval_hazard_note_failure(&hazard, 1800);
        for (int i = 0; i < 6; i++)
            eval_hazard_note_failure(&hazard, 1e8);
    }
    assert_true(eval_hazard_bin_factor(&hazard, 0) > 4);
    assert_double_near(eval_hazard_bin_factor(&hazard, 6), 0.7, 0.1);
    assert_true(eval_hazard_bin_factor(&hazard, 3) == 1); /* nothing known about these */
}

static void ages_fall_into_their_bins(void **state)
{
    (void)state;
    assert_int_equal(eval_hazard_bin(0), 0);
    assert_int_equal(eval_hazard_bin(3599), 0);
    assert_int_equal(eval_hazard_bin(3600), 1);
    assert_int_equal(eval_hazard_bin(1e12), EVAL_AGE_BINS - 1);
    assert_int_equal(eval_hazard_bin(INFINITY), EVAL_AGE_BINS - 1);
    assert_int_equal(eval_hazard_bin(NAN), EVAL_AGE_BINS - 1);
    assert_int_equal(eval_hazard_bin(-1), EVAL_AGE_BINS - 1);
    for (int bin = 0; bin + 1 < EVAL_AGE_BINS; bin++)
        assert_int_equal(eval_hazard_bin(eval_hazard_bin_end_s(bin)), bin + 1);
}

/* A new leader goes on with what the log holds */
static void saved_hazard_is_loaded_as_it_was(void **state)
{
    struct eval_hazard hazard, loaded;
    int64_t words[EVAL_HAZARD_WORDS];
    double nodes[EVAL_AGE_BINS] = {3, 5, 7, 11, 13, 17, 19};

    (void)state;
    eval_hazard_init(&hazard, &prior);
    for (int i = 0; i < 50; i++) {
        eval_hazard_advance(&hazard, nodes, 7777);
        eval_hazard_note_failure(&hazard, i * 3000.0);
    }
    eval_hazard_save(&hazard, words);
    eval_hazard_init(&loaded, &prior);
    assert_true(eval_hazard_load(&loaded, words));
    assert_double_near(eval_hazard_fleet_per_s(&loaded) / eval_hazard_fleet_per_s(&hazard), 1,
                       1e-6);
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        assert_double_near(eval_hazard_bin_factor(&loaded, bin),
                           eval_hazard_bin_factor(&hazard, bin), 1e-5);
    words[3] = -1;
    assert_false(eval_hazard_load(&loaded, words));
}

static void senseless_exposure_teaches_nothing(void **state)
{
    static const double senseless[] = {NAN, INFINITY, -1, 1e300};
    struct eval_hazard hazard;
    double nodes[EVAL_AGE_BINS] = {0};

    (void)state;
    eval_hazard_init(&hazard, &prior);
    for (size_t i = 0; i < 4; i++) {
        nodes[0] = 10;
        eval_hazard_advance(&hazard, nodes, senseless[i]);
        nodes[0] = senseless[i];
        eval_hazard_advance(&hazard, nodes, 100);
    }
    assert_double_near(eval_hazard_fleet_per_s(&hazard), prior.failures_per_s, 1e-18);
}

static void health_multipliers_fade_to_one(void **state)
{
    (void)state;
    assert_double_near(eval_multiplier_decayed(9, 0, 3600), 9, 1e-12);
    assert_double_near(eval_multiplier_decayed(9, 3600, 3600), 5, 1e-12);
    assert_double_near(eval_multiplier_decayed(9, 1e9, 3600), 1, 1e-12);
    assert_double_near(eval_multiplier_decayed(0.5, 3600, 3600), 0.75, 1e-12);
    assert_true(eval_multiplier_decayed(NAN, 1, 1) == 1);
    assert_true(eval_multiplier_decayed(9, INFINITY, INFINITY) == 1);
    assert_true(eval_multiplier_decayed(-3, 1, 1) == 1);
    assert_true(eval_multiplier_decayed(3, NAN, 1) == 1);
    assert_true(eval_multiplier_decayed(3, 1, 0) == 1);
    assert_true(eval_multiplier_decayed(INFINITY, 1, 1) == 1);
}

/* S1-013: four kills in four hours, then calm: the rate goes up and comes down again */
static void rates_rise_with_events_and_fall_back_to_the_prior(void **state)
{
    static const struct eval_rate prior_rate = {.events = 0.1, .seconds = 36000};
    struct eval_rate rate = prior_rate;
    double busy;

    (void)state;
    for (int i = 0; i < 16; i++) {
        eval_rate_advance(&rate, &prior_rate, 900, 7200);
        if (i % 4 == 0)
            eval_rate_note(&rate);
    }
    busy = eval_rate_per_s(&rate);
    assert_true(busy > 4 * eval_rate_per_s(&prior_rate));
    eval_rate_advance(&rate, &prior_rate, 10 * 7200, 7200);
    assert_double_near(eval_rate_per_s(&rate), eval_rate_per_s(&prior_rate), 0.05 * busy);
    assert_true(eval_rate_per_s(&(struct eval_rate){.events = 3}) == 0);
    assert_true(eval_rate_probability(1e-3, 0) == 0);
    assert_true(eval_rate_probability(NAN, 1) == 0);
    assert_double_near(eval_rate_probability(1e-3, 1000), 1 - exp(-1), 1e-12);
}

static void write_history_follows_its_job(void **state)
{
    struct eval_history history = {0};

    (void)state;
    assert_double_near(eval_write_quantile_s(&history, 400, 3600), 500, 1e-9);
    for (int i = 0; i < 40; i++)
        eval_history_note(&history, i % 2 == 0 ? 95 : 105);
    assert_double_near(history.mean, 100, 2);
    assert_double_near(history.deviation, 5, 1);
    for (int i = 0; i < 40; i++)
        eval_history_note(&history, 300);
    assert_double_near(history.mean, 300, 0.1);
    assert_double_near(eval_history_ratio(&history, 150), 0.5, 0.001); /* S1-083 */
    eval_history_note(&history, NAN);
    eval_history_note(&history, -1);
    eval_history_note(&history, INFINITY);
    assert_double_near(history.mean, 300, 0.1);
}

/* S1-094: z = sqrt(2 ln(0.4 A/s)): the more is at risk and the less sure the time, the earlier */
static void write_quantile_grows_with_spread_and_with_what_is_at_risk(void **state)
{
    struct eval_history history = {.mean = 400, .deviation = 20, .count = 9};
    double hour = eval_write_quantile_s(&history, 0, 3600);

    (void)state;
    assert_double_near(hour, 400 + 20 * sqrt(2 * log(0.4 * 3600 / 20)), 1e-9);
    assert_true(eval_write_quantile_s(&history, 0, 36000) > hour);
    history.deviation = 60;
    assert_true(eval_write_quantile_s(&history, 0, 3600) > hour);
    history.deviation = 0;
    assert_true(eval_write_quantile_s(&history, 0, 3600) > 400);
    assert_true(eval_write_quantile_s(&history, 0, 0) >= 400);
    history.mean = NAN;
    assert_double_near(eval_write_quantile_s(&history, 100, 3600), 125, 1e-9);
    history.mean = 0;
    history.deviation = 0;
    assert_true(eval_write_quantile_s(&history, 100, 3600) == 0);
    assert_true(eval_write_quantile_s(&(struct eval_history){0}, NAN, 3600) == 0);
}

static void one_observation_is_not_trusted_to_the_second(void **state)
{
    struct eval_history history = {0};

    (void)state;
    eval_history_note(&history, 400);
    assert_true(eval_write_quantile_s(&history, 400, 3600) > 1.1 * 400);
}

static void success_probability_falls_with_failures_and_recovers(void **state)
{
    struct eval_success success = {0};
    double low;

    (void)state;
    assert_double_near(eval_success_probability(&success), 0.98, 1e-12);
    for (int i = 0; i < 100; i++)
        eval_success_note(&success, false);
    low = eval_success_probability(&success);
    assert_true(low < 0.75 && low > 0);
    for (int i = 0; i < 100; i++)
        eval_success_note(&success, true);
    assert_true(eval_success_probability(&success) > 0.97);
    success.done = NAN;
    assert_true(eval_success_probability(&success) > 0);
}

/* CheckFreq's pauses are a few percent of the write; a synchronous application's are all of it */
static void stall_fraction_is_measured_and_stays_a_fraction(void **state)
{
    double fraction = -1;

    (void)state;
    eval_stall_note(&fraction, 5, 100);
    assert_double_near(fraction, 0.05, 1e-12);
    eval_stall_note(&fraction, 200, 100);
    assert_double_near(fraction, 0.05 + 0.3 * 0.95, 1e-12);
    eval_stall_note(&fraction, 5, 0);
    eval_stall_note(&fraction, NAN, 10);
    assert_double_near(fraction, 0.05 + 0.3 * 0.95, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_any_observation_the_hazard_is_the_prior),
        cmocka_unit_test(fleet_rate_follows_what_is_observed),
        cmocka_unit_test(bins_learn_that_young_nodes_fail_more),
        cmocka_unit_test(ages_fall_into_their_bins),
        cmocka_unit_test(saved_hazard_is_loaded_as_it_was),
        cmocka_unit_test(senseless_exposure_teaches_nothing),
        cmocka_unit_test(health_multipliers_fade_to_one),
        cmocka_unit_test(rates_rise_with_events_and_fall_back_to_the_prior),
        cmocka_unit_test(write_history_follows_its_job),
        cmocka_unit_test(write_quantile_grows_with_spread_and_with_what_is_at_risk),
        cmocka_unit_test(one_observation_is_not_trusted_to_the_second),
        cmocka_unit_test(success_probability_falls_with_failures_and_recovers),
        cmocka_unit_test(stall_fraction_is_measured_and_stays_a_fraction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
