/* The agent's state machines and the walltime rule (S1-090, I33). */
#include "src/agent/job/job_step.h"
#include "tests/support/test.h"

/* Every row of the table as a text: from, then where it may go. */
static void attempt_moves_are_those_of_the_drawing(void **state)
{
    static const char *const expected[] = {
        "NONE: WAITING DEFERRED RESUMING STILL REMOVING",
        "WAITING: NONE STAGING ASKING",
        "STAGING: STAGED HALTING ABANDONING REMOVING",
        "STAGED: ASKING ABANDONING REMOVING",
        "ASKING: ASKED ABANDONING REMOVING",
        "ASKED: BROKEN DEFERRED FREEZING PUTTING ABANDONING REMOVING",
        "BROKEN: FREEZING PUTTING ABANDONING REMOVING",
        "DEFERRED: ASKING ABANDONING REMOVING",
        "RESUMING: ASKED FREEZING PUTTING ABANDONING",
        "FREEZING: PUTTING ABANDONING REMOVING",
        "PUTTING: STILL HALTING ABANDONING REMOVING",
        "STILL: REMOVING",
        "HALTING: ABANDONING REMOVING",
        "ABANDONING: REMOVING",
        "REMOVING: NONE"};

    (void)state;
    for (int from = 0; from < ATTEMPT_STATE_COUNT; from++) {
        char text[128];
        snprintf(text, sizeof(text), "%s:", attempt_state_name((enum attempt_state)from));
        for (int to = 0; to < ATTEMPT_STATE_COUNT; to++) {
            if (attempt_move_allowed((enum attempt_state)from, (enum attempt_state)to)) {
                strcat(text, " ");
                strcat(text, attempt_state_name((enum attempt_state)to));
            }
        }
        assert_string_equal(text, expected[from]);
    }
}

static void process_moves_are_those_of_the_drawing(void **state)
{
    static const char *const expected[] = {"ABSENT: RUNNING",
                                           "RUNNING: ENDED TERMINATING",
                                           "ENDED: RUNNING CLEARING TERMINATING",
                                           "CLEARING: HELD TERMINATING",
                                           "HELD: ABSENT TERMINATING",
                                           "TERMINATING: KILLING LEAVING",
                                           "KILLING: LEAVING",
                                           "LEAVING: ABSENT"};

    (void)state;
    for (int from = 0; from < PROCESS_STATE_COUNT; from++) {
        char text[128];
        snprintf(text, sizeof(text), "%s:", process_state_name((enum process_state)from));
        for (int to = 0; to < PROCESS_STATE_COUNT; to++) {
            if (process_move_allowed((enum process_state)from, (enum process_state)to)) {
                strcat(text, " ");
                strcat(text, process_state_name((enum process_state)to));
            }
        }
        assert_string_equal(text, expected[from]);
    }
}

static void walltime_of_a_running_application_is_never_extended(void **state)
{
    (void)state;
    assert_uint_equal(walltime_choose(0, 5000000, true), 5000000);
    assert_uint_equal(walltime_choose(5000000, 9000000, true), 5000000);
    assert_uint_equal(walltime_choose(5000000, 5000001, true), 5000000);
    assert_uint_equal(walltime_choose(5000000, 3000000, true), 3000000);
    /* travelling times of messages are not worth a journal write */
    assert_uint_equal(walltime_choose(5000000, 4990000, true), 5000000);
}

static void registered_walltime_that_changed_is_taken(void **state)
{
    (void)state;
    assert_uint_equal(walltime_moved(5000000, 3000, 7000), 9000000);
    assert_uint_equal(walltime_moved(5000000, 7000, 5000), 3000000);
    assert_uint_equal(walltime_moved(5000000, 7000, 2000), 1); /* over; 0 is none */
    assert_uint_equal(walltime_moved(0, 3000, 7000), 0);
    assert_uint_equal(walltime_moved(5000000, 1, UINT64_MAX), UINT64_MAX);
    assert_uint_equal(walltime_moved(5000000, UINT64_MAX, 1), 1);
}

static void walltime_without_application_follows_the_broker(void **state)
{
    (void)state;
    assert_uint_equal(walltime_choose(5000000, 9000000, false), 9000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempt_moves_are_those_of_the_drawing),
        cmocka_unit_test(process_moves_are_those_of_the_drawing),
        cmocka_unit_test(walltime_of_a_running_application_is_never_extended),
        cmocka_unit_test(registered_walltime_that_changed_is_taken),
        cmocka_unit_test(walltime_without_application_follows_the_broker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
