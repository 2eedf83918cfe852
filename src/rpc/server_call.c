/* One call of a server: from its headers to its trailers. See server.h for what handlers may do.
 *
 * Flow     begin (headers) → receive (bytes) → half_closed (end) ; send → pull → trailers. Refusals
 *          of the server itself are answers like a handler's.
 * Shapes   at most one of finish and on_cancel happens; `ended` says so. Freed calls are kept for
 *          reuse.
 * Errors   gRPC statuses; a violation of cardinality is UNIMPLEMENTED (grpc/doc/statuscodes.md).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/server_internal.h"

enum { TRAILERS_MAX = 16, BUF_KEEP_BYTES = 4096, MESSAGE_MAX_BYTES = 1024 };

static void call_deadline(struct rpc_timer *timer);

struct rpc_call *rpc_call_new(struct rpc_connection *connection, int32_t stream_id)
{
    struct rpc_server *server = connection->server;
    struct rpc_call *call;

    if (list_empty(&server->spare_calls)) {
        call = check_calloc(1, sizeof(*call));
    } else {
        struct buf inbox, outbox, metadata, trailers;

        call = LIST_ITEM(server->spare_calls.next, struct rpc_call, node);
        list_remove(&call->node);
        server->spare_calls_count--;
        inbox = call->inbox.bytes, outbox = call->outbox.bytes;
        metadata = call->metadata, trailers = call->trailers;
        memset(call, 0, sizeof(*call));
        call->inbox.bytes = inbox, call->outbox.bytes = outbox;
        call->metadata = metadata, call->trailers = trailers;
    }
    list_init(&call->outbox.node);
    list_init(&call->turn_node);
    rpc_timer_init(&call->deadline, call_deadline);
    call->connection = connection;
    call->stream_id = stream_id;
    call->deadline_ms = call->whole_ms = UINT64_MAX;
    list_push_back(&connection->calls, &call->node);
    connection->calls_count++;
    server->stats.calls_active++;
    server->stats.calls_total++;
    return call;
}

/* Empties a buffer for the next call; a big one is given back. */
static void buf_recycle(struct buf *buf)
{
    if (buf->capacity > BUF_KEEP_BYTES)
        buf_close(buf);
    else
        buf_clear(buf);
}

/* Counts what the inbox holds in the limits of its connection and server. */
static bool call_count_partial(struct rpc_call *call)
{
    struct rpc_connection *connection = call->connection;
    struct rpc_server *server = connection->server;
    size_t now = call->inbox.bytes.length + (call->turn == RPC_TURN_NONE ? 0 : call->message_bytes);

    connection->partial_bytes += now - call->partial_bytes;
    connection->owner->partial_bytes += now - call->partial_bytes;
    server->partial_bytes += now - call->partial_bytes;
    call->partial_bytes = now;
    return connection->partial_bytes <=
               RPC_CONNECTION_PARTIAL_MAX_BYTES + server->config.message_max_bytes &&
           connection->owner->partial_bytes <= RPC_OWNER_PARTIAL_MAX_BYTES &&
           server->partial_bytes <= RPC_SERVER_PARTIAL_MAX_BYTES;
}

/* What is over the limits refuses the next bytes that come, not the call that waits. */
void rpc_call_count_waiting(struct rpc_call *call)
{
    call_count_partial(call);
}

static void call_count_sent(struct rpc_call *call, size_t length)
{
    call->connection->buffered_bytes -= length;
    call->connection->owner->buffered_bytes -= length;
    call->connection->server->stats.bytes_buffered -= length;
    rpc_turns_taken(call->connection);
}

/* Whether it reads what it asked for: single bytes do not count. */
void rpc_connection_took(struct rpc_connection *connection, size_t length)
{
    connection->taken_bytes += length;
    if ((connection->buffered_bytes > 0 || rpc_turns_blocked_by_peer(connection)) &&
        connection->taken_bytes < RPC_STALL_BYTES)
        return;
    connection->taken_ms = uv_now(connection->server->loop);
    connection->taken_bytes = 0;
}

static void call_queue(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    CHECK(!call->ended);
    rpc_outbox_append(&call->outbox, bytes, length);
    rpc_connection_took(call->connection, 0); /* nothing waited: its time begins */
    call->connection->h2.offered_bytes += length + RPC_PREFIX_BYTES;
    call->connection->buffered_bytes += length + RPC_PREFIX_BYTES;
    call->connection->owner->buffered_bytes += length + RPC_PREFIX_BYTES;
    call->connection->server->stats.bytes_buffered += length + RPC_PREFIX_BYTES;
}

