/* Listeners, methods, limits, the periodic sweep, drain and shutdown of a server. See server.h.
 *
 * Flow     listen → accept (server_connection.c) ; sweep: keepalive, idle, descriptors ; drain:
 *          GOAWAY, wait, tell ; free.
 */
#include "src/rpc/server_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "src/base/check.h"
#include "src/net/address.h"

enum { LISTEN_BACKLOG = 1024, SWEEPS_PER_KEEPALIVE = 4 };

static void server_sweep(struct rpc_timer *timer);
static void server_grace_over(struct rpc_timer *timer);
static void server_recheck(struct rpc_timer *timer);

/* Connections must leave descriptors for the rest of the process. */
static size_t connections_possible(size_t wanted)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted + RPC_DESCRIPTORS_RESERVED)
        return wanted;
    return limit.rlim_cur > 2 * RPC_DESCRIPTORS_RESERVED
               ? (size_t)limit.rlim_cur - RPC_DESCRIPTORS_RESERVED
               : (size_t)limit.rlim_cur / 2;
}

static void config_fill(struct rpc_server_config *config)
{
    if (config->connections_max == 0)
        config->connections_max = 1024;
    if (config->calls_per_connection_max == 0)
        config->calls_per_connection_max = 1024;
    if (config->message_max_bytes == 0)
        config->message_max_bytes = 256 << 10;
    if (config->write_buffer_bytes == 0)
        config->write_buffer_bytes = 64 << 10;
    if (config->idle_ms == 0)
        config->idle_ms = 300000;
    if (config->keepalive_ms == 0)
        config->keepalive_ms = 10000;
    if (config->handshake_ms == 0)
        config->handshake_ms = 5000;
    if (config->request_ms == 0)
        config->request_ms = 10000;
    config->connections_max = connections_possible(config->connections_max);
    if (config->connections_per_user_max == 0 ||
        config->connections_per_user_max > config->connections_max / 2)
        config->connections_per_user_max = (config->connections_max + 1) / 2;
}

static void sweep_start(struct rpc_server *server)
{
    rpc_timer_start(&server->timers, &server->sweep,
                    uv_now(server->loop) +
                        (server->config.keepalive_ms + SWEEPS_PER_KEEPALIVE - 1) /
                            SWEEPS_PER_KEEPALIVE);
}

static void server_refused(void *data, const char *address, const char *text)
{
    struct rpc_server *server = data;

    server->stats.refused_total++;
    if (server->config.refused != NULL)
        server->config.refused(server->config.data, address, text);
}

static void server_secure(struct rpc_server *server)
{
    struct rpc_reader *reader = &server->flusher.reader;
    struct tls_network *tls = rpc_reader_secure(reader, server->loop, server->config.tls);

    tls->handshake_ms = server->config.handshake_ms;
    tls->dates = true;
    tls->wake = reader->wake;
    tls->wake_data = reader->data;
    tls->refused = server_refused;
    tls->data = server;
    rpc_timer_start(&server->timers, &server->recheck, uv_now(server->loop) + RPC_RECHECK_STEP_MS);
}

struct rpc_server *rpc_server_new(uv_loop_t *loop, const struct rpc_server_config *config)
{
    struct rpc_server *server = check_calloc(1, sizeof(*server));

    server->loop = loop;
    if (config != NULL)
        server->config = *config;
    config_fill(&server->config);
    CHECK(server->config.message_max_bytes <= UINT32_MAX / 2);
    CHECK(server->config.calls_per_connection_max <= INT32_MAX);
    list_init(&server->connections);
    list_init(&server->silent);
    list_init(&server->spare_calls);
    for (size_t i = 0; i < RPC_OWNER_BUCKETS; i++)
        list_init(&server->owners[i]);
    rpc_flusher_init(&server->flusher, loop);
    rpc_timers_init(&server->timers, loop);
    rpc_turns_init(server);
    server->handles = 3;
    rpc_timer_init(&server->sweep, server_sweep);
    rpc_timer_init(&server->grace, server_grace_over);
    rpc_timer_init(&server->recheck, server_recheck);
    if (server->config.tls != NULL)
        server_secure(server);
    CHECK(nghttp2_session_callbacks_new(&server->callbacks) == 0);
    rpc_connection_callbacks(server->callbacks);
    server->options = rpc_h2_options();
    spare_init(&server->spare, RPC_SPARE_MAX_BYTES);
    sweep_start(server);
    return server;
}

