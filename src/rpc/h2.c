/* The part of an HTTP/2 connection that server and client share. See h2.h. */
#include "src/rpc/h2.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/wire.h"

enum {
    FRAME_MAX_BYTES = 16384 + 64, /* payload, header, padding length */
    OUTBOX_KEEP_BYTES = 4096,     /* a buffer up to this size is kept for the next message */
    OUTBOX_MOVE_BYTES = 65536     /* sent bytes at the front are dropped when they are so many */
};
_Static_assert(RPC_H2_BATCH_BYTES >= 2 * FRAME_MAX_BYTES, "a batch holds whole frames");

void rpc_outbox_init(struct rpc_outbox *outbox)
{
    *outbox = (struct rpc_outbox){.offset = 0};
    list_init(&outbox->node);
}

void rpc_outbox_close(struct rpc_outbox *outbox)
{
    list_remove(&outbox->node);
    buf_close(&outbox->bytes);
    outbox->offset = 0;
}

void rpc_outbox_append(struct rpc_outbox *outbox, const uint8_t *message, size_t length)
{
    if (outbox->offset > OUTBOX_MOVE_BYTES) {
        buf_consume(&outbox->bytes, outbox->offset);
        outbox->offset = 0;
    }
    rpc_prefix_write(buf_extend(&outbox->bytes, RPC_PREFIX_BYTES), length);
    buf_append(&outbox->bytes, message, length);
}

bool rpc_h2_pull(struct rpc_h2 *h2, struct rpc_outbox *outbox, uint8_t *bytes, size_t size,
                 size_t resume_below_bytes, size_t *ret_length)
{
    size_t length = rpc_outbox_length(outbox);

    if (length > size)
        length = size;
    if (length > 0)
        memcpy(bytes, outbox->bytes.bytes + outbox->offset, length);
    outbox->offset += length;
    *ret_length = length;
    rpc_police_sent(&h2->police);
    if (rpc_outbox_length(outbox) == 0) {
        outbox->offset = 0;
        if (outbox->bytes.capacity > OUTBOX_KEEP_BYTES)
            buf_close(&outbox->bytes);
        else
            buf_clear(&outbox->bytes);
    }
    if (outbox->want_writable && rpc_outbox_length(outbox) <= resume_below_bytes) {
        outbox->want_writable = false;
        list_push_back(&h2->writable, &outbox->node);
    }
    return rpc_outbox_length(outbox) == 0;
}

void rpc_h2_resume(struct rpc_h2 *h2, struct rpc_outbox *outbox, int32_t stream_id)
{
    if (outbox->deferred) {
        outbox->deferred = false;
        nghttp2_session_resume_data(h2->session, stream_id);
    }
    rpc_h2_touch(h2);
}

/* Each connection is pumped once per round: one that is dirty again at once waits for the next, and
 * so do all when time is over. */
static void flusher_run(uv_idle_t *idle)
{
    struct rpc_flusher *flusher = idle->data;
    uint64_t begin_ns;

    rpc_reader_run(&flusher->reader);
    begin_ns = uv_hrtime();
    flusher->round++;
    while (!list_empty(&flusher->dirty) &&
           uv_hrtime() - begin_ns < RPC_H2_PUMP_ROUND_US * UINT64_C(1000)) {
        struct rpc_h2 *h2 = LIST_ITEM(flusher->dirty.next, struct rpc_h2, dirty_node);

        if (h2->pump_round == flusher->round)
            break; /* everyone had a turn */
        h2->pump_round = flusher->round;
        rpc_h2_pump(h2);
    }
    if (!rpc_reader_has_work(&flusher->reader) && list_empty(&flusher->dirty))
        uv_idle_stop(idle);
}

static void flusher_wake(void *data)
{
    struct rpc_flusher *flusher = data;

    uv_idle_start(&flusher->idle, flusher_run);
}

void rpc_flusher_init(struct rpc_flusher *flusher, uv_loop_t *loop)
{
    CHECK(uv_idle_init(loop, &flusher->idle) == 0);
    flusher->idle.data = flusher;
    list_init(&flusher->dirty);
    rpc_reader_init(&flusher->reader, loop, flusher_wake, flusher);
    flusher->batch = check_alloc(RPC_H2_BATCH_BYTES);
}

