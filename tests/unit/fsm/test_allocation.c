/* Allocations: registration, scaling, ends, restarts, the walltime. */
#include "src/base/check.h"
#include "tests/unit/fsm/expect.h"

/* S1-004, S1-080 */
static void estimates_follow_the_nodes(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 memory=100");
    assert_int_equal(job_of(&script, "j1")->size_estimate_bytes, 200);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=30");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 size=30");
    assert_int_equal(job_of(&script, "j1")->size_estimate_bytes, 60);
    expect_ok(&script, "update j1 nodes=n2,n3,n4 force");
    assert_int_equal(job_of(&script, "j1")->size_estimate_bytes, 90);
    assert_int_equal(fsm_node_find(script.fsm, "n1")->allocation_count, 0);
    assert_int_equal(fsm_node_find(script.fsm, "n4")->allocation_count, 1);
    script_close(&script);
}

/* S1-080 */
static void a_waiting_checkpoint_follows_new_nodes(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "update j1 nodes=n1,n3");
    assert_int_equal(checkpoint_of(&script, 1)->shard_count, 2);
    expect_ok(&script, "update j1 nodes=n2,n3 force");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_status(&script, NODE_NOT_ASSIGNED, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n3 shard_verified j1 ckpt=1-1");
    expect_checkpoint(&script, 1, COMPLETE);
    script_close(&script);
}

/* F-015 */
static void the_requeue_policy_decides_and_is_bounded(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register always nodes=n1 requeue=always max_requeue=1");
    expect_ok(&script, "register node nodes=n1");
    expect_ok(&script, "end always failed");
    expect_job(&script, "always", REQUEUED);
    expect_ok(&script, "restart always from_scratch");
    expect_ok(&script, "end always failed");
    expect_job(&script, "always", FAILED);
    expect_ok(&script, "end node failed");
    expect_job(&script, "node", FAILED);
    expect_ok(&script, "restart node from_scratch");
    expect_ok(&script, "end node failed node_failure");
    expect_job(&script, "node", REQUEUED);
    script_close(&script);
}

/* F-015: whoever sees the failure first, the job waits for its next run, and one requeue is
 * counted. */
static void a_failure_that_two_tell_of_ends_the_same_in_both_orders(void **unused)
{
    static const char *const orders[][2] = {{"node n1 down", "end j1 failed node_failure"},
                                            {"end j1 failed node_failure", "node n1 down"}};

    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        struct script script;

        script_start(&script);
        expect_ok(&script, "register j1 nodes=n1 max_requeue=1");
        expect_ok(&script, "node n1 ready");
        expect_ok(&script, "%s", orders[i][0]);
        expect_ok(&script, "%s", orders[i][1]);
        expect_job(&script, "j1", REQUEUED);
        assert_int_equal(job_of(&script, "j1")->requeue_count, 1);
        expect_ok(&script, "end j1 failed node_failure"); /* and once more */
        expect_job(&script, "j1", REQUEUED);
        expect_ok(&script, "end j1 failed"); /* this failure is the job's own */
        expect_job(&script, "j1", FAILED);
        script_close(&script);
    }
}

/* F-015: a node's failure takes nothing from a job that was stopped before, with a checkpoint. */
static void a_node_failure_after_a_stop_leaves_the_job_restartable(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "end j1 failed node_failure");
    expect_job(&script, "j1", SUSPENDED);
    expect_ok(&script, "end j1 failed");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

static void a_suspended_job_can_be_ended(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "end j1");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* Natural completion first: the request is a no-op (F-021) */
static void an_end_supersedes_the_active_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 application_exited j1 status=0");
    expect_job(&script, "j1", COMPLETED);
    expect_checkpoint(&script, 1, SUPERSEDED);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_null(fsm_restart_point(script.fsm, "j1", 0));
    script_close(&script);
}

static void a_failed_rank_ends_the_job_on_all_nodes(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "report n1 application_exited j1 status=9");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    assert_int_equal(orders_of(&script, "n2", &order), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", FAILED);
    expect_reason(&script, "j1", "application_exited");
    script_close(&script);
}

