/* An agent as seen from the wire: a stream of ckpt.v1.AgentService/Session and what came down on
 * it. */
#ifndef CKPT_TESTS_UNIT_BROKER_STREAM_AGENT_H
#define CKPT_TESTS_UNIT_BROKER_STREAM_AGENT_H

#include "ckpt/v1/agent.pb-c.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"

enum { DOWNS_MAX = 64 };

struct agent {
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    size_t count;
    Ckpt__V1__AgentDown *downs[DOWNS_MAX];
    bool ended;
    int status;
    char hint[64];
    char message[200]; /* of its end */
};

static void on_down(struct rpc_client_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct agent *agent = data;

    (void)call;
    assert_true(agent->count < DOWNS_MAX);
    agent->downs[agent->count] = ckpt__v1__agent_down__unpack(NULL, length, bytes);
    assert_non_null(agent->downs[agent->count]);
    agent->count++;
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct agent *agent = data;

    (void)call;
    agent->ended = true;
    agent->status = end->status;
    agent->call = NULL;
    snprintf(agent->message, sizeof(agent->message), "%s", end->message);
    snprintf(agent->hint, sizeof(agent->hint), "%s",
             end->redirect != NULL ? end->redirect : "(none)");
}

static void open_stream(struct agent *agent)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_down, .on_end = on_end};

    agent->ended = false;
    agent->call = rpc_channel_open(agent->channel, "/ckpt.v1.AgentService/Session", 0, true,
                                   &handlers, agent);
    assert_non_null(agent->call);
}

static void send_up(struct agent *agent, const Ckpt__V1__AgentUp *up)
{
    uint8_t bytes[1024];
    size_t length = ckpt__v1__agent_up__get_packed_size(up);

    assert_true(length <= sizeof(bytes));
    ckpt__v1__agent_up__pack(up, bytes);
    rpc_client_call_send(agent->call, bytes, length);
}

static void hello_of_agent(struct agent *agent, const char *node_id, const char *boot_id,
                           uint64_t started_ms)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHello message = CKPT__V1__AGENT_HELLO__INIT;
    char id[160], boot[160];

    snprintf(id, sizeof(id), "%s", node_id);
    snprintf(boot, sizeof(boot), "%s", boot_id);
    message.node_id = id;
    message.boot_id = boot;
    message.version = (char[]){"0.1.0"};
    message.machine = (char[]){"x86_64"};
    message.os = (char[]){"debian 12"};
    message.agent_started_at_ms = started_ms;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HELLO;
    up.hello = &message;
    send_up(agent, &up);
}

static void hello_of_boot(struct agent *agent, const char *node_id, const char *boot_id)
{
    hello_of_agent(agent, node_id, boot_id, 0);
}

static void hello(struct agent *agent, const char *node_id)
{
    hello_of_boot(agent, node_id, "boot-1");
}

static void report(struct agent *agent, Ckpt__V1__AgentReport *message)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;

    up.body_case = CKPT__V1__AGENT_UP__BODY_REPORT;
    up.report = message;
    send_up(agent, &up);
}

__attribute__((unused)) static void heartbeat(struct agent *agent, uint64_t sequence)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHeartbeat message = CKPT__V1__AGENT_HEARTBEAT__INIT;

    message.sequence = sequence;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HEARTBEAT;
    up.heartbeat = &message;
    send_up(agent, &up);
}

static Ckpt__V1__AgentDown *last(const struct agent *agent, Ckpt__V1__AgentDown__BodyCase kind)
{
    for (size_t i = agent->count; i-- > 0;)
        if (agent->downs[i]->body_case == kind)
            return agent->downs[i];
    return NULL;
}

static Ckpt__V1__OrderSet *orders(const struct agent *agent)
{
    Ckpt__V1__AgentDown *down = last(agent, CKPT__V1__AGENT_DOWN__BODY_ORDERS);

    return down != NULL ? down->orders : NULL;
}

/* That the last set names for the job; 0: none. */
__attribute__((unused)) static uint64_t run_in_orders(const struct agent *agent)
{
    const Ckpt__V1__OrderSet *set = orders(agent);

    for (size_t i = 0; set != NULL && i < set->n_parts; i++)
        if (strcmp(set->parts[i]->allocation_id, "job") == 0)
            return set->parts[i]->run;
    return 0;
}

__attribute__((unused)) static void report_started(struct agent *agent, uint64_t sequence,
                                                   uint64_t checkpoint_id, uint32_t attempt)
{
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;

    message.sequence = sequence;
    message.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED;
    message.allocation_id = (char[]){"job"};
    message.checkpoint_id = checkpoint_id;
    message.attempt = attempt;
    message.run = run_in_orders(agent);
    report(agent, &message);
}

__attribute__((unused)) static uint64_t acknowledged(const struct agent *agent)
{
    Ckpt__V1__AgentDown *down = last(agent, CKPT__V1__AGENT_DOWN__BODY_ACK);

    return down != NULL ? down->ack->sequence : 0;
}

static void agent_close(struct agent *agent)
{
    for (size_t i = 0; i < agent->count; i++)
        ckpt__v1__agent_down__free_unpacked(agent->downs[i], NULL);
    agent->count = 0;
}

#endif