static void flusher_closed(uv_handle_t *handle)
{
    struct rpc_flusher *flusher = handle->data;

    rpc_reader_close(&flusher->reader);
    free(flusher->batch);
    flusher->closed(flusher->closed_data);
}

void rpc_flusher_close(struct rpc_flusher *flusher, void (*closed)(void *data), void *data)
{
    flusher->closed = closed;
    flusher->closed_data = data;
    uv_close((uv_handle_t *)&flusher->idle, flusher_closed);
}

nghttp2_option *rpc_h2_options(void)
{
    nghttp2_option *option;

    CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_continuations(option, RPC_H2_CONTINUATIONS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, RPC_H2_RESET_BURST,
                                               RPC_H2_RESETS_PER_SECOND);
    nghttp2_option_set_max_settings(option, 32);
    nghttp2_option_set_max_outbound_ack(option, RPC_POLICE_CONTROL_BURST + 100);
    return option;
}

static void h2_fail(struct rpc_h2 *h2, const char *reason)
{
    if (h2->closing)
        return;
    rpc_h2_close(h2);
    h2->ops->lost(h2, reason);
}

/* A session that neither reads nor writes has ended: GOAWAY was sent, or the last stream of a drain
 * is over. */
static void h2_end_if_done(struct rpc_h2 *h2)
{
    if (!h2->closing && !nghttp2_session_want_read(h2->session) &&
        !nghttp2_session_want_write(h2->session) && rpc_stream_pending(&h2->stream) == 0)
        h2_fail(h2, "connection ended");
}

/* Collects and writes one batch. Returns its length, 0 when there is nothing to send, -1 when the
 * connection is lost. */
static ssize_t h2_send_batch(struct rpc_h2 *h2)
{
    uint8_t *batch = h2->flusher->batch;
    size_t used = 0;

    while (used + FRAME_MAX_BYTES <= RPC_H2_BATCH_BYTES) {
        const uint8_t *bytes;
        ssize_t length = nghttp2_session_mem_send(h2->session, &bytes);

        if (h2->closing)
            return -1;
        if (length < 0) {
            h2_fail(h2, nghttp2_strerror((int)length));
            return -1;
        }
        if (length == 0)
            break;
        CHECK((size_t)length <= RPC_H2_BATCH_BYTES - used);
        memcpy(batch + used, bytes, (size_t)length);
        used += (size_t)length;
    }
    if (used == 0)
        return 0;
    if (!rpc_stream_write(&h2->stream, batch, used)) {
        h2_fail(h2, "connection is closed");
        return -1;
    }
    return (ssize_t)used;
}

/* on_writable of the calls whose outboxes have room again; they may send more. */
static void h2_tell_writable(struct rpc_h2 *h2)
{
    while (!h2->closing && !list_empty(&h2->writable)) {
        struct rpc_outbox *outbox = LIST_ITEM(h2->writable.next, struct rpc_outbox, node);

        list_remove(&outbox->node);
        h2->ops->writable(h2, outbox);
    }
}

void rpc_h2_pump(struct rpc_h2 *h2)
{
    size_t total = 0;
    ssize_t sent = 1;

    list_remove(&h2->dirty_node);
    if (h2->closing || h2->session == NULL)
        return;
    h2->busy = true;
    while (sent > 0 && total < RPC_H2_PUMP_BYTES &&
           rpc_stream_pending(&h2->stream) < RPC_H2_BATCH_BYTES) {
        sent = h2_send_batch(h2);
        total += sent > 0 ? (size_t)sent : 0;
        if (sent >= 0)
            h2_tell_writable(h2);
    }
    h2->busy = false;
    if (h2->closing)
        return;
    if (nghttp2_session_get_outbound_queue_size(h2->session) > RPC_H2_CONTROL_QUEUE_MAX) {
        h2_fail(h2, "peer does not read");
        return;
    }
    if (total >= RPC_H2_PUMP_BYTES)
        rpc_h2_touch(h2);
    h2_end_if_done(h2);
    if (h2->closing || sent != 0)
        return;
    h2->offered_bytes = 0;
    if (h2->ops->sent != NULL)
        h2->ops->sent(h2);
}

