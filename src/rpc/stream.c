/* Reading and writing one socket. See stream.h. */
#include "src/rpc/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/check.h"

enum { OUTPUT_KEEP_BYTES = 4096 }; /* a buffer up to this size is kept for the next record */

/* libuv writes without MSG_NOSIGNAL, so a peer that is gone would end the process. */
static void sigpipe_ignore(void)
{
    struct sigaction action;

    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

int rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, bool local,
                    struct rpc_reader *reader, const struct rpc_stream_handlers *handlers)
{
    static _Thread_local bool ignored;

    if (!ignored)
        sigpipe_ignore();
    ignored = true;
    *stream = (struct rpc_stream){.handlers = handlers, .reader = reader, .local = local};
    stream->uv.handle.data = stream;
    stream->connect.data = stream;
    stream->write.data = stream;
    list_init(&stream->shaker_node);
    list_init(&stream->reader_node);
    buf_init(&stream->early);
    return local ? uv_pipe_init(loop, &stream->uv.pipe, 0) : uv_tcp_init(loop, &stream->uv.tcp);
}

void rpc_stream_secure(struct rpc_stream *stream, const struct tls_context *context,
                       enum tls_side side, uint8_t *plain_bytes, struct rpc_shaker *shaker)
{
    CHECK(stream->tls_context == NULL && !stream->reading && !stream->local);
    stream->tls_context = context;
    stream->side = side;
    stream->plain_bytes = plain_bytes;
    stream->shaker = shaker;
    stream->secured_ms = uv_now(stream->uv.handle.loop);
}

bool rpc_stream_waits(const struct rpc_stream *stream)
{
    return !list_empty(&stream->shaker_node);
}

uint64_t rpc_stream_shaking_ms(const struct rpc_stream *stream)
{
    uint64_t now_ms = uv_now(stream->uv.handle.loop);
    uint64_t waits_ms = rpc_stream_waits(stream) ? now_ms - stream->queued_ms : 0;

    return now_ms - stream->secured_ms - stream->waited_ms - waits_ms;
}

bool rpc_stream_begun(const struct rpc_stream *stream)
{
    return stream->tls != NULL || stream->early.length > 0;
}

int rpc_stream_accept(struct rpc_stream *stream, uv_stream_t *listener)
{
    int error = uv_accept(listener, &stream->uv.stream);

    if (error == 0 && !stream->local)
        error = uv_tcp_nodelay(&stream->uv.tcp, 1);
    return error;
}

static void stream_decrypt(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
static void stream_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer);
static void stream_read(uv_stream_t *uv, ssize_t length, const uv_buf_t *buffer);

/* A peer that sent ahead of its handshake is not read until the handshake had its turn. */
static bool stream_is_ahead(const struct rpc_stream *stream)
{
    return stream->early.length > RPC_STREAM_EARLY_MAX_BYTES;
}

static void stream_shake(struct rpc_stream *stream)
{
    struct buf early = stream->early;
    bool ahead = stream_is_ahead(stream);

    buf_init(&stream->early);
    stream->waited_ms += uv_now(stream->uv.handle.loop) - stream->queued_ms;
    stream_decrypt(stream, early.bytes, early.length);
    if (!stream->closing && !stream->lingering && ahead)
        uv_read_start(&stream->uv.stream, stream_buffer, stream_read);
    buf_close(&early);
}

/* One after the other until the time of this round is over. */
static void shaker_run(uv_idle_t *idle)
{
    struct rpc_shaker *shaker = idle->data;
    uint64_t begin_ns = uv_hrtime();

    while (!list_empty(&shaker->waiting) &&
           uv_hrtime() - begin_ns < RPC_SHAKER_ROUND_US * UINT64_C(1000)) {
        struct rpc_stream *stream = LIST_ITEM(shaker->waiting.next, struct rpc_stream, shaker_node);

        list_remove(&stream->shaker_node);
        stream_shake(stream);
    }
    if (list_empty(&shaker->waiting))
        uv_idle_stop(idle);
}

void rpc_shaker_init(struct rpc_shaker *shaker, uv_loop_t *loop)
{
    CHECK(uv_idle_init(loop, &shaker->idle) == 0);
    shaker->idle.data = shaker;
    list_init(&shaker->waiting);
}

static void shaker_closed(uv_handle_t *handle)
{
    struct rpc_shaker *shaker = handle->data;

    shaker->closed(shaker->closed_data);
}

