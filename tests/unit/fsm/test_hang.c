/* Jobs of which no rank steps any more: when the state takes them for HUNG, what is not asked of
 * them then, and what ends it. V-030, I66 */
#include "tests/unit/fsm/expect.h"

#include "fsm/hang.h"
#include "fsm/restart.h"

static void start(struct script *script, const char *words)
{
    script_open(script);
    expect_ok(script, "init");
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
    expect_ok(script, "register j nodes=n1,n2 restore=all class=1 %s", words);
}

static const struct fsm_allocation *j_of(const struct script *script)
{
    return job_of(script, "j");
}

static unsigned events_of(const struct script *script, Ckpt__V1__EventKind kind)
{
    const Ckpt__V1__Event *event;
    uint64_t after = 0;
    unsigned count = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        count += event->kind == kind;
    }
    return count;
}

static void a_job_that_is_quiet_for_long_enough_is_hung_until_it_steps(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "after 900000");
    expect_ok(&script, "hang j quiet=300000 gap=1000");
    assert_true(fsm_hung(j_of(&script)));
    assert_string_equal(j_of(&script)->hang_text, "rank 1 waits");
    assert_uint_equal(j_of(&script)->last_step_at_ms, script.now_ms - 300000);
    expect_job(&script, "j", RUNNING); /* it holds its nodes */
    assert_false(j_of(&script)->terminating);
    assert_int_equal(summary_of(&script).hung_count, 1);
    script_restore(&script);
    assert_true(fsm_hung(j_of(&script)));
    assert_int_equal(summary_of(&script).hung_count, 1);
    expect_status(&script, NOT_HUNG, "hang j quiet=400000 gap=1000"); /* twice */
    expect_ok(&script, "after 1000");
    expect_ok(&script, "hang j");
    assert_false(fsm_hung(j_of(&script)));
    assert_int_equal(summary_of(&script).hung_count, 0);
    expect_status(&script, NOT_HUNG, "hang j");
    assert_int_equal(events_of(&script, CKPT__V1__EVENT_KIND__EVENT_KIND_HUNG), 1);
    assert_int_equal(events_of(&script, CKPT__V1__EVENT_KIND__EVENT_KIND_HANG_OVER), 1);
    script_close(&script);
}

/* max(10 times p99, 5 min); six times as long where it has not stepped twice. */
static void how_long_that_is_follows_from_its_gaps(void **unused)
{
    static const struct {
        const char *policy;
        uint64_t gap_ms, limit_ms;
    } rows[] = {{"", 1000, 300000},
                {"", 30000, 300000},
                {"", 30001, 300010},
                {"", 120000, 1200000},
                {"", 0, 1800000},
                {"policy hang_after=2000", 100, 2000},
                {"policy hang_after=2000", 300, 3000},
                {"policy hang_after=2000", 0, 12000}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, "");
        if (rows[i].policy[0] != '\0')
            expect_ok(&script, "%s", rows[i].policy);
        expect_ok(&script, "after 9000000");
        assert_uint_equal(fsm_hang_limit_ms(fsm_policy(script.fsm), rows[i].gap_ms),
                          rows[i].limit_ms);
        expect_status(&script, NOT_HUNG, "hang j quiet=%" PRIu64 " gap=%" PRIu64,
                      rows[i].limit_ms - 1, rows[i].gap_ms);
        expect_ok(&script, "hang j quiet=%" PRIu64 " gap=%" PRIu64, rows[i].limit_ms,
                  rows[i].gap_ms);
        script_close(&script);
    }
}

/* A silent node is never a hang, nor is what has changed since the leader looked. */
static void what_cannot_step_does_not_hang(void **unused)
{
    static const char *const before[] = {
        "request j", "node n2 degraded",  "node n2 down",
        "end j",     "update j nodes=n1", "report n1 application_exited j status=1 restart"};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        start(&script, "requeue=always on_hang=restart");
        expect_ok(&script, "after 900000");
        expect_ok(&script, "%s", before[i]);
        expect_status(&script, NOT_HUNG, "hang j quiet=900000 gap=1000");
        assert_false(fsm_hung(j_of(&script)));
        script_close(&script);
    }
    start(&script, "");
    expect_ok(&script, "after 900000");
    expect_status(&script, NOT_HUNG, "hang j quiet=900000 gap=1000 since=1");
    script_close(&script);
}

