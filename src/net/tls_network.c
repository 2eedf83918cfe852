/* TLS around a network table. See tls_network.h. */
#include "src/net/tls_network.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"

/* What peers agree on (ALPN): an API client that calls here, or a member that calls an API port, learns so at once. */
static const char protocol[] = "ckpt-raft";

struct tls_stream {
    struct tls_network *network;
    struct list node;
    uint64_t checks;              /* of the network, when this one was checked */
    struct network_stream *below; /* NULL once closed */
    struct tls_engine *engine;
    struct network_events events;
    struct clock_timer *timer; /* of the handshake */
    bool dialled;
    bool shaking;  /* hands: bytes may come, none is the user's yet */
    bool outdated; /* the files were read again meanwhile: its engine goes by the former ones */
    bool begun;    /* the peer has sent something */
    bool in_use;   /* inside an event: freed later */
    char address[NETWORK_PEER_BYTES];
};

struct tls_listener {
    struct tls_network *network;
    struct network_listener *below;
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
};

static struct tls_stream *stream_of(const struct network_stream *stream)
{
    return (struct tls_stream *)(uintptr_t)stream;
}

static void stream_free(struct tls_stream *stream)
{
    if (stream->in_use || stream->below != NULL)
        return;
    list_remove(&stream->node);
    stream->network->clock->timer_free(stream->timer);
    tls_engine_free(stream->engine);
    free(stream);
}

static void stream_shut(struct tls_stream *stream)
{
    struct network_stream *below = stream->below;

    stream->below = NULL;
    stream->network->below.close(below);
}

static void stream_report(const struct tls_stream *stream, const struct err *err)
{
    const struct tls_network *network = stream->network;

    if (network->refused != NULL)
        network->refused(network->data, stream->address, err->text);
}

/* Closed from below, or by us: the user hears of it once. */
static void stream_end(struct tls_stream *stream, const struct err *err)
{
    if (stream->below != NULL)
        stream_shut(stream);
    if (stream->events.closed != NULL)
        stream->events.closed(stream->events.data, err);
    stream_free(stream);
}

static void stream_send_output(struct tls_stream *stream)
{
    struct buf *output = tls_engine_output(stream->engine);
    size_t length;
    uint8_t *bytes;

    if (output->length == 0)
        return;
    bytes = buf_take(output, &length);
    stream->network->below.send(stream->below, bytes, length);
}

/* By the files as they are now; one that does not is ended. */
static bool stream_passes(struct tls_stream *stream)
{
    struct err err;

    if (tls_engine_recheck(stream->engine, stream->network->context, false, &err) == 0)
        return true;
    stream_report(stream, &err);
    stream_end(stream, &err);
    return false;
}

static void stream_established(struct tls_stream *stream)
{
    if (tls_engine_expect_replica(stream->engine, 0) != 0)
        return; /* the next read says so */
    stream->network->clock->timer_stop(stream->timer);
    stream->shaking = false;
    if (stream->outdated && !stream_passes(stream))
        return;
    if (stream->dialled)
        stream->events.opened(stream->events.data);
}

static void stream_take(struct tls_stream *stream, const uint8_t *bytes, size_t length)
{
    uint8_t *plain = stream->network->plain;
    enum tls_progress progress;
    size_t plain_length;
    struct err err;

    tls_engine_feed(stream->engine, bytes, length);
    stream->in_use = true;
    do {
        progress = tls_engine_read(stream->engine, plain, TLS_PLAIN_BYTES, &plain_length);
        stream_send_output(stream);
        if (progress == TLS_ESTABLISHED)
            stream_established(stream);
        else if (progress == TLS_PLAIN)
            stream->events.received(stream->events.data, plain, plain_length);
    } while (stream->below != NULL && (progress == TLS_ESTABLISHED || progress == TLS_PLAIN));
    stream->in_use = false;
    if (stream->below == NULL) {
        stream_free(stream);
    } else if (progress == TLS_FAILED) {
        err = *tls_engine_error(stream->engine);
        stream_report(stream, &err);
        stream_end(stream, &err);
    } else if (progress == TLS_ENDED) {
        err = *tls_engine_closed(stream->engine);
        stream_end(stream, &err);
    }
}

static void handshake_late(void *data)
{
    struct tls_stream *stream = data;
    struct err err = *tls_engine_timed_out(stream->engine, TLS_NETWORK_HANDSHAKE_MS);

    stream_report(stream, &err);
    stream_end(stream, &err);
}

/* ---- events of the table below ---- */

static void handshake_begin(struct tls_stream *stream)
{
    stream->shaking = true;
    stream->network->clock->timer_start(stream->timer, UINT64_C(1000) * TLS_NETWORK_HANDSHAKE_MS);
}

static void below_opened(void *data)
{
    struct tls_stream *stream = data;

    handshake_begin(stream);
    stream_take(stream, NULL, 0); /* says hello */
}

static void below_received(void *data, const uint8_t *bytes, size_t length)
{
    struct tls_stream *stream = data;

    stream->begun = true;
    stream_take(stream, bytes, length);
}

static void below_closed(void *data, const struct err *err)
{
    struct tls_stream *stream = data;
    struct err reason = *err;

    stream->below = NULL;
    if (stream->shaking) {
        reason = *tls_engine_closed(stream->engine);
        if (stream->begun || stream->dialled) /* else somebody looked whether the port is open */
            stream_report(stream, &reason);
    }
    stream_end(stream, &reason);
}

