/* A network table that can be cut. See cut_network.h. */
#include "src/net/cut_network.h"

#include <stdlib.h>

#include "src/base/check.h"

struct cut_stream {
    struct list node;
    struct cut_network *network;
    struct network_stream *below;
    struct network_events events; /* its user's */
    bool listens;                 /* events are wanted: dialled, or started */
    bool open; /* bytes may come; false: it is being dialled, or was not started */
};

/* Handed out by `accepted`, as the user knows them. */
struct cut_listener {
    struct cut_network *network;
    struct network_listener *below;
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
};

static struct cut_stream *stream_of(const struct network_stream *handle)
{
    return (struct cut_stream *)(uintptr_t)handle;
}

static struct network_stream *handle_of(struct cut_stream *stream)
{
    return (struct network_stream *)stream;
}

static struct cut_stream *stream_new(struct cut_network *network)
{
    struct cut_stream *stream = check_calloc(1, sizeof(*stream));

    stream->network = network;
    list_push_back(&network->streams, &stream->node);
    return stream;
}

static void stream_free(struct cut_stream *stream)
{
    list_remove(&stream->node);
    free(stream);
}

/* Its user hears that the other end is gone. */
static void stream_end(struct cut_stream *stream)
{
    const struct network_events events = stream->events;
    bool told = stream->listens;
    struct err err;

    stream->network->below.close(stream->below);
    stream_free(stream);
    (void)err_set(&err, ERR_TIMEOUT, "a drill has cut this member off");
    if (told)
        events.closed(events.data, &err);
}

/* ---- events from below ---- */

static void stream_opened(struct cut_stream *stream)
{
    stream->open = true;
    if (stream->events.opened != NULL)
        stream->events.opened(stream->events.data);
}

static void on_opened(void *data)
{
    struct cut_stream *stream = data;

    if (stream->network->off)
        stream_end(stream);
    else
        stream_opened(stream);
}

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    const struct cut_stream *stream = data;

    stream->events.received(stream->events.data, bytes, length);
}

static void on_closed(void *data, const struct err *err)
{
    struct cut_stream *stream = data;
    const struct network_events events = stream->events;

    stream_free(stream);
    events.closed(events.data, err);
}

static void on_readable(void *data)
{
    const struct cut_stream *stream = data;

    stream->events.readable(stream->events.data);
}

static void on_drained(void *data)
{
    const struct cut_stream *stream = data;

    stream->events.drained(stream->events.data);
}

/* Events that the user does not want are not asked for either: `readable` changes how a stream is
 * read. */
static struct network_events events_below(struct cut_stream *stream,
                                          const struct network_events *events)
{
    stream->events = *events;
    stream->listens = true;
    return (struct network_events){.data = stream,
                                   .opened = on_opened,
                                   .received = on_received,
                                   .closed = on_closed,
                                   .readable = events->readable == NULL ? NULL : on_readable,
                                   .drained = events->drained == NULL ? NULL : on_drained};
}

/* ---- the table ---- */

static struct network_stream *cut_connect(void *context, const char *address,
                                          const struct network_events *events)
{
    struct cut_network *network = context;
    struct cut_stream *stream = stream_new(network);
    const struct network_events below = events_below(stream, events);

    stream->below = network->below.connect(network->below.context, address, &below);
    return handle_of(stream);
}

static void cut_accepted(void *data, struct network_stream *below)
{
    struct cut_listener *listener = data;
    struct cut_stream *stream;

    if (listener->network->off && below != NULL) {
        listener->network->below.close(below);
        return;
    }
    if (below == NULL) {
        listener->accepted(listener->data, NULL);
        return;
    }
    stream = stream_new(listener->network);
    stream->below = below;
    listener->accepted(listener->data, handle_of(stream));
}

static int cut_listen(void *context, const char *address,
                      void (*accepted)(void *data, struct network_stream *stream), void *data,
                      struct network_listener **ret_listener, struct err *err)
{
    struct cut_network *network = context;
    struct cut_listener *listener = check_calloc(1, sizeof(*listener));

    *listener = (struct cut_listener){.network = network, .accepted = accepted, .data = data};
    if (network->below.listen(network->below.context, address, cut_accepted, listener,
                              &listener->below, err) != 0) {
        free(listener);
        return -1;
    }
    *ret_listener = (struct network_listener *)listener;
    return 0;
}

static void cut_listener_close(struct network_listener *handle)
{
    struct cut_listener *listener = (struct cut_listener *)handle;

    if (listener == NULL)
        return;
    listener->network->below.listener_close(listener->below);
    free(listener);
}

static int cut_port(const struct network_listener *handle)
{
    const struct cut_listener *listener = (const struct cut_listener *)handle;

    return listener->network->below.port(listener->below);
}

static void cut_start(struct network_stream *handle, const struct network_events *events)
{
    struct cut_stream *stream = stream_of(handle);
    const struct network_events below = events_below(stream, events);

    stream->open = true;
    stream->network->below.start(stream->below, &below);
}

static bool cut_read(struct network_stream *handle)
{
    const struct cut_stream *stream = stream_of(handle);

    return stream->network->below.read(stream->below);
}

static void cut_send(struct network_stream *handle, uint8_t *take_bytes, size_t length)
{
    const struct cut_stream *stream = stream_of(handle);

    stream->network->below.send(stream->below, take_bytes, length);
}

static size_t cut_unsent_bytes(const struct network_stream *handle)
{
    const struct cut_stream *stream = stream_of(handle);

    return stream->network->below.unsent_bytes(stream->below);
}

static void cut_finish(struct network_stream *handle)
{
    const struct cut_stream *stream = stream_of(handle);

    stream->network->below.finish(stream->below);
}

static bool cut_peer_is(struct network_stream *handle, uint64_t member_id)
{
    const struct cut_stream *stream = stream_of(handle);

    return stream->network->below.peer_is(stream->below, member_id);
}

static void cut_peer(const struct network_stream *handle, struct network_peer *ret_peer)
{
    const struct cut_stream *stream = stream_of(handle);

    stream->network->below.peer(stream->below, ret_peer);
}

static void cut_close(struct network_stream *handle)
{
    struct cut_stream *stream = stream_of(handle);

    if (stream == NULL)
        return;
    stream->network->below.close(stream->below);
    stream_free(stream);
}

void cut_network_ops(struct cut_network *network, struct network_ops *ops)
{
    network->below = *ops;
    network->off = false;
    list_init(&network->streams);
    *ops = (struct network_ops){
        .context = network,
        .listen = cut_listen,
        .listener_close = cut_listener_close,
        .port = cut_port,
        .connect = cut_connect,
        .start = cut_start,
        .read = cut_read,
        .send = cut_send,
        .unsent_bytes = cut_unsent_bytes,
        .finish = network->below.finish == NULL ? NULL : cut_finish,
        .peer_is = network->below.peer_is == NULL ? NULL : cut_peer_is,
        .peer = cut_peer,
        .close = cut_close,
    };
}

/* From the beginning after each one: whoever hears of an end may close others, or dial anew. A new
 * one is not open yet, and ends by itself. */
static struct cut_stream *find_open(const struct cut_network *network)
{
    for (struct list *node = network->streams.next; node != &network->streams; node = node->next) {
        struct cut_stream *stream = LIST_ITEM(node, struct cut_stream, node);

        if (stream->open)
            return stream;
    }
    return NULL;
}

void cut_network_set(struct cut_network *network, bool off)
{
    struct cut_stream *stream;

    network->off = off;
    while (off && (stream = find_open(network)) != NULL)
        stream_end(stream);
}
