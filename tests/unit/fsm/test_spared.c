/* Victims whose checkpoint fails: without force they go on, and others are tried. V-009. */
#include "tests/unit/fsm/expect.h"

#include "fsm/ends.h"

#define RUNNING CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING

static const struct fsm_preemption *preemption_of(const struct script *script)
{
    const struct fsm_preemption *preemption = fsm_preemption_next(script->fsm, 0);

    assert_non_null(preemption);
    return preemption;
}

static void expect_withdrawn(const struct script *script, uint32_t place, const char *reason)
{
    const struct fsm_preemption_victim *victim = &preemption_of(script)->victims[place];

    assert_true(place < preemption_of(script)->victim_count);
    assert_int_equal(victim->state, CKPT__V1__VICTIM_STATE__VICTIM_STATE_WITHDRAWN);
    assert_string_equal(fsm_reason_word(victim->reason, (char[FSM_WORD_BYTES]){0}), reason);
}

/* j1 on n1 is to stop for a preemption, j2 on n2 could as well; cluster and request as told. */
static void start(struct script *script, const char *level, const char *how)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    expect_ok(script, "policy min_interval=1 backoff=1000");
    expect_ok(script, "register j1 nodes=n1 class=1 memory=1 requeue=never");
    expect_ok(script, "register j2 nodes=n2 class=2 requeue=never");
    expect_ok(script, "preempt class=5 %s", how);
    expect_victims(script, "j1");
    expect_ok(script, "grant 1-1 timeout=600000");
    expect_ok(script, "report n1 started j1 ckpt=1-1");
}

/* S1-065, P-050: writes fail at the destination, although its probe is fine. */
static void a_victim_that_cannot_write_goes_on_and_another_is_tried(void **unused)
{
    static const char *const reasons[] = {"storage_full",        "verify_failed",
                                          "application_refused", "empty_checkpoint",
                                          "no_handler",          "ranks_missing"};

    (void)unused;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct script script;

        start(&script, "", "");
        expect_ok(&script, "policy attempts=1");
        expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=%s", reasons[i]);
        expect_checkpoint(&script, 1, FAILED);
        expect_job(&script, "j1", RUNNING);
        expect_reason(&script, "j1", reasons[i]);
        assert_false(job_of(&script, "j1")->terminating);
        expect_withdrawn(&script, 0, reasons[i]);
        expect_ok(&script, "tick");
        expect_job(&script, "j2", CHECKPOINTING_TO_STOP);
        expect_ok(&script, "grant 1-2 timeout=600000");
        expect_ok(&script, "report n2 shard_verified j2 ckpt=1-2");
        expect_ok(&script, "report n2 terminated j2");
        expect_job(&script, "j2", SUSPENDED);
        assert_int_equal(preemption_of(&script)->state,
                         CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
        assert_int_equal(job_of(&script, "j1")->preempted_count, 0);
        script_close(&script);
    }
}

/* Decision 5: as every member of a cluster of level 1 decides, and wherever somebody forces it */
static void a_forced_victim_is_ended_and_so_is_any_of_level_1(void **unused)
{
    static const char *const rows[][2] = {{"level=1", ""}, {"", "forced"}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, rows[i][0], rows[i][1]);
        expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=empty_checkpoint");
        assert_true(job_of(&script, "j1")->terminating);
        expect_ok(&script, "report n1 terminated j1");
        expect_job(&script, "j1", FAILED);
        assert_int_equal(preemption_of(&script)->victims[0].reason, CKPT__V1__REASON__REASON_NONE);
        script_close(&script);
    }
}

/* P-041, S1-033: who was asked and does not answer is ended; a destination that hangs, or an agent
 * that never asks, is not the application's silence. */
