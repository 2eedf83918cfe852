/* Channels: dialling, back-off, calls that wait, keepalive. See client.h.
 *
 * Flow
 *              a call
 *     IDLE ───────────────► DIALLING ──SETTINGS of the peer──► READY ──GOAWAY──► IDLE
 *                            ▲    │                              │
 *                            │    │ refused, timeout             │ broken
 *                            │    ▼                              │
 *                 time over  └─ BACKOFF ◄────────────────────────┘
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/base/check.h"
#include "src/net/address.h"
#include "src/rpc/client_internal.h"

enum { SWEEPS_PER_KEEPALIVE = 4 };

static void channel_dial(struct rpc_channel *channel);

static void channel_reason(struct rpc_channel *channel, const char *reason)
{
    snprintf(channel->reason, sizeof(channel->reason), "%.90s: %.400s", channel->text, reason);
}

/* Calls that must not wait for a connection are over. */
static void channel_end_impatient(struct rpc_channel *channel)
{
    struct list impatient, *next;

    list_init(&impatient);
    for (struct list *node = channel->waiting.next; node != &channel->waiting; node = next) {
        next = node->next;
        if (LIST_ITEM(node, struct rpc_client_call, node)->wait_for_ready)
            continue;
        list_remove(node);
        list_push_back(&impatient, node);
    }
    /* a handler may end others of them: each end takes its call out of the list */
    while (!list_empty(&impatient))
        rpc_client_call_end(LIST_ITEM(impatient.next, struct rpc_client_call, node),
                            RPC_UNAVAILABLE, channel->reason);
}

/* Between three and five quarters of it: clients that lost one server at a time do not come back at
 * one time. */
static uint64_t jitter_delay(uint64_t delay_ms)
{
    uint32_t draw = 0;

    if (getrandom(&draw, sizeof(draw), GRND_NONBLOCK) < 0)
        draw = 0; /* no spread then */
    return delay_ms - delay_ms / 4 + (uint64_t)draw % (delay_ms / 2 + 1);
}

static void channel_back_off(struct rpc_channel *channel, const char *reason)
{
    channel_reason(channel, reason);
    channel->late = false;
    channel->state = RPC_CHANNEL_BACKOFF;
    channel->current = NULL;
    rpc_timer_start(&channel->timers, &channel->dial,
                    uv_now(channel->loop) + jitter_delay(channel->backoff_ms));
    channel->backoff_ms = channel->backoff_ms * 2 < channel->config.backoff_max_ms
                              ? channel->backoff_ms * 2
                              : channel->config.backoff_max_ms;
    /* from the loop: this may be inside the start of a call */
    rpc_timer_start(&channel->timers, &channel->settle, uv_now(channel->loop));
}

void rpc_channel_dialled(struct rpc_channel *channel, struct rpc_client_connection *connection,
                         const char *failed)
{
    char reason[ERR_TEXT_BYTES];

    snprintf(reason, sizeof(reason), "%s", failed);
    rpc_client_connection_close(connection, reason);
    if (connection == channel->current && !channel->freeing)
        channel_back_off(channel, reason);
}

static void channel_dial(struct rpc_channel *channel)
{
    CHECK(channel->current == NULL);
    channel->state = RPC_CHANNEL_DIALLING;
    rpc_timer_start(&channel->timers, &channel->dial,
                    uv_now(channel->loop) + channel->config.connect_timeout_ms);
    if (channel->address_bad) {
        channel_back_off(channel, "not host:port or unix:PATH");
        return;
    }
    channel->current = rpc_client_connection_new(channel);
    rpc_stream_connect(&channel->current->h2.stream, channel->text);
}

/* One timer for two waits: until the next dial, and until a dial has taken too long. */
static void channel_dial_timer(struct rpc_timer *timer)
{
    struct rpc_channel *channel = LIST_ITEM(timer, struct rpc_channel, dial);
    struct rpc_client_connection *connection = channel->current;

    if (channel->state == RPC_CHANNEL_BACKOFF) {
        channel_dial(channel);
    } else if (channel->state == RPC_CHANNEL_DIALLING) {
        channel->current = NULL;
        if (connection != NULL)
            rpc_client_connection_close(connection, "connect timeout");
        channel_back_off(channel, "connect timeout");
        channel->late = true;
    }
}

