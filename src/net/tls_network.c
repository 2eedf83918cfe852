/* TLS around a network table. See tls_network.h. */
#include "src/net/tls_network.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"

_Static_assert(sizeof(((struct network_peer *)0)->identity) >= TLS_IDENTITY_TEXT_BYTES,
               "an identity fits");

struct tls_stream {
    struct tls_network *network;
    struct list node;
    struct list turn_node;        /* while its handshake waits for its turn */
    uint64_t checks;              /* of the network, when this one was checked */
    uint64_t generation;          /* of the files that its engine goes by */
    struct network_stream *below; /* NULL once closed */
    struct tls_engine *engine;    /* NULL: nothing has come yet */
    struct network_events events;
    struct clock_timer *timer; /* of the handshake, or of lingering */
    struct buf early;          /* of the handshake, until its turn comes */
    uint64_t begun_us;         /* when its handshake could begin */
    uint64_t queued_us;        /* when it last began to wait for its turn */
    uint64_t waited_us;        /* for its turns so far, which is no fault of the peer */
    bool dialled;
    bool shaking; /* hands: bytes may come, none is the user's yet */
    bool begun;   /* the peer has sent something */
    bool unread;  /* more waits below */
    bool lingers; /* the user has let go of it */
    bool in_use;  /* inside an event: freed later */
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

static uint64_t now_us(const struct tls_network *network)
{
    return network->clock->monotonic_us(network->clock->context);
}

static void stream_free(struct tls_stream *stream)
{
    if (stream->in_use || stream->below != NULL)
        return;
    stream->network->lingering -= stream->lingers;
    list_remove(&stream->node);
    list_remove(&stream->turn_node);
    stream->network->clock->timer_free(stream->timer);
    tls_engine_free(stream->engine);
    buf_close(&stream->early);
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
    if (stream->below != NULL && !stream->lingers)
        stream_shut(stream);
    list_remove(&stream->turn_node);
    if (stream->events.closed != NULL)
        stream->events.closed(stream->events.data, err);
    stream_free(stream);
}

/* Sends no more, and drops what comes. */
static void stream_linger(struct tls_stream *stream)
{
    struct tls_network *network = stream->network;

    if (network->below.finish == NULL || network->lingering >= TLS_NETWORK_LINGER_MAX)
        return;
    network->lingering++;
    stream->lingers = true;
    network->below.finish(stream->below);
    network->clock->timer_start(stream->timer, UINT64_C(1000) * TLS_NETWORK_LINGER_MS);
}

static struct tls_engine *stream_engine(struct tls_stream *stream)
{
    const struct tls_network *network = stream->network;

