/* One call of a client: request headers, messages both ways, and exactly one end. See client.h.
 *
 * Flow     start → submit when connected → header, receive → closed → on_end.
 * Errors   what comes without a grpc-status is mapped as gRPC prescribes (HTTP status, reset code).
 * Source   grpc/doc/http-grpc-status-mapping.md; the table of reset codes in PROTOCOL-HTTP2.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/client_internal.h"

enum { WRITE_BUFFER_BYTES = 64 << 10, HEADER_TEXT_MAX_BYTES = 8192 };

static void call_deadline(struct rpc_timer *timer)
{
    rpc_client_call_end(LIST_ITEM(timer, struct rpc_client_call, deadline), RPC_DEADLINE_EXCEEDED,
                        "deadline exceeded");
}

static struct rpc_client_call *call_new(struct rpc_channel *channel, const char *path,
                                        uint64_t timeout_ms, bool wait_for_ready,
                                        const struct rpc_client_handlers *handlers, void *data)
{
    size_t path_bytes = strlen(path) + 1;
    struct rpc_client_call *call = check_calloc(1, sizeof(*call) + path_bytes);

    CHECK(!channel->freeing);
    CHECK(path[0] == '/');
    memcpy(call->path, path, path_bytes);
    call->channel = channel;
    call->handlers = handlers;
    call->data = data;
    call->wait_for_ready = wait_for_ready;
    call->grpc_status = -1;
    list_init(&call->node);
    rpc_outbox_init(&call->outbox);
    buf_init(&call->metadata);
    rpc_timer_init(&call->deadline, call_deadline);
    call->deadline_ms = UINT64_MAX;
    if (timeout_ms > 0) {
        call->deadline_ms = uv_now(channel->loop) + timeout_ms;
        rpc_timer_start(&channel->timers, &call->deadline, call->deadline_ms);
    }
    channel->calls_count++;
    return call;
}

struct rpc_client_call *rpc_channel_open(struct rpc_channel *channel, const char *path,
                                         uint64_t timeout_ms, bool wait_for_ready,
                                         const struct rpc_client_handlers *handlers, void *data)
{
    struct rpc_client_call *call =
        call_new(channel, path, timeout_ms, wait_for_ready, handlers, data);

    rpc_channel_start_call(channel, call);
    return call;
}

struct rpc_client_call *rpc_channel_unary(struct rpc_channel *channel,
                                          const struct rpc_request *request,
                                          const struct rpc_client_handlers *handlers, void *data)
{
    struct rpc_client_call *call = call_new(channel, request->path, request->timeout_ms,
                                            request->wait_for_ready, handlers, data);

    CHECK(request->metadata_count <= RPC_METADATA_MAX);
    for (size_t i = 0; i < request->metadata_count; i++) {
        buf_append(&call->metadata, request->metadata[i].name,
                   strlen(request->metadata[i].name) + 1);
        buf_append(&call->metadata, request->metadata[i].value,
                   strlen(request->metadata[i].value) + 1);
    }
    rpc_outbox_append(&call->outbox, request->bytes, request->length);
    call->half_closed = true;
    rpc_channel_start_call(channel, call);
    return call;
}

static ssize_t call_pull(nghttp2_session *session, int32_t stream_id, uint8_t *bytes, size_t size,
                         uint32_t *data_flags, nghttp2_data_source *source, void *data)
{
    struct rpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    size_t length;

    (void)source;
    (void)data;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (rpc_h2_pull(&call->connection->h2, &call->outbox, bytes, size, WRITE_BUFFER_BYTES / 2,
                    &length) &&
        call->half_closed) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (length == 0) {
        call->outbox.deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)length;
}

#define NV(name_text, value_text, value_length)                                                    \
    ((nghttp2_nv){.name = (uint8_t *)(uintptr_t)(name_text),                                       \
                  .value = (uint8_t *)(uintptr_t)(value_text),                                     \
                  .namelen = sizeof(name_text) - 1,                                                \
                  .valuelen = (value_length),                                                      \
                  .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME})

/* Returns how many there are. */
static size_t call_metadata(const struct rpc_client_call *call, nghttp2_nv nvs[RPC_METADATA_MAX])
{
    const char *at = (const char *)call->metadata.bytes;
    const char *end = at + call->metadata.length;
    size_t count = 0;

    for (; at < end; count++) {
        const char *value = at + strlen(at) + 1;

        CHECK(count < RPC_METADATA_MAX);
        nvs[count] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)at,
                                  .value = (uint8_t *)(uintptr_t)value,
                                  .namelen = strlen(at),
                                  .valuelen = strlen(value)};
        at = value + strlen(value) + 1;
    }
    return count;
}

