/* A byte stream over a TCP or unix socket of libuv, plain or TLS: encryption is between HTTP/2 and the socket, in this file alone.
 *
 * Flow     rpc_stream_accept or rpc_stream_connect, rpc_stream_start; bytes arrive in on_bytes; rpc_stream_write takes all it is
 *          given, writes what the kernel takes at once and keeps the rest; on_drained tells when nothing is kept any more.
 *          With TLS (rpc_stream_secure before the start), on_connected comes when the handshake is over, also on accepted streams;
 *          nothing is written before. Handshakes take much computing: a server's streams take turns (struct rpc_shaker), so that
 *          thousands of clients that come at once do not hold the loop.
 * Shapes   embedded in its connection, which must outlive on_closed. What waits to be written is the caller's to bound:
 *          it stops handing bytes over while rpc_stream_pending() is high. Streams of one owner read into one buffer of its.
 * Errors   on_lost once for end of file and every error; the owner then closes. SIGPIPE is ignored from the first stream on, unless
 *          the program has a handler of its own.
 * Absent   a timer for handshakes: the owner has it. A farewell of TLS (close_notify): the end of the socket is the end.
 */
#ifndef CKPT_RPC_STREAM_H
#define CKPT_RPC_STREAM_H

#include <uv.h>

#include "src/base/buf.h"
#include "src/base/list.h"
#include "src/rpc/server.h"
#include "src/tls/engine.h"

enum {
    RPC_STREAM_READ_BYTES = 65536,
    /* owners stop far below; answers of TLS itself count too */
    RPC_STREAM_PENDING_MAX_BYTES = 1 << 20,
    RPC_STREAM_EARLY_MAX_BYTES = 1 << 16, /* of a handshake that waits for its turn */
    RPC_SHAKER_ROUND_US = 3000            /* handshakes in one round of the loop */
};

#define RPC_PROTOCOL "h2" /* what TLS agrees on (ALPN) */

struct rpc_stream;
struct rpc_stream_handlers {
    /* 0 or a libuv error; after rpc_stream_connect, and with TLS */
    void (*on_connected)(struct rpc_stream *stream, int status);
    void (*on_bytes)(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
    void (*on_drained)(struct rpc_stream *stream);
    void (*on_lost)(struct rpc_stream *stream, int error);
    void (*on_closed)(struct rpc_stream *stream);
};

/* Streams whose handshakes have bytes to work on, in the order in which they came. */
struct rpc_shaker {
    uv_idle_t idle;
    struct list waiting;
    void (*closed)(void *data);
    void *closed_data;
};
void rpc_shaker_init(struct rpc_shaker *shaker, uv_loop_t *loop);
void rpc_shaker_close(struct rpc_shaker *shaker, void (*closed)(void *data), void *data);

struct rpc_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    const struct rpc_stream_handlers *handlers;
    uint8_t *read_bytes;                   /* RPC_STREAM_READ_BYTES, in use during on_bytes only */
    const struct tls_context *tls_context; /* NULL: plain */
    struct tls_engine *tls;                /* NULL: plain, or nothing has come yet */
    enum tls_side side;
    uint8_t *plain_bytes;      /* TLS_PLAIN_BYTES, in use during on_bytes only */
    struct rpc_shaker *shaker; /* NULL: handshakes are worked on at once */
    struct list shaker_node;
    struct buf early;      /* of the handshake, until its turn comes */
    uint64_t shaken_ms;    /* when the handshake last got on */
    unsigned shakes_count; /* how often it did */
    bool local;
    bool reading;
    bool writing;
    bool lingering;
    bool closing;
    uv_connect_t connect;
    uv_write_t write;
    struct buf in_flight; /* the kernel has not taken these yet */
    struct buf waiting;   /* come after in_flight */
};

int rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, bool local, uint8_t *read_bytes,
                    const struct rpc_stream_handlers *handlers);
/* Before the stream is started or connected. */
void rpc_stream_secure(struct rpc_stream *stream, const struct tls_context *context,
                       enum tls_side side, uint8_t *plain_bytes, struct rpc_shaker *shaker);
/* Whether it waits for its turn, not for the peer. */
bool rpc_stream_waits(const struct rpc_stream *stream);
/* Whether the peer has sent anything. */
bool rpc_stream_begun(const struct rpc_stream *stream);
int rpc_stream_accept(struct rpc_stream *stream, uv_stream_t *listener);
int rpc_stream_connect(struct rpc_stream *stream, const struct sockaddr *address);
void rpc_stream_connect_local(struct rpc_stream *stream, const char *path);
int rpc_stream_start(struct rpc_stream *stream);
/* 0, or a libuv error: the stream is lost, on_lost is not called. */
int rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
size_t rpc_stream_pending(const struct rpc_stream *stream);
/* Sends no more, and drops what comes until the peer closes (on_lost): were it closed at once, bytes that the peer has sent
 * meanwhile would take the reason, an alert on its way, from it. */
void rpc_stream_linger(struct rpc_stream *stream);
/* What `error` of on_connected or on_lost means; TLS has more to say than libuv's numbers. */
const char *rpc_stream_reason(const struct rpc_stream *stream, int error);
void rpc_stream_close(struct rpc_stream *stream); /* again: harmless */
void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer);

#endif
