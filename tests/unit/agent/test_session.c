/* What an agent tells the leader on its stream: as of which report, and how old what it reports is
 * (I30). */
#include "fsm/message_level.h"
#include "raft/uv_io.h"
#include "src/agent/daemon/session.h"
#include "src/agent/job/executor.h"
#include "src/base/log.h"
#include "src/rpc/server.h"
#include "tests/unit/agent/still_agent.h"

#include <unistd.h>

#define KIND(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

enum { WAIT_US = 10000000, AGO_MS = 7000, REPORTS_MAX = 8, RUN = 7, PID = 100, START_TICKS = 5000 };

static uv_loop_t loop;
static struct disk_ops disk;
static char folder[32]; /* of the journal */
static bool application_lives;
static struct rpc_server *broker;
static Ckpt__V1__AgentUp *hello, *reports[REPORTS_MAX];
static size_t report_count;
static uint64_t beat_report; /* as of which the last heartbeat was */

/* ---- the machine ---- */

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context, (void)ret_status;
    if (!application_lives || pid != PID)
        return -1;
    *ret_stat = (struct proc_stat){
        .pid = PID, .group = PID, .threads = 1, .state = 'R', .start_ticks = START_TICKS};
    return 0;
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    (void)context, (void)group, (void)each, (void)data;
    return application_lives ? 1 : 0;
}

static int group_signal(void *context, pid_t group, int number, struct err *err)
{
    (void)context, (void)err;
    fail_msg("signal %d to group %d", number, (int)group);
    return -1;
}

static struct stragglers_look *no_stragglers(void *context, const struct job_identity *job,
                                             bool kill, void (*done)(void *data, size_t count),
                                             void *data)
{
    (void)context, (void)job, (void)kill, (void)done, (void)data;
    return NULL;
}

static void agent_begin(const char *boot_id)
{
    struct machine_ops machine;
    struct ledger *ledger;
    struct err err;

    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.group_each = group_each;
    machine.group_signal = group_signal;
    machine.stragglers_find = no_stragglers;
    if (ledger_open(&disk, folder, "node-a", boot_id, &ledger, &err) != 0)
        fail_msg("%s", err.text);
    still_agent_begin(&machine, boot_id, ledger);
    agent.loop = &loop;
    agent_resume(&agent);
}

/* ---- the leader ---- */

static uint32_t level; /* of its cluster */

static void welcome(struct rpc_call *call)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__AgentWelcome message = CKPT__V1__AGENT_WELCOME__INIT;
    char cluster[] = "cluster";
    uint8_t bytes[64];

    message.cluster_id = cluster;
    message.epoch = message.term = 1;
    message.feature_level = level;
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
    struct err err;

    (void)state;
    hello = NULL;
    report_count = 0;
    beat_report = 0;
    level = FSM_LEVEL_NEWEST;
    application_lives = true;
    strcpy(folder, "/tmp/test-session-XXXXXX");
    if (mkdtemp(folder) == NULL || uv_loop_init(&loop) != 0)
        return -1;
    disk_uv_ops(NULL, &disk); /* nothing here needs its loop */
    broker = rpc_server_new(&loop, NULL);
    rpc_server_add_method(broker, "/ckpt.v1.AgentService/Session", true, true, &sessions, NULL);
    still_now_us = 100 * SECOND_US;
    agent_begin("boot-1");
    return rpc_server_listen(broker, "127.0.0.1:0", &err);
}

static void server_freed(void *data)
{
    (void)data;
}

static int tear_down(void **state)
{
    char command[64];

    session_free(agent.session);
    still_agent_close(state);
    rpc_server_free(broker, server_freed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (hello != NULL)
        ckpt__v1__agent_up__free_unpacked(hello, NULL);
    while (report_count > 0)
        ckpt__v1__agent_up__free_unpacked(reports[--report_count], NULL);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return uv_loop_close(&loop) == 0 ? system(command) : -1;
}

/* Until the leader has the hello and so many reports. */
static void talk(size_t wanted)
{
    uint64_t end_us = uv_hrtime() / 1000 + WAIT_US;
    char address[32];
    struct err err;

    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(broker, 0));
    still_first_fire = NULL;
    assert_int_equal(session_new(&agent, address, 1000, &agent.session, &err), 0);
    still_first_fire(agent.session); /* it dials */
    while ((hello == NULL || report_count < wanted) && uv_hrtime() / 1000 < end_us) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_non_null(hello);
    assert_int_equal(report_count, wanted);
}

