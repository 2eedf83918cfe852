/* The pace of ranks that say their steps: the gaps that count, and how long nobody has stepped.
 * Proves of V-030 that time under a checkpoint or a stop is no part of a hang, nor is time in which
 * the agent stood still. The gap is the 99th of 100 of the last 256. */
#include <string.h>

#include "src/agent/job/pace_step.h"
#include "src/base/check.h"
#include "tests/support/test.h"

enum { SECOND_US = 1000000, SECOND_MS = 1000 };

static struct pace pace;
static struct pace_rank rank, other;
static uint64_t now_us, step;

static int set_up(void **state)
{
    (void)state;
    memset(&pace, 0, sizeof(pace));
    memset(&rank, 0, sizeof(rank));
    memset(&other, 0, sizeof(other));
    now_us = UINT64_C(1000) * SECOND_US;
    step = 0;
    return 0;
}

static void steps_after(uint64_t gap_us)
{
    now_us += gap_us;
    pace_stepped(&pace, &rank, ++step, 0, now_us, false);
}

/* The turn that counts it, and the one that tells it. */
static void turns_after(uint64_t passed_us, bool under_way)
{
    now_us += passed_us;
    pace_turn(&pace, now_us, under_way);
    pace_turn(&pace, now_us, under_way);
}

static void the_gap_of_99_in_100_is_one_of_those_seen(void **state)
{
    static const struct {
        unsigned long_ones, count;
        uint32_t p99_s;
    } rows[] = {{0, 0, 0},   {0, 1, 1},   {1, 99, 60},  {1, 100, 1}, {2, 100, 60},
                {1, 199, 1}, {2, 200, 1}, {3, 256, 60}, {2, 256, 1}, {3, 400, 1}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t gap_ms;

        set_up(NULL);
        steps_after(SECOND_US); /* before the first there is no gap */
        for (unsigned k = 0; k < rows[i].count; k++)
            steps_after((k < rows[i].long_ones ? UINT64_C(60) : UINT64_C(1)) * SECOND_US);
        gap_ms = pace_gap_p99_ms(&rank);
        assert_int_equal((gap_ms + SECOND_MS / 2) / SECOND_MS, rows[i].p99_s);
    }
}

static void a_step_that_was_said_before_is_none(void **state)
{
    (void)state;
    steps_after(0);
    turns_after(10 * SECOND_US, false);
    pace_stepped(&pace, &rank, step, 0, now_us, false);
    assert_uint_equal(pace.quiet_us, 10 * SECOND_US);
    pace_stepped(&pace, &rank, step - 1, 0, now_us, false); /* it has gone back, and computes */
    assert_uint_equal(pace.quiet_us, 0);
    assert_int_equal(rank.gap_count, 1);
}

static void any_rank_that_steps_ends_the_quiet(void **state)
{
    (void)state;
    steps_after(0);
    turns_after(20 * SECOND_US, false);
    turns_after(20 * SECOND_US, false);
    assert_uint_equal(pace.quiet_us, 40 * SECOND_US);
    pace_stepped(&pace, &other, 3, 0, now_us, false);
    assert_uint_equal(pace.quiet_us, 0);
    turns_after(5 * SECOND_US, false);
    assert_uint_equal(pace.quiet_us, 5 * SECOND_US);
}

static void what_is_under_way_is_no_part_of_the_quiet_nor_of_a_gap(void **state)
{
    (void)state;
    steps_after(0);
    turns_after(10 * SECOND_US, false);
    turns_after(20 * SECOND_US, true);
    assert_uint_equal(pace.quiet_us, 10 * SECOND_US); /* a job that hangs is asked in vain */
    turns_after(4 * SECOND_US, false);
    assert_uint_equal(pace.quiet_us, 14 * SECOND_US);
    now_us += 100 * SECOND_US;
    pace_stepped(&pace, &rank, ++step, 0, now_us, true); /* the barrier's word */
    now_us += 100 * SECOND_US;
    pace_stepped(&pace, &rank, ++step, 0, now_us, false); /* after its checkpoint */
    assert_int_equal(rank.gap_count, 0);
    steps_after(SECOND_US);
    assert_int_equal(rank.gap_count, 1);
}

/* Words of that time wait in the sockets, and are heard after the next heartbeat. */
static void an_agent_that_stood_still_counts_little_of_it(void **state)
{
    (void)state;
    steps_after(0);
    now_us += UINT64_C(3600) * SECOND_US;
    pace_turn(&pace, now_us, false);
    assert_uint_equal(pace.quiet_us, 0); /* nothing of it is told before the sockets were read */
    pace_stepped(&pace, &rank, ++step, 0, now_us, false);
    pace_turn(&pace, now_us, false);
    assert_uint_equal(pace.quiet_us, 0);
    turns_after(UINT64_C(3600) * SECOND_US, false); /* the ranks stood still as well */
    assert_true(pace.quiet_us <= PACE_TURN_MAX_US);
}

static void nothing_is_quiet_before_the_first_step(void **state)
{
    (void)state;
    turns_after(10 * SECOND_US, false);
    turns_after(10 * SECOND_US, false);
    assert_uint_equal(pace.quiet_us, 0);
    assert_false(pace_stuck(&pace, 0));
}

static void it_is_stuck_when_it_is_quiet_for_twice_its_gap(void **state)
{
    (void)state;
    steps_after(0);
    assert_false(pace_stuck(&pace, 0));
    turns_after(2 * SECOND_US, false);
    assert_true(pace_stuck(&pace, 0));
    assert_true(pace_stuck(&pace, 1000));
    assert_false(pace_stuck(&pace, 1001));
}

static void a_rank_may_be_a_second_ahead_of_what_it_said(void **state)
{
    (void)state;
    pace_stepped(&pace, &rank, 7, 0, now_us, false);
    assert_uint_equal(pace_step_most(&rank), 7);
    pace_stepped(&pace, &rank, 8, 10000000, now_us, false);
    assert_uint_equal(pace_step_most(&rank), 108);
    pace_stepped(&pace, &rank, UINT64_MAX - 1, 1, now_us, false);
    assert_uint_equal(pace_step_most(&rank), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_gap_of_99_in_100_is_one_of_those_seen, set_up),
        cmocka_unit_test_setup(a_step_that_was_said_before_is_none, set_up),
        cmocka_unit_test_setup(any_rank_that_steps_ends_the_quiet, set_up),
        cmocka_unit_test_setup(what_is_under_way_is_no_part_of_the_quiet_nor_of_a_gap, set_up),
        cmocka_unit_test_setup(an_agent_that_stood_still_counts_little_of_it, set_up),
        cmocka_unit_test_setup(nothing_is_quiet_before_the_first_step, set_up),
        cmocka_unit_test_setup(it_is_stuck_when_it_is_quiet_for_twice_its_gap, set_up),
        cmocka_unit_test_setup(a_rank_may_be_a_second_ahead_of_what_it_said, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
