/* The serving side of simulated gRPC. See sim_rpc.h.
 *
 * Shapes   a call is freed when it has ended and none of its handlers runs; a connection when it is lost and none of its frames is
 *          being handled; the server when it is told to, from the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/list.h"
#include "tests/sim/sim_rpc.h"

enum {
    LISTENERS_MAX = 4,
    SERVICES_MAX = 8,
    TRAILERS_MAX = 15,
    WRITABLE_LOOK_US = 5000,
    TURN_LATE_IN = 64, /* one answer in so many waits for its turn as long as ... */
    TURN_LATE_MAX_US = 50000,
    ADDRESS_BYTES = 64
};

struct rpc_method {
    char *path;
    bool client_streaming, server_streaming;
    struct rpc_handlers handlers;
    void *data;
};

struct connection {
    struct list node;
    struct rpc_server *server;
    struct network_stream *stream; /* NULL: lost */
    struct list calls;
    struct rpc_peer peer;
    uint64_t heard_ms;
    bool busy;
    bool pinged;
};

struct rpc_call {
    struct list node;
    struct connection *connection;
    const struct rpc_method *method;
    uint32_t id;
    void *data;
    struct clock_timer *deadline; /* NULL: none */
    struct buf kept;              /* of a unary request, until it is complete */
    size_t kept_count;
    struct buf trailers;
    size_t trailers_count;
    bool ended;
    bool blocked; /* wants on_writable */
    unsigned busy;
};

struct rpc_server {
    struct sim_loop *loop;
    struct network_ops network;
    struct rpc_server_config config;
    struct rpc_method *methods;
    size_t methods_count;
    struct network_listener *listeners[LISTENERS_MAX];
    size_t listeners_count;
    struct list connections;
    size_t connections_count;
    struct clock_timer *sweep;
    struct clock_timer *look; /* for calls that are blocked */
    struct clock_timer *grace;
    bool look_started;
    bool freeing;
    void (*drained)(void *data);
    void *drained_data;
    void (*freed)(void *data);
    void *freed_data;
    struct {
        char name[64];
        bool serving;
    } services[SERVICES_MAX];
    size_t services_count;
    struct rpc_server_stats stats;
};

static struct clock_timer *server_timer(struct rpc_server *server, void (*fire)(void *), void *data)
{
    return server->loop->clock.timer_new(server->loop->clock.context, fire, data);
}

static void server_timer_start(struct rpc_server *server, struct clock_timer *timer, uint64_t us)
{
    server->loop->clock.timer_start(timer, us);
}

static uint64_t server_now_ms(const struct rpc_server *server)
{
    return uv_now(&server->loop->uv);
}

/* ---- calls ---- */

static void call_free(struct rpc_call *call)
{
    if (call->busy > 0)
        return;
    CHECK(call->ended);
    buf_close(&call->kept);
    buf_close(&call->trailers);
    free(call);
}

/* Out of its connection; the caller frees it. */
static void call_end(struct rpc_call *call, int status)
{
    struct rpc_server *server = call->connection->server;

    CHECK(!call->ended);
    call->ended = true;
    list_remove(&call->node);
    server->loop->clock.timer_free(call->deadline);
    call->deadline = NULL;
    server->stats.calls_active--;
    server->stats.by_status[status]++;
}

static void call_cancel(struct rpc_call *call, int status)
{
    call_end(call, status);
    call->busy++;
    if (call->method->handlers.on_cancel != NULL)
        call->method->handlers.on_cancel(call, call->method->data);
    call->busy--;
}

static void connection_send(struct connection *connection, struct buf *take_bytes)
{
    size_t length;
    uint8_t *bytes = buf_take(take_bytes, &length);

    if (connection->stream == NULL)
        free(bytes);
    else
        connection->server->network.send(connection->stream, bytes, length);
}

static void frame_send(struct connection *connection, const struct sim_frame *frame)
{
    struct buf bytes;

    buf_init(&bytes);
    sim_frame_append(&bytes, frame);
    connection_send(connection, &bytes);
}

static void call_append_end(const struct rpc_call *call, struct buf *bytes, int status,
                            const char *message)
{
    const struct sim_frame end = {.type = SIM_FRAME_END,
                                  .call = call->id,
                                  .number = (uint64_t)status,
                                  .a = (const uint8_t *)message,
                                  .a_bytes = message == NULL ? 0 : strlen(message),
                                  .b = call->trailers.bytes,
                                  .b_bytes = call->trailers.length};

    sim_frame_append(bytes, &end);
}