void rpc_shaker_close(struct rpc_shaker *shaker, void (*closed)(void *data), void *data)
{
    shaker->closed = closed;
    shaker->closed_data = data;
    uv_close((uv_handle_t *)&shaker->idle, shaker_closed);
}

static void stream_connected(uv_connect_t *request, int status)
{
    struct rpc_stream *stream = request->data;

    if (stream->closing)
        return;
    if (status == 0 && !stream->local)
        status = uv_tcp_nodelay(&stream->uv.tcp, 1);
    if (status == 0 && stream->tls_context != NULL)
        status = rpc_stream_start(stream);
    if (status == 0 && stream->tls_context != NULL)
        stream_decrypt(stream, NULL, 0); /* says hello */
    else
        stream->handlers->on_connected(stream, status);
}

int rpc_stream_connect(struct rpc_stream *stream, const struct sockaddr *address)
{
    return uv_tcp_connect(&stream->connect, &stream->uv.tcp, address, stream_connected);
}

void rpc_stream_connect_local(struct rpc_stream *stream, const char *path)
{
    uv_pipe_connect(&stream->connect, &stream->uv.pipe, path, stream_connected);
}

/* ---- turns of reading ---- */

void rpc_reader_init(struct rpc_reader *reader, void (*wake)(void *data), void *data)
{
    *reader = (struct rpc_reader){.wake = wake, .data = data};
    reader->bytes = check_alloc(RPC_STREAM_READ_BYTES);
    list_init(&reader->hungry);
}

void rpc_reader_close(struct rpc_reader *reader)
{
    CHECK(list_empty(&reader->hungry));
    free(reader->bytes);
    reader->bytes = NULL;
}

/* The stream stops to listen to the loop until it has had its turn. */
static void stream_queue_to_read(struct rpc_stream *stream)
{
    uv_read_stop(&stream->uv.stream);
    list_push_back(&stream->reader->hungry, &stream->reader_node);
    stream->reader->wake(stream->reader->data);
}

/* libuv asks for a buffer, reads and reports in one go, so one buffer serves many streams. Without a buffer it only reports that
 * there is something to read. */
static void stream_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct rpc_stream *stream = handle->data;
    const struct rpc_reader *reader = stream->reader;
    bool free_now =
        list_empty(&reader->hungry) && reader->spent_ns < RPC_READER_ROUND_US * UINT64_C(1000);

    (void)suggested;
    *ret_buffer = uv_buf_init((char *)reader->bytes, free_now ? RPC_STREAM_READ_BYTES : 0);
}

static void stream_take(struct rpc_stream *stream, ssize_t length);

/* libuv cannot be asked to read now, so that this reads the socket itself. */
static void stream_read_turn(struct rpc_stream *stream)
{
    struct rpc_reader *reader = stream->reader;
    ssize_t length;
    uv_os_fd_t fd;

    CHECK(uv_fileno(&stream->uv.handle, &fd) == 0);
    do {
        length = recv(fd, reader->bytes, RPC_STREAM_READ_BYTES, MSG_DONTWAIT);
    } while (length < 0 && errno == EINTR);
    if (length > 0)
        stream_take(stream, length);
    else if (length == 0)
        stream_take(stream, UV_EOF);
    else if (errno != EAGAIN && errno != EWOULDBLOCK)
        stream_take(stream, uv_translate_sys_error(errno));
    if (stream->closing || stream->ended || stream_is_ahead(stream))
        return;
    if (length == RPC_STREAM_READ_BYTES)
        stream_queue_to_read(stream);
    else
        uv_read_start(&stream->uv.stream, stream_buffer, stream_read);
}

bool rpc_reader_run(struct rpc_reader *reader)
{
    uint64_t begin_ns = uv_hrtime();

    reader->round++;
    reader->spent_ns = 0;
    while (!list_empty(&reader->hungry) &&
           reader->spent_ns < RPC_READER_ROUND_US * UINT64_C(1000)) {
        struct rpc_stream *stream = LIST_ITEM(reader->hungry.next, struct rpc_stream, reader_node);

        if (stream->reader_round == reader->round)
            break; /* everyone had a turn */
        stream->reader_round = reader->round;
        list_remove(&stream->reader_node);
        stream_read_turn(stream);
        reader->spent_ns = uv_hrtime() - begin_ns;
    }
    return !list_empty(&reader->hungry);
}

/* ---- what came ---- */

