/* The calling side of simulated gRPC. See sim_rpc.h; the states of a channel are those of src/rpc/client.c.
 *
 * Shapes   a channel that is freed inside one of its own callbacks is freed when that returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/list.h"
#include "src/net/address.h"
#include "tests/sim/sim_rpc.h"

enum channel_state { CHANNEL_IDLE, CHANNEL_DIALLING, CHANNEL_READY, CHANNEL_BACKOFF };
enum { WRITE_BUFFER_BYTES = 64 << 10, WRITABLE_LOOK_US = 5000 };

struct client_connection {
    struct list node;
    struct rpc_channel *channel;
    struct network_stream *stream; /* NULL: lost */
    struct list calls;
    uint64_t heard_ms;
    uint64_t pinged_ms; /* 0: no ping waits for its answer */
    bool busy;
};

struct rpc_channel {
    struct sim_loop *loop;
    struct network_ops network;
    struct rpc_channel_config config;
    char *address;
    bool address_bad;
    enum channel_state state;
    struct client_connection *current;
    struct list connections;
    struct list waiting; /* calls without a connection */
    struct clock_timer *dial, *settle, *sweep, *look;
    bool sweep_started, look_started;
    uint64_t backoff_ms, ready_ms;
    uint32_t last_call;
    size_t calls_count;
    char reason[160];
    bool freeing;
    unsigned busy;
    pid_t pid; /* 0: not claimed */
};

struct rpc_client_call {
    struct list node;
    struct rpc_channel *channel;
    struct client_connection *connection; /* NULL: waits */
    const struct rpc_client_handlers *handlers;
    void *data;
    char *path;
    uint32_t id;
    struct buf outbox; /* frames, until there is a connection */
    struct clock_timer *deadline;
    uint64_t deadline_ms; /* UINT64_MAX: none */
    bool wait_for_ready;
    bool sent;
    bool blocked;
    bool ended;
    unsigned busy;
};

static void channel_dial(struct rpc_channel *channel);
static void channel_lost(struct rpc_channel *channel, struct client_connection *connection,
                         const char *reason);

static struct clock_timer *channel_timer(struct rpc_channel *channel, void (*fire)(void *),
                                         void *data)
{
    return channel->loop->clock.timer_new(channel->loop->clock.context, fire, data);
}

static void channel_timer_start(struct rpc_channel *channel, struct clock_timer *timer,
                                uint64_t delay_ms)
{
    channel->loop->clock.timer_start(timer, delay_ms * 1000);
}

static uint64_t channel_now_ms(const struct rpc_channel *channel)
{
    return uv_now(&channel->loop->uv);
}

/* ---- calls ---- */

static void call_free(struct rpc_client_call *call)
{
    if (call->busy > 0)
        return;
    buf_close(&call->outbox);
    free(call->path);
    free(call);
}

static void call_send(struct rpc_client_call *call, const struct sim_frame *frame)
{
    struct client_connection *connection = call->connection;
    struct buf bytes;
    size_t length;
    uint8_t *taken;

    if (connection == NULL) {
        sim_frame_append(&call->outbox, frame);
        return;
    }
    if (connection->stream == NULL)
        return;
    buf_init(&bytes);
    sim_frame_append(&bytes, frame);
    taken = buf_take(&bytes, &length);
    call->channel->network.send(connection->stream, taken, length);
}

static void call_detach(struct rpc_client_call *call)
{
    struct rpc_channel *channel = call->channel;

    CHECK(!call->ended && channel->calls_count > 0);
    call->ended = true;
    list_remove(&call->node);
    channel->loop->clock.timer_free(call->deadline);
    call->deadline = NULL;
    channel->calls_count--;
}

void sim_rpc_channel_claim(struct rpc_channel *channel, pid_t pid)
{
    channel->pid = pid;
}

static void channel_release(struct rpc_channel *channel);

static void call_over(struct rpc_client_call *call, const struct rpc_end *end)
{
    struct rpc_channel *channel = call->channel;

    call_detach(call);
    call->busy++;
    channel->busy++;
    if (call->handlers->on_end != NULL)
        call->handlers->on_end(call, call->data, end);
    channel->busy--;
    call->busy--;
    call_free(call);
}

