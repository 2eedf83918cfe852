/* A job that is registered with `waits`: its nodes are names until a ckpt-run of it waits there.
 * V-014
 */
#include "tests/unit/fsm/expect.h"

#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/restart.h"

static void start(struct script *script, const char *words)
{
    script_open(script);
    expect_ok(script, "init");
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
    expect_ok(script, "register theirs nodes=n2");
    expect_ok(script, "register j nodes=n1,n2 restore=all later %s", words);
}

static const struct fsm_node *node_of(const struct script *script, const char *id)
{
    return fsm_node_find(script->fsm, id);
}

/* Neither an order, nor the count of its jobs. */
static void nothing_changes_on_a_node_that_is_only_named(void **unused)
{
    struct script script;
    struct fsm_order orders[4];

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init");
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_ok(&script, "register theirs nodes=n2");
    expect_ok(&script, "at %" PRIu64, script.now_ms + 5000);
    expect_ok(&script, "register j nodes=n1,n2 later");
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(job_of(&script, "j")->reason, CKPT__V1__REASON__REASON_NOT_ATTACHED);
    assert_int_equal(job_of(&script, "j")->requeue_count, 0);
    assert_int_equal(node_of(&script, "n2")->allocation_count, 1);
    assert_int_equal(node_of(&script, "n1")->allocation_count, 0);
    assert_int_equal(fsm_orders_for_node(script.fsm, node_of(&script, "n1")->slot, orders, 4), 0);
    script_restore(&script);
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(node_of(&script, "n2")->allocation_count, 1);
    expect_status(&script, ALLOCATION_ENDED, "request j");
    script_close(&script);
}

/* The walltime counts from there. On a named node that is silent nothing of it runs on. */
static void it_begins_where_its_ckpt_run_waits(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "walltime=60000");
    assert_true(fsm_restart_awaited(script.fsm, job_of(&script, "j")));
    assert_null(fsm_allocation_silent(script.fsm, job_of(&script, "j")));
    expect_ok(&script, "at %" PRIu64, script.now_ms + 120000);
    expect_job(&script, "j", REQUEUED);
    expect_status(&script, TOO_FEW_NODES, "choose j nodes=n1");
    expect_ok(&script, "choose j nodes=n1,n3"); /* a spare where it later */
    expect_job(&script, "j", STARTING);
    assert_int_equal(node_of(&script, "n3")->allocation_count, 1);
    assert_int_equal(node_of(&script, "n2")->allocation_count, 1); /* theirs */
    assert_true(job_of(&script, "j")->started_at_ms == script.now_ms);
    script_restore(&script);
    script_close(&script);
}

static void it_ends_without_having_begun(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "end j");
    expect_job(&script, "j", COMPLETED);
    script_restore(&script);
    script_close(&script);
    start(&script, "broker=manual");
    assert_false(fsm_restart_awaited(script.fsm, job_of(&script, "j")));
    expect_ok(&script, "restart j from_scratch");
    expect_job(&script, "j", STARTING);
    script_close(&script);
}

/* It held nothing: what was said of its start made GPU time that nobody held. */
static void what_it_is_said_to_have_run_counts_for_nothing(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init");
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "register j nodes=n1 gpus=8 later started=%" PRIu64, script.now_ms - 5000);
    assert_uint_equal(job_of(&script, "j")->started_at_ms, script.now_ms);
    script_restore(&script);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_on_a_node_that_is_only_named),
        cmocka_unit_test(it_begins_where_its_ckpt_run_waits),
        cmocka_unit_test(it_ends_without_having_begun),
        cmocka_unit_test(what_it_is_said_to_have_run_counts_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
