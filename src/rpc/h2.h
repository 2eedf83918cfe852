/* One HTTP/2 connection, server or client side: bytes between a stream and an nghttp2 session,
 * batching, keepalive, policing.
 *
 * Flow     bytes in → nghttp2 → the owner's callbacks → what they submit is collected and written
 *          once per batch. What is submitted outside of that (an answer after a commit) marks the
 *          connection dirty; the flusher writes it in the next loop round. Data is pulled from
 *          outboxes only while the socket takes it: nothing but the outboxes themselves can grow,
 *          and their owner fills them no faster than they are sent (offered_bytes, `sent`).
 * Shapes   embedded in the owner's connection. The session lives until on `closed`, so that closing
 *          inside a callback is safe.
 * Units    milliseconds of the loop's clock.
 * Errors   `lost` once, with a reason; the connection has then begun to close.
 * Source   RFC 9113; nghttp2 1.52.
 */
#ifndef CKPT_RPC_H2_H
#define CKPT_RPC_H2_H

#include <nghttp2/nghttp2.h>

#include "src/base/list.h"
#include "src/rpc/police.h"
#include "src/rpc/stream.h"

enum {
    RPC_H2_BATCH_BYTES = 65536, /* no more is collected while this much waits for the socket */
    /* What has come is taken in such pieces, and what each brings about is written before the next:
     * the other end works on it meanwhile. */
    RPC_H2_SLICE_BYTES = 8192,
    RPC_H2_PUMP_BYTES = 1 << 18,      /* of one connection in one round of the loop ... */
    RPC_H2_PUMP_ROUND_US = 3000,      /* ... and of all: fast readers must not hold it */
    RPC_H2_CONTROL_QUEUE_MAX = 10000, /* control frames that wait for a peer who does not read */
    RPC_H2_HELLO_MS = 5000,    /* or the time of silence when that is less: a peer's SETTINGS */
    RPC_H2_RESET_BURST = 1000, /* streams reset by the peer */
    RPC_H2_RESETS_PER_SECOND = 200,
    RPC_H2_CONTINUATIONS_MAX = 8,
    RPC_H2_HEADER_LIST_BYTES = 16384,
    RPC_H2_STREAM_WINDOW_BYTES = 1 << 18,
    RPC_H2_CONNECTION_WINDOW_BYTES = 1 << 20
};

/* Outgoing bytes of one call, pulled by nghttp2 as the peer takes them. */
struct rpc_outbox {
    struct buf bytes;   /* messages with their prefixes */
    size_t offset;      /* before it: already pulled */
    struct list node;   /* in rpc_h2.writable when on_writable is due */
    bool deferred;      /* nghttp2 was told that nothing is there */
    bool want_writable; /* `writable` is to be told when little is left */
};
void rpc_outbox_init(struct rpc_outbox *outbox);
void rpc_outbox_close(struct rpc_outbox *outbox);
void rpc_outbox_append(struct rpc_outbox *outbox, const uint8_t *message,
                       size_t length); /* with its prefix */
static inline size_t rpc_outbox_length(const struct rpc_outbox *outbox)
{
    return outbox->bytes.length - outbox->offset;
}

/* What the connections of one server or channel share: their turns of reading and writing. */
struct rpc_flusher {
    uv_idle_t idle;    /* runs once per round of the loop while there is work */
    struct list dirty; /* connections that have something to write, in the order of asking */
    uint64_t round;
    struct rpc_reader reader;
    uint8_t *batch; /* RPC_H2_BATCH_BYTES: frames that are collected to be written at once */
    void (*closed)(void *data);
    void *closed_data;
};
void rpc_flusher_init(struct rpc_flusher *flusher, uv_loop_t *loop);
/* After its connections began to close; closed(data) from the loop, when all of them have gone. */
void rpc_flusher_close(struct rpc_flusher *flusher, void (*closed)(void *data), void *data);