static void call_reset(struct rpc_client_call *call)
{
    if (call->connection != NULL)
        call_send(call, &(struct sim_frame){.type = SIM_FRAME_RESET, .call = call->id});
}

static void call_end(struct rpc_client_call *call, int status, const char *message)
{
    const struct rpc_end end = {
        .status = status, .message = message, .sent = call->sent, .channel = call->channel};

    call_over(call, &end);
}

static void call_deadline(void *data)
{
    struct rpc_client_call *call = data;
    struct rpc_channel *channel = call->channel;

    call_reset(call);
    channel->busy++;
    call_end(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
    channel->busy--;
    channel_release(channel);
}

static void call_submit(struct rpc_client_call *call, struct client_connection *connection)
{
    uint64_t now_ms = channel_now_ms(call->channel);
    struct buf bytes;
    size_t length;
    uint8_t *taken;

    buf_init(&bytes);
    call->id = ++call->channel->last_call;
    sim_frame_append(
        &bytes,
        &(struct sim_frame){.type = SIM_FRAME_OPEN,
                            .call = call->id,
                            .number = call->deadline_ms == UINT64_MAX ? 0
                                      : call->deadline_ms > now_ms    ? call->deadline_ms - now_ms
                                                                      : 1,
                            .a = (const uint8_t *)call->path,
                            .a_bytes = strlen(call->path),
                            .b = (const uint8_t *)&call->channel->pid,
                            .b_bytes = call->channel->pid == 0 ? 0 : sizeof(call->channel->pid)});
    for (size_t used = 0; used < call->outbox.length;) {
        struct sim_frame frame;
        used += sim_frame_take(call->outbox.bytes + used, call->outbox.length - used, &frame);
        frame.call = call->id;
        sim_frame_append(&bytes, &frame);
    }
    buf_close(&call->outbox);
    call->connection = connection;
    call->sent = true;
    list_remove(&call->node);
    list_push_back(&connection->calls, &call->node);
    taken = buf_take(&bytes, &length);
    call->channel->network.send(connection->stream, taken, length);
}

/* ---- connections ---- */

static void connection_end_calls(struct client_connection *connection, const char *reason)
{
    while (!list_empty(&connection->calls))
        call_end(LIST_ITEM(connection->calls.next, struct rpc_client_call, node), RPC_UNAVAILABLE,
                 reason);
}

/* The stream is closed or will be; freed when none of its frames is being handled. */
static void connection_drop(struct client_connection *connection)
{
    if (connection->stream != NULL)
        connection->channel->network.close(connection->stream);
    connection->stream = NULL;
    if (connection->busy)
        return;
    list_remove(&connection->node);
    free(connection);
}

static void connection_closed(void *data, const struct err *err)
{
    struct client_connection *connection = data;
    struct rpc_channel *channel = connection->channel;

    connection->stream = NULL;
    channel->busy++;
    channel_lost(channel, connection, err->text);
    channel->busy--;
    channel_release(channel);
}

static void channel_submit_waiting(struct rpc_channel *channel)
{
    while (channel->state == CHANNEL_READY && !list_empty(&channel->waiting))
        call_submit(LIST_ITEM(channel->waiting.next, struct rpc_client_call, node),
                    channel->current);
}

static void connection_opened(void *data)
{
    struct client_connection *connection = data;
    struct rpc_channel *channel = connection->channel;

    CHECK(channel->current == connection && channel->state == CHANNEL_DIALLING);
    channel->state = CHANNEL_READY;
    channel->ready_ms = channel_now_ms(channel);
    connection->heard_ms = channel->ready_ms;
    channel->loop->clock.timer_stop(channel->dial);
    channel_submit_waiting(channel);
}

static struct rpc_client_call *call_find(struct client_connection *connection, uint32_t id)
{
    for (struct list *at = connection->calls.next; at != &connection->calls; at = at->next)
        if (LIST_ITEM(at, struct rpc_client_call, node)->id == id)
            return LIST_ITEM(at, struct rpc_client_call, node);
    return NULL;
}

static void call_message(struct rpc_client_call *call, const struct sim_frame *frame)
{
    char text[96];
    size_t max = call->channel->config.message_max_bytes;

    if (frame->a_bytes > max) {
        snprintf(text, sizeof(text),
                 "an answer is larger than the %zu bytes taken here; ask for a smaller page", max);
        call_reset(call);
        call_end(call, RPC_RESOURCE_EXHAUSTED, text);
        return;
    }
    call->busy++;
    if (call->handlers->on_message != NULL)
        call->handlers->on_message(call, call->data, frame->a, frame->a_bytes);
    call->busy--;
    if (call->ended)
        call_free(call);
}

/* Trailers are name NUL value NUL ...; the last of a name counts. */
static void call_ended(struct rpc_client_call *call, const struct sim_frame *frame)
{
    char *message = check_calloc(frame->a_bytes + 1, 1);
    const char *at = (const char *)frame->b, *stop = at + frame->b_bytes;
    struct rpc_end end = {.status = (int)frame->number,
                          .message = message,
                          .sent = call->sent,
                          .channel = call->channel};

    if (frame->a_bytes > 0)
        memcpy(message, frame->a, frame->a_bytes);
    while (at < stop) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, "ckpt-leader-hint") == 0) {
            end.leader_hint = value;
        } else if (strcmp(at, "grpc-retry-pushback-ms") == 0) {
            end.pushback = true;
            end.pushback_ms = strtoull(value, NULL, 10);
        }
        at = value + strlen(value) + 1;
    }
    call_over(call, &end);
    free(message);
}

