/* Byte streams between simulated nodes: the table of src/net/network.h. See sim.h.
 *
 * Flow     a piece sent is delivered whole after a latency, never before an earlier piece of its
 *          stream. While the link is down it waits; after SIM_STALL_US both ends are told. What
 *          arrives at a stopped process waits for it. Where an end reads by turns (gRPC's do),
 *          pieces are split as TCP may split them, and read in parts; the sender has a buffer,
 *          sometimes a small one, that its kernel takes bytes into; and of a stream that a dead
 *          link ends sometimes only the end that sent is told: the other one finds out by itself.
 * Shapes   a stream lives until its owner is done with it, nothing of it is under way and it is not
 *          being dialled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "tests/sim/sim_network_internal.h"

enum {
    SIM_STALL_US = 5000000,
    SIM_RETRY_US = 50000,
    SPLIT_IN = 32,       /* one piece in so many comes as two ... */
    READ_PART_IN = 32,   /* ... and one read in so many ends early */
    HALF_OPEN_IN = 4,    /* one stream in so many that a dead link ends */
    BUFFER_SMALL_IN = 8, /* one stream in so many has ... */
    BUFFER_SMALL_BYTES = 2048,
    BUFFER_BYTES = 128 << 10,
    LATE_US = 20000 /* what took less is not late */
};

/* ---- life of streams ---- */

static struct network_stream *stream_new(struct sim_network *network, unsigned owner,
                                         unsigned other)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    stream->owner = owner;
    stream->other = other;
    stream->buffer = BUFFER_BYTES;
    stream->next = network->streams;
    if (stream->next != NULL)
        stream->next->previous = stream;
    network->streams = stream;
    return stream;
}

static void unread_drop(struct network_stream *stream)
{
    struct piece *piece = stream->unread;

    stream->unread = piece->next;
    free(piece->bytes);
    free(piece);
}

void sim_stream_release(struct network_stream *stream)
{
    if (!stream->closed || stream->first != NULL || stream->dialling || stream->busy ||
        stream->telling)
        return;
    while (stream->unread != NULL)
        unread_drop(stream);
    if (stream->peer != NULL)
        stream->peer->peer = NULL;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        stream->network->streams = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    free(stream);
}

static bool by_turns(const struct network_stream *stream)
{
    return stream->events.readable != NULL;
}

static void stream_tell_closed_for(struct network_stream *stream, const struct err *err)
{
    struct sim *sim = stream->network->sim;
    unsigned before;

    if (stream->closed)
        return;
    stream->closed = true;
    if (!stream->started || stream->events.closed == NULL)
        return;
    stream->busy = true;
    before = sim_enter(sim, stream->owner);
    stream->events.closed(stream->events.data, err);
    sim_leave(sim, before);
    stream->busy = false;
}

void sim_stream_tell_closed(struct network_stream *stream)
{
    static const struct err err = {ERR_UNAVAILABLE, "simulated connection ended"};

    stream_tell_closed_for(stream, &err);
}

static void drained_dropped(void *data)
{
    struct network_stream *stream = data;

    stream->telling = false;
    sim_stream_release(stream);
}

static void drained_fire(void *data)
{
    struct network_stream *stream = data;

    if (!stream->closed && stream->events.drained != NULL) {
        stream->busy = true;
        stream->events.drained(stream->events.data);
        stream->busy = false;
    }
    drained_dropped(stream);
}

/* It is not under way any more. */
static struct piece *piece_take_first(struct network_stream *stream)
{
    struct piece *piece = stream->first;

    stream->unsent -= piece->length;
    stream->first = piece->next;
    if (stream->held_up && stream->unsent <= stream->buffer) {
        stream->held_up = false;
        if (!stream->closed && !stream->telling) {
            stream->telling = true;
            sim_on_drop(sim_schedule(stream->network->sim, stream->owner, 0, drained_fire, stream),
                        drained_dropped);
        }
    }
    return piece;
}

static void piece_free(struct piece *piece)
{
    free(piece->bytes);
    free(piece);
}

static void piece_drop_first(struct network_stream *stream)
{
    piece_free(piece_take_first(stream));
}