/* I30: its end had been reported, or its node was lost, and then another ckpt-run began it: its
 * node is not given back beside it. */
static void a_part_that_runs_again_while_all_are_ended_is_ended_too(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "report n1 application_exited j1 status=9");
    expect_ok(&script, "report n1 application_started j1");
    assert_int_equal(orders_of(&script, "n1", &order), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    assert_int_equal(orders_of(&script, "n1", &order), 1);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* I30: it was silent, not dead; also when it had been taken for down before its job was told to
 * end. */
static void a_part_whose_node_comes_back_while_all_are_ended_is_ended_too(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=a");
    expect_ok(&script, "register j1 nodes=n1,n2,n3");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node n2 down");
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    script_restore(&script);
    expect_ok(&script, "node n1 ready boot=a");
    assert_int_equal(orders_of(&script, "n1", &order), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
    expect_ok(&script, "report n3 terminated j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    expect_reason(&script, "j1", "node_down");
    script_close(&script);
}

/* It comes back as one that has booted, after its own word, or not for long. */
static void a_node_that_comes_back_is_not_asked_twice_nor_waited_for_without_end(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=a");
    expect_ok(&script, "node n2 ready boot=a");
    expect_ok(&script, "register j1 nodes=n1,n2,n3,n4");
    expect_ok(&script, "report n4 application_exited j1 status=9");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node n1 ready boot=b");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "node n2 ready boot=a");
    assert_int_equal(orders_of(&script, "n2", &order), 0);
    expect_ok(&script, "node n3 down");
    expect_job(&script, "j1", REQUEUED);
    expect_ok(&script, "register j2 nodes=n1,n2");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node n1 ready boot=b");
    expect_ok(&script, "report n2 terminated j2");
    expect_job(&script, "j2", RUNNING);
    expect_ok(&script, "node n1 down");
    expect_job(&script, "j2", REQUEUED);
    script_close(&script);
}

/* Its word may come before or while it counts as down: it is heard once. */
static void what_a_node_says_while_it_is_down_is_its_word(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "node n1 ready");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    expect_ok(&script, "register j2 nodes=n1,n2");
    expect_ok(&script, "report n1 application_exited j2 status=0");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node n1 ready");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    expect_ok(&script, "report n2 terminated j2");
    expect_job(&script, "j2", REQUEUED);
    script_close(&script);
}

static void a_restart_in_place_counts_the_loss_and_fails_the_attempt(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=4");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_job(&script, "j1", STARTING);
    expect_checkpoint(&script, 1, REQUESTED);
    assert_int_equal(job_of(&script, "j1")->restart_count, 1);
    assert_int_equal(repeated_of(&script, "j1"), 40000);
    expect_ok(&script, "report n1 application_started j1");
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, script.now_ms);
    script_close(&script);
}

/* I45. */
static void parts_that_began_from_two_checkpoints_do_not_go_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=on_node_failure");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "report n2 application_started j1");
    for (int i = 1; i <= 2; i++) {
        expect_ok(&script, "request j1%s", i == 2 ? " after=stop" : "");
        expect_ok(&script, "grant 1-%d", i);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-%d", i);
        expect_ok(&script, "report n2 shard_verified j1 ckpt=1-%d", i);
    }
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "restart j1");
    expect_ok(&script, "report n1 application_started j1 restored=1-2");
    script_restore(&script);
    assert_false(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n2 application_started j1 restored=1-1");
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    assert_int_equal(job_of(&script, "j1")->reason, CKPT__V1__REASON__REASON_MIXED_RESTART);
    expect_ok(&script, "restart j1");
    expect_ok(&script, "report n2 application_started j1 restored=1-2");
    expect_ok(&script, "report n1 application_started j1 restored=1-2");
    assert_false(job_of(&script, "j1")->terminating);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1");
    expect_ok(&script, "report n1 application_started j1"); /* from scratch */
    assert_true(job_of(&script, "j1")->terminating);
    script_close(&script);
}