/* GOAWAY: calls that run go on, new ones dial again. */
static void channel_leave(struct rpc_channel *channel, struct client_connection *connection)
{
    if (connection != channel->current)
        return;
    channel->current = NULL;
    channel->state = CHANNEL_IDLE;
    channel->backoff_ms = channel->config.backoff_min_ms;
    if (!list_empty(&channel->waiting))
        channel_dial(channel);
}

static void connection_frame(struct client_connection *connection, const struct sim_frame *frame)
{
    struct rpc_client_call *call = frame->call == 0 ? NULL : call_find(connection, frame->call);
    const struct sim_frame pong = {.type = SIM_FRAME_PONG};
    struct buf bytes;
    size_t length;
    uint8_t *taken;

    if (frame->type == SIM_FRAME_MESSAGE && call != NULL) {
        call_message(call, frame);
    } else if (frame->type == SIM_FRAME_END && call != NULL) {
        call_ended(call, frame);
    } else if (frame->type == SIM_FRAME_GOAWAY) {
        channel_leave(connection->channel, connection);
    } else if (frame->type == SIM_FRAME_PING) {
        buf_init(&bytes);
        sim_frame_append(&bytes, &pong);
        taken = buf_take(&bytes, &length);
        connection->channel->network.send(connection->stream, taken, length);
    }
}

static void connection_received(void *data, const uint8_t *bytes, size_t length)
{
    struct client_connection *connection = data;
    struct rpc_channel *channel = connection->channel;

    connection->heard_ms = channel_now_ms(channel);
    connection->pinged_ms = 0;
    connection->busy = true;
    channel->busy++;
    for (size_t used = 0; used < length && connection->stream != NULL && !channel->freeing;) {
        struct sim_frame frame;
        used += sim_frame_take(bytes + used, length - used, &frame);
        connection_frame(connection, &frame);
    }
    connection->busy = false;
    if (connection->stream == NULL ||
        (connection != channel->current && list_empty(&connection->calls)))
        connection_drop(connection);
    channel->busy--;
    channel_release(channel);
}

static void connection_ping(struct client_connection *connection)
{
    struct buf bytes;
    size_t length;
    uint8_t *taken;

    connection->pinged_ms = channel_now_ms(connection->channel);
    buf_init(&bytes);
    sim_frame_append(&bytes, &(struct sim_frame){.type = SIM_FRAME_PING});
    taken = buf_take(&bytes, &length);
    connection->channel->network.send(connection->stream, taken, length);
}

/* ---- channels ---- */