/* ---- delivery ---- */

static uint64_t latency_us(struct sim_network *network)
{
    struct sim *sim = network->sim;

    return sim_chance(sim, network->slow_in) ? 10000 + sim_random(sim, network->slow_us)
                                             : 50 + sim_random(sim, 950);
}

static void pump(void *data);

/* Owned by nobody: a crash of the sender does not call back what is under way. */
static void pump_schedule(struct network_stream *stream, uint64_t delay_us)
{
    stream->pumping = true;
    (void)sim_schedule(stream->network->sim, SIM_NODES_MAX, delay_us, pump, stream);
}

static void late_note(struct sim_network *network, uint64_t took_us)
{
    unsigned *count = &network->late_count;

    while (*count > 0 && network->late[*count - 1].took_us <= took_us)
        --*count;
    if (*count == LATE_MAX) { /* the oldest counts as if it had come with the next one */
        network->late[1].took_us = network->late[0].took_us;
        memmove(network->late, network->late + 1, --*count * sizeof(network->late[0]));
    }
    network->late[*count].at_us = sim_now_us(network->sim);
    network->late[(*count)++].took_us = took_us;
}

uint64_t sim_network_late_us(struct sim *sim, uint64_t since_us)
{
    const struct sim_network *network = sim_network_of(sim);

    for (unsigned i = 0; i < network->late_count; i++)
        if (network->late[i].at_us >= since_us)
            return network->late[i].took_us;
    return LATE_US;
}

void sim_network_watch_late(struct sim *sim, unsigned nodes)
{
    sim_network_of(sim)->late_nodes = nodes;
}

/* It reads the piece when it is its turn. */
static void keep_unread(struct network_stream *to, struct piece *piece)
{
    piece->next = NULL;
    piece->read = 0;
    if (to->unread == NULL)
        to->unread = piece;
    else
        to->unread_last->next = piece;
    to->unread_last = piece;
    if (to->told)
        return;
    to->told = true;
    to->events.readable(to->events.data);
}

/* Takes the piece. */
static void deliver(struct network_stream *to, struct piece *piece)
{
    struct sim *sim;
    unsigned before;

    if (to == NULL || to->closed || !to->started || (piece->bytes == NULL && !by_turns(to))) {
        if (to != NULL && !to->closed && to->started) {
            sim_stream_tell_closed(to);
            sim_stream_release(to);
        }
        piece_free(piece);
        return;
    }
    sim = to->network->sim;
    if (sim_now_us(sim) - piece->sent_us >= LATE_US && to->owner < to->network->late_nodes &&
        to->other < to->network->late_nodes)
        late_note(to->network, sim_now_us(sim) - piece->sent_us);
    sim_trace_add(sim, piece->length << 5 ^ to->owner);
    to->busy = true;
    before = sim_enter(sim, to->owner);
    if (by_turns(to)) {
        keep_unread(to, piece);
    } else {
        to->events.received(to->events.data, piece->bytes, piece->length);
        piece_free(piece);
    }
    sim_leave(sim, before);
    to->busy = false;
    sim_stream_release(to);
}

static void both_ends(struct network_stream *stream)
{
    struct network_stream *peer = stream->peer;

    stream->pumping = false;
    while (stream->first != NULL)
        piece_drop_first(stream);
    if (peer != NULL && by_turns(peer) && sim_chance(stream->network->sim, HALF_OPEN_IN)) {
        stream->peer = NULL;
        peer->peer = NULL;
        peer = NULL;
    }
    if (peer != NULL) {
        peer->busy = true;
        stream->busy = true;
        sim_stream_tell_closed(peer);
        peer->busy = false;
        stream->busy = false;
    }
    stream->busy = true;
    sim_stream_tell_closed(stream);
    stream->busy = false;
    if (peer != NULL)
        sim_stream_release(peer);
    sim_stream_release(stream);
}