    if (stream->engine == NULL) {
        stream->generation = tls_context_generation(network->context);
        stream->engine = tls_engine_new(network->context, stream->dialled ? TLS_CLIENT : TLS_SERVER,
                                        network->protocol);
    }
    return stream->engine;
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

static bool stream_passes(struct tls_stream *stream)
{
    struct err err;

    if (tls_engine_recheck(stream->engine, stream->network->context, stream->network->dates,
                           &err) == 0)
        return true;
    stream_report(stream, &err);
    stream_end(stream, &err);
    return false;
}

static void stream_established(struct tls_stream *stream)
{
    const struct tls_network *network = stream->network;
    struct err err;

    if (network->replicas_only && tls_engine_expect_replica(stream->engine, 0) != 0)
        return; /* the next read says so */
    network->clock->timer_stop(stream->timer);
    stream->shaking = false;
    if (stream->generation != tls_context_generation(network->context) && !stream_passes(stream))
        return;
    if (tls_engine_peer(stream->engine, &err) == NULL)
        stream_report(stream, &err); /* the user refuses whatever it asks for, too */
    if (stream->events.opened != NULL)
        stream->events.opened(stream->events.data);
}

static bool stream_is_behind(const struct tls_stream *stream)
{
    const struct tls_network *network = stream->network;

    return network->unsent_max > 0 &&
           network->below.unsent_bytes(stream->below) > network->unsent_max;
}

/* What the loop of stream_take ended with. */
static void stream_taken(struct tls_stream *stream, enum tls_progress progress)
{
    struct err err;

    if (stream->below == NULL) {
        stream_free(stream);
    } else if (progress == TLS_FAILED) {
        err = *tls_engine_error(stream->engine);
        stream_report(stream, &err);
        stream_linger(stream);
        stream_end(stream, &err);
    } else if (progress == TLS_ENDED) {
        err = *tls_engine_closed(stream->engine);
        stream_end(stream, &err);
    } else if (stream_is_behind(stream)) {
        err_set(&err, ERR_UNAVAILABLE, "TLS: the peer does not read the answers that it asks for");
        stream_end(stream, &err);
    }
}

static void stream_take(struct tls_stream *stream, const uint8_t *bytes, size_t length)
{
    struct tls_engine *engine = stream_engine(stream);
    uint8_t *plain = stream->network->plain;
    bool in_use = stream->in_use;
    enum tls_progress progress;
    size_t plain_length;

    tls_engine_feed(engine, bytes, length);
    stream->in_use = true;
    do {
        progress = tls_engine_read(engine, plain, TLS_PLAIN_BYTES, &plain_length);
        stream_send_output(stream);
        if (progress == TLS_ESTABLISHED)
            stream_established(stream);
        else if (progress == TLS_PLAIN)
            stream->events.received(stream->events.data, plain, plain_length);
    } while (stream->below != NULL && (progress == TLS_ESTABLISHED || progress == TLS_PLAIN) &&
             !stream_is_behind(stream));
    stream->in_use = in_use;
    stream_taken(stream, progress);
}

/* ---- reading by turns ---- */

/* Until the handshake is ahead or over; what comes after it the user reads. */
static void stream_read_on(struct tls_stream *stream)
{
    const struct network_ops *below = &stream->network->below;
    bool in_use = stream->in_use;

    stream->in_use = true;
    while (stream->below != NULL && stream->unread && stream->shaking && !stream->lingers &&
           stream->early.length <= TLS_NETWORK_EARLY_BYTES)
        stream->unread = below->read(stream->below);
    if (stream->below != NULL && stream->unread && !stream->shaking && !stream->lingers)
        stream->events.readable(stream->events.data);
    if (stream->below != NULL && stream->lingers && stream->unread) {
        stream->unread = below->read(stream->below);
        if (stream->below != NULL && stream->unread)
            stream_shut(stream); /* it does not look at what it is told */
    }
    stream->in_use = in_use;
    stream_free(stream);
}

static bool tls_read(struct network_stream *handle)
{
    struct tls_stream *stream = stream_of(handle);
    bool in_use = stream->in_use, more;

    stream->in_use = true;
    stream->unread = stream->network->below.read(stream->below);
    more = stream->below != NULL && !stream->lingers && stream->unread;
    stream->in_use = in_use;
    if (stream->below != NULL && stream->lingers)
        stream_read_on(stream);
    else
        stream_free(stream);
    return more;
}

/* ---- turns of handshakes ---- */

static void stream_keep_early(struct tls_stream *stream, const uint8_t *bytes, size_t length)
{
    struct tls_network *network = stream->network;

    buf_append(&stream->early, bytes, length);
    if (!list_empty(&stream->turn_node))
        return;
    stream->queued_us = now_us(network);
    list_push_back(stream->engine == NULL ? &network->waiting : &network->begun,
                   &stream->turn_node);
    network->wake(network->wake_data);
}

static void stream_shake(struct tls_stream *stream)
{
    struct buf early = stream->early;

    buf_init(&stream->early);
    stream->waited_us += now_us(stream->network) - stream->queued_us;
    stream->in_use = true;
    stream_take(stream, early.bytes, early.length);
    stream->in_use = false;
    buf_close(&early);
    stream_read_on(stream);
}

static void shake_first(struct list *list)
{
    struct tls_stream *stream = LIST_ITEM(list->next, struct tls_stream, turn_node);

    list_remove(&stream->turn_node);
    stream_shake(stream);
}

/* Peers that send their parts of handshakes byte by byte keep no new one out. */
static struct list *next_turn(struct tls_network *network)
{
    bool begun = !list_empty(&network->begun) &&
                 (list_empty(&network->waiting) || network->in_a_row < TLS_NETWORK_BEGUN_ROW);

