/* Victims: who, how many, what becomes of them. */
#include "tests/unit/fsm/expect.h"

/* P-003, P-015 */
static void the_cheapest_of_the_lowest_class_is_chosen(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register dear nodes=n1 class=1 memory=90000000000");
    expect_ok(&script, "register cheap nodes=n2 class=1 memory=10000000000");
    expect_ok(&script, "register higher nodes=n3 class=2 memory=1");
    expect_ok(&script, "preempt class=5");
    expect_victims(&script, "cheap");
    script_close(&script);
}

static uint64_t cost_of(struct script *script, const char *job)
{
    uint64_t cost_gpu_ms;

    fsm_victim_outlook(script->fsm, job_of(script, job), &cost_gpu_ms);
    return cost_gpu_ms;
}

/* P-011, P-013: 8 GPUs for the 40 s of 80 GB at 2 GB/s; what would be computed again where no
 * checkpoint can be relied on, from the last complete one or the start */
static void a_victim_costs_its_checkpoint_and_what_it_would_repeat(void **unused)
{
    struct script script;
    uint64_t saved;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register plain nodes=n1 class=1");
    expect_ok(&script, "register none nodes=n2 class=1 strategy=none");
    expect_ok(&script, "register silent nodes=n3 class=1");
    assert_true(cost_of(&script, "plain") == 320000);
    assert_true(cost_of(&script, "none") == 0);
    expect_ok(&script, "request silent");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "after 600000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, TIMED_OUT);
    assert_true(cost_of(&script, "plain") == 320000);
    assert_true(cost_of(&script, "none") == 600000 * 8);
    assert_true(cost_of(&script, "silent") == 600000 * 8);
    expect_ok(&script, "request plain");
    expect_ok(&script, "grant 1-2 timeout=60000");
    expect_ok(&script, "report n1 shard_verified plain ckpt=1-2");
    expect_ok(&script, "target scratch down"); /* nothing more can be saved */
    saved = cost_of(&script, "plain");
    assert_true(saved < 600000 * 8); /* what came before its checkpoint is safe */
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    assert_true(cost_of(&script, "plain") == saved + 1000 * 8);
    assert_true(cost_of(&script, "none") == 601000 * 8);
    script_close(&script);
}

/* P-014: over 90 % of the walltime dear, below 10 % cheap; at the bounds neither */
static void a_victim_near_its_end_is_dear_and_a_young_one_cheap(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register job nodes=n1 class=1 walltime=10000000");
    assert_true(cost_of(&script, "job") == 320000 / 2);
    expect_ok(&script, "after 999999");
    expect_ok(&script, "tick");
    assert_true(cost_of(&script, "job") == 320000 / 2);
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    assert_true(cost_of(&script, "job") == 320000);
    expect_ok(&script, "after 8000000");
    expect_ok(&script, "tick");
    assert_true(cost_of(&script, "job") == 320000);
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    assert_true(cost_of(&script, "job") > 10 * UINT64_C(320000));
    expect_ok(&script, "register other nodes=n2 class=1 memory=400000000000"); /* 5 times as dear */
    expect_ok(&script, "preempt class=5");
    expect_victims(&script, "other");
    script_close(&script);
}

/* P-043, L4: a victim may put it off by max_deferral, and is ended when it has not written by
 * then */
