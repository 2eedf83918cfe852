/* An application's own word of how long its checkpoint takes: in the state, and in what a victim
 * costs. */
#include "tests/unit/fsm/expect.h"

/* S1-040: the slowest part's word of this attempt is kept, the job's last one too. A word beyond
 * the longest timeout is none, and a part that said it twice began once. */
static void what_an_application_expects_is_kept(void **unused)
{
    struct script script;
    uint64_t snapshot_at_ms;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    assert_int_equal(checkpoint_of(&script, 1)->told_write_ms, 0);
    snapshot_at_ms = checkpoint_of(&script, 1)->snapshot_at_ms;
    expect_ok(&script, "report n1 started j1 ckpt=1-1 age=5000 told=604800001");
    assert_int_equal(checkpoint_of(&script, 1)->told_write_ms, 0);
    script.now_ms += 10;
    expect_ok(&script, "report n1 started j1 ckpt=1-1 age=5000 told=30000");
    assert_int_equal(checkpoint_of(&script, 1)->told_write_ms, 30000);
    assert_int_equal(checkpoint_of(&script, 1)->snapshot_at_ms, snapshot_at_ms);
    expect_ok(&script, "report n2 started j1 ckpt=1-1 told=20000"); /* its first word */
    assert_int_equal(checkpoint_of(&script, 1)->told_write_ms, 30000);
    assert_true(checkpoint_of(&script, 1)->shards[1].started);
    assert_int_equal(job_of(&script, "j1")->told_write_ms, 30000);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    assert_int_equal(checkpoint_of(&script, 1)->told_write_ms, 0);
    assert_int_equal(job_of(&script, "j1")->told_write_ms, 30000);
    script_close(&script);
}

static uint64_t cost_of(const struct script *script, const char *name)
{
    uint64_t cost = 0;

    assert_int_equal(fsm_victim_outlook(script->fsm, job_of(script, name), &cost), FSM_OK);
    return cost;
}

/* S1-040: a job without a complete checkpoint costs by the longer of its application's word and of
 * size over storage (1 s). The word counts to the timeout: no job is spared by it alone. */
static void a_job_costs_what_its_application_expects(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 timeout=60000 memory=2000000000");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started a ckpt=1-1 told=500");
    assert_true(cost_of(&script, "a") == UINT64_C(1000) * 8);
    expect_ok(&script, "report n1 started a ckpt=1-1 told=30000");
    assert_true(cost_of(&script, "a") == UINT64_C(30000) * 8);
    expect_ok(&script, "report n1 started a ckpt=1-1 told=604800000");
    assert_true(cost_of(&script, "a") == UINT64_C(60000) * 8);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_application_expects_is_kept),
        cmocka_unit_test(a_job_costs_what_its_application_expects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
