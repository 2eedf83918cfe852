/* What is told of an application that was stopped, or ended by itself just before (F-021,
 * F-022). */
#include "src/agent/durable/end_note.h"
#include "src/agent/job/executor.h"

#include "tests/unit/agent/ended_job.h"

/* The main process has ended by itself; what it left behind is being killed when the stop comes. */
static void ends_before(int32_t status, enum process_stop_cause cause, uint64_t run)
{
    main_lives = false;
    exits(status, false);
    assert_int_equal(job->process.state, PROCESS_CLEARING);
    stop(cause, run);
    group_lives = false;
    still_first_fire(job);
}

static void what_ends_is_told_with_its_status(void **state)
{
    (void)state;
    main_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(APPLICATION_EXITED), RUN, 9);
}

/* An orderly end on a signal that ckpt-run passed on: the work is not complete, so that it can be
 * started again. */
static void what_was_told_from_outside_to_end_has_not_finished(void **state)
{
    (void)state;
    main_lives = group_lives = false;
    exits(0, true);
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

static void what_was_told_from_outside_before_an_order_has_not_finished(void **state)
{
    (void)state;
    main_lives = false;
    exits(0, true);
    stop(STOP_BY_ORDER, RUN);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), RUN, PROCESS_STATUS_UNKNOWN);
}

/* The newest report of those after the first one. */
static void expect_late(uint64_t count)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 1);
    Ckpt__V1__AgentReport *report;

    assert_uint_equal(ledger_last_sequence(agent.ledger), 1 + count);
    if (count == 0)
        return;
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, KIND(APPLICATION_EXITED));
    assert_int_equal(report->exit_status, 0);
    assert_int_equal(report->reason, CKPT__V1__REASON__REASON_NONE);
    assert_uint_equal(report->run, RUN);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void a_late_word_of_finished_work_counts_once(void **state)
{
    (void)state;
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
    wakes(&(struct end_note){.start_ticks = 1});
    wakes(&(struct end_note){.run = 1});
    wakes(&(struct end_note){.wait_status = 9});
    wakes(&(struct end_note){.told_to_end = true});
    expect_late(0);
    wakes(&(struct end_note){.wait_status = 0});
    expect_late(1);
    wakes(&(struct end_note){.wait_status = 0});
    expect_late(1);
}

static void a_late_word_counts_for_what_had_ended_before_its_stop(void **state)
{
    (void)state;
    main_lives = false;
    stop(STOP_BY_ORDER, RUN);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), RUN, PROCESS_STATUS_UNKNOWN);
    wakes(&(struct end_note){.wait_status = 0});
    expect_late(1);
}

static void a_late_word_of_what_was_told_to_end_does_not_count(void **state)
{
    (void)state;
    stop(STOP_BY_ORDER, RUN);
    main_lives = group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), RUN, PROCESS_STATUS_UNKNOWN);
    wakes(&(struct end_note){.wait_status = 0});
    expect_late(0);
}

static void a_late_word_of_what_was_told_does_not_count(void **state)
{
    (void)state;
    main_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(APPLICATION_EXITED), RUN, 9);
    wakes(&(struct end_note){.wait_status = 0});
    expect_late(0);
}

static void what_is_seen_alive_again_has_not_ended(void **state)
{
    (void)state;
    main_lives = false;
    still_first_fire(job);
    main_lives = true;
    still_first_fire(job);
    still_now_us += 10 * SECOND_US;
    main_lives = group_lives = false;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_ENDED); /* its status is awaited from here on */
    still_now_us += 10 * SECOND_US;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

/* S3-028: the reason for which erestart has failed is stored. */
static void a_word_of_its_ckpt_run_goes_with_the_end(void **state)
{
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;

    (void)state;
    main_lives = group_lives = false;
    wakes(&(struct end_note){.wait_status = 7 << 8, .why = "erestart ended with status 7"});
    expect_report(KIND(APPLICATION_EXITED), RUN, 7 << 8);
    kept = ledger_report_after(agent.ledger, 0);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_string_equal(report->detail, "erestart ended with status 7");
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void an_end_waits_for_what_has_left_the_group(void **state)
{
    (void)state;
    stragglers_left = 1;
    main_lives = group_lives = false;
    wakes(&(struct end_note){.wait_status = 9});
    assert_uint_equal(stragglers_asked.run, RUN);
    assert_uint_equal(stragglers_asked.start_ticks, START_TICKS);
    still_first_fire(job);   /* nobody has looked yet */
    stragglers_done(job, 1); /* one was killed, it may have started another */
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_CLEARING);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    stragglers_done(job, 0);
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), RUN, 9);
}