static uint64_t ago_us(void)
{
    return still_now_us - UINT64_C(1000) * AGO_MS;
}

static void assert_ago(uint64_t age_ms)
{
    assert_in_range(age_ms, AGO_MS, AGO_MS + 1);
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

static void what_is_reported_is_told_with_its_age(void **state)
{
    (void)state;
    keep(KIND(APPLICATION_STARTED), 0, ago_us());
    keep(KIND(APPLICATION_EXITED), 0, 0);
    keep(KIND(STARTED), 1, ago_us());
    talk(3);
    assert_uint_equal(hello->hello->last_report_sequence, 3);
    assert_uint_equal(beat_report, 3);
    assert_ago(reports[0]->report->snapshot_age_ms);
    assert_uint_equal(reports[1]->report->snapshot_age_ms, 0);
    assert_ago(reports[2]->report->snapshot_age_ms);
}

/* S3-045 */
static void a_node_says_what_it_is(void **state)
{
    (void)state;
    agent.architecture = "x86_64";
    agent.os = "debian 12";
    talk(0);
    assert_string_equal(hello->hello->machine, "x86_64");
    assert_string_equal(hello->hello->os, "debian 12");
}

static unsigned first_ends, counted_ends, outages_over;
static char last_count[128];

static bool take_line(const char *line, size_t length)
{
    char text[1024];
    const char *count;

    snprintf(text, sizeof(text), "%.*s", (int)length, line);
    count = strstr(text, "event=sessions_ended");
    first_ends += strstr(text, "event=session_ended") != NULL;
    counted_ends += count != NULL;
    outages_over += strstr(text, "event=session_outage_over") != NULL;
    if (count != NULL)
        snprintf(last_count, sizeof(last_count), "%.100s", count);
    return true;
}

/* One that nobody answers: each second it dials again. */
static void outage(unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        still_now_us += SECOND_US;
        still_first_fire(agent.session); /* dials */
        still_first_fire(agent.session); /* and has no welcome in time */
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

/* An outage of ten minutes is one line at once, one a minute and one at its end: not one for each
 * of its attempts. */
static void an_outage_is_told_once_a_minute(void **state)
{
    uint64_t end_us = uv_hrtime() / 1000 + WAIT_US;
    char address[32];
    struct err err;

    (void)state;
    first_ends = counted_ends = outages_over = 0;
    log_set_sink(take_line);
    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(broker, 0));
    still_first_fire = NULL;
    assert_int_equal(session_new(&agent, address, 1000, &agent.session, &err), 0);
    outage(600);
    assert_uint_equal(first_ends, 1);
    assert_in_range(counted_ends, 8, 10);
    assert_non_null(strstr(last_count, "count=60 "));
    assert_uint_equal(outages_over, 0);
    still_first_fire(agent.session);
    while (!session_open(agent.session) && uv_hrtime() / 1000 < end_us) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    log_set_sink(NULL);
    assert_true(session_open(agent.session));
    assert_uint_equal(first_ends, 1);
    assert_uint_equal(outages_over, 1);
}

/* 0 says that nothing is known. */
static void an_age_is_rounded_up(void **state)
{
    static const uint64_t ages_us[REPORTS_MAX] = {0, 1, 999, 1000, 7000001};

    (void)state;
    for (size_t i = 0; i < REPORTS_MAX; i++)
        keep(KIND(STARTED), 1, still_now_us - ages_us[i]);
    talk(REPORTS_MAX);
    for (size_t i = 0; i < REPORTS_MAX; i++) {
        uint64_t age_ms = reports[i]->report->snapshot_age_ms;

        assert_true(age_ms > 0);
        assert_true(age_ms * 1000 >= ages_us[i]);
        assert_true(age_ms * 1000 <= ages_us[i] + 1000);
    }
}

/* U-001: with a field that it does not know, the leader would refuse the report again and again. */
static void expect_level(uint32_t told, uint32_t wanted)
{
    Ckpt__V1__AgentReport full = CKPT__V1__AGENT_REPORT__INIT;
    const char *field;
    struct err err;
    uint8_t bytes[64];
    char id[] = "job";

    level = told;
    full.kind = KIND(APPLICATION_EXITED);
    full.allocation_id = id;
    full.exit_status = 1;
    full.told_write_ms = full.saved_before_ms = full.user = 7;
    full.end = CKPT__V1__APPLICATION_END__APPLICATION_END_ASKED;
    assert_int_equal(fsm_message_level(&full.base, &field), FSM_LEVEL_NEWEST);
    assert_int_equal(ledger_commit(agent.ledger, NULL, bytes,
                                   ckpt__v1__agent_report__pack(&full, bytes), 0, &err),
                     0);
    talk(1);
    assert_int_equal(fsm_message_level(&reports[0]->report->base, &field), wanted);
    assert_int_equal(reports[0]->report->exit_status, 1);
}

static void a_cluster_of_the_first_level_is_told_what_it_knows(void **state)
{
    (void)state;
    expect_level(FSM_LEVEL_FIRST, FSM_LEVEL_FIRST);
}

static void who_names_no_level_is_of_the_first(void **state)
{
    (void)state;
    expect_level(0, FSM_LEVEL_FIRST);
}

static void a_cluster_of_the_newest_level_is_told_all(void **state)
{
    (void)state;
    expect_level(FSM_LEVEL_NEWEST, FSM_LEVEL_NEWEST);
}

/* ---- an agent that restarts ---- */

static struct allocation *job_of(void)
{
    return agent_get(&agent, "job");
}

/* In an outage: no leader is told. */
static void starts(void)
{
    job_of()->entry.run = RUN;
    process_attached(job_of(), &(struct process_identity){.pid = PID, .start_ticks = START_TICKS},
                     0, true);
}

static void restarts(const char *boot_id)
{
    still_agent_close(NULL);
    agent_begin(boot_id);
}

/* No ckpt-run tells how. */
static void ends(void)
{
    application_lives = false;
    still_first_fire(job_of());
    still_now_us += 4 * SECOND_US;
    still_first_fire(job_of());
    assert_int_equal(job_of()->process.state, PROCESS_ABSENT);
}

/* Of a boot before its age is not known: its clock began anew. */
static void expect_start_and_end(uint64_t start_age_ms)
{
    talk(2);
    assert_int_equal(reports[0]->report->kind, KIND(APPLICATION_STARTED));
    assert_int_equal(reports[1]->report->kind, KIND(APPLICATION_EXITED));
    assert_uint_equal(reports[0]->report->run, RUN);
    assert_uint_equal(reports[1]->report->run, RUN);
    assert_uint_equal(reports[0]->report->snapshot_age_ms, start_age_ms);
}

static void what_was_started_before_a_restart_is_told_with_its_run_and_age(void **state)
{
    (void)state;
    starts();
    still_now_us += 5 * SECOND_US;
    restarts("boot-1");
    assert_int_equal(job_of()->process.state, PROCESS_RUNNING);
    still_now_us += 5 * SECOND_US;
    ends();
    restarts("boot-1");
    expect_start_and_end(14001);
}

static void what_was_started_before_a_reboot_is_told_with_its_run(void **state)
{
    (void)state;
    starts();
    still_now_us = SECOND_US;
    restarts("boot-2");
    ends();
    restarts("boot-2");
    expect_start_and_end(0);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(what_is_reported_is_told_with_its_age),
        SESSION_TEST(a_node_says_what_it_is),
        SESSION_TEST(an_outage_is_told_once_a_minute),
        SESSION_TEST(an_age_is_rounded_up),
        SESSION_TEST(a_cluster_of_the_first_level_is_told_what_it_knows),
        SESSION_TEST(who_names_no_level_is_of_the_first),
        SESSION_TEST(a_cluster_of_the_newest_level_is_told_all),
        SESSION_TEST(what_was_started_before_a_restart_is_told_with_its_run_and_age),
        SESSION_TEST(what_was_started_before_a_reboot_is_told_with_its_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
