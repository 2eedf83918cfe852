/* gRPC server over nghttp2 in the libuv loop. Knows no message of ours: bytes in, bytes out.
 *
 * Flow     rpc_server_new, rpc_server_add_method for each path, rpc_server_listen for each address,
 *          ... rpc_server_drain, _free. Per call: on_request, on_message per message,
 *          on_half_close; the handler answers with send and finish. A unary method needs on_message
 *          alone: it comes once, when the request is whole. The handler answers by rpc_call_reply()
 *          or _finish(), at once or later, when a commit or a worker is done.
 * Shapes   the server owns the calls; a handler's pointer is valid until on_cancel or its own
 *          rpc_call_finish returns. Limits are in struct rpc_server_config. A peer above a limit
 *          gets RESOURCE_EXHAUSTED, or its connection is refused.
 * Units    milliseconds and bytes, as the names say.
 * Owners   paths, messages and trailers are copied; descriptors and the TLS context are borrowed
 *          for the server's whole time. Bytes given to a handler are valid until it returns.
 * Threads  one: the loop's. All functions and callbacks run on it.
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

/* The caller, by what the connection proves. */
struct rpc_peer {
    bool local; /* unix socket: pid, uid, gid are SO_PEERCRED's */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    char address[64]; /* host:port, or "unix" */
    bool tls;         /* both sides have shown certificates */
    /* of the client certificate; "": no TLS, or the certificate names nobody */
    char identity[TLS_IDENTITY_TEXT_BYTES];
};

/* A field that is 0 has the value of its comment. connections_max is lowered so that descriptors
 * remain for the rest of the process. */
struct rpc_server_config {
    size_t connections_max;          /* 1024 */
    size_t connections_per_user_max; /* of a unix socket, at most half of all; 0: half of all */
    size_t calls_per_connection_max; /* 1024 */
    size_t message_max_bytes;        /* 256 KiB, per message received */
    size_t write_buffer_bytes;       /* 64 KiB per call: send() is false over it */
    uint64_t idle_ms;                /* 300,000: a connection without calls is closed */
    uint64_t keepalive_ms; /* 10,000: a silent peer is pinged, and is closed after as long again */
    uint64_t handshake_ms; /* 5,000: the connection is closed when its TLS handshake takes longer */
    /* 10,000: a call is refused when its request, or the first message of a client's stream, is
     * not whole by then; the client's own deadline may be earlier */
    uint64_t request_ms;
    const struct tls_context *tls; /* NULL: plain; outlives the server. Unix sockets stay plain. */
    /* Both may be NULL and are called from the loop. allowed() is asked before each call of a known
     * method: false refuses the call with PERMISSION_DENIED and the text. */
    bool (*allowed)(void *data, const struct rpc_peer *peer, const char *path, char *text,
                    size_t size);
    /* TLS refused the connection, or its certificate is no longer good. */
    void (*refused)(void *data, const char *address, const char *text);
    void *data; /* of these two */
    /* The connection is being closed because its peer does not read its answers. May be NULL; from
     * the loop. */
    void (*stalled)(void *data, const struct rpc_peer *peer, const char *text);
    void *stalled_data;
};

/* The callbacks of a method; any may be NULL. `data` is the method's; rpc_call_set_data() keeps
 * state per call. A handler may finish its call, finish other calls, and free the server. It must
 * not block: the loop is everybody's. */
struct rpc_handlers {
    void (*on_request)(struct rpc_call *call, void *data); /* the headers are in; no message yet */
    /* one whole message; the handler decodes it; a unary method gets only one */
    void (*on_message)(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length);
    void (*on_half_close)(struct rpc_call *call, void *data); /* the client sends no more */
    /* after send() returned false or rpc_call_want_writable() */
    void (*on_writable)(struct rpc_call *call, void *data);
    /* reset, disconnect or deadline: the last callback; do not answer */
    void (*on_cancel)(struct rpc_call *call, void *data);
};

/* config NULL: all defaults; copied. Nothing listens yet. Never NULL. */
struct rpc_server *rpc_server_new(uv_loop_t *loop, const struct rpc_server_config *config);
/* The connections_max in force. */
size_t rpc_server_connections_max(const struct rpc_server *server);
/* path "/package.Service/Method"; copied. The server itself answers a unary call with no message or
 * several; unary handlers need on_message only. */