static void a_stop_waits_for_what_has_left_the_group(void **state)
{
    (void)state;
    stragglers_left = 1;
    stop(STOP_BY_ORDER, RUN);
    assert_null(stragglers_done); /* not while its group lives */
    main_lives = group_lives = false;
    wakes(&(struct end_note){.wait_status = 0});
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    stragglers_done(job, 0);
    still_first_fire(job);
    expect_report(KIND(TERMINATED), RUN, 0);
}

static void what_has_left_the_group_has_the_grace_as_well(void **state)
{
    (void)state;
    stragglers_left = 1;
    stop(STOP_BY_ORDER, RUN);
    main_lives = group_lives = false;
    still_first_fire(job);
    assert_non_null(stragglers_done);
    assert_false(stragglers_killed);
    stragglers_done(job, 1); /* it saves what it has */
    still_now_us += SECOND_US / 2;
    still_first_fire(job);
    assert_false(stragglers_killed);
    assert_int_equal(job->process.state, PROCESS_TERMINATING);
    still_now_us += SECOND_US;
    still_first_fire(job); /* the grace is over; what was looked for is still being told */
    assert_int_equal(job->process.state, PROCESS_KILLING);
    stragglers_done(job, 1);
    still_first_fire(job);
    assert_true(stragglers_killed);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    stragglers_done(job, 0);
    still_first_fire(job);
    still_now_us += SECOND_US;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_ABSENT);
}

static void what_had_finished_before_an_order_has_exited(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_ORDER, RUN);
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
    assert_true(job->entry.terminated);
}

static void what_had_finished_before_its_walltime_has_exited(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_WALLTIME, RUN);
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
}

/* A leader tells of a run of the job, which has a minute left of this walltime. */
static void tell_walltime(uint64_t run, uint64_t walltime_ms)
{
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT;
    Ckpt__V1__AllocationPart *parts[] = {&part};
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    uint8_t bytes[128];

    part.allocation_id = (char[]){"job"};
    part.run = run;
    part.remaining_ms = 60000;
    part.walltime_ms = walltime_ms;
    set.parts = parts;
    set.n_parts = 1;
    assert_true(ckpt__v1__order_set__get_packed_size(&set) <= sizeof(bytes));
    agent_take_orders(
        &agent, ckpt__v1__order_set__unpack(NULL, ckpt__v1__order_set__pack(&set, bytes), bytes));
}

static void fire_walltime(void)
{
    walltime_post(job, WALLTIME_OVER, &(struct walltime_word){0});
}

static void expect_killed_in(uint64_t run)
{
    fire_walltime();
    main_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(WALLTIME_KILLED), run, 9);
    assert_uint_equal(job->entry.ended_run, run); /* the next one may begin */
}

/* Two runs that follow each other mostly have one walltime. */
static void what_is_killed_is_told_in_its_own_run_though_the_next_one_has_its_walltime(void **state)
{
    (void)state;
    tell_walltime(RUN, 60000);
    tell_walltime(RUN + 1, 60000);
    expect_killed_in(RUN);
}

static void what_had_failed_before_an_order_is_told_as_stopped(void **state)
{
    (void)state;
    ends_before(9, STOP_BY_ORDER, RUN);
    expect_report(KIND(TERMINATED), RUN, 9);
}

/* The end of the later run is waited for, which nothing else would tell. */
static void an_order_for_a_later_run_is_answered(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_ORDER, RUN + 1);
    expect_report(KIND(TERMINATED), RUN + 1, 0);
}

static void what_ends_with_0_when_told_to_has_not_finished(void **state)
{
    (void)state;
    stop(STOP_BY_ORDER, RUN);
    assert_uint_equal(terms, 1);
    main_lives = group_lives = false;
    exits(0, false);
    expect_report(KIND(TERMINATED), RUN, 0);
}

/* Nor when the agent that told it was another one. */
static void what_was_told_by_the_agent_before_has_not_finished(void **state)
{
    static const struct ledger_entry entry = {.allocation_id = "stopped",
                                              .pid = PID,
                                              .start_ticks = START_TICKS,
                                              .run = RUN,
                                              .ended = true,
                                              .ended_run = RUN};

    (void)state;
    job = allocation_new(&agent, "stopped", &entry);
    main_lives = false;
    process_post(job, PROCESS_RESUMED);
    exits(0, false);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), RUN, 0);
    allocation_free(job);
}

/* ---- an agent that restarts ---- */

