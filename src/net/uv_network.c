/* The network table over libuv's streams. See uv_network.h.
 *
 * Flow     connect: resolve, connect, opened, received..., closed. What is sent is given to the
 *          kernel at once, and what that does not take to libuv; unsent_bytes() is libuv's queue.
 * Reading  libuv asks for a buffer, reads and reports in one go, so one buffer serves all streams.
 *          Without a buffer it only reports that there is something to read: read() then reads the
 *          socket itself, since libuv cannot be asked to.
 * Shapes   a stream is freed by libuv's close callback; closed or close() is the last the user
 *          hears of it. Each address of a name needs a handle of its own, which takes the place of
 *          the one before it when that is closed.
 */
#include "src/net/uv_network.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/check.h"
#include "src/net/address.h"
#include "src/net/uv_internal.h"

enum { HANDED_BYTES = 1 << 16, KEEPALIVE_S = 2 };

/* What a stream needs that dials, until it is open. */
struct dial {
    struct network_stream *stream;
    uv_connect_t connecting;
    uv_getaddrinfo_t resolving;
    uv_timer_t patience; /* while there is another address, or nothing more to wait for */
    uint64_t begun_ms;   /* of the loop */
    struct sockaddr_storage addresses[NETWORK_ADDRESSES_MAX];
    unsigned address_count, address_next;
    int failed; /* what the next look at this address says: an error of libuv, or 0 */
    bool resolve_pending;
    bool named;    /* the user does not know the addresses */
    bool is_over;  /* one of them has answered */
    bool refused;  /* one of them, whatever the next ones say */
    bool renewing; /* the handle is being closed, and is opened again for the next address */
};

struct network_stream {
    union net_socket uv;
    struct network_events events;
    struct dial *dial; /* NULL: accepted */
    unsigned handles;  /* that libuv still holds */
    bool watchful, local;
    bool unread;  /* the user knows that bytes wait, and has not read them all */
    bool stopped; /* so libuv does not look */
    bool closed;  /* the user has been told or has closed */
};

struct write_request {
    uv_write_t write;
    struct network_stream *stream;
    uint8_t *bytes;
};

/* In use while received() is told. Who is told may run another loop meanwhile (a blocking call of a
 * client in the middle of a stream), whose streams then take a buffer of their own. */
static _Thread_local uint8_t handed[HANDED_BYTES];
static _Thread_local bool handed_in_use;

static uint8_t *buffer_take(void)
{
    if (handed_in_use)
        return check_alloc(HANDED_BYTES);
    handed_in_use = true;
    return handed;
}

static void buffer_give_back(uint8_t *buffer)
{
    if (buffer == handed)
        handed_in_use = false;
    else
        free(buffer);
}

/* libuv writes without MSG_NOSIGNAL, so a peer that is gone would end the process. */
static void sigpipe_ignore(void)
{
    static _Thread_local bool ignored;
    struct sigaction action;

    if (!ignored && sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    ignored = true;
}

static void stream_free_if_done(struct network_stream *stream)
{
    if (stream->handles > 0 || (stream->dial != NULL && stream->dial->resolve_pending))
        return;
    free(stream->dial);
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
    struct dial *dial = stream->dial;

    CHECK(!stream->closed);
    stream->closed = true;
    if (dial != NULL && dial->resolve_pending)
        uv_cancel((uv_req_t *)&dial->resolving);
    if (dial == NULL || !dial->renewing) /* else it is being closed already */
        uv_close(&stream->uv.handle, stream_handle_closed);
    if (dial != NULL)
        uv_close((uv_handle_t *)&dial->patience, stream_handle_closed);
}

/* " (10.0.0.1)": the address of a name; "": the user knows it, or there was none. */
static const char *dialled_number(const struct network_stream *stream, char text[64])
{
    const struct dial *dial = stream->dial;
    const struct sockaddr *address;
    char number[INET6_ADDRSTRLEN];

    if (dial == NULL || !dial->named || dial->is_over || dial->address_next == 0)
        return "";
    address = (const struct sockaddr *)&dial->addresses[dial->address_next - 1];
    if (uv_ip_name(address, number, sizeof(number)) != 0)
        return "";
    snprintf(text, 64, " (%s)", number);
    return text;
}

/* A refusal is the word of the other system that nobody is there. All else may have come from in
 * between, or from here. A name may have addresses that no way leads to beside the good one. */
static enum err_code code_of(const struct network_stream *stream, int status)
{
    if (stream->dial != NULL && stream->dial->refused && !stream->dial->is_over)
        return ERR_NOBODY;
    switch (status) {
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_EPIPE:
        return ERR_UNAVAILABLE;
    default:
        return ERR_TIMEOUT;
    }
}

static void stream_fail(struct network_stream *stream, int status)
{
    struct network_events events = stream->events;
    char number[64];
    struct err err;

    if (stream->closed)
        return;
    err_set(&err, code_of(stream, status), "%s%s",
            status == UV_EOF ? "connection closed by peer" : uv_strerror(status),
            dialled_number(stream, number));
    stream_shut(stream);
    if (events.closed != NULL)
        events.closed(events.data, &err);
}

int net_socket_init(uv_loop_t *loop, bool local, union net_socket *ret_socket)
{
    return local ? uv_pipe_init(loop, &ret_socket->pipe, 0) : uv_tcp_init(loop, &ret_socket->tcp);
}

static struct network_stream *stream_new(uv_loop_t *loop, bool local, bool watchful)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    sigpipe_ignore();
    CHECK(net_socket_init(loop, local, &stream->uv) == 0);
    stream->uv.handle.data = stream;
    stream->handles = 1;
    stream->local = local;
    stream->watchful = watchful;
    return stream;
}