void rpc_h2_touch(struct rpc_h2 *h2)
{
    if (h2->busy || h2->closing || !list_empty(&h2->dirty_node))
        return;
    list_push_back(&h2->flusher->dirty, &h2->dirty_node);
    flusher_wake(h2->flusher);
}

static struct rpc_h2 *h2_of(struct rpc_stream *stream)
{
    return LIST_ITEM(stream, struct rpc_h2, stream);
}

const char rpc_h2_speaks_tls[] = "peer begins a TLS handshake, but this port has no TLS";

/* Plain text and TLS have met when a first byte is that of a TLS record. */
static bool h2_met_tls(struct rpc_h2 *h2, const uint8_t *bytes, size_t length)
{
    enum { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_VERSION = 3 };

    if (h2->settled || h2->met || rpc_stream_is_secure(&h2->stream) || length < 2)
        return false;
    h2->met = true;
    if (bytes[1] != RECORD_VERSION)
        return false;
    if (bytes[0] == RECORD_HANDSHAKE)
        h2_fail(h2, rpc_h2_speaks_tls);
    else if (bytes[0] == RECORD_ALERT)
        h2_fail(h2, "peer wants TLS; give it a CA, a certificate and a key");
    return h2->closing;
}

static void h2_police_look(struct rpc_h2 *h2)
{
    if (!rpc_police_allows(&h2->police))
        rpc_h2_terminate(h2, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void h2_slice(struct rpc_h2 *h2, const uint8_t *bytes, size_t length)
{
    ssize_t taken;

    rpc_police_bytes(&h2->police, h2->read_ms, bytes, length);
    h2_police_look(h2);
    if (h2->closing || h2->terminated_ms != 0)
        return;
    h2->busy = true;
    taken = nghttp2_session_mem_recv(h2->session, bytes, length);
    h2->busy = false;
    if (h2->closing)
        return;
    if (taken < 0 && taken != NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        rpc_h2_terminate(h2, NGHTTP2_PROTOCOL_ERROR);
    else if (taken < 0)
        h2_fail(h2, "peer does not speak HTTP/2");
    else
        rpc_h2_pump(h2);
}

static void h2_bytes(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    struct rpc_h2 *h2 = h2_of(stream);

    h2->read_ms = uv_now(stream->loop);
    if (h2_met_tls(h2, bytes, length))
        return;
    while (length > 0 && !h2->closing && h2->terminated_ms == 0) {
        size_t slice = length < RPC_H2_SLICE_BYTES ? length : RPC_H2_SLICE_BYTES;

        h2_slice(h2, bytes, slice);
        bytes += slice;
        length -= slice;
    }
}

static void h2_connected(struct rpc_stream *stream, const char *failed)
{
    struct rpc_h2 *h2 = h2_of(stream);

    h2->ops->connected(h2, failed);
}

static void h2_drained(struct rpc_stream *stream)
{
    rpc_h2_touch(h2_of(stream));
}

static void h2_lost(struct rpc_stream *stream, const char *reason)
{
    h2_fail(h2_of(stream), reason);
}

static void h2_closed(struct rpc_stream *stream)
{
    struct rpc_h2 *h2 = h2_of(stream);

    nghttp2_session_del(h2->session);
    h2->session = NULL;
    h2->ops->closed(h2);
}

static const struct rpc_stream_handlers h2_stream_handlers = {.on_connected = h2_connected,
                                                              .on_bytes = h2_bytes,
                                                              .on_drained = h2_drained,
                                                              .on_lost = h2_lost,
                                                              .on_closed = h2_closed};

void rpc_h2_init(struct rpc_h2 *h2, uv_loop_t *loop, bool local, struct rpc_flusher *flusher,
                 const struct rpc_h2_ops *ops)
{
    *h2 = (struct rpc_h2){.ops = ops, .flusher = flusher};
    list_init(&h2->dirty_node);
    list_init(&h2->writable);
    h2->read_ms = uv_now(loop);
    h2->opened_ms = h2->read_ms;
    rpc_police_init(&h2->police, h2->read_ms);
    rpc_stream_init(&h2->stream, loop, local, &flusher->reader, &h2_stream_handlers);
}

void rpc_h2_start(struct rpc_h2 *h2, nghttp2_session *session, uint32_t streams_max)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, RPC_H2_STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RPC_H2_HEADER_LIST_BYTES},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    /* a server has nothing to say about push */
    size_t count = ARRAY_COUNT(settings) - (streams_max > 0 ? 1 : 0);

    CHECK(h2->session == NULL);
    h2->session = session;
    if (streams_max > 0)
        rpc_police_expect_magic(&h2->police, NGHTTP2_CLIENT_MAGIC_LEN);
    CHECK(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, count) == 0);
    CHECK(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                                RPC_H2_CONNECTION_WINDOW_BYTES) == 0);
    h2->read_ms = uv_now(h2->stream.loop);
    h2->opened_ms = h2->read_ms; /* TLS may have waited for its turn */
    rpc_h2_touch(h2);
    rpc_stream_start(&h2->stream);
}

