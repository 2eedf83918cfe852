/* Nodes that are gone are removed: when that is refused, who keeps their names, and what becomes of
 * their slots. */
#include "tests/unit/fsm/expect.h"

static uint32_t slot_of(const struct script *script, const char *id)
{
    const struct fsm_node *node = fsm_node_find(script->fsm, id);

    assert_non_null(node);
    return node->slot;
}

static void drop_changed(struct script *script)
{
    uint32_t slot;

    while (fsm_take_changed_node(script->fsm, &slot))
        continue;
}

static void only_a_node_whose_agent_is_silent_is_removed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, NODE_NOT_FOUND, "remove_node n9");
    expect_ok(&script, "node n9 ready boot=a");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n9");
    expect_ok(&script, "node n9 degraded");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n9");
    expect_ok(&script, "drain n9");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n9");
    expect_ok(&script, "node n9 down");
    expect_ok(&script, "remove_node n9 id=once");
    expect_ok(&script, "remove_node n9 id=once");
    expect_status(&script, REQUEST_ID_REUSED, "remove_node n8 id=once");
    expect_status(&script, NODE_NOT_FOUND, "remove_node n9");
    script_restore(&script);
    assert_null(fsm_node_find(script.fsm, "n9"));
    expect_ok(&script, "remove_node n9 id=once");
    script_close(&script);
}

/* A mistyped name, of which no agent ever spoke. */
static void a_node_that_no_agent_ever_reported_is_removed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=typo home=ml");
    expect_status(&script, NODE_HAS_JOBS, "remove_node typo");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "end j2");
    expect_ok(&script, "drain typo");
    expect_ok(&script, "remove_node typo");
    assert_null(fsm_node_find(script.fsm, "typo"));
    expect_status(&script, NODE_NOT_FOUND, "drain typo undo");
    script_close(&script);
}

/* The slot is another node's then, and what was kept by slot can tell that. */
static void the_slot_of_a_node_that_no_record_names_is_free(void **unused)
{
    struct script script;
    uint32_t slot, changed;
    uint64_t made;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n8 ready boot=a");
    expect_ok(&script, "node n9 ready boot=a");
    slot = slot_of(&script, "n8");
    made = fsm_node_find(script.fsm, "n8")->made;
    expect_ok(&script, "node n8 down");
    drop_changed(&script);
    expect_ok(&script, "remove_node n8");
    assert_null(fsm_node_find_slot(script.fsm, slot));
    assert_string_equal(fsm_node_name(script.fsm, slot), "");
    assert_true(fsm_take_changed_node(script.fsm, &changed)); /* whose stream has to end */
    assert_int_equal(changed, slot);
    script_restore(&script);
    expect_ok(&script, "node n7 ready boot=a");
    assert_int_equal(slot_of(&script, "n7"), slot);
    assert_true(fsm_node_find(script.fsm, "n7")->made > made);
    script_restore(&script);
    assert_true(fsm_node_find(script.fsm, "n7")->made > made);
    expect_ok(&script, "node n8 ready boot=a"); /* and it is somewhere else */
    assert_int_not_equal(slot_of(&script, "n8"), slot);
    script_close(&script);
}

/* Also of those that wait for nobody's node at the moment, and of one that will only join. */
static void a_node_stays_while_a_job_that_has_not_ended_names_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=always");
    expect_ok(&script, "register j2 nodes=n2,n3");
    expect_ok(&script, "node n2 ready boot=a");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n2");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    expect_ok(&script, "report n3 terminated j2");
    expect_status(&script, NODE_HAS_JOBS, "remove_node n2");
    assert_int_equal(script.outcome.current, 2);
    script_restore(&script);
    expect_status(&script, NODE_HAS_JOBS, "remove_node n2");
    assert_int_equal(script.outcome.current, 2);
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "restart j1 nodes=n4 from_scratch");
    expect_status(&script, NODE_HAS_JOBS, "remove_node n2");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "end j2");
    expect_ok(&script, "remove_node n2");
    script_close(&script);
}

