/* Nodes that are being emptied: what they still take, and when they are empty. L-001, L-002 */
#include "tests/unit/fsm/expect.h"

static void start(struct script *script, const char *level)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    for (int i = 1; i <= 4; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
}

/* NODE_DRAINED events of the node. */
static uint32_t drained(const struct script *script, const char *node)
{
    const Ckpt__V1__Event *event;
    uint64_t after = 0;
    uint32_t count = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        count += event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_DRAINED &&
                 strcmp(event->subject, node) == 0;
    }
    return count;
}

/* L-001: neither a registration nor an update nor a restart brings a job there. A job that is there
 * may be updated. */
static void nothing_new_comes_to_a_draining_node(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2 requeue=always");
    expect_ok(&script, "register k nodes=n3 requeue=always");
    expect_ok(&script, "drain n1");
    expect_status(&script, NODE_DRAINING, "register l nodes=n4,n1");
    assert_string_equal(script.outcome.subject, "n1");
    expect_status(&script, NODE_DRAINING, "update k nodes=n3,n1");
    expect_ok(&script, "update j nodes=n1,n2,n4");
    expect_ok(&script, "end j failed");
    expect_status(&script, NODE_DRAINING, "restart j from_scratch");
    assert_string_equal(script.outcome.subject, "n1");
    expect_status(&script, NODE_DRAINING, "restart j nodes=n1,n2 from_scratch");
    expect_ok(&script, "drain n1 undo");
    expect_ok(&script, "register l nodes=n1");
    script_close(&script);

    start(&script, "level=1"); /* as the release before decides */
    expect_ok(&script, "drain n1");
    expect_ok(&script, "register l nodes=n1");
    script_close(&script);
}

/* L-002: told once, when the last job has given the node back. */
static void a_node_is_drained_when_its_last_job_has_left(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2 min=1 max=2 restore=all");
    expect_ok(&script, "register k nodes=n1");
    expect_ok(&script, "drain n4");
    assert_int_equal(drained(&script, "n4"), 1); /* nothing was there */
    expect_ok(&script, "drain n1");
    expect_ok(&script, "end k");
    assert_int_equal(drained(&script, "n1"), 0);
    expect_ok(&script, "drain n2");
    expect_ok(&script, "update j nodes=n1 force");
    assert_int_equal(drained(&script, "n2"), 1);
    assert_int_equal(drained(&script, "n1"), 0); /* it was named again */
    expect_ok(&script, "end j");
    assert_int_equal(drained(&script, "n1"), 1);
    assert_int_equal(drained(&script, "n2"), 1);
    script_close(&script);

    start(&script, "level=1");
    expect_ok(&script, "drain n4");
    assert_int_equal(drained(&script, "n4"), 0);
    script_close(&script);
}

/* L-002: what is there leaves with a checkpoint, without a move of anybody's; a job for which none
 * can be asked for yet leaves with its next one. Another node's drain does not move it twice. */
static void jobs_leave_with_a_checkpoint(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2 requeue=never");
    expect_ok(&script, "register k nodes=n1");
    expect_ok(&script, "request k");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started k ckpt=1-1"); /* its files are being written */
    expect_ok(&script, "drain n1 move");
    assert_true(script.outcome.current == 1 && script.outcome.limit == 2);
    expect_job(&script, "j", CHECKPOINTING_TO_STOP);
    expect_job(&script, "k", RUNNING);
    expect_ok(&script, "report n1 shard_verified k ckpt=1-1"); /* it leaves with that one */
    assert_true(job_of(&script, "k")->terminating);
    expect_ok(&script, "report n1 terminated k");
    expect_job(&script, "k", REQUEUED);
    assert_int_equal(job_of(&script, "k")->reason, CKPT__V1__REASON__REASON_MIGRATED);
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-2");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-2");
    expect_ok(&script, "report n1 terminated j");
    assert_int_equal(drained(&script, "n1"), 0);
    expect_ok(&script, "report n2 terminated j");
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(drained(&script, "n1"), 1);
    expect_ok(&script, "restart j nodes=n2,n3");
    script_close(&script);
}

/* Nothing is asked for: what the evaluator, or a person, asks for anyway is the last one there. */
static void jobs_leave_with_their_next_checkpoint(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2 requeue=always");
    expect_ok(&script, "register k nodes=n3");
    expect_ok(&script, "drain n2 next");
    assert_int_equal(job_of(&script, "j")->active_checkpoint_id, 0);
    script_restore(&script);
    expect_ok(&script, "request j");
    expect_ok(&script, "request k");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n3 shard_verified k ckpt=1-2");
    expect_job(&script, "k", RUNNING); /* it is on no node that is drained */
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    assert_false(job_of(&script, "j")->terminating);
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    assert_true(job_of(&script, "j")->terminating);
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "report n2 terminated j");
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(drained(&script, "n2"), 1);
    expect_ok(&script, "drain n2 undo");
    expect_ok(&script, "restart j"); /* the way is over with the drain */
    expect_ok(&script, "report n1 application_started j restored=1-1");
    expect_ok(&script, "report n2 application_started j restored=1-1");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-3");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-3");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-3");
    assert_false(job_of(&script, "j")->terminating);
    script_close(&script);
}

/* Jobs that are there when the deadline comes are ended, also under another leader; a node that was
 * taken back, or drained anew without one, has none any more. */
static void a_deadline_ends_what_is_there(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1 grace=1000 requeue=never");
    expect_ok(&script, "register k nodes=n2");
    expect_ok(&script, "register l nodes=n3");
    expect_status(&script, INVALID_ARGUMENT, "drain n1 deadline=31536000001");
    expect_ok(&script, "drain n1 deadline=600000");
    expect_ok(&script, "drain n2 deadline=600000");
    expect_ok(&script, "drain n3 deadline=600000");
    expect_ok(&script, "drain n2 undo");
    expect_ok(&script, "drain n3"); /* it may stay after all */
    assert_int_equal(fsm_node_find(script.fsm, "n2")->drain_until_ms, 0);
    expect_ok(&script, "after 599999");
    expect_ok(&script, "tick");
    assert_false(job_of(&script, "j")->terminating);
    script_restore(&script);
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "j")->terminating);
    assert_false(job_of(&script, "k")->terminating);
    assert_false(job_of(&script, "l")->terminating);
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(drained(&script, "n1"), 1);
    script_close(&script);
}

/* An update that was taken before the drain, and waits for its checkpoint, still brings its job
 * there: the node is draining again, and told so (the simulator found it untold). */
static void a_job_that_was_on_its_way_makes_it_draining_again(void **state)
{
    struct script script;

    (void)state;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2 min=1 max=2 restore=all");
    expect_ok(&script, "update j nodes=n1,n3");
    expect_ok(&script, "drain n3");
    assert_int_equal(drained(&script, "n3"), 1);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 terminated j");
    assert_int_equal(fsm_node_find(script.fsm, "n3")->state,
                     CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING);
    expect_ok(&script, "end j");
    assert_int_equal(drained(&script, "n3"), 2);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_new_comes_to_a_draining_node),
        cmocka_unit_test(a_node_is_drained_when_its_last_job_has_left),
        cmocka_unit_test(a_job_that_was_on_its_way_makes_it_draining_again),
        cmocka_unit_test(jobs_leave_with_a_checkpoint),
        cmocka_unit_test(jobs_leave_with_their_next_checkpoint),
        cmocka_unit_test(a_deadline_ends_what_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
