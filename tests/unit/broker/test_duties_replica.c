/* The duties on a real replica of one: log on disk, gRPC on loopback, real time. An agent's stream
 * from hello to COMPLETE, then a restart of the member with the same folder (I6: what was
 * acknowledged is still there). */
#include <stdio.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "src/broker/replica/ticker.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"
#include "tests/unit/broker/stream_agent.h"

enum { WAIT_MS = 20000 };

struct member {
    uv_loop_t loop;
    struct broker broker;
    struct config config;
    struct disk_ops disk;
    struct network_ops network;
    struct consensus_member address;
    Ckpt__Log__V1__ClusterInit initial;
    struct agent agent;
    bool closed;
};

static char folder[] = "/tmp/ckpt-duties-XXXXXX";
static char data_dir[64];

static void on_fatal(void *context, const struct err *err)
{
    (void)context;
    fprintf(stderr, "fatal: %s\n", err->text);
    abort();
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

#define await(member, condition)                                                                   \
    do {                                                                                           \
        uint64_t end_ms = uv_hrtime() / 1000000 + WAIT_MS;                                         \
        while (!(condition) && uv_hrtime() / 1000000 < end_ms)                                     \
            uv_run(&(member)->loop, UV_RUN_NOWAIT);                                                \
        if (!(condition))                                                                          \
            print_error("never came: %s\n", #condition);                                           \
        assert_true(condition);                                                                    \
    } while (0)

static void fill_initial(struct member *member)
{
    static Ckpt__V1__Policy policy;
    static Ckpt__V1__TargetSpec target;
    static Ckpt__V1__TargetSpec *targets[] = {&target};
    static char cluster[] = "duties", scratch[] = "scratch", prefix[] = "/scratch";

    ckpt__v1__policy__init(&policy);
    ckpt__v1__target_spec__init(&target);
    ckpt__log__v1__cluster_init__init(&member->initial);
    target.target_id = scratch;
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.prefix = prefix;
    target.write_bytes_per_s = UINT64_C(10000000000);
    target.is_default = true;
    member->initial.cluster_id = cluster;
    member->initial.epoch = 1;
    member->initial.policy = &policy;
    member->initial.n_targets = 1;
    member->initial.targets = targets;
}

static void open_replica(struct member *member, bool bootstrap)
{
    struct consensus_config config = {.member_id = 1,
                                      .cluster_id = "duties",
                                      .data_dir = data_dir,
                                      .listen_address = "127.0.0.1:0",
                                      .members = &member->address,
                                      .member_count = 1,
                                      .bootstrap = bootstrap,
                                      .election_timeout_ms = 200,
                                      .heartbeat_ms = 50,
                                      .clock = &member->broker.clock,
                                      .random = &member->broker.random,
                                      .disk = &member->disk,
                                      .network = &member->network};
    struct err err;

    member->address = (struct consensus_member){.id = 1, .name = "n1", .address = "127.0.0.1:0"};
    if (replica_open(&config, &member->initial, on_fatal, NULL, &member->broker.replica, &err) != 0)
        fail_msg("%s", err.text);
}

static struct member *member_start(bool bootstrap)
{
    struct member *member = check_calloc(1, sizeof(*member));
    struct err err;
    char address[64];

    assert_int_equal(uv_loop_init(&member->loop), 0);
    member->broker.loop = &member->loop;
    member->broker.config = &member->config;
    uv_clock_ops(&member->loop, &member->broker.clock);
    uv_random_ops(&member->broker.random);
    disk_uv_ops(&member->loop, &member->disk);
    network_uv_ops(&member->loop, &member->network);
    fill_initial(member);
    open_replica(member, bootstrap);
    member->broker.rpc = rpc_server_new(&member->loop, &(struct rpc_server_config){0});
    member->broker.nodes = nodes_new(&member->broker);
    member->broker.dispatcher = dispatcher_new(&member->broker);
    member->broker.ticker = ticker_new(&member->broker);
    if (rpc_server_listen(member->broker.rpc, "127.0.0.1:0", &err) != 0)
        fail_msg("%s", err.text);
    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(member->broker.rpc, 0));
    member->agent.channel =
        rpc_channel_new(&member->loop, address, &(struct rpc_channel_config){0});
    await(member, replica_serving(member->broker.replica));
    return member;
}

static void member_stop(struct member *member)
{
    bool freed = false;

    rpc_channel_free(member->agent.channel);
    rpc_server_free(member->broker.rpc, on_closed, &freed);
    await(member, freed);
    replica_close(member->broker.replica, on_closed, &member->closed);
    await(member, member->closed);
    ticker_free(member->broker.ticker);
    dispatcher_free(member->broker.dispatcher);
    nodes_free(member->broker.nodes);
    uv_run(&member->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&member->loop), 0);
    agent_close(&member->agent);
    free(member);
}

