/* A stopped job whose node is only silent: no second copy of it is let in elsewhere. F-016, S3-001
 */
#include "tests/unit/fsm/expect.h"

#include "fsm/ends.h"

/* j runs on n1 and n2, and n2 is silent until its job is queued again. */
static void start(struct script *script, const char *level)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
    expect_ok(script, "register j nodes=n1,n2 restore=all");
    expect_ok(script, "node n2 degraded");
    expect_ok(script, "after 30000");
    expect_ok(script, "node n2 down");
    expect_ok(script, "report n1 terminated j");
    expect_job(script, "j", REQUEUED);
}

static const char *silent_of(const struct script *script, const char *job)
{
    const struct fsm_node *node = fsm_allocation_silent(script->fsm, job_of(script, job));

    return node == NULL ? "" : node->id;
}

/* Below level 2 every member takes it. */
static void a_restart_elsewhere_waits_for_a_word(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "level=1");
    assert_string_equal(silent_of(&script, "j"), "");
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
    start(&script, "");
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_ok(&script, "after 5000");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3 from_scratch");
    assert_string_equal(script.outcome.subject, "n2");
    assert_true(script.outcome.current == 35);
    expect_status(&script, NODE_DOWN, "restart j nodes=n1,n2 from_scratch");
    script_restore(&script); /* another leader, from a snapshot */
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "node_off n2");
    assert_string_equal(silent_of(&script, "j"), "");
    expect_status(&script, NODE_DOWN, "restart j nodes=n1,n2 from_scratch"); /* it is off */
    script_restore(&script);
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
}

/* With the same boot id its agent has to say that it ended what it found; with another one nothing
 * was left. A second silence is not of this run. */
static void a_node_that_is_heard_again_is_not_silent(void **unused)
{
    static const char *const boots[] = {"b2", "b3"};

    (void)unused;
    for (size_t i = 0; i < sizeof(boots) / sizeof(boots[0]); i++) {
        struct script script;

        start(&script, "");
        expect_ok(&script, "node_off n2");
        if (i > 0)
            expect_ok(&script, "drain n2"); /* its hello says so */
        expect_ok(&script, "node n2 %s boot=%s", i > 0 ? "draining" : "ready", boots[i]);
        expect_ok(&script, "drain n2 undo");
        assert_int_equal(fsm_node_find(script.fsm, "n2")->off_at_ms, 0); /* the word is over */
        expect_status(&script, NODE_NOT_DOWN, "node_off n2");
        if (i == 0) {
            expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1,n3 from_scratch");
            expect_ok(&script, "report n2 terminated j");
        }
        expect_ok(&script, "after 600000");
        expect_ok(&script, "node n2 degraded");
        expect_ok(&script, "node n2 down");
        assert_string_equal(silent_of(&script, "j"), "");
        expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
        script_close(&script);
    }
}

/* A job that comes back with fewer nodes leaves one out; another job continues it. */
static void no_way_leads_round_a_silent_node(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "node n%d ready boot=b%d", i, i);
    expect_ok(&script, "register j nodes=n1,n2 min=1 max=2 restore=all");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", REQUEUED);
    expect_status(&script, NODE_SILENT, "restart j");
    expect_status(&script, NODE_SILENT, "register k nodes=n3,n1 continues=j restore=all");
    expect_ok(&script, "drain n2"); /* says nothing of its agent */
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_ok(&script, "drain n2 undo");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3");
    expect_ok(&script, "end j failed");
    expect_job(&script, "j", FAILED);
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "remove_node n2"); /* nor does that */
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3");
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "register k nodes=n3,n1 continues=j restore=all");
    script_close(&script);
}

/* A name that comes back after it was removed is a node that is heard. */
static void a_removed_node_that_comes_back_is_heard(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "end j failed");
    expect_ok(&script, "remove_node n2");
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_ok(&script, "node n2 ready boot=b2");
    assert_string_equal(silent_of(&script, "j"), "");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
}

