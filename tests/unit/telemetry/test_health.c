/* Evidence of one node: counters, levels, events, decay, alarms (S1-012, S1-051, T-001). */
#include "src/base/check.h"
#include "src/telemetry/health.h"
#include "tests/support/test.h"

#define MINUTE_US UINT64_C(60000000)
#define HOUR_US   (60 * MINUTE_US)

static struct health health;
static struct health_policy policy;

static int set_up(void **state)
{
    (void)state;
    health_init(&health);
    health_policy_default(&policy);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    health_close(&health);
    return 0;
}

static void take(enum telemetry_signal signal, uint64_t part, double value, uint64_t now_us)
{
    struct telemetry_sample sample = {.signal = signal, .part = part, .value = value};

    health_take(&health, &policy, 1, &sample, now_us);
    health_heard(&health, 1, now_us);
}

static double factor(uint64_t now_us)
{
    return health_factor(&health, &policy, now_us);
}

static size_t alarms(uint64_t now_us)
{
    struct health_alarm list[TELEMETRY_SIGNAL_COUNT];

    return health_alarms(&health, &policy, now_us, list);
}

static void a_counter_of_each_part_is_compared_with_itself(void **state)
{
    (void)state;
    take(TELEMETRY_ECC_CORRECTABLE, 1, 500, 1);
    take(TELEMETRY_ECC_CORRECTABLE, 2, 0, 1); /* another DIMM that is lower */
    take(TELEMETRY_ECC_CORRECTABLE, 1, 500, 2);
    assert_double_near(factor(2), 1, 0);
    take(TELEMETRY_ECC_CORRECTABLE, 2, 1, 3);
    assert_double_near(factor(3), 10, 1e-9);
}

static void a_counter_that_falls_began_anew(void **state)
{
    (void)state;
    take(TELEMETRY_ECC_CORRECTABLE, 1, 500, 1);
    take(TELEMETRY_ECC_CORRECTABLE, 1, 0, 2);
    assert_double_near(factor(2), 1, 0);
    take(TELEMETRY_ECC_CORRECTABLE, 1, 3, 3);
    assert_double_near(factor(3), 10, 1e-9);
}

static void a_counter_that_falls_to_more_than_0_rose_by_that(void **state)
{
    (void)state;
    take(TELEMETRY_ECC_CORRECTABLE, 1, 500, 1);
    take(TELEMETRY_ECC_CORRECTABLE, 1, 2, 2);
    assert_double_near(factor(2), 10, 1e-9);
}

/* PCIe replays are normal below 100 an hour; once raised, half of it keeps it raised. */
static void a_rate_below_its_threshold_is_noise_and_hysteresis_holds_what_was_raised(void **state)
{
    uint64_t now_us = HOUR_US;

    (void)state;
    take(TELEMETRY_PCIE_REPLAY, 1, 0, now_us);
    take(TELEMETRY_PCIE_REPLAY, 1, 99, now_us);
    assert_double_near(factor(now_us), 1, 0);
    take(TELEMETRY_PCIE_REPLAY, 1, 100, now_us);
    assert_double_near(factor(now_us), 2, 1e-9);
    now_us += HOUR_US; /* 100 has become 50: 10 more are 60, above half */
    take(TELEMETRY_PCIE_REPLAY, 1, 110, now_us);
    assert_double_near(factor(now_us), 2, 1e-9);
    now_us += 2 * HOUR_US; /* 15 and 10: below half, so the factor fades */
    take(TELEMETRY_PCIE_REPLAY, 1, 120, now_us);
    assert_true(factor(now_us) < 2);
}

static void the_factor_halves_every_half_life_after_the_last_evidence(void **state)
{
    (void)state;
    take(TELEMETRY_ECC_CORRECTABLE, 1, 0, HOUR_US);
    take(TELEMETRY_ECC_CORRECTABLE, 1, 1, HOUR_US);
    assert_double_near(factor(7 * HOUR_US), 1 + 9 / 2.0, 1e-9);
    assert_double_near(factor(13 * HOUR_US), 1 + 9 / 4.0, 1e-9);
    assert_double_near(factor(200 * HOUR_US), 1, 0);
}

