/* What an agent keeps with its reports. */
#include "src/agent/job/executor.h"
#include "tests/unit/agent/still_agent.h"

enum { RUN = 7, ASKED_US = 5 * SECOND_US };

/* So the state knows since when there is work that no checkpoint holds, however late it is told. */
static void a_start_is_as_old_as_its_application(void **state)
{
    struct allocation *job = agent_get(&agent, "job");
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;

    (void)state;
    job->entry.run = RUN;
    process_attached(job, &(struct process_identity){.pid = 4711, .start_ticks = 99}, 0, true);
    kept = ledger_report_after(agent.ledger, 0);
    assert_uint_equal(kept->since_us, still_now_us);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_uint_equal(report->run, RUN);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void a_checkpoint_is_as_old_as_its_request(void **state)
{
    struct allocation *job = agent_get(&agent, "job");
    Ckpt__V1__AgentReport report;

    (void)state;
    ckpt__v1__agent_report__init(&report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED;
    report.checkpoint_id = 1;
    allocation_commit(job, &report, ASKED_US);
    assert_uint_equal(ledger_report_after(agent.ledger, 0)->since_us, ASKED_US);
}

#define REPORT_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, still_agent_set_up, still_agent_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REPORT_TEST(a_start_is_as_old_as_its_application),
        REPORT_TEST(a_checkpoint_is_as_old_as_its_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
