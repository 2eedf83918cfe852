/* The calls of a leader, for a job without a cluster. See alone_server.h. */
#include "src/agent/alone/alone_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/message_level.h"
#include "src/agent/alone/alone_folder.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/ops.h"
#include "src/rpc/server.h"
#include "src/rpc/uv_clock.h"

#define SESSION_METHOD "/ckpt.v1.AgentService/Session"
#define POINT_METHOD   "/ckpt.v1.BrokerService/GetRestartPoint"
#define REQUEST_METHOD "/ckpt.v1.BrokerService/RequestCheckpoint"

enum { HEARTBEAT_MS = 10000, REFUSAL_BYTES = 160 };

struct alone_server {
    uv_loop_t *loop;
    struct clock_ops clock;
    struct clock_timer *timer;
    struct alone *alone;
    struct rpc_server *rpc;
    struct rpc_call *stream; /* NULL: no agent */
    bool welcomed;
    uint64_t acknowledged; /* the number of the last report that was taken */
    struct alone_messages messages;
};

/* ---- notes ---- */

struct note_work {
    uv_work_t work;
    char path[ALONE_PATH_BYTES];
    struct alone_checkpoint checkpoint;
    struct err why;
};

static void note_run(uv_work_t *work)
{
    struct note_work *note = work->data;

    (void)alone_note_write(note->path, &note->checkpoint, &note->why);
}

static void note_done(uv_work_t *work, int status)
{
    struct note_work *note = work->data;

    (void)status;
    if (note->why.code != ERR_NONE)
        log_warning("note_failed", "text=\"%s\"", note->why.text);
    free(note);
}

static void note_begin(struct alone_server *server, const struct alone_checkpoint *checkpoint)
{
    struct note_work *note = check_calloc(1, sizeof(*note));

    note->work.data = note;
    note->checkpoint = *checkpoint;
    (void)alone_path(server->alone, checkpoint->id, note->path);
    CHECK(uv_queue_work(server->loop, &note->work, note_run, note_done) == 0);
}

/* ---- down ---- */

static uint64_t now_ms(const struct alone_server *server)
{
    return server->clock.monotonic_us(server->clock.context) / 1000;
}

static void message_send(struct alone_server *server, const Ckpt__V1__AgentDown *down)
{
    const size_t length = ckpt__v1__agent_down__get_packed_size(down);
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_down__pack(down, buf_extend(&bytes, length));
    (void)rpc_call_send(server->stream, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static void orders_send(struct alone_server *server)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;

    if (server->stream == NULL || !server->welcomed)
        return;
    alone_orders(server->alone, &server->messages);
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ORDERS;
    down.orders = &server->messages.set;
    message_send(server, &down);
}

static void turn_fire(void *data);

/* Each change is told, and the next instant is waited for. */
static void server_changed(struct alone_server *server)
{
    const uint64_t due_ms = alone_due_ms(server->alone), now = now_ms(server);

    orders_send(server);
    server->clock.timer_stop(server->timer);
    if (due_ms != UINT64_MAX)
        server->clock.timer_start(server->timer, due_ms > now ? (due_ms - now) * 1000 : 0);
}

static void turn_fire(void *data)
{
    struct alone_server *server = data;

    alone_turn(server->alone, now_ms(server));
    server_changed(server);
}

/* ---- the stream ---- */

static void take_hello(struct alone_server *server)
{
    static char cluster[] = ALONE_CLUSTER;
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__AgentWelcome welcome = CKPT__V1__AGENT_WELCOME__INIT;

    welcome.cluster_id = cluster;
    welcome.epoch = server->alone->epoch;
    welcome.term = 1;
    welcome.heartbeat_interval_ms = HEARTBEAT_MS;
    welcome.feature_level = FSM_LEVEL_NEWEST;
    welcome.acknowledged_report_sequence = server->acknowledged;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_WELCOME;
    down.welcome = &welcome;
    server->welcomed = true;
    message_send(server, &down);
    orders_send(server);
}

/* A note is of what this process has not told yet: it is begun before the acknowledgement. */
static void take_report(struct alone_server *server, const Ckpt__V1__AgentReport *report)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__ReportAck ack = CKPT__V1__REPORT_ACK__INIT;
    const struct alone_checkpoint *noted;

    if (!server->welcomed)
        return;
    if (report->sequence > server->acknowledged) {
        noted = alone_take(server->alone, report, now_ms(server),
                           server->clock.wall_ms(server->clock.context));
        if (noted != NULL)
            note_begin(server, noted);
        server->acknowledged = report->sequence;
    }
    ack.sequence = server->acknowledged;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ACK;
    down.ack = &ack;
    message_send(server, &down);
    server_changed(server);
}

static void session_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct alone_server *server = data;
    Ckpt__V1__AgentUp *up = ckpt__v1__agent_up__unpack(NULL, length, bytes);

    CHECK(call == server->stream);
    CHECK(up != NULL); /* of this very process */
    if (up->body_case == CKPT__V1__AGENT_UP__BODY_HELLO)
        take_hello(server);
    else if (up->body_case == CKPT__V1__AGENT_UP__BODY_REPORT)
        take_report(server, up->report);
    ckpt__v1__agent_up__free_unpacked(up, NULL);
}

static void session_open(struct rpc_call *call, void *data)
{
    struct alone_server *server = data;

    if (server->stream != NULL)
        rpc_call_finish(server->stream, RPC_ABORTED, "a newer stream has come");
    server->stream = call;
    server->welcomed = false;
}

static void session_over(struct rpc_call *call, void *data)
{
    struct alone_server *server = data;

    if (call != server->stream)
        return;
    server->stream = NULL;
    server->welcomed = false;
}