static void call_answer(struct rpc_call *call, int status, const char *message)
{
    struct buf bytes;

    buf_init(&bytes);
    call_append_end(call, &bytes, status, message);
    connection_send(call->connection, &bytes);
    call_end(call, status);
    call_free(call);
}

/* The server itself refuses; the handler that knows the call is told. */
static void call_refuse(struct rpc_call *call, int status, const char *message)
{
    struct buf bytes;

    buf_init(&bytes);
    call_append_end(call, &bytes, status, message);
    connection_send(call->connection, &bytes);
    call_cancel(call, status);
    call_free(call);
}

static void call_deadline(void *data)
{
    call_refuse(data, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
}

static void call_message(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    char text[96];
    size_t max = call->connection->server->config.message_max_bytes;

    if (length > max) {
        snprintf(text, sizeof(text), "a message is larger than the %zu bytes taken here; split it",
                 max);
        call_refuse(call, RPC_RESOURCE_EXHAUSTED, text);
        return;
    }
    if (!call->method->client_streaming) {
        buf_append(&call->kept, bytes, length);
        call->kept_count++;
        return;
    }
    if (call->method->handlers.on_message == NULL)
        return;
    call->busy++;
    call->method->handlers.on_message(call, call->method->data, bytes, length);
    call->busy--;
    if (call->ended)
        call_free(call);
}

static void call_half_closed(struct rpc_call *call)
{
    const struct rpc_handlers *handlers = &call->method->handlers;

    if (!call->method->client_streaming && call->kept_count != 1) {
        call_refuse(call, RPC_UNIMPLEMENTED, "not exactly one message for a unary method");
        return;
    }
    call->busy++;
    if (!call->method->client_streaming && handlers->on_message != NULL)
        handlers->on_message(call, call->method->data, call->kept.bytes, call->kept.length);
    if (!call->ended && handlers->on_half_close != NULL)
        handlers->on_half_close(call, call->method->data);
    call->busy--;
    if (call->ended)
        call_free(call);
}

static const struct rpc_method *method_find(const struct rpc_server *server, const uint8_t *path,
                                            size_t length)
{
    for (size_t i = 0; i < server->methods_count; i++)
        if (strlen(server->methods[i].path) == length &&
            memcmp(server->methods[i].path, path, length) == 0)
            return &server->methods[i];
    return NULL;
}

static void call_open(struct connection *connection, const struct sim_frame *frame)
{
    struct rpc_server *server = connection->server;
    const struct rpc_method *method = method_find(server, frame->a, frame->a_bytes);
    static const char unknown[] = "unknown method";
    struct rpc_call *call;

    if (method == NULL) {
        frame_send(connection, &(struct sim_frame){.type = SIM_FRAME_END,
                                                   .call = frame->call,
                                                   .number = RPC_UNIMPLEMENTED,
                                                   .a = (const uint8_t *)unknown,
                                                   .a_bytes = sizeof(unknown) - 1});
        return;
    }
    call = check_calloc(1, sizeof(*call));
    call->connection = connection;
    call->method = method;
    call->id = frame->call;
    list_push_back(&connection->calls, &call->node);
    server->stats.calls_active++;
    server->stats.calls_total++;
    if (frame->number > 0) {
        call->deadline = server_timer(server, call_deadline, call);
        server_timer_start(server, call->deadline, frame->number * 1000);
    }
    if (method->handlers.on_request == NULL)
        return;
    call->busy++;
    method->handlers.on_request(call, method->data);
    call->busy--;
    if (call->ended)
        call_free(call);
}

static struct rpc_call *call_find(struct connection *connection, uint32_t id)
{
    for (struct list *at = connection->calls.previous; at != &connection->calls; at = at->previous)
        if (LIST_ITEM(at, struct rpc_call, node)->id == id)
            return LIST_ITEM(at, struct rpc_call, node);
    return NULL;
}

/* ---- connections ---- */

static void drain_look(struct rpc_server *server)
{
    if (server->drained != NULL && server->connections_count == 0)
        server_timer_start(server, server->grace, 0);
}

/* Its calls are over; freed when none of its frames is being handled. */
static void connection_end(struct connection *connection)
{
    if (connection->stream != NULL) {
        connection->server->network.close(connection->stream);
        connection->stream = NULL;
    }
    while (!list_empty(&connection->calls)) {
        struct rpc_call *call = LIST_ITEM(connection->calls.next, struct rpc_call, node);
        call_cancel(call, RPC_CANCELLED);
        call_free(call);
    }
    if (connection->busy)
        return;
    list_remove(&connection->node);
    connection->server->connections_count--;
    drain_look(connection->server);
    free(connection);
}

static void connection_closed(void *data, const struct err *err)
{
    struct connection *connection = data;

    (void)err;
    connection->stream = NULL;
    connection_end(connection);
}

static void connection_frame(struct connection *connection, const struct sim_frame *frame)
{
    struct rpc_call *call = frame->call == 0 ? NULL : call_find(connection, frame->call);

    switch (frame->type) {
    case SIM_FRAME_OPEN:
        if (frame->b_bytes == sizeof(connection->peer.pid)) {
            connection->peer.local = true;
            memcpy(&connection->peer.pid, frame->b, sizeof(connection->peer.pid));
        }
        call_open(connection, frame);
        break;
    case SIM_FRAME_MESSAGE:
        if (call != NULL)
            call_message(call, frame->a, frame->a_bytes);
        break;
    case SIM_FRAME_HALF_CLOSE:
        if (call != NULL)
            call_half_closed(call);
        break;
    case SIM_FRAME_RESET:
        if (call != NULL) {
            call_cancel(call, RPC_CANCELLED);
            call_free(call);
        }
        break;
    case SIM_FRAME_PING:
        frame_send(connection, &(struct sim_frame){.type = SIM_FRAME_PONG});
        break;
    case SIM_FRAME_PONG:
        break;
    case SIM_FRAME_END:
    case SIM_FRAME_GOAWAY:
        CHECK_UNREACHABLE("a frame of a server");
    }
}

static void connection_received(void *data, const uint8_t *bytes, size_t length)
{
    struct connection *connection = data;

    connection->heard_ms = server_now_ms(connection->server);
    connection->pinged = false;
    connection->busy = true;
    for (size_t used = 0; used < length && connection->stream != NULL;) {
        struct sim_frame frame;
        used += sim_frame_take(bytes + used, length - used, &frame);
        connection_frame(connection, &frame);
    }
    connection->busy = false;
    if (connection->stream == NULL)
        connection_end(connection);
}

static void server_accepted(void *data, struct network_stream *stream)
{
    struct rpc_server *server = data;
    struct connection *connection = check_calloc(1, sizeof(*connection));
    const struct network_events events = {
        .data = connection, .received = connection_received, .closed = connection_closed};

    connection->server = server;
    connection->stream = stream;
    connection->heard_ms = server_now_ms(server);
    snprintf(connection->peer.address, sizeof(connection->peer.address), "simulated");
    list_init(&connection->calls);
    list_push_back(&server->connections, &connection->node);
    server->connections_count++;
    server->network.start(stream, &events);
}

/* ---- timers of the server ---- */

static void server_sweep(void *data)
{
    struct rpc_server *server = data;
    uint64_t now_ms = server_now_ms(server);

    server_timer_start(server, server->sweep, server->config.keepalive_ms * 500);
    for (struct list *at = server->connections.next, *next; at != &server->connections; at = next) {
        struct connection *connection = LIST_ITEM(at, struct connection, node);
        next = at->next;
        if (now_ms - connection->heard_ms >= 2 * server->config.keepalive_ms) {
            connection_end(connection);
        } else if (now_ms - connection->heard_ms >= server->config.keepalive_ms &&
                   !connection->pinged) {
            connection->pinged = true;
            frame_send(connection, &(struct sim_frame){.type = SIM_FRAME_PING});
        }
    }
}

static void look_start(struct rpc_server *server, uint64_t us)
{
    if (!server->look_started)
        server_timer_start(server, server->look, us);
    server->look_started = true;
}

/* One call of the connection that may write again; NULL: none. */
static struct rpc_call *connection_writable(struct connection *connection)
{
    const struct rpc_server *server = connection->server;

    if (connection->stream == NULL ||
        server->network.unsent_bytes(connection->stream) > server->config.write_buffer_bytes / 2)
        return NULL;
    for (struct list *at = connection->calls.next; at != &connection->calls; at = at->next)
        if (LIST_ITEM(at, struct rpc_call, node)->blocked)
            return LIST_ITEM(at, struct rpc_call, node);
    return NULL;
}

static void call_writable(struct rpc_call *call)
{
    call->blocked = false;
    call->busy++;
    if (call->method->handlers.on_writable != NULL)
        call->method->handlers.on_writable(call, call->method->data);
    call->busy--;
    if (call->ended)
        call_free(call);
}

static void server_look(void *data)
{
    struct rpc_server *server = data;
    bool more = false;

    server->look_started = false;
    for (struct list *at = server->connections.next; at != &server->connections; at = at->next) {
        struct connection *connection = LIST_ITEM(at, struct connection, node);
        struct rpc_call *call;
        while ((call = connection_writable(connection)) != NULL)
            call_writable(call);
        for (struct list *c = connection->calls.next; c != &connection->calls; c = c->next)
            more |= LIST_ITEM(c, struct rpc_call, node)->blocked;
    }
    if (more)
        look_start(server, WRITABLE_LOOK_US);
}

static void server_grace_over(void *data)
{
    struct rpc_server *server = data;
    void (*drained)(void *) = server->drained;

    server->drained = NULL;
    if (drained != NULL)
        drained(server->drained_data);
}

/* ---- src/rpc/server.h ---- */

struct rpc_server *rpc_server_new(uv_loop_t *loop, const struct rpc_server_config *config)
{
    struct rpc_server *server = check_calloc(1, sizeof(*server));

    server->loop = sim_loop_of(loop);
    sim_node_network(server->loop->sim, server->loop->node, &server->network);
    if (config != NULL)
        server->config = *config;
    if (server->config.connections_max == 0)
        server->config.connections_max = 1024;
    if (server->config.message_max_bytes == 0)
        server->config.message_max_bytes = 256 << 10;
    if (server->config.write_buffer_bytes == 0)
        server->config.write_buffer_bytes = 64 << 10;
    if (server->config.keepalive_ms == 0)
        server->config.keepalive_ms = 10000;
    list_init(&server->connections);
    server->sweep = server_timer(server, server_sweep, server);
    server->look = server_timer(server, server_look, server);
    server->grace = server_timer(server, server_grace_over, server);
    server_timer_start(server, server->sweep, server->config.keepalive_ms * 500);
    return server;
}

size_t rpc_server_connections_max(const struct rpc_server *server)
{
    return server->config.connections_max;
}

void rpc_server_add_method(struct rpc_server *server, const char *path, bool client_streaming,
                           bool server_streaming, const struct rpc_handlers *handlers, void *data)
{
    CHECK(server->connections_count == 0); /* calls point into the table */
    server->methods =
        check_realloc(server->methods, server->methods_count + 1, sizeof(*server->methods));
    server->methods[server->methods_count++] = (struct rpc_method){
        check_strdup(path), client_streaming, server_streaming, *handlers, data};
}

void rpc_server_add_health(struct rpc_server *server)
{
    (void)server;
}

void rpc_server_set_health(struct rpc_server *server, const char *service, bool serving)
{
    size_t i = 0;

    while (i < server->services_count && strcmp(server->services[i].name, service) != 0)
        i++;
    CHECK(i < SERVICES_MAX);
    if (i == server->services_count)
        snprintf(server->services[server->services_count++].name, sizeof(server->services[i].name),
                 "%s", service);
    server->services[i].serving = serving;
}

bool sim_rpc_serving(const struct rpc_server *server, const char *service)
{
    for (size_t i = 0; i < server->services_count; i++)
        if (strcmp(server->services[i].name, service) == 0)
            return server->services[i].serving;
    return false;
}

void rpc_server_add_reflection(struct rpc_server *server, const uint8_t *descriptors, size_t length)
{
    (void)server;
    (void)descriptors;
    (void)length;
}

int rpc_server_listen(struct rpc_server *server, const char *address, struct err *err)
{
    CHECK(server->listeners_count < LISTENERS_MAX);
    if (server->network.listen(server->network.context, address, server_accepted, server,
                               &server->listeners[server->listeners_count], err) != 0)
        return -1;
    server->listeners_count++;
    return 0;
}

int rpc_server_port(const struct rpc_server *server, size_t listener)
{
    (void)server;
    (void)listener;
    return -1;
}

static void listeners_close(struct rpc_server *server)
{
    for (size_t i = 0; i < server->listeners_count; i++)
        server->network.listener_close(server->listeners[i]);
    server->listeners_count = 0;
}

void rpc_server_drain(struct rpc_server *server, uint64_t grace_ms, void (*drained)(void *),
                      void *data)
{
    CHECK(server->drained == NULL && !server->freeing);
    server->drained = drained;
    server->drained_data = data;
    listeners_close(server);
    for (struct list *at = server->connections.next; at != &server->connections; at = at->next)
        frame_send(LIST_ITEM(at, struct connection, node),
                   &(struct sim_frame){.type = SIM_FRAME_GOAWAY});
    server_timer_start(server, server->grace, server->connections_count == 0 ? 0 : grace_ms * 1000);
}

static void server_release(struct rpc_server *server)
{
    for (size_t i = 0; i < server->methods_count; i++)
        free(server->methods[i].path);
    free(server->methods);
    free(server);
}

static void server_stop(struct rpc_server *server)
{
    CHECK(!server->freeing);
    server->freeing = true;
    server->drained = NULL;
    listeners_close(server);
    while (!list_empty(&server->connections)) {
        struct connection *connection =
            LIST_ITEM(server->connections.next, struct connection, node);
        CHECK(!connection->busy);
        connection_end(connection);
    }
    server->loop->clock.timer_free(server->sweep);
    server->loop->clock.timer_free(server->look);
    server->loop->clock.timer_free(server->grace);
}

static void server_freed(void *data)
{
    struct rpc_server *server = data;

    if (server->freed != NULL)
        server->freed(server->freed_data);
    server_release(server);
}

void rpc_server_free(struct rpc_server *server, void (*freed)(void *), void *data)
{
    server_stop(server);
    server->freed = freed;
    server->freed_data = data;
    sim_on_drop(sim_schedule(server->loop->sim, server->loop->node, 0, server_freed, server),
                server_freed); /* its owner frees memory in it */
}

void sim_rpc_server_crash(struct rpc_server *server)
{
    if (server == NULL)
        return;
    server_stop(server);
    server_release(server);
}

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *ret_stats)
{
    *ret_stats = server->stats;
    ret_stats->connections = server->connections_count;
}