static struct tls_stream *stream_new(struct tls_network *network, enum tls_side side)
{
    struct tls_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    stream->dialled = side == TLS_CLIENT;
    stream->engine = tls_engine_new(network->context, side, protocol);
    stream->timer = network->clock->timer_new(network->clock->context, handshake_late, stream);
    stream->checks = network->checks; /* by its handshake */
    list_push_back(&network->streams, &stream->node);
    return stream;
}

/* ---- the table ---- */

static struct network_stream *tls_connect(void *context, const char *address,
                                          const struct network_events *events)
{
    struct tls_network *network = context;
    struct tls_stream *stream = stream_new(network, TLS_CLIENT);
    const struct network_events below = {
        .data = stream, .opened = below_opened, .received = below_received, .closed = below_closed};

    stream->events = *events;
    snprintf(stream->address, sizeof(stream->address), "%s", address);
    stream->below = network->below.connect(network->below.context, address, &below);
    return (struct network_stream *)stream;
}

static void tls_start(struct network_stream *handle, const struct network_events *events)
{
    struct tls_stream *stream = stream_of(handle);
    const struct network_events below = {
        .data = stream, .received = below_received, .closed = below_closed};

    stream->events = *events;
    handshake_begin(stream);
    stream->network->below.start(stream->below, &below);
}

static void tls_send(struct network_stream *handle, uint8_t *take_bytes, size_t length)
{
    struct tls_stream *stream = stream_of(handle);

    CHECK(stream->below != NULL && !stream->shaking);
    /* a connection that has failed is reported by its next read */
    if (tls_engine_write(stream->engine, take_bytes, length) == 0)
        stream_send_output(stream);
    free(take_bytes);
}

static size_t tls_unsent_bytes(const struct network_stream *handle)
{
    const struct tls_stream *stream = stream_of(handle);

    return stream->network->below.unsent_bytes(stream->below);
}

static bool tls_peer_is(struct network_stream *handle, uint64_t member_id)
{
    struct tls_stream *stream = stream_of(handle);

    if (tls_engine_expect_replica(stream->engine, member_id) == 0)
        return true;
    stream_report(stream, tls_engine_error(stream->engine));
    return false;
}

static void tls_peer(const struct network_stream *handle, struct network_peer *ret_peer)
{
    const struct tls_stream *stream = stream_of(handle);

    stream->network->below.peer(stream->below, ret_peer);
}

static void tls_close(struct network_stream *handle)
{
    struct tls_stream *stream = stream_of(handle);

    if (stream == NULL)
        return;
    stream_shut(stream);
    stream_free(stream);
}

static void below_accepted(void *data, struct network_stream *below)
{
    struct tls_listener *listener = data;
    struct tls_network *network = listener->network;
    struct network_peer peer;
    struct tls_stream *stream;

    if (below == NULL) {
        listener->accepted(listener->data, NULL);
        return;
    }
    stream = stream_new(network, TLS_SERVER);
    stream->below = below;
    network->below.peer(below, &peer);
    snprintf(stream->address, sizeof(stream->address), "%s", peer.address);
    listener->accepted(listener->data, (struct network_stream *)stream);
}

static int tls_listen(void *context, const char *address,
                      void (*accepted)(void *data, struct network_stream *stream), void *data,
                      struct network_listener **ret_listener, struct err *err)
{
    struct tls_network *network = context;
    struct tls_listener *listener = check_calloc(1, sizeof(*listener));

    *listener = (struct tls_listener){.network = network, .accepted = accepted, .data = data};
    if (network->below.listen(network->below.context, address, below_accepted, listener,
                              &listener->below, err) != 0) {
        free(listener);
        return -1;
    }
    *ret_listener = (struct network_listener *)listener;
    return 0;
}

static void tls_listener_close(struct network_listener *handle)
{
    struct tls_listener *listener = (struct tls_listener *)handle;

    if (listener == NULL)
        return;
    listener->network->below.listener_close(listener->below);
    free(listener);
}

static struct tls_stream *unchecked(const struct tls_network *network)
{
    for (struct list *node = network->streams.next; node != &network->streams; node = node->next) {
        struct tls_stream *stream = LIST_ITEM(node, struct tls_stream, node);

        if (stream->checks != network->checks)
            return stream;
    }
    return NULL;
}

/* From the beginning after each one: whoever hears of an end may close others. */
void network_tls_recheck(struct tls_network *network)
{
    struct tls_stream *stream;

    network->checks++;
    while ((stream = unchecked(network)) != NULL) {
        CHECK(!stream->in_use);
        stream->checks = network->checks;
        stream->outdated = !tls_engine_established(stream->engine);
        if (stream->below != NULL && !stream->outdated)
            (void)stream_passes(stream);
    }
}

void network_tls_ops(struct tls_network *network, struct network_ops *ret_ops)
{
    CHECK(network->clock != NULL && network->context != NULL);
    list_init(&network->streams);
    *ret_ops = (struct network_ops){
        .context = network,
        .listen = tls_listen,
        .listener_close = tls_listener_close,
        .connect = tls_connect,
        .start = tls_start,
        .send = tls_send,
        .unsent_bytes = tls_unsent_bytes,
        .peer_is = tls_peer_is,
        .peer = tls_peer,
        .close = tls_close,
    };
}