static void the_product_is_bounded(void **state)
{
    (void)state;
    for (int value = 0; value <= 1; value++) {
        take(TELEMETRY_ECC_CORRECTABLE, 1, value, 1);
        take(TELEMETRY_ECC_UNCORRECTABLE, 1, value, 1);
        take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, value, 1);
    }
    assert_double_near(factor(1), 300, 0);
}

static void a_level_holds_while_it_is_said_and_falls_after_two_lower_ones(void **state)
{
    (void)state;
    take(TELEMETRY_THERMAL, 1, 2, HOUR_US);
    take(TELEMETRY_THERMAL, 2, 1, HOUR_US);
    assert_double_near(factor(HOUR_US), 20, 1e-9);
    take(TELEMETRY_THERMAL, 1, 2, 7 * HOUR_US);
    take(TELEMETRY_THERMAL, 2, 1, 7 * HOUR_US);
    assert_double_near(factor(7 * HOUR_US), 20, 1e-9); /* said again: no decay */
    take(TELEMETRY_THERMAL, 1, 0, 8 * HOUR_US);
    take(TELEMETRY_THERMAL, 1, 2, 8 * HOUR_US); /* not two in a row */
    take(TELEMETRY_THERMAL, 1, 0, 8 * HOUR_US);
    assert_double_near(factor(8 * HOUR_US), 20, 1e-9);
    take(TELEMETRY_THERMAL, 1, 0, 8 * HOUR_US);
    assert_double_near(factor(8 * HOUR_US), 3, 1e-9); /* the other part is at 1 still */
}

/* The source died while it was hot: what it said last fades. */
static void a_level_decays_when_its_source_is_silent(void **state)
{
    (void)state;
    take(TELEMETRY_THERMAL, 1, 2, HOUR_US);
    assert_double_near(factor(7 * HOUR_US), 1 + 19 / 2.0, 1e-9);
}

static void a_part_that_nobody_speaks_of_any_more_holds_nothing_up(void **state)
{
    (void)state;
    take(TELEMETRY_THERMAL, 1, 2, HOUR_US);
    take(TELEMETRY_THERMAL, 2, 1, 8 * HOUR_US);
    take(TELEMETRY_THERMAL, 2, 0, 8 * HOUR_US);
    take(TELEMETRY_THERMAL, 2, 0, 8 * HOUR_US);
    assert_double_near(factor(8 * HOUR_US), 1, 0);
}

static void an_alarm_ends_with_its_level_or_after_six_leads(void **state)
{
    (void)state;
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    take(TELEMETRY_STATUS, 1, 2, HOUR_US);
    assert_int_equal(alarms(HOUR_US), 1);
    take(TELEMETRY_STATUS, 1, 0, HOUR_US + 1);
    take(TELEMETRY_STATUS, 1, 0, HOUR_US + 2);
    assert_int_equal(alarms(HOUR_US + 2), 0);
    take(TELEMETRY_STATUS, 1, 2, 2 * HOUR_US);
    take(TELEMETRY_STATUS, 1, 2, 6 * HOUR_US);
    assert_int_equal(alarms(6 * HOUR_US), 1);
    assert_int_equal(alarms(2 * HOUR_US + 6 * 45 * MINUTE_US + 1), 0); /* it did not fail */
}

/* A part that said "critical" and then went away hides nothing that another one says later. */
static void another_part_raises_its_own_alarm(void **state)
{
    (void)state;
    for (uint64_t late = 0; late < 2; late++) { /* the other part is known, and is new */
        uint64_t day_us = 100 * (late + 1) * HOUR_US;

        if (late == 0)
            take(TELEMETRY_STATUS, 2, 0, day_us);
        take(TELEMETRY_STATUS, 1 + 10 * late, 0, day_us);
        take(TELEMETRY_STATUS, 1 + 10 * late, 2, day_us);
        assert_int_equal(alarms(day_us), 1);
        assert_int_equal(alarms(day_us + 20 * HOUR_US), 0);
        take(TELEMETRY_STATUS, 2 + 10 * late, 2, day_us + 20 * HOUR_US);
        assert_int_equal(alarms(day_us + 20 * HOUR_US), 1);
    }
}