/* An agent that has lost its memory is asked again: what it verifies then lies where the first
 * shard did. */
static void a_verified_shard_that_changes_ends_the_attempt(void **unused)
{
    static const char other[] = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1"); /* the same once more */
    expect_checkpoint(&script, 1, WRITING);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 sha=%s", other);
    expect_checkpoint(&script, 1, REQUESTED);
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_checkpoint(&script, 1, REQUESTED);
    script_close(&script);
}

/* I27: parts of two histories must never meet in one checkpoint. */
/* I30: a silent node holds the others for the grace and the slack, not longer */
static void silent_nodes_are_given_up_at_the_deadline(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 walltime=1000 grace=5000");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "after %d", 5000 + FSM_TERMINATE_SLACK_MS - 1);
    expect_ok(&script, "tick");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    expect_job(&script, "j1", FAILED);
    expect_reason(&script, "j1", "walltime_exceeded");
    script_close(&script);
}

/* I33, F-014 */
static void a_walltime_during_a_checkpoint_is_counted_and_not_extended(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=1000 grace=5000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=900000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 responsive j1 ckpt=1-1");
    assert_int_equal(summary_of(&script).walltime_conflicts, 1);
    assert_int_equal(fsm_next_deadline_ms(script.fsm), script.now_ms + 5000);
    expect_ok(&script, "report n1 walltime_killed j1");
    expect_job(&script, "j1", RUNNING); /* the data may still arrive within the grace */
    expect_ok(&script, "after 5000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, FAILED);
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* A clock that steps backwards changes nothing */
static void the_states_clock_never_goes_back(void **unused)
{
    struct script script;
    uint64_t now_ms;

    (void)unused;
    script_start(&script);
    now_ms = script.now_ms;
    expect_ok(&script, "at 5");
    expect_ok(&script, "register j1 nodes=n1");
    assert_int_equal(summary_of(&script).now_ms, now_ms);
    assert_int_equal(job_of(&script, "j1")->started_at_ms, now_ms);
    script_close(&script);
}

/* F-016; seen in the simulator (seeds 500019, 500324): ended and restarted while the node was away,
 * which then tells all of the run before, also its start. */
static void the_late_end_of_the_run_before_does_not_end_the_new_one(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "report n1 application_exited j1");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* j1 is being stopped: its checkpoint is complete and its nodes have the order to end it. */
static void stops(struct script *script, const char *nodes)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=%s requeue=always grace=5000", nodes);
    expect_ok(script, "request j1 after=stop");
    expect_ok(script, "grant 1-1");
    for (const char *at = nodes; *at != '\0'; at += 2 + (at[2] == ','))
        expect_ok(script, "report %.2s shard_verified j1 ckpt=1-1", at);
    assert_true(job_of(script, "j1")->terminating);
}

/* F-021: it came before the order to end it. */
static void what_finishes_while_it_is_stopped_has_completed(void **unused)
{
    struct script script;

    (void)unused;
    stops(&script, "n1");
    expect_ok(&script, "report n1 application_exited j1 status=0");
    expect_job(&script, "j1", COMPLETED);
    expect_reason(&script, "j1", "none");
    assert_int_equal(fsm_node_find(script.fsm, "n1")->allocation_count, 0);
    expect_status(&script, NOT_RESTARTABLE, "restart j1");
    script_close(&script);

    stops(&script, "n1,n2");
    expect_ok(&script, "report n2 application_exited j1 status=0");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    expect_ok(&script, "report n1 application_exited j1 status=0");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);

    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=1000 grace=5000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=900000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 application_exited j1 status=0");
    expect_job(&script, "j1", COMPLETED);
    expect_checkpoint(&script, 1, SUPERSEDED);
    script_close(&script);
}

static uint64_t run_of(const struct script *script, size_t part)
{
    return fsm_allocation_find(script->fsm, "j1")->nodes[part].run;
}

