/* The weight of a job by what it holds: its GPUs, or its nodes where these count for more. */
#include "tests/unit/fsm/expect.h"

#include "fsm/begin.h"
#include "fsm/weight.h"

static struct fsm_account account_of(const struct script *script, const char *id)
{
    struct fsm_account account;

    fsm_allocation_account(script->fsm, job_of(script, id), 0, &account);
    return account;
}

static void expect_weight(const struct script *script, const char *id, uint32_t gpus,
                          uint32_t nodes)
{
    struct fsm_weight weight = fsm_allocation_weight(script->fsm, job_of(script, id));

    assert_int_equal(weight.gpus, gpus);
    assert_int_equal(weight.nodes, nodes);
}

static void start(struct script *script, const char *level)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    expect_ok(script, "policy min_interval=1");
}

/* V-006: whichever is more; at level 1, and where the policy says so, GPUs alone. */
static void a_job_weighs_its_gpus_or_its_nodes(void **unused)
{
    static const struct {
        const char *level, *policy;
        unsigned gpus_per_node;
        uint32_t gpus, nodes; /* of two nodes */
    } rows[] = {{"", "", 0, 2, 2},
                {"", "", 1, 2, 0},
                {"", "node_gpus=4", 3, 8, 2},
                {"", "node_gpus=4", 8, 16, 0},
                {"", "zeros=72057594037927936", 0, 0, 0},
                {"level=1", "", 0, 0, 0},
                {"level=1", "", 3, 6, 0}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, rows[i].level);
        if (rows[i].policy[0] != '\0')
            expect_ok(&script, "policy %s", rows[i].policy);
        expect_ok(&script, "register j1 nodes=n1,n2 gpus=%u", rows[i].gpus_per_node);
        expect_weight(&script, "j1", rows[i].gpus, rows[i].nodes);
        expect_ok(&script, "after 1000");
        expect_ok(&script, "tick");
        assert_int_equal(account_of(&script, "j1").pending_gpu_ms, 1000 * rows[i].gpus);
        script_restore(&script);
        expect_weight(&script, "j1", rows[i].gpus, rows[i].nodes);
        expect_ok(&script, "after 1000");
        expect_ok(&script, "end j1 failed");
        assert_int_equal(account_of(&script, "j1").lost_gpu_ms[FSM_LOSS_FAILURE],
                         2000 * rows[i].gpus);
        script_close(&script);
    }
}

/* V-006: computed before it was registered; the pause and what it had saved. */
static void losses_of_a_job_without_gpus_are_told(void **unused)
{
    struct script script;
    struct fsm_account account;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=0 started=%" PRIu64,
              summary_of(&script).now_ms - 3000);
    assert_int_equal(account_of(&script, "j1").pending_gpu_ms, 2 * 3000);
    expect_ok(&script, "after 4000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n2 started j1 ckpt=1-1");
    expect_ok(&script, "after 2000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 stall=500");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 stall=1500");
    expect_checkpoint(&script, 1, COMPLETE);
    account = account_of(&script, "j1");
    assert_int_equal(account.useful_gpu_ms, 2 * 7000);
    assert_int_equal(account.lost_gpu_ms[FSM_LOSS_CHECKPOINT], 2 * 1500);
    assert_int_equal(account.pending_gpu_ms, 2 * 500);
    assert_int_equal(checkpoint_of(&script, 1)->useful_gpu_ms, 2 * 7000);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "update j1 nodes=n1 gpus=0 force"); /* half of what is pending leaves */
    account = account_of(&script, "j1");
    assert_int_equal(account.lost_gpu_ms[FSM_LOSS_STOP], 1500);
    assert_int_equal(account.pending_gpu_ms, 1500);
    expect_weight(&script, "j1", 1, 1);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    assert_int_equal(account_of(&script, "j1").pending_gpu_ms, 2500);
    script_close(&script);
}

/* V-006: nodes that leave behind a checkpoint that failed take their share with them. */
static void nodes_that_leave_a_job_without_gpus_take_their_share(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "policy attempts=1");
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=0 min=1");
    expect_ok(&script, "after 3000");
    expect_ok(&script, "update j1 nodes=n1 gpus=0");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=storage_error");
    assert_true(job_of(&script, "j1")->leaving);
    assert_int_equal(account_of(&script, "j1").lost_gpu_ms[FSM_LOSS_STOP], 2 * 3000);
    script_close(&script);
}

/* V-006: by its account as of the next complete checkpoint, and of any change of its parts; not
 * before, since a change of the policy looks at no job. */