static bool drain(uint64_t now_us)
{
    uint64_t fresh_us[HEALTH_SOURCES_MAX] = {0, 3 * MINUTE_US};
    struct health_alarm alarm;

    return health_drain(&health, &policy, fresh_us, now_us, &alarm);
}

/* Health that flaps between OK and Critical asks once, not once per flap. */
static void a_flapping_level_is_one_episode(void **state)
{
    uint64_t now_us = HOUR_US;

    (void)state;
    take(TELEMETRY_STATUS, 1, 0, now_us);
    take(TELEMETRY_STATUS, 1, 2, now_us);
    assert_true(drain(now_us));
    health_drained(&health);
    for (int flap = 0; flap < 20; flap++) {
        now_us += MINUTE_US;
        take(TELEMETRY_STATUS, 1, 0, now_us);
        take(TELEMETRY_STATUS, 1, 0, now_us);
        assert_int_equal(alarms(now_us), 0);
        take(TELEMETRY_STATUS, 1, 2, now_us);
        assert_int_equal(alarms(now_us), 1);
        assert_false(drain(now_us));
    }
    take(TELEMETRY_STATUS, 1, 0, now_us);
    take(TELEMETRY_STATUS, 1, 0, now_us);
    now_us += 5 * HOUR_US; /* more than six leads: another story */
    take(TELEMETRY_STATUS, 1, 2, now_us);
    assert_true(drain(now_us));
}

static void a_level_at_first_sight_is_an_alarm_that_drains_nothing(void **state)
{
    (void)state;
    take(TELEMETRY_STATUS, 1, 2, 1);
    assert_int_equal(alarms(1), 1);
    assert_false(drain(1));
}

static void a_drain_needs_a_source_that_was_heard_lately(void **state)
{
    (void)state;
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    take(TELEMETRY_STATUS, 1, 2, HOUR_US);
    assert_true(drain(HOUR_US + 3 * MINUTE_US));
    assert_false(drain(HOUR_US + 3 * MINUTE_US + 1));
}