static void what_was_stopped_in_part_has_not_completed(void **unused)
{
    static const char *const others[] = {
        "report n2 terminated j1", "report n2 walltime_killed j1 run=%s",
        "report n2 application_exited j1 status=9", "node n2 down"};
    char run[CHECKPOINT_ID_TEXT_BYTES];
    struct script script;

    (void)unused;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        stops(&script, "n1,n2");
        expect_ok(&script, "report n1 application_exited j1 status=0");
        checkpoint_id_format(run_of(&script, 1), run);
        expect_ok(&script, others[i], run);
        expect_job(&script, "j1", SUSPENDED);
        script_close(&script);
    }
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "report n1 application_exited j1 status=9");
    expect_ok(&script, "report n2 application_exited j1 status=0");
    expect_job(&script, "j1", FAILED);
    expect_ok(&script, "restart j1 from_scratch");
    checkpoint_id_format(run_of(&script, 0), run);
    expect_ok(&script, "report n1 walltime_killed j1 run=%s", run);
    expect_ok(&script, "report n2 application_exited j1 status=0");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* As above, by an agent that says of which run it tells (F-016, F-022). */
static void what_is_of_an_earlier_run_changes_nothing(void **unused)
{
    struct script script;
    char before[CHECKPOINT_ID_TEXT_BYTES], now[CHECKPOINT_ID_TEXT_BYTES];
    struct fsm_account account, later;
    const struct fsm_allocation *view;
    struct fsm_summary summary;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=4 requeue=always");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    checkpoint_id_format(run_of(&script, 0), before);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    checkpoint_id_format(run_of(&script, 0), now);
    assert_string_not_equal(before, now);
    view = fsm_allocation_find(script.fsm, "j1");

    /* its start: nodes are held and nothing computes until that of this run */
    expect_status(&script, EARLIER_RUN, "report n1 application_started j1 run=%s", before);
    fsm_allocation_account(script.fsm, view, script.now_ms, &account);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    fsm_allocation_account(script.fsm, view, script.now_ms, &later);
    assert_int_equal(later.lost_gpu_ms[FSM_LOSS_RESTART] - account.lost_gpu_ms[FSM_LOSS_RESTART],
                     4000);
    /* its end, good or bad, and its pause */
    expect_status(&script, EARLIER_RUN, "report n1 application_exited j1 run=%s", before);
    expect_status(&script, EARLIER_RUN, "report n1 application_exited j1 status=9 run=%s", before);
    expect_status(&script, EARLIER_RUN, "report n1 terminated j1 run=%s", before);
    expect_status(&script, EARLIER_RUN, "report n1 walltime_killed j1 run=%s", before);
    expect_ok(&script, "report n1 application_started j1 run=%s", now);
    expect_ok(&script, "after 5000");
    expect_status(&script, EARLIER_RUN,
                  "report n1 stopped_writing j1 ckpt=1-1 attempt=1 stall=3000 run=%s", before);
    fsm_allocation_account(script.fsm, view, script.now_ms, &later);
    assert_int_equal(later.lost_gpu_ms[FSM_LOSS_CHECKPOINT], 0);
    expect_job(&script, "j1", RUNNING);
    fsm_get_summary(script.fsm, &summary);
    assert_int_equal(summary.earlier_run_reports, 6);
    expect_ok(&script, "report n1 application_exited j1 run=%s", now);
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* I30: the scheduler had said that it was over. Its node has come up anew since, and counts as
 * empty; nobody is let in beside it. */
static void what_an_earlier_run_left_running_is_ended_before_its_node_is_given_back(void **unused)
{
    struct script script;
    char before[CHECKPOINT_ID_TEXT_BYTES];
    struct fsm_order order;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=a");
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=always");
    checkpoint_id_format(run_of(&script, 0), before);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    expect_ok(&script, "node n1 ready boot=b");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    expect_status(&script, EARLIER_RUN, "report n1 application_started j1 run=%s", before);
    assert_int_equal(orders_of(&script, "n1", &order), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
    assert_int_equal(order.run, run_of(&script, 0));
    expect_ok(&script, "report n2 terminated j1");
    expect_status(&script, EARLIER_RUN, "report n1 terminated j1 run=%s", before);
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    script_close(&script);
}

/* Its node was silent until the deadline, and says now how it ended. */
static void what_finished_before_it_was_given_up_has_completed(void **unused)
{
    struct script script;
    char run[CHECKPOINT_ID_TEXT_BYTES];

    (void)unused;
    stops(&script, "n1,n2");
    checkpoint_id_format(run_of(&script, 0), run);
    expect_ok(&script, "after %d", 5000 + FSM_TERMINATE_SLACK_MS);
    expect_ok(&script, "tick");
    expect_job(&script, "j1", SUSPENDED);
    expect_status(&script, EARLIER_RUN, "report n1 application_exited j1 status=0 run=1-1");
    expect_ok(&script, "report n2 application_exited j1 status=9 run=%s", run);
    expect_ok(&script, "report n2 application_exited j1 status=0 run=%s", run);
    expect_job(&script, "j1", SUSPENDED);
    expect_ok(&script, "report n1 application_exited j1 status=0 run=%s", run);
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);

    stops(&script, "n1");
    checkpoint_id_format(run_of(&script, 0), run);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    expect_ok(&script, "restart j1");
    expect_status(&script, EARLIER_RUN, "report n1 application_exited j1 run=%s", run);
    expect_job(&script, "j1", STARTING);
    script_close(&script);
}

static void note_command_count(void *context, size_t i, const struct fsm_outcome *outcome)
{
    struct script *script = context;
    struct fsm_summary summary;

    assert_int_equal(outcome->status, FSM_OK);
    fsm_get_summary(script->fsm, &summary);
    if (i == 0)
        script->request_number = summary.command_count;
}

/* Found by the simulator (seed 710398) when orders were derived between the commands of one entry
 * still, where an agent's hello was among them: what was to end by then was not of the run that
 * begins with the next command. */
static void a_run_begins_after_what_was_before_in_its_own_entry(void **unused)
{
    struct script script;
    Ckpt__Log__V1__Entry entry = CKPT__LOG__V1__ENTRY__INIT;
    Ckpt__Log__V1__Command seen = CKPT__LOG__V1__COMMAND__INIT, again = seen;
    Ckpt__Log__V1__Command *commands[] = {&seen, &again};
    Ckpt__Log__V1__NodeSeen node = CKPT__LOG__V1__NODE_SEEN__INIT;
    Ckpt__V1__RestartAllocationRequest restart = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    expect_ok(&script, "end j1 failed");
    seen.now_ms = again.now_ms = script.now_ms;
    node.node_id = (char[]){"n1"};
    node.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    seen.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    seen.node_seen = &node;
    restart.allocation_id = (char[]){"j1"};
    restart.from_scratch = true;
    again.request_id = (char[]){"again"};
    again.body_case = CKPT__LOG__V1__COMMAND__BODY_RESTART_ALLOCATION;
    again.restart_allocation = &restart;
    entry.commands = commands;
    entry.n_commands = 2;
    script.entry_length = ckpt__log__v1__entry__pack(&entry, script.entry);
    fsm_apply_entry(
        script.fsm,
        &(struct fsm_entry){++script.index, script.term, script.entry, script.entry_length},
        note_command_count, &script);
    expect_job(&script, "j1", STARTING);
    assert_true(run_of(&script, 0) > run_make(1, script.request_number));
    script_close(&script);
}

/* a run that the state has forgotten (restored from a backup) counts. */
static void a_report_of_a_later_run_counts_and_of_an_earlier_one_does_not(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=always");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    expect_status(&script, EARLIER_RUN, "report n1 application_exited j1 run=1-1");
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "report n2 application_exited j1 run=9-1");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* F-006, S1-081: who stays, stays in its run; who leaves and comes back begins another. */
static void a_node_that_comes_back_to_its_allocation_begins_a_run(void **unused)
{
    struct script script;
    char before[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t stays;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3");
    stays = run_of(&script, 0);
    assert_int_equal(run_of(&script, 1), stays);
    checkpoint_id_format(run_of(&script, 1), before);
    expect_ok(&script, "update j1 nodes=n3,n1 force");
    expect_ok(&script, "update j1 nodes=n1,n2,n3 force");
    assert_int_equal(run_of(&script, 0), stays);
    assert_int_equal(run_of(&script, 2), stays);
    assert_true(run_of(&script, 1) > stays);
    expect_status(&script, EARLIER_RUN, "report n2 application_exited j1 status=9 run=%s", before);
    script_restore(&script);
    expect_status(&script, EARLIER_RUN, "report n2 application_exited j1 status=9 run=%s", before);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n1 application_exited j1 status=9");
    assert_true(fsm_allocation_find(script.fsm, "j1")->terminating);
    script_close(&script);
}

/* The first profile stands for none, and may be named all the same; at level 1 nobody told the two
 * apart. */
static void whether_a_profile_was_named_is_kept(void **unused)
{
    static const struct {
        const char *level, *profile, *kept;
        bool named;
    } rows[] = {{"level=2", "", "signal", false},
                {"level=2", "profile=signal", "signal", true},
                {"level=2", "profile=grpc", "grpc", true},
                {"level=1", "profile=signal", "signal", false}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        script_open(&script);
        expect_ok(&script, "init %s", rows[i].level);
        expect_ok(&script, "register j1 nodes=n1 %s", rows[i].profile);
        script_restore(&script);
        assert_string_equal(job_of(&script, "j1")->profile, rows[i].kept);
        assert_int_equal(job_of(&script, "j1")->profile_named, rows[i].named);
        script_close(&script);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_follow_the_nodes),
        cmocka_unit_test(a_waiting_checkpoint_follows_new_nodes),
        cmocka_unit_test(whether_a_profile_was_named_is_kept),
        cmocka_unit_test(the_requeue_policy_decides_and_is_bounded),
        cmocka_unit_test(a_failure_that_two_tell_of_ends_the_same_in_both_orders),
        cmocka_unit_test(a_node_failure_after_a_stop_leaves_the_job_restartable),
        cmocka_unit_test(a_suspended_job_can_be_ended),
        cmocka_unit_test(an_end_supersedes_the_active_checkpoint),
        cmocka_unit_test(a_failed_rank_ends_the_job_on_all_nodes),
        cmocka_unit_test(a_part_that_runs_again_while_all_are_ended_is_ended_too),
        cmocka_unit_test(a_part_whose_node_comes_back_while_all_are_ended_is_ended_too),
        cmocka_unit_test(a_node_that_comes_back_is_not_asked_twice_nor_waited_for_without_end),
        cmocka_unit_test(what_a_node_says_while_it_is_down_is_its_word),
        cmocka_unit_test(a_restart_in_place_counts_the_loss_and_fails_the_attempt),
        cmocka_unit_test(parts_that_began_from_two_checkpoints_do_not_go_on),
        cmocka_unit_test(a_verified_shard_that_changes_ends_the_attempt),
        cmocka_unit_test(silent_nodes_are_given_up_at_the_deadline),
        cmocka_unit_test(a_walltime_during_a_checkpoint_is_counted_and_not_extended),
        cmocka_unit_test(what_finishes_while_it_is_stopped_has_completed),
        cmocka_unit_test(what_was_stopped_in_part_has_not_completed),
        cmocka_unit_test(what_finished_before_it_was_given_up_has_completed),
        cmocka_unit_test(the_late_end_of_the_run_before_does_not_end_the_new_one),
        cmocka_unit_test(what_is_of_an_earlier_run_changes_nothing),
        cmocka_unit_test(what_an_earlier_run_left_running_is_ended_before_its_node_is_given_back),
        cmocka_unit_test(a_run_begins_after_what_was_before_in_its_own_entry),
        cmocka_unit_test(a_report_of_a_later_run_counts_and_of_an_earlier_one_does_not),
        cmocka_unit_test(a_node_that_comes_back_to_its_allocation_begins_a_run),
        cmocka_unit_test(the_states_clock_never_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