static void pump(void *data)
{
    struct network_stream *stream = data;
    struct sim_network *network = stream->network;
    uint64_t now = sim_now_us(network->sim), wait = 0;

    sim_touches_who_it_enters(network->sim);
    if (network->down[stream->owner][stream->other]) {
        if (now - stream->first->sent_us < SIM_STALL_US)
            pump_schedule(stream, SIM_RETRY_US);
        else
            both_ends(stream);
        return;
    }
    if (stream->peer != NULL && !stream->peer->closed)
        wait = sim_pause_left_us(network->sim, stream->other);
    if (wait > 0) {
        pump_schedule(stream, wait);
        return;
    }
    stream->busy = true;
    deliver(stream->peer, piece_take_first(stream));
    stream->busy = false;
    stream->pumping = false;
    if (stream->first != NULL)
        pump_schedule(stream, stream->first->due_us > now ? stream->first->due_us - now : 0);
    else
        sim_stream_release(stream);
}

static void piece_append(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    uint64_t now = sim_now_us(stream->network->sim), latency = latency_us(stream->network);
    struct piece *piece = check_alloc(sizeof(*piece));

    *piece = (struct piece){bytes, length, 0, now, now + latency, NULL};
    stream->unsent += length;
    if (stream->first == NULL)
        stream->first = piece;
    else
        stream->last->next = piece;
    stream->last = piece;
    if (!stream->pumping)
        pump_schedule(stream, latency);
}

/* The last but one and the last change places; what is being waited for is the first. */
static void pieces_swap(struct network_stream *stream)
{
    struct piece *last = stream->last, *at = stream->first;
    uint8_t *bytes;
    size_t length;

    if (at == last || at->next == last)
        return;
    while (at->next != last)
        at = at->next;
    bytes = at->bytes, length = at->length;
    at->bytes = last->bytes, at->length = last->length;
    last->bytes = bytes, last->length = length;
}

/* As TCP may, and as its sender's kernel may take them. */
static void piece_split(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    size_t first = 1 + sim_random(stream->network->sim, length - 1);
    uint8_t *rest = check_alloc(length - first);

    memcpy(rest, bytes + first, length - first);
    piece_append(stream, bytes, first);
    piece_append(stream, rest, length - first);
}

static void piece_send_by_turns(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    if (length > 1 && sim_chance(stream->network->sim, SPLIT_IN))
        piece_split(stream, bytes, length);
    else
        piece_append(stream, bytes, length);
    stream->held_up = stream->unsent > stream->buffer;
}

static void piece_send(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    const struct sim_unruly *unruly = &stream->network->unruly;
    struct sim *sim = stream->network->sim;

    if (stream->owner >= unruly->nodes || stream->other >= unruly->nodes || !stream->dialled ||
        bytes == NULL || stream->sent_count++ == 0) {
        piece_append(stream, bytes, length);
        return;
    }
    if (sim_chance(sim, unruly->lost_in)) {
        free(bytes);
        return;
    }
    if (sim_chance(sim, unruly->doubled_in)) {
        uint8_t *copy = check_alloc(length);
        memcpy(copy, bytes, length);
        piece_append(stream, copy, length);
    }
    piece_append(stream, bytes, length);
    if (sim_chance(sim, unruly->swapped_in))
        pieces_swap(stream);
}

/* ---- the table ---- */

/* "unix:PATH#PID": the kernel would know who dials, here it says so. */
static void stream_name(struct network_stream *stream)
{
    char *pid = strchr(stream->address, '#');

    stream->by_path = strncmp(stream->address, "unix:", 5) == 0;
    if (pid == NULL)
        return;
    *pid = '\0';
    stream->pid = (pid_t)strtol(pid + 1, NULL, 10);
}

static void stream_set_buffer(struct network_stream *stream)
{
    if (by_turns(stream) && sim_chance(stream->network->sim, BUFFER_SMALL_IN))
        stream->buffer = BUFFER_SMALL_BYTES;
}

static int network_listen(void *context, const char *address,
                          void (*accepted)(void *data, struct network_stream *stream), void *data,
                          struct network_listener **ret_listener, struct err *err)
{
    struct node_context *node = context;
    struct network_listener *listener = check_calloc(1, sizeof(*listener));

