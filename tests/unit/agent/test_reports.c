/* What an agent keeps with its reports. */
#include "src/agent/job/process.h"
#include "tests/unit/agent/still_agent.h"

enum { LIFE = 7, STARTED_US = 3 * SECOND_US, ASKED_US = 5 * SECOND_US };

static uint64_t kept_since_us(uint64_t life, uint64_t checkpoint_id)
{
    struct allocation *job = agent_get(&agent, "job");
    Ckpt__V1__AgentReport report;

    job->entry.started_us = STARTED_US;
    ckpt__v1__agent_report__init(&report);
    report.kind = checkpoint_id != 0 ? CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED
                                     : CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
    report.life = life;
    report.checkpoint_id = checkpoint_id;
    allocation_commit(job, &report, checkpoint_id != 0 ? ASKED_US : 0);
    return ledger_report_after(agent.ledger, 0)->since_us;
}

/* By its age the broker tells whether it can be of the present life. */
static void what_has_no_life_is_as_old_as_its_application(void **state)
{
    (void)state;
    assert_uint_equal(kept_since_us(0, 0), STARTED_US);
}

static void what_has_a_life_needs_no_age(void **state)
{
    (void)state;
    assert_uint_equal(kept_since_us(LIFE, 0), 0);
}

static void a_checkpoint_is_as_old_as_its_request(void **state)
{
    (void)state;
    assert_uint_equal(kept_since_us(LIFE, 1), ASKED_US);
}

static void nor_is_one_without_a_life_older(void **state)
{
    (void)state;
    assert_uint_equal(kept_since_us(0, 1), ASKED_US);
}

static void an_application_is_as_old_as_its_start(void **state)
{
    struct allocation *job = agent_get(&agent, "job");

    (void)state;
    job->entry.started_us = STARTED_US; /* of the one before */
    process_attached(job, &(struct process_identity){.pid = 4711, .start_ticks = 99}, 0, true);
    assert_uint_equal(job->entry.started_us, still_now_us);
    assert_uint_equal(ledger_report_after(agent.ledger, 0)->since_us, still_now_us);
}

static void expect_known_life(uint64_t life, uint64_t known_life)
{
    struct allocation *job = agent_get(&agent, "job");
    const struct ledger_report *bytes;
    Ckpt__V1__AgentReport *report;

    job->entry.life = life;
    process_attached(job, &(struct process_identity){.pid = 4711, .start_ticks = 99}, 0, true);
    bytes = ledger_report_after(agent.ledger, 0);
    report = ckpt__v1__agent_report__unpack(NULL, bytes->length, bytes->bytes);
    assert_non_null(report);
    assert_uint_equal(report->known_life, known_life);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* What the last leader knew of had begun before. */
static void a_start_without_a_life_is_told_with_the_lives_that_were_known(void **state)
{
    (void)state;
    still_take_set(LIFE);
    expect_known_life(0, LIFE);
}

static void a_start_before_any_set_knows_of_no_life(void **state)
{
    (void)state;
    expect_known_life(0, 0);
}

static void a_start_with_a_life_needs_no_other(void **state)
{
    (void)state;
    still_take_set(LIFE);
    expect_known_life(LIFE, 0);
}

#define REPORT_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, still_agent_set_up, still_agent_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REPORT_TEST(what_has_no_life_is_as_old_as_its_application),
        REPORT_TEST(what_has_a_life_needs_no_age),
        REPORT_TEST(a_checkpoint_is_as_old_as_its_request),
        REPORT_TEST(nor_is_one_without_a_life_older),
        REPORT_TEST(an_application_is_as_old_as_its_start),
        REPORT_TEST(a_start_without_a_life_is_told_with_the_lives_that_were_known),
        REPORT_TEST(a_start_before_any_set_knows_of_no_life),
        REPORT_TEST(a_start_with_a_life_needs_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