void rpc_server_add_method(struct rpc_server *server, const char *path, bool client_streaming,
                           bool server_streaming, const struct rpc_handlers *handlers, void *data);
/* Adds grpc.health.v1.Health (Check, Watch) and reflection v1alpha. descriptors: bytes of `protoc
 * --include_imports --descriptor_set_out`; kept by reference. */
void rpc_server_add_health(struct rpc_server *server);
/* The answer of Check and Watch for a service name from now on; "": the server as a whole. At most
 * 32 names; they are copied. */
void rpc_server_set_health(struct rpc_server *server, const char *service, bool serving);
void rpc_server_add_reflection(struct rpc_server *server, const uint8_t *descriptors,
                               size_t length);
/* "host:port" (port 0: any free one, see rpc_server_port) or "unix:PATH" (mode 0666 less the
 * caller's umask). A stale socket is removed, a live one is ERR_LOCKED. */
/* Returns 0, or -1 with ERR_INVALID for the address, ERR_FULL for too many listeners, or the
 * system's error. */
int rpc_server_listen(struct rpc_server *server, const char *address, struct err *err);
/* The port of the n-th rpc_server_listen(), from 0; -1: there is none. */
int rpc_server_port(const struct rpc_server *server, size_t listener);
/* Sends GOAWAY and takes no new calls. A connection is closed when its last call has ended and is
 * written. drained() comes from the loop when all are closed, or after grace_ms; the caller then
 * calls rpc_server_free(). Handlers must finish long streams themselves. */
void rpc_server_drain(struct rpc_server *server, uint64_t grace_ms, void (*drained)(void *),
                      void *data);
/* Closes everything; each call gets on_cancel. freed() comes from the loop when the handles are
 * gone. Allowed inside a handler. */
void rpc_server_free(struct rpc_server *server, void (*freed)(void *), void *data);

struct rpc_server_stats {
    uint64_t connections;  /* now, closing ones included */
    uint64_t calls_active; /* now */
    uint64_t calls_total;  /* ever */
    /* connections not taken, or ended by TLS or for want of room */
    uint64_t refused_total;
    /* now, in calls and sockets: bytes of answers that peers have not taken yet */
    uint64_t bytes_buffered;
    uint64_t stalled_total; /* connections closed because their peers did not read */
    uint64_t by_status[17]; /* ended calls, by enum rpc_status */
};
void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *ret_stats);

/* ---- for handlers: what may be done with a call ---- */

/* A pointer of the handler; the server does not look at it. NULL at first. A handler that puts heap
 * memory there frees it in on_cancel and where it finishes the call: one of the two happens. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
/* Lives as long as the call. */
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);
/* Request metadata by lower-case name, the first of several; NULL: absent. Lives as long as the
 * call. */
const char *rpc_call_metadata(const struct rpc_call *call, const char *name);
/* For an answer, or a part of one, that may be large. on_writable follows in a later round of the
 * loop, when the peer can take the answer and this call's turn has come. Answers are made one after
 * the other, peer by peer, for a bounded time in each round. So any number of requests holds
 * neither the loop nor memory. The call may be cancelled before its turn. */
void rpc_call_want_writable(struct rpc_call *call);
/* Queues one message (copied). false: the message is queued, but the buffer is full; wait for
 * on_writable before the next one. */
bool rpc_call_send(struct rpc_call *call, const uint8_t *bytes, size_t length);
/* Sent bytes that the peer has not taken yet. */
size_t rpc_call_buffered(const struct rpc_call *call);
/* Adds a trailer (copied) before finish; at most 15, printable ASCII. */
void rpc_call_trailer(struct rpc_call *call, const char *name, const char *value);
/* Ends the call; message may be NULL and is percent-encoded. The call must not be used
 * afterwards. */
void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *message);
/* send + finish(RPC_OK): the usual end of a unary call. */
void rpc_call_reply(struct rpc_call *call, const uint8_t *bytes, size_t length);

#endif