static void a_node_that_is_to_join_a_job_stays(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "report n1 application_started j1");
    expect_ok(&script, "report n2 application_started j1");
    expect_ok(&script, "update j1 nodes=n1,n3");
    assert_int_equal(job_of(&script, "j1")->next_count, 2);
    expect_status(&script, NODE_HAS_JOBS, "remove_node n3");
    assert_int_equal(script.outcome.current, 1);
    script_restore(&script);
    expect_status(&script, NODE_HAS_JOBS, "remove_node n3");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "cancel 1-1"); /* it stays on the two */
    assert_int_equal(job_of(&script, "j1")->next_count, 0);
    expect_ok(&script, "remove_node n3");
    expect_status(&script, NODE_HAS_JOBS, "remove_node n2");
    script_close(&script);
}

/* One failed on n1 and moved on; its shard lies where n1 wrote it. */
static void start_moved(struct script *script)
{
    script_start(script);
    expect_ok(script, "policy keep=2 retention=1000");
    expect_ok(script, "register j1 nodes=n1");
    expect_ok(script, "register j2 nodes=n1");
    expect_ok(script, "node n1 ready boot=a");
    expect_ok(script, "report n1 application_started j1");
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(script, "node n1 down");
    expect_ok(script, "end j2 failed");
    expect_job(script, "j1", REQUEUED);
    expect_ok(script, "node_off n1");
    expect_ok(script, "restart j1 nodes=n2");
}

static void what_ended_keeps_the_name_of_a_removed_node(void **unused)
{
    struct script script;
    uint32_t slot;

    (void)unused;
    start_moved(&script);
    slot = slot_of(&script, "n1");
    expect_ok(&script, "remove_node n1");
    script_restore(&script);
    assert_null(fsm_node_find(script.fsm, "n1"));
    assert_null(fsm_node_find_slot(script.fsm, slot));
    assert_string_equal(fsm_node_name(script.fsm, slot), "n1");
    assert_int_equal(job_of(&script, "j2")->nodes[0].node_slot, slot);
    assert_int_equal(checkpoint_of(&script, 1)->shards[0].node_slot, slot);
    expect_ok(&script, "node n8 ready boot=a");
    assert_int_not_equal(slot_of(&script, "n8"), slot);
    expect_status(&script, NODE_NOT_FOUND, "restart j2"); /* where? */
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 1000000000");
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "j2"));
    assert_string_equal(fsm_node_name(script.fsm, slot),
                        "n1"); /* the folder of 1-1 is still there */
    expect_ok(&script, "collected 1-1");
    assert_string_equal(fsm_node_name(script.fsm, slot), "");
    expect_ok(&script, "node n7 ready boot=a");
    assert_int_equal(slot_of(&script, "n7"), slot);
    script_close(&script);
}

