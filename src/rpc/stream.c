/* One byte stream: its turns of reading, and TLS. See stream.h. */
#include "src/rpc/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/net/uv_network.h"

enum { OUTPUT_KEEP_BYTES = 4096 }; /* a buffer up to this size is kept for the next record */

static const struct network_ops *network_of(const struct rpc_stream *stream)
{
    return &stream->reader->network;
}

void rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, struct rpc_reader *reader,
                     const struct rpc_stream_handlers *handlers)
{
    *stream = (struct rpc_stream){.loop = loop, .handlers = handlers, .reader = reader};
    list_init(&stream->shaker_node);
    list_init(&stream->reader_node);
    buf_init(&stream->early);
}

void rpc_stream_secure(struct rpc_stream *stream, const struct tls_context *context,
                       enum tls_side side, uint8_t *plain_bytes, struct rpc_shaker *shaker)
{
    CHECK(stream->tls_context == NULL && !stream->reading);
    stream->tls_context = context;
    stream->side = side;
    stream->plain_bytes = plain_bytes;
    stream->shaker = shaker;
    stream->secured_ms = uv_now(stream->loop);
}

bool rpc_stream_waits(const struct rpc_stream *stream)
{
    return !list_empty(&stream->shaker_node);
}

uint64_t rpc_stream_shaking_ms(const struct rpc_stream *stream)
{
    uint64_t now_ms = uv_now(stream->loop);
    uint64_t waits_ms = rpc_stream_waits(stream) ? now_ms - stream->queued_ms : 0;

    return now_ms - stream->secured_ms - stream->waited_ms - waits_ms;
}

bool rpc_stream_begun(const struct rpc_stream *stream)
{
    return stream->tls != NULL || stream->early.length > 0;
}

static void stream_decrypt(struct rpc_stream *stream, const uint8_t *bytes, size_t length);

/* A peer that sent ahead of its handshake is not read until the handshake had its turn. */
static bool stream_is_ahead(const struct rpc_stream *stream)
{
    return stream->early.length > RPC_STREAM_EARLY_MAX_BYTES;
}

/* It has its turn of reading in the next round. */
static void stream_read_soon(struct rpc_stream *stream)
{
    if (list_empty(&stream->reader_node))
        list_push_back(&stream->reader->hungry, &stream->reader_node);
    stream->reader->wake(stream->reader->data);
}

static void stream_shake(struct rpc_stream *stream)
{
    struct buf early = stream->early;

    buf_init(&stream->early);
    stream->waited_ms += uv_now(stream->loop) - stream->queued_ms;
    stream_decrypt(stream, early.bytes, early.length);
    if (stream->below != NULL && stream->unread)
        stream_read_soon(stream);
    buf_close(&early);
}

/* One after the other until the time of this round is over. */
static void shaker_run(uv_idle_t *idle)
{
    struct rpc_shaker *shaker = idle->data;
    uint64_t begin_ns = uv_hrtime();

    while (!list_empty(&shaker->waiting) &&
           uv_hrtime() - begin_ns < RPC_SHAKER_ROUND_US * UINT64_C(1000)) {
        struct rpc_stream *stream = LIST_ITEM(shaker->waiting.next, struct rpc_stream, shaker_node);

        list_remove(&stream->shaker_node);
        stream_shake(stream);
    }
    if (list_empty(&shaker->waiting))
        uv_idle_stop(idle);
}

void rpc_shaker_init(struct rpc_shaker *shaker, uv_loop_t *loop)
{
    CHECK(uv_idle_init(loop, &shaker->idle) == 0);
    shaker->idle.data = shaker;
    list_init(&shaker->waiting);
}

static void shaker_closed(uv_handle_t *handle)
{
    struct rpc_shaker *shaker = handle->data;

    shaker->closed(shaker->closed_data);
}

void rpc_shaker_close(struct rpc_shaker *shaker, void (*closed)(void *data), void *data)
{
    shaker->closed = closed;
    shaker->closed_data = data;
    uv_close((uv_handle_t *)&shaker->idle, shaker_closed);
}

/* ---- turns of reading ---- */

void rpc_reader_init(struct rpc_reader *reader, uv_loop_t *loop, void (*wake)(void *data),
                     void *data)
{
    *reader = (struct rpc_reader){.wake = wake, .data = data};
    network_uv_ops(loop, &reader->network);
    list_init(&reader->hungry);
    list_init(&reader->closed);
}

