/* One byte stream and its turns of reading. See stream.h. */
#include "src/rpc/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/net/uv_network.h"
#include "src/rpc/uv_clock.h"

void rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, bool local,
                     struct rpc_reader *reader, const struct rpc_stream_handlers *handlers)
{
    *stream = (struct rpc_stream){.loop = loop,
                                  .network = rpc_reader_network(reader, local),
                                  .handlers = handlers,
                                  .reader = reader};
    list_init(&stream->reader_node);
}

bool rpc_stream_is_secure(const struct rpc_stream *stream)
{
    return stream->network == &stream->reader->secure;
}

bool rpc_stream_waits(const struct rpc_stream *stream)
{
    return rpc_stream_is_secure(stream) && stream->below != NULL &&
           network_tls_waits(stream->below);
}

bool rpc_stream_passes(struct rpc_stream *stream)
{
    return !rpc_stream_is_secure(stream) || stream->below == NULL ||
           network_tls_passes(stream->below);
}

/* ---- turns of reading ---- */

void rpc_reader_init(struct rpc_reader *reader, uv_loop_t *loop, void (*wake)(void *data),
                     void *data)
{
    *reader = (struct rpc_reader){.wake = wake, .data = data};
    network_uv_ops(loop, &reader->plain);
    list_init(&reader->hungry);
    list_init(&reader->closed);
}

struct tls_network *rpc_reader_secure(struct rpc_reader *reader, uv_loop_t *loop,
                                      const struct tls_context *context)
{
    struct tls_network *tls = check_calloc(1, sizeof(*tls));

    uv_clock_ops(loop, &reader->clock);
    *tls = (struct tls_network){.below = reader->plain,
                                .clock = &reader->clock,
                                .context = context,
                                .protocol = RPC_PROTOCOL,
                                .unsent_max = RPC_STREAM_PENDING_MAX_BYTES};
    network_tls_ops(tls, &reader->secure);
    reader->tls = tls;
    return tls;
}

const struct network_ops *rpc_reader_network(const struct rpc_reader *reader, bool local)
{
    return local || reader->tls == NULL ? &reader->plain : &reader->secure;
}

static void reader_tell_closed(struct rpc_reader *reader)
{
    while (!list_empty(&reader->closed)) {
        struct rpc_stream *stream = LIST_ITEM(reader->closed.next, struct rpc_stream, reader_node);

        list_remove(&stream->reader_node);
        stream->handlers->on_closed(stream);
    }
}

void rpc_reader_close(struct rpc_reader *reader)
{
    CHECK(list_empty(&reader->hungry));
    reader_tell_closed(reader);
    if (reader->tls != NULL)
        network_tls_close(reader->tls);
    free(reader->tls);
}

/* It has its turn of reading in the next round. */
static void stream_read_soon(struct rpc_stream *stream)
{
    list_push_back(&stream->reader->hungry, &stream->reader_node);
    stream->reader->wake(stream->reader->data);
}

static void stream_read_turn(struct rpc_stream *stream)
{
    if (stream->network->read(stream->below) && stream->below != NULL)
        stream_read_soon(stream);
}

void rpc_reader_run(struct rpc_reader *reader)
{
    uint64_t begin_ns;

    reader_tell_closed(reader);
    if (reader->tls != NULL)
        network_tls_run(reader->tls);
    reader->round++;
    reader->spent_ns = 0;
    begin_ns = uv_hrtime();
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
    return !list_empty(&reader->hungry) || !list_empty(&reader->closed) ||
           (reader->tls != NULL && network_tls_has_work(reader->tls));
}

/* ---- events of the table ---- */

static void stream_opened(void *data)
{
    struct rpc_stream *stream = data;

    stream->open = true;
    stream->handlers->on_connected(stream, NULL);
}

static void stream_readable(void *data)
{
    struct rpc_stream *stream = data;
    struct rpc_reader *reader = stream->reader;
    uint64_t begin_ns = uv_hrtime();

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

    stream->handlers->on_bytes(stream, bytes, length);
}

static void stream_drained(void *data)
{
    struct rpc_stream *stream = data;

    stream->handlers->on_drained(stream);
}

/* The table has freed it. */
static void stream_ended(void *data, const struct err *err)
{
    struct rpc_stream *stream = data;

    stream->below = NULL;
    list_remove(&stream->reader_node);
    if (stream->open)
        stream->handlers->on_lost(stream, err->text);
    else
        stream->handlers->on_connected(stream, err->text);
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

    stream->reading = true;
    stream->below = stream->network->connect(stream->network->context, address, &events);
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
    stream->open = !rpc_stream_is_secure(stream);
    stream->network->start(stream->below, &events);
}

bool rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    uint8_t *copy;

    if (stream->below == NULL)
        return false;
    CHECK(stream->open); /* nothing is written before the handshake */
    copy = check_alloc(length);
    memcpy(copy, bytes, length);
    stream->network->send(stream->below, copy, length);
    return true;
}

size_t rpc_stream_pending(const struct rpc_stream *stream)
{
    return stream->below == NULL ? 0 : stream->network->unsent_bytes(stream->below);
}

void rpc_stream_close(struct rpc_stream *stream)
{
    struct network_stream *below = stream->below;

    if (stream->closing)
        return;
    stream->closing = true;
    stream->below = NULL;
    list_remove(&stream->reader_node);
    stream->network->close(below);
    list_push_back(&stream->reader->closed, &stream->reader_node);
    stream->reader->wake(stream->reader->data);
}

void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer)
{
    struct network_peer below;

    stream->network->peer(stream->below, &below);
    *ret_peer = (struct rpc_peer){.local = below.local,
                                  .tls = rpc_stream_is_secure(stream),
                                  .pid = below.pid,
                                  .uid = below.uid,
                                  .gid = below.gid};
    snprintf(ret_peer->address, sizeof(ret_peer->address), "%s", below.address);
    snprintf(ret_peer->identity, sizeof(ret_peer->identity), "%.*s", TLS_IDENTITY_TEXT_BYTES - 1,
             below.identity);
}
