/* Dialling, accepting, framing. See transport.h. */
#include "raft/net/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "raft/core/membership.h"
#include "raft/core/safety.h"
#include "src/base/check.h"

struct inbound {
    struct list node; /* in greeting until the hello */
    struct transport *transport;
    struct network_stream *stream; /* NULL once lost */
    struct peer *peer;
    struct buf buf;
    uint64_t accepted_us;
    uint64_t number; /* in the order of acceptance */
    bool in_use;     /* frames are being delivered: free later */
    bool answered;   /* not welcome: no frame may follow */
    bool dropped;    /* to be freed */
};

static uint64_t now_us(const struct transport *transport)
{
    return transport->clock->monotonic_us(transport->clock->context);
}

static struct peer *find_peer(const struct transport *transport, uint64_t id)
{
    for (size_t i = 0; i < transport->peer_count; i++)
        if (transport->peers[i]->member.id == id)
            return transport->peers[i];
    return NULL;
}

const struct peer *transport_peer(const struct transport *transport, uint64_t id)
{
    CHECK(transport != NULL);
    return find_peer(transport, id);
}

bool transport_connected(const struct transport *transport, uint64_t to)
{
    const struct peer *peer = find_peer(transport, to);

    CHECK(transport != NULL);
    return peer != NULL && peer->out_ready;
}

/* A certificate speaks for one member: nobody answers or calls in another's name. */
static bool stream_is(const struct transport *transport, struct network_stream *stream, uint64_t id)
{
    return transport->network->peer_is == NULL || transport->network->peer_is(stream, id);
}

static void frame_send(struct transport *transport, struct network_stream *stream,
                       const struct frame_message *message)
{
    struct buf buf;
    size_t length;
    uint8_t *bytes;

    buf_init(&buf);
    frame_encode(&buf, message);
    bytes = buf_take(&buf, &length);
    transport->network->send(stream, bytes, length);
}

/* ---- other histories ---- */

bool transport_foreign_alive(const struct transport *transport, const struct foreign *foreign)
{
    CHECK(transport != NULL);
    CHECK(foreign != NULL);
    return foreign->who.id != 0 &&
           now_us(transport) - foreign->seen_us < UINT64_C(1000) * TRANSPORT_FOREIGN_MS;
}

/* The member itself answers: nobody else does in its place. */
static void foreign_forget(struct transport *transport, const struct consensus_foreign *said)
{
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct consensus_foreign *who = &transport->foreign[i].who;
        if (who->id == said->id &&
            ((said->answers && who->answers) || strcmp(who->address, said->address) == 0))
            who->id = 0;
    }
}

/* A free one, or of one that only calls, which tells less than one that answers: any number of
 * addresses may call. */
static struct foreign *foreign_place(struct transport *transport, bool answers)
{
    struct foreign *place = NULL;

    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct foreign *foreign = &transport->foreign[i];
        if (!transport_foreign_alive(transport, foreign))
            return foreign;
        if (answers && !foreign->who.answers)
            place = foreign;
    }
    return place;
}

void transport_incarnation(struct transport *transport, const struct consensus_foreign *said)
{
    struct foreign *place = foreign_place(transport, said->answers);

    if (said->incarnation == 0 || transport->incarnation == 0 ||
        said->incarnation == transport->incarnation) {
        foreign_forget(transport, said);
        return;
    }
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct foreign *foreign = &transport->foreign[i];
        if (transport_foreign_alive(transport, foreign) && foreign->who.id == said->id &&
            foreign->who.answers == said->answers &&
            strcmp(foreign->who.address, said->address) == 0) {
            place = foreign;
            break;
        }
    }
    if (place == NULL)
        return; /* so many are told of already */
    place->who = *said;
    place->seen_us = now_us(transport);
}

static void answered_as(struct transport *transport, const struct peer *peer, uint64_t incarnation)
{
    struct consensus_foreign said = {
        .id = peer->member.id, .incarnation = incarnation, .answers = true};

    snprintf(said.address, sizeof(said.address), "%s",
             peer->dials_config ? peer->address_in_config : peer->member.address);
    transport_incarnation(transport, &said);
}

