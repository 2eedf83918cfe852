/* See http_secure.h. */
#include "src/broker/daemon/http_secure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/broker/api/access.h"
#include "src/broker/daemon/credentials.h"
#include "src/net/uv_network.h"

enum {
    PIECE_BYTES = 16384,
    READ_ROUND_MS = 3, /* of reading in one round of the loop */
    LOOK_MS = 1000     /* between two looks for peers that do not read */
};

struct http_secure {
    struct broker *broker;
    struct network_ops network;
    struct network_listener *listener;
    struct list lines;  /* the oldest is the first */
    struct list hungry; /* of which bytes wait, in the order of their turns */
    size_t count;
    uv_idle_t *turns; /* of handshakes and of reading; heap, freed by the loop */
    struct clock_timer *look;
};

/* One connection: the peer's stream, and our end of the pair. */
struct line {
    struct list node, hungry_node;
    struct http_secure *secure;
    struct network_stream *stream; /* NULL: gone */
    int fd;                        /* -1: the handshake is not over */
    uv_poll_t poll;
    bool ending;             /* the answer is whole: closed when it is sent */
    uint64_t stuck_since_ms; /* bytes wait for the peer, and none are taken from the page; 0: no */
};

/* ---- ends ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct line *line = handle->data;

    close(line->fd);
    free(line);
}

/* Whatever is open of it; its memory goes when the loop has let go of the socket. */
static void line_close(struct line *line)
{
    struct http_secure *secure = line->secure;

    CHECK(secure->count > 0);
    list_remove(&line->node);
    list_remove(&line->hungry_node);
    secure->count--;
    if (line->stream != NULL)
        secure->network.close(line->stream);
    line->stream = NULL;
    if (line->fd < 0)
        free(line);
    else
        uv_close((uv_handle_t *)&line->poll, on_poll_closed);
}

static void on_closed(void *data, const struct err *err)
{
    struct line *line = data;

    (void)err;
    line->stream = NULL;
    line_close(line);
}

/* ---- the answer ---- */

/* One piece a turn of the loop. */
static void on_answer(uv_poll_t *poll, int status, int events)
{
    struct line *line = poll->data;
    const struct network_ops *network = &line->secure->network;
    uint8_t *bytes = check_alloc(PIECE_BYTES);
    ssize_t length = read(line->fd, bytes, PIECE_BYTES);

    (void)status;
    (void)events;
    if (length > 0) {
        network->send(line->stream, bytes, (size_t)length);
        if (network->unsent_bytes(line->stream) >= HTTP_SECURE_UNSENT_BYTES) {
            uv_poll_stop(poll);
            line->stuck_since_ms = broker_monotonic_ms(line->secure->broker);
        }
        return;
    }
    free(bytes);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    uv_poll_stop(poll);
    line->ending = true;
    line->stuck_since_ms = broker_monotonic_ms(line->secure->broker);
    if (network->unsent_bytes(line->stream) == 0)
        line_close(line);
}

static void on_drained(void *data)
{
    struct line *line = data;

    line->stuck_since_ms = 0;
    if (line->ending)
        line_close(line);
    else if (line->fd >= 0)
        CHECK(uv_poll_start(&line->poll, UV_READABLE, on_answer) == 0);
}

/* ---- the request ---- */

/* Requests are short: who sends more than the pair holds without reading its answers is closed. */
static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    struct line *line = data;

    if (!line->ending && write(line->fd, bytes, length) != (ssize_t)length)
        line_close(line);
}

static void on_turn(uv_idle_t *idle);

/* It waits for its turn: records of TLS that hold no byte cost computing all the same, and a peer
 * may send of them without end. */
static void on_readable(void *data)
{
    struct line *line = data;

    if (line->ending || !list_empty(&line->hungry_node))
        return;
    list_push_back(&line->secure->hungry, &line->hungry_node);
    CHECK(uv_idle_start(line->secure->turns, on_turn) == 0);
}

/* One piece of each line, round and round, for READ_ROUND_MS. */
static void read_turns(struct http_secure *secure)
{
    uint64_t begin_ms = broker_monotonic_ms(secure->broker);

    while (!list_empty(&secure->hungry) &&
           broker_monotonic_ms(secure->broker) - begin_ms < READ_ROUND_MS) {
        struct line *line = LIST_ITEM(secure->hungry.next, struct line, hungry_node);

        list_remove(&line->hungry_node);
        /* false as well when the line is closed, and gone */
        if (!line->ending && secure->network.read(line->stream))
            list_push_back(&secure->hungry, &line->hungry_node);
    }
}

