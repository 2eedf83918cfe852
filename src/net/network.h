/* The operation table for the network: byte streams, first in first out, with a notice when the
 * other end is gone.
 *
 * Flow     connect -> opened, or accepted -> start; then received... and closed. raft/ and src/rpc
 *          do to the network what is in this table and nothing else, so that the same code runs
 *          over libuv (uv_network.h), inside TLS and in a deterministic simulator.
 * Reading  a stream without `readable` is read all the time, and its bytes are handed over as they
 *          come. With it, `readable` says that bytes wait, and each read() hands over one buffer of
 *          them: who has thousands of streams gives them turns.
 * Writing  send() takes everything. What the other end and the kernel have not taken is
 *          unsent_bytes(); the sender looks at it, and goes on when `drained` comes.
 * Shapes   handles belong to the implementation. Every handle got is closed once, by close() or
 *          before closed(). Callbacks come on the loop thread, never from inside the call that
 *          asked for them, except that read() calls received() and closed().
 * Threads  one: the loop's, for calls and events.
 * Units    bytes.
 * Errors   closed() says in a few words what happened, without the address, which the user knows.
 */
#ifndef CKPT_NET_NETWORK_H
#define CKPT_NET_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

/* Each implementation has its own; users hold pointers only. */
struct network_stream;
struct network_listener;

enum {
    NETWORK_READ_BYTES = 32768, /* that one read() hands over */
    NETWORK_PEER_BYTES = 64,
    NETWORK_IDENTITY_BYTES = 288,
    NETWORK_DIAL_MS = 2000 /* that the addresses of one name share while they are dialled */
};

/* What a stream tells its user; copied, constant while the stream is open.
 *
 *     connect() ──► opened ──► received ... drained ... ──► closed
 *         └──────────────── cannot be reached ─────────────────┘      close(): nothing more
 */
struct network_events {
    void *data; /* given to each of them */
    /* connect() has succeeded; of accepted streams with TLS: the handshake is over. */
    void (*opened)(void *data);
    /* The next bytes of the stream, cut anywhere; valid until it returns. The user may close the
     * stream here, after which nothing more of it comes. */
    void (*received)(void *data, const uint8_t *bytes, size_t length);
    /* The other end is gone or cannot be reached. The last event; the stream is freed, do not close
     * it. */
    void (*closed)(void *data, const struct err *err);
    void (*readable)(void *data); /* NULL: bytes are handed over as they come */
    void (*drained)(void *data);  /* unsent_bytes() is 0 again; NULL allowed */
};

/* Who is at the other end, as the system says. */
struct network_peer {
    /* "10.0.0.4:41234", "[::1]:41234", "unix"; "peer": not known */
    char address[NETWORK_PEER_BYTES];
    bool local; /* a unix socket's: the kernel vouches for the three ids */
    pid_t pid;  /* -1 else */
    uid_t uid;
    gid_t gid;
    bool tls;
    /* by its certificate; "" without TLS, or when it names nobody */
    char identity[NETWORK_IDENTITY_BYTES];
};

/* A network: one per kind, made by uv_network.h, tls_network.h or a test. */
struct network_ops {
    void *context;
    /* 0, or -1 with ERR_INVALID for the address, ERR_LOCKED when a program listens on that unix
     * socket, ERR_IO for what the system says. Addresses are "host:port", "[v6]:port" or
     * "unix:PATH". Each accepted stream must be given to start() or close() inside accepted(). A
     * stream NULL: one was accepted and closed, because no descriptor is left for it. */
    int (*listen)(void *context, const char *address,
                  void (*accepted)(void *data, struct network_stream *stream), void *data,
                  struct network_listener **ret_listener, struct err *err);
    /* No more are accepted; streams that were go on. NULL allowed. */
    void (*listener_close)(struct network_listener *listener);
    int (*port)(const struct network_listener *listener); /* -1: it has none */
    /* Never fails at once: closed() tells. */
    struct network_stream *(*connect)(void *context, const char *address,
                                      const struct network_events *events);
    /* Of an accepted stream: from now on it has events. */
    void (*start)(struct network_stream *stream, const struct network_events *events);
    /* After `readable`, and until it has returned false: no more for now, `readable` comes again,
     * or the stream is closed. */
    bool (*read)(struct network_stream *stream);
    /* Takes heap bytes, to be freed with free(3). Order is kept; failure shows as closed(). The
     * user may call it in any event but closed(). */
    void (*send)(struct network_stream *stream, uint8_t *take_bytes, size_t length);
    /* What was sent and the kernel has not taken: the sender's measure of a peer that does not
     * read. */
    size_t (*unsent_bytes)(const struct network_stream *stream);
    /* Nothing is sent after what was; the other end sees the end of the stream. NULL: cannot be
     * told. */
    void (*finish)(struct network_stream *stream);
    /* Whether the other end has proven to be this member; to be asked once it is open. The stream
     * is of no use when not. NULL: this network proves nothing. */
    bool (*peer_is)(struct network_stream *stream, uint64_t member_id);
    /* While the stream is open; the identity after `opened` only. */
    void (*peer)(const struct network_stream *stream, struct network_peer *ret_peer);
    void (*close)(struct network_stream *stream); /* no event afterwards; NULL allowed */
};

#endif