/* ---- outbound ---- */

/* True: it was open. */
static bool out_forget(struct peer *peer)
{
    bool was_ready = peer->out_ready;

    peer->out = NULL;
    peer->out_ready = false;
    peer->welcomed = false;
    buf_consume(&peer->replies, peer->replies.length);
    return was_ready;
}

/* The backoff shrinks only after a connection has lasted, so that a peer which refuses us is not
 * dialled in a hurry. */
static void out_lost(struct peer *peer)
{
    uint64_t now = now_us(peer->transport);
    bool was_ready = out_forget(peer);

    if (peer->address_in_config[0] != '\0' &&
        (!was_ready || now - peer->dialled_us < UINT64_C(1000) * TRANSPORT_BACKOFF_MAX_MS))
        peer->dials_config = !peer->dials_config;
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

    CHECK(!peer->out_ready);
    if (!stream_is(transport, peer->out, peer->member.id)) {
        transport->network->close(peer->out);
        out_lost(peer);
        return;
    }
    snprintf(hello.hello.cluster_id, sizeof(hello.hello.cluster_id), "%s", transport->cluster_id);
    hello.hello.from = transport->self.id;
    hello.hello.to = peer->member.id;
    hello.hello.incarnation = transport->incarnation;
    hello.hello.last_index = transport->events.last_index(transport->events.context);
    snprintf(hello.hello.name, sizeof(hello.hello.name), "%s", transport->self.name);
    snprintf(hello.hello.address, sizeof(hello.hello.address), "%s", transport->self.address);
    snprintf(hello.hello.contact, sizeof(hello.hello.contact), "%s", transport->self.contact);
    hello.hello.founding = transport->founding;
    hello.hello.build = transport->build;
    peer->out_ready = true;
    peer->reached = true;
    peer->reached_config = peer->dials_config;
    frame_send(transport, peer->out, &hello);
}

static void out_closed(void *data, const struct err *err)
{
    (void)err;
    out_lost(data);
}

static void out_end(struct peer *peer)
{
    peer->transport->network->close(peer->out);
    out_lost(peer);
}

/* The one thing that is said in this direction: the reply to our hello, and later, perhaps, that we
 * were removed. */
static void out_received(void *data, const uint8_t *bytes, size_t length)
{
    struct peer *peer = data;
    struct transport *transport = peer->transport;
    struct frame_message message;
    struct frame frame;
    int status = 0;

    buf_append(&peer->replies, bytes, length);
    while ((status = frame_parse(peer->replies.bytes, peer->replies.length, &frame, NULL)) > 0) {
        const struct frame_hello_reply *reply = &message.reply;
        if (frame.type != FRAME_HELLO_REPLY || frame_decode(&frame, &message, NULL) != 0)
            break;
        if (strcmp(reply->cluster_id, transport->cluster_id) == 0 &&
            reply->member_id == peer->member.id) {
            answered_as(transport, peer, reply->incarnation);
            peer->build = reply->build;
        }
        if (strcmp(reply->cluster_id, transport->cluster_id) != 0 ||
            reply->member_id != peer->member.id || reply->welcome != FRAME_WELCOME) {
            out_end(peer);
            transport->events.refused(transport->events.context, peer->member.id, reply);
            return;
        }
        peer->welcomed = true;
        buf_consume(&peer->replies, frame.frame_bytes);
    }
    if (status != 0 || peer->replies.length > TRANSPORT_REPLIES_BYTES)
        out_end(peer);
}

static void peer_dial(struct peer *peer)
{
    struct transport *transport = peer->transport;
    struct network_events events = {
        .data = peer, .opened = out_opened, .received = out_received, .closed = out_closed};
    const char *address = peer->dials_config ? peer->address_in_config : peer->member.address;

    CHECK(peer->out == NULL);
    peer->dialled_us = now_us(transport);
    peer->out = transport->network->connect(transport->network->context, address, &events);
}