static void call_drop_input(struct rpc_call *call)
{
    buf_recycle(&call->inbox.bytes);
    call_count_partial(call);
}

void rpc_call_free(struct rpc_call *call)
{
    struct rpc_connection *connection = call->connection;
    struct rpc_server *server = connection->server;

    CHECK(call->ended);
    rpc_timer_stop(&server->timers, &call->deadline);
    list_remove(&call->node);
    list_remove(&call->outbox.node);
    rpc_turns_end(call);
    call_count_sent(call, rpc_outbox_length(&call->outbox));
    call_drop_input(call);
    CHECK(connection->calls_count > 0 && server->stats.calls_active > 0);
    if (--connection->calls_count == 0 && !server->freeing)
        connection->idle_since_ms = uv_now(server->loop);
    server->stats.calls_active--;
    if (server->spare_calls_count < RPC_SPARE_CALLS_MAX && !server->freeing) {
        buf_recycle(&call->outbox.bytes);
        call->outbox.offset = 0;
        buf_recycle(&call->metadata);
        buf_recycle(&call->trailers);
        list_push_back(&server->spare_calls, &call->node);
        server->spare_calls_count++;
    } else {
        buf_close(&call->inbox.bytes);
        buf_close(&call->outbox.bytes);
        buf_close(&call->metadata);
        buf_close(&call->trailers);
        free(call);
    }
}

/* No callback after this. */
static void call_end(struct rpc_call *call, enum rpc_status status)
{
    CHECK(!call->ended);
    call->ended = true;
    call->status = status;
    call->connection->server->stats.by_status[status]++;
    rpc_turns_end(call);
    call_drop_input(call);
}

static void call_cancel(struct rpc_call *call, enum rpc_status status)
{
    bool tell = call->begun && call->method->handlers.on_cancel != NULL;

    call_end(call, status);
    if (tell)
        call->method->handlers.on_cancel(call, call->method->data);
}

void rpc_call_aborted(struct rpc_call *call)
{
    if (!call->ended)
        call_cancel(call, RPC_CANCELLED);
}

static nghttp2_nv nv_text(const char *name, const char *value, size_t value_length)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = value_length,
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

#define NV_LITERAL(name_text, value_text)                                                          \
    ((nghttp2_nv){.name = (uint8_t *)(uintptr_t)(name_text),                                       \
                  .value = (uint8_t *)(uintptr_t)(value_text),                                     \
                  .namelen = sizeof(name_text) - 1,                                                \
                  .valuelen = sizeof(value_text) - 1,                                              \
                  .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE})

/* grpc-status and what rpc_call_trailer and rpc_call_finish put aside; at most TRAILERS_MAX + 1. */
static size_t call_trailer_nvs(const struct rpc_call *call, nghttp2_nv *nvs)
{
    static const char *const codes[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                        "9", "10", "11", "12", "13", "14", "15", "16"};
    const char *at = (const char *)call->trailers.bytes;
    const char *end = at + call->trailers.length;
    size_t count = 0;

    nvs[count++] = nv_text("grpc-status", codes[call->status], strlen(codes[call->status]));
    while (at < end && count <= TRAILERS_MAX) {
        const char *value = at + strlen(at) + 1;

        nvs[count++] = nv_text(at, value, strlen(value));
        at = value + strlen(value) + 1;
    }
    return count;
}

static ssize_t call_read_data(nghttp2_session *session, int32_t stream_id, uint8_t *bytes,
                              size_t size, uint32_t *data_flags, nghttp2_data_source *source,
                              void *data)
{
    struct rpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

    (void)source;
    (void)data;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return rpc_call_pull(call, bytes, size, data_flags);
}

ssize_t rpc_call_pull(struct rpc_call *call, uint8_t *bytes, size_t size, uint32_t *data_flags)
{
    struct rpc_connection *connection = call->connection;
    nghttp2_nv nvs[TRAILERS_MAX + 1];
    size_t length;
    bool empty = rpc_h2_pull(&connection->h2, &call->outbox, bytes, size, 0, &length);

    call_count_sent(call, length);
    rpc_connection_took(connection, length);
    rpc_turns_reopened(call);
    if (empty && call->ended) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(connection->h2.session, call->stream_id, nvs,
                                   call_trailer_nvs(call, nvs)) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    } else if (length == 0) {
        call->outbox.deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)length;
}

void rpc_call_writable(struct rpc_call *call)
{
    if (!call->ended && call->method->handlers.on_writable != NULL)
        call->method->handlers.on_writable(call, call->method->data);
}

/* Response headers; with an ended call and nothing to send they are the whole response ("trailers
 * only"). */
