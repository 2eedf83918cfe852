/* Evidence of one node: counters, levels, events, decay, alarms, polls and boots (S1-012, S1-022,
 * S1-051, T-001). */
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
    health_heard(&health, 1, now_us, now_us);
}

/* So often that an alarm counts; the last poll is at now_us. */
static void take_thrice(enum telemetry_signal signal, uint64_t part, double value, uint64_t now_us)
{
    for (uint64_t i = HEALTH_CONFIRM_POLLS; i-- > 0;)
        take(signal, part, value, now_us - i);
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
    take(TELEMETRY_STATUS, 1, 0, MINUTE_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, HOUR_US);
    assert_int_equal(alarms(HOUR_US), 1);
    take(TELEMETRY_STATUS, 1, 0, HOUR_US + 1);
    assert_int_equal(alarms(HOUR_US + 1), 1); /* it counts, so that one flap ends nothing */
    take(TELEMETRY_STATUS, 1, 0, HOUR_US + 2);
    assert_int_equal(alarms(HOUR_US + 2), 0);
    take(TELEMETRY_STATUS, 1, 2, 2 * HOUR_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, 6 * HOUR_US);
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
            take(TELEMETRY_STATUS, 2, 0, day_us - MINUTE_US);
        take(TELEMETRY_STATUS, 1 + 10 * late, 0, day_us - MINUTE_US);
        take_thrice(TELEMETRY_STATUS, 1 + 10 * late, 2, day_us);
        assert_int_equal(alarms(day_us), 1);
        assert_int_equal(alarms(day_us + 20 * HOUR_US), 0);
        take(TELEMETRY_STATUS, 2 + 10 * late, 2, day_us + 20 * HOUR_US - 2);
        take(TELEMETRY_STATUS, 2 + 10 * late, 2, day_us + 20 * HOUR_US - 1);
        assert_int_equal(alarms(day_us + 20 * HOUR_US - 1), 0); /* with polls of its own */
        take(TELEMETRY_STATUS, 2 + 10 * late, 2, day_us + 20 * HOUR_US);
        assert_int_equal(alarms(day_us + 20 * HOUR_US), 1);
    }
}

static bool drain(uint64_t now_us)
{
    uint64_t fresh_us[HEALTH_SOURCES_MAX] = {3 * MINUTE_US, 3 * MINUTE_US};
    struct health_alarm alarm;

    return health_drain(&health, &policy, fresh_us, now_us, &alarm);
}

/* Health that flaps between OK and Critical asks once, not once per flap. */
static void a_flapping_level_is_one_episode(void **state)
{
    uint64_t now_us = HOUR_US;

    (void)state;
    take(TELEMETRY_STATUS, 1, 0, now_us - MINUTE_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, now_us);
    assert_true(drain(now_us));
    health_drained(&health);
    for (int flap = 0; flap < 20; flap++) {
        now_us += MINUTE_US;
        take(TELEMETRY_STATUS, 1, 0, now_us - 4);
        take(TELEMETRY_STATUS, 1, 0, now_us - 3);
        assert_int_equal(alarms(now_us), 0);
        take_thrice(TELEMETRY_STATUS, 1, 2, now_us);
        assert_int_equal(alarms(now_us), 1);
        assert_false(drain(now_us));
    }
    take(TELEMETRY_STATUS, 1, 0, now_us + 1);
    take(TELEMETRY_STATUS, 1, 0, now_us + 2);
    now_us += 5 * HOUR_US; /* more than six leads: another story */
    take_thrice(TELEMETRY_STATUS, 1, 2, now_us);
    assert_true(drain(now_us));
}

static void a_level_at_first_sight_is_an_alarm_that_drains_nothing(void **state)
{
    (void)state;
    take_thrice(TELEMETRY_STATUS, 1, 2, HOUR_US);
    assert_int_equal(alarms(HOUR_US), 1);
    assert_false(drain(HOUR_US));
}