/* It is whose name the records have, and knows nothing but how far its reports were numbered. */
static void a_name_that_records_still_have_comes_back_in_its_place(void **unused)
{
    struct script script;
    const struct fsm_node *node;
    uint64_t made, reports;
    uint32_t slot;

    (void)unused;
    start_moved(&script);
    node = fsm_node_find(script.fsm, "n1");
    slot = node->slot;
    made = node->made;
    assert_int_equal(node->failure_count, 1);
    reports = node->last_report_sequence;
    assert_true(reports > 0);
    expect_ok(&script, "remove_node n1");
    expect_ok(&script, "node n1 draining boot=b");
    script_restore(&script);
    node = fsm_node_find(script.fsm, "n1");
    assert_int_equal(node->slot, slot);
    assert_true(node->made > made);
    assert_int_equal(node->state, CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    assert_string_equal(node->boot_id, "b");
    assert_int_equal(node->failure_count, 0);
    assert_int_equal(node->last_report_sequence, reports);
    expect_ok(&script, "restart j2 from_scratch");
    /* the only shard of j1 is of this name still: it joins what went on elsewhere all the same */
    expect_ok(&script, "report n2 application_started j1");
    expect_ok(&script, "update j1 nodes=n1,n2");
    script_close(&script);
}

static void what_was_said_of_a_removed_node_does_not_bring_it_back(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n9 ready boot=a");
    expect_ok(&script, "node n9 down");
    expect_ok(&script, "remove_node n9");
    expect_status(&script, NODE_NOT_FOUND, "node n9 down");
    expect_status(&script, NODE_NOT_FOUND, "node n9 degraded");
    expect_status(&script, NODE_NOT_FOUND, "report n9 application_started j1 seq=1");
    assert_null(fsm_node_find(script.fsm, "n9"));
    expect_ok(&script, "node n9 ready boot=a"); /* its agent, as that of any new node */
    assert_int_equal(fsm_node_find(script.fsm, "n9")->last_report_sequence, 0);
    assert_int_equal(fsm_node_find(script.fsm, "n9")->failure_count, 0);
    script_close(&script);
}

/* For a preemption, by a checkpoint of this number. */
static void give_up(struct script *script, const char *job, const char *node, int sequence)
{
    expect_ok(script, "preempt class=5 need=1");
    expect_ok(script, "grant 1-%d", sequence);
    expect_ok(script, "report %s shard_verified %s ckpt=1-%d", node, job, sequence);
    expect_ok(script, "report %s terminated %s", node, job);
}

/* Who was released for a preemption is kept with the names of its nodes, until that one leaves. */
static void a_preemption_keeps_the_names_of_what_it_released(void **unused)
{
    struct script script;
    const struct fsm_preemption *preemption;
    char job[16];
    uint32_t slot;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000");
    expect_ok(&script, "register j1 nodes=n9 class=1");
    slot = slot_of(&script, "n9");
    give_up(&script, "j1", "n9", 1);
    expect_job(&script, "j1", SUSPENDED);
    expect_ok(&script, "end j1");
    expect_ok(&script, "remove_node n9");
    expect_ok(&script, "after 1000000000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    script_restore(&script);
    preemption = fsm_preemption_next(script.fsm, 0);
    assert_int_equal(preemption->victims[0].node_count, 1);
    assert_int_equal(preemption->victims[0].node_slots[0], slot);
    assert_string_equal(fsm_node_name(script.fsm, slot), "n9");
    for (int i = 0; i < FSM_PREEMPTIONS_MAX; i++) { /* the last of them takes its place */
        assert_string_equal(fsm_node_name(script.fsm, slot), "n9");
        snprintf(job, sizeof(job), "w%d", i);
        expect_ok(&script, "register %s nodes=n1 class=1", job);
        give_up(&script, job, "n1", i + 2);
    }
    assert_string_equal(fsm_node_name(script.fsm, slot), "");
    script_close(&script);
}

/* Its agent has said no boot, and reads for others, or removes: it is lost before it leaves. */
static void one_that_still_works_for_others_stays(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b");
    expect_ok(&script, "node n2 ready boot=b");
    expect_ok(&script, "node n3 ready");
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4");
    expect_ok(&script, "after 900000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "verify 1-1");
    expect_ok(&script, "verified 1-1 elsewhere");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "drain n3");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n3");
    expect_ok(&script, "node n3 down");
    expect_ok(&script, "remove_node n3");
    script_restore(&script);
    script_close(&script);

    script_start(&script);
    expect_ok(&script, "node n3 ready");
    expect_ok(&script, "epoch 2");
    expect_ok(&script, "orphans other 1-1");
    expect_ok(&script, "collected failed=1-1 why=no-right elsewhere");
    expect_ok(&script, "drain n3");
    expect_status(&script, NODE_NOT_DOWN, "remove_node n3");
    expect_ok(&script, "node n3 down");
    expect_ok(&script, "remove_node n3");
    script_restore(&script);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_node_whose_agent_is_silent_is_removed),
        cmocka_unit_test(a_node_that_no_agent_ever_reported_is_removed),
        cmocka_unit_test(the_slot_of_a_node_that_no_record_names_is_free),
        cmocka_unit_test(a_node_stays_while_a_job_that_has_not_ended_names_it),
        cmocka_unit_test(a_node_that_is_to_join_a_job_stays),
        cmocka_unit_test(what_ended_keeps_the_name_of_a_removed_node),
        cmocka_unit_test(a_name_that_records_still_have_comes_back_in_its_place),
        cmocka_unit_test(what_was_said_of_a_removed_node_does_not_bring_it_back),
        cmocka_unit_test(a_preemption_keeps_the_names_of_what_it_released),
        cmocka_unit_test(one_that_still_works_for_others_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
