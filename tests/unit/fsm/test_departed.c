/* Nodes that left a running job, where its run may go on: they are asked about its end, and the job
 * begins nowhere beside it. I61, F-022, R-003 */
#include "tests/unit/fsm/expect.h"

#include "fsm/ends.h"
#include "src/base/id.h"

static void start(struct script *script, const char *level)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
    expect_ok(script, "register j nodes=n1,n2 restore=all requeue=always grace=1000");
}

static uint64_t run_on(const struct script *script, const char *node)
{
    const struct fsm_allocation *job = job_of(script, "j");

    for (uint32_t i = 0; i < job->node_count; i++)
        if (strcmp(fsm_node_name(script->fsm, job->nodes[i].node_slot), node) == 0)
            return job->nodes[i].run;
    fail_msg("j is not on %s", node);
    return 0;
}

/* Its agent says so of the run; the status, by its name. */
static const char *says_ended(struct script *script, const char *node, uint64_t run)
{
    return fsm_status_name(script_run(script, "report %s terminated j run=%" PRIu64 "-%" PRIu64,
                                      node, run_epoch(run),
                                      run & ((UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1)));
}

/* The run that the node is to end; 0: none. */
static uint64_t run_to_end(const struct script *script, const char *node)
{
    struct fsm_order orders[4];
    size_t count = fsm_orders_for_node(script->fsm, fsm_node_find(script->fsm, node)->slot, orders,
                                       sizeof(orders) / sizeof(orders[0]));

    assert_true(count <= 1);
    if (count == 0)
        return 0;
    assert_int_equal(orders[0].kind, FSM_ORDER_TERMINATE);
    assert_string_equal(orders[0].allocation->id, "j");
    return orders[0].run;
}

static const char *unended_of(const struct script *script)
{
    const struct fsm_node *node = fsm_allocation_unended(script->fsm, job_of(script, "j"));

    return node == NULL ? "" : node->id;
}

/* The job runs on without n2, whose agent has not heard of it. */
static uint64_t leave_unheard(struct script *script)
{
    uint64_t run = run_on(script, "n2");

    expect_ok(script, "update j nodes=n1 force");
    expect_job(script, "j", RUNNING);
    assert_int_equal(job_of(script, "j")->node_count, 1);
    assert_int_equal(fsm_node_find(script->fsm, "n2")->allocation_count, 0);
    return run;
}

static void a_job_begins_nowhere_while_a_node_that_left_it_may_run_it_on(void **unused)
{
    struct script script;
    uint64_t run;

    (void)unused;
    start(&script, "");
    run = leave_unheard(&script);
    assert_true(run_to_end(&script, "n2") == run);
    assert_string_equal(unended_of(&script), ""); /* it runs */
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_job(&script, "j", REQUEUED);
    assert_string_equal(unended_of(&script), "n2");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1 from_scratch");
    assert_string_equal(script.outcome.subject, "n2");
    script_restore(&script); /* another leader, from a snapshot */
    assert_true(run_to_end(&script, "n2") == run);
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1 from_scratch");
    expect_ok(&script, "node n2 degraded");
    assert_string_equal(fsm_allocation_silent(script.fsm, job_of(&script, "j"))->id, "n2");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1 from_scratch");
    expect_ok(&script, "node n2 ready boot=b2");
    assert_string_equal(says_ended(&script, "n2", run), "OK");
    assert_true(run_to_end(&script, "n2") == 0);
    assert_string_equal(unended_of(&script), "");
    expect_ok(&script, "restart j nodes=n1 from_scratch");
    script_close(&script);
}

/* A word on an earlier run says nothing of this one. */
static void only_a_word_on_that_run_ends_it(void **unused)
{
    struct script script;
    uint64_t run;

    (void)unused;
    start(&script, "");
    run = leave_unheard(&script);
    assert_string_equal(says_ended(&script, "n2", run - 1), "NODE_NOT_ASSIGNED");
    expect_status(&script, NODE_NOT_ASSIGNED,
                  "report n2 application_started j run=%" PRIu64 "-%" PRIu64, run_epoch(run),
                  run & ((UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1));
    assert_string_equal(says_ended(&script, "n3", run), "NODE_NOT_ASSIGNED");
    assert_true(run_to_end(&script, "n2") == run);
    assert_string_equal(says_ended(&script, "n2", run), "OK");
    assert_string_equal(says_ended(&script, "n2", run), "NODE_NOT_ASSIGNED");
    script_close(&script);
}

/* Silent nodes count as done at the deadline of a scale-down, and so do those that are down: who
 * waits for the nodes gets them. */
static void a_node_that_left_at_its_deadline_is_asked_too(void **unused)
{
    static const char *const ways[] = {"after 40000", "node n2 down"};

    (void)unused;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct script script;
        uint64_t run;

        start(&script, "");
        run = run_on(&script, "n2");
        expect_ok(&script, "update j nodes=n1");
        expect_ok(&script, "grant 1-1");
        expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
        expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
        expect_ok(&script, "%s", ways[i]);
        expect_ok(&script, "tick");
        assert_int_equal(job_of(&script, "j")->node_count, 1);
        assert_true(run_to_end(&script, "n2") == run);
        expect_ok(&script, "end j failed");
        expect_ok(&script, "report n1 terminated j");
        assert_string_equal(unended_of(&script), "n2");
        script_close(&script);
    }
}

/* A node that has said that its part ended is not asked again. */
static void a_node_that_left_by_its_own_word_is_free(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "update j nodes=n1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 terminated j");
    assert_int_equal(job_of(&script, "j")->node_count, 1);
    assert_true(run_to_end(&script, "n2") == 0);
    script_close(&script);
}