static void only_silence_of_the_application_ends_it(void **unused)
{
    static const struct {
        const char *said; /* of n1, after it was asked */
        bool ends;
    } rows[] = {{"report n1 responsive j1 ckpt=1-1", true},
                {"report n1 responsive j1 ckpt=1-1 stall=5", false},
                {"report n1 checkpoint_failed j1 ckpt=1-1 reason=checkpoint_timeout", true}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, "", "");
        expect_ok(&script, "after 500000");
        expect_ok(&script, "%s", rows[i].said);
        expect_ok(&script, "after 600000");
        expect_ok(&script, "tick");
        expect_checkpoint(&script, 1, TIMED_OUT);
        expect_ok(&script, "after 60000");
        expect_ok(&script, "tick");
        assert_int_equal(job_of(&script, "j1")->state != RUNNING, rows[i].ends);
        assert_int_equal(job_of(&script, "j1")->unresponsive, rows[i].ends);
        if (!rows[i].ends)
            expect_withdrawn(&script, 0, "checkpoint_timeout");
        script_close(&script);
    }
}

static void who_was_never_asked_is_not_silent(void **unused)
{
    struct script script;

    (void)unused;
    script_start_victim(&script, 600000);
    expect_ok(&script, "after 600000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, TIMED_OUT);
    expect_job(&script, "j1", RUNNING);
    assert_false(job_of(&script, "j1")->unresponsive);
    script_close(&script);
}

/* Of two nodes one fails, or one is silent while the other has answered. */
static void parts_of_a_victim_count_each(void **unused)
{
    for (int silent = 0; silent < 2; silent++) {
        struct script script;

        (void)unused;
        script_start(&script);
        expect_ok(&script, "policy attempts=1");
        expect_ok(&script, "register wide nodes=n1,n2 class=1");
        expect_ok(&script, "preempt class=5 need=2");
        expect_ok(&script, "grant 1-1 timeout=600000");
        expect_ok(&script, "report n1 started wide ckpt=1-1");
        expect_ok(&script, "report n2 started wide ckpt=1-1");
        expect_ok(&script, "report n1 shard_verified wide ckpt=1-1");
        if (silent) {
            expect_ok(&script, "after 700000");
            expect_ok(&script, "tick");
        } else {
            expect_ok(&script, "report n2 checkpoint_failed wide ckpt=1-1 reason=storage_error");
        }
        assert_int_equal(job_of(&script, "wide")->terminating, silent);
        if (!silent)
            expect_withdrawn(&script, 0, "storage_error");
        script_close(&script);
    }
}

/* The second one fails too: the preemption ends, and says why. */
static void a_preemption_ends_when_nobody_can_save(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=application_refused");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-2 timeout=600000");
    expect_ok(&script, "report n2 checkpoint_failed j2 ckpt=1-2 reason=empty_checkpoint");
    expect_ok(&script, "tick");
    expect_job(&script, "j1", RUNNING);
    expect_job(&script, "j2", RUNNING);
    expect_withdrawn(&script, 0, "application_refused");
    expect_withdrawn(&script, 1, "empty_checkpoint");
    assert_int_equal(preemption_of(&script)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_EXPIRED);
    assert_int_equal(preemption_of(&script)->refusal, FSM_NO_VICTIMS);
    expect_ok(&script, "preempt class=5 for=other"); /* it may be tried again */
    expect_victims(&script, "j1");
    script_close(&script);
}

/* P-024: what the others gave stays given. */
static void one_of_several_victims_is_replaced(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy attempts=1");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "register j%d nodes=n%d class=1 memory=%d", i, i, i);
    expect_ok(&script, "preempt class=5 need=2");
    expect_victims(&script, "j1 j2");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 checkpoint_failed j2 ckpt=1-2 reason=write_failed");
    expect_ok(&script, "tick");
    expect_job(&script, "j2", RUNNING);
    expect_job(&script, "j3", CHECKPOINTING_TO_STOP);
    expect_ok(&script, "report n3 application_exited j3"); /* it is done meanwhile */
    expect_job(&script, "j3", COMPLETED);
    assert_int_equal(preemption_of(&script)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    script_close(&script);
}

/* Nobody waits for its nodes any more, so that a failure ends it for nobody. */
static void a_victim_of_a_preemption_that_ended_goes_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 memory=1");
    expect_ok(&script, "register b nodes=n2 class=1 memory=2");
    expect_ok(&script, "preempt class=5 need=2");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "report n1 started a ckpt=1-1");
    expect_ok(&script, "cancel 1-2");
    expect_ok(&script, "tick"); /* EXPIRED, and a writes on */
    assert_int_equal(preemption_of(&script)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_EXPIRED);
    expect_ok(&script, "report n1 checkpoint_failed a ckpt=1-1 reason=application_refused");
    expect_job(&script, "a", RUNNING);
    assert_int_equal(job_of(&script, "a")->preemption_id, 0);
    script_close(&script);
}