static void a_victim_that_defers_for_ever_is_forced(void **unused)
{
    struct script script;

    (void)unused;
    script_start_victim(&script, 600000);
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=90000000");
    expect_ok(&script, "after 904000"); /* 600 + 300 s, 5 s for delivery */
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, WRITING);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, TIMED_OUT);
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(fsm_preemption_next(script.fsm, 0)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* ... and with it j1. */
static void expect_ends_after(struct script *script, unsigned ms)
{
    expect_times_out_after(script, "WRITING", ms);
    assert_true(job_of(script, "j1")->terminating);
}

/* One of 600 s begins when 599 have passed (0), answers (1) and puts it off (2). */
static void report_late(struct script *script, const char *job, int answers)
{
    expect_ok(script, "after 599000");
    expect_ok(script, "report n1 started %s ckpt=1-1", job);
    if (answers >= 1)
        expect_ok(script, "report n1 responsive %s ckpt=1-1", job);
    if (answers >= 2)
        expect_ok(script, "report n1 deferred %s ckpt=1-1 deferral=300000", job);
}

/* L4: an application that was asked late has what is left of one and a half timeouts from the
 * dispatch, and what it puts off; the extension adds nothing to that. */
static void a_victim_that_is_asked_late_is_ended_in_time(void **unused)
{
    for (int i = 0; i < 3; i++) {
        struct script script;

        (void)unused;
        script_start_victim(&script, 600000);
        report_late(&script, "j1", i);
        expect_ends_after(&script, i < 2 ? 301000 : 601000);
        script_close(&script);
    }
}

/* L4: nor does an attempt that is given longer than the first one */
static void attempts_of_a_stop_share_the_first_ones_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start_victim(&script, 600000);
    expect_ok(&script, "after 100000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_ok(&script, "after 5000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=6000000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1 attempt=2");
    expect_ok(&script, "report n1 responsive j1 ckpt=1-1 attempt=2");
    expect_times_out_after(&script, "WRITING", 795000);
    expect_job(&script, "j1", RUNNING); /* it answered the first time */
    script_close(&script);
}

/* L4: from when it is one that stops, what it has been given before included */
static void a_checkpoint_that_becomes_a_stop_is_ended_in_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=200000");
    expect_ok(&script, "report n1 responsive j1 ckpt=1-1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=300000");
    expect_ends_after(&script, 1200000);
    script_close(&script);
}

static void start_elastic(struct script *script)
{
    script_start(script);
    expect_ok(script, "register elastic nodes=n1,n2 min=1 max=4 class=3 borrowed home=ml");
}

/* It is to shrink for a reclaim, and its checkpoint is dispatched. */
static void start_shrinking(struct script *script)
{
    start_elastic(script);
    expect_ok(script, "preempt reason=reclaim home=ml need=1");
    expect_ok(script, "grant 1-1 timeout=600000");
}

/* For so long from now on, and no longer, nothing of elastic leaves. */
static void expect_leaves_after(struct script *script, unsigned ms)
{
    expect_ok(script, "after %u", ms - 1);
    expect_ok(script, "tick");
    assert_false(job_of(script, "elastic")->leaving);
    expect_ok(script, "after 1");
    expect_ok(script, "tick");
    assert_true(job_of(script, "elastic")->leaving);
    fsm_check(script->fsm, script_violation, script);
}

/* L4: as of one that stops */
static void a_victim_that_shrinks_late_leaves_in_time(void **unused)
{
    for (int i = 0; i < 3; i++) {
        struct script script;

        (void)unused;
        start_shrinking(&script);
        report_late(&script, "elastic", i);
        expect_leaves_after(&script, i < 2 ? 301000 : 601000);
        script_close(&script);
    }
}