/* S10: connections are there before anything is to be sent: what meets none is lost, and that may
 * be the request for a vote. */
static void dial_warm(struct peer *peer)
{
    if (safety_rule(10))
        peer_dial(peer);
}

void transport_hurry(struct transport *transport, uint64_t id)
{
    struct peer *peer = find_peer(transport, id);

    if (peer == NULL)
        return;
    peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
    if (peer->out == NULL)
        dial_warm(peer);
}

void transport_ask_anew(struct transport *transport, uint64_t id)
{
    struct peer *peer = find_peer(transport, id);

    if (peer != NULL && peer->out != NULL) {
        transport->network->close(peer->out);
        (void)out_forget(peer);
    }
    transport_hurry(transport, id);
}

void transport_dial_cold(struct transport *transport, uint64_t to)
{
    struct peer *peer = find_peer(transport, to);

    if (!safety_rule(10) && peer != NULL && peer->out == NULL &&
        now_us(transport) >= peer->next_dial_us)
        peer_dial(peer);
}

bool transport_send(struct transport *transport, uint64_t to, const struct frame_message *message)
{
    struct peer *peer = find_peer(transport, to);

    CHECK(message != NULL);
    if (peer == NULL || !peer->out_ready ||
        transport->network->unsent_bytes(peer->out) > TRANSPORT_QUEUE_MAX_BYTES)
        return false;
    frame_send(transport, peer->out, message);
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

/* Frames of this connection may be on the stack: in_received() frees it then. */
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
    CHECK(peer != NULL || transport->greeting_count > 0);
    in->dropped = true;
    if (in->stream != NULL)
        transport->network->close(in->stream);
    in->stream = NULL;
    if (peer == NULL) {
        list_remove(&in->node);
        transport->greeting_count--;
    } else if (peer->in == in) {
        peer->in = NULL;
        if (peer->stranger)
            peer->drop_us = now_us(transport) + UINT64_C(1000) * TRANSPORT_STRANGER_MS;
        if (tell)
            transport->events.inbound_lost(transport->events.context, peer->member.id);
    }
    in_free(in);
}

static struct peer *peer_new(struct transport *transport, const struct consensus_member *member)
{
    struct peer *peer;

    if (transport->peer_count == TRANSPORT_PEERS_MAX)
        return NULL;
    peer = check_calloc(1, sizeof(*peer));
    peer->transport = transport;
    peer->member = *member;
    peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
    buf_init(&peer->replies);
    for (size_t i = 0; i < transport->in_config_count; i++)
        if (transport->in_config[i].id == member->id)
            snprintf(peer->address_in_config, sizeof(peer->address_in_config), "%s",
                     transport->in_config[i].address);
    transport->peers[transport->peer_count++] = peer;
    return peer;
}

static struct peer *stranger_new(struct transport *transport, const struct frame_hello *hello)
{
    struct consensus_member member = {.id = hello->from};
    struct peer *peer;

    snprintf(member.name, sizeof(member.name), "%s", hello->name);
    snprintf(member.address, sizeof(member.address), "%s", hello->address);
    peer = peer_new(transport, &member);
    if (peer != NULL)
        peer->stranger = true;
    return peer;
}

/* The peer lives: no reason to wait for the next dial, nor for one that began while it could not be
 * reached. */
static bool out_is_outdated(const struct peer *peer)
{
    return !peer->out_ready && peer->out != NULL &&
           now_us(peer->transport) - peer->dialled_us > UINT64_C(1000) * TRANSPORT_DIAL_PATIENCE_MS;
}