    (void)err;
    listener->network = node->network;
    listener->owner = node->node;
    snprintf(listener->address, sizeof(listener->address), "%s", address);
    listener->accepted = accepted;
    listener->data = data;
    listener->next = node->network->listeners;
    node->network->listeners = listener;
    *ret_listener = listener;
    return 0;
}

static void network_listener_close(struct network_listener *listener)
{
    struct network_listener **at;

    if (listener == NULL)
        return;
    for (at = &listener->network->listeners; *at != listener; at = &(*at)->next)
        CHECK(*at != NULL);
    *at = listener->next;
    free(listener);
}

static struct network_listener *listener_find(struct sim_network *network, const char *address)
{
    struct network_listener *at = network->listeners;

    while (at != NULL && strcmp(at->address, address) != 0)
        at = at->next;
    return at;
}

static void connect_dropped(void *data)
{
    struct network_stream *stream = data;

    stream->dialling = false;
    sim_stream_release(stream);
}

static void connect_fire(void *data);

static void connect_schedule(struct network_stream *stream, uint64_t delay_us,
                             void (*next)(void *data))
{
    stream->dialling = true;
    sim_on_drop(sim_schedule(stream->network->sim, stream->owner, delay_us, next, stream),
                connect_dropped);
}

static void connect_give_up(void *data)
{
    static const struct err silent = {ERR_TIMEOUT, "simulated connection timed out"};
    struct network_stream *stream = data;

    stream->dialling = false;
    if (!stream->closed) {
        stream->busy = true;
        stream_tell_closed_for(stream, &silent);
        stream->busy = false;
    }
    sim_stream_release(stream);
}

/* Both directions are needed to open a connection; over a dead link it hangs for as long as the
 * real table waits for an address. */
static void connect_to(struct network_stream *stream, struct network_listener *listener)
{
    struct sim_network *network = stream->network;
    struct network_stream *accepted;
    uint64_t wait = sim_pause_left_us(network->sim, listener->owner);
    unsigned before;

    stream->other = listener->owner;
    if (network->down[stream->owner][stream->other] ||
        network->down[stream->other][stream->owner]) {
        connect_schedule(stream, NETWORK_DIAL_MS * 1000, connect_give_up);
        return;
    }
    if (wait > 0) {
        connect_schedule(stream, wait, connect_fire);
        return;
    }
    accepted = stream_new(network, listener->owner, stream->owner);
    accepted->peer = stream;
    accepted->by_path = stream->by_path;
    accepted->pid = stream->pid;
    stream->peer = accepted;
    accepted->busy = true;
    before = sim_enter(network->sim, listener->owner);
    listener->accepted(listener->data, accepted);
    sim_leave(network->sim, before);
    accepted->busy = false;
    stream->events.opened(stream->events.data);
    sim_stream_release(accepted);
}

static void connect_fire(void *data)
{
    static const struct err nobody = {ERR_NOBODY, "simulated connection refused"};
    struct network_stream *stream = data;
    struct network_listener *listener = listener_find(stream->network, stream->address);

    stream->dialling = false;
    if (!stream->closed) {
        stream->busy = true;
        if (listener == NULL)
            stream_tell_closed_for(stream, &nobody);
        else
            connect_to(stream, listener);
        stream->busy = false;
    }
    sim_stream_release(stream);
}

static struct network_stream *network_connect(void *context, const char *address,
                                              const struct network_events *events)
{
    struct node_context *node = context;
    struct network_stream *stream = stream_new(node->network, node->node, node->node);

    stream->events = *events;
    stream->started = true;
    stream->dialled = true;
    text_copy(stream->address, sizeof(stream->address), address);
    stream_name(stream);
    stream_set_buffer(stream);
    connect_schedule(stream, latency_us(node->network), connect_fire);
    return stream;
}

static void network_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    stream->started = true;
    stream_set_buffer(stream);
}

/* A part of the first piece, mostly all of it. The end was told when the stream is closed
 * afterwards. */
