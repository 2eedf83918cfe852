/* The stamps of commands: steps of the wall clock and leaders whose clock is off move no timer. */
#include "src/broker/state_clock.h"
#include "tests/support/test.h"

#define S    UINT64_C(1000000)
#define BASE UINT64_C(1700000000000)
#define HOUR UINT64_C(3600000)

static void a_step_of_the_wall_clock_is_taken_up_slowly(void **state)
{
    static const int64_t steps[] = {(int64_t)HOUR, -(int64_t)HOUR};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct state_clock clock = {0};
        uint64_t now_ms = state_clock_now(&clock, 5 * S, BASE, 0);
        uint64_t previous_ms = now_ms;

        assert_uint_equal(now_ms, BASE);
        for (uint64_t at_us = 5 * S; at_us <= 605 * S; at_us += S / 20) {
            uint64_t wall_ms = BASE + (at_us - 5 * S) / 1000 + (uint64_t)steps[i];
            now_ms = state_clock_now(&clock, at_us, wall_ms, previous_ms);
            assert_true(now_ms >= previous_ms);
            previous_ms = now_ms;
        }
        assert_in_range(now_ms - BASE, 540000 - 1000, 660000 + 1000);
        assert_true(steps[i] > 0 ? now_ms - BASE > 650000 : now_ms - BASE < 550000);
    }
}

static void a_clock_that_is_right_is_followed_exactly(void **state)
{
    struct state_clock clock = {0};

    (void)state;
    for (uint64_t at_us = S; at_us < 100 * S; at_us += 7777)
        assert_in_range(state_clock_now(&clock, at_us, BASE + at_us / 1000, 0),
                        BASE + at_us / 1000 - 1, BASE + at_us / 1000 + 1);
}

/* A leader was an hour ahead. Its successor goes on from there: nothing is late by the hour. */
static void a_state_that_is_ahead_goes_on_at_once(void **state)
{
    struct state_clock clock = {0};
    uint64_t now_ms = state_clock_now(&clock, S, BASE, BASE + HOUR);

    (void)state;
    assert_uint_equal(now_ms, BASE + HOUR);
    now_ms = state_clock_now(&clock, 61 * S, BASE + 60000, BASE + HOUR);
    assert_in_range(now_ms, BASE + HOUR + 54000, BASE + HOUR + 60000);
}

static void a_follower_learns_the_time_of_the_leader(void **state)
{
    struct state_clock clock = {0};

    (void)state;
    state_clock_now(&clock, S, BASE + HOUR, 0); /* its own wall clock is an hour ahead */
    for (uint64_t i = 0; i < 10; i++)
        state_clock_applied(&clock, (2 + 2 * i) * S, BASE + 2000 * i);
    assert_in_range(state_clock_now(&clock, 21 * S, BASE + HOUR + 20000, BASE + 18000),
                    BASE + 19000, BASE + 19100);
}

static void old_entries_of_a_log_say_nothing_about_the_time(void **state)
{
    struct state_clock clock = {0};

    (void)state;
    for (uint64_t i = 0; i < 50; i++)
        state_clock_applied(&clock, S + i * S / 5, BASE - 24 * HOUR + i * 60000);
    assert_uint_equal(state_clock_now(&clock, 12 * S, BASE, BASE - 23 * HOUR), BASE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_the_wall_clock_is_taken_up_slowly),
        cmocka_unit_test(a_clock_that_is_right_is_followed_exactly),
        cmocka_unit_test(a_state_that_is_ahead_goes_on_at_once),
        cmocka_unit_test(a_follower_learns_the_time_of_the_leader),
        cmocka_unit_test(old_entries_of_a_log_say_nothing_about_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