bool rpc_client_call_submit(struct rpc_client_call *call, struct rpc_client_connection *connection)
{
    struct rpc_channel *channel = call->channel;
    const nghttp2_data_provider provider = {.read_callback = call_pull};
    const char *authority = channel->local ? "localhost" : channel->text;
    uint64_t now_ms = uv_now(channel->loop);
    char timeout[RPC_TIMEOUT_TEXT_BYTES];
    nghttp2_nv nvs[8 + RPC_METADATA_MAX] = {NV(":method", "POST", 4),
                                            NV(":scheme", "http", 4),
                                            NV(":path", call->path, strlen(call->path)),
                                            NV(":authority", authority, strlen(authority)),
                                            NV("te", "trailers", 8),
                                            NV("content-type", "application/grpc", 16),
                                            NV("user-agent", "ckpt-c", 6)};
    size_t count = 7;

    if (call->deadline_ms != UINT64_MAX) {
        rpc_timeout_format(call->deadline_ms > now_ms ? call->deadline_ms - now_ms : 1, timeout);
        nvs[count++] = NV("grpc-timeout", timeout, strlen(timeout));
    }
    count += call_metadata(call, nvs + count);
    call->stream_id =
        nghttp2_submit_request(connection->h2.session, NULL, nvs, count, &provider, call);
    if (call->stream_id < 0)
        return false;
    call->connection = connection;
    list_remove(&call->node);
    list_push_back(&connection->calls, &call->node);
    rpc_h2_touch(&connection->h2);
    return true;
}

static void call_free(struct rpc_client_call *call)
{
    buf_close(&call->inbox.bytes);
    rpc_outbox_close(&call->outbox);
    buf_close(&call->metadata);
    buf_close(&call->message);
    buf_close(&call->redirect);
    free(call);
}

/* Out of every list and out of nghttp2's hands; the stream is reset when it is still open. */
static void call_detach(struct rpc_client_call *call)
{
    struct rpc_client_connection *connection = call->connection;

    CHECK(!call->ended);
    call->ended = true;
    list_remove(&call->node);
    list_remove(&call->outbox.node);
    rpc_timer_stop(&call->channel->timers, &call->deadline);
    CHECK(call->channel->calls_count > 0);
    call->channel->calls_count--;
    if (connection == NULL || connection->h2.closing || call->stream_id == 0)
        return;
    nghttp2_session_set_stream_user_data(connection->h2.session, call->stream_id, NULL);
    nghttp2_submit_rst_stream(connection->h2.session, NGHTTP2_FLAG_NONE, call->stream_id,
                              NGHTTP2_CANCEL);
    rpc_h2_touch(&connection->h2);
}

void rpc_client_call_end(struct rpc_client_call *call, int status, const char *message)
{
    const struct rpc_end end = {.status = status,
                                .message = message,
                                .sent = call->sent,
                                .redirect =
                                    call->redirected ? (const char *)call->redirect.bytes : NULL,
                                .pushback = call->pushback,
                                .pushback_ms = call->pushback_ms,
                                .channel = call->channel};
    bool busy = call->busy;

    call_detach(call);
    if (call->handlers->on_end != NULL)
        call->handlers->on_end(call, call->data, &end);
    if (!busy)
        call_free(call);
}