/* It could not answer: the broker asks nothing by itself, a preemption does not wait for it. */
static void nothing_is_asked_of_a_job_that_hangs(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "requeue=always");
    expect_ok(&script, "after 900000");
    expect_ok(&script, "hang j quiet=300000 gap=1000");
    expect_ok(&script, "decide j purpose=periodic recompute=100");
    assert_true(j_of(&script)->active_checkpoint_id == 0);
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    expect_ok(&script, "decide j purpose=walltime recompute=100");
    assert_true(j_of(&script)->active_checkpoint_id == 0);
    expect_ok(&script, "preempt class=5 need=2");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    assert_true(j_of(&script)->terminating);
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "report n2 terminated j");
    assert_false(fsm_hung(j_of(&script)));
    assert_int_equal(summary_of(&script).hung_count, 0);
    script_close(&script);
    start(&script, ""); /* a person may ask; and it is asked when it steps again */
    expect_ok(&script, "after 900000");
    expect_ok(&script, "hang j quiet=300000 gap=1000");
    expect_ok(&script, "request j after=stop");
    assert_true(fsm_hung(j_of(&script)));
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "hang j");
    expect_ok(&script, "decide j purpose=periodic recompute=100 age=900000");
    script_close(&script);
}

static void on_hang_restart_ends_the_run_like_a_failure(void **unused)
{
    static const struct {
        const char *words, *state;
    } rows[] = {{"on_hang=restart", "REQUEUED"},
                {"on_hang=restart max_requeue=1", "REQUEUED"},
                {"on_hang=restart requeue=always", "REQUEUED"},
                {"on_hang=restart broker=manual", "REQUEUED"},
                {"on_hang=restart requeue=never", "RUNNING"}, /* nobody would bring it back */
                {"on_hang=tell", "RUNNING"},
                {"", "RUNNING"}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, rows[i].words);
        expect_ok(&script, "after 900000");
        expect_ok(&script, "hang j quiet=300000 gap=1000");
        if (strcmp(rows[i].state, "RUNNING") != 0) {
            assert_int_equal(j_of(&script)->terminate_reason, CKPT__V1__REASON__REASON_HUNG);
            expect_ok(&script, "report n1 terminated j");
            expect_ok(&script, "report n2 terminated j");
            expect_reason(&script, "j", "hung");
            assert_int_equal(j_of(&script)->requeue_count, 1);
        }
        assert_string_equal(fsm_allocation_state_name(j_of(&script)->state), rows[i].state);
        assert_string_equal(j_of(&script)->hang_text, "rank 1 waits"); /* why it was */
        script_close(&script);
    }
}

/* As after any failure: a pause that grows, and the limit of requeues. */
static void a_job_that_hangs_again_and_again_fails(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "on_hang=restart max_requeue=1");
    for (unsigned round = 0; round < 2; round++) {
        expect_ok(&script, "after 900000");
        expect_ok(&script, "hang j quiet=300000 gap=1000");
        expect_ok(&script, "report n1 terminated j");
        expect_ok(&script, "report n2 terminated j");
        if (round > 0)
            break;
        assert_true(fsm_restart_awaited(script.fsm, j_of(&script)));
        expect_ok(&script, "choose j nodes=n1,n2");
        assert_int_equal(j_of(&script)->restarts_without_progress, 1);
        expect_ok(&script, "report n1 application_started j");
        expect_ok(&script, "report n2 application_started j");
        expect_job(&script, "j", RUNNING);
        assert_false(fsm_hung(j_of(&script)));
    }
    expect_job(&script, "j", FAILED);
    expect_reason(&script, "j", "hung");
    script_close(&script);
}

static void a_part_that_has_finished_steps_no_more(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "report n1 application_exited j status=0");
    assert_false(fsm_hang_steps(script.fsm, j_of(&script), 0));
    assert_true(fsm_hang_steps(script.fsm, j_of(&script), 1));
    expect_ok(&script, "after 900000");
    expect_ok(&script, "hang j quiet=300000 gap=1000");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_is_quiet_for_long_enough_is_hung_until_it_steps),
        cmocka_unit_test(how_long_that_is_follows_from_its_gaps),
        cmocka_unit_test(what_cannot_step_does_not_hang),
        cmocka_unit_test(nothing_is_asked_of_a_job_that_hangs),
        cmocka_unit_test(on_hang_restart_ends_the_run_like_a_failure),
        cmocka_unit_test(a_job_that_hangs_again_and_again_fails),
        cmocka_unit_test(a_part_that_has_finished_steps_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