static void expect_state_at(struct allocation *again, uint64_t at_us, enum process_state expected)
{
    still_now_us = at_us;
    still_first_fire(again);
    assert_int_equal(again->process.state, expected);
}

static void a_grace_goes_on_where_it_was(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    stop(STOP_BY_ORDER, RUN); /* a second */
    still_now_us += 400000;
    again = resumed();
    assert_uint_equal(terms, 2);
    expect_state_at(again, began_us + 990000, PROCESS_TERMINATING);
    expect_state_at(again, began_us + 1000000, PROCESS_KILLING);
    allocation_free(again);
}

/* From here on, into a file, until last_logged(). */
static FILE *begin_log(int *ret_stderr)
{
    FILE *log = tmpfile();

    assert_non_null(log);
    *ret_stderr = dup(STDERR_FILENO);
    assert_true(*ret_stderr >= 0);
    assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
    return log;
}

/* The value of the key in the last line of the event. */
static long last_logged(FILE *log, int former_stderr, const char *event, const char *key)
{
    char line[1024];
    long value = -1;

    assert_true(dup2(former_stderr, STDERR_FILENO) >= 0);
    close(former_stderr);
    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL)
        if (strstr(line, event) != NULL && strstr(line, key) != NULL)
            value = strtol(strstr(line, key) + strlen(key), NULL, 10);
    fclose(log);
    return value;
}

/* By the agent that was told, the one that restarts, and one whose longer grace changes nothing any
 * more. */
static void what_is_left_of_a_grace_is_logged(void **state)
{
    struct allocation *again;
    int former_stderr;
    FILE *log = begin_log(&former_stderr);

    (void)state;
    stop(STOP_BY_ORDER, RUN); /* a second */
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 1000);
    still_now_us += 400000;
    log = begin_log(&former_stderr);
    again = resumed();
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 600);
    still_now_us += 100000;
    log = begin_log(&former_stderr);
    process_stop(
        again, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .run = RUN});
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 500);
    still_now_us += SECOND_US;
    log = begin_log(&former_stderr);
    process_stop(
        again, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .run = RUN});
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 0);
    allocation_free(again);
}

/* ---- enums in logs ---- */

/* The work that was begun with all of the job, and its listener; the test tells its end. */
static struct {
    enum still_way way;
    still_done_fn *done;
    void *data;
} begun;

static struct job_still *still_begun(void *context, const struct job_identity *identity,
                                     enum still_way way, still_done_fn *done, void *data)
{
    (void)context, (void)identity;
    begun.way = way;
    begun.done = done;
    begun.data = data;
    return (struct job_still *)&begun;
}

static void still_turned(struct job_still *still, enum still_way way)
{
    (void)still, (void)way;
}

static void still_left(struct job_still *still)
{
    (void)still;
}

static void expect_logged(FILE *log, const char *event, const char *pair)
{
    char line[1024];
    bool found = false;

    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL)
        found = found || (strstr(line, event) != NULL && strstr(line, pair) != NULL);
    if (!found)
        print_error("no line %s with %s\n", event, pair);
    assert_true(found);
}

/* Numbers of ways, causes and reasons say nothing to who reads a log, and shift between builds. */
static void ways_causes_and_reasons_are_logged_by_name(void **state)
{
    struct ledger_entry entry = *ledger_find(agent.ledger, "job");
    struct allocation *again;
    int former_stderr;
    FILE *log;

    (void)state;
    agent.machine.job_still = still_begun;
    agent.machine.job_still_change = still_turned;
    agent.machine.job_still_detach = still_left;
    log = begin_log(&former_stderr);
    entry.still = STANDING_LET_GO; /* as the agent before it left it */
    again = allocation_new(&agent, "job", &entry);
    process_post(again, PROCESS_RESUMED);
    assert_int_equal(begun.way, STILL_THAW);
    begun.done(begun.data, &(struct still_result){.stuck = PID, .stuck_name = "tail"});
    process_stop(again, &(struct process_stop_ask){.cause = STOP_BY_ORDER,
                                                   .reason = CKPT__V1__REASON__REASON_MIGRATED,
                                                   .grace_ms = 1000,
                                                   .run = RUN});
    assert_int_equal(begun.way, STILL_END);
    begun.done(begun.data, &(struct still_result){.whole = true, .count = 1, .rounds = 1});
    main_lives = group_lives = false;
    still_first_fire(again);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    assert_true(dup2(former_stderr, STDERR_FILENO) >= 0);
    close(former_stderr);
    expect_logged(log, "event=still ", " way=THAW ");
    expect_logged(log, "event=stop ", " cause=ORDER ");
    expect_logged(log, "event=stop ", " reason=MIGRATED ");
    expect_logged(log, "event=signalled ", " way=END ");
    expect_logged(log, "event=report ", " reason=MIGRATED ");
    fclose(log);
    allocation_free(again);
}