void rpc_server_add_method(struct rpc_server *server, const char *path, bool client_streaming,
                           bool server_streaming, const struct rpc_handlers *handlers, void *data)
{
    struct rpc_method *method = &server->methods[server->methods_count];

    CHECK(server->methods_count < RPC_METHODS_MAX);
    CHECK(path[0] == '/');
    CHECK(rpc_server_find_method(server, path, strlen(path)) == NULL);
    method->path = check_strdup(path);
    method->path_length = strlen(path);
    method->client_streaming = client_streaming;
    method->server_streaming = server_streaming;
    method->handlers = *handlers;
    method->data = data;
    server->methods_count++;
}

/* A few dozen methods whose lengths differ: comparing lengths first leaves one or two
 * comparisons. */
const struct rpc_method *rpc_server_find_method(const struct rpc_server *server, const char *path,
                                                size_t length)
{
    for (size_t i = 0; i < server->methods_count; i++)
        if (server->methods[i].path_length == length &&
            memcmp(server->methods[i].path, path, length) == 0)
            return &server->methods[i];
    return NULL;
}

static void server_accepted(struct rpc_server *server, bool local, struct network_stream *stream)
{
    if (stream != NULL)
        rpc_connection_accept(server, local, stream);
    else
        server->stats.refused_total++;
}

static void accepted_local(void *data, struct network_stream *stream)
{
    server_accepted(data, true, stream);
}

static void accepted_remote(void *data, struct network_stream *stream)
{
    server_accepted(data, false, stream);
}

int rpc_server_listen(struct rpc_server *server, const char *address, struct err *err)
{
    struct rpc_listener *listener = &server->listeners[server->listeners_count];
    struct network_address parsed;

    if (network_address_parse(address, &parsed, err) != 0)
        return -1;
    if (server->listeners_count == RPC_LISTENERS_MAX)
        return err_set(err, ERR_FULL, "more than %d listening addresses", RPC_LISTENERS_MAX);
    listener->network = rpc_reader_network(&server->flusher.reader, parsed.local);
    if (listener->network->listen(listener->network->context, address,
                                  parsed.local ? accepted_local : accepted_remote, server,
                                  &listener->below, err) != 0)
        return -1;
    server->listeners_count++;
    return 0;
}

int rpc_server_port(const struct rpc_server *server, size_t listener)
{
    const struct rpc_listener *asked = &server->listeners[listener];

    return listener < server->listeners_count ? asked->network->port(asked->below) : -1;
}

static struct rpc_connection *connection_at(struct list *node)
{
    return LIST_ITEM(node, struct rpc_connection, node);
}

static void connection_end_stalled(struct rpc_connection *connection, const char *text)
{
    struct rpc_server *server = connection->server;

    server->stats.stalled_total++;
    if (server->config.stalled != NULL)
        server->config.stalled(server->config.stalled_data, &connection->peer, text);
    rpc_connection_close(connection);
}

/* One that is being closed keeps what it holds for a moment. An owner with more than its share
 * makes room itself. */
