/* What a ckpt-run that attaches is told: why it waits, what was lost and from what it begins. */
#include "src/base/check.h"
#include "tests/unit/agent/attach_restore.h"

/* In whole words, and it is seen that there was more. */
static void a_damage_that_needs_many_words_is_cut_between_two(void **state)
{
    static const char words[] = "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ";
    Ckpt__V1__AgentReport *report;
    char error[512] = "";

    (void)state;
    for (size_t i = 0; i < 10; i++)
        strcat(error, words);
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_CORRUPT;
    work.error = error;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_true(strlen(report->detail) < 200);
    assert_string_equal(report->detail + strlen(report->detail) - 13, " abcdefghi...");
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_true(becomes(told, WAIT_US));
    assert_true(strlen(said) > 500);
    assert_string_equal(said + strlen(said) - 13, " abcdefghi...");
}

/* Its real clock, but for waits of one length. */
static void (*timer_start_truly)(struct clock_timer *timer, uint64_t delay_us);
static uint64_t shortened_us;

static void timer_start_soon(struct clock_timer *timer, uint64_t delay_us)
{
    timer_start_truly(timer, delay_us == shortened_us ? 20000 : delay_us);
}

static void shorten(uint64_t delay_us)
{
    timer_start_truly = agent.clock.timer_start;
    agent.clock.timer_start = timer_start_soon;
    shortened_us = delay_us;
}

static void expect_advice(Ckpt__V1__AllocationState job_is, const char *advice)
{
    job_state = job_is;
    refusal[0] = '\0';
    attach_to_restore();
    expect_refusal(advice);
    assert_true(becomes(left, WAIT_US));
}

/* Restart of a completed one is refused. */
static void the_advice_for_a_job_that_does_not_run_depends_on_its_state(void **state)
{
    (void)state;
    shorten(500000);
    expect_advice(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED,
                  "it is completed; register a new one, which can go on from its checkpoint "
                  "(ckptctl register --alloc NEW --continues job)");
    expect_advice(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
                  "it is failed; restart it first (ckptctl restart job)");
}

/* S1-091: without a sum nothing would tell whether the right files are restored. */
static void a_restart_point_that_leaves_out_a_sum_is_refused_by_name(void **state)
{
    (void)state;
    run_of_writer = RUN;
    manifest[0] = '\0';
    attach_to_restore();
    expect_refusal("the leader names checkpoint 0-14 without the sum of part-0000, so that nothing "
                   "tells whether the right files are restored");
    assert_contains(refusal, "(ckptctl checkpoint 0-14)");
    assert_string_equal(restored, "");
}

static bool outage_told(void)
{
    return strstr(said, "that target is away") != NULL;
}

static void expect_told(const char *text)
{
    struct rpc_client_call *call;

    said[0] = '\0';
    call = attach_to_restore();
    assert_true(becomes(told, 3000000));
    assert_contains(said, text);
    assert_false(refused());
    rpc_client_call_cancel(call);
    assert_true(becomes(left, WAIT_US));
}

/* Whoever gives up before the agent does has it as the reason. */
static void what_a_job_waits_for_is_told_before_it_is_refused(void **state)
{
    (void)state;
    unknown = true;
    expect_told("the broker does not know this allocation");
    unknown = false;
    job_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED;
    expect_told("allocation job does not run, it is suspended");
}

/* Its worker hangs with its target, and nothing but the state says that that is away. */
static void an_outage_that_begins_while_it_is_read_is_told(void **state)
{
    (void)state;
    shorten(10000000);
    run_of_writer = RUN;
    work.hangs = true;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    discard_at_ms = UINT64_C(1700000000000);
    assert_true(becomes(outage_told, WAIT_US));
    assert_contains(said, "checkpoint 0-14 is read from /ckpt since ");
    assert_contains(said, "it begins without that and repeats 10m");
    assert_true(work.runs);
    work_ends(NULL);
    expect_start(14);
}

/* Not by how often it was started here: what the state knows counts. */
static void why_it_begins_from_scratch_is_what_the_state_says(void **state)
{
    static const struct {
        Ckpt__V1__BeginCause cause;
        const char *scratch, *notice;
    } cases[] = {
        {CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE,
         "there is no complete checkpoint of it yet", ""},
        {CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE, "no checkpoint of it can be read", ""},
        {CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP,
         "checkpoint 0-14 is given up, since its target is away, and 10m00s of run time are "
         "repeated",
         "checkpoint 0-14 is waited for no more, its target is away: 10m00s"},
        {CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_LEFT, "checkpoint 0-14 is left aside", ""},
        {CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNSPECIFIED, "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rpc_client_call *call;

        memset(&ready, 0, sizeof(ready));
        without = cases[i].cause;
        call = attach_to_restore();
        expect_start(0);
        assert_contains(ready.scratch, cases[i].scratch);
        assert_contains(ready.notice, cases[i].notice);
        assert_int_equal(ready.scratch[0] == '\0', cases[i].scratch[0] == '\0');
        assert_int_equal(ready.notice[0] == '\0', cases[i].notice[0] == '\0');
        rpc_client_call_cancel(call);
        assert_true(becomes(left, WAIT_US));
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_advice_for_a_job_that_does_not_run_depends_on_its_state),
        T(a_restart_point_that_leaves_out_a_sum_is_refused_by_name),
        T(what_a_job_waits_for_is_told_before_it_is_refused),
        T(a_damage_that_needs_many_words_is_cut_between_two),
        T(an_outage_that_begins_while_it_is_read_is_told),
        T(why_it_begins_from_scratch_is_what_the_state_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
