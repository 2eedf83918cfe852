/* What an agent tells the leader on its stream: as of which report, and how old what it reports is (I30). */
#include "src/agent/allocation.h"
#include "src/agent/session.h"
#include "src/rpc/server.h"
#include "src/rpc/uv_clock.h"
#include "tests/support/test.h"

#include <unistd.h>

#define KIND(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

enum { WAIT_US = 10000000, AGO_MS = 7000, REPORTS_MAX = 8 };

static uv_loop_t loop;
static struct agent agent;
static struct rpc_server *broker;
static Ckpt__V1__AgentUp *hello, *reports[REPORTS_MAX];
static size_t report_count;
static uint64_t beat_report; /* as of which the last heartbeat was */

static void welcome(struct rpc_call *call)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__AgentWelcome message = CKPT__V1__AGENT_WELCOME__INIT;
    char cluster[] = "cluster";
    uint8_t bytes[64];

    message.cluster_id = cluster;
    message.epoch = message.term = 1;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_WELCOME;
    down.welcome = &message;
    assert_true(ckpt__v1__agent_down__get_packed_size(&down) <= sizeof(bytes));
    rpc_call_send(call, bytes, ckpt__v1__agent_down__pack(&down, bytes));
}

static void take_up(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__AgentUp *up = ckpt__v1__agent_up__unpack(NULL, length, bytes);

    (void)data;
    assert_non_null(up);
    if (up->body_case == CKPT__V1__AGENT_UP__BODY_HELLO && hello == NULL) {
        hello = up;
        welcome(call);
    } else if (up->body_case == CKPT__V1__AGENT_UP__BODY_REPORT && report_count < REPORTS_MAX) {
        reports[report_count++] = up;
    } else {
        if (up->body_case == CKPT__V1__AGENT_UP__BODY_HEARTBEAT)
            beat_report = up->heartbeat->last_report_sequence;
        ckpt__v1__agent_up__free_unpacked(up, NULL);
    }
}

static int set_up(void **state)
{
    static const struct rpc_handlers sessions = {.on_message = take_up};
    struct machine_ops machine;
    struct clock_ops clock;
    struct err err;

    (void)state;
    hello = NULL;
    report_count = 0;
    beat_report = 0;
    if (uv_loop_init(&loop) != 0)
        return -1;
    broker = rpc_server_new(&loop, NULL);
    rpc_server_add_method(broker, "/ckpt.v1.AgentService/Session", true, true, &sessions, NULL);
    uv_clock_ops(&loop, &clock);
    machine_uv_ops(&loop, &machine);
    agent_init(&agent, &loop, &clock, &machine, "node-a", "boot-1", ledger_new());
    return rpc_server_listen(broker, "127.0.0.1:0", &err);
}

static void server_freed(void *data)
{
    (void)data;
}

static int tear_down(void **state)
{
    (void)state;
    session_free(agent.session);
    agent_close(&agent);
    ledger_close(agent.ledger);
    rpc_server_free(broker, server_freed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (hello != NULL)
        ckpt__v1__agent_up__free_unpacked(hello, NULL);
    while (report_count > 0)
        ckpt__v1__agent_up__free_unpacked(reports[--report_count], NULL);
    return uv_loop_close(&loop);
}

/* Until the leader has the hello and so many reports. */
static void talk(size_t wanted)
{
    uint64_t end_us = agent_now_us(&agent) + WAIT_US;
    char address[32];
    struct err err;

    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(broker, 0));
    assert_int_equal(session_new(&agent, address, 1000, &agent.session, &err), 0);
    while ((hello == NULL || report_count < wanted) && agent_now_us(&agent) < end_us) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_non_null(hello);
    assert_int_equal(report_count, wanted);
}

static uint64_t ago_us(void)
{
    return agent_now_us(&agent) - UINT64_C(1000) * AGO_MS;
}

static void assert_ago(uint64_t age_ms)
{
    assert_in_range(age_ms, AGO_MS, AGO_MS + WAIT_US / 1000);
}

static void keep(Ckpt__V1__ReportKind kind, uint64_t checkpoint_id, uint64_t since_us)
{
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char id[] = "job";
    uint8_t bytes[64];
    struct err err;

    report.kind = kind;
    report.allocation_id = id;
    report.checkpoint_id = checkpoint_id;
    assert_true(ckpt__v1__agent_report__get_packed_size(&report) <= sizeof(bytes));
    assert_int_equal(ledger_commit(agent.ledger, NULL, bytes,
                                   ckpt__v1__agent_report__pack(&report, bytes), since_us, &err),
                     0);
}

/* One about a checkpoint with that of its snapshot, of this boot only; any other with that of its application. */
static void what_is_reported_is_told_with_its_age(void **state)
{
    (void)state;
    keep(KIND(APPLICATION_EXITED), 0, ago_us());
    keep(KIND(APPLICATION_EXITED), 0, LEDGER_EARLIER_BOOT);
    keep(KIND(APPLICATION_EXITED), 0, 0);
    keep(KIND(STARTED), 1, ago_us());
    keep(KIND(STARTED), 1, LEDGER_EARLIER_BOOT);
    talk(5);
    assert_uint_equal(hello->hello->last_report_sequence, 5);
    assert_uint_equal(beat_report, 5);
    assert_ago(reports[0]->report->application_age_ms);
    assert_uint_equal(reports[1]->report->application_age_ms, UINT64_MAX);
    assert_uint_equal(reports[2]->report->application_age_ms, 0);
    assert_ago(reports[3]->report->snapshot_age_ms);
    assert_uint_equal(reports[4]->report->snapshot_age_ms, 0);
    for (size_t i = 0; i < report_count; i++)
        assert_true(reports[i]->report->snapshot_age_ms == 0 ||
                    reports[i]->report->application_age_ms == 0);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(what_is_reported_is_told_with_its_age),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
