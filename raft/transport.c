/* Dialling, accepting, framing. See transport.h. */
#include "raft/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "src/base/check.h"

struct inbound {
    struct list node; /* in greeting until the hello */
    struct transport *transport;
    struct network_stream *stream; /* NULL once lost */
    struct peer *peer;
    struct buf buf;
    uint64_t accepted_us;
    bool in_use;  /* frames are being delivered: free later */
    bool dropped; /* to be freed */
};

static uint64_t now_us(const struct transport *transport)
{
    return transport->clock->monotonic_us(transport->clock->context);
}

static struct peer *find_peer(const struct transport *transport, uint64_t id)
{
    for (size_t i = 0; i < transport->peer_count; i++)
        if (transport->peers[i].member.id == id)
            return (struct peer *)(uintptr_t)&transport->peers[i];
    return NULL;
}

const struct peer *transport_peer(const struct transport *transport, uint64_t id)
{
    return find_peer(transport, id);
}

bool transport_connected(const struct transport *transport, uint64_t to)
{
    const struct peer *peer = find_peer(transport, to);

    return peer != NULL && peer->out_ready;
}

/* A certificate speaks for one member: nobody answers or calls in another's name. */
static bool stream_is(const struct transport *transport, struct network_stream *stream, uint64_t id)
{
    return transport->network->peer_is == NULL || transport->network->peer_is(stream, id);
}

/* ---- outbound ---- */

static void out_send(struct peer *peer, const struct frame_message *message)
{
    struct buf buf;
    size_t length;
    uint8_t *bytes;

    buf_init(&buf);
    frame_encode(&buf, message);
    bytes = buf_take(&buf, &length);
    peer->transport->network->send(peer->out, bytes, length);
}

/* The backoff shrinks only after a connection has lasted, so that a peer which refuses us is not dialled in a hurry. */
static void out_lost(struct peer *peer)
{
    uint64_t now = now_us(peer->transport);
    bool was_ready = peer->out_ready;

    peer->out = NULL;
    peer->out_ready = false;
    if (was_ready && now - peer->dialled_us > UINT64_C(1000) * TRANSPORT_BACKOFF_MAX_MS)
        peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
    peer->next_dial_us = now + UINT64_C(1000) * peer->backoff_ms;
    peer->backoff_ms *= 2;
    if (peer->backoff_ms > TRANSPORT_BACKOFF_MAX_MS)
        peer->backoff_ms = TRANSPORT_BACKOFF_MAX_MS;
    if (was_ready)
        peer->transport->events.outbound_lost(peer->transport->events.context, peer->member.id);
}

static void out_opened(void *data)
{
    struct peer *peer = data;
    struct transport *transport = peer->transport;
    struct frame_message hello = {.type = FRAME_HELLO};

    if (!stream_is(transport, peer->out, peer->member.id)) {
        transport->network->close(peer->out);
        out_lost(peer);
        return;
    }
    snprintf(hello.hello.cluster_id, sizeof(hello.hello.cluster_id), "%s", transport->cluster_id);
    hello.hello.from = transport->member_id;
    hello.hello.to = peer->member.id;
    hello.hello.incarnation = transport->incarnation;
    peer->out_ready = true;
    out_send(peer, &hello);
}

static void out_closed(void *data, const struct err *err)
{
    (void)err;
    out_lost(data);
}

static void out_received(void *data, const uint8_t *bytes, size_t length)
{
    struct peer *peer = data;

    (void)bytes;
    (void)length;
    /* Nothing is ever said in this direction. */
    peer->transport->network->close(peer->out);
    out_lost(peer);
}

static void dial(struct peer *peer)
{
    struct transport *transport = peer->transport;
    struct network_events events = {peer, out_opened, out_received, out_closed};

    peer->dialled_us = now_us(transport);
    peer->out =
        transport->network->connect(transport->network->context, peer->member.address, &events);
}