/* Only a part that nobody spoke for counts. */
static void a_part_that_has_ended_is_not_silent(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "node n%d ready boot=b%d", i, i);
    expect_ok(&script, "register j nodes=n1,n2");
    expect_ok(&script, "report n2 application_exited j status=9");
    expect_ok(&script, "node n2 down"); /* after its word */
    expect_ok(&script, "report n1 terminated j");
    assert_string_equal(silent_of(&script, "j"), "");
    script_close(&script);
}

/* A scheduler's word ends a job at once, whatever runs: of no part is known that it has ended. */
static void a_part_has_ended_by_its_own_word_alone(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "j"), 0));
    assert_true(fsm_part_unheard(script.fsm, job_of(&script, "j"), 1));
    expect_ok(&script, "node_off n2");
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "j"), 1));
    expect_ok(&script, "register k nodes=n1,n3 requeue=always");
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "k"), 0)); /* it runs */
    expect_ok(&script, "report n3 application_exited k status=0");
    expect_ok(&script, "end k failed");
    expect_job(&script, "k", REQUEUED);
    script_restore(&script);
    assert_true(fsm_part_unheard(script.fsm, job_of(&script, "k"), 0));
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "k"), 1));
    expect_ok(&script, "node n2 ready boot=b2");
    expect_status(&script, RUN_NOT_ENDED, "restart k nodes=n2 from_scratch");
    expect_ok(&script, "report n1 terminated k");
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "k"), 0));
    expect_ok(&script, "restart k nodes=n2 from_scratch");
    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "end k failed");
    assert_string_equal(silent_of(&script, "k"), "n2");
    expect_status(&script, NODE_SILENT, "restart k nodes=n1 from_scratch");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_status(&script, RUN_NOT_ENDED, "restart k nodes=n1 from_scratch");
    expect_ok(&script, "report n2 application_exited k status=9");
    expect_ok(&script, "restart k nodes=n1 from_scratch");
    script_close(&script);
}

/* A hung agent does not carry a stop out: its part counts as done when its node is down. F-007 */
static void a_stop_that_nobody_carries_out_leaves_a_silent_part(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "node n%d ready boot=b%d", i, i);
    expect_ok(&script, "register j nodes=n1,n2 grace=1000 requeue=always");
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "tick");
    expect_job(&script, "j", RUNNING); /* n2 may be the cause */
    expect_ok(&script, "node n2 down");
    expect_job(&script, "j", REQUEUED);
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
}

/* How many terminate orders the node has. */
static size_t orders_to_end(const struct script *script, const char *node, const char *job)
{
    struct fsm_order orders[8];
    size_t count = fsm_orders_for_node(script->fsm, fsm_node_find(script->fsm, node)->slot, orders,
                                       sizeof(orders) / sizeof(orders[0]));
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found +=
            orders[i].kind == FSM_ORDER_TERMINATE && strcmp(orders[i].allocation->id, job) == 0;
    return found;
}

/* Nobody has noticed the silence yet: the agent just stands still. I61 */
static void a_job_that_its_scheduler_ended_is_begun_nowhere_else_before_its_node_says_so(
    void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_ok(&script, "register j nodes=n1 restore=all");
    expect_ok(&script, "report n1 application_started j");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    assert_int_equal(orders_to_end(&script, "n1", "j"), 0);
    expect_ok(&script, "end j failed");
    expect_job(&script, "j", FAILED);
    assert_int_equal(orders_to_end(&script, "n1", "j"), 1);
    expect_ok(&script, "after 2000");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n2");
    assert_string_equal(script.outcome.subject, "n1");
    assert_int_equal(script.outcome.current, 2);
    expect_status(&script, RUN_NOT_ENDED, "register k nodes=n2 continues=j restore=all");
    script_restore(&script); /* another leader, from a snapshot */
    assert_int_equal(orders_to_end(&script, "n1", "j"), 1);
    assert_string_equal(fsm_allocation_unended(script.fsm, job_of(&script, "j"))->id, "n1");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n2 from_scratch");
    expect_ok(&script, "report n1 terminated j");
    assert_int_equal(orders_to_end(&script, "n1", "j"), 0);
    assert_null(fsm_allocation_unended(script.fsm, job_of(&script, "j")));
    expect_ok(&script, "restart j nodes=n2");
    script_close(&script);
}