static void call_respond(struct rpc_call *call)
{
    nghttp2_session *session = call->connection->h2.session;
    nghttp2_data_provider provider = {.read_callback = call_read_data};
    nghttp2_nv nvs[TRAILERS_MAX + 3] = {NV_LITERAL(":status", "200"),
                                        NV_LITERAL("content-type", "application/grpc")};
    bool only = call->ended && rpc_outbox_length(&call->outbox) == 0;
    size_t count = 2;

    call->responding = true;
    if (only)
        count += call_trailer_nvs(call, nvs + count);
    /* an error means that the stream is being closed: on_stream_close comes */
    nghttp2_submit_response(session, call->stream_id, nvs, count, only ? NULL : &provider);
}

static void call_flush(struct rpc_call *call)
{
    struct rpc_h2 *h2 = &call->connection->h2;

    if (h2->closing)
        return;
    if (!call->responding)
        call_respond(call);
    rpc_h2_resume(h2, &call->outbox, call->stream_id);
}

/* Cut, because clients limit the size of trailers (8 KiB is common). */
static void call_put_message(struct rpc_call *call, const char *message)
{
    static const char name[] = "grpc-message";
    char cut[MESSAGE_MAX_BYTES + 1];

    if (message == NULL || message[0] == '\0')
        return;
    snprintf(cut, sizeof(cut), "%s", message);
    buf_append(&call->trailers, name, sizeof(name));
    rpc_percent_encode(&call->trailers, cut);
    buf_append(&call->trailers, "", 1);
}

/* Ends the call from our side; what is buffered goes out first. */
static void call_answer(struct rpc_call *call, enum rpc_status status, const char *message)
{
    call_put_message(call, message);
    call_end(call, status);
    call_flush(call);
}

/* The server itself refuses; the handler that knows the call is told by on_cancel. */
static void call_refuse(struct rpc_call *call, enum rpc_status status, const char *message)
{
    call_put_message(call, message);
    call_cancel(call, status);
    call_flush(call);
}

static void call_refuse_large(struct rpc_call *call, size_t max)
{
    char text[96];

    snprintf(text, sizeof(text), "a message is larger than the %zu bytes taken here; split it",
             max);
    call_refuse(call, RPC_RESOURCE_EXHAUSTED, text);
}

/* What its inbox holds was too much for one of three; each is told. */
static void call_refuse_partial(struct rpc_call *call)
{
    const struct rpc_connection *connection = call->connection;
    char text[MESSAGE_MAX_BYTES];

    snprintf(text, sizeof(text),
             "incomplete and waiting requests: %zu bytes of this connection, %zu of all of %s, %zu "
             "of all "
             "peers; the limits are %zu, %d and %d",
             connection->partial_bytes, connection->owner->partial_bytes, connection->owner->name,
             connection->server->partial_bytes,
             RPC_CONNECTION_PARTIAL_MAX_BYTES + connection->server->config.message_max_bytes,
             RPC_OWNER_PARTIAL_MAX_BYTES, RPC_SERVER_PARTIAL_MAX_BYTES);
    call_refuse(call, RPC_RESOURCE_EXHAUSTED, text);
}

/* A body that never ends would hold its call for ever. */
static void call_refuse_unfinished(struct rpc_call *call)
{
    char text[MESSAGE_MAX_BYTES];

    snprintf(text, sizeof(text),
             "the request was not whole within %" PRIu64 " ms: send its messages and end the "
             "stream, as every gRPC library does for one call",
             call->connection->server->config.request_ms);
    call_refuse(call, RPC_DEADLINE_EXCEEDED, text);
}

/* The timer is that of the earlier end. */
static void call_time(struct rpc_call *call)
{
    struct rpc_timers *timers = &call->connection->server->timers;
    uint64_t end_ms = call->whole_ms < call->deadline_ms ? call->whole_ms : call->deadline_ms;

    if (end_ms == UINT64_MAX)
        rpc_timer_stop(timers, &call->deadline);
    else
        rpc_timer_start(timers, &call->deadline, end_ms);
}

/* The loop was away when the time was over, and the rest of the request may have come meanwhile: it
 * is read first. */
static bool call_stood_still(struct rpc_call *call)
{
    const uint64_t now_ms = uv_now(call->connection->server->loop);

    if (now_ms - call->whole_ms < RPC_REQUEST_LATE_MS)
        return false;
    call->whole_ms = now_ms + RPC_REQUEST_LATE_MS / 2;
    return true;
}