/* L4: the second attempt has what the first one left, and there is no third. */
static void attempts_of_one_that_shrinks_share_the_first_ones_time(void **unused)
{
    struct script script;

    (void)unused;
    start_shrinking(&script);
    expect_ok(&script, "after 500000");
    expect_ok(&script, "report n1 checkpoint_failed elastic ckpt=1-1 reason=write_failed");
    expect_ok(&script, "after 5000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_leaves_after(&script, 95000);
    script_close(&script);
}

/* ... nor is one begun that would have no time. */
static void one_that_shrinks_is_asked_no_more_when_its_time_is_over(void **unused)
{
    struct script script;

    (void)unused;
    start_shrinking(&script);
    expect_ok(&script, "after 599000");
    expect_ok(&script, "report n1 checkpoint_failed elastic ckpt=1-1 reason=write_failed");
    expect_checkpoint(&script, 1, FAILED);
    assert_true(job_of(&script, "elastic")->leaving);
    script_close(&script);
}

/* L4: from when a preemption waits for it, be it one that goes on (0) or that shrinks it anyway
 * (1) */
static void a_checkpoint_that_shrinks_a_victim_from_now_on_ends_in_time(void **unused)
{
    for (int i = 0; i < 2; i++) {
        struct script script;

        (void)unused;
        start_elastic(&script);
        expect_ok(&script, i == 0 ? "request elastic" : "update elastic nodes=n2");
        expect_ok(&script, "grant 1-1 timeout=600000");
        expect_ok(&script, "after 550000");
        expect_ok(&script, "preempt reason=reclaim home=ml need=1");
        expect_ok(&script, "after 49000");
        expect_ok(&script, "report n1 started elastic ckpt=1-1");
        expect_ok(&script, "report n1 responsive elastic ckpt=1-1");
        expect_leaves_after(&script, 851000);
        script_close(&script);
    }
}

/* Nobody waits: the user's own has all of its attempts, and each its time. */
static void a_job_that_shrinks_by_itself_has_its_time(void **unused)
{
    struct script script;

    (void)unused;
    start_elastic(&script);
    expect_ok(&script, "update elastic nodes=n2");
    expect_ok(&script, "grant 1-1 timeout=600000");
    report_late(&script, "elastic", 1);
    expect_leaves_after(&script, 905000);
    script_close(&script);
}

/* L4: the one that shrank it has lost it, and what stops it for another one begins then. */
static void a_victim_that_shrank_has_the_time_of_one_that_stops(void **unused)
{
    struct script script;

    (void)unused;
    start_shrinking(&script);
    expect_ok(&script, "after 500000");
    expect_ok(&script, "report n1 checkpoint_failed elastic ckpt=1-1 reason=write_failed");
    expect_ok(&script, "preempt class=5 need=2");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_times_out_after(&script, "DISPATCHED", 600000);
    script_close(&script);
}

/* P-041, decision 5: SIGTERM, then the end that policy and earlier checkpoints allow */
static void an_unresponsive_victim_fails_unless_it_can_go_on(void **unused)
{
    static const struct {
        const char *spec;
        bool saved_before;
        Ckpt__V1__AllocationState end;
    } rows[] = {
        {"requeue=never", false, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED},
        {"requeue=on_node_failure", false, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED},
        {"requeue=always", false, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED},
        {"requeue=never", true, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;
        int sequence = 1;

        script_start(&script);
        expect_ok(&script, "register j1 nodes=n1 class=1 grace=7000 %s", rows[i].spec);
        if (rows[i].saved_before) {
            expect_ok(&script, "request j1");
            expect_ok(&script, "grant 1-%d timeout=60000", sequence++);
            expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
            expect_ok(&script, "after 3600000");
        }
        expect_ok(&script, "preempt class=5");
        expect_ok(&script, "grant 1-%d timeout=600000", sequence);
        expect_ok(&script, "report n1 started j1 ckpt=1-%d", sequence);
        expect_ok(&script, "after 700000"); /* 600 s and what is added for delivery */
        expect_ok(&script, "tick");
        expect_checkpoint(&script, (uint64_t)sequence, TIMED_OUT);
        assert_true(job_of(&script, "j1")->terminating);
        assert_int_equal(fsm_node_find(script.fsm, "n1")->allocation_count, 1);
        expect_ok(&script, "report n1 terminated j1");
        assert_int_equal(job_of(&script, "j1")->state, rows[i].end);
        script_close(&script);
    }
}

/* P-050 */
static void one_larger_is_preferred_to_many_smaller(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 memory=1");
    expect_ok(&script, "register b nodes=n2 class=1 memory=1");
    expect_ok(&script, "register large nodes=n3,n4 class=1 memory=90000000000");
    expect_ok(&script, "preempt class=5 need=2");
    expect_victims(&script, "large");
    script_close(&script);
}

/* P-050: the third must bring what is missing */
static void a_set_of_at_most_max_victims_covers_the_need(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 6; i++)
        expect_ok(&script, "register small%d nodes=n%d class=1 memory=1", i, i);
    expect_ok(&script, "register wide nodes=m1,m2,m3 class=1 memory=90000000000");
    expect_status(&script, NO_VICTIMS, "preempt class=5 need=6");
    assert_int_equal(summary_of(&script).preemptions_total, 0);
    expect_ok(&script, "preempt class=5 need=5");
    expect_victims(&script, "small0 small1 wide");
    script_close(&script);
}

/* P-022, P-070 */
static void a_victim_that_cannot_checkpoint_is_terminated(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 strategy=none class=6");
    expect_ok(&script, "preempt class=7");
    assert_int_equal(script.outcome.victims[0].checkpoint_id, 0);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    expect_reason(&script, "j1", "preempted_without_checkpoint");
    script_close(&script);
}

/* P-025, I30, I32 */
static void a_preempted_job_is_suspended_and_counts_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1 timeout=60000 bypass bytes=0");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 terminated j1");
    assert_int_equal(fsm_node_find(script.fsm, "n2")->allocation_count, 1);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    assert_int_equal(fsm_node_find(script.fsm, "n2")->allocation_count, 0);
    assert_int_equal(job_of(&script, "j1")->preempted_count, 1);
    script_close(&script);
}

