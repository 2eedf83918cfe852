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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_new_comes_to_a_draining_node),
        cmocka_unit_test(a_node_is_drained_when_its_last_job_has_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
