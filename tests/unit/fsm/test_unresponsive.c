/* What becomes of a job whose application did not answer: it is treated as one that writes no
 * checkpoints. */
#include "tests/unit/fsm/expect.h"

/* S1-033: who did not answer is not waited for again, until a checkpoint of it completes. */
static void who_did_not_answer_is_ended_at_once_until_it_answers_again(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 requeue=always");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified a ckpt=1-1");
    for (int i = 0; i < 2; i++) {
        expect_ok(&script, "request a");
        expect_ok(&script, "grant 1-%d timeout=60000", 2 + 2 * i);
        expect_ok(&script, "after 60000");
        expect_ok(&script, "tick");
        assert_true(job_of(&script, "a")->unresponsive);
        if (i == 0) { /* it answers again */
            expect_ok(&script, "request a");
            expect_ok(&script, "grant 1-3");
            expect_ok(&script, "report n1 shard_verified a ckpt=1-3");
            assert_false(job_of(&script, "a")->unresponsive);
        }
    }
    expect_ok(&script, "after 600000");
    expect_ok(&script, "preempt class=5");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    assert_true(job_of(&script, "a")->terminating);
    expect_ok(&script, "report n1 terminated a");
    expect_job(&script, "a", SUSPENDED); /* it goes back to what it has */
    expect_reason(&script, "a", "preempted_without_checkpoint");
    expect_ok(&script, "restart a");
    assert_true(job_of(&script, "a")->unresponsive); /* it is the same application */
    script_close(&script);
}

/* The nodes that it gives back are not waited for either. */
static void who_did_not_answer_shrinks_without_a_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1,n2 class=1 min=1 max=2 kind=service borrowed");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "a")->unresponsive);
    expect_ok(&script, "preempt class=5 need=1");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    assert_true(job_of(&script, "a")->leaving || job_of(&script, "a")->terminating);
    script_close(&script);
}

/* By the clock of the script, from the end of the last attempt. */
static bool asks(struct script *script, const char *purpose)
{
    uint64_t skipped = summary_of(script).skipped_decisions;

    expect_ok(script, "decide a purpose=%s after=continue", purpose);
    return summary_of(script).skipped_decisions == skipped;
}

static void ask_in_vain(struct script *script, int id)
{
    expect_ok(script, "grant 1-%d timeout=60000", id);
    expect_ok(script, "after 60000");
    expect_ok(script, "tick");
    expect_checkpoint(script, (uint64_t)id, TIMED_OUT);
    assert_true(job_of(script, "a")->unresponsive);
}

/* S1-033: only by being asked can it show that it answers again, and each question in vain holds
 * bandwidth for a whole timeout: the pause between two doubles, up to the longest interval. */
static void who_did_not_answer_is_asked_more_and_more_rarely(void **unused)
{
    struct script script;
    uint64_t minute_ms = 60000, waited_ms;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=%" PRIu64 " max_interval=%" PRIu64, 5 * minute_ms,
              60 * minute_ms);
    expect_ok(&script, "register a nodes=n1");
    expect_ok(&script, "after %" PRIu64, 9 * minute_ms);
    assert_true(asks(&script, "periodic"));
    ask_in_vain(&script, 1); /* 10 min since it began */
    for (int i = 2; i <= 4; i++) {
        static const uint64_t pauses_min[] = {10, 21, 43};

        waited_ms = pauses_min[i - 2] * minute_ms;
        assert_uint_equal(fsm_attempt_interval_ms(script.fsm, job_of(&script, "a")), waited_ms);
        expect_ok(&script, "after %" PRIu64, waited_ms - 1);
        assert_false(asks(&script, "periodic"));
        assert_false(asks(&script, "proactive"));
        expect_ok(&script, "after 1");
        assert_true(asks(&script, i == 3 ? "proactive" : "periodic"));
        ask_in_vain(&script, i);
    }
    assert_uint_equal(fsm_attempt_interval_ms(script.fsm, job_of(&script, "a")), 60 * minute_ms);
    expect_ok(&script, "request a"); /* who asks by hand asks at once */
    expect_ok(&script, "grant 1-5");
    expect_ok(&script, "report n1 shard_verified a ckpt=1-5");
    assert_false(job_of(&script, "a")->unresponsive);
    assert_uint_equal(fsm_attempt_interval_ms(script.fsm, job_of(&script, "a")), 5 * minute_ms);
    script_close(&script);
}

