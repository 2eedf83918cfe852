/* What server.c (listeners, limits, drain), server_connection.c (HTTP/2 callbacks), server_call.c
 * (the call's API), server_turns.c and server_owner.c share.
 *
 * Shapes   server 1→n connection 1→n call. A call is in its connection's list until its HTTP/2
 *          stream is closed; closed calls of a connection that is being torn down wait in `dead`
 *          for the end of the callbacks that may still hold them.
 */
#ifndef CKPT_RPC_SERVER_INTERNAL_H
#define CKPT_RPC_SERVER_INTERNAL_H

#include "src/base/spare.h"
#include "src/rpc/h2.h"
#include "src/rpc/server.h"
#include "src/rpc/timers.h"
#include "src/rpc/wire.h"

enum {
    RPC_LISTENERS_MAX = 8,
    RPC_METHODS_MAX = 256,
    RPC_CONNECTION_PARTIAL_MAX_BYTES = 4 << 20, /* incomplete messages of one connection */
    RPC_SERVER_PARTIAL_MAX_BYTES = 128 << 20,   /* of all */
    RPC_CONNECTION_BUFFERED_MAX_BYTES = 16
                                        << 20, /* answers not read: no new calls until they are */
    RPC_SERVER_BUFFERED_MAX_BYTES = 256 << 20, /* over it the largest of the stalled is ended */
    RPC_OWNER_PARTIAL_MAX_BYTES = RPC_SERVER_PARTIAL_MAX_BYTES / 2, /* of one identity's share */
    RPC_OWNER_BUFFERED_MAX_BYTES = RPC_SERVER_BUFFERED_MAX_BYTES / 2,
    RPC_RESERVED_BYTES = 64 << 10, /* who holds so little is served beyond these limits as well */
    RPC_OWNER_BUCKETS = 1024,
    RPC_OWNER_NAME_BYTES = TLS_IDENTITY_TEXT_BYTES > 64 ? TLS_IDENTITY_TEXT_BYTES : 64,
    /* A peer that asks for answers and does not take them costs memory until it is found out: */
    RPC_STALL_BYTES = 16384,  /* who takes fewer in twice the keepalive time has stalled ... */
    RPC_STALL_FULL_MS = 1000, /* ... or in this time, when the server is full */
    RPC_RELIEF_MS = 250,      /* between looks for such ones while others wait for room */
    /* then a connection sends before it is offered more */
    RPC_TURN_OFFERED_BYTES = RPC_H2_BATCH_BYTES,
    RPC_TURN_ROUND_US = 2000,       /* answers made in one round of the loop */
    RPC_DESCRIPTORS_RESERVED = 128, /* for the log, its snapshots and the like */
    RPC_SPARE_CALLS_MAX = 1024,     /* as many as wait for one commit of a loaded leader */
    RPC_SPARE_MAX_BYTES = 4 << 20,  /* of a server: streams and frames of some thousand calls */
    /* After its deadline an answer that is under way has so long: were its stream reset at once, a
     * client whose clock runs behind by the time that its request took would take the reset for a
     * cancellation, which nobody repeats. */
    RPC_OVERDUE_MS = 1000,
    RPC_REQUEST_LATE_MS = 1000, /* behind the end of a request's time: the loop was away */
    RPC_RECHECK_MS = 300000,    /* a client's certificate is looked at again */
    RPC_RECHECK_LOOK_MS = 1000, /* between looks whether one is due */
    RPC_RECHECK_STEP_MS = 20,   /* between steps of ... */
    RPC_RECHECK_STEP_COUNT = 16 /* ... so many, so that the loop goes on */
};

/* A row of the methods table; lives as long as the server. */
struct rpc_method {
    char *path;
    size_t path_length;
    bool client_streaming; /* messages are handed over as they come, not kept until the last byte */
    bool server_streaming;
    struct rpc_handlers handlers;
    void *data; /* given to each of them */
};

/* Whoever the calls of one identity belong to: shares of memory and turns are counted per owner, so
 * that opening more connections gives nobody more of either. */
struct rpc_owner {
    struct list node;                /* in its bucket of the server's owners */
    struct list turn_node;           /* in rpc_turns.owners: it has room for an answer, and ... */
    struct list connections_waiting; /* ... those that have room for one, and a call that waits */
    size_t connections;              /* that have calls, or may */
    size_t open_count;               /* of them, without those that are being closed */
    size_t partial_bytes, buffered_bytes; /* sums over its connections */
    char name[RPC_OWNER_NAME_BYTES];
};

