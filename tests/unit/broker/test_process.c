/* The lag of the loop: what is counted as a stall and what is not. */
#include "src/broker/daemon/process.h"

#include <unistd.h>

#include "tests/support/test.h"

enum { STALL_MS = 250 };

struct stand {
    uv_loop_t loop;
    uv_timer_t work;
    struct process_lag lag;
    struct broker_counters counters;
    uint64_t applied_index; /* 0: nothing is applied in the long turn */
};

static void long_turn(uv_timer_t *timer)
{
    struct stand *stand = timer->data;

    usleep(STALL_MS * 1000);
    if (stand->applied_index != 0)
        process_lag_applied(&stand->lag, stand->applied_index);
}

/* One long turn, and a short one that sees it. */
static void stall(struct stand *stand, uint64_t applied_index)
{
    stand->applied_index = applied_index;
    assert_int_equal(uv_timer_start(&stand->work, long_turn, 0, 0), 0);
    for (int turn = 0; turn < 2; turn++)
        uv_run(&stand->loop, UV_RUN_NOWAIT);
}

static int setup(void **state)
{
    struct stand *stand = calloc(1, sizeof(*stand));

    assert_int_equal(uv_loop_init(&stand->loop), 0);
    assert_int_equal(uv_timer_init(&stand->loop, &stand->work), 0);
    stand->work.data = stand;
    process_lag_start(&stand->lag, &stand->loop, &stand->counters);
    process_lag_excuse_replay(&stand->lag, 1000);
    *state = stand;
    return 0;
}

static int teardown(void **state)
{
    struct stand *stand = *state;

    process_lag_stop(&stand->lag);
    uv_close((uv_handle_t *)&stand->work, NULL);
    assert_int_equal(uv_run(&stand->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&stand->loop), 0);
    free(stand);
    return 0;
}

static void a_long_turn_is_counted(void **state)
{
    struct stand *stand = *state;

    stall(stand, 0);
    assert_true(stand->counters.loop_lag_max_ms >= STALL_MS - 1);
    assert_true(stand->counters.loop_lag_over_total >= 1);
}

/* What was is told of for a while, and anew when it comes again. */
static void a_lag_of_long_ago_is_no_warning(void **state)
{
    struct stand *stand = *state;
    struct broker_counters *counters = &stand->counters;
    uint64_t at_ms;

    assert_int_equal(process_loop_lag_ms(counters, uv_hrtime() / 1000000), 0);
    stall(stand, 0);
    at_ms = counters->loop_lag_late_at_ms;
    assert_true(process_loop_lag_ms(counters, at_ms) >= STALL_MS - 1);
    assert_true(process_loop_lag_ms(counters, at_ms + PROCESS_LAG_STORY_MS - 1) > 0);
    assert_int_equal(process_loop_lag_ms(counters, at_ms + PROCESS_LAG_STORY_MS), 0);
    counters->loop_lag_late_ms = 3600000; /* as if it had been much longer */
    counters->loop_lag_late_at_ms = at_ms - PROCESS_LAG_STORY_MS;
    stall(stand, 0);
    assert_true(counters->loop_lag_late_ms < 3600000);
}

/* The log of before the start: applied in one go when its commit becomes known. */
static void replay_at_the_start_is_no_stall(void **state)
{
    struct stand *stand = *state;

    stall(stand, 1000);
    assert_true(stand->counters.loop_lag_max_ms < STALL_MS / 2);
}

static void entries_behind_the_replay_are_counted(void **state)
{
    struct stand *stand = *state;

    stall(stand, 1001);
    assert_true(stand->counters.loop_lag_max_ms >= STALL_MS - 1);
    stand->counters.loop_lag_max_ms = 0;
    stall(stand, 0); /* the excuse is used up */
    assert_true(stand->counters.loop_lag_max_ms >= STALL_MS - 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_long_turn_is_counted),
        T(a_lag_of_long_ago_is_no_warning),
        T(replay_at_the_start_is_no_stall),
        T(entries_behind_the_replay_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
