/* gRPC server over nghttp2 in the libuv loop. Knows no message of ours: bytes in, bytes out.
 *
 * Flow     rpc_server_new, rpc_server_add_method for each path, rpc_server_listen for each address,
 *          ... rpc_server_drain, _free. Per call: on_request, on_message per message,
 *          on_half_close; the handler answers with send and finish.
 *          A unary method needs on_message alone: it comes once, when the request is whole, and is
 *          answered by rpc_call_reply() or _finish(), in the handler or later, when a commit or a
 *          worker is done.
 * Shapes   calls are owned by the server; a handler's pointer is valid until on_cancel or its own
 *          rpc_call_finish returns. Limits in struct rpc_server_config; over them the peer gets
 *          RESOURCE_EXHAUSTED or its connection is refused.
 * Units    milliseconds and bytes, as the names say.
 * Owners   paths, messages and trailers are copied; descriptors and the TLS context are borrowed
 *          for the server's whole time. Bytes given to a handler are valid until it returns.
 * Threads  one: the loop's. Every function here is called from it, and every callback comes from
 *          it.
 * Errors   gRPC statuses to the peer; listening errors as struct err.
 * Source   gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), RFC 9113, RFC 8441 not used.
 */
#ifndef CKPT_RPC_SERVER_H
#define CKPT_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/base/err.h"
#include "src/tls/context.h"

struct rpc_server;
/* One request and its answer, from its headers to its trailers. */
struct rpc_call;

/* The numbers of gRPC; the same on the wire. */
enum rpc_status {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16
};
const char *rpc_status_name(int status); /* "UNAVAILABLE" */

/* Who calls, as far as the connection proves it. */
struct rpc_peer {
    bool local; /* unix socket: pid, uid, gid are SO_PEERCRED's */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    char address[64]; /* host:port, or "unix" */
    bool tls;         /* both sides have shown certificates */
    /* of the client certificate; "" without TLS, or when it names nobody */
    char identity[TLS_IDENTITY_TEXT_BYTES];
};

/* 0 in a field: the value in its comment. connections_max is lowered so that descriptors remain for
 * the rest of the process. */
struct rpc_server_config {
    size_t connections_max;          /* 1024 */
    size_t connections_per_user_max; /* of a unix socket, at most half of all; 0: half of all */
    size_t calls_per_connection_max; /* 1024 */
    size_t message_max_bytes;        /* 256 KiB, per message received */
    size_t write_buffer_bytes;       /* 64 KiB per call: send() is false over it */
    uint64_t idle_ms;                /* 300,000: a connection without calls is closed */
    uint64_t keepalive_ms; /* 10,000: a silent peer is pinged, and closed after as long again */
    uint64_t handshake_ms; /* 5,000: a TLS handshake that is not over by then, all of it */
    const struct tls_context *tls; /* NULL: plain; outlives the server. Unix sockets stay plain. */
    /* Both may be NULL and are called from the loop. Asked before each call of a known method:
     * false refuses it with PERMISSION_DENIED and what was written into text. */
    bool (*allowed)(void *data, const struct rpc_peer *peer, const char *path, char *text,
                    size_t size);
    /* A connection that TLS refused, or whose certificate is no longer good. */
    void (*refused)(void *data, const char *address, const char *text);
    void *data; /* of these two */
    /* A connection that is being closed because its peer does not read what it asked for. May be
     * NULL; from the loop. */
    void (*stalled)(void *data, const struct rpc_peer *peer, const char *text);
    void *stalled_data;
};

/* What a method does; any may be NULL. `data` is the method's; per-call state via
 * rpc_call_set_data. A handler may finish its call, other calls, and free the server; it must not
 * block: the loop is everybody's. */
struct rpc_handlers {
    void (*on_request)(struct rpc_call *call, void *data); /* headers are in; no message yet */
    /* one whole message, decoded by the handler; of a unary method the only one */
    void (*on_message)(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length);
    void (*on_half_close)(struct rpc_call *call, void *data); /* the client sends no more */
    /* after send() returned false or rpc_call_want_writable() */
    void (*on_writable)(struct rpc_call *call, void *data);
    /* reset, disconnect or deadline: the last callback; do not answer */
    void (*on_cancel)(struct rpc_call *call, void *data);
};

