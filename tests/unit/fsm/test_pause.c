/* A paused cluster: what it refuses and what it takes, what goes on as it was begun, and how the
 * pause ends. */
#include "tests/unit/fsm/expect.h"

#include "fsm/pause.h"

enum { HOUR_MS = 3600000 };

/* j1 runs on n1 and has a complete checkpoint, j2 runs on n2, j3 was stopped and waits. */
static void running(struct script *script)
{
    script_start(script);
    expect_ok(script, "node n1 ready");
    expect_ok(script, "node n2 ready");
    expect_ok(script, "node n3 ready");
    expect_ok(script, "register j1 nodes=n1 class=2 on_hang=restart");
    expect_ok(script, "register j2 nodes=n2 class=2");
    expect_ok(script, "register j3 nodes=n3 class=2");
    expect_complete(script, "j1", 1);
    expect_ok(script, "request j3 after=stop");
    expect_ok(script, "grant 1-2 bytes=1");
    expect_ok(script, "report n3 shard_verified j3 ckpt=1-2");
    expect_ok(script, "report n3 terminated j3");
    expect_job(script, "j3", SUSPENDED);
}

/* U7: a refusal names who paused it, since when, why, and the next command. The
 * leader's own proposals are refused with the same status. */
static void what_asks_restarts_moves_and_removes_is_refused(void **unused)
{
    static const char *const refused[] = {"request j1",
                                          "migrate j1",
                                          "restart j3",
                                          "preempt j9 nodes=j1 class=8",
                                          "drain n1 urgent",
                                          "drain n1 move",
                                          "expire 1-1",
                                          "orphans scratch 1-77",
                                          "decide j1 purpose=periodic recompute=100",
                                          "over_quota 1-1"};
    struct script script;
    char text[512];

    (void)unused;
    running(&script);
    expect_ok(&script, "pause by=ann reason=new-switch");
    expect_ok(&script, "after 7000");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        expect_status(&script, CLUSTER_PAUSED, "%s", refused[i]);
    expect_status(&script, CLUSTER_PAUSED, "request j2");
    fsm_outcome_text(&script.outcome, text, sizeof(text));
    assert_string_equal(
        text, "the cluster is paused since 7 s, by ann: new-switch; it asks for no checkpoint, "
              "restarts, moves and removes nothing; ckptctl cluster resume ends the pause; ckptctl "
              "status says until when it lasts");
    assert_int_equal(fsm_allocation_find(script.fsm, "j1")->active_checkpoint_id, 0);
    expect_ok(&script, "pause resume");
    expect_ok(&script, "request j2"); /* another request id: a refusal is remembered */
    script_close(&script);
}

/* P-006, S1-066: facts are taken, and what people said of jobs and nodes; a sensitive claim and a
 * preemption with force do not wait for the end of a pause. */
static void facts_claims_and_force_are_taken(void **unused)
{
    static const char *const taken[] = {"register j4 nodes=n4",
                                        "end j4 completed",
                                        "queue q",
                                        "node n5 ready",
                                        "policy grace=5000",
                                        "put more prefix=/more",
                                        "tenant t",
                                        "pin 1-1",
                                        "drain n3",
                                        "drain n3 undo",
                                        "report n1 application_started j1"};
    struct script script;

    (void)unused;
    running(&script);
    expect_ok(&script, "pause");
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (script_run(&script, "%s", taken[i]) != FSM_OK)
            fail_msg("%s: %s", taken[i], fsm_status_name(script.outcome.status));
    expect_ok(&script, "preempt j9 nodes=j1 class=8 forced");
    expect_ok(&script, "preempt s nodes=j2 reason=sensitive class=10");
    script_close(&script);
}

/* A checkpoint that was asked for, its retry, and a move with the restart that it is made for. */
static void what_is_under_way_ends_as_it_would_have(void **unused)
{
    struct script script;

    (void)unused;
    running(&script);
    expect_ok(&script, "request j1");
    expect_ok(&script, "migrate j2");
    expect_ok(&script, "pause");
    expect_ok(&script, "grant 1-3 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-3");
    expect_checkpoint(&script, 3, COMPLETE);
    expect_ok(&script, "grant 1-4 bytes=1");
    expect_ok(&script, "report n2 shard_verified j2 ckpt=1-4");
    expect_ok(&script, "report n2 terminated j2");
    expect_job(&script, "j2", REQUEUED);
    expect_reason(&script, "j2", "migrated");
    expect_ok(&script, "choose j2 nodes=n3");
    expect_job(&script, "j2", STARTING);
    script_close(&script);
}

/* A job whose node is lost stays stopped; one that hangs is left alone where it would be restarted,
 * and only told of where it would not. */
