/* What may be collected, and what never is. */
#include "tests/unit/fsm/expect.h"

static void complete(struct script *script, uint64_t sequence)
{
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-%d bytes=1", (int)sequence);
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-%d", (int)sequence);
    expect_checkpoint(script, sequence, COMPLETE);
}

static size_t collectable(const struct script *script)
{
    uint64_t ids[128];

    return fsm_collectable(script->fsm, ids, 128);
}

/* D-004, I28, I29 */
static void the_newest_ones_of_a_running_job_are_kept(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t i = 1; i <= 4; i++)
        complete(&script, i);
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 2);
    expect_ok(&script, "collected 1-1 1-2 1-3 1-4");
    assert_int_equal(script.outcome.current, 2);
    expect_checkpoint(&script, 1, COLLECTED);
    expect_checkpoint(&script, 3, COMPLETE);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", checkpoint_id_make(1, 4))->id,
                     checkpoint_id_make(1, 3));
    script_close(&script);
}

static void failed_attempts_leave_a_folder_to_collect(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy timeout=10000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "cancel 1-1");
    assert_int_equal(collectable(&script), 0); /* the agent may still write */
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 1);
    expect_ok(&script, "collected 1-1");
    expect_checkpoint(&script, 1, CANCELLED); /* one terminal state (I23) */
    assert_int_equal(collectable(&script), 0);
    script_close(&script);
}

/* K-007: bounded records; old complete ones expire early rather than block new ones */
static void records_of_an_allocation_are_bounded(void **unused)
{
    struct script script;
    uint64_t sequence;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (sequence = 1; sequence <= 64; sequence++)
        complete(&script, sequence);
    assert_int_equal(collectable(&script), 32);
    expect_status(&script, TOO_LARGE, "request j1");
    expect_ok(&script, "collected 1-1 1-2 1-3");
    complete(&script, 65);
    assert_null(fsm_checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_int_equal(summary_of(&script).checkpoint_count, 64);
    script_close(&script);
}

static void ended_jobs_leave_when_their_folders_are_gone(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_non_null(fsm_allocation_find(script.fsm, "j1"));
    expect_ok(&script, "collected 1-1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_int_equal(summary_of(&script).checkpoint_count, 0);
    expect_ok(&script, "register j1 nodes=n1");
    script_close(&script);
}

/* I26 */
static void ids_are_never_used_twice(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000 keep=1");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 2));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_ones_of_a_running_job_are_kept),
        cmocka_unit_test(failed_attempts_leave_a_folder_to_collect),
        cmocka_unit_test(records_of_an_allocation_are_bounded),
        cmocka_unit_test(ended_jobs_leave_when_their_folders_are_gone),
        cmocka_unit_test(ids_are_never_used_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