static void channel_back_off(struct rpc_channel *channel, const char *reason)
{
    struct random_ops random;
    uint32_t draw;

    sim_node_random(channel->loop->sim, channel->loop->node, &random);
    random.fill(random.context, &draw, sizeof(draw));
    snprintf(channel->reason, sizeof(channel->reason), "%.90s: %.60s", channel->address, reason);
    channel->state = CHANNEL_BACKOFF;
    channel->current = NULL;
    channel_timer_start(channel, channel->dial,
                        channel->backoff_ms - channel->backoff_ms / 4 +
                            draw % (channel->backoff_ms / 2 + 1));
    channel->backoff_ms = channel->backoff_ms * 2 < channel->config.backoff_max_ms
                              ? channel->backoff_ms * 2
                              : channel->config.backoff_max_ms;
    channel_timer_start(channel, channel->settle, 0);
}

static void channel_dial(struct rpc_channel *channel)
{
    struct client_connection *connection;
    struct network_events events = {
        .opened = connection_opened, .received = connection_received, .closed = connection_closed};

    CHECK(channel->current == NULL);
    if (channel->address_bad) {
        channel_back_off(channel, "not host:port or unix:PATH");
        return;
    }
    channel->state = CHANNEL_DIALLING;
    channel_timer_start(channel, channel->dial, channel->config.connect_timeout_ms);
    connection = check_calloc(1, sizeof(*connection));
    connection->channel = channel;
    list_init(&connection->calls);
    list_push_back(&channel->connections, &connection->node);
    channel->current = connection;
    events.data = connection;
    connection->stream =
        channel->network.connect(channel->network.context, channel->address, &events);
}

static void channel_dial_timer(void *data)
{
    struct rpc_channel *channel = data;
    struct client_connection *connection = channel->current;

    if (channel->state == CHANNEL_BACKOFF) {
        channel_dial(channel);
    } else if (channel->state == CHANNEL_DIALLING) {
        channel->current = NULL;
        connection_drop(connection);
        channel_back_off(channel, "connect timeout");
    }
}

/* Calls that must not wait for a connection are over. A handler may end others of them. */
static void channel_settle(void *data)
{
    struct rpc_channel *channel = data;
    struct list impatient, *next;

    if (channel->state != CHANNEL_BACKOFF)
        return;
    list_init(&impatient);
    for (struct list *at = channel->waiting.next; at != &channel->waiting; at = next) {
        next = at->next;
        if (LIST_ITEM(at, struct rpc_client_call, node)->wait_for_ready)
            continue;
        list_remove(at);
        list_push_back(&impatient, at);
    }
    channel->busy++;
    while (!list_empty(&impatient))
        call_end(LIST_ITEM(impatient.next, struct rpc_client_call, node), RPC_UNAVAILABLE,
                 channel->reason);
    channel->busy--;
    channel_release(channel);
}

static void channel_lost(struct rpc_channel *channel, struct client_connection *connection,
                         const char *reason)
{
    if (connection == channel->current && !channel->freeing) {
        uint64_t lived_ms = channel_now_ms(channel) - channel->ready_ms;

        channel->current = NULL;
        if (channel->state == CHANNEL_READY && lived_ms > channel->config.backoff_max_ms) {
            channel->backoff_ms = channel->config.backoff_min_ms;
            channel_dial(channel);
        } else {
            channel_back_off(channel, reason);
        }
    }
    connection_end_calls(connection, reason);
    connection_drop(connection);
}

static void channel_sweep(void *data)
{
    struct rpc_channel *channel = data;
    uint64_t now_ms = channel_now_ms(channel);

    channel->sweep_started = false;
    channel->busy++;
    for (struct list *at = channel->connections.next, *next; at != &channel->connections;
         at = next) {
        struct client_connection *connection = LIST_ITEM(at, struct client_connection, node);
        next = at->next;
        if (list_empty(&connection->calls) || connection->stream == NULL)
            continue;
        if (connection->pinged_ms != 0 &&
            now_ms - connection->pinged_ms >= channel->config.keepalive_ms) {
            channel_lost(channel, connection, "no answer to a ping");
            next = channel->connections.next; /* handlers may have changed the list */
        } else if (connection->pinged_ms == 0 &&
                   now_ms - connection->heard_ms >= channel->config.keepalive_ms) {
            connection_ping(connection);
        }
        if (channel->freeing)
            break;
    }
    channel->busy--;
    if (!channel->freeing && channel->calls_count > 0) {
        channel->sweep_started = true;
        channel_timer_start(channel, channel->sweep, channel->config.keepalive_ms / 2);
    }
    channel_release(channel);
}

