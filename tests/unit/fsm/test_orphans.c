/* Checkpoints that lie at a target without a record, and the nodes that look for them (S2-016). */
#include "fsm/orphans.h"
#include "tests/unit/fsm/expect.h"

static size_t scans_on(const struct script *script, const char *node)
{
    struct fsm_scan scans[FSM_TARGETS_MAX];

    return fsm_scans_on_node(script->fsm, fsm_node_find(script->fsm, node)->slot, scans,
                             FSM_TARGETS_MAX);
}

/* Which node looks, and the one of the target's domain first; another one each time. */
static void a_node_is_asked_to_look_and_then_another(void **unused)
{
    struct script script;
    struct fsm_scan scan;

    (void)unused;
    script_start(&script);
    expect_status(&script, NODE_NOT_FOUND, "scan scratch");
    expect_ok(&script, "put near prefix=/near domain=a");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "node n2 ready domain=a");
    expect_ok(&script, "node n3 ready");
    expect_status(&script, TARGET_NOT_FOUND, "scan nowhere");
    expect_ok(&script, "scan near");
    assert_int_equal(scans_on(&script, "n2"), 1);
    expect_ok(&script, "scan scratch");
    assert_true(fsm_scan_of(script.fsm, 0, &scan));
    assert_string_equal(fsm_node_name(script.fsm, scan.node_slot), "n1");
    expect_ok(&script, "scan scratch");
    assert_true(fsm_scan_of(script.fsm, 0, &scan));
    assert_string_equal(fsm_node_name(script.fsm, scan.node_slot), "n2");
    assert_int_equal(scan.attempt, 2);
    assert_int_equal(scans_on(&script, "n1"), 0);
    script_restore(&script);
    assert_int_equal(scans_on(&script, "n2"), 2);
    expect_ok(&script, "scan scratch end");
    assert_int_equal(scans_on(&script, "n2"), 1);
    script_close(&script);
}

/* A node that is lost looks at nothing; the leader asks another one. */
static void a_lost_node_gives_the_target_back(void **unused)
{
    struct script script;
    struct fsm_scan scan;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "scan scratch");
    assert_int_equal(scans_on(&script, "n1"), 1);
    expect_ok(&script, "node n1 down");
    assert_false(fsm_scan_of(script.fsm, 0, &scan));
    expect_ok(&script, "node n1 ready");
    assert_int_equal(scans_on(&script, "n1"), 0);
    script_close(&script);
}

/* From the list of a scan to the collector, and from there to a node and its report. */
static void an_orphan_is_removed_as_any_expired_folder(void **unused)
{
    struct script script;
    const struct fsm_undeleted *undeleted;
    uint64_t ids[4], id = checkpoint_id_make(1, 7);
    uint32_t slot;
    char path[256];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1"); /* 1-1 has been given */
    expect_ok(&script, "epoch 2");
    assert_true(fsm_is_orphan(script.fsm, checkpoint_id_make(1, 7)));
    expect_ok(&script, "orphans scratch size=4096 owner=bob job=old 1-7");
    assert_int_equal(script.outcome.current, 1);
    assert_false(fsm_is_orphan(script.fsm, checkpoint_id_make(1, 7)));
    assert_int_equal(fsm_collectable(script.fsm, script.now_ms, ids, 4), 1);
    assert_true(ids[0] == id);
    assert_true(fsm_collectable_path(script.fsm, id, &slot, path, sizeof(path)) > 0);
    assert_non_null(strstr(path, "/physics/physics/old/checkpoints/1-7"));
    script_restore(&script);
    undeleted = fsm_undeleted_find(script.fsm, id);
    assert_non_null(undeleted);
    assert_string_equal(undeleted->owner, "bob");
    assert_int_equal(undeleted->size_bytes, 4096);
    expect_ok(&script, "collected failed=1-7 elsewhere");
    assert_true(fsm_undeleted_find(script.fsm, id)->given);
    expect_ok(&script, "report n1 collected old ckpt=1-7 attempt=1 size=4096");
    assert_null(fsm_undeleted_find(script.fsm, id));
    assert_int_equal(fsm_collectable(script.fsm, script.now_ms, ids, 4), 0);
    script_close(&script);
}

/* Whatever a scan said: the state is asked again. */
static void what_has_a_record_or_is_to_come_stays(void **unused)
{
    struct script script;
    uint64_t ids[4];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "orphans scratch 1-1 1-2 2-1");
    assert_int_equal(script.outcome.current, 0);
    assert_int_equal(script.outcome.limit, 3);
    assert_int_equal(fsm_collectable(script.fsm, script.now_ms, ids, 4), 0);
    expect_ok(&script, "epoch 2");
    expect_ok(&script, "orphans nowhere 1-3");
    assert_int_equal(script.outcome.current, 0);
    expect_ok(&script, "orphans scratch 1-3 1-3");
    assert_int_equal(script.outcome.current, 1);
    script_close(&script);
}

/* An id that has no text: it was taken, and no member could read its snapshot. */
static void what_no_id_names_is_refused(void **unused)
{
    static const uint64_t ids[] = {1, UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS};
    Ckpt__V1__Orphan item = CKPT__V1__ORPHAN__INIT, *items[] = {&item};
    Ckpt__Log__V1__RemoveOrphans remove = CKPT__LOG__V1__REMOVE_ORPHANS__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    char target[] = "scratch", name[] = "gone";
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "epoch 2");
    item.target_id = target;
    item.allocation_id = item.tenant = item.project = name;
    remove.orphans = items;
    remove.n_orphans = 1;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS;
    command.remove_orphans = &remove;
    command.request_id = name;
    for (size_t i = 0; i < 2; i++) {
        struct fsm_outcome outcome = {.status = FSM_OK};

        item.checkpoint_id = ids[i];
        assert_int_equal(fsm_validate_new(&command, &outcome), FSM_INVALID_ARGUMENT);
        assert_string_equal(outcome.subject, "checkpoint_id");
        name[0] = (char)('a' + i);
        assert_int_equal(script_apply(&script, &command), FSM_OK); /* an older leader's */
        assert_int_equal(script.outcome.current, 0);
        script_restore(&script);
    }
    script_close(&script);
}

/* They leave half of the places to what the jobs cannot get rid of. */
static void orphans_take_half_of_the_places_at_most(void **unused)
{
    struct script script;
    uint64_t taken = 0;
    char line[1024];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "epoch 2");
    for (unsigned id = 1; id <= FSM_UNDELETED_MAX / 2 + 16; id += 16) {
        int length = snprintf(line, sizeof(line), "orphans scratch");

        for (unsigned i = 0; i < 16; i++)
            length += snprintf(line + length, sizeof(line) - (size_t)length, " 1-%u", id + i);
        expect_ok(&script, "%s", line);
        taken += script.outcome.current;
    }
    assert_int_equal(taken, FSM_UNDELETED_MAX / 2);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_asked_to_look_and_then_another),
        cmocka_unit_test(a_lost_node_gives_the_target_back),
        cmocka_unit_test(an_orphan_is_removed_as_any_expired_folder),
        cmocka_unit_test(what_has_a_record_or_is_to_come_stays),
        cmocka_unit_test(what_no_id_names_is_refused),
        cmocka_unit_test(orphans_take_half_of_the_places_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