struct answer {
    bool came;
    struct fsm_outcome outcome;
};

static void on_answer(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct answer *answer = data;

    assert_null(failed);
    answer->came = true;
    answer->outcome = *outcome;
}

static struct fsm_outcome propose(struct member *member, Ckpt__Log__V1__Command *command)
{
    struct answer answer = {0};

    replica_propose(member->broker.replica, command, on_answer, &answer);
    await(member, answer.came);
    return answer.outcome;
}

static void register_job(struct member *member)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *shares[] = {&share};
    char job[] = "job", node[] = "node-1", request_id[] = "r0", text[] = "x";

    share.node_id = node;
    share.gpu_count = 8;
    share.gpu_memory_used_bytes = 1000000;
    spec.allocation_id = job;
    spec.tenant = spec.project = spec.vcluster = spec.owner = text;
    spec.n_nodes = 1;
    spec.nodes = shares;
    request.request_id = command.request_id = request_id;
    request.spec = &spec;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &request;
    assert_int_equal(propose(member, &command).status, FSM_OK);
}

static uint64_t request_checkpoint(struct member *member)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    char job[] = "job", request_id[] = "r1";
    struct fsm_outcome outcome;

    request.request_id = command.request_id = request_id;
    request.allocation_id = job;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    outcome = propose(member, &command);
    assert_int_equal(outcome.status, FSM_OK);
    return outcome.checkpoint_id;
}

static void report_application_started(struct agent *agent, uint64_t sequence)
{
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    char job[] = "job";

    message.sequence = sequence;
    message.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
    message.allocation_id = job;
    message.run = run_in_orders(agent);
    report(agent, &message);
}

static void report_verified(struct agent *agent, uint64_t sequence, uint64_t checkpoint_id)
{
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    char job[] = "job",
         sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    message.sequence = sequence;
    message.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
    message.allocation_id = job;
    message.run = run_in_orders(agent);
    message.checkpoint_id = checkpoint_id;
    message.attempt = 1;
    message.size_bytes = 1000000;
    message.ranks = 1;
    message.manifest_sha256 = sha256;
    message.write_ms = 5;
    report(agent, &message);
}

static void an_agents_reports_complete_a_checkpoint_and_survive_a_restart(void **state)
{
    struct member *member;
    const struct fsm *fsm;
    uint64_t id;

    (void)state;
    member = member_start(true);
    fsm = replica_fsm(member->broker.replica);
    register_job(member);
    open_stream(&member->agent);
    hello(&member->agent, "node-1");
    await(member, orders(&member->agent) != NULL);
    report_application_started(&member->agent, 1);
    await(member, acknowledged(&member->agent) == 1);
    id = request_checkpoint(member);
    await(member, orders(&member->agent)->n_orders == 1);
    assert_uint_equal(orders(&member->agent)->orders[0]->checkpoint_id, id);
    report_started(&member->agent, 2, id, 1);
    report_verified(&member->agent, 3, id);
    await(member, acknowledged(&member->agent) == 3);
    assert_int_equal(fsm_checkpoint_find(fsm, id)->state,
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    await(member, orders(&member->agent)->n_orders == 0);
    member_stop(member);

    member = member_start(false);
    fsm = replica_fsm(member->broker.replica);
    assert_int_equal(fsm_checkpoint_find(fsm, id)->state,
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    open_stream(&member->agent);
    hello(&member->agent, "node-1");
    await(member, orders(&member->agent) != NULL);
    assert_uint_equal(member->agent.downs[0]->welcome->acknowledged_report_sequence, 3);
    assert_uint_equal(orders(&member->agent)->n_orders, 0);
    member_stop(member);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(data_dir, sizeof(data_dir), "%s/data", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_agents_reports_complete_a_checkpoint_and_survive_a_restart, make_folder,
            remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