static void reader_tell_closed(struct rpc_reader *reader)
{
    while (!list_empty(&reader->closed)) {
        struct rpc_stream *stream = LIST_ITEM(reader->closed.next, struct rpc_stream, reader_node);

        list_remove(&stream->reader_node);
        buf_close(&stream->early);
        tls_engine_free(stream->tls);
        stream->tls = NULL;
        stream->handlers->on_closed(stream);
    }
}

void rpc_reader_close(struct rpc_reader *reader)
{
    CHECK(list_empty(&reader->hungry));
    reader_tell_closed(reader);
}

static void stream_read_turn(struct rpc_stream *stream)
{
    stream->unread = network_of(stream)->read(stream->below);
    if (stream->unread && stream->below != NULL && !stream_is_ahead(stream))
        stream_read_soon(stream);
}

void rpc_reader_run(struct rpc_reader *reader)
{
    uint64_t begin_ns = uv_hrtime();

    reader_tell_closed(reader);
    reader->round++;
    reader->spent_ns = 0;
    while (!list_empty(&reader->hungry) &&
           reader->spent_ns < RPC_READER_ROUND_US * UINT64_C(1000)) {
        struct rpc_stream *stream = LIST_ITEM(reader->hungry.next, struct rpc_stream, reader_node);

        if (stream->reader_round == reader->round)
            break; /* everyone had a turn */
        stream->reader_round = reader->round;
        list_remove(&stream->reader_node);
        stream_read_turn(stream);
        reader->spent_ns = uv_hrtime() - begin_ns;
    }
}

bool rpc_reader_has_work(const struct rpc_reader *reader)
{
    return !list_empty(&reader->hungry) || !list_empty(&reader->closed);
}

/* ---- what came ---- */

/* The table has freed it, or it is of no use. */
static void stream_lost(struct rpc_stream *stream, const char *reason)
{
    list_remove(&stream->reader_node);
    if (stream->open)
        stream->handlers->on_lost(stream, reason);
    else
        stream->handlers->on_connected(stream, reason);
}

static void stream_send(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = check_alloc(length);

    memcpy(copy, bytes, length);
    network_of(stream)->send(stream->below, copy, length);
}

static void stream_is_open(struct rpc_stream *stream)
{
    stream->open = true;
    stream->handlers->on_connected(stream, NULL);
}

/* What TLS has to say to the other end: records, its part of the handshake, an alert. */
static void stream_send_output(struct rpc_stream *stream)
{
    struct buf *output = tls_engine_output(stream->tls);

    if (output->length > 0)
        stream_send(stream, output->bytes, output->length);
    if (output->capacity > OUTPUT_KEEP_BYTES)
        buf_close(output);
    else
        buf_clear(output);
}

static void stream_decrypt(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    const char *reason = NULL;
    enum tls_progress progress;
    size_t plain_length;

    if (stream->tls == NULL)
        stream->tls = tls_engine_new(stream->tls_context, stream->side, RPC_PROTOCOL);
    tls_engine_feed(stream->tls, bytes, length);
    do {
        progress =
            tls_engine_read(stream->tls, stream->plain_bytes, TLS_PLAIN_BYTES, &plain_length);
        stream_send_output(stream);
        if (rpc_stream_pending(stream) > RPC_STREAM_PENDING_MAX_BYTES) {
            reason = "peer does not read what it asks for";
            progress = TLS_FAILED;
        }
        if (progress == TLS_ESTABLISHED)
            stream_is_open(stream);
        else if (progress == TLS_PLAIN)
            stream->handlers->on_bytes(stream, stream->plain_bytes, plain_length);
    } while (stream->below != NULL && (progress == TLS_ESTABLISHED || progress == TLS_PLAIN));
    if (stream->below == NULL || progress == TLS_WANTS_MORE)
        return;
    if (progress == TLS_ENDED)
        (void)tls_engine_closed(stream->tls);
    stream_lost(stream, reason != NULL ? reason : tls_engine_error(stream->tls)->text);
}

/* Keeps what came until it is this stream's turn. */
static void stream_keep_early(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    buf_append(&stream->early, bytes, length);
    if (rpc_stream_waits(stream))
        return;
    stream->queued_ms = uv_now(stream->loop);
    list_push_back(&stream->shaker->waiting, &stream->shaker_node);
    uv_idle_start(&stream->shaker->idle, shaker_run);
}

/* ---- events of the table ---- */

static void stream_opened(void *data)
{
    struct rpc_stream *stream = data;

    if (stream->tls_context != NULL)
        stream_decrypt(stream, NULL, 0); /* says hello */
    else
        stream_is_open(stream);
}