/* Kinds that may see how the cluster is: all pages tell of all tenants. */
static bool may_see(const struct http_secure *secure, const struct network_peer *peer)
{
    struct tls_identity identity;

    return tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) == 0 &&
           strcmp(identity.cluster, secure->broker->config->cluster_id) == 0 &&
           (identity.kind == TLS_MONITOR || identity.kind == TLS_AUDITOR ||
            identity.kind == TLS_OPERATOR || identity.kind == TLS_REPLICA);
}

static void on_opened(void *data)
{
    struct line *line = data;
    struct http_secure *secure = line->secure;
    struct network_peer peer;
    int pair[2];

    secure->network.peer(line->stream, &peer);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        line_close(line);
        return;
    }
    line->fd = pair[0];
    line->poll.data = line;
    CHECK(uv_poll_init(secure->broker->loop, &line->poll, line->fd) == 0);
    CHECK(uv_poll_start(&line->poll, UV_READABLE, on_answer) == 0);
    http_adopt(secure->broker->http, pair[1], may_see(secure, &peer));
}

/* Peers without a certificate keep nobody out who has one. */
static bool make_room(struct http_secure *secure)
{
    for (struct list *at = secure->lines.next; at != &secure->lines; at = at->next) {
        struct line *line = LIST_ITEM(at, struct line, node);

        if (line->fd >= 0)
            continue;
        line_close(line);
        return true;
    }
    return false;
}

static void on_accepted(void *data, struct network_stream *stream)
{
    struct http_secure *secure = data;
    struct network_events events = {.opened = on_opened,
                                    .received = on_received,
                                    .closed = on_closed,
                                    .readable = on_readable,
                                    .drained = on_drained};
    struct line *line;

    if (stream == NULL)
        return;
    if (secure->count == HTTP_SECURE_MAX && !make_room(secure)) {
        secure->network.close(stream);
        return;
    }
    line = check_calloc(1, sizeof(*line));
    line->secure = secure;
    line->stream = stream;
    line->fd = -1;
    list_init(&line->hungry_node);
    list_push_back(&secure->lines, &line->node);
    secure->count++;
    events.data = line;
    secure->network.start(stream, &events);
}

/* ---- turns, and who does not read ---- */

static void on_turn(uv_idle_t *idle)
{
    struct http_secure *secure = idle->data;
    bool more = credentials_pages_turn(secure->broker->credentials);

    read_turns(secure);
    if (!more && list_empty(&secure->hungry))
        uv_idle_stop(idle);
}

/* A window of 0 bytes never ends by itself. */
static void on_look(void *data)
{
    struct http_secure *secure = data;
    uint64_t now_ms = broker_monotonic_ms(secure->broker);

    for (struct list *at = secure->lines.next, *next; at != &secure->lines; at = next) {
        struct line *line = LIST_ITEM(at, struct line, node);

        next = at->next;
        if (line->stuck_since_ms != 0 && now_ms - line->stuck_since_ms > HTTP_SECURE_STUCK_MS)
            line_close(line);
    }
    secure->broker->clock.timer_start(secure->look, (uint64_t)LOOK_MS * 1000);
}

static void on_wake(void *data)
{
    struct http_secure *secure = data;

    CHECK(uv_idle_start(secure->turns, on_turn) == 0);
}

/* ---- life ---- */

int http_secure_open(struct broker *broker, const char *address, struct http_secure **ret_secure,
                     struct err *err)
{
    struct http_secure *secure = check_calloc(1, sizeof(*secure));

    CHECK(broker->credentials != NULL && broker->http != NULL);
    secure->broker = broker;
    list_init(&secure->lines);
    list_init(&secure->hungry);
    secure->turns = check_calloc(1, sizeof(*secure->turns));
    CHECK(uv_idle_init(broker->loop, secure->turns) == 0);
    secure->turns->data = secure;
    network_uv_ops(broker->loop, &secure->network);
    credentials_wrap_pages(broker->credentials, on_wake, secure, &secure->network);
    if (secure->network.listen(secure->network.context, address, on_accepted, secure,
                               &secure->listener, err) != 0)
        return err_wrap(err, "https address"); /* the start fails, and with it the process ends */
    secure->look = broker->clock.timer_new(broker->clock.context, on_look, secure);
    on_look(secure);
    *ret_secure = secure;
    return 0;
}

static void on_idle_closed(uv_handle_t *handle)
{
    free(handle);
}

void http_secure_free(struct http_secure *secure)
{
    if (secure == NULL)
        return;
    secure->network.listener_close(secure->listener);
    secure->broker->clock.timer_free(secure->look);
    while (!list_empty(&secure->lines))
        line_close(LIST_ITEM(secure->lines.next, struct line, node));
    uv_close((uv_handle_t *)secure->turns, on_idle_closed);
    free(secure);
}