/* Those who have room for an answer, and a call that waits; see server_turns.c. */
struct rpc_turns {
    uv_idle_t idle;          /* gives turns, while there are any to give */
    struct list owners;      /* by turns */
    struct rpc_timer relief; /* looks for stalled peers while others wait for room */
};

/* The server: what its listeners, connections and calls share, and what is counted of them. */
struct rpc_server {
    uv_loop_t *loop;
    struct rpc_server_config config; /* with the defaults filled in */
    struct rpc_flusher flusher;
    struct rpc_turns turns;
    struct rpc_timers timers;
    struct rpc_timer sweep;   /* keepalive, idle and stalled peers, four times per keepalive time */
    struct rpc_timer grace;   /* the end of a drain */
    struct rpc_timer recheck; /* of clients' certificates, with TLS */
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    struct spare spare; /* what nghttp2 needs for streams and frames */
    struct rpc_method methods[RPC_METHODS_MAX];
    size_t methods_count;
    struct rpc_listener {
        const struct network_ops *network;
        struct network_listener *below;
    } listeners[RPC_LISTENERS_MAX];
    size_t listeners_count;
    struct list connections; /* with TLS: those whose certificates were checked longest ago first */
    size_t connections_count;
    size_t open_count;       /* of them, without those that are being closed */
    struct list silent;      /* those that have not spoken HTTP/2 yet, the oldest first */
    struct list spare_calls; /* ended ones with their buffers, for the next calls */
    size_t spare_calls_count;
    size_t partial_bytes; /* of all connections */
    struct list owners[RPC_OWNER_BUCKETS];
    struct rpc_server_stats stats;
    bool draining; /* no new connections or calls */
    void (*drained)(void *data);
    void *drained_data;
    bool freeing;
    size_t handles; /* that libuv still holds, connections included; the last one frees it */
    void (*freed)(void *data);
    void *freed_data;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
};

/* One TCP or unix connection, from accept until its handles are closed. */
struct rpc_connection {
    struct rpc_h2 h2;
    struct rpc_server *server;
    struct list node;        /* in the server's connections; alone when it was refused */
    struct list silent_node; /* until the peer's SETTINGS */
    struct list calls;       /* with open streams */
    struct list dead; /* calls of a connection that is being closed, told and not yet freed */
    struct list waiting, shut; /* calls that want to write: by turns, and later */
    struct list turn_node;     /* in the owner's connections_waiting: it has room for an answer */
    size_t calls_count;        /* in both lists */
    uint64_t idle_since_ms;    /* when the last call went */
    size_t partial_bytes;      /* of its calls' requests */
    size_t buffered_bytes;     /* in the outboxes of its calls */
    uint64_t taken_ms;         /* when its peer had last taken RPC_STALL_BYTES, or all */
    size_t taken_bytes;        /* since then */
    struct rpc_peer peer;
    struct rpc_owner *owner; /* NULL: no HTTP/2 yet */
    uint64_t checked_ms;     /* its certificate */
    uint64_t checked_generation;
};

/* Whether a call waits to write: not, for its turn, or for its peer to take what it has. */
enum rpc_turn { RPC_TURN_NONE, RPC_TURN_WAITING, RPC_TURN_SHUT };

/* headers ── begun ── messages ── half_closed ── finish ── ended ── trailers sent ── freed
 *               └─────────── reset, deadline, disconnect: on_cancel ──┘ */
struct rpc_call {
    struct list node;
    struct list turn_node; /* in its connection's waiting or shut */
    enum rpc_turn turn;
    struct rpc_connection *connection;
    const struct rpc_method *method; /* NULL: the path is of none */
    void *data;                      /* the handler's */
    int32_t stream_id;
    uint64_t deadline_ms;      /* of the loop's clock; UINT64_MAX: none */
    uint64_t whole_ms;         /* ... by when its request is to be whole; UINT64_MAX: it is */
    struct rpc_timer deadline; /* the earlier of the two */
    struct rpc_inbox inbox;
    size_t message_bytes; /* of a unary request, once its handler has it */
    size_t partial_bytes; /* of the inbox and of a request that waits, as counted in the limits */
    struct rpc_outbox outbox;
    struct buf metadata; /* name NUL value NUL ... */
    struct buf trailers; /* likewise */
    size_t trailers_count;
    size_t header_bytes;    /* of the request, as HTTP/2 counts them */
    enum rpc_status status; /* once it has ended */
    bool post, grpc;        /* what the headers said */
    bool timeout_bad, headers_large, path_known;
    bool begun;       /* on_request was due */
    bool responding;  /* response headers are submitted */
    bool half_closed; /* the client sends no more */
    bool ended;       /* finished or cancelled: no further callback */
    bool overdue;     /* its deadline has passed, and its answer is not taken */
};