static void look_start(struct rpc_channel *channel)
{
    if (!channel->look_started)
        channel->loop->clock.timer_start(channel->look, WRITABLE_LOOK_US);
    channel->look_started = true;
}

/* One call that may write again; NULL: none. *ret_blocked: others still wait. */
static struct rpc_client_call *channel_writable(struct rpc_channel *channel, bool *ret_blocked)
{
    *ret_blocked = false;
    for (struct list *at = channel->connections.next; at != &channel->connections; at = at->next) {
        struct client_connection *connection = LIST_ITEM(at, struct client_connection, node);
        bool room = connection->stream != NULL &&
                    channel->network.unsent_bytes(connection->stream) <= WRITE_BUFFER_BYTES / 2;
        for (struct list *c = connection->calls.next; c != &connection->calls; c = c->next) {
            struct rpc_client_call *call = LIST_ITEM(c, struct rpc_client_call, node);
            if (call->blocked && room)
                return call;
            *ret_blocked |= call->blocked;
        }
    }
    for (struct list *c = channel->waiting.next; c != &channel->waiting; c = c->next)
        *ret_blocked |= LIST_ITEM(c, struct rpc_client_call, node)->blocked;
    return NULL;
}

static void channel_look(void *data)
{
    struct rpc_channel *channel = data;
    struct rpc_client_call *call;
    bool blocked;

    channel->look_started = false;
    channel->busy++;
    while (!channel->freeing && (call = channel_writable(channel, &blocked)) != NULL) {
        call->blocked = false;
        call->busy++;
        if (call->handlers->on_writable != NULL)
            call->handlers->on_writable(call, call->data);
        call->busy--;
        if (call->ended)
            call_free(call);
    }
    channel->busy--;
    if (!channel->freeing && blocked)
        look_start(channel);
    channel_release(channel);
}

/* ---- src/rpc/client.h ---- */

struct rpc_channel *rpc_channel_new(uv_loop_t *loop, const char *address,
                                    const struct rpc_channel_config *config)
{
    struct rpc_channel *channel = check_calloc(1, sizeof(*channel));
    struct network_address ignored;

    channel->config = rpc_channel_config_filled(config);
    channel->backoff_ms = channel->config.backoff_min_ms;
    channel->loop = sim_loop_of(loop);
    sim_node_network(channel->loop->sim, channel->loop->node, &channel->network);
    channel->address = check_strdup(address);
    channel->address_bad = network_address_parse(address, &ignored, NULL) != 0;
    list_init(&channel->connections);
    list_init(&channel->waiting);
    channel->dial = channel_timer(channel, channel_dial_timer, channel);
    channel->settle = channel_timer(channel, channel_settle, channel);
    channel->sweep = channel_timer(channel, channel_sweep, channel);
    channel->look = channel_timer(channel, channel_look, channel);
    channel_dial(channel);
    return channel;
}

static void channel_release(struct rpc_channel *channel)
{
    if (!channel->freeing || channel->busy > 0)
        return;
    while (!list_empty(&channel->connections)) {
        struct client_connection *connection =
            LIST_ITEM(channel->connections.next, struct client_connection, node);
        CHECK(list_empty(&connection->calls));
        connection->busy = false;
        connection_drop(connection);
    }
    CHECK(channel->calls_count == 0);
    free(channel->address);
    free(channel);
}

void rpc_channel_free(struct rpc_channel *channel)
{
    if (channel == NULL)
        return;
    CHECK(!channel->freeing);
    channel->freeing = true;
    channel->current = NULL;
    channel->busy++;
    for (struct list *at = channel->connections.next; at != &channel->connections; at = at->next) {
        struct client_connection *connection = LIST_ITEM(at, struct client_connection, node);
        if (connection->stream != NULL)
            channel->network.close(connection->stream);
        connection->stream = NULL;
        connection_end_calls(connection, "channel closed");
    }
    while (!list_empty(&channel->waiting))
        call_end(LIST_ITEM(channel->waiting.next, struct rpc_client_call, node), RPC_UNAVAILABLE,
                 "channel closed");
    channel->loop->clock.timer_free(channel->dial);
    channel->loop->clock.timer_free(channel->settle);
    channel->loop->clock.timer_free(channel->sweep);
    channel->loop->clock.timer_free(channel->look);
    channel->busy--;
    channel_release(channel);
}