/* What the owner of a connection is told. Its table is static. */
struct rpc_h2;
struct rpc_h2_ops {
    /* dialled connections, and those with TLS; NULL, or why it failed */
    void (*connected)(struct rpc_h2 *h2, const char *failed);
    /* little is left in an outbox that asked for it */
    void (*writable)(struct rpc_h2 *h2, struct rpc_outbox *outbox);
    /* all that was offered is sent, as far as the windows of the peer allow; may be NULL */
    void (*sent)(struct rpc_h2 *h2);
    /* it broke, or its peer broke a rule; `closed` follows */
    void (*lost)(struct rpc_h2 *h2, const char *reason);
    void (*closed)(struct rpc_h2 *h2); /* nothing refers to it any more */
};

/* The part of a connection that both sides have. */
struct rpc_h2 {
    struct rpc_stream stream;
    nghttp2_session *session; /* NULL: not started, while TLS shakes hands */
    const struct rpc_h2_ops *ops;
    struct rpc_flusher *flusher;
    struct list dirty_node;
    struct list writable; /* outboxes */
    bool busy;            /* inside received bytes or a pump: a pump follows anyway */
    bool closing;
    bool met;     /* its first bytes came */
    bool settled; /* the peer's SETTINGS came: it speaks HTTP/2 */
    bool ping_outstanding;
    uint64_t opened_ms;     /* when HTTP/2 began: the peer's SETTINGS are due */
    uint64_t read_ms;       /* when bytes last came */
    uint64_t ping_ms;       /* when the outstanding PING was sent */
    uint64_t terminated_ms; /* 0: not */
    uint64_t pump_round;    /* in which the flusher last pumped it */
    size_t offered_bytes;   /* by the owner, into outboxes, since all was sent that may be */
    struct rpc_police police;
};

/* `lost` says this of a peer that begins a TLS handshake where none is expected. */
extern const char rpc_h2_speaks_tls[];

/* Options that every session of ours has; the caller deletes them. Limits of resets, continuations
 * and acknowledgements are nghttp2's to hold. */
nghttp2_option *rpc_h2_options(void);
/* The connection is there, but says nothing yet: rpc_stream_accept() or rpc_stream_connect() on its
 * stream follows, and rpc_h2_start() when the byte stream is open. */
void rpc_h2_init(struct rpc_h2 *h2, uv_loop_t *loop, bool local, struct rpc_flusher *flusher,
                 const struct rpc_h2_ops *ops);
/* Takes the session, sends our first SETTINGS and starts reading. streams_max: how many calls a
 * server lets its peer have open; 0 for a client. */
void rpc_h2_start(struct rpc_h2 *h2, nghttp2_session *session, uint32_t streams_max);
/* Something was submitted: it is written soon. */
void rpc_h2_touch(struct rpc_h2 *h2);
/* Writes what nghttp2 has to say, as far as the socket takes it and a round's share goes. Inside a
 * callback of nghttp2 rpc_h2_touch() is right instead. */
void rpc_h2_pump(struct rpc_h2 *h2);
/* GOAWAY with a code and a text, then close when it is written. */
void rpc_h2_terminate(struct rpc_h2 *h2, uint32_t error_code);
void rpc_h2_close(struct rpc_h2 *h2); /* `closed` follows; `lost` does not */
/* Pings a silent peer and gives it up when it stays silent; `timeout_ms` each. False: it was
 * lost. */
bool rpc_h2_keepalive(struct rpc_h2 *h2, uint64_t timeout_ms);
/* To be called with each frame received; polices and follows pings and settings. */
void rpc_h2_frame_received(struct rpc_h2 *h2, const nghttp2_frame *frame);
void rpc_h2_charge(struct rpc_h2 *h2); /* one control frame of the peer */
/* Copies out of an outbox for nghttp2's data callback; true when it is empty afterwards. An outbox
 * that wants to be writable is so when at most resume_below_bytes are left. */
bool rpc_h2_pull(struct rpc_h2 *h2, struct rpc_outbox *outbox, uint8_t *bytes, size_t size,
                 size_t resume_below_bytes, size_t *ret_length);
/* Continues a stream whose outbox was empty. */
void rpc_h2_resume(struct rpc_h2 *h2, struct rpc_outbox *outbox, int32_t stream_id);

#endif
