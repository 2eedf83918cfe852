/* What parts say of the checkpoint that their run begins from. */
#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "tests/unit/fsm/expect.h"

static struct allocation *job(struct script *script)
{
    return allocation_edit(script->fsm, allocation_find(script->fsm, "j1"));
}

/* A job of two nodes with a complete checkpoint, from which this run is to begin. */
static void start_from_checkpoint(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2");
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(script, "report n2 shard_verified j1 ckpt=1-1");
    expect_checkpoint(script, 1, COMPLETE);
    job(script)->view.restart_id = checkpoint_id_make(1, 1);
}

static void a_part_says_what_it_has_restored(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 restored j1 restored=1-7"); /* another one */
    assert_false(job(&script)->assignments[0].restored);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    assert_true(job(&script)->assignments[0].restored);
    assert_false(job(&script)->assignments[1].restored);
    expect_ok(&script, "report n1 restored j1 restored=1-1"); /* said twice */
    assert_uint_equal(job(&script)->restored_count, 1);
    script_restore(&script);
    assert_uint_equal(job(&script)->restored_count, 1);
    job(&script)->assignments[1].joined = true; /* it restores nothing */
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    assert_false(job(&script)->assignments[1].restored);
    script_close(&script);
}

static void a_checkpoint_that_is_found_damaged_stays_so(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-7");
    assert_false(checkpoint_of(&script, 1)->damaged);
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-1");
    assert_true(checkpoint_of(&script, 1)->damaged);
    script_restore(&script);
    assert_true(checkpoint_of(&script, 1)->damaged);
    script_close(&script);
}

/* They are about what is to begin: what is to end has not ended by that. */
static void what_is_to_end_does_not_end_by_these_words(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "preempt class=9 forced need=2");
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-1");
    assert_false(job(&script)->assignments[0].terminated);
    assert_false(job(&script)->assignments[1].terminated);
    expect_ok(&script, "report n1 terminated j1");
    assert_true(job(&script)->assignments[0].terminated);
    script_close(&script);
}

/* A restart begins anew; a part that stays keeps what it said. */
static void a_restart_forgets_it_and_another_set_of_nodes_does_not(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n2,n1,n3");
    assert_true(job(&script)->assignments[0].restored);
    assert_false(job(&script)->assignments[1].restored);
    assert_false(job(&script)->assignments[2].restored);
    assert_uint_equal(job(&script)->restored_count, 1);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    assert_false(job(&script)->assignments[0].restored || job(&script)->assignments[1].restored);
    assert_uint_equal(job(&script)->restored_count, 0);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_says_what_it_has_restored),
        cmocka_unit_test(a_checkpoint_that_is_found_damaged_stays_so),
        cmocka_unit_test(what_is_to_end_does_not_end_by_these_words),
        cmocka_unit_test(a_restart_forgets_it_and_another_set_of_nodes_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
