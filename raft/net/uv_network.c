/* The network table over libuv's TCP. See uv_io.h and io_ops.h.
 *
 * Flow     connect: resolve, connect, opened, received..., closed. Reads go on all the time so that the end of the other process
 *          shows at once. Writes are queued by libuv; unsent_bytes() is its queue.
 *          A name may have several addresses: the next one is dialled when one refuses, or has not answered in its part of what is
 *          left of the time that the transport gives a dial, the look-up of the name included.
 * Shapes   a stream is freed by libuv's close callback; closed or close() is the last the user hears of it. Each address needs a handle
 *          of its own, which takes the place of the one before it when that is closed. At most CONNECT_ADDRESSES_MAX, in the
 *          resolver's order.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "raft/net/transport.h"
#include "raft/uv_io.h"
#include "src/base/check.h"

enum {
    READ_BYTES = 1 << 16,
    BACKLOG = 64,
    KEEPALIVE_S = 2,
    USER_TIMEOUT_MS = 5000,
    CONNECT_ADDRESSES_MAX = 4,
};

struct network_stream {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_getaddrinfo_t resolving;
    uv_timer_t patience; /* of one that connects, while there is another address */
    uint64_t begun_ms;   /* of the loop, when it was to connect */
    struct sockaddr_storage addresses[CONNECT_ADDRESSES_MAX];
    unsigned address_count, address_next;
    unsigned handles; /* that libuv still holds */
    bool resolve_pending;
    bool renewing; /* the handle is being closed, and is opened again for the next address */
    bool connects; /* and was not accepted: `patience` is in use */
    bool closed;   /* the user has been told or has closed */
    struct network_events events;
    char address[256];
    char read_buffer[READ_BYTES];
};

struct network_listener {
    uv_tcp_t tcp;
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
};

struct write_request {
    uv_write_t write;
    struct network_stream *stream;
    uint8_t *bytes;
};

/* "host:port" or "[v6]:port" into its two parts. */
static int split_address(const char *address, char host[256], char port[16], struct err *err)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address;
    size_t length;

    if (colon == NULL || colon == address || colon[1] == '\0' || strlen(colon + 1) >= 16)
        return err_set(err, ERR_INVALID, "address %s: want host:port", address);
    length = (size_t)(colon - address);
    if (*begin == '[' && length > 2 && begin[length - 1] == ']') {
        begin++;
        length -= 2;
    }
    if (length >= 256)
        return err_set(err, ERR_INVALID, "address %s: host is too long", address);
    memcpy(host, begin, length);
    host[length] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

static void stream_free_if_done(struct network_stream *stream)
{
    if (stream->handles == 0 && !stream->resolve_pending)
        free(stream);
}

static void stream_handle_closed(uv_handle_t *handle)
{
    struct network_stream *stream = handle->data;

    CHECK(stream->handles > 0);
    stream->handles--;
    stream_free_if_done(stream);
}

static void stream_shut(struct network_stream *stream)
{
    CHECK(!stream->closed);
    stream->closed = true;
    if (stream->resolve_pending)
        uv_cancel((uv_req_t *)&stream->resolving);
    if (!stream->renewing) /* else it is being closed already */
        uv_close((uv_handle_t *)&stream->tcp, stream_handle_closed);
    if (stream->connects)
        uv_close((uv_handle_t *)&stream->patience, stream_handle_closed);
}

static void stream_fail(struct network_stream *stream, const char *what, int status)
{
    struct network_events events = stream->events;
    struct err err;

    if (stream->closed)
        return;
    err_set(&err, ERR_UNAVAILABLE, "%s %s: %s", what, stream->address, uv_strerror(status));
    stream_shut(stream);
    if (events.closed != NULL)
        events.closed(events.data, &err);
}

static struct network_stream *stream_new(uv_loop_t *loop)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    CHECK(uv_tcp_init(loop, &stream->tcp) == 0);
    stream->tcp.data = stream;
    stream->handles = 1;
    return stream;
}

