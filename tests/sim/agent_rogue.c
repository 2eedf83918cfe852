/* A leader of the past. See agent_rogue.h. */
#include "tests/sim/agent_rogue.h"

#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"

#define SESSION_METHOD "/ckpt.v1.AgentService/Session"

enum { TIMEOUT_MS = 5000, FUTURE_TERMS = 1000, JOBS = 8 };
static const uint64_t future_checkpoint = (UINT64_C(1) << 40) + 900000;

struct agent_rogue {
    struct sim *sim;
    struct sim_loop loop;
    struct rpc_server *server;
    bool calm;
    uint64_t welcomes;
};

static void send_down(struct rpc_call *call, const Ckpt__V1__AgentDown *down)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_down__pack(down,
                               buf_extend(&bytes, ckpt__v1__agent_down__get_packed_size(down)));
    rpc_call_send(call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static void send_welcome(struct rpc_call *call, uint64_t epoch, uint64_t term, uint64_t reports)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__AgentWelcome welcome = CKPT__V1__AGENT_WELCOME__INIT;
    char cluster[] = "past";

    welcome.cluster_id = cluster;
    welcome.epoch = epoch;
    welcome.term = term;
    welcome.acknowledged_report_sequence = reports;
    welcome.heartbeat_interval_ms = 1000;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_WELCOME;
    down.welcome = &welcome;
    send_down(call, &down);
}

static void send_ack(struct rpc_call *call, uint64_t reports)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__ReportAck ack = CKPT__V1__REPORT_ACK__INIT;

    ack.sequence = reports;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ACK;
    down.ack = &ack;
    send_down(call, &down);
}

/* A checkpoint of every second job, the end of the others, whatever their runs; and nothing may
 * run. */
static void send_orders(struct rpc_call *call, uint64_t epoch, uint64_t term)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__Order orders[JOBS], *list[JOBS];
    char prefix[] = "/storage-0", path[] = "/storage-0/past", ids[JOBS][16];

    for (unsigned i = 0; i < JOBS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "job-%u", i);
        ckpt__v1__order__init(&orders[i]);
        orders[i].kind = i % 2 == 0 ? CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT
                                    : CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE;
        orders[i].allocation_id = ids[i];
        orders[i].checkpoint_id = future_checkpoint;
        orders[i].attempt = 1;
        orders[i].target_prefix = prefix;
        orders[i].path = path;
        orders[i].timeout_ms = TIMEOUT_MS;
        orders[i].run = UINT64_MAX;
        list[i] = &orders[i];
    }
    set.epoch = epoch;
    set.term = term;
    set.runs_until = UINT64_MAX;
    set.orders = list;
    set.n_orders = JOBS;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ORDERS;
    down.orders = &set;
    send_down(call, &down);
}

static void answer_from_the_past(struct agent_rogue *rogue, struct rpc_call *call,
                                 const Ckpt__V1__AgentHello *hello)
{
    uint64_t epoch = hello->highest_epoch, term = hello->highest_term - 1;

    if (epoch > 0 && sim_chance(rogue->sim, 4)) { /* of a cluster before a restore */
        epoch--;
        term += FUTURE_TERMS;
    }
    rogue->welcomes++;
    if (!sim_chance(rogue->sim, 8))
        send_welcome(call, epoch, term, hello->last_report_sequence);
    send_ack(call, hello->last_report_sequence);
    send_orders(call, epoch, term);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct agent_rogue *rogue = data;
    Ckpt__V1__AgentUp *up = ckpt__v1__agent_up__unpack(NULL, length, bytes);

    CHECK(up != NULL);
    if (up->body_case == CKPT__V1__AGENT_UP__BODY_HELLO) {
        if (rogue->calm || up->hello->highest_term == 0 || sim_chance(rogue->sim, 3))
            rpc_call_finish(call, RPC_UNAVAILABLE, "not the leader");
        else if (!sim_chance(rogue->sim, 4))
            answer_from_the_past(rogue, call, up->hello);
    }
    ckpt__v1__agent_up__free_unpacked(up, NULL);
}

struct agent_rogue *agent_rogue_new(struct sim *sim, unsigned node)
{
    static const struct rpc_handlers handlers = {.on_message = on_message};
    struct agent_rogue *rogue = check_calloc(1, sizeof(*rogue));

    rogue->sim = sim;
    sim_loop_init(&rogue->loop, sim, node);
    rogue->server = rpc_server_new(&rogue->loop.uv, NULL);
    rpc_server_add_method(rogue->server, SESSION_METHOD, true, true, &handlers, rogue);
    CHECK(rpc_server_listen(rogue->server, AGENT_ROGUE_ADDRESS, NULL) == 0);
    return rogue;
}

void agent_rogue_calm(struct agent_rogue *rogue)
{
    rogue->calm = true;
}

uint64_t agent_rogue_welcomes(const struct agent_rogue *rogue)
{
    return rogue->welcomes;
}

void agent_rogue_free(struct agent_rogue *rogue)
{
    if (rogue == NULL)
        return;
    rpc_server_free(rogue->server, free, rogue);
}