bool rpc_server_relieve(struct rpc_server *server, const struct rpc_connection *asking, char *text,
                        size_t size)
{
    struct rpc_connection *largest = NULL, *largest_own = NULL;
    size_t held = 0, held_own = 0, limit = RPC_SERVER_BUFFERED_MAX_BYTES;

    if (server->stats.bytes_buffered <= RPC_SERVER_BUFFERED_MAX_BYTES &&
        asking->owner->buffered_bytes <= RPC_OWNER_BUFFERED_MAX_BYTES)
        return true;
    for (struct list *node = server->connections.next; node != &server->connections;
         node = node->next) {
        struct rpc_connection *connection = connection_at(node);
        bool own = connection->owner == asking->owner;

        if (connection->h2.closing)
            continue;
        held += connection->buffered_bytes;
        held_own += own ? connection->buffered_bytes : 0;
        if (connection == asking || !rpc_connection_stalled(connection, RPC_STALL_FULL_MS))
            continue;
        if (largest == NULL || connection->buffered_bytes > largest->buffered_bytes)
            largest = connection;
        if (own &&
            (largest_own == NULL || connection->buffered_bytes > largest_own->buffered_bytes))
            largest_own = connection;
    }
    if (held_own > RPC_OWNER_BUFFERED_MAX_BYTES) {
        largest = largest_own;
        held = held_own;
        limit = RPC_OWNER_BUFFERED_MAX_BYTES;
    }
    if (held <= limit)
        return true;
    snprintf(text, size, "%zu bytes of answers wait to be read by %s, the limit is %zu", held,
             limit == RPC_OWNER_BUFFERED_MAX_BYTES ? asking->owner->name : "all", limit);
    if (largest == NULL)
        return false;
    snprintf(text, size,
             "%zu bytes of answers wait for it, the most of %zu, of which the limit is %zu, and it "
             "took less than %d in %d ms",
             largest->buffered_bytes, held, limit, RPC_STALL_BYTES, RPC_STALL_FULL_MS);
    connection_end_stalled(largest, text);
    return true;
}

/* Keepalive, unread answers and idle time of every connection; a fraction of the keepalive time is
 * precise enough for all. */
static void server_sweep(struct rpc_timer *timer)
{
    struct rpc_server *server = LIST_ITEM(timer, struct rpc_server, sweep);
    uint64_t now_ms = uv_now(server->loop);
    char text[ERR_TEXT_BYTES];
    struct list *next;

    for (struct list *node = server->connections.next; node != &server->connections; node = next) {
        struct rpc_connection *connection = connection_at(node);

        next = node->next; /* closing leaves the list only later, from the loop */
        if (!rpc_h2_keepalive(&connection->h2, server->config.keepalive_ms))
            continue;
        if (rpc_connection_stalled(connection, 2 * server->config.keepalive_ms)) {
            snprintf(text, sizeof(text),
                     "%zu bytes of answers wait for it, and it took less than %d in %" PRIu64 " ms",
                     connection->buffered_bytes, RPC_STALL_BYTES, 2 * server->config.keepalive_ms);
            connection_end_stalled(connection, text);
        } else if (connection->calls_count == 0 &&
                   now_ms - connection->idle_since_ms >= server->config.idle_ms) {
            rpc_h2_terminate(&connection->h2, NGHTTP2_NO_ERROR);
        }
    }
    if (!server->freeing)
        sweep_start(server);
}

/* Clients' certificates: all of them soon after a reload, each of them now and then, a few at a
 * time. The list is in the order of the last check. */
static void server_recheck(struct rpc_timer *timer)
{
    struct rpc_server *server = LIST_ITEM(timer, struct rpc_server, recheck);
    uint64_t generation = tls_context_generation(server->config.tls);
    uint64_t now_ms = uv_now(server->loop);
    bool due = true;

    for (size_t i = 0; i < RPC_RECHECK_STEP_COUNT && !list_empty(&server->connections); i++) {
        struct rpc_connection *connection = connection_at(server->connections.next);

        due = connection->checked_generation != generation ||
              now_ms - connection->checked_ms >= RPC_RECHECK_MS;
        if (!due)
            break;
        list_remove(&connection->node);
        list_push_back(&server->connections, &connection->node);
        rpc_connection_recheck(connection);
    }
    if (!server->freeing)
        rpc_timer_start(&server->timers, &server->recheck,
                        now_ms + (due && !list_empty(&server->connections) ? RPC_RECHECK_STEP_MS
                                                                           : RPC_RECHECK_LOOK_MS));
}

