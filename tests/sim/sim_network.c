/* Byte streams between simulated nodes. See sim.h.
 *
 * Flow     a piece sent is delivered whole after a latency, never before an earlier piece of its stream. While the link is down it
 *          waits; after SIM_STALL_US both ends are told. What arrives at a stopped process waits for it.
 * Shapes   a stream lives until its owner is done with it, nothing of it is under way and it is not being dialled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "tests/sim/sim.h"

enum {
    SIM_STALL_US = 5000000,
    SIM_RETRY_US = 50000,
    ADDRESS_BYTES = 64,
    LATE_MAX = 64,
    LATE_US = 20000 /* what took less is not late */
};

struct network_stream {
    struct sim_network *network;
    unsigned owner;
    unsigned other;
    struct network_stream *peer; /* NULL: not connected, or the other end is freed */
    struct network_events events;
    bool started;
    bool closed;  /* no event any more */
    bool dialled; /* by its owner */
    bool dialling;
    bool busy; /* one of its events is being told */
    bool gone; /* the owner's process has crashed: its memory is not there any more */
    uint64_t sent_count;
    struct piece *first, *last; /* under way, in order */
    size_t unsent;
    char address[ADDRESS_BYTES];
    struct network_stream *next, *previous;
};

struct network_listener {
    struct sim_network *network;
    unsigned owner;
    char address[ADDRESS_BYTES];
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
    struct network_listener *next;
};

struct sim_network {
    struct sim *sim;
    bool down[SIM_NODES_MAX][SIM_NODES_MAX];
    bool muted[SIM_NODES_MAX];
    bool (*is_lost[SIM_NODES_MAX])(const uint8_t *bytes, size_t length);
    struct sim_unruly unruly;
    uint64_t slow_in, slow_us;
    /* What has arrived late between nodes below late_nodes: each later than all that has arrived since, the oldest first. */
    unsigned late_nodes, late_count;
    struct {
        uint64_t at_us, took_us;
    } late[LATE_MAX];
    struct network_stream *streams;
    struct network_listener *listeners;
    struct node_context {
        struct sim_network *network;
        unsigned node;
    } contexts[SIM_NODES_MAX];
};

struct piece {
    uint8_t *bytes; /* NULL: the end of the stream */
    size_t length;
    uint64_t sent_us;
    uint64_t due_us;
    struct piece *next;
};

/* ---- life of streams ---- */

static struct network_stream *stream_new(struct sim_network *network, unsigned owner,
                                         unsigned other)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    stream->owner = owner;
    stream->other = other;
    stream->next = network->streams;
    if (stream->next != NULL)
        stream->next->previous = stream;
    network->streams = stream;
    return stream;
}

static void stream_release(struct network_stream *stream)
{
    if (!stream->closed || stream->first != NULL || stream->dialling || stream->busy)
        return;
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

/* Leaves freeing to the caller. */
static void stream_tell_closed(struct network_stream *stream)
{
    static const struct err err = {ERR_UNAVAILABLE, "simulated connection ended"};
    struct sim *sim = stream->network->sim;
    unsigned before;

    if (stream->closed)
        return;
    stream->closed = true;
    if (!stream->started || stream->events.closed == NULL)
        return;
    stream->busy = true;
    before = sim_enter(sim, stream->owner);
    stream->events.closed(stream->events.data, &err);
    sim_leave(sim, before);
    stream->busy = false;
}

static void piece_drop_first(struct network_stream *stream)
{
    struct piece *piece = stream->first;

    stream->unsent -= piece->length;
    stream->first = piece->next;
    free(piece->bytes);
    free(piece);
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

static void deliver(struct network_stream *to, const struct piece *piece)
{
    struct sim *sim;
    unsigned before;

    if (to == NULL || to->closed || !to->started)
        return;
    if (piece->bytes == NULL) {
        stream_tell_closed(to);
        stream_release(to);
        return;
    }
    sim = to->network->sim;
    if (sim_now_us(sim) - piece->sent_us >= LATE_US && to->owner < to->network->late_nodes &&
        to->other < to->network->late_nodes)
        late_note(to->network, sim_now_us(sim) - piece->sent_us);
    sim_trace_add(sim, piece->length << 5 ^ to->owner);
    to->busy = true;
    before = sim_enter(sim, to->owner);
    to->events.received(to->events.data, piece->bytes, piece->length);
    sim_leave(sim, before);
    to->busy = false;
    stream_release(to);
}

static void both_ends(struct network_stream *stream)
{
    struct network_stream *peer = stream->peer;

    while (stream->first != NULL)
        piece_drop_first(stream);
    if (peer != NULL) {
        peer->busy = true;
        stream->busy = true;
        stream_tell_closed(peer);
        peer->busy = false;
        stream->busy = false;
    }
    stream->busy = true;
    stream_tell_closed(stream);
    stream->busy = false;
    if (peer != NULL)
        stream_release(peer);
    stream_release(stream);
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
    deliver(stream->peer, stream->first);
    stream->busy = false;
    if (stream->first != NULL)
        piece_drop_first(stream);
    if (stream->first != NULL)
        pump_schedule(stream, stream->first->due_us > now ? stream->first->due_us - now : 0);
    else
        stream_release(stream);
}

static void piece_append(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    uint64_t now = sim_now_us(stream->network->sim), latency = latency_us(stream->network);
    struct piece *piece = check_alloc(sizeof(*piece));

    *piece = (struct piece){bytes, length, now, now + latency, NULL};
    stream->unsent += length;
    if (stream->first == NULL) {
        stream->first = piece;
        pump_schedule(stream, latency);
    } else {
        stream->last->next = piece;
    }
    stream->last = piece;
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
    stream_release(stream);
}

static void connect_fire(void *data);

static void connect_schedule(struct network_stream *stream, uint64_t delay_us)
{
    stream->dialling = true;
    sim_on_drop(sim_schedule(stream->network->sim, stream->owner, delay_us, connect_fire, stream),
                connect_dropped);
}

/* Both directions are needed to open a connection; over a dead link it hangs until the dialler gives up. */
static void connect_to(struct network_stream *stream, struct network_listener *listener)
{
    struct sim_network *network = stream->network;
    struct network_stream *accepted;
    uint64_t wait = sim_pause_left_us(network->sim, listener->owner);
    unsigned before;

    stream->other = listener->owner;
    if (network->down[stream->owner][stream->other] || network->down[stream->other][stream->owner])
        return;
    if (wait > 0) {
        connect_schedule(stream, wait);
        return;
    }
    accepted = stream_new(network, listener->owner, stream->owner);
    accepted->peer = stream;
    stream->peer = accepted;
    accepted->busy = true;
    before = sim_enter(network->sim, listener->owner);
    listener->accepted(listener->data, accepted);
    sim_leave(network->sim, before);
    accepted->busy = false;
    stream->events.opened(stream->events.data);
    stream_release(accepted);
}

static void connect_fire(void *data)
{
    struct network_stream *stream = data;
    struct network_listener *listener = listener_find(stream->network, stream->address);

    stream->dialling = false;
    if (!stream->closed) {
        stream->busy = true;
        if (listener == NULL)
            stream_tell_closed(stream);
        else
            connect_to(stream, listener);
        stream->busy = false;
    }
    stream_release(stream);
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
    connect_schedule(stream, latency_us(node->network));
    return stream;
}

static void network_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    stream->started = true;
}

static void network_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    const struct sim_network *network = stream->network;

    CHECK(!stream->closed);
    if (network->muted[stream->owner] || (network->is_lost[stream->owner] != NULL &&
                                          network->is_lost[stream->owner](take_bytes, length)))
        free(take_bytes);
    else
        piece_send(stream, take_bytes, length);
}

