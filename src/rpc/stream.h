/* A byte stream of the network table (src/net/network.h), plain or TLS: encryption is between HTTP/2 and the table, in this file alone.
 *
 * Flow     rpc_stream_accept or rpc_stream_connect, rpc_stream_start; bytes arrive in on_bytes; rpc_stream_write takes all it is
 *          given; on_drained tells when nothing of it waits any more.
 *          With TLS (rpc_stream_secure before the start), on_connected comes when the handshake is over, also on accepted streams;
 *          nothing is written before. Handshakes take much computing: a server's streams take turns (struct rpc_shaker), so that
 *          thousands of clients that come at once do not hold the loop.
 *          Reading takes turns as well (struct rpc_reader): in one round of the loop a stream reads one buffer at most, and all of
 *          them together for a bounded time. Whoever has more to read waits in the order of arrival.
 * Shapes   embedded in its connection, which must outlive on_closed. What waits to be written is the caller's to bound:
 *          it stops handing bytes over while rpc_stream_pending() is high. Streams of one owner share its reader, which tells on_closed
 *          in a later round than that of rpc_stream_close(), when nothing can be inside the stream any more.
 * Errors   on_lost once for the end of the stream and every error; the owner then closes.
 * Absent   a timer for handshakes: the owner has it. A farewell of TLS (close_notify): the end of the stream is the end.
 */
#ifndef CKPT_RPC_STREAM_H
#define CKPT_RPC_STREAM_H

#include <uv.h>

#include "src/base/buf.h"
#include "src/base/list.h"
#include "src/net/network.h"
#include "src/rpc/server.h"
#include "src/tls/engine.h"

enum {
    RPC_READER_ROUND_US = 3000, /* reading, and what it brings about, in one round of the loop */
    /* owners stop far below; answers of TLS itself count too */
    RPC_STREAM_PENDING_MAX_BYTES = 1 << 20,
    RPC_STREAM_EARLY_MAX_BYTES = 1 << 16, /* of a handshake that waits for its turn */
    RPC_SHAKER_ROUND_US = 3000            /* handshakes in one round of the loop */
};

#define RPC_PROTOCOL "h2" /* what TLS agrees on (ALPN) */

struct rpc_stream;
struct rpc_stream_handlers {
    /* NULL, or why not; after rpc_stream_connect, and with TLS */
    void (*on_connected)(struct rpc_stream *stream, const char *failed);
    void (*on_bytes)(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
    void (*on_drained)(struct rpc_stream *stream);
    void (*on_lost)(struct rpc_stream *stream, const char *reason);
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

/* Streams that have more to read than their turn took, or had no turn yet, in the order in which they came. */
struct rpc_reader {
    struct network_ops network;
    struct list hungry;
    struct list closed;       /* streams that wait for their on_closed */
    uint64_t spent_ns;        /* of this round */
    uint64_t round;           /* which one it is */
    void (*wake)(void *data); /* the owner calls rpc_reader_run in the next round */
    void *data;
};
void rpc_reader_init(struct rpc_reader *reader, uv_loop_t *loop, void (*wake)(void *data),
                     void *data);
void rpc_reader_close(struct rpc_reader *reader);
void rpc_reader_run(struct rpc_reader *reader); /* a round's turns */
bool rpc_reader_has_work(const struct rpc_reader *reader);

struct rpc_stream {
    uv_loop_t *loop;
    struct network_stream *below; /* NULL: not there yet, or gone */
    const struct rpc_stream_handlers *handlers;
    struct rpc_reader *reader;
    struct list reader_node;               /* while it is hungry, or closed */
    uint64_t reader_round;                 /* in which it last had its turn */
    const struct tls_context *tls_context; /* NULL: plain */
    struct tls_engine *tls;                /* NULL: plain, or nothing has come yet */
    enum tls_side side;
    uint8_t *plain_bytes;      /* TLS_PLAIN_BYTES, in use during on_bytes only */
    struct rpc_shaker *shaker; /* NULL: handshakes are worked on at once */
    struct list shaker_node;
    struct buf early;    /* of the handshake, until its turn comes */
    uint64_t secured_ms; /* when its handshake could begin */
    uint64_t queued_ms;  /* when it last began to wait for its turn */
    uint64_t waited_ms;  /* for its turns so far, which is no fault of the peer */
    bool reading;
    bool unread; /* bytes wait, and it waits for its turn to read them, or is ahead */
    bool open;   /* on_connected has told so, or need not */
    bool lingering;
    bool closing;
};

void rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, struct rpc_reader *reader,
                     const struct rpc_stream_handlers *handlers);
/* Before the stream is started or connected. */
void rpc_stream_secure(struct rpc_stream *stream, const struct tls_context *context,
                       enum tls_side side, uint8_t *plain_bytes, struct rpc_shaker *shaker);
/* Whether it waits for its turn, not for the peer. */
bool rpc_stream_waits(const struct rpc_stream *stream);
/* How long the handshake has lasted, without the time in which it waited for its turns. */
uint64_t rpc_stream_shaking_ms(const struct rpc_stream *stream);
/* Whether the peer has sent anything. */
bool rpc_stream_begun(const struct rpc_stream *stream);
void rpc_stream_accept(struct rpc_stream *stream, struct network_stream *below);
void rpc_stream_connect(struct rpc_stream *stream, const char *address);
/* Of an accepted one, at once. */
void rpc_stream_start(struct rpc_stream *stream);
/* NULL, or why not: the stream is lost, on_lost is not called. */
const char *rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
size_t rpc_stream_pending(const struct rpc_stream *stream);
/* Sends no more, and drops what comes until the peer closes (on_lost): were it closed at once, bytes that the peer has sent
 * meanwhile would take the reason, an alert on its way, from it. False: the peer has closed. */
bool rpc_stream_linger(struct rpc_stream *stream);
void rpc_stream_close(struct rpc_stream *stream); /* again: harmless */
void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer);

#endif