/* L4: a retry does not go beyond the first attempt's time */
static void a_failing_victim_is_terminated_in_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1 requeue=never");
    expect_ok(&script, "preempt class=5 forced");
    expect_ok(&script, "grant 1-1 timeout=3000");
    expect_ok(&script, "after 2500");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_checkpoint(&script, 1, FAILED);
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* S1-066: also one that was to stop with a checkpoint when the storage went away */
static void a_paused_victim_can_be_forced(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "target scratch down");
    expect_status(&script, CHECKPOINTING, "preempt class=6 nodes=j1");
    expect_ok(&script, "preempt class=6 nodes=j1 forced");
    expect_checkpoint(&script, 1, SUPERSEDED);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    script_close(&script);
}

/* Decision 6: a flag raises the cost, it does not protect */
static void a_job_that_did_not_answer_is_dearer_not_safe(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register silent nodes=n1 class=1");
    expect_ok(&script, "register good nodes=n2 class=1");
    expect_ok(&script, "request silent");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "after 600000");
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "silent")->unresponsive);
    expect_ok(&script, "preempt class=5");
    expect_victims(&script, "good");
    expect_ok(&script, "preempt class=5");
    expect_victims(&script, "silent");
    script_close(&script);
}

/* P-003, P-015, P-050: whoever can give what is missing is found among any number of jobs, wherever
 * it stands among them, and the cheapest of all is taken. */
static void victims_are_found_among_any_number_of_jobs(void **unused)
{
    enum { CROWD = 66000, NODES = 4000 };
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true; /* sixty-six thousand times the whole state */
    for (int i = 0; i < CROWD; i++)
        expect_ok(&script, "register crowd%d nodes=n%d class=1 memory=2000000000", i, i % NODES);
    expect_ok(&script, "register cheap nodes=n7 class=1 memory=1000000000");
    expect_ok(&script, "register far nodes=far1 class=1 memory=9000000000");
    expect_ok(&script, "register wide1 nodes=w1,w2 class=1 memory=9000000000");
    expect_ok(&script, "register wide2 nodes=w3,w4 class=3 memory=9000000000");
    expect_ok(&script, "register wide3 nodes=w5,w6 class=4 memory=9000000000");
    fsm_check(script.fsm, script_violation, &script);

    expect_status(&script, NO_VICTIMS, "preempt class=4 need=6");
    assert_int_equal(script.outcome.current, 5); /* two and two and one */
    expect_ok(&script, "preempt class=5 need=1");
    expect_victims(&script, "cheap");
    expect_ok(&script, "preempt class=5 need=1 useful=far1");
    expect_victims(&script, "far");
    expect_ok(&script, "preempt class=5 need=6");
    expect_victims(&script, "wide1 wide2 wide3");
    expect_status(&script, NO_VICTIMS, "preempt class=5 need=4");

    expect_ok(
        &script,
        "cancel 1-1"); /* of all the jobs that each looks for another among, one Tick serves the first */
    expect_ok(&script, "cancel 1-3");
    expect_ok(&script, "tick");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "tick");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "tick");
    assert_int_equal(script.outcome.current, 0);
    fsm_check(script.fsm, script_violation, &script);
    script_close(&script);
}

