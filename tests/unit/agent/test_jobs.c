/* What an owner sees of the own jobs on a node: whose they are, their state, what is kept for
 * it. */
#include "src/agent/app/app_end.h"
#include "src/agent/app/app_jobs.h"
#include "src/agent/durable/kept.h"
#include "src/agent/job/restart_points.h"
#include "tests/unit/agent/still_agent.h"

enum { ALICE = 1001, BOB = 1002, CHECKPOINT = 42 };

static struct allocation *job;

static int set_up(void **state)
{
    still_agent_set_up(state);
    job = agent_get(&agent, "job");
    return 0;
}

static void own(uid_t uid)
{
    job->entry.owned = true;
    job->entry.owner_uid = uid;
}

static void a_job_is_seen_by_its_owner_and_by_root(void **state)
{
    (void)state;
    assert_true(app_jobs_seen(job, 0));
    assert_false(app_jobs_seen(job, ALICE)); /* an order named it: nobody's yet */
    own(ALICE);
    assert_true(app_jobs_seen(job, 0));
    assert_true(app_jobs_seen(job, ALICE));
    assert_false(app_jobs_seen(job, BOB));
}

/* Also what runs as its user: an application that root started for the owner is the owner's. */
static void what_nobody_is_known_to_own_is_seen_by_the_user_it_runs_as(void **state)
{
    (void)state;
    job->entry.uid = BOB;
    assert_false(app_jobs_seen(job, BOB)); /* of before: nothing of it is here */
    job->entry.pid = 100;
    assert_true(app_jobs_seen(job, BOB));
    assert_false(app_jobs_seen(job, ALICE));
    own(ALICE);
    assert_false(app_jobs_seen(job, BOB));
    assert_true(app_jobs_seen(job, ALICE));
    job->entry.pid = 0;
}

static void the_state_is_that_of_the_application(void **state)
{
    (void)state;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_NOT_STARTED);
    job->process.state = PROCESS_RUNNING;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_RUNNING);
    job->attempt.state = ATTEMPT_PUTTING;
    assert_int_equal(app_jobs_state(job),
                     CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_CHECKPOINTED);
    job->process.state = PROCESS_TERMINATING;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_ENDED);
    job->attempt.state = ATTEMPT_NONE;
    job->process.state = PROCESS_ABSENT;
    job->entry.started_at_ms = 1;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED);
    job->entry.restart_awaited = true;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING);
}

static bool starts_or_waits, waits_for_restart;

static bool stream_starts(const struct app_stream *stream)
{
    (void)stream;
    return starts_or_waits;
}

static bool stream_awaits(const struct app_stream *stream)
{
    (void)stream;
    return waits_for_restart;
}

/* A job that has failed does not start because its ckpt-run stays (--stay); what was never
 * here does, as a spare. */
static void a_job_whose_ckpt_run_only_waits_is_not_starting(void **state)
{
    static const struct caller_ops ops = {.starts = stream_starts, .awaits = stream_awaits};
    static char stream;

    (void)state;
    agent.callers = &ops;
    job->stream = (struct app_stream *)(void *)&stream;
    starts_or_waits = true;
    waits_for_restart = false;
    job->entry.started_at_ms = 1;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING);
    waits_for_restart = true;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED);
    job->entry.started_at_ms = 0;
    assert_int_equal(app_jobs_state(job), CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING);
    job->stream = NULL;
}

/* Each state has its own words; what is verified has not failed. */
static void what_is_removed_has_failed_only_where_it_has(void **state)
{
    struct attempt attempt = {.state = ATTEMPT_REMOVING};

    (void)state;
    assert_string_equal(app_jobs_asked_state(&attempt),
                        "it is written and verified, and the files that it leaves on this node are "
                        "removed");
    attempt.outcome.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED;
    assert_string_equal(app_jobs_asked_state(&attempt),
                        "it has failed, and what was written is removed");
    attempt.outcome.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING;
    assert_string_equal(app_jobs_asked_state(&attempt),
                        "it is withdrawn, and what was written is removed");
    for (int i = ATTEMPT_NONE + 1; i < ATTEMPT_STATE_COUNT; i++) {
        attempt = (struct attempt){.state = (enum attempt_state)i};
        assert_true(strlen(app_jobs_asked_state(&attempt)) > 0);
        assert_null(strstr(app_jobs_asked_state(&attempt), "failed"));
    }
}

static void the_end_names_the_checkpoint_that_holds_the_work(void **state)
{
    char text[APP_END_BYTES];

    (void)state;
    assert_string_equal(app_end_text(job, CKPT__V1__REASON__REASON_PREEMPTED, text), "preempted");
    job->entry.last_checkpoint = UINT64_C(1) << 40 | 42;
    job->entry.last_at_ms = still_clock_now(NULL);
    assert_non_null(strstr(app_end_text(job, CKPT__V1__REASON__REASON_PREEMPTED, text),
                           "preempted; the last checkpoint that was written or restored here is "
                           "1-42, of "));
    job->entry.still = STANDING_STILL;
    job->entry.checkpoint_id = job->entry.last_checkpoint;
    assert_string_equal(app_end_text(job, CKPT__V1__REASON__REASON_PREEMPTED, text),
                        "preempted; checkpoint 1-42 holds all of its work");
    assert_string_equal(app_end_text(job, CKPT__V1__REASON__REASON_APPLICATION_EXITED, text),
                        "application exited"); /* nothing of it is to go on */
    job->entry.still = STANDING_NOT;
}

static void the_last_checkpoint_is_the_one_written_or_restored_last(void **state)
{
    (void)state;
    job->entry.checkpoint_id = CHECKPOINT;
    job->entry.attempt = 2;
    job->entry.attempt_part = 3;
    strcpy(job->entry.path, "/ckpt/t/p/job/1-42");
    kept_verified(&job->entry, 4096, still_clock_now(NULL) - 2000);
    assert_uint_equal(job->entry.last_checkpoint, CHECKPOINT);
    assert_uint_equal(job->entry.last_at_ms, still_clock_now(NULL) - 2000);
    assert_uint_equal(job->entry.last_bytes, 4096);
    assert_string_equal(job->entry.last_path, "/ckpt/t/p/job/1-42/part-0003");
    kept_restored(&job->entry, 0, NULL, 0); /* from scratch says nothing */
    assert_uint_equal(job->entry.last_checkpoint, CHECKPOINT);
    kept_restored(&job->entry, 41, "/ckpt/t/p/job/1-41", 7);
    assert_uint_equal(job->entry.last_checkpoint, 41);
    assert_uint_equal(job->entry.last_at_ms, 7);
    assert_uint_equal(job->entry.last_bytes, 0);
    kept_failed(&job->entry, CKPT__V1__REASON__REASON_NO_HANDLER, "pid 7 (\xff) does not catch\n",
                8);
    assert_string_equal(job->entry.failed_text, "no handler: pid 7 (?) does not catch?");
    assert_uint_equal(job->entry.failed_attempt, 2);
    assert_uint_equal(job->entry.last_checkpoint, 41);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_seen_by_its_owner_and_by_root),
        TEST(what_nobody_is_known_to_own_is_seen_by_the_user_it_runs_as),
        TEST(the_state_is_that_of_the_application),
        TEST(a_job_whose_ckpt_run_only_waits_is_not_starting),
        TEST(what_is_removed_has_failed_only_where_it_has),
        TEST(the_end_names_the_checkpoint_that_holds_the_work),
        TEST(the_last_checkpoint_is_the_one_written_or_restored_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