static void a_drain_needs_a_source_that_was_heard_lately(void **state)
{
    (void)state;
    take(TELEMETRY_STATUS, 1, 0, MINUTE_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, HOUR_US);
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
    take_thrice(TELEMETRY_XID, 1, 79, HOUR_US); /* of any age */
    assert_int_equal(alarms(HOUR_US), 0);
    assert_double_near(factor(HOUR_US), 3, 1e-6);
    take_thrice(TELEMETRY_XID, 1, 31, HOUR_US + 3); /* the application's own fault */
    assert_int_equal(alarms(HOUR_US + 3), 0);
    assert_double_near(factor(HOUR_US + 3), 3, 1e-6);
    take(TELEMETRY_XID, 1, 79, HOUR_US + 4);
    assert_double_near(factor(HOUR_US + 4), 20, 1e-9);
    take(TELEMETRY_XID, 1, 79, HOUR_US + 5);
    take(TELEMETRY_XID, 1, 79, HOUR_US + 6);
    assert_int_equal(alarms(HOUR_US + 6), 1);
}

static void count_xids(double count, uint64_t now_us)
{
    struct telemetry_sample sample = {
        .signal = TELEMETRY_XID, .code = 79, .part = 9, .value = count};

    if (count > 0)
        health_take(&health, &policy, 1, &sample, now_us);
    health_heard(&health, 1, now_us, now_us);
}

/* dcgm-exporter's count by kind has no series before the first event of that kind, nor after the
 * last one left its window. */
static void recent_xids_count_when_they_become_more(void **state)
{
    (void)state;
    count_xids(2, 10);
    assert_int_equal(alarms(10), 0); /* nobody heard this source before */
    for (uint64_t at_us = 20; at_us <= 22; at_us++)
        count_xids(1, at_us);
    assert_int_equal(alarms(22), 0); /* one left the window: no counter that began anew */
    count_xids(2, 30);
    count_xids(2, 31);
    assert_int_equal(alarms(31), 0);
    count_xids(0, 40); /* they left the window: they happened all the same */
    assert_int_equal(alarms(40), 1);
    health_drained(&health);
    count_xids(1, 10 * HOUR_US);
    count_xids(1, 10 * HOUR_US + 1);
    count_xids(1, 10 * HOUR_US + 2);
    assert_int_equal(alarms(10 * HOUR_US + 2), 1); /* as many as before the gap, yet a new one */
    assert_uint_equal(health.signals[TELEMETRY_XID].alarm_us, 10 * HOUR_US);
}

static void a_kind_of_xid_that_appears_on_a_known_node_is_an_event(void **state)
{
    (void)state;
    count_xids(0, 10);
    count_xids(1, 20);
    count_xids(1, 21);
    count_xids(1, 22);
    assert_int_equal(alarms(22), 1);
}

static void series_are_bounded_and_what_is_more_is_counted(void **state)
{
    (void)state;
    for (uint64_t part = 0; part < HEALTH_SERIES_MAX + 10; part++)
        take(TELEMETRY_ECC_CORRECTABLE, part * 7919, 1, 1);
    assert_uint_equal(health.dropped, 10);
}

static void hear_agent(uint64_t now_us)
{
    health_heard(&health, 0, now_us, now_us);
}

/* Its polls are counted from the new leader's first one on. */
static void what_an_agent_remembers_is_evidence_of_that_time(void **state)
{
    (void)state;
    health_remember(&health, &policy, 0, TELEMETRY_ECC_UNCORRECTABLE, 30 * MINUTE_US, HOUR_US);
    assert_true(factor(HOUR_US) > 90 && factor(HOUR_US) < 100);
    hear_agent(HOUR_US);
    hear_agent(HOUR_US + 1);
    assert_int_equal(alarms(HOUR_US + 1), 0);
    hear_agent(HOUR_US + 2);
    assert_int_equal(alarms(HOUR_US + 2), 1);
    assert_true(drain(HOUR_US + 2));
    health_remember(&health, &policy, 0, TELEMETRY_ECC_CORRECTABLE, UINT64_MAX / 2, HOUR_US);
    assert_double_near(health_signal_factor(&health, &policy, TELEMETRY_ECC_CORRECTABLE, HOUR_US),
                       9.018, 0.001); /* before the clock began: its beginning counts */
}

/* S1-022, S1-051: one poll moves nothing, three do. News with each poll puts nothing off, and five
 * documents of a poll count as one. T-001: the hazard rises with the first. */