static void listeners_close(struct rpc_server *server)
{
    for (size_t i = 0; i < server->listeners_count; i++)
        server->listeners[i].network->listener_close(server->listeners[i].below);
    server->listeners_count = 0;
}

static void drain_over(struct rpc_server *server)
{
    void (*drained)(void *) = server->drained;

    rpc_timer_stop(&server->timers, &server->grace);
    server->drained = NULL;
    if (drained != NULL)
        drained(server->drained_data);
}

static void server_grace_over(struct rpc_timer *timer)
{
    drain_over(LIST_ITEM(timer, struct rpc_server, grace));
}

void rpc_server_connection_ended(struct rpc_server *server)
{
    if (server->draining && server->drained != NULL && server->connections_count == 0)
        rpc_timer_start(&server->timers, &server->grace, uv_now(server->loop));
}

void rpc_server_drain(struct rpc_server *server, uint64_t grace_ms, void (*drained)(void *),
                      void *data)
{
    CHECK(!server->draining && !server->freeing);
    server->draining = true;
    server->drained = drained;
    server->drained_data = data;
    listeners_close(server);
    rpc_health_drain(server->health);
    for (struct list *node = server->connections.next; node != &server->connections;
         node = node->next) {
        struct rpc_h2 *h2 = &connection_at(node)->h2;

        if (h2->closing)
            continue;
        if (h2->session == NULL) { /* still shaking hands */
            rpc_connection_close(connection_at(node));
            continue;
        }
        /* calls after the last one seen were certainly not begun: clients may send them
         * elsewhere */
        nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(h2->session),
                              NGHTTP2_NO_ERROR, NULL, 0);
        rpc_h2_touch(h2);
    }
    rpc_timer_start(&server->timers, &server->grace,
                    uv_now(server->loop) + (server->connections_count == 0 ? 0 : grace_ms));
}

static void server_part_closed(void *data)
{
    rpc_server_handle_closed(data);
}

void rpc_server_free(struct rpc_server *server, void (*freed)(void *), void *data)
{
    CHECK(!server->freeing);
    server->freeing = true;
    server->freed = freed;
    server->freed_data = data;
    server->drained = NULL;
    listeners_close(server);
    for (struct list *node = server->connections.next; node != &server->connections;
         node = node->next)
        rpc_connection_close(connection_at(node));
    rpc_timers_close(&server->timers, server_part_closed, server);
    rpc_flusher_close(&server->flusher, server_part_closed, server);
    rpc_turns_close(server);
}

void rpc_server_handle_closed(struct rpc_server *server)
{
    CHECK(server->handles > 0);
    if (--server->handles > 0)
        return;
    CHECK(server->freeing && list_empty(&server->connections) && server->partial_bytes == 0);
    while (!list_empty(&server->spare_calls)) {
        struct rpc_call *call = LIST_ITEM(server->spare_calls.next, struct rpc_call, node);

        list_remove(&call->node);
        buf_close(&call->inbox.bytes);
        buf_close(&call->outbox.bytes);
        buf_close(&call->metadata);
        buf_close(&call->trailers);
        free(call);
    }
    for (size_t i = 0; i < server->methods_count; i++)
        free(server->methods[i].path);
    rpc_health_free(server->health);
    rpc_reflection_free(server->reflection);
    nghttp2_session_callbacks_del(server->callbacks);
    nghttp2_option_del(server->options);
    spare_close(&server->spare);
    if (server->freed != NULL)
        server->freed(server->freed_data);
    free(server);
}

size_t rpc_server_connections_max(const struct rpc_server *server)
{
    return server->config.connections_max;
}

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *ret_stats)
{
    const struct list *node;

    *ret_stats = server->stats;
    ret_stats->connections = server->connections_count;
    for (node = server->connections.next; node != &server->connections; node = node->next) {
        const struct rpc_connection *connection =
            LIST_ITEM_CONST(node, struct rpc_connection, node);

        ret_stats->bytes_buffered += rpc_stream_pending(&connection->h2.stream);
    }
}