static void call_deadline(struct rpc_timer *timer)
{
    struct rpc_call *call = LIST_ITEM(timer, struct rpc_call, deadline);
    struct rpc_h2 *h2 = &call->connection->h2;

    if (call->whole_ms < call->deadline_ms && call_stood_still(call)) {
        call_time(call);
        return;
    }
    if (call->whole_ms < call->deadline_ms) {
        call->deadline_ms = call->whole_ms;
        call->whole_ms = UINT64_MAX;
        if (!call->ended) {
            call_refuse_unfinished(call);
            return;
        }
    }
    if (!call->ended) {
        call_refuse(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
        return;
    }
    if (!call->overdue) {
        call->overdue = true;
        rpc_timer_start(&call->connection->server->timers, timer,
                        call->deadline_ms + RPC_OVERDUE_MS);
        return;
    }
    /* answered, but the peer neither takes it nor gives the call up */
    nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
    rpc_h2_touch(h2);
}

/* Not gRPC at all: plain HTTP answers. */
static void call_refuse_http(struct rpc_call *call, const char *status)
{
    const nghttp2_nv nv = {.name = (uint8_t *)(uintptr_t) ":status",
                           .value = (uint8_t *)(uintptr_t)status,
                           .namelen = 7,
                           .valuelen = 3};

    call->responding = true;
    call_end(call, RPC_UNKNOWN);
    nghttp2_submit_response(call->connection->h2.session, call->stream_id, &nv, 1, NULL);
}

/* False: nobody could keep the answer; the text says why. Others that fill the server do not shut
 * it to an owner who holds next to nothing; what is large waits for its turn, and for room. */
static bool call_has_room(struct rpc_call *call, char *text, size_t size)
{
    const struct rpc_connection *connection = call->connection;

    if (connection->buffered_bytes <= RPC_CONNECTION_BUFFERED_MAX_BYTES)
        return rpc_server_relieve(connection->server, connection, text, size) ||
               connection->owner->buffered_bytes <= RPC_RESERVED_BYTES;
    snprintf(text, size, "%zu bytes of answers wait to be read on this connection, the limit is %d",
             connection->buffered_bytes, RPC_CONNECTION_BUFFERED_MAX_BYTES);
    return false;
}

static bool call_allowed(struct rpc_call *call, char *text, size_t size)
{
    const struct rpc_server_config *config = &call->connection->server->config;

    return config->allowed == NULL ||
           config->allowed(config->data, &call->connection->peer, call->method->path, text, size);
}

/* Nothing more has to come for the handler to begin. */
static void call_is_whole(struct rpc_call *call)
{
    if (call->whole_ms == UINT64_MAX)
        return;
    call->whole_ms = UINT64_MAX;
    call_time(call);
}

void rpc_call_begin(struct rpc_call *call)
{
    struct rpc_server *server = call->connection->server;
    char text[MESSAGE_MAX_BYTES];

    if (call->headers_large) {
        call_answer(call, RPC_RESOURCE_EXHAUSTED, "request headers are larger than 16384 bytes");
    } else if (!call->post) {
        call_refuse_http(call, "405");
    } else if (!call->grpc) {
        call_refuse_http(call, "415");
    } else if (!call_has_room(call, text, sizeof(text))) {
        rpc_call_trailer(call, "grpc-retry-pushback-ms", "100");
        call_answer(call, RPC_RESOURCE_EXHAUSTED, text);
    } else if (call->method == NULL) {
        call_answer(call, RPC_UNIMPLEMENTED, "unknown method");
    } else if (!call_allowed(call, text, sizeof(text))) {
        call_answer(call, RPC_PERMISSION_DENIED, text);
    } else if (call->timeout_bad) {
        call_answer(call, RPC_INVALID_ARGUMENT,
                    "grpc-timeout is not 1 to 8 digits and one of HMSmun");
    } else {
        call->begun = true;
        call->whole_ms = uv_now(server->loop) + server->config.request_ms;
        call_time(call);
        if (call->method->handlers.on_request != NULL)
            call->method->handlers.on_request(call, call->method->data);
    }
}

static bool call_message(void *data, const uint8_t *bytes, size_t length)
{
    struct rpc_call *call = data;

    call_is_whole(call);
    if (call->method->handlers.on_message != NULL)
        call->method->handlers.on_message(call, call->method->data, bytes, length);
    return !call->ended;
}

/* A unary request is kept until the client has half-closed, because only then it is certain to be
 * the only one. */
static enum rpc_inbox_result call_keep(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    struct buf *kept = &call->inbox.bytes;
    size_t max = call->connection->server->config.message_max_bytes;

    if (length > max + RPC_PREFIX_BYTES - kept->length)
        length = max + RPC_PREFIX_BYTES - kept->length + 1; /* one too many: refused at the end */
    buf_append(kept, bytes, length);
    if (kept->length < RPC_PREFIX_BYTES)
        return RPC_INBOX_OK;
    if (kept->bytes[0] != 0)
        return RPC_INBOX_COMPRESSED;
    if (rpc_prefix_length(kept->bytes) > max)
        return RPC_INBOX_TOO_LARGE;
    return kept->length > RPC_PREFIX_BYTES + (size_t)rpc_prefix_length(kept->bytes)
               ? RPC_INBOX_STOPPED
               : RPC_INBOX_OK;
}

void rpc_call_receive(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    enum rpc_inbox_result result;
    size_t max = call->connection->server->config.message_max_bytes;

    if (call->ended)
        return;
    if (call->method->client_streaming)
        result = rpc_inbox_feed(&call->inbox, bytes, length, max, call_message, call);
    else
        result = call_keep(call, bytes, length);
    if (call->ended) {
        call_drop_input(call);
        return;
    }
    switch (result) {
    case RPC_INBOX_OK:
        if (!call_count_partial(call))
            call_refuse_partial(call);
        break;
    case RPC_INBOX_STOPPED:
        call_refuse(call, RPC_UNIMPLEMENTED, "more than one message for a unary method");
        break;
    case RPC_INBOX_COMPRESSED:
        call_refuse(call, RPC_UNIMPLEMENTED, "compressed messages are not supported");
        break;
    case RPC_INBOX_TOO_LARGE:
        call_refuse_large(call, max);
        break;
    }
}

static void call_dispatch_unary(struct rpc_call *call)
{
    const struct buf *kept = &call->inbox.bytes;

    if (kept->length == 0) {
        call_refuse(call, RPC_UNIMPLEMENTED, "no message for a unary method");
        return;
    }
    if (kept->length < RPC_PREFIX_BYTES ||
        kept->length != RPC_PREFIX_BYTES + (size_t)rpc_prefix_length(kept->bytes)) {
        call_refuse(call, RPC_INVALID_ARGUMENT, "message ends early");
        return;
    }
    /* the inbox may be emptied by a finish inside the handler, but its bytes stay until the
     * callback returns */
    struct buf message = *kept;
    buf_init(&call->inbox.bytes);
    call_count_partial(call);
    call->message_bytes = message.length;
    call_message(call, message.bytes + RPC_PREFIX_BYTES, message.length - RPC_PREFIX_BYTES);
    if (call->inbox.bytes.bytes == NULL) {
        call->inbox.bytes = message;
        buf_recycle(&call->inbox.bytes);
    } else {
        buf_close(&message);
    }
}

void rpc_call_half_closed(struct rpc_call *call)
{
    call->half_closed = true;
    if (call->ended)
        return;
    call_is_whole(call);
    if (!call->method->client_streaming)
        call_dispatch_unary(call);
    else if (call->inbox.bytes.length > 0)
        call_refuse(call, RPC_INVALID_ARGUMENT, "message ends early");
    if (!call->ended && call->method->handlers.on_half_close != NULL)
        call->method->handlers.on_half_close(call, call->method->data);
}

/* ---- what handlers call ---- */

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
    const char *at = (const char *)call->metadata.bytes;
    const char *end = at + call->metadata.length;

    while (at < end) {
        const char *value = at + strlen(at) + 1;

        if (strcmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

size_t rpc_call_buffered(const struct rpc_call *call)
{
    return rpc_outbox_length(&call->outbox);
}

bool rpc_call_send(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    call_queue(call, bytes, length);
    call_flush(call);
    return rpc_turns_go_on(call);
}

void rpc_call_trailer(struct rpc_call *call, const char *name, const char *value)
{
    size_t start;

    CHECK(!call->ended);
    call->trailers_count++;
    CHECK(call->trailers_count < TRAILERS_MAX); /* one is left for the message */
    buf_append(&call->trailers, name, strlen(name) + 1);
    start = call->trailers.length;
    buf_append(&call->trailers, value, strlen(value) + 1);
    for (size_t i = start; i + 1 < call->trailers.length; i++)
        if (call->trailers.bytes[i] < 0x20 || call->trailers.bytes[i] > 0x7e)
            call->trailers.bytes[i] = '?'; /* HTTP has no place for it */
}

void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *message)
{
    CHECK(status >= RPC_OK && status <= RPC_UNAUTHENTICATED);
    call_answer(call, status, message);
}

void rpc_call_reply(struct rpc_call *call, const uint8_t *bytes, size_t length)
{
    call_queue(call, bytes, length);
    call_answer(call, RPC_OK, NULL);
}