static void an_alarm_counts_when_three_polls_told_of_it(void **state)
{
    static const struct {
        enum telemetry_signal signal;
        double before, up, step;
    } cases[] = {{TELEMETRY_STATUS, 0, 2, 0},
                 {TELEMETRY_GPU_ECC_UNCORRECTABLE, 7, 8, 0},
                 {TELEMETRY_GPU_ECC_UNCORRECTABLE, 7, 8, 1},
                 {TELEMETRY_XID, 0, 79, 0},
                 {TELEMETRY_XID, 0, 94, 1}};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        set_up(state);
        take(cases[i].signal, 1, cases[i].before, HOUR_US);
        for (uint64_t poll = 1; poll <= 3; poll++) {
            assert_int_equal(alarms(HOUR_US + poll), 0);
            assert_false(drain(HOUR_US + poll));
            for (int document = 0; document < 5; document++)
                take(cases[i].signal, 1, cases[i].up + cases[i].step * (double)(poll - 1),
                     HOUR_US + poll);
            assert_true(factor(HOUR_US + poll) >= 19);
        }
        assert_int_equal(alarms(HOUR_US + 3), 1);
        assert_true(drain(HOUR_US + 3));
        tear_down(state);
    }
}

/* S1-022: a level that is lower in every third poll never counts. A part that is well hides nothing
 * of another one. */
static void a_level_that_flaps_before_the_third_poll_moves_nothing(void **state)
{
    (void)state;
    take(TELEMETRY_STATUS, 1, 0, HOUR_US - 1);
    for (uint64_t flap = 0; flap < 20; flap++) {
        take(TELEMETRY_STATUS, 1, 2, HOUR_US + 3 * flap);
        take(TELEMETRY_STATUS, 1, 2, HOUR_US + 3 * flap + 1);
        take(TELEMETRY_STATUS, 1, 0, HOUR_US + 3 * flap + 2);
        assert_int_equal(alarms(HOUR_US + 3 * flap + 2), 0);
    }
    for (uint64_t poll = 0; poll < 3; poll++) {
        struct telemetry_sample other = {.signal = TELEMETRY_STATUS, .part = 2, .value = 0};

        assert_int_equal(alarms(2 * HOUR_US), 0);
        health_take(&health, &policy, 1, &other, 2 * HOUR_US + 2 * poll);
        take(TELEMETRY_STATUS, 1, 2, 2 * HOUR_US + 2 * poll);
        health_heard(&health, 1, 2 * HOUR_US + 2 * poll + 1, 2 * HOUR_US + 2 * poll + 1);
    }
    assert_int_equal(alarms(2 * HOUR_US + 5), 1);
}

/* Two sources that see it in turn are no third poll of one, and one that was replaced confirms
 * nothing of the one before. */
static void the_polls_of_each_source_are_counted_by_themselves(void **state)
{
    struct telemetry_sample up = {.signal = TELEMETRY_GPU_ECC_UNCORRECTABLE, .part = 1, .value = 1};

    (void)state;
    take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, 0, HOUR_US);
    take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, 1, HOUR_US + 1);
    for (uint64_t poll = 2; poll < 10; poll++)
        health_heard(&health, 2, HOUR_US + poll, HOUR_US + poll); /* it says nothing of it */
    take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, 1, HOUR_US + 10);
    assert_int_equal(alarms(HOUR_US + 10), 0);
    health_forget_source(&health, 1);
    for (uint64_t poll = 11; poll < 20; poll++)
        health_heard(&health, 1, HOUR_US + poll, HOUR_US + poll);
    assert_int_equal(alarms(HOUR_US + 20), 0);
    for (uint64_t poll = 20; poll < 23; poll++, up.value++) { /* the other one sees it too */
        health_take(&health, &policy, 2, &up, HOUR_US + poll);
        health_heard(&health, 2, HOUR_US + poll, HOUR_US + poll);
    }
    assert_int_equal(alarms(HOUR_US + 22), 0); /* its first count was a base line */
    health_heard(&health, 2, HOUR_US + 23, HOUR_US + 23);
    assert_int_equal(alarms(HOUR_US + 23), 1);
}

/* S1-022, S1-051: what a boot shows for five minutes, as links that train, and what its BMC said
 * before the agent spoke. */
