/* Where GPU time goes: every millisecond of held nodes is in exactly one place, and in the right
 * one. */
#include "tests/unit/fsm/expect.h"

#include "ckpt/log/v1/snapshot.pb-c.h"

/* GPU-ms of an account, those that are not named are 0. */
struct parts {
    uint64_t useful, pending, failure, checkpoint, restart, preemption, walltime, stop;
};

static void expect_account(const struct fsm_account *account, struct parts parts)
{
    const uint64_t lost[FSM_LOSS_COUNT] = {
        [FSM_LOSS_FAILURE] = parts.failure,   [FSM_LOSS_CHECKPOINT] = parts.checkpoint,
        [FSM_LOSS_RESTART] = parts.restart,   [FSM_LOSS_PREEMPTION] = parts.preemption,
        [FSM_LOSS_WALLTIME] = parts.walltime, [FSM_LOSS_STOP] = parts.stop};
    uint64_t held = parts.useful + parts.pending;

    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++) {
        if (account->lost_gpu_ms[cause] != lost[cause])
            print_error("%s:\n", fsm_loss_name((enum fsm_loss)cause));
        assert_int_equal(account->lost_gpu_ms[cause], lost[cause]);
        held += lost[cause];
    }
    assert_int_equal(account->useful_gpu_ms, parts.useful);
    assert_int_equal(account->pending_gpu_ms, parts.pending);
    assert_int_equal(account->held_gpu_ms, held);
}

static void expect_losses(const struct script *script, const char *id, struct parts parts)
{
    struct fsm_account account;

    fsm_allocation_account(script->fsm, job_of(script, id), 0, &account);
    expect_account(&account, parts);
}

static void expect_cluster(const struct script *script, struct parts parts)
{
    struct fsm_account account;

    fsm_cluster_account(script->fsm, 0, &account);
    expect_account(&account, parts);
}

/* 8 GPUs; the checkpoint is asked for, 2 s are spent waiting, then it is dispatched and the
 * application is asked at once. */
static void checkpoint_of_one_node(struct script *script, const char *id, uint64_t sequence,
                                   const char *stall)
{
    expect_ok(script, "request %s", id);
    expect_ok(script, "after 2000");
    expect_ok(script, "grant 1-%" PRIu64, sequence);
    expect_ok(script, "report n1 started %s ckpt=1-%" PRIu64, id, sequence);
    expect_ok(script, "after 5000");
    expect_ok(script, "report n1 shard_verified %s ckpt=1-%" PRIu64 " stall=%s", id, sequence,
              stall);
}

/* S2-006: its destination was away until it was too late. */
static void work_whose_destination_stayed_away_is_told_as_lost(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=100000");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "target scratch down");
    expect_checkpoint(&script, 1, PAUSED);
    expect_ok(&script, "after 40000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    assert_int_equal(job_of(&script, "j1")->reason, CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED);
    expect_losses(&script, "j1", (struct parts){.walltime = 8 * 100000});
    script_close(&script);
}

static void work_before_the_snapshot_is_useful_the_pause_is_lost_the_rest_is_pending(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "after 100000");
    checkpoint_of_one_node(&script, "j1", 1, "3000");
    expect_losses(
        &script, "j1",
        (struct parts){.useful = 8 * 102000, .checkpoint = 8 * 3000, .pending = 8 * 2000});
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_losses(
        &script, "j1",
        (struct parts){.useful = 8 * 102000, .checkpoint = 8 * 3000, .pending = 8 * 12000});
    expect_ok(&script, "end j1");
    expect_losses(&script, "j1", (struct parts){.useful = 8 * 114000, .checkpoint = 8 * 3000});
    script_close(&script);
}

static void a_restart_in_place_loses_what_came_after_the_snapshot_and_the_time_until_it_runs(
    void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "after 100000");
    checkpoint_of_one_node(&script, "j1", 1, "3000");
    expect_ok(&script, "after 50000");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_ok(&script, "after 7000");
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_losses(&script, "j1",
                  (struct parts){.useful = 8 * 102000,
                                 .checkpoint = 8 * 3000,
                                 .failure = 8 * 52000,
                                 .restart = 8 * 7000,
                                 .pending = 8 * 1000});
    script_close(&script);
}

/* The work that the last checkpoint saved is lost after all when only the one before can be
 * read. */