/* What starts anew has not been asked yet. */
static void a_restart_is_asked_after_the_usual_interval(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 requeue=always");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified a ckpt=1-1");
    expect_ok(&script, "after 7200000");
    expect_ok(&script, "request a");
    ask_in_vain(&script, 2);
    assert_true(fsm_attempt_interval_ms(script.fsm, job_of(&script, "a")) >
                fsm_policy(script.fsm)->min_interval_ms);
    expect_ok(&script, "end a failed");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "restart a");
    expect_ok(&script, "report n1 application_started a from=1-1");
    assert_true(job_of(&script, "a")->unresponsive);
    assert_uint_equal(fsm_attempt_interval_ms(script.fsm, job_of(&script, "a")),
                      fsm_policy(script.fsm)->min_interval_ms);
    script_close(&script);
}

/* A move asks it as well, and is no oftener; somebody waits for what a preemption makes room for.
 * By hand it can be had. */
static void who_did_not_answer_is_moved_as_rarely_and_never_preempted_by_a_decision(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 requeue=always");
    expect_ok(&script, "node n6 ready");
    expect_ok(&script, "after 7200000");
    expect_ok(&script, "request a");
    ask_in_vain(&script, 1);
    expect_ok(&script, "after 7200000");
    assert_true(fsm_move_too_soon(script.fsm, job_of(&script, "a")));
    expect_ok(&script, "decide a purpose=migrate spare=n6");
    expect_ok(&script, "decide a purpose=preempt");
    assert_uint_equal(summary_of(&script).skipped_decisions, 2);
    expect_job(&script, "a", RUNNING);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "decide a purpose=preempt");
    assert_uint_equal(summary_of(&script).skipped_decisions, 3);
    assert_false(fsm_move_too_soon(script.fsm, job_of(&script, "a")));
    assert_true(asks(&script, "walltime")); /* it comes once, and nobody waits for it */
    expect_ok(&script, "cancel 1-2");
    expect_ok(&script, "migrate a");
    expect_job(&script, "a", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

/* S1-033: neither are nodes that are leaving already, when somebody needs them now. */
static void what_leaves_already_is_not_waited_for(void **unused)
{
    struct script script;

    (void)unused;
    for (int silent = 0; silent < 2; silent++) {
        script_start(&script);
        expect_ok(&script, "register a nodes=n1,n2,n3 gpus=4 min=1 borrowed");
        if (silent == 1) {
            expect_ok(&script, "request a");
            ask_in_vain(&script, 1);
        }
        expect_ok(&script, "update a nodes=n1,n2 gpus=4 borrowed"); /* by hand it is asked */
        assert_true(job_of(&script, "a")->next_count > 0);
        assert_true(job_of(&script, "a")->active_checkpoint_id != 0);
        expect_ok(&script, "preempt reason=reclaim useful=n3 nodes=a");
        assert_int_equal(script.outcome.victims[0].checkpoint_id == 0, silent);
        assert_int_equal(job_of(&script, "a")->leaving, silent);
        script_close(&script);
    }
}

/* S1-033: one that hangs holds bandwidth for its whole timeout. */
static void who_did_not_answer_has_to_prove_itself_again(void **unused)
{
    struct script script;
    uint32_t parts;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified a ckpt=1-1");
    assert_false(fsm_allocation_unproven(job_of(&script, "a")));
    expect_ok(&script, "request a");
    ask_in_vain(&script, 2);
    assert_true(fsm_allocation_unproven(job_of(&script, "a")));
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-3 bytes=3000000");
    assert_uint_equal(fsm_target_unproven_rate(script.fsm, 0, &parts), 3000000);
    expect_ok(&script, "report n1 shard_verified a ckpt=1-3");
    assert_false(fsm_allocation_unproven(job_of(&script, "a")));
    script_close(&script);
}

/* S1-033: another strategy is another way of asking. */
static void another_strategy_is_asked_as_if_nothing_had_been(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "request a");
    ask_in_vain(&script, 1);
    expect_ok(&script, "update a walltime=86400000");
    assert_true(job_of(&script, "a")->unresponsive); /* no word of the strategy */
    expect_ok(&script, "update a strategy=manual");
    assert_false(job_of(&script, "a")->unresponsive);
    expect_ok(&script, "after 600000");
    expect_ok(&script, "preempt class=5");
    assert_true(script.outcome.victims[0].checkpoint_id != 0);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_did_not_answer_is_ended_at_once_until_it_answers_again),
        cmocka_unit_test(who_did_not_answer_shrinks_without_a_checkpoint),
        cmocka_unit_test(who_did_not_answer_is_asked_more_and_more_rarely),
        cmocka_unit_test(a_restart_is_asked_after_the_usual_interval),
        cmocka_unit_test(who_did_not_answer_is_moved_as_rarely_and_never_preempted_by_a_decision),
        cmocka_unit_test(what_leaves_already_is_not_waited_for),
        cmocka_unit_test(who_did_not_answer_has_to_prove_itself_again),
        cmocka_unit_test(another_strategy_is_asked_as_if_nothing_had_been),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