static void xids_are_told_apart(void **state)
{
    static const struct {
        uint32_t xid;
        enum health_xid_class class;
    } cases[] = {
        {0, HEALTH_XID_APPLICATION},  {13, HEALTH_XID_APPLICATION}, {31, HEALTH_XID_APPLICATION},
        {43, HEALTH_XID_APPLICATION}, {45, HEALTH_XID_APPLICATION}, {48, HEALTH_XID_HARD},
        {63, HEALTH_XID_HARD},        {64, HEALTH_XID_HARD},        {74, HEALTH_XID_HARD},
        {79, HEALTH_XID_HARD},        {94, HEALTH_XID_HARD},        {95, HEALTH_XID_HARD},
        {119, HEALTH_XID_HARD},       {38, HEALTH_XID_SUSPECT},     {99999, HEALTH_XID_SUSPECT}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(health_xid(cases[i].xid), cases[i].class);
}

/* DCGM keeps the last XID for as long as the driver is loaded. */
static void the_last_xid_counts_when_it_changes(void **state)
{
    (void)state;
    take(TELEMETRY_XID, 1, 79, HOUR_US); /* of any age */
    assert_int_equal(alarms(HOUR_US), 0);
    assert_double_near(factor(HOUR_US), 3, 1e-9);
    take(TELEMETRY_XID, 1, 31, HOUR_US); /* the application's own fault */
    assert_double_near(factor(HOUR_US), 3, 1e-9);
    take(TELEMETRY_XID, 1, 79, HOUR_US + 1);
    assert_int_equal(alarms(HOUR_US + 1), 1);
    assert_double_near(factor(HOUR_US + 1), 20, 1e-9);
}

static void count_xids(double count, uint64_t now_us)
{
    struct telemetry_sample sample = {
        .signal = TELEMETRY_XID, .code = 79, .part = 9, .value = count};

    if (count > 0)
        health_take(&health, &policy, 1, &sample, now_us);
    health_heard(&health, 1, now_us);
}

/* dcgm-exporter's count by kind has no series before the first event of that kind, nor after the
 * last one left its window. */
static void recent_xids_count_when_they_become_more(void **state)
{
    (void)state;
    count_xids(2, 10);
    assert_int_equal(alarms(10), 0); /* nobody heard this source before */
    count_xids(1, 20);
    assert_int_equal(alarms(20), 0); /* one left the window: no counter that began anew */
    count_xids(2, 30);
    assert_int_equal(alarms(30), 1);
    health_drained(&health);
    count_xids(0, 40);
    count_xids(1, 10 * HOUR_US);
    assert_int_equal(alarms(10 * HOUR_US), 1); /* as many as before the gap, yet a new one */
    assert_uint_equal(health.signals[TELEMETRY_XID].alarm_us, 10 * HOUR_US);
}

static void a_kind_of_xid_that_appears_on_a_known_node_is_an_event(void **state)
{
    (void)state;
    count_xids(0, 10);
    count_xids(1, 20);
    assert_int_equal(alarms(20), 1);
}

static void series_are_bounded_and_what_is_more_is_counted(void **state)
{
    (void)state;
    for (uint64_t part = 0; part < HEALTH_SERIES_MAX + 10; part++)
        take(TELEMETRY_ECC_CORRECTABLE, part * 7919, 1, 1);
    assert_uint_equal(health.dropped, 10);
}

static void what_an_agent_remembers_is_evidence_of_that_time(void **state)
{
    (void)state;
    health_remember(&health, &policy, 0, TELEMETRY_ECC_UNCORRECTABLE, 30 * MINUTE_US, HOUR_US);
    assert_int_equal(alarms(HOUR_US), 1);
    assert_true(factor(HOUR_US) > 90 && factor(HOUR_US) < 100);
    health_remember(&health, &policy, 0, TELEMETRY_ECC_CORRECTABLE, UINT64_MAX / 2, HOUR_US);
    assert_double_near(health_signal_factor(&health, &policy, TELEMETRY_ECC_CORRECTABLE, HOUR_US),
                       9.018, 0.001); /* before the clock began: its beginning counts */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_counter_of_each_part_is_compared_with_itself),
        TEST(a_counter_that_falls_began_anew),
        TEST(a_counter_that_falls_to_more_than_0_rose_by_that),
        TEST(a_rate_below_its_threshold_is_noise_and_hysteresis_holds_what_was_raised),
        TEST(the_factor_halves_every_half_life_after_the_last_evidence),
        TEST(the_product_is_bounded),
        TEST(a_level_holds_while_it_is_said_and_falls_after_two_lower_ones),
        TEST(a_level_decays_when_its_source_is_silent),
        TEST(a_part_that_nobody_speaks_of_any_more_holds_nothing_up),
        TEST(another_part_raises_its_own_alarm),
        TEST(an_alarm_ends_with_its_level_or_after_six_leads),
        TEST(a_flapping_level_is_one_episode),
        TEST(a_level_at_first_sight_is_an_alarm_that_drains_nothing),
        TEST(a_drain_needs_a_source_that_was_heard_lately),
        TEST(xids_are_told_apart),
        TEST(the_last_xid_counts_when_it_changes),
        TEST(recent_xids_count_when_they_become_more),
        TEST(a_kind_of_xid_that_appears_on_a_known_node_is_an_event),
        TEST(series_are_bounded_and_what_is_more_is_counted),
        TEST(what_an_agent_remembers_is_evidence_of_that_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