bool rpc_channel_connected(const struct rpc_channel *channel)
{
    return channel->state == CHANNEL_READY;
}

void rpc_channel_hurry(struct rpc_channel *channel)
{
    channel->backoff_ms = channel->config.backoff_min_ms;
    if (channel->state == CHANNEL_BACKOFF && !channel->freeing)
        channel_dial(channel);
}

size_t rpc_channel_calls(const struct rpc_channel *channel)
{
    return channel->calls_count;
}

const char *rpc_channel_address(const struct rpc_channel *channel)
{
    return channel->address;
}

/* ---- starting calls ---- */

static struct rpc_client_call *call_new(struct rpc_channel *channel, const char *path,
                                        uint64_t timeout_ms, bool wait_for_ready,
                                        const struct rpc_client_handlers *handlers, void *data)
{
    struct rpc_client_call *call = check_calloc(1, sizeof(*call));

    CHECK(!channel->freeing && path[0] == '/');
    call->channel = channel;
    call->handlers = handlers;
    call->data = data;
    call->path = check_strdup(path);
    call->wait_for_ready = wait_for_ready;
    call->deadline_ms = UINT64_MAX;
    list_init(&call->node);
    if (timeout_ms > 0) {
        call->deadline_ms = channel_now_ms(channel) + timeout_ms;
        call->deadline = channel_timer(channel, call_deadline, call);
        channel_timer_start(channel, call->deadline, timeout_ms);
    }
    channel->calls_count++;
    list_push_back(&channel->waiting, &call->node);
    return call;
}

static void call_begin(struct rpc_client_call *call)
{
    struct rpc_channel *channel = call->channel;

    if (!channel->sweep_started) {
        channel->sweep_started = true;
        channel_timer_start(channel, channel->sweep, channel->config.keepalive_ms / 2);
    }
    if (channel->state == CHANNEL_READY)
        channel_submit_waiting(channel);
    else if (channel->state == CHANNEL_IDLE)
        channel_dial(channel);
    else if (channel->state == CHANNEL_BACKOFF && !call->wait_for_ready)
        channel_timer_start(channel, channel->settle, 0);
}

struct rpc_client_call *rpc_channel_unary(struct rpc_channel *channel, const char *path,
                                          const uint8_t *request, size_t length,
                                          uint64_t timeout_ms, bool wait_for_ready,
                                          const struct rpc_client_handlers *handlers, void *data)
{
    struct rpc_client_call *call =
        call_new(channel, path, timeout_ms, wait_for_ready, handlers, data);

    call_send(call,
              &(struct sim_frame){.type = SIM_FRAME_MESSAGE, .a = request, .a_bytes = length});
    call_send(call, &(struct sim_frame){.type = SIM_FRAME_HALF_CLOSE});
    call_begin(call);
    return call;
}

struct rpc_client_call *rpc_channel_open(struct rpc_channel *channel, const char *path,
                                         uint64_t timeout_ms, bool wait_for_ready,
                                         const struct rpc_client_handlers *handlers, void *data)
{
    struct rpc_client_call *call =
        call_new(channel, path, timeout_ms, wait_for_ready, handlers, data);

    call_begin(call);
    return call;
}

bool rpc_client_call_send(struct rpc_client_call *call, const uint8_t *bytes, size_t length)
{
    struct client_connection *connection = call->connection;

    CHECK(!call->ended);
    call_send(call,
              &(struct sim_frame){
                  .type = SIM_FRAME_MESSAGE, .call = call->id, .a = bytes, .a_bytes = length});
    if (connection == NULL
            ? call->outbox.length <= WRITE_BUFFER_BYTES
            : connection->stream == NULL ||
                  call->channel->network.unsent_bytes(connection->stream) <= WRITE_BUFFER_BYTES)
        return true;
    call->blocked = true;
    look_start(call->channel);
    return false;
}

void rpc_client_call_half_close(struct rpc_client_call *call)
{
    call_send(call, &(struct sim_frame){.type = SIM_FRAME_HALF_CLOSE, .call = call->id});
}

void rpc_client_call_cancel(struct rpc_client_call *call)
{
    call_reset(call);
    call_detach(call);
    call_free(call);
}
