/* The operation table for the network: byte streams, first in first out. An event tells that the
 * other end is gone.
 *
 * Flow     connect -> opened, or accepted -> start; then received... and closed. raft/ and src/rpc
 *          use the network by this table alone, so the same code runs over libuv (uv_network.h),
 *          inside TLS and in a deterministic simulator.
 * Reading  a stream without `readable` is read all the time, and its bytes are handed over as they
 *          come. With `readable` the event says that bytes wait, and each read() hands over one
 *          buffer. So a user with thousands of streams gives them turns.
 * Writing  send() takes everything. unsent_bytes() is the count of bytes that the kernel has not
 *          taken yet; the sender looks at it, and goes on when `drained` comes.
 * Shapes   handles belong to the implementation. The user closes each handle once, unless closed()
 *          has come. Callbacks come on the loop thread, never from inside the call that asked for
 *          them, except that read() calls received() and closed().
 * Threads  one: the loop's, for calls and events.
 * Units    bytes.
 * Errors   closed() has the reason in a few words. ERR_NOBODY: the other end refuses.
 *          ERR_UNAVAILABLE: it has hung up, or somebody in between has cut the connection.
 *          ERR_TIMEOUT: it is silent, or its name or the way to it cannot be found.
 *          The reason leaves the address out: the user knows it. Of a name that cannot be reached,
 *          the address that was dialled last stands behind the reason: "connection refused
 *          (10.0.0.1)".
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
    NETWORK_READ_BYTES = 32768, /* handed over by one read() at most */
    NETWORK_PEER_BYTES = 64,
    NETWORK_IDENTITY_BYTES = 448,
    NETWORK_DIAL_MS = 2000 /* shared by the addresses of one name while they are dialled */
};

/* The events of a stream; copied, constant while the stream is open.
 *
 *     connect() ──► opened ──► received ... drained ... ──► closed
 *         └──────────────── cannot be reached ─────────────────┘      close(): nothing more
 */
struct network_events {
    void *data; /* given to each of them */
    /* connect() has succeeded; of accepted streams with TLS: the handshake is over. */
    void (*opened)(void *data);
    /* The next bytes of the stream, cut anywhere; valid until it returns. The user may close the
     * stream here; no event comes afterwards. */
    void (*received)(void *data, const uint8_t *bytes, size_t length);
    /* The other end is gone or cannot be reached. The last event; the stream is freed, do not close
     * it. */
    void (*closed)(void *data, const struct err *err);
    void (*readable)(void *data); /* NULL: bytes are handed over as they come */
    void (*drained)(void *data);  /* unsent_bytes() is 0 again; NULL allowed */
};

/* The other end of a stream, as the system knows it. */
struct network_peer {
    /* "10.0.0.4:41234", "[::1]:41234", "unix"; "peer": not known */
    char address[NETWORK_PEER_BYTES];
    bool local; /* a unix socket's: the kernel vouches for the three ids */
    pid_t pid;  /* -1 else */
    uid_t uid;
    gid_t gid;
    bool tls;
    /* by the certificate; "": no TLS, or the certificate names nobody */
    char identity[NETWORK_IDENTITY_BYTES];
};

/* A network: one per kind, made by uv_network.h, tls_network.h or a test. */
struct network_ops {
    void *context;
    /* 0, or -1 with ERR_INVALID for the address, ERR_LOCKED when a program listens on the unix
     * socket, ERR_IO for errors of the system. Addresses are "host:port", "[v6]:port" or
     * "unix:PATH". accepted() must give each stream to start() or close(). A stream NULL: a
     * connection was accepted and closed at once, because no descriptor is left. */
    int (*listen)(void *context, const char *address,
                  void (*accepted)(void *data, struct network_stream *stream), void *data,
                  struct network_listener **ret_listener, struct err *err);
    /* Accepts no more; accepted streams go on. NULL allowed. */
    void (*listener_close)(struct network_listener *listener);
    int (*port)(const struct network_listener *listener); /* -1: it has none */
    /* Never fails at once: closed() tells a failure. */
    struct network_stream *(*connect)(void *context, const char *address,
                                      const struct network_events *events);
    /* For an accepted stream: its events come from now on. */
    void (*start)(struct network_stream *stream, const struct network_events *events);
    /* After `readable`. True: more bytes may wait. False: no more for now, and `readable` will come
     * again, or the stream is closed. */
    bool (*read)(struct network_stream *stream);
    /* Takes heap bytes, to be freed with free(3). Order is kept; failure shows as closed(). The
     * user may call it in any event but closed(). */
    void (*send)(struct network_stream *stream, uint8_t *take_bytes, size_t length);
    /* Sent bytes that the kernel has not taken: they grow when a peer does not read. */
    size_t (*unsent_bytes)(const struct network_stream *stream);
    /* Ends the sending: the other end sees the end of the stream after all sent bytes. NULL: this
     * network cannot. */
    void (*finish)(struct network_stream *stream);
    /* True: the other end has proven to be this member. Call it once the stream is open; false: the
     * stream is of no use. NULL: this network proves nothing. */
    bool (*peer_is)(struct network_stream *stream, uint64_t member_id);
    /* Describes the other end while the stream is open; the identity is known after `opened`. */
    void (*peer)(const struct network_stream *stream, struct network_peer *ret_peer);
    void (*close)(struct network_stream *stream); /* no event afterwards; NULL allowed */
};

#endif