/* S1-094: its last safe slot became the stop, and is not lost with it. */
static void a_spared_victim_gets_its_last_safe_slot_again(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1 walltime=36000000");
    expect_ok(&script, "after 30000000");
    expect_ok(&script, "decide j1 purpose=walltime after=continue");
    assert_true(job_of(&script, "j1")->walltime_asked);
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=empty_checkpoint");
    expect_job(&script, "j1", RUNNING);
    assert_false(job_of(&script, "j1")->walltime_asked);
    script_close(&script);
}

static void expect_way(const struct script *script, const char *job, Ckpt__V1__StopWay way)
{
    assert_int_equal(fsm_victim_stop_way(script->fsm, job_of(script, job)), way);
}

/* A plan tells it before anybody confirms. P-022, P-041 */
static void how_a_job_would_stop_is_known_before(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register plain nodes=n1 class=1 memory=800000000000");
    expect_ok(&script, "register none nodes=n2 class=1 strategy=none");
    expect_ok(&script, "register pair nodes=n3,n4 class=1");
    expect_ok(&script, "register waits nodes=n5 class=1 starting");
    expect_way(&script, "plain", CKPT__V1__STOP_WAY__STOP_WAY_CHECKPOINT);
    expect_way(&script, "none", CKPT__V1__STOP_WAY__STOP_WAY_STRATEGY_NONE);
    expect_way(&script, "waits", CKPT__V1__STOP_WAY__STOP_WAY_NOT_BEGUN);
    expect_ok(&script, "report n3 application_exited pair");
    expect_way(&script, "pair", CKPT__V1__STOP_WAY__STOP_WAY_PART_FINISHED);
    expect_ok(&script, "request plain");
    expect_ok(&script, "grant 1-1 timeout=600000");
    expect_ok(&script, "report n1 shard_verified plain ckpt=1-1");
    expect_way(&script, "plain", CKPT__V1__STOP_WAY__STOP_WAY_LESS_AT_STAKE);
    expect_ok(&script, "after 86400000");
    expect_ok(&script, "request plain");
    expect_ok(&script, "grant 1-2 timeout=600000");
    expect_ok(&script, "after 86400000");
    expect_ok(&script, "tick");
    expect_way(&script, "plain", CKPT__V1__STOP_WAY__STOP_WAY_UNRESPONSIVE);
    expect_ok(&script, "target scratch down");
    expect_way(&script, "plain", CKPT__V1__STOP_WAY__STOP_WAY_STORAGE_AWAY);
    expect_ok(&script, "end plain");
    expect_way(&script, "plain", CKPT__V1__STOP_WAY__STOP_WAY_UNSPECIFIED);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_victim_that_cannot_write_goes_on_and_another_is_tried),
        cmocka_unit_test(a_forced_victim_is_ended_and_so_is_any_of_level_1),
        cmocka_unit_test(only_silence_of_the_application_ends_it),
        cmocka_unit_test(who_was_never_asked_is_not_silent),
        cmocka_unit_test(parts_of_a_victim_count_each),
        cmocka_unit_test(a_preemption_ends_when_nobody_can_save),
        cmocka_unit_test(one_of_several_victims_is_replaced),
        cmocka_unit_test(a_victim_of_a_preemption_that_ended_goes_on),
        cmocka_unit_test(a_spared_victim_gets_its_last_safe_slot_again),
        cmocka_unit_test(how_a_job_would_stop_is_known_before)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
