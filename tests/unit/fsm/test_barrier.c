/* What nodes say of the ranks of an attempt: who agrees on a step with the others, who knows that
 * it is asked, which step it can meet first. */
#include "tests/unit/fsm/expect.h"

static const struct fsm_shard *shard_of(const struct script *script, uint32_t i)
{
    const struct fsm_checkpoint *checkpoint = checkpoint_of(script, 1);

    assert_true(i < checkpoint->shard_count);
    return &checkpoint->shards[i];
}

static void start_writing(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2");
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
}

static void a_node_says_where_its_ranks_are(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n2 started j1 ckpt=1-1");
    assert_true(shard_of(&script, 0)->barrier);
    assert_false(shard_of(&script, 1)->barrier);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
    assert_true(shard_of(&script, 0)->aware);
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=127");
    assert_uint_equal(shard_of(&script, 0)->step, 127);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=131"); /* said once */
    assert_uint_equal(shard_of(&script, 0)->step, 127);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=5"); /* its ranks take no part */
    assert_false(shard_of(&script, 1)->aware);
    assert_uint_equal(shard_of(&script, 1)->step, 0);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 ranks=4");
    assert_uint_equal(shard_of(&script, 0)->ranks, 4);
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 ranks=300");
    assert_uint_equal(shard_of(&script, 1)->ranks, FSM_RANKS_PER_NODE_MAX);
    expect_checkpoint(&script, 1, COMPLETE);
    script_close(&script);
}

static void the_next_attempt_knows_nothing_of_it(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=127");
    expect_ok(&script, "report n2 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_false(shard_of(&script, 0)->barrier || shard_of(&script, 0)->aware);
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    expect_ok(&script, "report n1 stopped_writing j1 ckpt=1-1");
    expect_ok(&script, "report n2 stopped_writing j1 ckpt=1-1");
    script_run(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 attempt=1 step=9"); /* of the one before */
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_says_where_its_ranks_are),
        cmocka_unit_test(the_next_attempt_knows_nothing_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
