/* A byte stream of the network table (src/net/network.h), plain or TLS, and its turns of reading.
 *
 * Flow     rpc_stream_accept or rpc_stream_connect, rpc_stream_start; bytes arrive in on_bytes;
 *          rpc_stream_write takes all it is given; on_drained tells when nothing of it waits any
 *          more. With TLS, on_connected comes when the handshake is over, also on accepted streams;
 *          nothing is written before.
 *          Reading takes turns (struct rpc_reader): in one round of the loop a stream reads one
 *          buffer at most, and all of them together for a bounded time. Whoever has more to read
 *          waits in the order of arrival.
 * Shapes   embedded in its connection, which must outlive on_closed. What waits to be written is
 *          the caller's to bound: it stops handing bytes over while rpc_stream_pending() is high.
 *          Streams of one owner share its reader, which tells on_closed in a later round than that
 *          of rpc_stream_close(), when nothing can be inside the stream any more.
 * Errors   on_lost once for the end of the stream and every error; the owner then closes.
 */
#ifndef CKPT_RPC_STREAM_H
#define CKPT_RPC_STREAM_H

#include <uv.h>

#include "src/base/list.h"
#include "src/net/tls_network.h"
#include "src/rpc/server.h"

enum {
    RPC_READER_ROUND_US = 3000, /* reading, and what it brings about, in one round of the loop */
    /* owners stop far below; answers of TLS itself count too */
    RPC_STREAM_PENDING_MAX_BYTES = 1 << 20
};

#define RPC_PROTOCOL "h2" /* what TLS agrees on (ALPN) */

/* What a stream tells its owner; a static table, all but on_connected must be there. */
struct rpc_stream;
struct rpc_stream_handlers {
    /* NULL, or why not; after rpc_stream_connect, and with TLS */
    void (*on_connected)(struct rpc_stream *stream, const char *failed);
    /* as they came, cut anywhere; valid until it returns */
    void (*on_bytes)(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
    void (*on_drained)(struct rpc_stream *stream);
    /* after the stream was open; the owner closes it */
    void (*on_lost)(struct rpc_stream *stream, const char *reason);
    /* the last one: the stream's memory may go */
    void (*on_closed)(struct rpc_stream *stream);
};

/* Streams that have more to read than their turn took, or had no turn yet, in the order in which
 * they came. */
struct rpc_reader {
    struct network_ops plain;
    struct network_ops secure; /* with TLS, when tls is there */
    struct tls_network *tls;
    struct clock_ops clock;   /* of the TLS table */
    struct list hungry;       /* streams that have more to read */
    struct list closed;       /* streams that wait for their on_closed */
    uint64_t spent_ns;        /* of this round */
    uint64_t round;           /* which one it is */
    void (*wake)(void *data); /* the owner calls rpc_reader_run in the next round */
    void *data;
};
/* Without TLS. */
void rpc_reader_init(struct rpc_reader *reader, uv_loop_t *loop, void (*wake)(void *data),
                     void *data);
/* Before the first stream: those that are not local speak TLS. The fields of `tls` that say how are
 * filled in. */
struct tls_network *rpc_reader_secure(struct rpc_reader *reader, uv_loop_t *loop,
                                      const struct tls_context *context);
/* The table for an address of a unix socket, or of another. */
const struct network_ops *rpc_reader_network(const struct rpc_reader *reader, bool local);
/* When all its streams are closed; tells the last on_closed. */
void rpc_reader_close(struct rpc_reader *reader);
/* A round's turns: on_closed of streams that were closed, handshakes of TLS, then reading. */
void rpc_reader_run(struct rpc_reader *reader);
/* Whether another round is wanted. */
bool rpc_reader_has_work(const struct rpc_reader *reader);

/* IDLE ── accept, connect ── start ──► open ── on_lost or close ──► closing ── on_closed */
struct rpc_stream {
    uv_loop_t *loop;
    const struct network_ops *network; /* the reader's plain or secure table */
    struct network_stream *below;      /* NULL: not there yet, or gone */
    const struct rpc_stream_handlers *handlers;
    struct rpc_reader *reader;
    struct list reader_node; /* while it is hungry, or closed */
    uint64_t reader_round;   /* in which it last had its turn */
    bool reading;            /* it was dialled or started */
    bool open;               /* on_connected has told so, or need not */
    bool closing;
};

/* local: of a unix socket, which stays plain. */
void rpc_stream_init(struct rpc_stream *stream, uv_loop_t *loop, bool local,
                     struct rpc_reader *reader, const struct rpc_stream_handlers *handlers);
bool rpc_stream_is_secure(const struct rpc_stream *stream);
/* Whether it waits for its turn, not for the peer. */
bool rpc_stream_waits(const struct rpc_stream *stream);
/* False: its peer's certificate is no longer good, and it is lost. */
bool rpc_stream_passes(struct rpc_stream *stream);
/* Takes what a listener accepted; nothing is read yet. */
void rpc_stream_accept(struct rpc_stream *stream, struct network_stream *below);
/* Dials; on_connected tells the outcome, never before this returns. */
void rpc_stream_connect(struct rpc_stream *stream, const char *address);
/* Of an accepted one, at once. */
void rpc_stream_start(struct rpc_stream *stream);
/* Copies all of it and sends what goes. False: it is closed already. Not before it is open. */
bool rpc_stream_write(struct rpc_stream *stream, const uint8_t *bytes, size_t length);
/* Bytes that wait for the socket, those of TLS included. */
size_t rpc_stream_pending(const struct rpc_stream *stream);
/* What was written and not sent is dropped. on_closed follows, in a later round. Again:
 * harmless. */
void rpc_stream_close(struct rpc_stream *stream);
/* Who is at the other end: its certificate's name after the handshake only. The stream is not
 * closed. */
void rpc_stream_get_peer(const struct rpc_stream *stream, struct rpc_peer *ret_peer);

#endif