static void in_adopt(struct inbound *in, struct peer *peer)
{
    struct transport *transport = in->transport;

    CHECK(in->peer == NULL);
    CHECK(transport->greeting_count > 0);
    list_remove(&in->node);
    transport->greeting_count--;
    in->peer = peer;
    if (peer->in != NULL) {
        struct inbound *old = peer->in;
        peer->in = in; /* first, so that dropping the old one is no loss of the peer */
        in_drop(old, false);
    }
    peer->in = in;
    peer->in_number = in->number;
    if (peer->stranger)
        peer->drop_us = 0;
    if (out_is_outdated(peer)) {
        transport->network->close(peer->out);
        (void)out_forget(peer);
    }
    if (peer->out == NULL) {
        peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
        dial_warm(peer);
    }
    transport->events.greeted(transport->events.context, peer->member.id);
}

/* Where it listens is its own word; where the call comes from is the network's, and finds a copy
 * that runs elsewhere. */
static void called_as(struct inbound *in, const struct frame_hello *hello)
{
    struct transport *transport = in->transport;
    struct consensus_foreign said = {.id = hello->from, .incarnation = hello->incarnation};
    struct network_peer peer;

    snprintf(said.address, sizeof(said.address), "%s", hello->address);
    if (transport->network->peer != NULL) {
        transport->network->peer(in->stream, &peer);
        snprintf(said.from, sizeof(said.from), "%s", peer.address);
    }
    transport_incarnation(transport, &said);
}

/* Two members of different incarnations hold histories that contradict each other: they never
 * exchange another frame. */
static bool incarnation_fits(struct inbound *in, const struct frame_hello *hello)
{
    struct transport *transport = in->transport;

    called_as(in, hello);
    if (hello->incarnation == transport->incarnation || hello->incarnation == 0)
        return true;
    /* Without an incarnation of its own this member takes the one of the first that greets it; a
     * question (probe) binds nobody. */
    if (transport->incarnation != 0)
        return false;
    if (hello->probe)
        return true;
    if (transport->events.adopt(transport->events.context, hello->incarnation) != 0)
        return false;
    transport->incarnation = hello->incarnation;
    return true;
}

/* Who says hello and what it is answered; NULL: it is not welcome, or only asked. */
static struct peer *hello_answer(struct inbound *in, const struct frame_hello *hello,
                                 struct frame_hello_reply *reply)
{
    struct transport *transport = in->transport;
    struct peer *peer = find_peer(transport, hello->from);

    snprintf(reply->cluster_id, sizeof(reply->cluster_id), "%s", transport->cluster_id);
    reply->member_id = transport->self.id;
    reply->incarnation = transport->incarnation;
    snprintf(reply->contact, sizeof(reply->contact), "%s", transport->self.contact);
    reply->build = transport->build;
    if (strcmp(hello->cluster_id, transport->cluster_id) != 0 || hello->to != transport->self.id ||
        hello->from == transport->self.id) {
        reply->welcome = FRAME_WELCOME_OTHER;
        return NULL;
    }
    if (peer != NULL)
        peer->build = hello->build;
    if (hello->founding != 0 || transport->founding != 0) {
        transport->events.founder(transport->events.context, hello, reply);
        return NULL;
    }
    if (!incarnation_fits(in, hello)) {
        reply->welcome = FRAME_WELCOME_OTHER;
        return NULL;
    }
    transport->events.hello(transport->events.context, hello, reply);
    if (reply->welcome != FRAME_WELCOME || hello->probe)
        return NULL;
    peer = find_peer(transport, hello->from);
    if (peer == NULL)
        peer = stranger_new(transport, hello);
    if (peer == NULL)
        reply->welcome = FRAME_WELCOME_FULL;
    if (peer == NULL)
        return NULL;
    snprintf(peer->contact, sizeof(peer->contact), "%s", hello->contact);
    peer->build = hello->build;
    return peer;
}