/* S1-066: what it was to give up is forgotten when it is to stop, and nothing can be written now */
static void a_forced_victim_that_stops_instead_of_shrinking_does_not_wait(void **unused)
{
    const struct fsm_preemption *preemption;
    struct script script;

    (void)unused;
    start_elastic(&script);
    expect_ok(&script, "preempt reason=reclaim home=ml need=1 forced");
    expect_ok(&script, "request elastic after=stop");
    expect_ok(&script, "target scratch down");
    preemption = fsm_preemption_next(script.fsm, 0);
    expect_ok(&script, "at %" PRIu64, preemption->deadline_ms);
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "elastic")->terminating);
    assert_true(fsm_next_deadline_ms(script.fsm) > script.now_ms);
    for (int i = 1; i <= 2; i++)
        expect_ok(&script, "report n%d terminated elastic", i);
    expect_job(&script, "elastic", FAILED);
    assert_int_equal(preemption->state, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    script_close(&script);
}

/* Of the cheapest with each amount, and of the largest, the same set comes as of all. GPUs beyond
 * 4,096 are told apart in steps: a set that needs the larger of a step is found as well. */
static void gpus_by_the_thousand_are_covered_to_the_last(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 8; i++)
        expect_ok(&script,
                  "register j%d nodes=a%d,b%d,c%d,d%d,e%d gpus=1000 class=1 memory=%d00000000", i,
                  i, i, i, i, i, 8 - i);
    expect_ok(&script, "register large nodes=a9,b9,c9,d9,e9 gpus=1001 class=1 memory=9000000000");
    expect_ok(&script, "preempt class=5 need=0 gpus=15005");
    expect_victims(&script, "j7 j6 large");
    script_close(&script);
}

/* stuck is chosen and cannot write, so that it goes on and another one stops. */
static void turn_back(struct script *script, unsigned checkpoint)
{
    expect_ok(script, "preempt class=5");
    expect_victims(script, "stuck");
    expect_checkpoint(script, checkpoint, REQUESTED);
    expect_ok(script, "target scratch down");
    expect_ok(script, "at %" PRIu64, fsm_next_deadline_ms(script->fsm));
    expect_ok(script, "tick");
    expect_job(script, "stuck", RUNNING);
}

/* S1-094: what was for the last safe slot stopped a victim, and does not any more; the walltime
 * ends no later for that. */
static void a_victim_that_was_turned_back_gets_its_last_safe_slot_again(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register stuck nodes=n1 class=1 memory=1 walltime=100000000");
    expect_ok(&script, "register spare nodes=n2 class=1 target=other");
    expect_ok(&script, "decide stuck purpose=walltime");
    turn_back(&script, 1);
    expect_checkpoint(&script, 1, PAUSED);
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
    assert_false(fsm_grant_urgent(checkpoint_of(&script, 1)));
    expect_ok(&script, "target scratch up");
    expect_ok(&script, "decide stuck purpose=walltime");
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(fsm_grant_urgent(checkpoint_of(&script, 1)));
    assert_true(job_of(&script, "stuck")->walltime_asked);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified stuck ckpt=1-1");
    expect_checkpoint(&script, 1, COMPLETE);
    expect_ok(&script, "decide stuck purpose=walltime"); /* once */
    assert_int_equal(job_of(&script, "stuck")->active_checkpoint_id, 0);
    script_close(&script);
}

