/* HTTP/2 callbacks of a server's connection: frames and headers become calls.
 *
 * Flow     accept → TLS handshake, if any → nghttp2 session → begin_headers makes a call, header
 *          fills it, frame_recv begins it, data feeds it, stream_close frees it.
 * Errors   what the peer does wrong ends its stream or its connection, never the server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/server_internal.h"

static struct rpc_connection *connection_of(struct rpc_h2 *h2)
{
    return LIST_ITEM(h2, struct rpc_connection, h2);
}

static struct rpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return stream_id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, stream_id);
}

/* A handler may have closed everything: nghttp2 must stop at once then. */
static int callback_result(const struct rpc_connection *connection)
{
    return connection->h2.closing ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct rpc_connection *connection = data;
    struct rpc_call *call;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    call = rpc_call_new(connection, frame->hd.stream_id);
    CHECK(nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call) == 0);
    return 0;
}

static bool name_is(const uint8_t *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

static bool is_grpc_content_type(const uint8_t *value, size_t length)
{
    static const char type[] = "application/grpc";
    const size_t size = sizeof(type) - 1;

    return length >= size && memcmp(value, type, size) == 0 &&
           (length == size || value[size] == '+' || value[size] == ';');
}

static void header_timeout(struct rpc_call *call, const char *value, size_t length)
{
    uint64_t timeout_ms;

    if (rpc_timeout_parse(value, length, &timeout_ms) != 0)
        call->timeout_bad = true;
    else
        call->deadline_ms = uv_now(call->connection->server->loop) + timeout_ms;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *data)
{
    struct rpc_connection *connection = data;
    struct rpc_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    if (call == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST || call->headers_large)
        return 0;
    call->header_bytes += name_length + length + 32;
    if (call->header_bytes > RPC_H2_HEADER_LIST_BYTES) {
        call->headers_large = true;
        return 0;
    }
    if (name_is(name, name_length, ":path"))
        call->method = rpc_server_find_method(connection->server, (const char *)value, length);
    else if (name_is(name, name_length, ":method"))
        call->post = name_is(value, length, "POST");
    else if (name_is(name, name_length, "content-type"))
        call->grpc = is_grpc_content_type(value, length);
    else if (name_is(name, name_length, "grpc-timeout"))
        header_timeout(call, (const char *)value, length);
    else if (name_length > 0 && name[0] != ':' && !name_is(name, name_length, "te")) {
        buf_append(&call->metadata, name, name_length);
        buf_append(&call->metadata, "", 1);
        buf_append(&call->metadata, value, length);
        buf_append(&call->metadata, "", 1);
    }
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct rpc_connection *connection = data;
    struct rpc_call *call = call_of(session, frame->hd.stream_id);

    rpc_h2_frame_received(&connection->h2, frame);
    if (frame->hd.type == NGHTTP2_SETTINGS) {
        list_remove(&connection->silent_node);
        rpc_turns_reopened_all(connection);
    } else if (call != NULL && frame->hd.type == NGHTTP2_WINDOW_UPDATE) {
        rpc_turns_reopened(call);
    }
    if (call == NULL || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return callback_result(connection);
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        rpc_call_begin(call);
    if (!connection->h2.closing && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        rpc_call_half_closed(call);
    return callback_result(connection);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t length, void *data)
{
    struct rpc_connection *connection = data;
    struct rpc_call *call = call_of(session, stream_id);

    (void)flags;
    if (call != NULL)
        rpc_call_receive(call, bytes, length);
    return callback_result(connection);
}

/* The answer is complete: a client that still sends is told that nobody listens. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct rpc_call *call;

    (void)data;
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    call = call_of(session, frame->hd.stream_id);
    if (call != NULL && !call->half_closed)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *data)
{
    struct rpc_connection *connection = data;
    struct rpc_call *call = call_of(session, stream_id);

    (void)error_code;
    if (call == NULL)
        return callback_result(connection);
    nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    rpc_call_aborted(call);
    if (!connection->h2.closing)
        rpc_call_free(call);
    return callback_result(connection);
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *data)
{
    struct rpc_connection *connection = data;

    (void)session;
    (void)frame;
    (void)error;
    rpc_h2_charge(&connection->h2);
    return callback_result(connection);
}

void rpc_connection_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
}

/* The calls are told now and freed when no callback can be inside them any more. */
static void connection_abort_calls(struct rpc_connection *connection)
{
    while (!list_empty(&connection->calls)) {
        struct rpc_call *call = LIST_ITEM(connection->calls.next, struct rpc_call, node);

        list_remove(&call->node);
        list_push_back(&connection->dead, &call->node);
        rpc_timer_stop(&connection->server->timers, &call->deadline);
        rpc_call_aborted(call);
    }
}

/* It is being closed, and makes way for another one. */
static void connection_leave(struct rpc_connection *connection)
{
    list_remove(&connection->silent_node);
    rpc_turns_leave(connection);
    if (connection->owner != NULL)
        connection->owner->open_count--;
    if (!list_empty(&connection->node))
        connection->server->open_count--;
}

void rpc_connection_close(struct rpc_connection *connection)
{
    if (connection->h2.closing)
        return;
    connection_leave(connection);
    rpc_h2_close(&connection->h2);
    connection_abort_calls(connection);
}

bool rpc_connection_stalled(const struct rpc_connection *connection, uint64_t ms)
{
    return (connection->buffered_bytes > 0 || rpc_turns_blocked_by_peer(connection)) &&
           uv_now(connection->server->loop) - connection->taken_ms >= ms;
}

static void connection_refuse(struct rpc_connection *connection, const char *text)
{
    const struct rpc_server_config *config = &connection->server->config;

    connection->server->stats.refused_total++;
    if (config->refused != NULL)
        config->refused(config->data, connection->peer.address, text);
}

static void connection_lost(struct rpc_h2 *h2, const char *reason)
{
    struct rpc_connection *connection = connection_of(h2);

    if (reason == rpc_h2_speaks_tls)
        connection_refuse(connection, reason);
    connection_leave(connection);
    connection_abort_calls(connection);
}

/* A call makes nghttp2 take and give back half a dozen small blocks. */
static void *memory_take(size_t size, void *data)
{
    return spare_take(data, size);
}

static void memory_give(void *block, void *data)
{
    spare_give(data, block);
}

static void *memory_take_zeroed(size_t count, size_t size, void *data)
{
    return spare_take_zeroed(data, count, size);
}

static void *memory_resize(void *block, size_t size, void *data)
{
    return spare_resize(data, block, size);
}

/* The byte stream is there: HTTP/2 begins. */
static void connection_begin(struct rpc_connection *connection)
{
    struct rpc_server *server = connection->server;
    nghttp2_mem memory = {&server->spare, memory_take, memory_give, memory_take_zeroed,
                          memory_resize};
    nghttp2_session *session;

    connection->owner = rpc_owner_take(server, &connection->peer);
    connection->owner->open_count++;
    CHECK(nghttp2_session_server_new3(&session, server->callbacks, connection, server->options,
                                      &memory) == 0);
    rpc_h2_start(&connection->h2, session, (uint32_t)server->config.calls_per_connection_max);
    rpc_h2_pump(&connection->h2); /* our SETTINGS do not wait for those who are served already */
}

/* The TLS handshake is over. */
static void connection_connected(struct rpc_h2 *h2, const char *failed)
{
    struct rpc_connection *connection = connection_of(h2);

    if (failed != NULL) { /* which server_refused() has told */
        rpc_connection_close(connection);
        return;
    }
    rpc_stream_get_peer(&h2->stream, &connection->peer);
    connection_begin(connection);
}

bool rpc_connection_recheck(struct rpc_connection *connection)
{
    connection->checked_ms = uv_now(connection->server->loop);
    connection->checked_generation = tls_context_generation(connection->server->config.tls);
    return connection->h2.closing || rpc_stream_passes(&connection->h2.stream);
}

static void connection_sent(struct rpc_h2 *h2)
{
    rpc_turns_sent(connection_of(h2));
}

static void connection_closed(struct rpc_h2 *h2)
{
    struct rpc_connection *connection = connection_of(h2);
    struct rpc_server *server = connection->server;

    connection_abort_calls(connection);
    while (!list_empty(&connection->dead))
        rpc_call_free(LIST_ITEM(connection->dead.next, struct rpc_call, node));
    CHECK(connection->calls_count == 0 && connection->partial_bytes == 0);
    CHECK(list_empty(&connection->turn_node));
    rpc_owner_give(connection->owner);
    if (!list_empty(&connection->node)) {
        list_remove(&connection->node);
        server->connections_count--;
        rpc_server_connection_ended(server);
    }
    free(connection);
    rpc_server_handle_closed(server);
}

static const struct rpc_h2_ops connection_ops = {.connected = connection_connected,
                                                 .sent = connection_sent,
                                                 .lost = connection_lost,
                                                 .closed = connection_closed};

/* The one that has been silent for longest goes, of this owner or of all (NULL). Those that have
 * spoken and wait for their turn to shake hands stay. False: there is none. */
static bool server_make_way(struct rpc_server *server, const struct rpc_owner *owner)
{
    for (struct list *node = server->silent.next; node != &server->silent; node = node->next) {
        struct rpc_connection *connection = LIST_ITEM(node, struct rpc_connection, silent_node);

        if ((owner != NULL && connection->owner != owner) ||
            rpc_stream_waits(&connection->h2.stream))
            continue;
        server->stats.refused_total++;
        rpc_connection_close(connection);
        return true;
    }
    return false;
}

/* One connection too many: it is accepted, so that it does not wait for ever, and closed. */
static bool connection_refused(struct rpc_server *server)
{
    return server->draining ||
           (server->open_count >= server->config.connections_max && !server_make_way(server, NULL));
}

/* A user of the unix socket has half of it at most, so that others find room. */
static bool connection_refused_user(struct rpc_connection *connection)
{
    struct rpc_server *server = connection->server;

    return connection->peer.local && !connection->h2.closing &&
           connection->owner->open_count > server->config.connections_per_user_max &&
           !server_make_way(server, connection->owner);
}

void rpc_connection_accept(struct rpc_server *server, bool local, struct network_stream *stream)
{
    struct rpc_connection *connection = check_calloc(1, sizeof(*connection));

    connection->server = server;
    connection->idle_since_ms = uv_now(server->loop);
    list_init(&connection->node);
    list_init(&connection->silent_node);
    list_init(&connection->calls);
    list_init(&connection->dead);
    list_init(&connection->waiting);
    list_init(&connection->shut);
    list_init(&connection->turn_node);
    rpc_h2_init(&connection->h2, server->loop, local, &server->flusher, &connection_ops);
    server->handles++;
    rpc_stream_accept(&connection->h2.stream, stream);
    if (connection_refused(server)) {
        server->stats.refused_total++;
        rpc_connection_close(connection);
        return;
    }
    rpc_stream_get_peer(&connection->h2.stream, &connection->peer);
    list_push_back(&server->connections, &connection->node);
    server->connections_count++;
    server->open_count++;
    server->stats.connections++;
    list_push_back(&server->silent, &connection->silent_node);
    if (rpc_stream_is_secure(&connection->h2.stream)) {
        connection->checked_ms = uv_now(server->loop);
        connection->checked_generation = tls_context_generation(server->config.tls);
        rpc_stream_start(&connection->h2.stream);
        return;
    }
    connection_begin(connection);
    if (connection_refused_user(connection)) {
        server->stats.refused_total++;
        rpc_connection_close(connection);
    }
}