void rpc_h2_terminate(struct rpc_h2 *h2, uint32_t error_code)
{
    if (h2->closing || h2->terminated_ms != 0)
        return;
    h2->terminated_ms = uv_now(h2->stream.loop);
    nghttp2_session_terminate_session(h2->session, error_code);
    if (h2->busy)
        rpc_h2_touch(h2);
    else
        rpc_h2_pump(h2);
}

void rpc_h2_close(struct rpc_h2 *h2)
{
    h2->closing = true;
    list_remove(&h2->dirty_node);
    rpc_stream_close(&h2->stream);
}

bool rpc_h2_keepalive(struct rpc_h2 *h2, uint64_t timeout_ms)
{
    uint64_t now_ms = uv_now(h2->stream.loop);

    if (h2->closing || h2->session == NULL) /* the handshake of TLS has a timer of its own */
        return false;
    if (h2->terminated_ms != 0 && now_ms - h2->terminated_ms >= timeout_ms) {
        h2_fail(h2, "peer does not read");
        return false;
    }
    /* also one that sends a byte now and then */
    if (!h2->settled &&
        now_ms - h2->opened_ms >= (timeout_ms < RPC_H2_HELLO_MS ? timeout_ms : RPC_H2_HELLO_MS)) {
        h2_fail(h2, "peer does not speak HTTP/2");
        return false;
    }
    if (h2->ping_outstanding && h2->read_ms > h2->ping_ms)
        h2->ping_outstanding = false;
    if (h2->ping_outstanding && now_ms - h2->ping_ms >= timeout_ms) {
        h2_fail(h2, "peer does not answer");
        return false;
    }
    if (!h2->ping_outstanding && now_ms - h2->read_ms >= timeout_ms) {
        h2->ping_outstanding = true;
        h2->ping_ms = now_ms;
        nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
        rpc_h2_touch(h2);
    }
    return true;
}

void rpc_h2_charge(struct rpc_h2 *h2)
{
    rpc_police_control(&h2->police, uv_now(h2->stream.loop));
    h2_police_look(h2);
}

void rpc_h2_frame_received(struct rpc_h2 *h2, const nghttp2_frame *frame)
{
    bool acknowledges = frame->hd.flags & NGHTTP2_FLAG_ACK;

    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        h2->settled = true;
        if (!acknowledges)
            rpc_h2_charge(h2);
        break;
    case NGHTTP2_PING:
        if (!acknowledges || !h2->ping_outstanding)
            rpc_h2_charge(h2);
        if (acknowledges)
            h2->ping_outstanding = false;
        break;
    case NGHTTP2_PRIORITY:
        rpc_h2_charge(h2);
        break;
    case NGHTTP2_DATA:
        rpc_police_of_use(&h2->police, false);
        if (frame->hd.length == 0 && !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            rpc_h2_charge(h2); /* what it was of use, and once more */
            rpc_h2_charge(h2);
        }
        break;
    case NGHTTP2_HEADERS:
        rpc_police_of_use(&h2->police, true);
        break;
    default:
        break; /* the police sees WINDOW_UPDATE and frames of unknown type, nghttp2 RST_STREAM */
    }
}