/* before: whether the handshake was over then */
static void stream_lost(struct rpc_stream *stream, int error, bool before)
{
    uv_read_stop(&stream->uv.stream);
    list_remove(&stream->reader_node);
    stream->ended = true;
    if (stream->tls_context == NULL || before)
        stream->handlers->on_lost(stream, error);
    else
        stream->handlers->on_connected(stream, error);
}

static int stream_send(struct rpc_stream *stream, const uint8_t *bytes, size_t length);

/* What TLS has to say to the other end: records, its part of the handshake, an alert. */
static int stream_send_output(struct rpc_stream *stream)
{
    struct buf *output = tls_engine_output(stream->tls);
    int error = 0;

    if (output->length > 0)
        error = stream_send(stream, output->bytes, output->length);
    if (output->capacity > OUTPUT_KEEP_BYTES)
        buf_close(output);
    else
        buf_clear(output);
    return error;
}

static void stream_decrypt(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    bool established;
    enum tls_progress progress;
    size_t plain_length;
    int error;

    if (stream->tls == NULL)
        stream->tls = tls_engine_new(stream->tls_context, stream->side, RPC_PROTOCOL);
    tls_engine_feed(stream->tls, bytes, length);
    do {
        established = tls_engine_established(stream->tls);
        progress =
            tls_engine_read(stream->tls, stream->plain_bytes, TLS_PLAIN_BYTES, &plain_length);
        error = stream_send_output(stream);
        if (error == 0 && rpc_stream_pending(stream) > RPC_STREAM_PENDING_MAX_BYTES)
            error = UV_ENOBUFS; /* it asks for answers that it does not read */
        if (error != 0)
            progress = TLS_FAILED;
        if (progress == TLS_ESTABLISHED)
            stream->handlers->on_connected(stream, 0);
        else if (progress == TLS_PLAIN)
            stream->handlers->on_bytes(stream, stream->plain_bytes, plain_length);
    } while (!stream->closing && (progress == TLS_ESTABLISHED || progress == TLS_PLAIN));
    if (stream->closing || progress == TLS_WANTS_MORE)
        return;
    if (error == 0)
        error = progress == TLS_ENDED ? UV_EOF : UV_EPROTO;
    stream_lost(stream, error, established);
}

/* Keeps what came until it is this stream's turn; a peer that sends ahead is not read any more. */
static void stream_keep_early(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    buf_append(&stream->early, bytes, length);
    if (stream_is_ahead(stream))
        uv_read_stop(&stream->uv.stream);
    if (rpc_stream_waits(stream))
        return;
    stream->queued_ms = uv_now(stream->uv.handle.loop);
    list_push_back(&stream->shaker->waiting, &stream->shaker_node);
    uv_idle_start(&stream->shaker->idle, shaker_run);
}

/* `length` of what is in the reader's buffer, or an error of libuv. */
static void stream_take(struct rpc_stream *stream, ssize_t length)
{
    const uint8_t *bytes = stream->reader->bytes;
    bool established = stream->tls != NULL && tls_engine_established(stream->tls);

    if (stream->lingering) {
        if (length < 0)
            stream_lost(stream, (int)length, true);
    } else if (length < 0) {
        list_remove(&stream->shaker_node);
        if (stream->tls != NULL)
            tls_engine_closed(stream->tls);
        stream_lost(stream, (int)length, established);
    } else if (stream->shaker != NULL && !established) {
        stream_keep_early(stream, bytes, (size_t)length);
    } else if (stream->tls_context != NULL) {
        stream_decrypt(stream, bytes, (size_t)length);
    } else {
        stream->handlers->on_bytes(stream, bytes, (size_t)length);
    }
}

static void stream_read(uv_stream_t *uv, ssize_t length, const uv_buf_t *buffer)
{
    struct rpc_stream *stream = uv->data;
    uint64_t begin_ns = uv_hrtime();

    (void)buffer;
    if (stream->closing || length == 0)
        return;
    if (length == UV_ENOBUFS) {
        stream_queue_to_read(stream);
        return;
    }
    stream_take(stream, length);
    stream->reader->spent_ns += uv_hrtime() - begin_ns;
    if (length == RPC_STREAM_READ_BYTES && !stream->closing && !stream->ended &&
        !stream_is_ahead(stream))
        stream_queue_to_read(stream);
}

int rpc_stream_start(struct rpc_stream *stream)
{
    if (stream->reading)
        return 0; /* since the handshake */
    stream->reading = true;
    return uv_read_start(&stream->uv.stream, stream_buffer, stream_read);
}