/* Best effort: a stream without these options still works. */
static void stream_set_options(struct network_stream *stream)
{
    unsigned timeout_ms = NETWORK_USER_TIMEOUT_MS;
    uv_os_fd_t fd;

    if (stream->local)
        return;
    uv_tcp_nodelay(&stream->uv.tcp, 1);
    if (!stream->watchful)
        return;
    uv_tcp_keepalive(&stream->uv.tcp, 1, KEEPALIVE_S);
    if (uv_fileno(&stream->uv.handle, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* ---- reading ---- */

static void stream_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct network_stream *stream = handle->data;

    (void)suggested;
    *buf = stream->events.readable == NULL ? uv_buf_init((char *)buffer_take(), HANDED_BYTES)
                                           : uv_buf_init(NULL, 0);
}

static void stream_readable(struct network_stream *stream)
{
    stream->unread = true;
    stream->events.readable(stream->events.data);
    if (stream->closed || !stream->unread)
        return;
    uv_read_stop(&stream->uv.stream);
    stream->stopped = true;
}

static void stream_read(uv_stream_t *uv, ssize_t length, const uv_buf_t *buf)
{
    struct network_stream *stream = uv->data;
    uint8_t *buffer = (uint8_t *)buf->base;

    if (stream->closed)
        ; /* nobody listens */
    else if (length == UV_ENOBUFS)
        stream_readable(stream);
    else if (length < 0)
        stream_fail(stream, (int)length);
    else if (length > 0)
        stream->events.received(stream->events.data, buffer, (size_t)length);
    if (buffer != NULL)
        buffer_give_back(buffer);
}

static void stream_read_start(struct network_stream *stream)
{
    stream->stopped = false;
    CHECK(uv_read_start(&stream->uv.stream, stream_allocate, stream_read) == 0);
}

static bool real_read(struct network_stream *stream)
{
    uint8_t *buffer = buffer_take();
    ssize_t length;
    uv_os_fd_t fd;
    int error;

    CHECK(stream->unread && !stream->closed);
    CHECK(uv_fileno(&stream->uv.handle, &fd) == 0);
    do {
        length = recv(fd, buffer, NETWORK_READ_BYTES, MSG_DONTWAIT);
    } while (length < 0 && errno == EINTR);
    error = errno;
    if (length > 0)
        stream->events.received(stream->events.data, buffer, (size_t)length);
    buffer_give_back(buffer);
    if (length == 0)
        stream_fail(stream, UV_EOF);
    else if (length < 0 && error != EAGAIN && error != EWOULDBLOCK)
        stream_fail(stream, uv_translate_sys_error(error));
    if (stream->closed)
        return false;
    stream->unread = length == NETWORK_READ_BYTES;
    if (!stream->unread && stream->stopped)
        stream_read_start(stream);
    return stream->unread;
}

/* ---- dialling, one address after the other ---- */

static void stream_dial(struct network_stream *stream);

static void stream_renewed(uv_handle_t *handle)
{
    struct network_stream *stream = handle->data;

    stream->dial->renewing = false;
    if (stream->closed) {
        stream_handle_closed(handle);
        return;
    }
    CHECK(uv_tcp_init(stream->dial->patience.loop, &stream->uv.tcp) == 0);
    stream->uv.handle.data = stream;
    stream_dial(stream);
}

static void stream_dial_failed(struct network_stream *stream, int status)
{
    struct dial *dial = stream->dial;

    uv_timer_stop(&dial->patience);
    dial->refused |= status == UV_ECONNREFUSED;
    if (dial->address_next == dial->address_count) {
        stream_fail(stream, status);
        return;
    }
    dial->renewing = true;
    uv_close(&stream->uv.handle, stream_renewed);
}

static void stream_impatient(uv_timer_t *timer)
{
    struct network_stream *stream = timer->data;

    stream_dial_failed(stream, stream->dial->failed != 0 ? stream->dial->failed : UV_ETIMEDOUT);
}

static void stream_connected(uv_connect_t *request, int status)
{
    struct network_stream *stream = request->data;

    if (stream->closed || stream->dial->renewing)
        return;
    if (status != 0) {
        stream_dial_failed(stream, status);
        return;
    }
    uv_timer_stop(&stream->dial->patience);
    stream->dial->is_over = true;
    stream_set_options(stream);
    stream_read_start(stream);
    stream->events.opened(stream->events.data);
}

/* This address's part of the time that is left. */
static uint64_t dial_part_ms(const struct dial *dial)
{
    uint64_t gone_ms = uv_now(dial->patience.loop) - dial->begun_ms;
    uint64_t left_ms = gone_ms < NETWORK_DIAL_MS ? NETWORK_DIAL_MS - gone_ms : 0;

    CHECK(dial->address_next < dial->address_count);
    return left_ms / (dial->address_count - dial->address_next);
}

static void stream_dial(struct network_stream *stream)
{
    struct dial *dial = stream->dial;
    uint64_t part_ms = dial_part_ms(dial);
    const struct sockaddr_storage *address = &dial->addresses[dial->address_next++];

    dial->failed = uv_tcp_connect(&dial->connecting, &stream->uv.tcp,
                                  (const struct sockaddr *)address, stream_connected);
    if (dial->failed != 0) /* the user hears of it from the loop */
        uv_timer_start(&dial->patience, stream_impatient, 0, 0);
    else if (dial->address_next < dial->address_count)
        uv_timer_start(&dial->patience, stream_impatient, part_ms, 0);
}

static void dial_take(struct dial *dial, const struct addrinfo *found)
{
    for (; found != NULL && dial->address_count < NETWORK_ADDRESSES_MAX; found = found->ai_next) {
        CHECK(found->ai_addrlen <= sizeof(dial->addresses[0]));
        memcpy(&dial->addresses[dial->address_count++], found->ai_addr, found->ai_addrlen);
    }
}

static void stream_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct network_stream *stream = request->data;
    struct dial *dial = stream->dial;

    dial->resolve_pending = false;
    if (!stream->closed && status == 0)
        dial_take(dial, found);
    uv_freeaddrinfo(found);
    if (stream->closed)
        stream_free_if_done(stream);
    else if (dial->address_count == 0)
        stream_fail(stream, status != 0 ? status : UV_EAI_NONAME);
    else
        stream_dial(stream);
}

/* Numbers need no look-up. */
static bool dial_numeric(struct dial *dial, const struct network_address *address)
{
    struct sockaddr_storage *numeric = &dial->addresses[0];

    if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)numeric) != 0 &&
        uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)numeric) != 0)
        return false;
    dial->address_count = 1;
    return true;
}