/* ---- of calls ---- */

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
    return &call->connection->peer;
}

const char *rpc_call_metadata(const struct rpc_call *call, const char *name)
{
    (void)call;
    (void)name;
    return NULL;
}

size_t rpc_call_buffered(const struct rpc_call *call)
{
    const struct connection *connection = call->connection;

    return connection->stream == NULL
               ? 0
               : connection->server->network.unsent_bytes(connection->stream);
}

bool rpc_call_send(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    struct connection *connection = call->connection;

    CHECK(!call->ended);
    frame_send(connection,
               &(struct sim_frame){
                   .type = SIM_FRAME_MESSAGE, .call = call->id, .a = bytes, .a_bytes = length});
    if (rpc_call_buffered(call) <= connection->server->config.write_buffer_bytes)
        return true;
    call->blocked = true;
    look_start(connection->server, WRITABLE_LOOK_US);
    return false;
}

/* Its turn comes in the next round of the loop, or much later, when many others are answered before. */
void rpc_call_want_writable(struct rpc_call *call)
{
    struct rpc_server *server = call->connection->server;
    struct sim *sim = server->loop->sim;

    CHECK(!call->ended);
    call->blocked = true;
    look_start(server, sim_chance(sim, TURN_LATE_IN) ? sim_random(sim, TURN_LATE_MAX_US) : 0);
}

void rpc_call_trailer(struct rpc_call *call, const char *name, const char *value)
{
    CHECK(!call->ended && call->trailers_count < TRAILERS_MAX);
    call->trailers_count++;
    buf_append(&call->trailers, name, strlen(name) + 1);
    buf_append(&call->trailers, value, strlen(value) + 1);
}

void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *message)
{
    CHECK(!call->ended);
    call_answer(call, (int)status, message);
}

void rpc_call_reply(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    struct buf both;

    CHECK(!call->ended);
    buf_init(&both);
    sim_frame_append(
        &both, &(struct sim_frame){
                   .type = SIM_FRAME_MESSAGE, .call = call->id, .a = bytes, .a_bytes = length});
    call_append_end(call, &both, RPC_OK, NULL);
    connection_send(call->connection, &both);
    call_end(call, RPC_OK);
    call_free(call);
}