static void channel_settle(struct rpc_timer *timer)
{
    struct rpc_channel *channel = LIST_ITEM(timer, struct rpc_channel, settle);

    if (channel->state == RPC_CHANNEL_BACKOFF)
        channel_end_impatient(channel);
}

static void channel_submit_waiting(struct rpc_channel *channel)
{
    while (channel->state == RPC_CHANNEL_READY && !list_empty(&channel->waiting)) {
        struct rpc_client_connection *connection = channel->current;
        struct rpc_client_call *call =
            LIST_ITEM(channel->waiting.next, struct rpc_client_call, node);

        if (!rpc_client_call_submit(call, connection))
            rpc_channel_leave(channel, connection);
    }
}

void rpc_channel_settled(struct rpc_channel *channel)
{
    CHECK(channel->state == RPC_CHANNEL_DIALLING);
    channel->state = RPC_CHANNEL_READY;
    channel->late = false;
    channel->ready_ms = uv_now(channel->loop);
    rpc_timer_stop(&channel->timers, &channel->dial);
    channel_submit_waiting(channel);
}

void rpc_channel_leave(struct rpc_channel *channel, struct rpc_client_connection *connection)
{
    connection->leaving = true;
    if (connection != channel->current || channel->freeing)
        return;
    if (channel->state == RPC_CHANNEL_DIALLING) {
        rpc_client_connection_close(connection, "refused by peer");
        channel_back_off(channel, "refused by peer");
        return;
    }
    channel->current = NULL;
    channel->state = RPC_CHANNEL_IDLE;
    channel->backoff_ms = channel->config.backoff_min_ms;
    if (!list_empty(&channel->waiting))
        channel_dial(channel);
}

void rpc_channel_lost(struct rpc_channel *channel, struct rpc_client_connection *connection,
                      const char *reason)
{
    bool current = connection == channel->current;
    uint64_t lived_ms = uv_now(channel->loop) - channel->ready_ms;

    if (current && !channel->freeing) {
        channel->current = NULL;
        if (channel->state == RPC_CHANNEL_READY && lived_ms > channel->config.backoff_max_ms) {
            channel->backoff_ms = channel->config.backoff_min_ms;
            channel_dial(channel); /* it was good for a while: no need to wait */
        } else {
            channel_back_off(channel, reason);
        }
    }
    rpc_client_connection_end_calls(connection, reason);
}

static void sweep_start(struct rpc_channel *channel)
{
    CHECK(channel->config.keepalive_ms > 0);
    rpc_timer_start(&channel->timers, &channel->sweep,
                    uv_now(channel->loop) + channel->config.keepalive_ms / SWEEPS_PER_KEEPALIVE +
                        1);
}

/* Only connections with calls are asked whether they live: one that nobody uses may die unseen. */
static void channel_sweep(struct rpc_timer *timer)
{
    struct rpc_channel *channel = LIST_ITEM(timer, struct rpc_channel, sweep);
    struct list *next;

    for (struct list *node = channel->connections.next; node != &channel->connections;
         node = next) {
        struct rpc_client_connection *connection =
            LIST_ITEM(node, struct rpc_client_connection, node);

        next = node->next;
        if (!list_empty(&connection->calls) && connection->h2.session != NULL)
            rpc_h2_keepalive(&connection->h2, channel->config.keepalive_ms);
        if (channel->freeing)
            return;
    }
    if (channel->calls_count > 0)
        sweep_start(channel);
}

void rpc_client_call_keepalive(struct rpc_client_call *call, uint64_t keepalive_ms)
{
    const struct rpc_channel_config wanted = {.keepalive_ms = keepalive_ms};
    struct rpc_channel *channel = call->channel;

    CHECK(!channel->freeing);
    channel->config.keepalive_ms = rpc_channel_config_filled(&wanted).keepalive_ms;
    if (channel->sweep.position != 0)
        sweep_start(channel);
}