static void what_ends_meanwhile_waits_for_the_end_of_the_pause(void **unused)
{
    struct script script;

    (void)unused;
    running(&script);
    expect_ok(&script, "pause");
    expect_ok(&script, "after 900000");
    expect_status(&script, CLUSTER_PAUSED, "hang j1 quiet=300000 gap=1000");
    expect_ok(&script, "hang j2 quiet=300000 gap=1000");
    expect_ok(&script, "node n1 down witness=probe");
    expect_job(&script, "j1", REQUEUED);
    expect_status(&script, CLUSTER_PAUSED, "choose j1 nodes=n3");
    expect_ok(&script, "pause resume");
    expect_ok(&script, "choose j1 nodes=n3");
    expect_job(&script, "j1", STARTING);
    script_close(&script);
}

static size_t collectable(const struct script *script)
{
    uint64_t ids[FSM_COLLECTABLE_MAX];

    return fsm_collectable(script->fsm, 0, ids, FSM_COLLECTABLE_MAX);
}

/* Folders expire as ever, and none is given to the collector. */
static void nothing_is_removed_while_it_lasts(void **unused)
{
    struct script script;

    (void)unused;
    running(&script);
    expect_ok(&script, "policy retention=%d keep=2", HOUR_MS);
    expect_ok(&script, "end j1 completed");
    expect_ok(&script, "pause for=%d", 3 * HOUR_MS);
    expect_ok(&script, "after %d", 2 * HOUR_MS);
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "after %d", HOUR_MS);
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 1);
    script_close(&script);
}

/* The state's next deadline is the pause's, and the Tick tells of its end. */
static void a_pause_with_a_duration_ends_by_itself(void **unused)
{
    struct script script;
    uint64_t began_ms;

    (void)unused;
    running(&script);
    expect_ok(&script, "pause for=7200000 by=ann reason=new-switch");
    began_ms = summary_of(&script).now_ms;
    assert_non_null(fsm_pause(script.fsm));
    assert_int_equal(fsm_pause(script.fsm)->until_ms, began_ms + 2 * HOUR_MS);
    assert_true(fsm_next_deadline_ms(script.fsm) <= began_ms + 2 * HOUR_MS);
    expect_ok(&script, "after 7199999");
    expect_status(&script, CLUSTER_PAUSED, "request j1");
    expect_ok(&script, "after 1");
    expect_ok(&script, "request j1"); /* also before the Tick is there */
    expect_ok(&script, "tick");
    assert_null(fsm_pause(script.fsm));
    script_close(&script);
}

/* Twice: the first instant, the last words. The end of none is no error. */
static void a_second_pause_gives_it_another_end(void **unused)
{
    struct script script;
    uint64_t since_ms;

    (void)unused;
    running(&script);
    expect_ok(&script, "pause resume");
    expect_ok(&script, "pause by=ann reason=one for=60000");
    since_ms = fsm_pause(script.fsm)->since_ms;
    expect_ok(&script, "after 30000");
    expect_ok(&script, "pause by=bob reason=two");
    assert_int_equal(fsm_pause(script.fsm)->since_ms, since_ms);
    assert_int_equal(fsm_pause(script.fsm)->until_ms, 0);
    assert_string_equal(fsm_pause(script.fsm)->by, "bob");
    assert_string_equal(fsm_pause(script.fsm)->reason, "two");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_non_null(fsm_pause(script.fsm));
    script_close(&script);
}

static void a_pause_has_words_and_an_end_within_a_year(void **unused)
{
    static const char *const wrong[] = {"pause by=", "pause reason=", "pause for=31536000001",
                                        "pause resume by="};
    struct script script;
    char line[400] = "pause reason=";

    (void)unused;
    running(&script);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        expect_status(&script, INVALID_ARGUMENT, "%s", wrong[i]);
    memset(line + strlen(line), 'x', 200);
    expect_ok(&script, "%s", line);
    strcat(line, "x");
    expect_status(&script, INVALID_ARGUMENT, "%s", line);
    assert_string_equal(script.outcome.subject, "reason");
    assert_int_equal(script.outcome.limit, 200);
    expect_ok(&script, "pause for=31536000000");
    script_close(&script);
}

/* I12 */
static void a_snapshot_keeps_the_pause_and_its_end(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[160] = "";
    struct script script;

    (void)unused;
    running(&script);
    expect_ok(&script, "pause for=60000 by=ann reason=new-switch");
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    expect_ok(&script, "pause resume");
    assert_null(fsm_pause(script.fsm));
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    assert_string_equal(fsm_pause(script.fsm)->by, "ann");
    assert_string_equal(fsm_pause(script.fsm)->reason, "new-switch");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_null(fsm_pause(script.fsm));
    free(bytes.bytes);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_asks_restarts_moves_and_removes_is_refused),
        cmocka_unit_test(facts_claims_and_force_are_taken),
        cmocka_unit_test(what_is_under_way_ends_as_it_would_have),
        cmocka_unit_test(what_ends_meanwhile_waits_for_the_end_of_the_pause),
        cmocka_unit_test(nothing_is_removed_while_it_lasts),
        cmocka_unit_test(a_pause_with_a_duration_ends_by_itself),
        cmocka_unit_test(a_second_pause_gives_it_another_end),
        cmocka_unit_test(a_pause_has_words_and_an_end_within_a_year),
        cmocka_unit_test(a_snapshot_keeps_the_pause_and_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
