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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_did_not_answer_is_ended_at_once_until_it_answers_again),
        cmocka_unit_test(who_did_not_answer_shrinks_without_a_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
