/* Where a job's checkpoints go, looked at before its application starts. */
#include "tests/unit/agent/attach.h"

static struct rpc_client_call *attach_to(const char *path)
{
    struct rpc_client_call *call;

    strcpy(next_path, path);
    removal.count = 0;
    call = attach();
    assert_true(becomes(removes, WAIT_US));
    removal.done(removal.data);
    return call;
}

static bool prepares(void)
{
    return work.prepares;
}

/* S3-035, D-003: before anything is read for it, and once. */
static void the_folder_of_its_checkpoints_is_there_before_a_job_starts(void **state)
{
    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_OK;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "prepare /x/t/p/job/checkpoints;restore part-0000;");
    assert_string_equal(said, "");
}

/* In the place of a file system that is not mounted it would make the checkpoint look lost. */
static void what_it_begins_from_has_to_be_there(void **state)
{
    (void)state;
    run_of_writer = RUN;
    written_there = true;
    work.exit_code = WORKER_EXIT_OK;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "prepare /x/t/p/job/checkpoints beside /ckpt;restore part-0000;");
}

static void a_start_from_scratch_has_it_too(void **state)
{
    (void)state;
    from_scratch = true;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "prepare /x/t/p/job/checkpoints;");
}

/* D-003 */
static void a_job_that_is_not_checkpointed_has_no_folder(void **state)
{
    (void)state;
    attach_to("");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "");
}

/* It goes on with what it had: nothing that became of the folder meanwhile ends a job. */
static void a_restart_in_place_does_not_ask_for_it(void **state)
{
    (void)state;
    restart_count = 1;
    prepare.exit_code = WORKER_EXIT_REFUSED;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "");
}

/* The ckpt-run before has died, and its application after it. */
static void a_ckpt_run_that_is_waited_for_does_not_ask_either(void **state)
{
    struct allocation *job = agent_get(&agent, "job");

    (void)state;
    job->entry.restart_awaited = true;
    job->entry.uid = getuid();
    prepare.exit_code = WORKER_EXIT_REFUSED;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "");
}

static void expect_no_start(void)
{
    run_of_writer = RUN;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(refused, WAIT_US));
    assert_string_equal(refusal, "its checkpoints could not be written: it belongs to user 7");
    assert_false(restores());
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0); /* the cluster hears of no end */
    refusal[0] = '\0';
}

/* S3-036: and starts when that was mended. */
static void a_job_whose_user_may_not_write_there_does_not_start(void **state)
{
    (void)state;
    work.exit_code = WORKER_EXIT_OK;
    prepare.error = "it belongs to user 7";
    prepare.exit_code = WORKER_EXIT_REFUSED;
    expect_no_start();
    prepare.exit_code = WORKER_EXIT_UNAVAILABLE;
    prepare.cause = "storage_denied";
    expect_no_start();
    prepare.exit_code = WORKER_EXIT_OK;
    attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(starts, WAIT_US));
}

/* Its checkpoints wait for that, not the job. */
static void a_destination_that_cannot_be_written_now_holds_up_no_start(void **state)
{
    static const struct {
        int exit_code;
        const char *cause, *said;
    } ends[] = {{WORKER_EXIT_UNAVAILABLE, "storage_full", "(storage full): no room; it starts"},
                {WORKER_EXIT_UNAVAILABLE, "storage_quota", "(storage quota): no room; it starts"},
                {WORKER_EXIT_UNAVAILABLE, "storage_unreachable", "(storage unreachable)"},
                {-1, "storage_hangs", "(storage hangs)"},
                {WORKER_EXIT_USAGE, "", "(storage unavailable)"}};

    (void)state;
    prepare.error = "no room";
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct rpc_client_call *call;

        prepare.exit_code = ends[i].exit_code;
        prepare.cause = ends[i].cause;
        ready.came = false;
        call = attach_to("/x/t/p/job/checkpoints");
        assert_true(becomes(starts, WAIT_US));
        assert_contains(said, "its checkpoints cannot be written at the moment");
        assert_contains(said, ends[i].said);
        rpc_client_call_cancel(call);
        assert_true(becomes(left, WAIT_US));
    }
}

static unsigned cancelled;

static void note_cancel(struct worker *worker)
{
    (void)worker;
    cancelled++;
    agent.clock.timer_start(work.timer, 0);
}

static bool ended(void)
{
    return !work.runs;
}

static void a_ckpt_run_that_goes_away_meanwhile_waits_for_nothing(void **state)
{
    struct rpc_client_call *call;

    (void)state;
    cancelled = 0;
    agent.machine.worker_cancel = note_cancel;
    prepare.hangs = true;
    call = attach_to("/x/t/p/job/checkpoints");
    assert_true(becomes(prepares, WAIT_US));
    rpc_client_call_cancel(call);
    assert_true(becomes(left, WAIT_US));
    assert_uint_equal(cancelled, 1);
    assert_true(becomes(ended, WAIT_US));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_folder_of_its_checkpoints_is_there_before_a_job_starts),
        T(what_it_begins_from_has_to_be_there),
        T(a_start_from_scratch_has_it_too),
        T(a_job_that_is_not_checkpointed_has_no_folder),
        T(a_restart_in_place_does_not_ask_for_it),
        T(a_ckpt_run_that_is_waited_for_does_not_ask_either),
        T(a_job_whose_user_may_not_write_there_does_not_start),
        T(a_destination_that_cannot_be_written_now_holds_up_no_start),
        T(a_ckpt_run_that_goes_away_meanwhile_waits_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