/* A start that is told after the end is of what still lives there. A boot ends all of it. */
static void a_start_that_is_told_late_is_to_be_ended_too(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_ok(&script, "register j nodes=n1");
    expect_ok(&script, "end j failed");
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "report n1 application_started j");
    assert_int_equal(orders_to_end(&script, "n1", "j"), 1);
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n2 from_scratch");
    expect_ok(&script, "node n1 ready boot=b9");
    assert_int_equal(orders_to_end(&script, "n1", "j"), 0);
    expect_ok(&script, "restart j nodes=n2 from_scratch");
    expect_ok(&script, "end j failed");
    expect_ok(&script, "restart j nodes=n2 from_scratch"); /* there the agent ends it first */
    assert_int_equal(orders_to_end(&script, "n2", "j"), 0);
    script_close(&script);
}

/* Nobody would ever answer. */
static void a_node_for_which_no_agent_ever_spoke_keeps_nobody_waiting(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1");
    expect_ok(&script, "end j failed");
    assert_true(fsm_part_unheard(script.fsm, job_of(&script, "j"), 0));
    assert_null(fsm_allocation_unended(script.fsm, job_of(&script, "j")));
    assert_string_equal(fsm_allocation_never_heard(script.fsm, job_of(&script, "j"))->id, "n1");
    expect_ok(&script, "restart j nodes=n2 from_scratch");
    assert_null(fsm_allocation_never_heard(script.fsm, job_of(&script, "j")));
    script_close(&script);
}

/* The deadline of a stop passes before the silence of an agent is noticed. */
static void a_part_that_counts_as_done_at_the_deadline_may_run_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "node n%d ready boot=b%d", i, i);
    expect_ok(&script, "register j nodes=n1,n2 grace=1000 requeue=always");
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_ok(&script, "after 40000");
    expect_ok(&script, "tick");
    expect_job(&script, "j", REQUEUED);
    assert_string_equal(silent_of(&script, "j"), "");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
}

/* The word ends what runs there: it need not wait for node_down_after. */
static void a_degraded_node_that_is_off_is_down_at_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_ok(&script, "register j nodes=n1");
    expect_status(&script, NODE_NOT_FOUND, "node_off n9");
    expect_status(&script, NODE_NOT_DOWN, "node_off n1");
    expect_ok(&script, "node n1 degraded");
    expect_ok(&script, "node_off n1");
    assert_int_equal(fsm_node_find(script.fsm, "n1")->state,
                     CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    expect_job(&script, "j", REQUEUED);
    expect_ok(&script, "restart j nodes=n2 from_scratch");
    script_close(&script);
}

/* A node that was down when the cluster's level rose is silent as well. */
static void a_level_that_rises_finds_who_is_down(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "level=1");
    expect_ok(&script, "policy level=2");
    assert_string_equal(silent_of(&script, "j"), "n2");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3 from_scratch");
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_elsewhere_waits_for_a_word),
        cmocka_unit_test(a_node_that_is_heard_again_is_not_silent),
        cmocka_unit_test(no_way_leads_round_a_silent_node),
        cmocka_unit_test(a_removed_node_that_comes_back_is_heard),
        cmocka_unit_test(a_part_that_has_ended_is_not_silent),
        cmocka_unit_test(a_part_has_ended_by_its_own_word_alone),
        cmocka_unit_test(a_stop_that_nobody_carries_out_leaves_a_silent_part),
        cmocka_unit_test(
            a_job_that_its_scheduler_ended_is_begun_nowhere_else_before_its_node_says_so),
        cmocka_unit_test(a_start_that_is_told_late_is_to_be_ended_too),
        cmocka_unit_test(a_node_for_which_no_agent_ever_spoke_keeps_nobody_waiting),
        cmocka_unit_test(a_part_that_counts_as_done_at_the_deadline_may_run_on),
        cmocka_unit_test(a_degraded_node_that_is_off_is_down_at_once),
        cmocka_unit_test(a_level_that_rises_finds_who_is_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