static void session_half_close(struct rpc_call *call, void *data)
{
    session_over(call, data);
    rpc_call_finish(call, RPC_OK, NULL);
}

/* ---- single calls ---- */

static void reply_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct buf bytes;

    buf_init(&bytes);
    protobuf_c_message_pack(message,
                            buf_extend(&bytes, protobuf_c_message_get_packed_size(message)));
    rpc_call_reply(call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static bool is_the_job(const struct alone_server *server, const char *allocation_id)
{
    return strcmp(server->alone->settings.allocation_id, allocation_id) == 0;
}

static void point_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct alone_server *server = data;
    Ckpt__V1__GetRestartPointRequest *asked =
        ckpt__v1__get_restart_point_request__unpack(NULL, length, bytes);

    if (asked == NULL || !is_the_job(server, asked->allocation_id)) {
        rpc_call_finish(call, RPC_NOT_FOUND, "ALLOCATION_NOT_FOUND: this is the agent of one job");
    } else {
        alone_point(server->alone, &server->messages);
        reply_send(call, &server->messages.point.base);
        orders_send(server);
    }
    if (asked != NULL)
        ckpt__v1__get_restart_point_request__free_unpacked(asked, NULL);
}

static void request_answer(struct alone_server *server, struct rpc_call *call,
                           const Ckpt__V1__RequestCheckpointRequest *asked)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    char text[REFUSAL_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t active;

    if (asked->after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE) {
        rpc_call_finish(call, RPC_FAILED_PRECONDITION,
                        "INVALID_AFTER: a job without a cluster goes on after a checkpoint; end it "
                        "with SIGTERM to its ckpt-run");
        return;
    }
    reply.checkpoint_id = alone_ask(server->alone, now_ms(server), &active);
    if (reply.checkpoint_id != 0) {
        reply.index = server->alone->index;
        reply_send(call, &reply.base);
        server_changed(server);
        return;
    }
    if (active != 0)
        snprintf(text, sizeof(text), "CHECKPOINT_ACTIVE: checkpoint %s is under way",
                 checkpoint_id_format(active, id));
    else
        snprintf(text, sizeof(text), "NOT_RUNNING: no application of the job runs");
    rpc_call_finish(call, RPC_FAILED_PRECONDITION, text);
}

static void request_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct alone_server *server = data;
    Ckpt__V1__RequestCheckpointRequest *asked =
        ckpt__v1__request_checkpoint_request__unpack(NULL, length, bytes);

    if (asked == NULL || !is_the_job(server, asked->allocation_id))
        rpc_call_finish(call, RPC_NOT_FOUND, "ALLOCATION_NOT_FOUND: this is the agent of one job");
    else
        request_answer(server, call, asked);
    if (asked != NULL)
        ckpt__v1__request_checkpoint_request__free_unpacked(asked, NULL);
}

/* All that users ask a cluster beside that (src/agent/app/own_call.c). */
static void other_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data, (void)bytes, (void)length;
    rpc_call_finish(call, RPC_FAILED_PRECONDITION,
                    "NO_CLUSTER: this job has none (ckpt-run --standalone): its folder shows its "
                    "checkpoints, ckpt-run hint JOB asks for one, and SIGTERM to its ckpt-run ends "
                    "it");
}

static void add_others(struct rpc_server *rpc)
{
    static const char *const others[] = {
        "/ckpt.v1.BrokerService/GetAllocation",     "/ckpt.v1.BrokerService/ListAllocations",
        "/ckpt.v1.BrokerService/ListCheckpoints",   "/ckpt.v1.BrokerService/Explain",
        "/ckpt.v1.BrokerService/RestartAllocation", "/ckpt.v1.BrokerService/RequestMigration",
        "/ckpt.v1.BrokerService/EndAllocation",     "/ckpt.v1.BrokerService/RegisterOwnAllocation",
        "/ckpt.v1.OperatorService/GetLosses",       "/ckpt.v1.OperatorService/PinCheckpoint",
    };
    static const struct rpc_handlers other = {.on_message = other_message};

    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        rpc_server_add_method(rpc, others[i], false, false, &other, NULL);
}

/* ---- life ---- */

int alone_server_new(uv_loop_t *loop, struct alone *alone, const char *address,
                     uint64_t acknowledged, struct alone_server **ret_server, struct err *err)
{
    static const struct rpc_handlers session = {.on_request = session_open,
                                                .on_message = session_message,
                                                .on_half_close = session_half_close,
                                                .on_cancel = session_over};
    static const struct rpc_handlers point = {.on_message = point_message};
    static const struct rpc_handlers request = {.on_message = request_message};
    const struct rpc_server_config config = {0};
    struct alone_server *server = check_calloc(1, sizeof(*server));

    server->loop = loop;
    server->alone = alone;
    server->acknowledged = acknowledged;
    uv_clock_ops(loop, &server->clock);
    server->timer = server->clock.timer_new(server->clock.context, turn_fire, server);
    server->rpc = rpc_server_new(loop, &config);
    rpc_server_add_method(server->rpc, SESSION_METHOD, true, true, &session, server);
    rpc_server_add_method(server->rpc, POINT_METHOD, false, false, &point, server);
    rpc_server_add_method(server->rpc, REQUEST_METHOD, false, false, &request, server);
    add_others(server->rpc);
    *ret_server = server;
    if (rpc_server_listen(server->rpc, address, err) != 0)
        return -1;
    server_changed(server);
    return 0;
}

static void server_freed(void *data)
{
    free(data);
}

void alone_server_free(struct alone_server *server)
{
    if (server == NULL)
        return;
    server->clock.timer_free(server->timer);
    rpc_server_free(server->rpc, server_freed, server);
}