/* Best effort: a stream without these options still works. */
static void stream_set_options(struct network_stream *stream)
{
    unsigned timeout_ms = USER_TIMEOUT_MS;
    uv_os_fd_t fd;

    uv_tcp_nodelay(&stream->tcp, 1);
    uv_tcp_keepalive(&stream->tcp, 1, KEEPALIVE_S);
    if (uv_fileno((uv_handle_t *)&stream->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static void stream_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct network_stream *stream = handle->data;

    (void)suggested;
    *buf = uv_buf_init(stream->read_buffer, READ_BYTES);
}

static void stream_read(uv_stream_t *tcp, ssize_t length, const uv_buf_t *buf)
{
    struct network_stream *stream = tcp->data;

    if (stream->closed)
        return;
    if (length < 0)
        stream_fail(stream, "connection with", (int)length);
    else if (length > 0)
        stream->events.received(stream->events.data, (const uint8_t *)buf->base, (size_t)length);
}

/* ---- one address after the other ---- */

static void stream_dial(struct network_stream *stream);

static void stream_renewed(uv_handle_t *handle)
{
    struct network_stream *stream = handle->data;

    stream->renewing = false;
    if (stream->closed) {
        stream_handle_closed(handle);
        return;
    }
    CHECK(uv_tcp_init(stream->patience.loop, &stream->tcp) == 0);
    stream->tcp.data = stream;
    stream_dial(stream);
}

static void stream_dial_failed(struct network_stream *stream, int status)
{
    uv_timer_stop(&stream->patience);
    if (stream->address_next == stream->address_count) {
        stream_fail(stream, "connect to", status);
        return;
    }
    stream->renewing = true;
    uv_close((uv_handle_t *)&stream->tcp, stream_renewed);
}

static void stream_impatient(uv_timer_t *timer)
{
    stream_dial_failed(timer->data, UV_ETIMEDOUT);
}

static void stream_connected(uv_connect_t *request, int status)
{
    struct network_stream *stream = request->data;

    if (stream->closed || stream->renewing)
        return;
    if (status != 0) {
        stream_dial_failed(stream, status);
        return;
    }
    uv_timer_stop(&stream->patience);
    stream_set_options(stream);
    CHECK(uv_read_start((uv_stream_t *)&stream->tcp, stream_allocate, stream_read) == 0);
    stream->events.opened(stream->events.data);
}

/* This address's part of the time that is left. */
static uint64_t dial_part_ms(const struct network_stream *stream)
{
    uint64_t gone_ms = uv_now(stream->patience.loop) - stream->begun_ms;
    uint64_t left_ms =
        gone_ms < TRANSPORT_DIAL_TIMEOUT_MS ? TRANSPORT_DIAL_TIMEOUT_MS - gone_ms : 0;

    CHECK(stream->address_next < stream->address_count);
    return left_ms / (stream->address_count - stream->address_next);
}

static void stream_dial(struct network_stream *stream)
{
    uint64_t part_ms = dial_part_ms(stream);
    const struct sockaddr_storage *address = &stream->addresses[stream->address_next];
    int status;

    stream->address_next++;
    stream->connecting.data = stream;
    status = uv_tcp_connect(&stream->connecting, &stream->tcp, (const struct sockaddr *)address,
                            stream_connected);
    if (status != 0)
        stream_dial_failed(stream, status);
    else if (stream->address_next < stream->address_count)
        uv_timer_start(&stream->patience, stream_impatient, part_ms, 0);
}

static void stream_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct network_stream *stream = request->data;
    const struct addrinfo *at;

    stream->resolve_pending = false;
    if (stream->closed) {
        uv_freeaddrinfo(found);
        stream_free_if_done(stream);
        return;
    }
    for (at = found; status == 0 && at != NULL; at = at->ai_next) {
        CHECK(at->ai_addrlen <= sizeof(stream->addresses[0]));
        if (stream->address_count < CONNECT_ADDRESSES_MAX)
            memcpy(&stream->addresses[stream->address_count++], at->ai_addr, at->ai_addrlen);
    }
    uv_freeaddrinfo(found);
    if (stream->address_count == 0)
        stream_fail(stream, "resolve", status != 0 ? status : UV_EAI_NONAME);
    else
        stream_dial(stream);
}

static struct network_stream *real_connect(void *context, const char *address,
                                           const struct network_events *events)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct network_stream *stream = stream_new(context);
    char host[256] = "", port[16] = "";

    CHECK(uv_timer_init(context, &stream->patience) == 0);
    stream->patience.data = stream;
    stream->handles++;
    stream->connects = true;
    stream->begun_ms = uv_now(context);
    stream->events = *events;
    snprintf(stream->address, sizeof(stream->address), "%s", address);
    /* An address that cannot be parsed resolves to nothing, and is reported as such. */
    (void)split_address(address, host, port, NULL);
    stream->resolving.data = stream;
    CHECK(uv_getaddrinfo(context, &stream->resolving, stream_resolved, host[0] ? host : "invalid.",
                         port[0] ? port : "0", &hints) == 0);
    stream->resolve_pending = true;
    return stream;
}

