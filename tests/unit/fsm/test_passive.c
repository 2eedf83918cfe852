/* A state from a backup: what it takes while it is passive, and what its adoption makes of the time
 * that has passed. */
#include "tests/unit/fsm/expect.h"

enum { HOUR_MS = 3600000 };

static void restored(struct script *script)
{
    script_start(script);
    expect_ok(script, "node n1 ready");
    expect_ok(script, "register j1 nodes=n1");
}

/* Nothing is begun, ended, ordered or given up for what may be another cluster's. */
static void only_what_is_about_the_cluster_is_taken(void **unused)
{
    static const char *const refused[] = {"register j2 nodes=n1", "request j1", "end j1",
                                          "node n1 down",         "tick",       "drain n1",
                                          "preempt j9 nodes=1",   "queue q"};
    static const char *const taken[] = {"policy grace=5000", "put more prefix=/more", "tenant t",
                                        "member 4 name=n4",  "role 4 learner",        "leader 4"};
    struct script script;

    (void)unused;
    restored(&script);
    assert_int_equal(fsm_passive_since_ms(script.fsm), 0);
    fsm_begin_passive(script.fsm);
    assert_int_not_equal(fsm_passive_since_ms(script.fsm), 0);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        expect_status(&script, PASSIVE, "%s", refused[i]);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        expect_ok(&script, "%s", taken[i]);
    expect_ok(&script, "epoch 2");
    expect_ok(&script, "adopt");
    expect_ok(&script, "adopt"); /* twice is once */
    for (size_t i = 0; i < 2; i++)
        expect_ok(&script, "%s", refused[i]);
    script_close(&script);
}

/* All members of the new history begin with this build. */
static void a_state_from_a_lower_level_rises_with_it(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    fsm_begin_passive(script.fsm);
    assert_int_equal(fsm_level(script.fsm), FSM_LEVEL_NEWEST);
    script_close(&script);
}

/* A deadline that passed while nobody was there has not passed; what was being written begins
 * again, and what is kept is kept as long as it would have been. */
static void deadlines_count_from_the_adoption(void **unused)
{
    struct script script;
    const struct fsm_allocation *job;
    uint64_t before;

    (void)unused;
    restored(&script);
    expect_ok(&script, "policy retention=%d keep=2", 2 * HOUR_MS);
    expect_ok(&script, "register j3 nodes=n3");
    expect_ok(&script, "end j3 completed");
    expect_ok(&script, "request j1");
    before = fsm_allocation_find(script.fsm, "j1")->active_checkpoint_id;
    fsm_begin_passive(script.fsm);
    expect_ok(&script, "after %d", 24 * HOUR_MS);
    expect_ok(&script, "adopt");
    job = fsm_allocation_find(script.fsm, "j1");
    assert_int_not_equal(job->active_checkpoint_id, 0);
    assert_int_not_equal(job->active_checkpoint_id, before);
    expect_ok(&script, "tick");
    assert_non_null(fsm_allocation_find(script.fsm, "j3"));
    expect_ok(&script, "after %d", HOUR_MS);
    expect_ok(&script, "tick");
    assert_non_null(fsm_allocation_find(script.fsm, "j3"));
    expect_ok(&script, "after %d", HOUR_MS + 1000);
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "j3"));
    script_close(&script);
}

static void a_snapshot_keeps_that_it_is_passive(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[160] = "";
    struct script script;
    uint64_t since_ms;

    (void)unused;
    restored(&script);
    fsm_begin_passive(script.fsm);
    since_ms = fsm_passive_since_ms(script.fsm);
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    expect_ok(&script, "adopt");
    assert_int_equal(fsm_passive_since_ms(script.fsm), 0);
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    assert_int_equal(fsm_passive_since_ms(script.fsm), since_ms);
    free(bytes.bytes);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_about_the_cluster_is_taken),
        cmocka_unit_test(a_state_from_a_lower_level_rises_with_it),
        cmocka_unit_test(deadlines_count_from_the_adoption),
        cmocka_unit_test(a_snapshot_keeps_that_it_is_passive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
