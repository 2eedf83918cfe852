/* Says what agents would: that the applications of what `load` registered run. They are STARTING
 * until then, and nothing is decided about them.
 *
 * Flow     one session per node, STREAMS at a time: hello, then an APPLICATION_STARTED for each of
 *          its allocations, until all are acknowledged. The nodes are silent afterwards: the policy
 *          must not take them for lost while something is measured.
 * Errors   exits 1 with the first session that ended before its last acknowledgement; to be
 *          repeated at the leader of then.
 * Usage    starts ENDPOINT PREFIX COUNT, as `load` had them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/base/check.h"
#include "src/client/client.h"
#include "tests/bench/load_nodes.h"

enum { STREAMS = 64, WINDOW = 128, MESSAGE_BYTES = 512 };

struct node {
    struct rpc_client_call *call;
    uint64_t number;
    uint64_t base;     /* reports that were acknowledged before */
    uint64_t reported; /* of its allocations */
    uint64_t acknowledged;
    uint64_t total;
};

static struct rpc_channel *channel;
static const char *prefix;
static uint64_t allocation_count, next_node;
static size_t open_count;
static char failure[256];

static void node_open(struct node *node);

static void node_send(struct node *node, const Ckpt__V1__AgentUp *up)
{
    uint8_t bytes[MESSAGE_BYTES];

    CHECK(ckpt__v1__agent_up__get_packed_size(up) <= sizeof(bytes));
    (void)rpc_client_call_send(node->call, bytes, ckpt__v1__agent_up__pack(up, bytes));
}

static void node_report(struct node *node)
{
    while (node->reported < node->total && node->reported < node->acknowledged + WINDOW) {
        Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
        Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
        char id[96];

        snprintf(id, sizeof(id), "%s-%" PRIu64, prefix, node->number + node->reported * LOAD_NODES);
        report.sequence = node->base + ++node->reported;
        report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
        report.allocation_id = id;
        report.run = UINT64_MAX; /* no earlier than that of its part */
        up.body_case = CKPT__V1__AGENT_UP__BODY_REPORT;
        up.report = &report;
        node_send(node, &up);
    }
    if (node->acknowledged == node->total)
        rpc_client_call_half_close(node->call);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct node *node = data;
    Ckpt__V1__AgentDown *down = ckpt__v1__agent_down__unpack(NULL, length, bytes);

    (void)call;
    CHECK(down != NULL);
    if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_WELCOME) {
        node->base = down->welcome->acknowledged_report_sequence;
        node_report(node);
    } else if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_ACK &&
               down->ack->sequence > node->base + node->acknowledged) {
        node->acknowledged = down->ack->sequence - node->base;
        node_report(node);
    }
    ckpt__v1__agent_down__free_unpacked(down, NULL);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct node *node = data;

    (void)call;
    open_count--;
    if (node->acknowledged < node->total && failure[0] == '\0')
        snprintf(failure, sizeof(failure), LOAD_NODE_FORMAT ": %d %s", node->number, end->status,
                 end->message);
    if (failure[0] == '\0' && next_node < LOAD_NODES && next_node < allocation_count)
        node_open(node);
    else if (open_count == 0 || failure[0] != '\0')
        uv_stop(uv_default_loop());
}

static void node_open(struct node *node)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHello hello = CKPT__V1__AGENT_HELLO__INIT;
    char node_id[32], boot[] = "bench";

    *node = (struct node){.number = next_node++};
    node->total = (allocation_count - node->number + LOAD_NODES - 1) / LOAD_NODES;
    open_count++;
    node->call =
        rpc_channel_open(channel, "/ckpt.v1.AgentService/Session", 0, true, &handlers, node);
    snprintf(node_id, sizeof(node_id), LOAD_NODE_FORMAT, node->number);
    hello.node_id = node_id;
    hello.boot_id = hello.version = boot;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HELLO;
    up.hello = &hello;
    node_send(node, &up);
}

int main(int argc, char **argv)
{
    static struct node nodes[STREAMS];
    struct rpc_channel_config config = {.message_max_bytes = 4 << 20};

    if (argc != 4) {
        fprintf(stderr, "usage: starts ENDPOINT PREFIX COUNT\n");
        return 2;
    }
    prefix = argv[2];
    allocation_count = strtoull(argv[3], NULL, 10);
    channel = rpc_channel_new(uv_default_loop(), argv[1], &config);
    for (size_t i = 0; i < STREAMS && next_node < LOAD_NODES && next_node < allocation_count; i++)
        node_open(&nodes[i]);
    if (open_count > 0)
        uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    if (failure[0] != '\0')
        fprintf(stderr, "starts: %s\n", failure);
    return failure[0] == '\0' ? 0 : 1;
}