/* config NULL: all defaults; copied. Nothing listens yet. Never NULL. */
struct rpc_server *rpc_server_new(uv_loop_t *loop, const struct rpc_server_config *config);
/* What became of the wanted connections_max. */
size_t rpc_server_connections_max(const struct rpc_server *server);
/* path "/package.Service/Method"; copied. A unary method whose request did not come as exactly one
 * message is answered by the server itself; unary handlers need on_message only. */
void rpc_server_add_method(struct rpc_server *server, const char *path, bool client_streaming,
                           bool server_streaming, const struct rpc_handlers *handlers, void *data);
/* Adds grpc.health.v1.Health (Check, Watch) and reflection v1alpha. descriptors: bytes of `protoc
 * --include_imports --descriptor_set_out`; kept by reference. */
void rpc_server_add_health(struct rpc_server *server);
/* What Check answers for a service name, and Watch tells, from now on; "" is the server as a whole.
 * At most 32 names, static or not: they are copied. */
void rpc_server_set_health(struct rpc_server *server, const char *service, bool serving);
void rpc_server_add_reflection(struct rpc_server *server, const uint8_t *descriptors,
                               size_t length);
/* "host:port" (port 0: any free one, see rpc_server_port) or "unix:PATH" (mode 0666 by the caller's
 * umask choice; a stale socket is removed, a live one is ERR_LOCKED). */
/* 0, or -1 with ERR_INVALID for the address, ERR_FULL for too many, or what the system says. */
int rpc_server_listen(struct rpc_server *server, const char *address, struct err *err);
/* Of the n-th rpc_server_listen(), from 0; -1 when there is none. */
int rpc_server_port(const struct rpc_server *server, size_t listener);
/* GOAWAY, no new calls; a connection is closed when its last call ended and is written. drained()
 * from the loop when all are closed or after grace_ms; rpc_server_free is then the caller's. Long
 * streams are the handlers' to finish. */
void rpc_server_drain(struct rpc_server *server, uint64_t grace_ms, void (*drained)(void *),
                      void *data);
/* Closes everything, calls are told by on_cancel; freed() from the loop when handles are gone.
 * Allowed inside a handler. */
void rpc_server_free(struct rpc_server *server, void (*freed)(void *), void *data);

struct rpc_server_stats {
    uint64_t connections;  /* now, those that are being closed included */
    uint64_t calls_active; /* now */
    uint64_t calls_total;  /* ever */
    /* connections that were not taken, or ended by TLS or for want of room */
    uint64_t refused_total;
    /* of answers that peers have not taken yet, now, in calls and sockets */
    uint64_t bytes_buffered;
    uint64_t stalled_total; /* connections that were closed because their peers did not read */
    uint64_t by_status[17]; /* calls that ended with that enum rpc_status */
};
void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *ret_stats);

/* ---- for handlers: what may be done with a call ---- */

/* Anything of the handler's; the server does not look at it. NULL at first. Who puts heap memory
 * there frees it in on_cancel and where it finishes the call: one of the two happens. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
/* Lives as long as the call. */
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);
/* Request metadata (lower case name), NULL when absent; the first of several. Lives as long as the
 * call. */
const char *rpc_call_metadata(const struct rpc_call *call, const char *name);
/* Before an answer, or a part of one, that may be large: on_writable follows, in a later round of
 * the loop, when the peer can take it and it is this call's turn. Answers are made one after the
 * other, those of all peers by turns and for a bounded time in each round, so that they hold
 * neither the loop nor memory however many are asked for at once. The call may be cancelled
 * before. */
void rpc_call_want_writable(struct rpc_call *call);
/* Queues one message (copied). false: the buffer is full; it was queued all the same, but wait for
 * on_writable before more. */
bool rpc_call_send(struct rpc_call *call, const uint8_t *bytes, size_t length);
/* Bytes that were sent and that the peer has not taken yet. */
size_t rpc_call_buffered(const struct rpc_call *call);
/* Copied; before finish; at most 15, printable ASCII. */
void rpc_call_trailer(struct rpc_call *call, const char *name, const char *value);
/* Ends the call; message may be NULL, is percent-encoded. The call must not be used afterwards. */
void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *message);
/* send + finish(RPC_OK): the usual end of a unary call. */
void rpc_call_reply(struct rpc_call *call, const uint8_t *bytes, size_t length);

#endif