static void going_on_from_an_older_checkpoint_takes_back_what_the_younger_one_saved(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "after 100000");
    checkpoint_of_one_node(&script, "j1", 1, "0");
    expect_ok(&script, "after 100000");
    checkpoint_of_one_node(&script, "j1", 2, "0");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_losses(&script, "j1", (struct parts){.useful = 8 * 102000, .failure = 8 * 112000});
    expect_ok(&script, "after 1000");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_ok(&script, "report n1 application_started j1"); /* from nothing */
    expect_losses(&script, "j1", (struct parts){.failure = 8 * 215000});
    script_close(&script);
}

/* F-007: the nodes of a stopped allocation are others' meanwhile: waiting is no loss of GPU
 * time. */
static void a_node_that_dies_takes_the_work_of_all_nodes_and_waiting_costs_nothing(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4 requeue=always");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "after 500"); /* the other node is held until its part is ended */
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    expect_losses(&script, "j1", (struct parts){.failure = 8 * 60500});
    expect_ok(&script, "after 900000");
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "restart j1 nodes=n1,n3 gpus=4 from_scratch");
    assert_int_equal(job_of(&script, "j1")->waited_ms, 900000);
    expect_ok(&script, "after 3000");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "after 2000"); /* one part alone computes nothing */
    expect_ok(&script, "report n3 application_started j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_losses(&script, "j1",
                  (struct parts){.failure = 8 * 60500, .restart = 8 * 5000, .pending = 8 * 10000});
    script_close(&script);
}

/* P-022, P-025 */
static void a_preemption_costs_its_pause_and_what_was_computed_after_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "after 100000");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 6000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 stall=4000");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    expect_losses(&script, "j1", (struct parts){.useful = 8 * 100000, .preemption = 8 * 7000});
    expect_ok(&script, "register j2 nodes=n2 class=1 strategy=none");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "report n2 terminated j2");
    expect_reason(&script, "j2", "preempted_without_checkpoint");
    expect_losses(&script, "j2", (struct parts){.preemption = 8 * 30000});
    expect_cluster(&script, (struct parts){.useful = 8 * 100000, .preemption = 8 * 37000});
    script_close(&script);
}

static void a_walltime_and_a_stop_have_causes_of_their_own(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=50000 gpus=1");
    expect_ok(&script, "register j2 nodes=n1 gpus=2");
    expect_ok(&script, "after 40000");
    expect_ok(&script, "migrate j2");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j2 ckpt=1-1");
    expect_ok(&script, "after 1500");
    expect_ok(&script, "report n1 shard_verified j2 ckpt=1-1 stall=1000");
    expect_ok(&script, "report n1 terminated j2");
    expect_losses(&script, "j2",
                  (struct parts){.useful = 2 * 40000, .checkpoint = 2 * 1000, .stop = 2 * 500});
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 terminated j1");
    expect_losses(&script, "j1", (struct parts){.walltime = 51500});
    script_close(&script);
}

/* The slowest part counts, once, whatever the order of the reports and however often they come. */
static void a_pause_of_several_nodes_is_that_of_the_slowest(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 9000");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 stall=2000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 stall=5000");
    expect_ok(&script, "report n3 checkpoint_failed j1 ckpt=1-1 stall=4000 reason=write_failed");
    expect_ok(&script, "report n2 stopped_writing j1 ckpt=1-1 stall=4500");
    assert_int_equal(checkpoint_of(&script, 1)->stall_ms, 5000);
    expect_losses(&script, "j1", (struct parts){.checkpoint = 3 * 5000, .pending = 3 * 4000});
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=2 stall=999999 "
                       "reason=no_handler"); /* no longer than since it was asked */
    expect_losses(&script, "j1", (struct parts){.checkpoint = 3 * 6000, .pending = 3 * 64000});
    script_close(&script);
}

static void a_tenant_keeps_what_its_allocations_lost_when_they_have_left(void **unused)
{
    struct script script;
    struct fsm_account account;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000");
    expect_ok(&script, "register a nodes=n1 tenant=physics");
    expect_ok(&script, "register b nodes=n2 tenant=biology gpus=3");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "end a failed reason=node_down");
    expect_ok(&script, "after 5000");
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "a"));
    assert_int_equal(fsm_tenant_count(script.fsm), 2);
    assert_string_equal(fsm_tenant_account(script.fsm, 0, 0, &account), "physics");
    expect_account(&account, (struct parts){.failure = 8 * 10000});
    assert_string_equal(fsm_tenant_account(script.fsm, 1, 0, &account), "biology");
    expect_account(&account, (struct parts){.pending = 3 * 15000});
    assert_null(fsm_tenant_account(script.fsm, 2, 0, &account));
    expect_cluster(&script, (struct parts){.failure = 8 * 10000, .pending = 3 * 15000});
    script_close(&script);
}