static bool name_is(const uint8_t *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

/* -1: not a small decimal number. */
static int number_parse(const uint8_t *text, size_t length, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (length == 0 || length > 9)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_number = number;
    return 0;
}

void rpc_client_call_header(struct rpc_client_call *call, const uint8_t *name, size_t name_length,
                            const uint8_t *value, size_t length)
{
    uint64_t number = 0;

    if (length > HEADER_TEXT_MAX_BYTES)
        return;
    if (name_is(name, name_length, ":status")) {
        call->http_status = number_parse(value, length, &number) == 0 ? (int)number : 0;
    } else if (name_is(name, name_length, "grpc-status")) {
        call->grpc_status =
            number_parse(value, length, &number) == 0 && number <= RPC_UNAUTHENTICATED
                ? (int)number
                : RPC_UNKNOWN;
    } else if (name_is(name, name_length, "grpc-message")) {
        buf_clear(&call->message);
        rpc_percent_decode(&call->message, (const char *)value, length);
    } else if (name_is(name, name_length, "ckpt-leader-hint")) {
        call->redirected = true;
        buf_clear(&call->redirect);
        buf_append(&call->redirect, value, length);
        buf_append(&call->redirect, "", 1);
    } else if (name_is(name, name_length, "grpc-retry-pushback-ms")) {
        call->pushback = number_parse(value, length, &call->pushback_ms) == 0;
    }
}

static bool call_message(void *data, const uint8_t *bytes, size_t length)
{
    struct rpc_client_call *call = data;

    if (call->handlers->on_message != NULL)
        call->handlers->on_message(call, call->data, bytes, length);
    return !call->ended;
}

static void call_end_large(struct rpc_client_call *call)
{
    char text[96];

    snprintf(text, sizeof(text),
             "an answer is larger than the %zu bytes taken here; ask for a smaller page",
             call->channel->config.message_max_bytes);
    rpc_client_call_end(call, RPC_RESOURCE_EXHAUSTED, text);
}

void rpc_client_call_receive(struct rpc_client_call *call, const uint8_t *bytes, size_t length)
{
    enum rpc_inbox_result result;

    call->busy = true;
    result = rpc_inbox_feed(&call->inbox, bytes, length, call->channel->config.message_max_bytes,
                            call_message, call);
    call->busy = false;
    if (call->ended)
        call_free(call);
    else if (result == RPC_INBOX_TOO_LARGE)
        call_end_large(call);
    else if (result == RPC_INBOX_COMPRESSED)
        rpc_client_call_end(call, RPC_INTERNAL, "answer is compressed");
}

/* Of an answer that no gRPC server made: a proxy's, or another service's. */
static int status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return RPC_INTERNAL;
    case 401:
        return RPC_UNAUTHENTICATED;
    case 403:
        return RPC_PERMISSION_DENIED;
    case 404:
        return RPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return RPC_UNAVAILABLE;
    default:
        return RPC_UNKNOWN;
    }
}

/* As gRPC over HTTP/2 maps codes of a stream that was reset without trailers. */
static int status_of_reset(uint32_t error_code)
{
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return RPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return RPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return RPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return RPC_PERMISSION_DENIED;
    default:
        return RPC_INTERNAL;
    }
}

/* The stream is over, so nothing is to be reset. */
void rpc_client_call_closed(struct rpc_client_call *call, uint32_t error_code)
{
    struct buf message = call->message; /* outlives the end */
    int status;

    buf_init(&call->message);
    call->stream_id = 0;
    if (error_code == NGHTTP2_REFUSED_STREAM)
        call->sent = false; /* the peer vouches that it did nothing */
    if (call->grpc_status >= 0) {
        status = call->grpc_status;
        if (status == RPC_OK && call->inbox.bytes.length > 0)
            status = RPC_INTERNAL;
        buf_append(&message, "", 1);
    } else if (error_code == NGHTTP2_NO_ERROR || call->http_status != 0) {
        status = call->http_status != 0 && call->http_status != 200
                     ? status_of_http(call->http_status)
                     : status_of_reset(error_code);
        buf_clear(&message);
        buf_printf(&message, "answer without grpc-status (HTTP %d, %s)", call->http_status,
                   nghttp2_http2_strerror(error_code));
    } else {
        status = status_of_reset(error_code);
        buf_clear(&message);
        buf_printf(&message, "stream was reset: %s", nghttp2_http2_strerror(error_code));
    }
    rpc_client_call_end(call, status, (const char *)message.bytes);
    buf_close(&message);
}

bool rpc_client_call_send(struct rpc_client_call *call, const uint8_t *bytes, size_t length)
{
    CHECK(!call->ended && !call->half_closed);
    rpc_outbox_append(&call->outbox, bytes, length);
    if (call->connection != NULL)
        rpc_h2_resume(&call->connection->h2, &call->outbox, call->stream_id);
    if (rpc_outbox_length(&call->outbox) <= WRITE_BUFFER_BYTES)
        return true;
    call->outbox.want_writable = true;
    return false;
}

void rpc_client_call_half_close(struct rpc_client_call *call)
{
    CHECK(!call->ended);
    call->half_closed = true;
    if (call->connection != NULL)
        rpc_h2_resume(&call->connection->h2, &call->outbox, call->stream_id);
}

void rpc_client_call_cancel(struct rpc_client_call *call)
{
    bool busy = call->busy;

    call_detach(call);
    if (!busy)
        call_free(call);
}