/* Its agent ends the old run before it answers for the new one, so the part speaks for both. */
static void a_node_that_is_given_back_answers_for_both_runs(void **unused)
{
    struct script script;
    uint64_t run, again;

    (void)unused;
    start(&script, "");
    run = leave_unheard(&script);
    expect_ok(&script, "update j nodes=n1,n2");
    again = run_on(&script, "n2");
    assert_true(again > run);
    assert_true(run_to_end(&script, "n2") == 0);
    script_restore(&script);
    expect_ok(&script, "end j failed");
    assert_true(run_to_end(&script, "n2") == again);
    expect_ok(&script, "report n1 terminated j");
    assert_string_equal(says_ended(&script, "n2", run), "EARLIER_RUN");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n1 from_scratch");
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "restart j nodes=n1 from_scratch");
    script_close(&script);
}

/* A node that is itself named ends the old run first, and one that is off runs nothing. */
static void what_proves_the_end_of_a_part_proves_it_of_one_that_left(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    leave_unheard(&script);
    expect_ok(&script, "node n2 ready boot=b9");
    assert_true(run_to_end(&script, "n2") == 0);
    expect_ok(&script, "update j nodes=n1,n2");
    leave_unheard(&script);
    expect_ok(&script, "end j failed");
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "node n2 degraded");
    expect_status(&script, NODE_SILENT, "restart j nodes=n3 from_scratch");
    expect_status(&script, NODE_SILENT, "register k nodes=n3 continues=j restore=all");
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "restart j nodes=n3 from_scratch");
    expect_ok(&script, "node n2 ready boot=b9");
    expect_ok(&script, "end j failed");
    expect_ok(&script, "report n3 terminated j");
    expect_status(&script, RUN_NOT_ENDED, "restart j nodes=n3 from_scratch");
    expect_ok(&script, "restart j nodes=n2 from_scratch");
    assert_true(run_to_end(&script, "n2") == 0);
    script_close(&script);
}

/* The broker looks at each place, also at those behind the parts. */
static void the_broker_asks_about_each_node_that_left(void **unused)
{
    struct script script;
    uint64_t run;

    (void)unused;
    start(&script, "");
    run = leave_unheard(&script);
    assert_int_equal(fsm_allocation_places(script.fsm, job_of(&script, "j")), 2);
    assert_int_equal(fsm_allocation_place(script.fsm, job_of(&script, "j"), 1).node_slot,
                     fsm_node_find(script.fsm, "n2")->slot);
    assert_true(fsm_allocation_place(script.fsm, job_of(&script, "j"), 1).run == run);
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "j"), 1)); /* it runs */
    expect_ok(&script, "report n1 application_exited j status=9");
    assert_false(fsm_part_unheard(script.fsm, job_of(&script, "j"), 0));
    assert_true(fsm_part_unheard(script.fsm, job_of(&script, "j"), 1));
    script_close(&script);
}

/* It may be a name that somebody mistyped: a person begins the job, nobody would ever answer. An
 * agent may also have begun by a leader that was none any more: the broker begins nothing. */
static void a_node_for_which_no_agent_ever_spoke_hinders_the_broker_alone(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j nodes=n1,n8 requeue=always");
    expect_ok(&script, "report n1 application_started j");
    expect_ok(&script, "update j nodes=n1 force");
    assert_int_equal(fsm_allocation_places(script.fsm, job_of(&script, "j")), 2);
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_job(&script, "j", REQUEUED);
    assert_true(fsm_part_unheard(script.fsm, job_of(&script, "j"), 1));
    expect_ok(&script, "restart j nodes=n1 from_scratch");
    script_close(&script);
}

/* A record keeps the name of its node, also of one that is removed; and leaves with its job. */
static void a_removed_node_is_named_until_its_job_has_left(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    leave_unheard(&script);
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "remove_node n2");
    script_restore(&script);
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_status(&script, NODE_SILENT, "restart j nodes=n1 from_scratch");
    expect_ok(&script, "end j");
    expect_ok(&script, "after 900000000");
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "j"));
    script_restore(&script);
    script_close(&script);
}

/* Below level 2 every member lets it begin. */
static void level_1_asks_nobody(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "level=1");
    leave_unheard(&script);
    assert_true(run_to_end(&script, "n2") == 0);
    expect_ok(&script, "report n1 application_exited j status=9");
    expect_ok(&script, "restart j nodes=n1 from_scratch");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_begins_nowhere_while_a_node_that_left_it_may_run_it_on),
        cmocka_unit_test(only_a_word_on_that_run_ends_it),
        cmocka_unit_test(a_node_that_left_at_its_deadline_is_asked_too),
        cmocka_unit_test(a_node_that_left_by_its_own_word_is_free),
        cmocka_unit_test(a_node_that_is_given_back_answers_for_both_runs),
        cmocka_unit_test(what_proves_the_end_of_a_part_proves_it_of_one_that_left),
        cmocka_unit_test(the_broker_asks_about_each_node_that_left),
        cmocka_unit_test(a_node_for_which_no_agent_ever_spoke_hinders_the_broker_alone),
        cmocka_unit_test(a_removed_node_is_named_until_its_job_has_left),
        cmocka_unit_test(level_1_asks_nobody)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