    network->in_a_row = begun ? network->in_a_row + 1 : 0;
    return begun ? &network->begun : &network->waiting;
}

/* One after the other until the time of this round is over. */
void network_tls_run(struct tls_network *network)
{
    uint64_t begin_us = now_us(network);

    while (network_tls_has_work(network)) {
        shake_first(next_turn(network));
        if (now_us(network) - begin_us >= TLS_NETWORK_ROUND_US)
            break;
    }
}

bool network_tls_has_work(const struct tls_network *network)
{
    return !list_empty(&network->begun) || !list_empty(&network->waiting);
}

bool network_tls_waits(const struct network_stream *handle)
{
    return !list_empty(&stream_of(handle)->turn_node);
}

/* ---- time ---- */

/* Of the handshake, without the time in which it waited for its turns. */
static uint64_t stream_shaking_ms(const struct tls_stream *stream)
{
    uint64_t now = now_us(stream->network);
    uint64_t waits_us = list_empty(&stream->turn_node) ? 0 : now - stream->queued_us;

    return (now - stream->begun_us - stream->waited_us - waits_us + 999) / 1000;
}

static void stream_late(void *data)
{
    struct tls_stream *stream = data;
    const struct tls_network *network = stream->network;
    uint64_t taken_ms = stream_shaking_ms(stream);
    struct err err;

    if (stream->lingers) {
        stream_shut(stream);
        stream_free(stream);
    } else if (!list_empty(&stream->turn_node) || taken_ms < network->handshake_ms) {
        uint64_t left_ms = taken_ms < network->handshake_ms ? network->handshake_ms - taken_ms : 0;

        network->clock->timer_start(stream->timer,
                                    1000 * (left_ms > 0 ? left_ms : TLS_NETWORK_LINGER_MS));
    } else {
        err = *tls_engine_timed_out(stream_engine(stream), network->handshake_ms);
        stream_report(stream, &err);
        stream_end(stream, &err);
    }
}

static void handshake_begin(struct tls_stream *stream)
{
    const struct tls_network *network = stream->network;

    stream->shaking = true;
    stream->begun_us = now_us(network);
    if (network->handshake_ms > 0)
        network->clock->timer_start(stream->timer, UINT64_C(1000) * network->handshake_ms);
}

/* ---- events of the table below ---- */

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
    if (stream->lingers)
        return;
    if (stream->shaking && !stream->dialled && stream->network->wake != NULL)
        stream_keep_early(stream, bytes, length);
    else
        stream_take(stream, bytes, length);
}

static void below_readable(void *data)
{
    struct tls_stream *stream = data;

    stream->unread = true;
    stream_read_on(stream);
}

static void below_drained(void *data)
{
    struct tls_stream *stream = data;

    if (!stream->shaking && !stream->lingers)
        stream->events.drained(stream->events.data);
}

static void below_closed(void *data, const struct err *err)
{
    struct tls_stream *stream = data;
    struct err reason = *err;

    stream->below = NULL;
    if (stream->lingers) {
        stream_free(stream);
        return;
    }
    if (stream->shaking && stream->engine != NULL) {
        reason = *tls_engine_closed(stream->engine);
        reason.code = err->code;
    }
    if (stream->shaking &&
        (stream->begun || stream->dialled)) /* else somebody looked whether the port is open */
        stream_report(stream, &reason);
    stream_end(stream, &reason);
}

/* As the user's: by turns, or not. */
static struct network_events events_below(struct tls_stream *stream)
{
    const struct network_events *events = &stream->events;