static void stream_find(struct network_stream *stream, const struct network_address *address)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct dial *dial = stream->dial;
    char port[8];

    snprintf(port, sizeof(port), "%u", address->port);
    if (dial_numeric(dial, address)) {
        stream_dial(stream);
        return;
    }
    dial->named = true;
    dial->failed = uv_getaddrinfo(dial->patience.loop, &dial->resolving, stream_resolved,
                                  address->host, port, &hints);
    dial->resolve_pending = dial->failed == 0;
    if (dial->failed != 0)
        uv_timer_start(&dial->patience, stream_impatient, 0, 0);
}

/* An address that is none fails from the loop like any other: callers have one way to hear of
 * it. */
static struct network_stream *stream_connect(uv_loop_t *loop, const char *text, bool watchful,
                                             const struct network_events *events)
{
    struct network_address address = {.local = false};
    int parsed = network_address_parse(text, &address, NULL);
    struct network_stream *stream = stream_new(loop, address.local, watchful);
    struct dial *dial = check_calloc(1, sizeof(*dial));

    stream->events = *events;
    stream->dial = dial;
    CHECK(uv_timer_init(loop, &dial->patience) == 0);
    dial->patience.data = stream;
    dial->resolving.data = stream;
    dial->connecting.data = stream;
    stream->handles++;
    dial->begun_ms = uv_now(loop);
    if (parsed != 0) {
        dial->failed = UV_EINVAL;
        uv_timer_start(&dial->patience, stream_impatient, 0, 0);
    } else if (address.local) {
        uv_pipe_connect(&dial->connecting, &stream->uv.pipe, address.host, stream_connected);
    } else {
        stream_find(stream, &address);
    }
    return stream;
}