static void stream_written(uv_write_t *request, int status);

/* Hands what waits to libuv; in_flight stays untouched until it reports. */
static int stream_push(struct rpc_stream *stream)
{
    struct buf spare = stream->in_flight;
    uv_buf_t buffer;

    CHECK(!stream->writing);
    stream->in_flight = stream->waiting;
    stream->waiting = spare;
    buf_close(&stream->waiting);
    buffer = uv_buf_init((char *)stream->in_flight.bytes, (unsigned)stream->in_flight.length);
    stream->writing = true;
    return uv_write(&stream->write, &stream->uv.stream, &buffer, 1, stream_written);
}

static void stream_written(uv_write_t *request, int status)
{
    struct rpc_stream *stream = request->data;

    stream->writing = false;
    buf_close(&stream->in_flight);
    if (stream->closing)
        return;
    if (status == 0 && stream->waiting.length > 0)
        status = stream_push(stream);
    if (status != 0)
        stream->handlers->on_lost(stream, status);
    else if (!stream->writing)
        stream->handlers->on_drained(stream);
}

static int stream_send(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)length);
    int written = 0;

    CHECK(length <= INT32_MAX);
    if (!stream->writing)
        written = uv_try_write(&stream->uv.stream, &buffer, 1);
    if (written == UV_EAGAIN)
        written = 0;
    if (written < 0)
        return written;
    if ((size_t)written == length)
        return 0;
    buf_append(&stream->waiting, bytes + written, length - (size_t)written);
    return stream->writing ? 0 : stream_push(stream);
}

int rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length)
{
    if (stream->closing)
        return UV_ECANCELED;
    if (stream->tls_context == NULL)
        return stream_send(stream, bytes, length);
    CHECK(stream->tls != NULL); /* nothing is written before the handshake */
    if (tls_engine_write(stream->tls, bytes, length) != 0)
        return UV_EPROTO;
    return stream_send_output(stream);
}

void rpc_stream_linger(struct rpc_stream *stream)
{
    uv_os_fd_t fd;

    stream->lingering = true;
    stream->ended = false;
    if (uv_fileno(&stream->uv.handle, &fd) == 0)
        (void)shutdown(fd, SHUT_WR);
    uv_read_start(&stream->uv.stream, stream_buffer, stream_read);
}

const char *rpc_stream_reason(const struct rpc_stream *stream, int error)
{
    if (stream->tls != NULL && tls_engine_error(stream->tls)->code != ERR_NONE)
        return tls_engine_error(stream->tls)->text;
    return error == UV_EOF ? "connection closed by peer" : uv_strerror(error);
}

size_t rpc_stream_pending(const struct rpc_stream *stream)
{
    return stream->in_flight.length + stream->waiting.length;
}

static void stream_closed(uv_handle_t *handle)
{
    struct rpc_stream *stream = handle->data;

    buf_close(&stream->in_flight);
    buf_close(&stream->waiting);
    buf_close(&stream->early);
    tls_engine_free(stream->tls);
    stream->tls = NULL;
    stream->handlers->on_closed(stream);
}

void rpc_stream_close(struct rpc_stream *stream)
{
    if (stream->closing)
        return;
    stream->closing = true;
    list_remove(&stream->shaker_node);
    list_remove(&stream->reader_node);
    uv_close(&stream->uv.handle, stream_closed);
}

static void peer_credentials(const struct rpc_stream *stream, struct rpc_peer *ret_peer)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    uv_os_fd_t fd;

    if (uv_fileno(&stream->uv.handle, &fd) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
        ret_peer->pid = credentials.pid;
        ret_peer->uid = credentials.uid;
        ret_peer->gid = credentials.gid;
    }
}

void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer)
{
    struct sockaddr_storage address;
    int length = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "?";

    const struct tls_identity *identity;

    /* nobody's ids until the kernel has told */
    *ret_peer = (struct rpc_peer){.local = stream->local,
                                  .tls = stream->tls_context != NULL,
                                  .pid = -1,
                                  .uid = (uid_t)-1,
                                  .gid = (gid_t)-1};
    if (stream->tls != NULL && tls_engine_established(stream->tls) &&
        (identity = tls_engine_peer(stream->tls, NULL)) != NULL)
        tls_identity_format(identity, ret_peer->identity);
    if (stream->local) {
        snprintf(ret_peer->address, sizeof(ret_peer->address), "unix");
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