/* server_connection.c: a connection, and nghttp2's callbacks, which find its calls. */
void rpc_connection_callbacks(nghttp2_session_callbacks *callbacks);
/* A connection that a listener accepted; one too many is closed at once, or another makes way. */
void rpc_connection_accept(struct rpc_server *server, bool local, struct network_stream *stream);
/* False: the certificate is no longer good, it is being closed. */
bool rpc_connection_recheck(struct rpc_connection *connection);
/* Answers wait, and for so long its peer has taken next to nothing of them. */
bool rpc_connection_stalled(const struct rpc_connection *connection, uint64_t ms);
/* Ends its calls and closes it; it is freed by the loop. Again: harmless. */
void rpc_connection_close(struct rpc_connection *connection);
/* NULL: no such path. */
const struct rpc_method *rpc_server_find_method(const struct rpc_server *server, const char *path,
                                                size_t length);

/* server_call.c: what becomes of a call, in the order in which the callbacks of HTTP/2 tell it. */

/* The first header has come. */
struct rpc_call *rpc_call_new(struct rpc_connection *connection, int32_t stream_id);
void rpc_call_free(struct rpc_call *call); /* the stream is closed */
/* All headers are in: it is refused, or on_request is told. */
void rpc_call_begin(struct rpc_call *call);
/* Bytes of its request, cut anywhere. */
void rpc_call_receive(struct rpc_call *call, const uint8_t *bytes, size_t length);
/* The client sends no more: a unary request is whole, or it ends early. */
void rpc_call_half_closed(struct rpc_call *call);
/* The peer or the connection is gone: on_cancel unless it has ended already. */
void rpc_call_aborted(struct rpc_call *call);
/* nghttp2's pull of response bytes: how many were written, or one of its codes; the trailers follow
 * when an ended call has nothing left. */
ssize_t rpc_call_pull(struct rpc_call *call, uint8_t *bytes, size_t size, uint32_t *data_flags);
/* It is this call's turn: on_writable, unless it has ended. */
void rpc_call_writable(struct rpc_call *call);

/* Counts what its request holds in the limits while it waits. */
void rpc_call_count_waiting(struct rpc_call *call);
/* The peer took so many bytes of answers; 0: something begins to wait for it, so its time
 * begins. */
void rpc_connection_took(struct rpc_connection *connection, size_t length);

/* server_turns.c: whose turn it is to make an answer. */
void rpc_turns_init(struct rpc_server *server);
void rpc_turns_close(struct rpc_server *server);
/* After a send: whether more may be written now; on_writable follows when not. */
bool rpc_turns_go_on(struct rpc_call *call);
void rpc_turns_end(struct rpc_call *call); /* it waits no more */
/* What a call waits for may have come: its window, or its peer took what it had. */
void rpc_turns_reopened(struct rpc_call *call);
void rpc_turns_reopened_all(struct rpc_connection *connection);
void rpc_turns_sent(struct rpc_connection *connection);  /* all that it was offered */
void rpc_turns_taken(struct rpc_connection *connection); /* something of its answers has gone */
/* It is being closed: nothing of it has a turn any more. */
void rpc_turns_leave(struct rpc_connection *connection);
/* Calls wait for windows of the peer. */
bool rpc_turns_blocked_by_peer(const struct rpc_connection *connection);

/* server.c */
/* Makes room for the answer to a call when too many are not read; false: there is none, and the
 * text says whose limit is reached. */
bool rpc_server_relieve(struct rpc_server *server, const struct rpc_connection *asking, char *text,
                        size_t size);
void rpc_server_connection_ended(struct rpc_server *server); /* the drain may be over */
void rpc_server_handle_closed(struct rpc_server *server);

/* server_owner.c */

/* The owner of a peer's connections: of its identity, else of its address or user. Given back when
 * the connection has closed. */
struct rpc_owner *rpc_owner_take(struct rpc_server *server, const struct rpc_peer *peer);
void rpc_owner_give(struct rpc_owner *owner); /* NULL: nothing */

/* health.c, reflection.c */
void rpc_health_drain(struct rpc_health *health); /* ends all watches */
void rpc_health_free(struct rpc_health *health);
void rpc_reflection_free(struct rpc_reflection *reflection);

#endif
