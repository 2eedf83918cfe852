/* HTTP/2 callbacks of a client's connection: frames and headers find their calls.
 *
 * Flow     SETTINGS of the peer make the connection ready; GOAWAY makes it leave; stream_close ends
 *          a call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/client_internal.h"

static struct rpc_client_connection *connection_of(struct rpc_h2 *h2)
{
    return LIST_ITEM(h2, struct rpc_client_connection, h2);
}

static struct rpc_client_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return stream_id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, stream_id);
}

static int callback_result(const struct rpc_client_connection *connection)
{
    return connection->h2.closing ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *data)
{
    struct rpc_client_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    (void)data;
    if (call != NULL && frame->hd.type == NGHTTP2_HEADERS)
        rpc_client_call_header(call, name, name_length, value, length);
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct rpc_client_connection *connection = data;
    bool settled = connection->h2.settled;

    (void)session;
    rpc_h2_frame_received(&connection->h2, frame);
    if (!settled && connection->h2.settled && connection == connection->channel->current)
        rpc_channel_settled(connection->channel);
    if (frame->hd.type == NGHTTP2_GOAWAY)
        rpc_channel_leave(connection->channel, connection);
    return callback_result(connection);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t length, void *data)
{
    struct rpc_client_connection *connection = data;
    struct rpc_client_call *call = call_of(session, stream_id);

    (void)flags;
    if (call != NULL)
        rpc_client_call_receive(call, bytes, length);
    return callback_result(connection);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct rpc_client_call *call;

    (void)data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    call = call_of(session, frame->hd.stream_id);
    if (call != NULL)
        call->sent = true;
    return 0;
}

/* A request that nghttp2 gives up before its stream exists ends here, because no on_stream_close
 * comes for it. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *data)
{
    struct rpc_client_connection *connection = data;
    struct list *node = connection->calls.next;

    (void)session;
    (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    while (node != &connection->calls &&
           LIST_ITEM(node, struct rpc_client_call, node)->stream_id != frame->hd.stream_id)
        node = node->next;
    if (node != &connection->calls) {
        struct rpc_client_call *call = LIST_ITEM(node, struct rpc_client_call, node);

        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
        rpc_client_call_closed(call, NGHTTP2_REFUSED_STREAM);
    }
    return callback_result(connection);
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *data)
{
    struct rpc_client_connection *connection = data;
    struct rpc_client_call *call = call_of(session, stream_id);

    if (call == NULL)
        return callback_result(connection);
    nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    rpc_client_call_closed(call, error_code);
    return callback_result(connection);
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *data)
{
    struct rpc_client_connection *connection = data;

    (void)session;
    (void)frame;
    (void)error;
    rpc_h2_charge(&connection->h2);
    return callback_result(connection);
}

void rpc_client_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
}

void rpc_client_connection_end_calls(struct rpc_client_connection *connection, const char *reason)
{
    while (!list_empty(&connection->calls))
        rpc_client_call_end(LIST_ITEM(connection->calls.next, struct rpc_client_call, node),
                            RPC_UNAVAILABLE, reason);
}

void rpc_client_connection_close(struct rpc_client_connection *connection, const char *reason)
{
    if (connection->h2.closing)
        return;
    rpc_h2_close(&connection->h2);
    rpc_client_connection_end_calls(connection, reason);
}

/* False: the text says who listens there. */
static bool peer_wanted(const struct rpc_client_connection *connection, char text[ERR_TEXT_BYTES])
{
    const struct rpc_channel_config *config = &connection->channel->config;
    struct rpc_peer peer;

    if (!config->check_peer)
        return true;
    rpc_stream_get_peer(&connection->h2.stream, &peer);
    if (peer.local && (peer.uid == config->peer_uid || (config->root_may && peer.uid == 0)))
        return true;
    snprintf(text, ERR_TEXT_BYTES,
             "operation not permitted: what listens there, listens as uid %u, not as uid %u%s",
             (unsigned)peer.uid, (unsigned)config->peer_uid, config->root_may ? " or root" : "");
    return false;
}

static void connection_connected(struct rpc_h2 *h2, const char *failed)
{
    struct rpc_client_connection *connection = connection_of(h2);
    struct rpc_channel *channel = connection->channel;
    nghttp2_session *session;
    char text[ERR_TEXT_BYTES];

    if (failed == NULL && !peer_wanted(connection, text))
        failed = text;
    if (failed != NULL) {
        rpc_channel_dialled(channel, connection, failed);
        return;
    }
    CHECK(nghttp2_session_client_new2(&session, channel->callbacks, connection, channel->options) ==
          0);
    rpc_h2_start(h2, session, 0);
}

static void connection_writable(struct rpc_h2 *h2, struct rpc_outbox *outbox)
{
    struct rpc_client_call *call = LIST_ITEM(outbox, struct rpc_client_call, outbox);

    (void)h2;
    if (call->handlers->on_writable != NULL)
        call->handlers->on_writable(call, call->data);
}

static void connection_lost(struct rpc_h2 *h2, const char *reason)
{
    struct rpc_client_connection *connection = connection_of(h2);

    rpc_channel_lost(connection->channel, connection, reason);
}

static void connection_closed(struct rpc_h2 *h2)
{
    struct rpc_client_connection *connection = connection_of(h2);
    struct rpc_channel *channel = connection->channel;

    CHECK(list_empty(&connection->calls));
    list_remove(&connection->node);
    free(connection);
    rpc_channel_handle_closed(channel);
}

static const struct rpc_h2_ops connection_ops = {.connected = connection_connected,
                                                 .writable = connection_writable,
                                                 .lost = connection_lost,
                                                 .closed = connection_closed};

struct rpc_client_connection *rpc_client_connection_new(struct rpc_channel *channel)
{
    struct rpc_client_connection *connection = check_calloc(1, sizeof(*connection));

    connection->channel = channel;
    list_init(&connection->calls);
    rpc_h2_init(&connection->h2, channel->loop, channel->local, &channel->flusher, &connection_ops);
    list_push_back(&channel->connections, &connection->node);
    channel->handles++;
    return connection;
}