static void stream_readable(void *data)
{
    struct rpc_stream *stream = data;
    struct rpc_reader *reader = stream->reader;
    uint64_t begin_ns = uv_hrtime();

    stream->unread = true;
    if (stream_is_ahead(stream))
        return;
    if (!list_empty(&reader->hungry) || reader->spent_ns >= RPC_READER_ROUND_US * UINT64_C(1000)) {
        stream_read_soon(stream);
        return;
    }
    stream_read_turn(stream);
    reader->spent_ns += uv_hrtime() - begin_ns;
}

static void stream_received(void *data, const uint8_t *bytes, size_t length)
{
    struct rpc_stream *stream = data;
    bool established = stream->tls != NULL && tls_engine_established(stream->tls);

    if (stream->lingering)
        return;
    if (stream->shaker != NULL && !established)
        stream_keep_early(stream, bytes, length);
    else if (stream->tls_context != NULL)
        stream_decrypt(stream, bytes, length);
    else
        stream->handlers->on_bytes(stream, bytes, length);
}

static void stream_drained(void *data)
{
    struct rpc_stream *stream = data;

    stream->handlers->on_drained(stream);
}

static void stream_ended(void *data, const struct err *err)
{
    struct rpc_stream *stream = data;
    const char *reason = err->text;

    stream->below = NULL;
    list_remove(&stream->shaker_node);
    if (stream->tls != NULL && !stream->lingering)
        reason = tls_engine_closed(stream->tls)->text;
    stream_lost(stream, reason);
}

static struct network_events stream_events(struct rpc_stream *stream)
{
    return (struct network_events){.data = stream,
                                   .opened = stream_opened,
                                   .received = stream_received,
                                   .closed = stream_ended,
                                   .readable = stream_readable,
                                   .drained = stream_drained};
}

void rpc_stream_connect(struct rpc_stream *stream, const char *address)
{
    const struct network_events events = stream_events(stream);
    const struct network_ops *network = network_of(stream);

    stream->reading = true;
    stream->below = network->connect(network->context, address, &events);
}

void rpc_stream_accept(struct rpc_stream *stream, struct network_stream *below)
{
    stream->below = below;
}

void rpc_stream_start(struct rpc_stream *stream)
{
    const struct network_events events = stream_events(stream);

    if (stream->reading)
        return; /* since it was dialled, or since the handshake */
    stream->reading = true;
    stream->open = stream->tls_context == NULL;
    network_of(stream)->start(stream->below, &events);
}

const char *rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    if (stream->below == NULL)
        return "connection is closed";
    if (stream->tls_context == NULL) {
        stream_send(stream, bytes, length);
        return NULL;
    }
    CHECK(stream->tls != NULL); /* nothing is written before the handshake */
    if (tls_engine_write(stream->tls, bytes, length) != 0)
        return tls_engine_error(stream->tls)->text;
    stream_send_output(stream);
    return NULL;
}

bool rpc_stream_linger(struct rpc_stream *stream)
{
    if (stream->below == NULL)
        return false;
    stream->lingering = true;
    stream->open = true;
    network_of(stream)->finish(stream->below);
    if (stream->unread)
        stream_read_soon(stream);
    return true;
}

size_t rpc_stream_pending(const struct rpc_stream *stream)
{
    return stream->below == NULL ? 0 : network_of(stream)->unsent_bytes(stream->below);
}

void rpc_stream_close(struct rpc_stream *stream)
{
    struct network_stream *below = stream->below;

    if (stream->closing)
        return;
    stream->closing = true;
    stream->below = NULL;
    list_remove(&stream->shaker_node);
    list_remove(&stream->reader_node);
    network_of(stream)->close(below);
    list_push_back(&stream->reader->closed, &stream->reader_node);
    stream->reader->wake(stream->reader->data);
}

void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer)
{
    const struct tls_identity *identity;
    struct network_peer below;

    network_of(stream)->peer(stream->below, &below);
    *ret_peer = (struct rpc_peer){.local = below.local,
                                  .tls = stream->tls_context != NULL,
                                  .pid = below.pid,
                                  .uid = below.uid,
                                  .gid = below.gid};
    snprintf(ret_peer->address, sizeof(ret_peer->address), "%s", below.address);
    if (stream->tls != NULL && tls_engine_established(stream->tls) &&
        (identity = tls_engine_peer(stream->tls, NULL)) != NULL)
        tls_identity_format(identity, ret_peer->identity);
}
