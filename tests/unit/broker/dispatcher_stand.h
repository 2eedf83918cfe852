/* Agents' streams to a dispatcher over real sockets. The broker's clock is the test's, so that
 * nothing waits for time; the loop runs until what is awaited has come. */
#ifndef CKPT_TESTS_UNIT_BROKER_DISPATCHER_STAND_H
#define CKPT_TESTS_UNIT_BROKER_DISPATCHER_STAND_H

#include "src/base/check.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"
#include "tests/unit/broker/stream_agent.h"

enum { TURNS_MAX = 200000 };

struct stand {
    uv_loop_t loop;
    struct fake *fake;
    struct agent agents[2];
};

/* ---- the stand ---- */

static void turn(struct stand *stand)
{
    uv_run(&stand->loop, UV_RUN_NOWAIT);
    fake_settle(stand->fake);
}

#define await(stand, condition)                                                                    \
    do {                                                                                           \
        int turns = 0;                                                                             \
        while (!(condition) && turns++ < TURNS_MAX)                                                \
            turn(stand);                                                                           \
        if (!(condition))                                                                          \
            print_error("never came: %s\n", #condition);                                           \
        assert_true(condition);                                                                    \
    } while (0)

static int setup(void **state)
{
    struct stand *stand = check_calloc(1, sizeof(*stand));
    static char name[] = "n2", api[] = "127.0.0.1:7444";
    struct err err;
    char address[64];

    assert_int_equal(uv_loop_init(&stand->loop), 0);
    stand->fake = fake_new(NULL);
    stand->fake->config.members[1] = (struct config_member){.id = 2, .name = name, .api = api};
    stand->fake->config.member_count = 2;
    stand->fake->broker.loop = &stand->loop;
    stand->fake->broker.rpc = rpc_server_new(&stand->loop, &(struct rpc_server_config){0});
    stand->fake->broker.nodes = nodes_new(&stand->fake->broker);
    stand->fake->broker.dispatcher = dispatcher_new(&stand->fake->broker);
    if (rpc_server_listen(stand->fake->broker.rpc, "127.0.0.1:0", &err) != 0)
        fail_msg("%s", err.text);
    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(stand->fake->broker.rpc, 0));
    for (int i = 0; i < 2; i++)
        stand->agents[i].channel =
            rpc_channel_new(&stand->loop, address, &(struct rpc_channel_config){0});
    *state = stand;
    return 0;
}

static void on_freed(void *data)
{
    *(bool *)data = true;
}

static int teardown(void **state)
{
    struct stand *stand = *state;
    bool freed = false;

    for (int i = 0; i < 2; i++)
        rpc_channel_free(stand->agents[i].channel);
    fake_stop_serving(stand->fake);
    rpc_server_free(stand->fake->broker.rpc, on_freed, &freed);
    while (!freed)
        uv_run(&stand->loop, UV_RUN_ONCE);
    uv_run(&stand->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stand->loop), 0);
    dispatcher_free(stand->fake->broker.dispatcher);
    nodes_free(stand->fake->broker.nodes);
    fake_free(stand->fake);
    for (int i = 0; i < 2; i++)
        agent_close(&stand->agents[i]);
    free(stand);
    return 0;
}

__attribute__((unused)) static void connect_agent(struct stand *stand, struct agent *agent,
                                                  const char *node_id)
{
    size_t before = agent->count;

    open_stream(agent);
    hello(agent, node_id);
    await(stand, agent->count >= before + 2);
}

#endif