static void a_change_of_the_policy_is_taken_over(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "register j2 nodes=n2 gpus=0");
    expect_ok(&script, "policy node_gpus=5");
    expect_ok(&script, "register j3 nodes=n3 gpus=0");
    expect_weight(&script, "j1", 5, 1); /* in what comes, at once */
    assert_int_equal(fsm_account_gpus(job_of(&script, "j1")), 1);
    assert_int_equal(fsm_account_gpus(job_of(&script, "j3")), 5);
    expect_ok(&script, "after 1000");
    expect_complete(&script, "j1", 1);
    assert_int_equal(fsm_account_gpus(job_of(&script, "j1")), 5);
    assert_int_equal(account_of(&script, "j1").held_gpu_ms, 1000);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    assert_int_equal(account_of(&script, "j1").held_gpu_ms, 6000);
    assert_int_equal(fsm_account_gpus(job_of(&script, "j2")), 1);
    expect_ok(&script, "update j2 nodes=n2,n4 gpus=0");
    assert_int_equal(fsm_account_gpus(job_of(&script, "j2")), 10);
    script_close(&script);
}

/* V-006: a cluster that comes to level 2 while its jobs compute. */
static void level_2_is_taken_over_as_a_change_of_the_policy_is(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "level=1");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "policy level=2");
    expect_weight(&script, "j1", 1, 1); /* so the model asks for a checkpoint */
    expect_complete(&script, "j1", 1);
    assert_int_equal(account_of(&script, "j1").held_gpu_ms, 0);
    assert_int_equal(fsm_account_gpus(job_of(&script, "j1")), 1);
    script_close(&script);
}

/* V-006: what a victim costs. A need in GPUs is covered by real ones alone. */
static void a_victim_without_gpus_costs_what_its_nodes_weigh(void **unused)
{
    struct script script;
    uint64_t cost_gpu_ms, one_gpu_ms, manual_gpu_ms;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "policy timeout=60000");
    expect_ok(&script, "register j3 nodes=n6,n7,n8 gpus=0 class=6 strategy=manual");
    expect_ok(&script, "register j1 nodes=n1,n2,n3,n4 gpus=0 class=1 strategy=none");
    expect_ok(&script, "register j2 nodes=n5 gpus=0 class=1 strategy=none");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    assert_int_equal(fsm_victim_outlook(script.fsm, job_of(&script, "j1"), &cost_gpu_ms), FSM_OK);
    assert_int_equal(cost_gpu_ms, 4 * 1000);
    assert_int_equal(fsm_victim_outlook(script.fsm, job_of(&script, "j2"), &one_gpu_ms), FSM_OK);
    assert_int_equal(one_gpu_ms, 1000);
    fsm_victim_outlook(script.fsm, job_of(&script, "j3"), &manual_gpu_ms);
    assert_int_equal(manual_gpu_ms, 3 * 60000);
    expect_status(&script, COST_EXCEEDS_VALUE, "preempt class=5 need=4 value=4000");
    expect_status(&script, NO_VICTIMS, "preempt class=5 gpus=1");
    expect_ok(&script, "preempt class=5 need=4 value=4001");
    expect_victims(&script, "j1");
    assert_int_equal(fsm_preemption_next(script.fsm, 0)->cost_gpu_ms, 4000);
    expect_ok(&script, "report n1 terminated j1");
    for (int i = 2; i <= 4; i++)
        expect_ok(&script, "report n%d terminated j1", i);
    assert_int_equal(account_of(&script, "j1").lost_gpu_ms[FSM_LOSS_PREEMPTION], 4000);
    script_close(&script);
}

/* V-006, L3: after an outage by what is at stake, four nodes before one. */
static void after_an_outage_nodes_count(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "register j2 nodes=n2,n3,n4 gpus=0");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "request j2");
    assert_int_equal(checkpoint_of(&script, 1)->recompute_saved_gpu_ms, 1000);
    assert_int_equal(checkpoint_of(&script, 2)->recompute_saved_gpu_ms, 3000);
    script_close(&script);
}

static void expect_repeats(const struct script *script, const char *id, uint64_t ms)
{
    struct fsm_discard discard;

    fsm_begin_discards(script->fsm, job_of(script, id), &discard);
    assert_int_equal(discard.discarded_ms, ms);
}

/* V-006: what is computed again when the newest checkpoint is damaged, or cannot be read, is time
 * of the job, whatever it weighs. */
static void what_is_repeated_is_the_jobs_time(void **unused)
{
    struct script script;
    uint64_t before_ms;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "policy node_gpus=3");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "after 1000");
    expect_complete(&script, "j1", 1);
    before_ms = job_of(&script, "j1")->last_complete_snapshot_ms;
    expect_ok(&script, "after 2000");
    expect_complete(&script, "j1", 2);
    expect_ok(&script, "verified 1-2 damaged");
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, before_ms);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "restart j1 nodes=n1 gpus=0");
    expect_repeats(&script, "j1", 1000);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_weighs_its_gpus_or_its_nodes),
        cmocka_unit_test(losses_of_a_job_without_gpus_are_told),
        cmocka_unit_test(nodes_that_leave_a_job_without_gpus_take_their_share),
        cmocka_unit_test(a_change_of_the_policy_is_taken_over),
        cmocka_unit_test(level_2_is_taken_over_as_a_change_of_the_policy_is),
        cmocka_unit_test(a_victim_without_gpus_costs_what_its_nodes_weigh),
        cmocka_unit_test(after_an_outage_nodes_count),
        cmocka_unit_test(what_is_repeated_is_the_jobs_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
