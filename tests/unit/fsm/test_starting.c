/* STARTING: a job holds its nodes and its application does not run on all of them, at first or
 * again (I43). */
#include "src/base/check.h"
#include "tests/unit/fsm/expect.h"

static struct fsm_account account_of(const struct script *script, const char *id)
{
    struct fsm_account account;

    fsm_allocation_account(script->fsm, fsm_allocation_find(script->fsm, id), script->now_ms,
                           &account);
    return account;
}

static void a_job_is_starting_until_each_of_its_parts_runs(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 starting");
    expect_job(&script, "j1", STARTING);
    assert_int_equal(fsm_node_find(script.fsm, "n1")->allocation_count, 1);
    expect_ok(&script, "report n1 application_started j1");
    expect_job(&script, "j1", STARTING);
    script_restore(&script);
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "report n2 application_started j1");
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

static void the_last_part_that_was_to_start_leaves(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 starting");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "update j1 nodes=n1"); /* nothing is written first: nothing ran there */
    expect_job(&script, "j1", STARTING);
    assert_int_equal(job_of(&script, "j1")->active_checkpoint_id, 0);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "update j1 nodes=n1,n3"); /* what joins a job that runs stops it not */
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "register j2 nodes=n4 starting");
    expect_ok(&script, "update j2 nodes=n4,n5");
    expect_ok(&script, "report n4 application_started j2");
    expect_job(&script, "j2", STARTING);
    expect_ok(&script, "report n5 application_started j2");
    expect_job(&script, "j2", RUNNING);
    script_close(&script);
}

static void nothing_is_asked_of_what_does_not_run(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 starting");
    expect_ok(&script, "register j2 nodes=n2,n3 starting");
    expect_ok(&script, "report n2 application_started j2");
    expect_ok(&script, "node n6 ready");
    expect_status(&script, NOT_STARTED, "request j1");
    expect_status(&script, NOT_STARTED, "migrate j1");
    expect_status(&script, NOT_STARTED, "request j2");
    assert_int_equal(script.outcome.current, 1);
    assert_int_equal(script.outcome.limit, 2);
    expect_ok(&script, "decide j1 j2");
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, 3);
    expect_ok(&script, "drain n1 urgent");
    assert_int_equal(script.outcome.current, 0);
    script_close(&script);
}

/* It holds GPUs and computes nothing: what it holds is no work, neither useful nor lost later. */
static void gpu_time_before_the_start_is_no_work(void **unused)
{
    struct script script;
    struct fsm_account account;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=2 starting");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "after 500");
    expect_ok(&script, "end j1");
    account = account_of(&script, "j1");
    assert_int_equal(account.held_gpu_ms, 21000);
    assert_int_equal(account.lost_gpu_ms[FSM_LOSS_RESTART], 20000);
    assert_int_equal(account.useful_gpu_ms, 1000);
    script_close(&script);
}

static void the_age_of_work_begins_with_the_application(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 starting");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "report n1 application_started j1 age=4000");
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, script.now_ms - 4000);
    script_close(&script);
}

/* Its nodes are won at once, without a checkpoint, and before those of a job that has computed. */
static void a_starting_job_is_the_cheapest_victim_and_waits_for_nothing(void **unused)
{
    struct fsm_losses losses;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register busy nodes=n1 class=1");
    expect_ok(&script, "register j1 nodes=n2 class=1 starting");
    expect_ok(&script, "after 3600000");
    expect_ok(&script, "target scratch down"); /* nothing would be written there */
    expect_ok(&script, "preempt class=5 need=1");
    expect_victims(&script, "j1");
    assert_int_equal(script.outcome.victims[0].checkpoint_id, 0);
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", SUSPENDED); /* as after a stop with a checkpoint: nothing is lost */
    expect_reason(&script, "j1", "preempted");
    fsm_get_losses(script.fsm, &losses);
    for (size_t i = 0; i < ARRAY_COUNT(losses.kills); i++)
        assert_int_equal(losses.kills[i], 0);
    expect_ok(&script, "restart j1 from_scratch");
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "report n2 application_started j1");
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* A program that was not found: it was told to end before it was told to run, or an instant
 * after. */