bool transport_send(struct transport *transport, uint64_t to, const struct frame_message *message)
{
    struct peer *peer = find_peer(transport, to);

    if (peer == NULL || !peer->out_ready ||
        transport->network->unsent_bytes(peer->out) > TRANSPORT_QUEUE_MAX_BYTES)
        return false;
    out_send(peer, message);
    return true;
}

size_t transport_room(const struct transport *transport, uint64_t to)
{
    const struct peer *peer = find_peer(transport, to);
    size_t unsent;

    if (peer == NULL || !peer->out_ready)
        return 0;
    unsent = transport->network->unsent_bytes(peer->out);
    return unsent < TRANSPORT_HIGH_WATER_BYTES ? TRANSPORT_HIGH_WATER_BYTES - unsent : 0;
}

/* ---- inbound ---- */

static void in_free(struct inbound *in)
{
    if (in->in_use)
        return;
    buf_close(&in->buf);
    free(in);
}

/* Unlinks; tells of a peer's loss only when this was its connection. */
static void in_drop(struct inbound *in, bool tell)
{
    struct transport *transport = in->transport;
    struct peer *peer = in->peer;

    CHECK(!in->dropped);
    in->dropped = true;
    if (in->stream != NULL)
        transport->network->close(in->stream);
    in->stream = NULL;
    if (peer == NULL) {
        list_remove(&in->node);
        transport->greeting_count--;
    } else if (peer->in == in) {
        peer->in = NULL;
        if (tell)
            transport->events.inbound_lost(transport->events.context, peer->member.id);
    }
    in_free(in);
}

/* Two members of different incarnations hold histories that contradict each other: they never exchange another frame. */
static int incarnation_check(struct transport *transport, struct peer *peer, uint64_t incarnation)
{
    peer->foreign_incarnation = 0;
    if (incarnation == transport->incarnation || incarnation == 0)
        return 0;
    if (transport->incarnation != 0) {
        peer->foreign_incarnation = incarnation;
        return -1;
    }
    if (transport->events.adopt(transport->events.context, incarnation) != 0)
        return -1;
    transport->incarnation = incarnation;
    return 0;
}

static int in_hello(struct inbound *in, const struct frame_hello *hello)
{
    struct transport *transport = in->transport;
    struct peer *peer = find_peer(transport, hello->from);

    if (strcmp(hello->cluster_id, transport->cluster_id) != 0 ||
        hello->to != transport->member_id || peer == NULL ||
        !stream_is(transport, in->stream, hello->from) ||
        incarnation_check(transport, peer, hello->incarnation) != 0)
        return -1;
    list_remove(&in->node);
    transport->greeting_count--;
    in->peer = peer;
    if (peer->in != NULL) {
        struct inbound *old = peer->in;
        peer->in = in; /* first, so that dropping the old one is no loss of the peer */
        in_drop(old, false);
    }
    peer->in = in;
    /* It lives: no reason to wait for the next dial. */
    if (peer->out == NULL) {
        peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
        dial(peer);
    }
    transport->events.greeted(transport->events.context, peer->member.id);
    return 0;
}

static int in_frame(struct inbound *in, const struct frame *frame)
{
    struct transport *transport = in->transport;
    struct frame_message message;

    if (frame_decode(frame, &message, NULL) != 0)
        return -1;
    if (in->peer == NULL)
        return message.type == FRAME_HELLO ? in_hello(in, &message.hello)
                                           : (frame_message_close(&message), -1);
    if (message.type == FRAME_HELLO)
        return -1;
    in->peer->heard = true;
    in->peer->last_heard_us = now_us(transport);
    transport->events.message(transport->events.context, in->peer->member.id, &message);
    return 0;
}

/* Delivers whole frames; returns the bytes used, or -1 when the connection must end. */
static ssize_t in_deliver(struct inbound *in, const uint8_t *bytes, size_t length)
{
    size_t used = 0;

    while (!in->dropped) {
        struct frame frame;
        int status = frame_parse(bytes + used, length - used, &frame, NULL);
        if (status < 0 || (status > 0 && in_frame(in, &frame) != 0))
            return -1;
        if (status == 0)
            break;
        used += frame.frame_bytes;
    }
    return (ssize_t)used;
}