static void real_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    snprintf(stream->address, sizeof(stream->address), "peer");
    CHECK(uv_read_start((uv_stream_t *)&stream->tcp, stream_allocate, stream_read) == 0);
}

static void stream_written(uv_write_t *write, int status)
{
    struct write_request *request = write->data;
    struct network_stream *stream = request->stream;

    free(request->bytes);
    free(request);
    if (status != 0)
        stream_fail(stream, "write to", status);
}

static void real_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    struct write_request *request = check_alloc(sizeof(*request));
    uv_buf_t buf = uv_buf_init((char *)take_bytes, (unsigned)length);

    CHECK(!stream->closed);
    request->bytes = take_bytes;
    request->stream = stream;
    request->write.data = request;
    if (uv_write(&request->write, (uv_stream_t *)&stream->tcp, &buf, 1, stream_written) != 0) {
        free(take_bytes); /* the read side reports the broken connection */
        free(request);
    }
}

static size_t real_unsent_bytes(const struct network_stream *stream)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&stream->tcp);
}

static void real_describe(const struct network_stream *stream, char *text, size_t size)
{
    struct sockaddr_storage address;
    int length = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "?";

    snprintf(text, size, "%s", stream->address[0] != '\0' ? stream->address : "peer");
    if (uv_tcp_getpeername(&stream->tcp, (struct sockaddr *)&address, &length) != 0)
        return;
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

        uv_ip6_name(v6, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;

        uv_ip4_name(v4, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
    }
}

static void real_close(struct network_stream *stream)
{
    if (stream != NULL)
        stream_shut(stream);
}

static void listener_connection(uv_stream_t *server, int status)
{
    struct network_listener *listener = server->data;
    struct network_stream *stream;

    if (status != 0)
        return; /* the peer dials again */
    stream = stream_new(server->loop);
    if (uv_accept(server, (uv_stream_t *)&stream->tcp) != 0) {
        stream_shut(stream);
        return;
    }
    stream_set_options(stream);
    listener->accepted(listener->data, stream);
}

static void listener_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void real_listener_close(struct network_listener *listener)
{
    if (listener != NULL)
        uv_close((uv_handle_t *)&listener->tcp, listener_closed);
}

static int real_listen(void *context, const char *address,
                       void (*accepted)(void *data, struct network_stream *stream), void *data,
                       struct network_listener **ret_listener, struct err *err)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct network_listener *listener;
    uv_getaddrinfo_t resolving;
    char host[256], port[16];
    int status;

    if (split_address(address, host, port, err) != 0)
        return -1;
    /* Synchronous: before the loop serves anything. */
    status = uv_getaddrinfo(context, &resolving, NULL, host, port, &hints);
    if (status != 0)
        return err_set(err, ERR_INVALID, "resolve %s: %s", address, uv_strerror(status));
    listener = check_calloc(1, sizeof(*listener));
    listener->accepted = accepted;
    listener->data = data;
    CHECK(uv_tcp_init(context, &listener->tcp) == 0);
    listener->tcp.data = listener;
    status = uv_tcp_bind(&listener->tcp, resolving.addrinfo->ai_addr, 0);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&listener->tcp, BACKLOG, listener_connection);
    uv_freeaddrinfo(resolving.addrinfo);
    if (status != 0) {
        real_listener_close(listener);
        return err_set(err, ERR_IO,
                       "raft address: cannot listen on %s: %s; give an address of this host that "
                       "nobody listens on (ss -ltnp says who does)",
                       address, uv_strerror(status));
    }
    *ret_listener = listener;
    return 0;
}

void network_uv_ops(uv_loop_t *loop, struct network_ops *ret_ops)
{
    *ret_ops = (struct network_ops){
        .context = loop,
        .listen = real_listen,
        .listener_close = real_listener_close,
        .connect = real_connect,
        .start = real_start,
        .send = real_send,
        .unsent_bytes = real_unsent_bytes,
        .describe = real_describe,
        .close = real_close,
    };
}