static int in_hello(struct inbound *in, const struct frame_hello *hello)
{
    struct frame_message message = {.type = FRAME_HELLO_REPLY};
    struct peer *peer = find_peer(in->transport, hello->from);

    if (!stream_is(in->transport, in->stream, hello->from))
        return -1;
    if (peer != NULL && !hello->probe && in->number < peer->in_number)
        return -1; /* it has dialled again since */
    peer = hello_answer(in, hello, &message.reply);
    frame_send(in->transport, in->stream, &message);
    if (peer == NULL)
        in->answered = true; /* the other end closes, or TRANSPORT_GREETING_MS end it */
    else
        in_adopt(in, peer);
    return 0;
}

/* I11: a voter that lost its disk and joins under its old id is refused by whoever knows it for a
 * voter. Until somebody has welcomed this member it may be such a one: what was said before may be
 * meant for its former self. */
static bool in_passes_over(const struct inbound *in, enum frame_type type)
{
    return in->transport->unfilled &&
           (type == FRAME_VOTE ||
            (!in->peer->welcomed && (type == FRAME_APPEND || type == FRAME_SNAPSHOT_BEGIN ||
                                     type == FRAME_SNAPSHOT_CHUNK)));
}

static int in_frame(struct inbound *in, const struct frame *frame)
{
    struct transport *transport = in->transport;
    struct frame_message message;

    if (frame_decode(frame, &message, NULL) != 0)
        return -1;
    if (in->peer == NULL && !in->answered)
        return message.type == FRAME_HELLO ? in_hello(in, &message.hello)
                                           : (frame_message_close(&message), -1);
    if (in->answered || in->peer->drop_us != 0 || message.type == FRAME_HELLO ||
        message.type == FRAME_HELLO_REPLY) {
        frame_message_close(&message);
        return -1;
    }
    in->peer->heard = true;
    in->peer->last_heard_us = now_us(transport);
    if (in_passes_over(in, message.type)) {
        frame_message_close(&message);
        return 0;
    }
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

static void inbound_accepted(void *data, struct network_stream *stream)
{
    struct transport *transport = data;
    struct network_events events = {.received = in_received, .closed = in_closed};
    struct inbound *in;

    if (stream == NULL)
        return; /* it dials again */
    /* strangers that say nothing must not keep members out: the oldest of them has had its time */
    if (transport->greeting_count == TRANSPORT_GREETING_MAX)
        in_drop(LIST_ITEM(transport->greeting.next, struct inbound, node), false);
    in = check_calloc(1, sizeof(*in));
    in->transport = transport;
    in->stream = stream;
    in->accepted_us = now_us(transport);
    in->number = ++transport->accepted_count;
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
    CHECK(transport != NULL);
    CHECK(config != NULL);
    CHECK(events != NULL);
    memset(transport, 0, sizeof(*transport));
    transport->network = config->network;
    transport->clock = config->clock;
    transport->events = *events;
    transport->build = config->build;
    snprintf(transport->cluster_id, sizeof(transport->cluster_id), "%s", config->cluster_id);
    list_init(&transport->greeting);
    transport->in_config = config->members;
    transport->in_config_count = config->member_count;
    for (size_t i = 0; i < config->member_count; i++)
        if (config->members[i].id == config->member_id)
            transport->self = config->members[i];
        else
            CHECK(peer_new(transport, &config->members[i]) != NULL);
}

bool transport_put(struct transport *transport, const struct consensus_member *member)
{
    struct peer *peer = find_peer(transport, member->id);
    bool moved;

    if (member->id == transport->self.id)
        return true;
    if (peer == NULL) {
        peer = peer_new(transport, member);
        if (peer != NULL && transport->listener != NULL)
            dial_warm(peer);
        return peer != NULL;
    }
    moved = strcmp(peer->member.address, member->address) != 0;
    peer->member = *member;
    peer->stranger = false;
    peer->drop_us = 0;
    if (!moved)
        return true;
    if (peer->out != NULL && !peer->out_ready)
        out_end(peer);
    peer->dials_config = false; /* a dial that has just ended would take the other one's turn */
    peer->backoff_ms = TRANSPORT_BACKOFF_MIN_MS;
    peer->next_dial_us = 0;
    return true;
}

void transport_keep(struct transport *transport, const struct raft_configuration *configuration)
{
    uint64_t drop_us = now_us(transport) + UINT64_C(1000) * TRANSPORT_STRANGER_MS;

    CHECK(configuration != NULL);
    for (size_t i = 0; i < transport->peer_count; i++) {
        struct peer *peer = transport->peers[i];
        if (peer->stranger || peer->drop_us != 0 ||
            membership_find(configuration, peer->member.id) != NULL)
            continue;
        peer->stranger = true;
        peer->drop_us = peer->in == NULL ? drop_us : 0;
    }
}

void transport_dismiss(struct transport *transport, uint64_t id, uint64_t index)
{
    struct peer *peer = find_peer(transport, id);
    struct frame_message message = {.type = FRAME_HELLO_REPLY};

    CHECK(id != transport->self.id);
    if (peer == NULL)
        return;
    message.reply.welcome = FRAME_WELCOME_REMOVED;
    message.reply.member_id = transport->self.id;
    message.reply.index = index;
    snprintf(message.reply.cluster_id, sizeof(message.reply.cluster_id), "%s",
             transport->cluster_id);
    if (peer->in != NULL && peer->in->stream != NULL)
        frame_send(transport, peer->in->stream, &message);
    peer->drop_us = now_us(transport) + UINT64_C(1000) * TRANSPORT_FAREWELL_MS;
}

void transport_hang_up(struct transport *transport, uint64_t id)
{
    struct peer *peer = find_peer(transport, id);

    if (peer != NULL && peer->in != NULL)
        in_drop(peer->in, true);
}

/* The peer leaves the list before its connections end: their events find no such peer. */
static void peer_free(struct peer *peer, bool tell)
{
    struct transport *transport = peer->transport;
    size_t place = 0;
    bool was_ready = peer->out_ready;

    CHECK(transport->peer_count > 0);
    while (transport->peers[place] != peer)
        place++;
    transport->peer_count--;
    memmove(&transport->peers[place], &transport->peers[place + 1],
            (transport->peer_count - place) * sizeof(transport->peers[0]));
    if (peer->out != NULL)
        transport->network->close(peer->out);
    if (peer->in != NULL)
        in_drop(peer->in, false);
    if (tell && was_ready)
        transport->events.outbound_lost(transport->events.context, peer->member.id);
    buf_close(&peer->replies);
    free(peer);
}

int transport_listen(struct transport *transport, const char *address, struct err *err)
{
    struct err failed;

    CHECK(transport != NULL);
    CHECK(address != NULL);
    if (transport->network->listen(transport->network->context, address, inbound_accepted,
                                   transport, &transport->listener, &failed) != 0)
        return err_set(err, failed.code, "raft address: %.500s", failed.text);
    for (size_t i = 0; i < transport->peer_count; i++)
        if (transport->peers[i]->out == NULL)
            dial_warm(transport->peers[i]);
    return 0;
}

void transport_tick(struct transport *transport)
{
    uint64_t now = now_us(transport);
    struct list *at = transport->greeting.next;

    /* The walk begins at the end, because a peer that goes moves those behind it. */
    for (size_t i = transport->peer_count; i-- > 0;) {
        struct peer *peer = transport->peers[i];
        if (peer->drop_us != 0 && now >= peer->drop_us)
            peer_free(peer, true);
        else if (peer->out == NULL && now >= peer->next_dial_us)
            dial_warm(peer);
        else if (peer->out != NULL && !peer->out_ready &&
                 now - peer->dialled_us > UINT64_C(1000) * TRANSPORT_DIAL_TIMEOUT_MS)
            out_end(peer);
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
    CHECK(transport != NULL);
    if (transport->network == NULL)
        return;
    transport->network->listener_close(transport->listener);
    transport->listener = NULL;
    while (transport->peer_count > 0)
        peer_free(transport->peers[0], false);
    while (!list_empty(&transport->greeting))
        in_drop(LIST_ITEM(transport->greeting.next, struct inbound, node), false);
}