static void a_level_of_a_boot_that_falls_moves_nothing(void **state)
{
    const uint64_t boot_us = 2 * HOUR_US;

    (void)state;
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    for (int minute = -4; minute < 0; minute++)
        take(TELEMETRY_STATUS, 1, 2, boot_us - (uint64_t)-minute * MINUTE_US);
    assert_int_equal(alarms(boot_us - MINUTE_US), 1); /* nobody knows of the boot yet */
    health_booted(&health, boot_us);
    for (uint64_t minute = 0; minute < 5; minute++) {
        take(TELEMETRY_STATUS, 1, 2, boot_us + minute * MINUTE_US);
        assert_int_equal(alarms(boot_us + minute * MINUTE_US), 0);
        assert_false(drain(boot_us + minute * MINUTE_US));
        assert_true(factor(boot_us + minute * MINUTE_US) >= 20); /* T-001 */
    }
    for (uint64_t minute = 5; minute < 20; minute++) {
        take(TELEMETRY_STATUS, 1, 0, boot_us + minute * MINUTE_US);
        assert_int_equal(alarms(boot_us + minute * MINUTE_US), 0);
    }
    assert_double_near(factor(boot_us + 20 * MINUTE_US), 1, 0);
}

/* S1-022: a level that is there when the ten minutes are over counts, and drains, also when it rose
 * before the boot was seen, and when the node booted twice; not sooner. */
static void a_level_that_outlasts_a_boot_counts_after_ten_minutes(void **state)
{
    for (uint64_t boots = 1; boots <= 2; boots++) {
        uint64_t boot_us = 2 * HOUR_US, at_us;

        set_up(state);
        take(TELEMETRY_STATUS, 1, 0, HOUR_US);
        for (at_us = boot_us - 3 * MINUTE_US; at_us < boot_us; at_us += MINUTE_US)
            take(TELEMETRY_STATUS, 1, 2, at_us);
        health_booted(&health, boot_us);
        for (; boots == 2 && at_us < boot_us + 9 * MINUTE_US; at_us += MINUTE_US)
            take(TELEMETRY_STATUS, 1, 2, at_us);
        if (boots == 2)
            health_booted(&health, boot_us = at_us);
        for (; at_us < boot_us + HEALTH_BOOT_US; at_us += MINUTE_US) {
            take(TELEMETRY_STATUS, 1, 2, at_us);
            assert_int_equal(alarms(at_us), 0);
        }
        assert_int_equal(alarms(boot_us + HEALTH_BOOT_US - 1), 0);
        assert_int_equal(alarms(boot_us + HEALTH_BOOT_US), 1);
        assert_true(drain(boot_us + HEALTH_BOOT_US));
        tear_down(state);
    }
}

/* The polls before the boot say nothing of after it. */
static void a_level_is_confirmed_by_polls_after_the_boot(void **state)
{
    const uint64_t boot_us = 2 * HOUR_US;

    (void)state;
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, boot_us - MINUTE_US);
    health_booted(&health, boot_us);
    take(TELEMETRY_STATUS, 1, 2, boot_us + 4 * MINUTE_US);
    take(TELEMETRY_STATUS, 1, 2, boot_us + 9 * MINUTE_US);
    assert_int_equal(alarms(boot_us + 13 * MINUTE_US), 0);
    take(TELEMETRY_STATUS, 1, 2, boot_us + 14 * MINUTE_US);
    assert_int_equal(alarms(boot_us + 14 * MINUTE_US), 1);
}

/* S1-022: what happened once within ten minutes of a boot is no alarm, then or later; it raises the
 * hazard (T-001). One that happens after them is one. */
static void an_event_of_a_boot_moves_nothing(void **state)
{
    const uint64_t boot_us = 2 * HOUR_US;

    (void)state;
    take(TELEMETRY_XID, 1, 0, HOUR_US);
    take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, 0, HOUR_US);
    take_thrice(TELEMETRY_XID, 1, 48, boot_us - 9 * MINUTE_US);
    take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, 1, boot_us - MINUTE_US);
    assert_int_equal(alarms(boot_us - MINUTE_US), 1);
    health_booted(&health, boot_us);
    assert_int_equal(alarms(boot_us), 0);
    for (uint64_t minute = 0; minute < 10; minute++) {
        take(TELEMETRY_XID, 1, minute % 2 == 0 ? 79 : 48, boot_us + minute * MINUTE_US);
        take(TELEMETRY_GPU_ECC_UNCORRECTABLE, 1, (double)minute, boot_us + minute * MINUTE_US);
        assert_int_equal(alarms(boot_us + minute * MINUTE_US), 0);
    }
    assert_true(factor(boot_us + 10 * MINUTE_US) > 100);
    for (uint64_t minute = 10; minute < 20; minute++)
        take(TELEMETRY_XID, 1, 48, boot_us + minute * MINUTE_US); /* the last one, still */
    assert_int_equal(alarms(boot_us + 20 * MINUTE_US), 0);
    assert_false(drain(boot_us + 20 * MINUTE_US));
    take_thrice(TELEMETRY_XID, 1, 79, boot_us + 30 * MINUTE_US);
    assert_true(drain(boot_us + 30 * MINUTE_US));
}

