/* What is learned from, how fast, and what senseless observations do. */
#include <math.h>

#include "src/eval/fleet.h"
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

/* At a constant hazard what a bin's few failures say is chance: the bins stay near 1, closer than
 * the least weight would keep them. */
static void bins_that_are_alike_stay_near_one(void **state)
{
    struct eval_hazard hazard;
    double nodes[EVAL_AGE_BINS] = {10, 20, 30, 40, 100, 300, 500};

    (void)state;
    eval_hazard_init(&hazard, &prior);
    for (int bin = 0; bin < EVAL_AGE_BINS;
         bin++) { /* one standard deviation above and below by turns */
        double expected = nodes[bin] / 5, sign = bin % 2 == 0 ? 1 : -1;

        hazard.bin_expected[bin] = expected;
        hazard.bin_failures[bin] = expected + sign * sqrt(expected);
    }
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        assert_double_near(eval_hazard_bin_factor(&hazard, bin), 1, 0.04);
    hazard.bin_failures[0] = 40; /* twenty times as many */
    assert_true(eval_hazard_bin_factor(&hazard, 0) > 5);
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

/* The prior makes nothing surer; failures, and time without any, do. */
static void certainty_grows_with_what_was_seen(void **state)
{
    struct eval_hazard_prior begun = {6.5e-3 / 86400, 10, 0, 5};
    const double nodes[EVAL_AGE_BINS] = {0, 0, 0, 0, 0, 0, 1000};
    struct eval_hazard hazard;
    double before = 0;

    (void)state;
    eval_hazard_init(&hazard, &begun);
    assert_true(eval_hazard_certainty(&hazard) == 0);
    eval_hazard_advance(&hazard, nodes, 86400 / 24.0); /* 42 node-days and no failure */
    assert_double_near(eval_hazard_certainty(&hazard),
                       eval_hazard_fleet_per_s(&hazard) / (3 / hazard.node_s), 1e-12);
    assert_true(eval_hazard_certainty(&hazard) < 0.1);
    for (int day = 0; day < 200; day++) {
        eval_hazard_advance(&hazard, nodes, 86400);
        for (int i = 0; i < 6 + day % 2; i++)
            eval_hazard_note_failure(&hazard, 1e9);
        if (day % 20 == 0) {
            assert_true(eval_hazard_certainty(&hazard) > before);
            before = eval_hazard_certainty(&hazard);
        }
    }
    assert_true(before > 0.93 && eval_hazard_certainty(&hazard) < 1);
    eval_hazard_init(&hazard, &begun);
    for (int day = 0; day < 20000; day++)
        eval_hazard_advance(&hazard, nodes, 86400);
    assert_double_near(eval_hazard_certainty(&hazard), 1, 1e-9); /* hardly any, and believed so */
}

/* 400 alarms, three of five followed after an hour on the average, 360 failures that nothing
 * announced. */
static void alarms_teach_what_they_are_like(void **state)
{
    const struct eval_alarm_rates begun = {0, 0.3, 300};
    struct eval_alarms alarms = {0}, again;
    struct eval_alarm_rates rates;
    int64_t words[EVAL_ALARM_WORDS];

    (void)state;
    eval_alarms_rates(&alarms, &begun, &rates);
    assert_true(rates.recall == 0 && rates.precision == 0.3 && rates.lead_s == 300);
    for (int i = 0; i < 400; i++) {
        struct eval_episode episode = {0};
        double raised_s = i * 1e4, lead_s = i % 2 == 0 ? 1800 : 5400;
        struct eval_sight sight = {
            .now_s = raised_s + 60, .alarm = true, .alarm_age_s = 60, .watched = true};

        eval_episode_see(&episode, &sight, &alarms);
        assert_true(episode.on && episode.began_s == raised_s);
        sight.now_s = raised_s + lead_s;
        sight.alarm_age_s = lead_s;
        sight.failed = i % 5 < 3;
        sight.alarm = sight.failed;
        eval_episode_see(&episode, &sight, &alarms);
        assert_false(episode.on);
        if (i % 10 == 0)
            continue;
        sight = (struct eval_sight){.now_s = sight.now_s + 100, .failed = true, .watched = true};
        eval_episode_see(&episode, &sight, &alarms);
    }
    assert_true(alarms.followed == 240 && alarms.unfollowed == 160 && alarms.unannounced == 360);
    eval_alarms_rates(&alarms, &begun, &rates);
    assert_double_near(rates.recall, 240.0 / 610, 1e-12);
    assert_double_near(rates.precision, 243.0 / 410, 1e-12);
    assert_double_near(rates.lead_s, (240 * 3600 + 3000) / 250.0, 20);
    eval_alarms_advance(&alarms, 100, 100 / log(2)); /* half is forgotten */
    assert_double_near(alarms.followed, 120, 1e-9);
    eval_alarms_save(&alarms, words);
    assert_true(eval_alarms_load(&again, words));
    assert_double_near(again.lead_sum_s, alarms.lead_sum_s, 1e-6);
    words[2] = -1;
    assert_false(eval_alarms_load(&again, words));
}

/* A drained node's alarm, and a failure of a node that nobody watches, say nothing. */
static void what_was_not_seen_to_its_end_teaches_nothing(void **state)
{
    struct eval_alarms alarms = {0};
    struct eval_episode episode = {0};

    (void)state;
    eval_episode_see(&episode, &(struct eval_sight){.now_s = 10, .alarm = true}, &alarms);
    eval_episode_see(&episode, &(struct eval_sight){.now_s = 20, .emptied = true}, &alarms);
    assert_false(episode.on);
    eval_episode_see(&episode, &(struct eval_sight){.now_s = 30, .failed = true}, &alarms);
    assert_true(alarms.followed + alarms.unfollowed + alarms.unannounced == 0);
    /* an alarm that came and was followed between two looks counts */
    eval_episode_see(
        &episode,
        &(struct eval_sight){.now_s = 100, .alarm = true, .alarm_age_s = 40, .failed = true},
        &alarms);
    assert_true(alarms.followed == 1 && alarms.lead_sum_s == 40 && !episode.on);
}

/* A busy queue's jobs are killed, those of a calm one are not: each group has its rate. */
static void groups_have_rates_of_their_own(void **state)
{
    const struct eval_fleet_prior begun = {6.5e-3 / 86400, 2592000, 21600, {0, 0.6, 2700}};
    const double nodes[EVAL_AGE_BINS] = {0, 0, 0, 0, 0, 0, 100};
    uint32_t running[EVAL_GROUPS] = {[0] = 350, [EVAL_GROUPS / 2] = 50};
    struct eval_fleet fleet;
    struct eval_fleet_rates rates;

    (void)state;
    eval_fleet_init(&fleet, &begun);
    for (int i = 0; i < 2000; i++) { /* 60 s each; a kill every eleven minutes */
        eval_fleet_advance(&fleet, nodes, running, 60);
        if (i % 11 == 0)
            eval_rate_note(&fleet.kills[EVAL_GROUPS / 2]);
    }
    eval_fleet_rates(&fleet, &rates);
    assert_true(rates.kills_per_s[0] == 0);
    assert_double_near(rates.kills_per_s[EVAL_GROUPS / 2] * 50 * 660, 1, 0.1);
    assert_true(rates.demands_per_s[EVAL_GROUPS / 2] == 0);
    assert_true(rates.certainty > 0 && rates.certainty < 1);
    assert_true(rates.alarms.recall == 0 && rates.alarms.lead_s == 2700);
}

/* S1-040 */
static void an_application_s_word_can_only_lengthen_the_write(void **state)
{
    (void)state;
    assert_double_near(eval_told_bandwidth(1000, 50, 600, 10), 10, 0); /* 100 s by the storage */
    assert_double_near(eval_told_bandwidth(1000, 200, 600, 10), 5, 1e-9);
    assert_double_near(eval_told_bandwidth(1000, 1e9, 500, 10), 2, 1e-9);
    assert_double_near(eval_told_bandwidth(1000, INFINITY, 500, 10), 2, 1e-9);
    assert_double_near(eval_told_bandwidth(1000, 200, 600, 0), 0, 0); /* an outage stays one */
    for (size_t i = 0; i < 3; i++)
        assert_double_near(eval_told_bandwidth(1000, (const double[]){0, -5, NAN}[i], 600, 10), 10,
                           0);
    assert_double_near(eval_told_bandwidth(0, 200, 600, 10), 10, 0);
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
        cmocka_unit_test(an_application_s_word_can_only_lengthen_the_write),
        cmocka_unit_test(write_history_follows_its_job),
        cmocka_unit_test(write_quantile_grows_with_spread_and_with_what_is_at_risk),
        cmocka_unit_test(one_observation_is_not_trusted_to_the_second),
        cmocka_unit_test(success_probability_falls_with_failures_and_recovers),
        cmocka_unit_test(stall_fraction_is_measured_and_stays_a_fraction),
        cmocka_unit_test(bins_that_are_alike_stay_near_one),
        cmocka_unit_test(certainty_grows_with_what_was_seen),
        cmocka_unit_test(alarms_teach_what_they_are_like),
        cmocka_unit_test(what_was_not_seen_to_its_end_teaches_nothing),
        cmocka_unit_test(groups_have_rates_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