static void a_job_whose_start_failed_has_failed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 starting");
    expect_ok(&script, "report n1 application_exited j1 status=32512");
    expect_job(&script, "j1", FAILED);
    expect_reason(&script, "j1", "application_exited");
    expect_ok(&script, "restart j1 from_scratch");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "report n1 application_exited j1 status=32512");
    expect_job(&script, "j1", FAILED);
    expect_ok(&script, "register j2 nodes=n1,n2 requeue=always starting");
    expect_ok(&script, "report n1 application_started j2");
    expect_ok(&script, "report n2 application_exited j2 status=32512");
    assert_true(job_of(&script, "j2")->terminating);
    expect_ok(&script, "report n1 terminated j2");
    expect_job(&script, "j2", REQUEUED);
    script_close(&script);
}

/* In place: the checkpoint that was under way waits until the application runs again. */
static void an_application_that_starts_again_is_starting(void **unused)
{
    struct script script;
    uint64_t id;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_job(&script, "j1", STARTING);
    expect_reason(&script, "j1", "application_exited");
    expect_checkpoint(&script, 1, REQUESTED);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_int_equal(fsm_grantable(script.fsm, &id, 1), 0);
    expect_ok(&script, "report n1 application_started j1");
    expect_job(&script, "j1", RUNNING);
    assert_int_equal(fsm_grantable(script.fsm, &id, 1), 1);
    script_close(&script);
}

/* The last checkpoint was to stop it: cancelled while the application starts again, it is starting
 * still. */
static void a_stop_that_is_cancelled_leaves_a_starting_job_starting(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    expect_ok(&script, "cancel 1-1");
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "report n1 application_started j1");
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* The report of a start is lost with its agent's journal, or by a restore: what the node says that
 * it runs tells it as well. */
static void a_start_whose_report_was_lost_is_told_by_what_runs(void **unused)
{
    struct script script;
    uint64_t run;
    char text[64];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=1 starting");
    run = job_of(&script, "j1")->nodes[0].run;
    snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, run >> CHECKPOINT_SEQUENCE_BITS,
             run & ((UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1));
    expect_ok(&script, "after 5000");
    expect_ok(&script, "running n1 j1 run=%s", text);
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "running n2 j1");
    expect_job(&script, "j1", RUNNING);
    assert_int_equal(account_of(&script, "j1").lost_gpu_ms[FSM_LOSS_RESTART], 10000);
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, script.now_ms - 5000);
    script_restore(&script);
    expect_ok(&script, "running n1 j1 run=%s", text); /* again changes nothing */
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "request j1");
    script_close(&script);
}

static void what_runs_starts_no_other_run_nor_what_reports_say_more_of(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_job(&script, "j1", STARTING);
    expect_status(&script, STALE_REPORT, "running n1 j1 seq=1"); /* from before its end */
    expect_status(&script, STALE_REPORT, "running n1 j1 seq=3"); /* a report is on its way */
    expect_status(&script, STALE_REPORT, "running n1 j1 boot=b0");
    expect_status(&script, NODE_NOT_FOUND, "running n9 j1");
    expect_status(&script, INVALID_ID, "running n1 a/b");
    expect_ok(&script, "running n1 nowhere");
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "running n1 j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "running n1 j1");
    expect_job(&script, "j1", FAILED);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "restart j1 from_scratch");
    expect_ok(&script, "running n1 j1 run=1-1"); /* an earlier one */
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "running n1 j1 run=1-1000"); /* a later one: this state was restored */
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* The walltime is of the nodes' reservation: it does not wait for the application. */
static void the_walltime_of_a_starting_job_ends_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=60000 starting");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    expect_reason(&script, "j1", "walltime_exceeded");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_starting_until_each_of_its_parts_runs),
        cmocka_unit_test(the_last_part_that_was_to_start_leaves),
        cmocka_unit_test(nothing_is_asked_of_what_does_not_run),
        cmocka_unit_test(gpu_time_before_the_start_is_no_work),
        cmocka_unit_test(the_age_of_work_begins_with_the_application),
        cmocka_unit_test(a_starting_job_is_the_cheapest_victim_and_waits_for_nothing),
        cmocka_unit_test(a_job_whose_start_failed_has_failed),
        cmocka_unit_test(an_application_that_starts_again_is_starting),
        cmocka_unit_test(a_stop_that_is_cancelled_leaves_a_starting_job_starting),
        cmocka_unit_test(a_start_whose_report_was_lost_is_told_by_what_runs),
        cmocka_unit_test(what_runs_starts_no_other_run_nor_what_reports_say_more_of),
        cmocka_unit_test(the_walltime_of_a_starting_job_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