static void read_piece(struct network_stream *stream)
{
    struct sim *sim = stream->network->sim;
    struct piece *piece = stream->unread;
    size_t left = piece->length - piece->read, length = left;
    const uint8_t *bytes = piece->bytes + piece->read;

    if (piece->bytes == NULL) {
        sim_stream_tell_closed(stream);
        return;
    }
    if (left > NETWORK_READ_BYTES)
        length = NETWORK_READ_BYTES;
    if (length > 1 && sim_chance(sim, READ_PART_IN))
        length = 1 + sim_random(sim, length - 1);
    piece->read += length;
    if (length == left) /* what received() does may end the stream, and its pieces */
        stream->unread = piece->next;
    stream->events.received(stream->events.data, bytes, length);
    if (length == left)
        piece_free(piece);
}

static bool network_read(struct network_stream *stream)
{
    bool busy = stream->busy, closed;

    CHECK(stream->told && !stream->closed && stream->unread != NULL);
    stream->busy = true;
    read_piece(stream);
    stream->busy = busy;
    closed = stream->closed;
    stream->told = stream->unread != NULL;
    busy = stream->told;
    sim_stream_release(stream);
    return !closed && busy;
}

static void network_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    const struct sim_network *network = stream->network;

    CHECK(!stream->closed);
    if (network->muted[stream->owner] || (network->is_lost[stream->owner] != NULL &&
                                          network->is_lost[stream->owner](take_bytes, length)))
        free(take_bytes);
    else
        (by_turns(stream) ? piece_send_by_turns : piece_send)(stream, take_bytes, length);
}

/* Of those by turns what their kernel has not taken. */
static size_t network_unsent_bytes(const struct network_stream *stream)
{
    if (!by_turns(stream))
        return stream->unsent;
    return stream->unsent > stream->buffer ? stream->unsent - stream->buffer : 0;
}

static int network_port(const struct network_listener *listener)
{
    (void)listener;
    return -1;
}

static void network_peer(const struct network_stream *stream, struct network_peer *ret_peer)
{
    *ret_peer =
        (struct network_peer){.address = "simulated", .local = stream->by_path, .pid = stream->pid};
}

static void network_close(struct network_stream *stream)
{
    if (stream == NULL)
        return;
    CHECK(!stream->closed);
    stream->closed = true;
    if (stream->peer != NULL)
        piece_append(stream, NULL, 0);
    sim_stream_release(stream);
}

void sim_node_network(struct sim *sim, unsigned node, struct network_ops *ret_ops)
{
    *ret_ops = (struct network_ops){
        .context = &sim_network_of(sim)->contexts[node],
        .listen = network_listen,
        .listener_close = network_listener_close,
        .port = network_port,
        .connect = network_connect,
        .start = network_start,
        .read = network_read,
        .send = network_send,
        .unsent_bytes = network_unsent_bytes,
        .peer = network_peer,
        .close = network_close,
    };
}

/* ---- life ---- */

/* The process has gone, its memory too: its ends are silent, the others hear the end of the
 * stream. */
void sim_network_crash(struct sim_network *network, unsigned node)
{
    struct network_listener **at = &network->listeners;

    network->muted[node] = false;
    network->is_lost[node] = NULL;
    for (struct network_stream *stream = network->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->owner != node || stream->closed)
            continue;
        stream->closed = true;
        if (stream->peer != NULL)
            piece_append(stream, NULL, 0);
        sim_stream_release(stream);
    }
    while (*at != NULL) {
        struct network_listener *listener = *at;
        if (listener->owner == node) {
            *at = listener->next;
            free(listener);
        } else {
            at = &listener->next;
        }
    }
}

struct sim_network *sim_network_new(struct sim *sim)
{
    struct sim_network *network = check_calloc(1, sizeof(*network));

    network->sim = sim;
    network->slow_in = 200;
    network->slow_us = 100000;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        network->contexts[i] = (struct node_context){network, i};
    return network;
}

void sim_network_free(struct sim_network *network)
{
    while (network->streams != NULL) {
        struct network_stream *stream = network->streams;
        network->streams = stream->next;
        stream->closed = true;
        while (stream->first != NULL)
            piece_drop_first(stream);
        while (stream->unread != NULL)
            unread_drop(stream);
        free(stream);
    }
    while (network->listeners != NULL) {
        struct network_listener *listener = network->listeners;
        network->listeners = listener->next;
        free(listener);
    }
    free(network);
}
