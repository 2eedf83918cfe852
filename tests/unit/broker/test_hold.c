/* Restarts elsewhere that wait until the last run has ended, by a real replica of one member (I61).
 */
#include "fsm/level.h"
#include "src/broker/api/hold.h"
#include "tests/unit/broker/service_calls.h"

static char *constant(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void on_applied(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    assert_null(failed);
    assert_int_equal(outcome->status, FSM_OK);
    *(bool *)data = true;
}

static void apply(Ckpt__Log__V1__Command *command)
{
    bool applied = false;

    replica_propose(fixture->broker.replica, command, on_applied, &applied);
    run_until(&applied);
}

static void node_seen(const char *id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;

    seen.node_id = constant(id);
    seen.boot_id = constant("boot");
    seen.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    apply(&command);
}

static void node_says_it_ended(const char *node, const char *job)
{
    const struct fsm *fsm = replica_fsm(fixture->broker.replica);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    report.sequence = fsm_node_find(fsm, node)->last_report_sequence + 1;
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED;
    report.allocation_id = constant(job);
    report.run = fsm_allocation_find(fsm, job)->nodes[0].run;
    message.node_id = constant(node);
    message.report = &report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    apply(&command);
}

/* A job whose scheduler has ended it on node-1, and which is restarted on node-2. */
static void restart_elsewhere(const char *job, const char *request_id, struct answer *answer)
{
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT, *shares = &share;

    share.node_id = constant("node-2");
    request.request_id = constant(request_id);
    request.allocation_id = constant(job);
    request.from_scratch = true;
    request.n_nodes = 1;
    request.nodes = &shares;
    start(BROKER("RestartAllocation"), &request.base, answer);
}

static void end_failed(const char *job)
{
    static struct answer answer;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    char request_id[64];

    snprintf(request_id, sizeof(request_id), "register-%s", job);
    ckpt__v1__mutation_reply__free_unpacked(register_allocation(request_id, job), NULL);
    snprintf(request_id, sizeof(request_id), "end-%s", job);
    end.request_id = request_id;
    end.allocation_id = constant(job);
    end.failed = true;
    call(BROKER("EndAllocation"), &end.base, &answer);
    expect(&answer, RPC_OK, "");
}

static void pass_ms(uint64_t ms)
{
    const uint64_t until_ms = uv_now(&fixture->loop) + ms;
    uv_timer_t *guard = &fixture->guard;

    uv_timer_start(guard, be_late, 10, 10);
    while (uv_now(&fixture->loop) < until_ms)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    uv_timer_stop(guard);
}

static void a_restart_waits_for_the_moment_that_an_end_takes(void **state)
{
    static struct answer answer;

    (void)state;
    node_seen("node-1");
    node_seen("node-2");
    assert_true(fsm_level(replica_fsm(fixture->broker.replica)) >= 2);
    end_failed("job");
    restart_elsewhere("job", "restart-1", &answer);
    pass_ms(300);
    assert_false(answer.ended);
    node_says_it_ended("node-1", "job");
    run_until(&answer.ended);
    expect(&answer, RPC_OK, "");
}

/* The client that gives its attempt up and repeats it does not begin the time anew. */
static void a_restart_is_refused_when_nobody_says_that_the_run_ended(void **state)
{
    static struct answer first, second;
    uint64_t began_ms;

    (void)state;
    end_failed("job-2");
    began_ms = uv_now(&fixture->loop);
    restart_elsewhere("job-2", "restart-2", &first);
    pass_ms(HOLD_MS / 2);
    restart_elsewhere("job-2", "restart-2", &second);
    run_until(&second.ended);
    expect(&second, RPC_FAILED_PRECONDITION, "RUN_NOT_ENDED: ");
    assert_true(uv_now(&fixture->loop) - began_ms >= HOLD_MS - 100);
    assert_true(uv_now(&fixture->loop) - began_ms < HOLD_MS + HOLD_MS / 2);
    run_until(&first.ended);
    expect(&first, RPC_FAILED_PRECONDITION, "RUN_NOT_ENDED: node-1: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_waits_for_the_moment_that_an_end_takes),
        cmocka_unit_test(a_restart_is_refused_when_nobody_says_that_the_run_ended),
    };

    return cmocka_run_group_tests(tests, open_one, close_fixture);
}