    CHECK(events->readable != NULL || stream->network->wake == NULL);
    return (struct network_events){.data = stream,
                                   .opened = below_opened,
                                   .received = below_received,
                                   .closed = below_closed,
                                   .readable = events->readable == NULL ? NULL : below_readable,
                                   .drained = events->drained == NULL ? NULL : below_drained};
}

static struct tls_stream *stream_new(struct tls_network *network)
{
    struct tls_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    buf_init(&stream->early);
    list_init(&stream->turn_node);
    stream->timer = network->clock->timer_new(network->clock->context, stream_late, stream);
    stream->checks = network->checks; /* by its handshake */
    list_push_back(&network->streams, &stream->node);
    return stream;
}

/* ---- the table ---- */

static struct network_stream *tls_connect(void *context, const char *address,
                                          const struct network_events *events)
{
    struct tls_network *network = context;
    struct tls_stream *stream = stream_new(network);
    struct network_events below;

    stream->dialled = true;
    stream->events = *events;
    below = events_below(stream);
    snprintf(stream->address, sizeof(stream->address), "%.*s", NETWORK_PEER_BYTES - 1, address);
    stream->below = network->below.connect(network->below.context, address, &below);
    return (struct network_stream *)stream;
}

static void tls_start(struct network_stream *handle, const struct network_events *events)
{
    struct tls_stream *stream = stream_of(handle);
    struct network_events below;

    stream->events = *events;
    below = events_below(stream);
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
    const struct tls_identity *identity;

    stream->network->below.peer(stream->below, ret_peer);
    ret_peer->tls = true;
    if (stream->engine != NULL && tls_engine_established(stream->engine) &&
        (identity = tls_engine_peer(stream->engine, NULL)) != NULL)
        tls_identity_format(identity, ret_peer->identity);
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
    stream = stream_new(network);
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

static const struct tls_listener *listener_of(const struct network_listener *listener)
{
    return (const struct tls_listener *)listener;
}

static int tls_port(const struct network_listener *handle)
{
    const struct tls_listener *listener = listener_of(handle);

    return listener->network->below.port(listener->below);
}

static void tls_listener_close(struct network_listener *handle)
{
    struct tls_listener *listener = (struct tls_listener *)handle;

    if (listener == NULL)
        return;
    listener->network->below.listener_close(listener->below);
    free(listener);
}

/* ---- certificates that are no longer good ---- */

bool network_tls_passes(struct network_stream *handle)
{
    struct tls_stream *stream = stream_of(handle);

    CHECK(!stream->in_use);
    /* a handshake that goes on looks itself whether the files have changed meanwhile */
    return stream->shaking || stream_passes(stream);
}

static struct tls_stream *find_unchecked(const struct tls_network *network)
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
    while ((stream = find_unchecked(network)) != NULL) {
        CHECK(!stream->in_use);
        stream->checks = network->checks;
        if (stream->below != NULL && !stream->shaking && !stream->lingers && stream->engine != NULL)
            (void)stream_passes(stream);
    }
}

/* ---- life ---- */

void network_tls_ops(struct tls_network *network, struct network_ops *ret_ops)
{
    CHECK(network->clock != NULL && network->context != NULL && network->protocol != NULL);
    list_init(&network->streams);
    list_init(&network->begun);
    list_init(&network->waiting);
    *ret_ops = (struct network_ops){
        .context = network,
        .listen = tls_listen,
        .listener_close = tls_listener_close,
        .port = tls_port,
        .connect = tls_connect,
        .start = tls_start,
        .read = tls_read,
        .send = tls_send,
        .unsent_bytes = tls_unsent_bytes,
        .peer_is = tls_peer_is,
        .peer = tls_peer,
        .close = tls_close,
    };
}

void network_tls_close(struct tls_network *network)
{
    while (!list_empty(&network->streams)) {
        struct tls_stream *stream = LIST_ITEM(network->streams.next, struct tls_stream, node);

        CHECK(stream->lingers && !stream->in_use);
        stream_shut(stream);
        stream_free(stream);
    }
}