static size_t network_unsent_bytes(const struct network_stream *stream)
{
    return stream->unsent;
}

static void network_close(struct network_stream *stream)
{
    if (stream == NULL)
        return;
    CHECK(!stream->closed);
    stream->closed = true;
    if (stream->peer != NULL)
        piece_append(stream, NULL, 0);
    stream_release(stream);
}

void sim_node_network(struct sim *sim, unsigned node, struct network_ops *ret_ops)
{
    *ret_ops = (struct network_ops){
        .context = &sim_network_of(sim)->contexts[node],
        .listen = network_listen,
        .listener_close = network_listener_close,
        .connect = network_connect,
        .start = network_start,
        .send = network_send,
        .unsent_bytes = network_unsent_bytes,
        .close = network_close,
    };
}

/* ---- faults ---- */

void sim_link_set(struct sim *sim, unsigned from, unsigned to, bool up)
{
    sim_network_of(sim)->down[from][to] = !up;
}

bool sim_link_up(struct sim *sim, unsigned from, unsigned to)
{
    return !sim_network_of(sim)->down[from][to];
}

void sim_mute(struct sim *sim, unsigned node)
{
    sim_network_of(sim)->muted[node] = true;
}

void sim_network_set_unruly(struct sim *sim, const struct sim_unruly *unruly)
{
    sim_network_of(sim)->unruly = *unruly;
}

void sim_network_lose(struct sim *sim, unsigned node,
                      bool (*is_lost)(const uint8_t *bytes, size_t length))
{
    sim_network_of(sim)->is_lost[node] = is_lost;
}

void sim_network_set_latency(struct sim *sim, uint64_t slow_in, uint64_t slow_us)
{
    sim_network_of(sim)->slow_in = slow_in;
    sim_network_of(sim)->slow_us = slow_us;
}

/* Told from events of their own: the list changes while they are told. */
struct reset {
    struct sim_network *network;
    unsigned a, b;
};

static bool reset_one(const struct reset *reset)
{
    for (struct network_stream *stream = reset->network->streams; stream != NULL;
         stream = stream->next)
        if (!stream->closed && stream->peer != NULL &&
            ((stream->owner == reset->a && stream->other == reset->b) ||
             (stream->owner == reset->b && stream->other == reset->a))) {
            struct network_stream *peer = stream->peer;
            stream->peer = NULL;
            peer->peer = NULL;
            stream_tell_closed(stream);
            peer->busy = true;
            stream_release(stream);
            stream_tell_closed(peer);
            peer->busy = false;
            stream_release(peer);
            return true;
        }
    return false;
}

void sim_reset_connections(struct sim *sim, unsigned a, unsigned b)
{
    const struct reset reset = {sim_network_of(sim), a, b};

    while (reset_one(&reset))
        ;
}

/* The process has gone, its memory too: its ends are silent, the others hear the end of the stream. */
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
        stream_release(stream);
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
        while (stream->first != NULL)
            piece_drop_first(stream);
        free(stream);
    }
    while (network->listeners != NULL) {
        struct network_listener *listener = network->listeners;
        network->listeners = listener->next;
        free(listener);
    }
    free(network);
}