/* ... nor does what an agent remembers of that time, whose polls come later. */
static void what_an_agent_remembers_of_a_boot_moves_nothing(void **state)
{
    (void)state;
    health_booted(&health, 2 * HOUR_US);
    health_remember(&health, &policy, 0, TELEMETRY_ECC_UNCORRECTABLE, HOUR_US - 9 * MINUTE_US,
                    3 * HOUR_US);
    for (uint64_t poll = 0; poll < 5; poll++)
        hear_agent(3 * HOUR_US + poll);
    assert_int_equal(alarms(3 * HOUR_US + 5), 0);
    assert_true(factor(3 * HOUR_US) > 50);
    health_remember(&health, &policy, 0, TELEMETRY_ECC_UNCORRECTABLE, HOUR_US - 11 * MINUTE_US,
                    3 * HOUR_US);
    for (uint64_t poll = 5; poll < 8; poll++)
        hear_agent(3 * HOUR_US + poll);
    assert_int_equal(alarms(3 * HOUR_US + 8), 1);
}

/* An alarm of more than ten minutes before is not the boot's: it may be why the node booted. */
static void an_alarm_that_is_older_than_a_boot_goes_on(void **state)
{
    (void)state;
    take(TELEMETRY_XID, 1, 0, HOUR_US);
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    take_thrice(TELEMETRY_XID, 1, 79, 2 * HOUR_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, 2 * HOUR_US + 10);
    assert_int_equal(alarms(2 * HOUR_US + 10), 2);
    take(TELEMETRY_XID, 1, 48, 2 * HOUR_US + 5 * MINUTE_US); /* more of the same */
    health_booted(&health, 2 * HOUR_US + 11 * MINUTE_US);
    assert_int_equal(alarms(2 * HOUR_US + 11 * MINUTE_US), 2);
}

/* A failure ends what announced it. A level that did not count yet, as that of a boot which was a
 * failure too, announced nothing, and counts if it stays. */
static void a_failure_ends_the_alarms_that_counted(void **state)
{
    const uint64_t boot_us = 2 * HOUR_US;

    (void)state;
    take(TELEMETRY_POWER, 1, 0, HOUR_US);
    take(TELEMETRY_STATUS, 1, 0, HOUR_US);
    take_thrice(TELEMETRY_POWER, 1, 3, boot_us - 30 * MINUTE_US);
    take_thrice(TELEMETRY_STATUS, 1, 2, boot_us - 2 * MINUTE_US);
    health_booted(&health, boot_us);
    assert_int_equal(alarms(boot_us), 1);
    health_failed(&health, &policy, boot_us);
    assert_int_equal(alarms(boot_us), 0);
    for (uint64_t minute = 1; minute <= 10; minute++) {
        take(TELEMETRY_POWER, 1, 3, boot_us + minute * MINUTE_US - 1);
        take(TELEMETRY_STATUS, 1, 2, boot_us + minute * MINUTE_US);
    }
    assert_int_equal(alarms(boot_us + 10 * MINUTE_US), 1);
    assert_true(drain(boot_us + 10 * MINUTE_US));
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
        TEST(an_alarm_counts_when_three_polls_told_of_it),
        TEST(a_level_that_flaps_before_the_third_poll_moves_nothing),
        TEST(the_polls_of_each_source_are_counted_by_themselves),
        TEST(a_level_of_a_boot_that_falls_moves_nothing),
        TEST(a_level_that_outlasts_a_boot_counts_after_ten_minutes),
        TEST(a_level_is_confirmed_by_polls_after_the_boot),
        TEST(an_event_of_a_boot_moves_nothing),
        TEST(what_an_agent_remembers_of_a_boot_moves_nothing),
        TEST(an_alarm_that_is_older_than_a_boot_goes_on),
        TEST(a_failure_ends_the_alarms_that_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