/* Its last safe slot was complete, and stuck a victim after that. */
static void turn_back_after_slot(struct script *script, const char *between)
{
    script_start(script);
    expect_ok(script, "register stuck nodes=n1 class=1 memory=1 walltime=100000000");
    expect_ok(script, "register spare nodes=n2 class=1 target=other");
    expect_ok(script, "decide stuck purpose=walltime");
    expect_ok(script, "grant 1-1");
    expect_ok(script, "report n1 shard_verified stuck ckpt=1-1");
    expect_checkpoint(script, 1, COMPLETE);
    expect_ok(script, "after 60000");
    if (between != NULL) {
        expect_ok(script, "%s", between);
        expect_ok(script, "decide stuck purpose=walltime");
    }
    turn_back(script, 2);
    expect_ok(script, "target scratch up");
    expect_ok(script, "decide stuck purpose=walltime");
}

/* S1-094: what waits saves the work since then, and is hurried. No other one begins for that, and
 * this once. */
static void a_victim_that_was_turned_back_after_its_last_safe_slot_is_hurried_once(void **unused)
{
    struct script script;

    (void)unused;
    turn_back_after_slot(&script, NULL);
    assert_int_equal(checkpoint_of(&script, 2)->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(fsm_grant_urgent(checkpoint_of(&script, 2)));
    assert_true(job_of(&script, "stuck")->walltime_asked);
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified stuck ckpt=1-2");
    expect_checkpoint(&script, 2, COMPLETE);
    expect_ok(&script, "decide stuck purpose=walltime");
    assert_int_equal(job_of(&script, "stuck")->active_checkpoint_id, 0);
    script_close(&script);
}

/* S1-094: the one that was complete was before another end of it. */
static void a_victim_that_was_turned_back_gets_the_slot_of_another_walltime(void **unused)
{
    struct script script;

    (void)unused;
    turn_back_after_slot(&script, "update stuck walltime=200000000");
    assert_int_equal(checkpoint_of(&script, 2)->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(fsm_grant_urgent(checkpoint_of(&script, 2)));
    script_close(&script);
}

/* I36: its grant was proposed while it was a victim's, and comes when it is not any more. */
static void a_victim_that_was_turned_back_passes_no_budget(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register stuck nodes=n1 class=1 memory=1");
    expect_ok(&script, "register spare nodes=n2 class=1 target=other");
    turn_back(&script, 1);
    expect_ok(&script, "target scratch up");
    assert_false(fsm_grant_urgent(checkpoint_of(&script, 1)));
    expect_ok(&script, "register writer nodes=n3");
    expect_ok(&script, "request writer");
    expect_ok(&script, "grant 1-3 bytes=%" PRIu64,
              fsm_target_find(script.fsm, "scratch")->budget_bytes_per_s);
    expect_status(&script, BUDGET_EXCEEDED, "grant 1-1 bytes=1 bypass");
    expect_ok(&script, "report n3 shard_verified writer ckpt=1-3");
    expect_ok(&script, "grant 1-1 bytes=1 bypass");
    expect_ok(&script, "register late nodes=n4");
    expect_ok(&script, "request late");
    expect_status(&script, BUDGET_EXCEEDED, "grant 1-4 bytes=%" PRIu64,
                  fsm_target_find(script.fsm, "scratch")->budget_bytes_per_s);
    script_close(&script);
}

/* Most demands come while the queue of a job's vCluster is busy; they are counted apart, as long as
 * the report of it is young. */
static void demands_are_counted_by_whether_the_queue_is_busy(void **unused)
{
    static const struct {
        const char *queue;
        uint64_t later_ms;
        bool busy;
    } cases[] = {{"queue hpc queued=499 running=1000", 0, false},
                 {"queue hpc queued=501 running=1000", 0, true},
                 {"queue hpc queued=0 running=1000 waiting", 0, true},
                 {"queue other queued=501 running=1000", 0, false},
                 {"queue hpc queued=501 running=1000", 300000, true},
                 {"queue hpc queued=501 running=1000", 300001, false}};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t group = cases[i].busy ? FSM_GROUPS_CALM + 2 : 2;
        struct fsm_losses losses;

        script_start(&script);
        expect_ok(&script, "register j1 nodes=n1 class=2 vcluster=hpc");
        expect_ok(&script, cases[i].queue);
        script.now_ms += cases[i].later_ms;
        expect_ok(&script, "preempt class=5");
        expect_victims(&script, "j1");
        fsm_get_losses(script.fsm, &losses);
        for (uint32_t k = 0; k < FSM_GROUPS; k++)
            assert_int_equal(losses.demands[k], k == group);
        script_close(&script);
    }
}

/* What its application did by itself is counted: such a job's hazard is not that of its nodes. */
static void deaths_of_the_application_are_counted(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    assert_int_equal(job_of(&script, "j1")->death_count, 0);
    expect_ok(&script, "report n1 application_exited j1 status=1 restart");
    assert_int_equal(job_of(&script, "j1")->death_count, 1);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_of_the_lowest_class_is_chosen),
        cmocka_unit_test(a_victim_costs_its_checkpoint_and_what_it_would_repeat),
        cmocka_unit_test(a_victim_near_its_end_is_dear_and_a_young_one_cheap),
        cmocka_unit_test(a_victim_that_defers_for_ever_is_forced),
        cmocka_unit_test(a_victim_that_is_asked_late_is_ended_in_time),
        cmocka_unit_test(attempts_of_a_stop_share_the_first_ones_time),
        cmocka_unit_test(a_checkpoint_that_becomes_a_stop_is_ended_in_time),
        cmocka_unit_test(a_victim_that_shrinks_late_leaves_in_time),
        cmocka_unit_test(attempts_of_one_that_shrinks_share_the_first_ones_time),
        cmocka_unit_test(one_that_shrinks_is_asked_no_more_when_its_time_is_over),
        cmocka_unit_test(a_checkpoint_that_shrinks_a_victim_from_now_on_ends_in_time),
        cmocka_unit_test(a_job_that_shrinks_by_itself_has_its_time),
        cmocka_unit_test(a_victim_that_shrank_has_the_time_of_one_that_stops),
        cmocka_unit_test(an_unresponsive_victim_fails_unless_it_can_go_on),
        cmocka_unit_test(one_larger_is_preferred_to_many_smaller),
        cmocka_unit_test(a_set_of_at_most_max_victims_covers_the_need),
        cmocka_unit_test(a_victim_that_cannot_checkpoint_is_terminated),
        cmocka_unit_test(a_preempted_job_is_suspended_and_counts_it),
        cmocka_unit_test(a_failing_victim_is_terminated_in_time),
        cmocka_unit_test(a_paused_victim_can_be_forced),
        cmocka_unit_test(a_forced_victim_that_stops_instead_of_shrinking_does_not_wait),
        cmocka_unit_test(victims_are_found_among_any_number_of_jobs),
        cmocka_unit_test(gpus_by_the_thousand_are_covered_to_the_last),
        cmocka_unit_test(a_job_that_did_not_answer_is_dearer_not_safe),
        cmocka_unit_test(a_victim_that_was_turned_back_gets_its_last_safe_slot_again),
        cmocka_unit_test(a_victim_that_was_turned_back_after_its_last_safe_slot_is_hurried_once),
        cmocka_unit_test(a_victim_that_was_turned_back_gets_the_slot_of_another_walltime),
        cmocka_unit_test(a_victim_that_was_turned_back_passes_no_budget),
        cmocka_unit_test(demands_are_counted_by_whether_the_queue_is_busy),
        cmocka_unit_test(deaths_of_the_application_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
