/* Byte streams between simulated nodes. See sim.h.
 *
 * Flow     a piece sent is delivered after a latency, never before an earlier piece of its stream. While the link is down it
 *          waits; after SIM_STALL_US both ends are told. Streams are kept until the end of the world, so events may point at them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/unit/raft/sim.h"

enum { SIM_STALL_US = 5000000, SIM_RETRY_US = 50000, ADDRESS_BYTES = 64 };

struct network_stream {
    struct sim_network *network;
    unsigned owner;
    unsigned other;
    struct network_stream *peer; /* NULL until connected */
    struct network_events events;
    bool started;
    bool closed;                /* no event any more */
    struct piece *first, *last; /* under way, in order */
    size_t unsent;
    char address[ADDRESS_BYTES];
    struct network_stream *next;
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

static void piece_drop_first(struct network_stream *stream)
{
    struct piece *piece = stream->first;

    stream->unsent -= piece->length;
    stream->first = piece->next;
    free(piece->bytes);
    free(piece);
}

static struct network_stream *stream_new(struct sim_network *network, unsigned owner,
                                         unsigned other)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    stream->owner = owner;
    stream->other = other;
    stream->next = network->streams;
    network->streams = stream;
    return stream;
}

static void stream_tell_closed(struct network_stream *stream)
{
    struct err err = {ERR_UNAVAILABLE, "simulated connection ended"};

    if (stream->closed)
        return;
    stream->closed = true;
    if (stream->started && stream->events.closed != NULL)
        stream->events.closed(stream->events.data, &err);
}

static uint64_t latency_us(struct sim *sim)
{
    return sim_random(sim, 200) == 0 ? 10000 + sim_random(sim, 100000) : 50 + sim_random(sim, 950);
}

static void both_ends(struct network_stream *stream)
{
    stream_tell_closed(stream);
    if (stream->peer != NULL)
        stream_tell_closed(stream->peer);
}

static void pump(void *data);

/* Owned by nobody: a crash of the sender does not call back what is under way. */
static void pump_schedule(struct network_stream *stream, uint64_t delay_us)
{
    (void)sim_schedule(stream->network->sim, SIM_NODES_MAX, delay_us, pump, stream);
}

static void deliver(struct network_stream *to, const struct piece *piece)
{
    if (to == NULL || to->closed || !to->started)
        return;
    if (piece->bytes == NULL)
        stream_tell_closed(to);
    else
        to->events.received(to->events.data, piece->bytes, piece->length);
}

static void pump(void *data)
{
    struct network_stream *stream = data;
    struct sim_network *network = stream->network;
    uint64_t now = sim_now_us(network->sim);

    if (network->down[stream->owner][stream->other]) {
        if (now - stream->first->sent_us < SIM_STALL_US) {
            pump_schedule(stream, SIM_RETRY_US);
            return;
        }
        while (stream->first != NULL)
            piece_drop_first(stream);
        both_ends(stream);
        return;
    }
    deliver(stream->peer, stream->first);
    piece_drop_first(stream);
    if (stream->first != NULL)
        pump_schedule(stream, stream->first->due_us > now ? stream->first->due_us - now : 0);
}

static void piece_send(struct network_stream *stream, uint8_t *bytes, size_t length)
{
    uint64_t now = sim_now_us(stream->network->sim), latency = latency_us(stream->network->sim);
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

static void connect_fire(void *data)
{
    struct network_stream *stream = data, *accepted;
    struct sim_network *network = stream->network;
    struct network_listener *listener = listener_find(network, stream->address);

    if (stream->closed)
        return;
    if (listener == NULL) {
        stream_tell_closed(stream);
        return;
    }
    stream->other = listener->owner;
    if (network->down[stream->owner][stream->other] || network->down[stream->other][stream->owner])
        return; /* hangs; the dialler gives up */
    accepted = stream_new(network, listener->owner, stream->owner);
    accepted->peer = stream;
    stream->peer = accepted;
    listener->accepted(listener->data, accepted);
    stream->events.opened(stream->events.data);
}

static struct network_stream *network_connect(void *context, const char *address,
                                              const struct network_events *events)
{
    struct node_context *node = context;
    struct network_stream *stream = stream_new(node->network, node->node, node->node);

    stream->events = *events;
    stream->started = true;
    snprintf(stream->address, sizeof(stream->address), "%s", address);
    (void)sim_schedule(node->network->sim, node->node, latency_us(node->network->sim), connect_fire,
                       stream);
    return stream;
}

static void network_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    stream->started = true;
}

static void network_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    CHECK(!stream->closed);
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
        piece_send(stream, NULL, 0);
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

void sim_reset_connections(struct sim *sim, unsigned a, unsigned b)
{
    struct network_stream *next = sim_network_of(sim)->streams;

    while (next != NULL) {
        struct network_stream *stream = next;
        next = next->next;
        if (stream->peer != NULL && ((stream->owner == a && stream->other == b) ||
                                     (stream->owner == b && stream->other == a)))
            stream_tell_closed(stream);
    }
}

/* The process has gone, its memory too: its ends are silent, the others hear the end of the stream. */
void sim_network_crash(struct sim_network *network, unsigned node)
{
    struct network_listener **at = &network->listeners;

    for (struct network_stream *stream = network->streams; stream != NULL; stream = stream->next)
        if (stream->owner == node && !stream->closed) {
            stream->closed = true;
            if (stream->peer != NULL)
                piece_send(stream, NULL, 0);
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