static void tenants_beyond_the_limit_share_one_account(void **unused)
{
    struct script script;
    struct fsm_account account;
    const uint64_t extra = 5;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (uint64_t i = 0; i < FSM_TENANTS_MAX + extra; i++)
        expect_ok(&script, "register j%" PRIu64 " nodes=n1 gpus=1 tenant=t%" PRIu64, i, i);
    expect_ok(&script, "after 1000");
    script.unchecked = false;
    expect_ok(&script, "tick");
    assert_int_equal(fsm_tenant_count(script.fsm), FSM_TENANTS_MAX);
    assert_string_equal(fsm_tenant_account(script.fsm, FSM_TENANTS_MAX - 1, 0, &account),
                        "(others)");
    expect_account(&account, (struct parts){.pending = (extra + 1) * 1000});
    script_close(&script);
}

/* An account that is full stops growing; its parts still add up, and nothing wraps round. */
static void an_account_saturates(void **unused)
{
    struct script script;
    struct fsm_account account;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 20; i++) {
        char nodes[512] = "";

        for (int k = 0; k < 60; k++)
            snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), "%sn%d",
                     k == 0 ? "" : ",", k);
        expect_ok(&script, "register j%d nodes=%s gpus=1024", i, nodes);
    }
    expect_ok(&script, "at 281474976710656"); /* the last instant */
    expect_ok(&script, "tick");
    fsm_allocation_account(script.fsm, job_of(&script, "j0"), 0, &account);
    assert_int_equal(account.pending_gpu_ms, UINT64_C(60) * 1024 * (281474976710656 - 1000000));
    fsm_cluster_account(script.fsm, 0, &account);
    assert_int_equal(account.held_gpu_ms, UINT64_MAX);
    for (int i = 0; i < 20; i++)
        expect_ok(&script, "end j%d failed", i);
    fsm_cluster_account(script.fsm, 0, &account);
    assert_int_equal(account.lost_gpu_ms[FSM_LOSS_FAILURE], UINT64_MAX);
    script_close(&script);
}

/* One that began before it was registered is worth what it computed. */
static void a_late_registration_counts_from_the_start(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=2 started=400000");
    expect_ok(&script, "register j2 nodes=n1 gpus=2 started=5000000"); /* ahead of the clock */
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_losses(&script, "j1", (struct parts){.pending = 2 * 601000});
    expect_losses(&script, "j2", (struct parts){.pending = 2 * 1000});
    expect_cluster(&script, (struct parts){.pending = 2 * 602000});
    script_close(&script);
}

/* S1-080: each node's time counts while it is held. */
static void a_change_of_nodes_changes_the_rate_from_then_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "update j1 nodes=n1 gpus=4 force"); /* half of the work goes with its node */
    expect_ok(&script, "after 10000");
    expect_ok(&script, "end j1 failed node_failure");
    expect_losses(&script, "j1",
                  (struct parts){.failure = 4 * 10000 + 4 * 10000, .stop = 4 * 10000});
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_whose_destination_stayed_away_is_told_as_lost),
        cmocka_unit_test(work_before_the_snapshot_is_useful_the_pause_is_lost_the_rest_is_pending),
        cmocka_unit_test(
            a_restart_in_place_loses_what_came_after_the_snapshot_and_the_time_until_it_runs),
        cmocka_unit_test(going_on_from_an_older_checkpoint_takes_back_what_the_younger_one_saved),
        cmocka_unit_test(a_node_that_dies_takes_the_work_of_all_nodes_and_waiting_costs_nothing),
        cmocka_unit_test(a_preemption_costs_its_pause_and_what_was_computed_after_it),
        cmocka_unit_test(a_walltime_and_a_stop_have_causes_of_their_own),
        cmocka_unit_test(a_pause_of_several_nodes_is_that_of_the_slowest),
        cmocka_unit_test(a_tenant_keeps_what_its_allocations_lost_when_they_have_left),
        cmocka_unit_test(tenants_beyond_the_limit_share_one_account),
        cmocka_unit_test(an_account_saturates),
        cmocka_unit_test(a_late_registration_counts_from_the_start),
        cmocka_unit_test(a_change_of_nodes_changes_the_rate_from_then_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