static void in_received(void *data, const uint8_t *bytes, size_t length)
{
    struct inbound *in = data;
    bool direct = in->buf.length == 0; /* the usual case needs no copy */
    ssize_t used;

    if (!direct)
        buf_append(&in->buf, bytes, length);
    in->in_use = true;
    used = direct ? in_deliver(in, bytes, length) : in_deliver(in, in->buf.bytes, in->buf.length);
    in->in_use = false;
    if (in->dropped) {
        in_free(in);
        return;
    }
    if (used < 0)
        in_drop(in, true);
    else if (direct)
        buf_append(&in->buf, bytes + used, length - (size_t)used);
    else
        buf_consume(&in->buf, (size_t)used);
}

static void in_closed(void *data, const struct err *err)
{
    struct inbound *in = data;

    (void)err;
    in->stream = NULL;
    in_drop(in, true);
}

static void accepted(void *data, struct network_stream *stream)
{
    struct transport *transport = data;
    struct network_events events = {NULL, NULL, in_received, in_closed};
    struct inbound *in;

    if (transport->greeting_count == TRANSPORT_GREETING_MAX) {
        transport->network->close(stream);
        return;
    }
    in = check_calloc(1, sizeof(*in));
    in->transport = transport;
    in->stream = stream;
    in->accepted_us = now_us(transport);
    buf_init(&in->buf);
    list_push_back(&transport->greeting, &in->node);
    transport->greeting_count++;
    events.data = in;
    transport->network->start(stream, &events);
}

/* ---- life ---- */

void transport_init(struct transport *transport, const struct consensus_config *config,
                    const struct transport_events *events)
{
    memset(transport, 0, sizeof(*transport));
    transport->network = config->network;
    transport->clock = config->clock;
    transport->events = *events;
    transport->member_id = config->member_id;
    snprintf(transport->cluster_id, sizeof(transport->cluster_id), "%s", config->cluster_id);
    list_init(&transport->greeting);
    for (size_t i = 0; i < config->member_count; i++) {
        struct peer *peer = &transport->peers[transport->peer_count];
        if (config->members[i].id == config->member_id)
            continue;
        peer->transport = transport;
        peer->member = config->members[i];
        peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
        transport->peer_count++;
    }
}

int transport_listen(struct transport *transport, const char *address, struct err *err)
{
    if (transport->network->listen(transport->network->context, address, accepted, transport,
                                   &transport->listener, err) != 0)
        return -1;
    for (size_t i = 0; i < transport->peer_count; i++)
        dial(&transport->peers[i]);
    return 0;
}

void transport_tick(struct transport *transport)
{
    uint64_t now = now_us(transport);
    struct list *at = transport->greeting.next;

    for (size_t i = 0; i < transport->peer_count; i++) {
        struct peer *peer = &transport->peers[i];
        if (peer->out == NULL && now >= peer->next_dial_us) {
            dial(peer);
        } else if (peer->out != NULL && !peer->out_ready &&
                   now - peer->dialled_us > UINT64_C(1000) * TRANSPORT_DIAL_TIMEOUT_MS) {
            transport->network->close(peer->out);
            out_lost(peer);
        }
    }
    while (at != &transport->greeting) {
        struct inbound *in = LIST_ITEM(at, struct inbound, node);
        at = at->next;
        if (now - in->accepted_us > UINT64_C(1000) * TRANSPORT_GREETING_MS)
            in_drop(in, false);
    }
}

void transport_close(struct transport *transport)
{
    if (transport->network == NULL)
        return;
    transport->network->listener_close(transport->listener);
    transport->listener = NULL;
    for (size_t i = 0; i < transport->peer_count; i++) {
        struct peer *peer = &transport->peers[i];
        if (peer->out != NULL)
            transport->network->close(peer->out);
        peer->out = NULL;
        peer->out_ready = false;
        if (peer->in != NULL)
            in_drop(peer->in, false);
    }
    while (!list_empty(&transport->greeting))
        in_drop(LIST_ITEM(transport->greeting.next, struct inbound, node), false);
}