static struct network_stream *real_connect(void *context, const char *address,
                                           const struct network_events *events)
{
    return stream_connect(context, address, false, events);
}

static struct network_stream *watchful_connect(void *context, const char *address,
                                               const struct network_events *events)
{
    return stream_connect(context, address, true, events);
}

struct network_stream *net_stream_accept(uv_stream_t *listener, bool local, bool watchful)
{
    struct network_stream *stream = stream_new(listener->loop, local, watchful);

    if (uv_accept(listener, &stream->uv.stream) != 0) {
        stream_shut(stream);
        return NULL;
    }
    stream_set_options(stream);
    return stream;
}

static void real_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    stream_read_start(stream);
}

/* ---- writing ---- */

static void stream_written(uv_write_t *write, int status)
{
    struct write_request *request = write->data;
    struct network_stream *stream = request->stream;

    free(request->bytes);
    free(request);
    if (status != 0)
        stream_fail(stream, status);
    else if (!stream->closed && stream->events.drained != NULL &&
             uv_stream_get_write_queue_size(&stream->uv.stream) == 0)
        stream->events.drained(stream->events.data);
}

static void real_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    uv_buf_t buf = uv_buf_init((char *)take_bytes, (unsigned)length);
    int written = uv_try_write(&stream->uv.stream, &buf, 1);
    struct write_request *request;

    CHECK(!stream->closed);
    if (written > 0 && (size_t)written == length) {
        free(take_bytes);
        return;
    }
    if (written < 0)
        written = 0; /* an error comes again, from the loop */
    request = check_alloc(sizeof(*request));
    request->bytes = take_bytes;
    request->stream = stream;
    request->write.data = request;
    buf = uv_buf_init((char *)take_bytes + written, (unsigned)(length - (size_t)written));
    if (uv_write(&request->write, &stream->uv.stream, &buf, 1, stream_written) != 0) {
        free(take_bytes); /* the read side reports the broken connection */
        free(request);
    }
}

static size_t real_unsent_bytes(const struct network_stream *stream)
{
    return uv_stream_get_write_queue_size(&stream->uv.stream);
}

static void real_finish(struct network_stream *stream)
{
    uv_os_fd_t fd;

    if (uv_fileno(&stream->uv.handle, &fd) == 0)
        (void)shutdown(fd, SHUT_WR);
}

void net_stream_close(struct network_stream *stream)
{
    if (stream != NULL)
        stream_shut(stream);
}

/* ---- who is there ---- */

static void peer_credentials(const struct network_stream *stream, struct network_peer *ret_peer)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    uv_os_fd_t fd;

    snprintf(ret_peer->address, sizeof(ret_peer->address), "unix");
    if (uv_fileno(&stream->uv.handle, &fd) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
        ret_peer->pid = credentials.pid;
        ret_peer->uid = credentials.uid;
        ret_peer->gid = credentials.gid;
    }
}

static void real_peer(const struct network_stream *stream, struct network_peer *ret_peer)
{
    struct sockaddr_storage address;
    int length = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "?";

    /* nobody's ids until the kernel has told */
    *ret_peer = (struct network_peer){
        .address = "peer", .local = stream->local, .pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1};
    if (stream->local) {
        peer_credentials(stream, ret_peer);
        return;
    }
    if (uv_tcp_getpeername(&stream->uv.tcp, (struct sockaddr *)&address, &length) != 0)
        return;
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

        uv_ip6_name(v6, host, sizeof(host));
        snprintf(ret_peer->address, sizeof(ret_peer->address), "[%s]:%u", host,
                 ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;

        uv_ip4_name(v4, host, sizeof(host));
        snprintf(ret_peer->address, sizeof(ret_peer->address), "%s:%u", host, ntohs(v4->sin_port));
    }
}

/* ---- the tables ---- */

void network_uv_ops(uv_loop_t *loop, struct network_ops *ret_ops)
{
    *ret_ops = (struct network_ops){
        .context = loop,
        .listen = net_listener_listen,
        .listener_close = net_listener_close,
        .port = net_listener_port,
        .connect = real_connect,
        .start = real_start,
        .read = real_read,
        .send = real_send,
        .unsent_bytes = real_unsent_bytes,
        .finish = real_finish,
        .peer = real_peer,
        .close = net_stream_close,
    };
}

void network_uv_watchful_ops(uv_loop_t *loop, struct network_ops *ret_ops)
{
    network_uv_ops(loop, ret_ops);
    ret_ops->listen = net_listener_listen_watchful;
    ret_ops->connect = watchful_connect;
}