static void a_grace_that_was_ordered_is_not_cut_short(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    process_stop(
        job, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .run = RUN});
    again = resumed();
    expect_state_at(again, began_us + 119 * SECOND_US, PROCESS_TERMINATING);
    expect_state_at(again, began_us + 120 * SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

static void a_grace_that_became_shorter_stays_so(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    process_stop(
        job, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .run = RUN});
    stop(STOP_BY_WALLTIME, RUN);
    again = resumed();
    expect_state_at(again, began_us + SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

/* An older agent did not write down when it ends: it begins again. */
static void a_grace_whose_end_is_not_known_begins_again(void **state)
{
    struct ledger_entry entry;
    struct allocation *again;

    (void)state;
    stop(STOP_BY_ORDER, RUN);
    entry = *ledger_find(agent.ledger, "job");
    entry.kill_at_us = 0;
    entry.grace_ms = 7000;
    again = allocation_new(&agent, "job", &entry);
    process_post(again, PROCESS_RESUMED);
    expect_state_at(again, still_now_us + 6 * SECOND_US, PROCESS_TERMINATING);
    expect_state_at(again, still_now_us + SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

static void a_start_that_does_not_come_is_told_by_the_agent_after(void **state)
{
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;
    struct allocation *again;

    (void)state;
    main_lives = group_lives = false;
    wakes(&(struct end_note){.wait_status = 9, .will_restart = true});
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    again = resumed();
    assert_false(allocation_idle(again));
    expect_state_at(again, still_now_us + 4 * SECOND_US, PROCESS_ABSENT);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    expect_state_at(again, still_now_us + SECOND_US, PROCESS_ABSENT);
    kept = ledger_report_after(agent.ledger, 1);
    assert_non_null(kept);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_int_equal(report->kind, KIND(APPLICATION_EXITED));
    assert_int_equal(report->exit_status, 9);
    assert_uint_equal(report->will_restart, 0);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_true(allocation_idle(again));
    expect_state_at(again, still_now_us + 60 * SECOND_US, PROCESS_ABSENT);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2); /* once */
    allocation_free(again);
}

int main(void)
{
#define PROCESS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        PROCESS_TEST(what_ends_is_told_with_its_status),
        PROCESS_TEST(what_was_told_from_outside_to_end_has_not_finished),
        PROCESS_TEST(what_was_told_from_outside_before_an_order_has_not_finished),
        PROCESS_TEST(a_late_word_of_finished_work_counts_once),
        PROCESS_TEST(a_late_word_counts_for_what_had_ended_before_its_stop),
        PROCESS_TEST(a_late_word_of_what_was_told_to_end_does_not_count),
        PROCESS_TEST(a_late_word_of_what_was_told_does_not_count),
        PROCESS_TEST(what_is_seen_alive_again_has_not_ended),
        PROCESS_TEST(a_word_of_its_ckpt_run_goes_with_the_end),
        PROCESS_TEST(an_end_waits_for_what_has_left_the_group),
        PROCESS_TEST(what_has_left_the_group_has_the_grace_as_well),
        PROCESS_TEST(a_stop_waits_for_what_has_left_the_group),
        PROCESS_TEST(what_had_finished_before_an_order_has_exited),
        PROCESS_TEST(what_had_finished_before_its_walltime_has_exited),
        PROCESS_TEST(what_is_killed_is_told_in_its_own_run_though_the_next_one_has_its_walltime),
        PROCESS_TEST(what_had_failed_before_an_order_is_told_as_stopped),
        PROCESS_TEST(an_order_for_a_later_run_is_answered),
        PROCESS_TEST(what_ends_with_0_when_told_to_has_not_finished),
        PROCESS_TEST(what_was_told_by_the_agent_before_has_not_finished),
        PROCESS_TEST(a_grace_goes_on_where_it_was),
        PROCESS_TEST(what_is_left_of_a_grace_is_logged),
        PROCESS_TEST(ways_causes_and_reasons_are_logged_by_name),
        PROCESS_TEST(a_grace_that_was_ordered_is_not_cut_short),
        PROCESS_TEST(a_grace_that_became_shorter_stays_so),
        PROCESS_TEST(a_grace_whose_end_is_not_known_begins_again),
        PROCESS_TEST(a_start_that_does_not_come_is_told_by_the_agent_after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