void rpc_channel_start_call(struct rpc_channel *channel, struct rpc_client_call *call)
{
    list_push_back(&channel->waiting, &call->node);
    if (channel->sweep.position == 0)
        sweep_start(channel);
    if (channel->state == RPC_CHANNEL_READY)
        channel_submit_waiting(channel);
    else if (channel->state == RPC_CHANNEL_IDLE)
        channel_dial(channel);
    else if (channel->state == RPC_CHANNEL_BACKOFF && !call->wait_for_ready)
        rpc_timer_start(&channel->timers, &channel->settle, uv_now(channel->loop));
}

struct rpc_channel *rpc_channel_new(uv_loop_t *loop, const char *address,
                                    const struct rpc_channel_config *config)
{
    struct rpc_channel *channel = check_calloc(1, sizeof(*channel));
    struct network_address parsed;

    channel->config = rpc_channel_config_filled(config);
    channel->backoff_ms = channel->config.backoff_min_ms;
    channel->loop = loop;
    channel->text = check_strdup(address);
    channel->address_bad = network_address_parse(address, &parsed, NULL) != 0;
    channel->local = !channel->address_bad && parsed.local;
    list_init(&channel->connections);
    list_init(&channel->waiting);
    rpc_flusher_init(&channel->flusher, loop);
    if (channel->config.tls != NULL) /* the dial's timer is that of the handshake as well */
        rpc_reader_secure(&channel->flusher.reader, loop, channel->config.tls)->replicas_only =
            true;
    rpc_timers_init(&channel->timers, loop);
    channel->handles = 2;
    rpc_timer_init(&channel->dial, channel_dial_timer);
    rpc_timer_init(&channel->settle, channel_settle);
    rpc_timer_init(&channel->sweep, channel_sweep);
    CHECK(nghttp2_session_callbacks_new(&channel->callbacks) == 0);
    rpc_client_callbacks(channel->callbacks);
    channel->options = rpc_h2_options();
    channel_dial(channel);
    return channel;
}

static void channel_part_closed(void *data)
{
    rpc_channel_handle_closed(data);
}

void rpc_channel_handle_closed(struct rpc_channel *channel)
{
    CHECK(channel->handles > 0);
    if (--channel->handles > 0)
        return;
    CHECK(channel->freeing && channel->calls_count == 0);
    nghttp2_session_callbacks_del(channel->callbacks);
    nghttp2_option_del(channel->options);
    free(channel->text);
    free(channel);
}

void rpc_channel_free(struct rpc_channel *channel)
{
    if (channel == NULL)
        return;
    CHECK(!channel->freeing);
    channel->freeing = true;
    channel->current = NULL;
    for (struct list *node = channel->connections.next; node != &channel->connections;
         node = node->next)
        rpc_client_connection_close(LIST_ITEM(node, struct rpc_client_connection, node),
                                    "channel closed");
    while (!list_empty(&channel->waiting))
        rpc_client_call_end(LIST_ITEM(channel->waiting.next, struct rpc_client_call, node),
                            RPC_UNAVAILABLE, "channel closed");
    rpc_timers_close(&channel->timers, channel_part_closed, channel);
    rpc_flusher_close(&channel->flusher, channel_part_closed, channel);
}

void rpc_channel_recheck(struct rpc_channel *channel)
{
    if (channel->flusher.reader.tls != NULL)
        network_tls_recheck(channel->flusher.reader.tls);
}

void rpc_channel_hurry(struct rpc_channel *channel)
{
    channel->backoff_ms = channel->config.backoff_min_ms;
    if (channel->state == RPC_CHANNEL_BACKOFF && !channel->freeing)
        channel_dial(channel);
}

bool rpc_channel_connected(const struct rpc_channel *channel)
{
    return channel->state == RPC_CHANNEL_READY;
}

size_t rpc_channel_calls(const struct rpc_channel *channel)
{
    return channel->calls_count;
}

void rpc_channel_give_time(struct rpc_channel *channel, uint64_t connect_timeout_ms)
{
    CHECK(connect_timeout_ms > 0);
    channel->config.connect_timeout_ms = connect_timeout_ms;
}

bool rpc_channel_late(const struct rpc_channel *channel)
{
    return channel->late;
}

const char *rpc_channel_address(const struct rpc_channel *channel)
{
    return channel->text;
}
