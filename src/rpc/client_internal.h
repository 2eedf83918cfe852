/* What client.c (dialling), client_connection.c (HTTP/2 callbacks) and client_call.c (the call's
 * API) share.
 *
 * Shapes   channel 1→n connection (one current, others finish their calls after GOAWAY) 1→n call;
 *          calls without a connection wait in the channel.
 */
#ifndef CKPT_RPC_CLIENT_INTERNAL_H
#define CKPT_RPC_CLIENT_INTERNAL_H

#include "src/rpc/client.h"
#include "src/rpc/h2.h"
#include "src/rpc/timers.h"
#include "src/rpc/wire.h"

/* Why a channel is not READY is in `reason`, which calls that end are told. IDLE dials when a call
 * comes, BACKOFF when its time is over; client.c draws the moves. */
enum rpc_channel_state {
    RPC_CHANNEL_IDLE,
    RPC_CHANNEL_DIALLING,
    RPC_CHANNEL_READY,
    RPC_CHANNEL_BACKOFF
};

struct rpc_channel {
    uv_loop_t *loop;
    char *text;       /* of the address */
    bool address_bad; /* its text is none: every dial fails at once */
    bool local;       /* a unix socket: it stays plain */
    struct rpc_channel_config config;
    enum rpc_channel_state state;
    struct rpc_client_connection *current; /* being dialled, or ready */
    struct list connections;               /* all, those that leave included */
    struct list waiting;                   /* calls without a connection, the oldest first */
    size_t calls_count;                    /* of the whole channel */
    struct rpc_flusher flusher;
    struct rpc_timers timers;
    struct rpc_timer dial;   /* the dial's timeout, or the end of the back-off */
    struct rpc_timer settle; /* ends calls that cannot wait */
    struct rpc_timer sweep;  /* keepalive while calls are open */
    uint64_t backoff_ms;     /* the next pause, before it is spread */
    uint64_t ready_ms; /* since when the current connection is: one that was good for a while is
                          * dialled again without a pause */
    char reason[ERR_TEXT_BYTES]; /* why it is not connected */
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    bool late; /* the last dial took too long */
    bool freeing;
    size_t handles; /* that libuv still holds, connections included; the last one frees it */
};

/* One dialled connection; after GOAWAY it is `leaving` and ends with its last call. */
struct rpc_client_connection {
    struct rpc_h2 h2;
    struct rpc_channel *channel;
    struct list node;  /* in the channel's connections */
    struct list calls; /* whose requests were submitted here */
    bool leaving;      /* GOAWAY came or stream numbers ran out: no new calls */
};

/* One call, from its start to its on_end. It is in the list of its connection, or of the channel
 * while it waits for one. */
struct rpc_client_call {
    struct list node;
    struct rpc_channel *channel;
    struct rpc_client_connection *connection; /* NULL: waits */
    const struct rpc_client_handlers *handlers;
    void *data;
    int32_t stream_id;    /* 0: not submitted, or its stream is over */
    uint64_t deadline_ms; /* of the loop's clock; UINT64_MAX: none */
    struct rpc_timer deadline;
    bool wait_for_ready;
    bool half_closed; /* by us */
    bool sent;        /* its headers went out, and the peer did not vouch that it did nothing */
    bool busy;        /* inside its on_message */
    bool ended;       /* no further callback; freed when it is not busy */
    struct rpc_inbox inbox;   /* of a message that has not come whole */
    struct rpc_outbox outbox; /* what is to be sent */
    struct buf metadata;      /* names and values, each with its end */
    int http_status;          /* 0: no headers came */
    int grpc_status;          /* -1: none came */
    struct buf message;
    struct buf redirect;
    bool redirected;
    bool pushback;
    uint64_t pushback_ms;
    char path[];
};

/* client.c: the moves of a channel, told by its connections. */

/* An established connection broke: its calls end, and the channel dials again, after a pause unless
 * it was good for longer than the longest pause. */
void rpc_channel_lost(struct rpc_channel *channel, struct rpc_client_connection *connection,
                      const char *reason);
void rpc_channel_settled(
    struct rpc_channel *channel); /* the current connection's peer speaks HTTP/2 */
/* The peer takes no new calls there (GOAWAY); those that wait need another connection. */
void rpc_channel_leave(struct rpc_channel *channel, struct rpc_client_connection *connection);
/* A new call: goes out now, or waits for a connection, which is dialled if nobody does. */
void rpc_channel_start_call(struct rpc_channel *channel, struct rpc_client_call *call);
void rpc_channel_handle_closed(struct rpc_channel *channel);
/* A dial failed, for this reason: nothing was sent. */
void rpc_channel_dialled(struct rpc_channel *channel, struct rpc_client_connection *connection,
                         const char *failed);

/* client_connection.c: nghttp2's callbacks; each finds its call by the stream's user data. */
void rpc_client_callbacks(nghttp2_session_callbacks *callbacks);
struct rpc_client_connection *rpc_client_connection_new(struct rpc_channel *channel);
void rpc_client_connection_close(struct rpc_client_connection *connection, const char *reason);
void rpc_client_connection_end_calls(struct rpc_client_connection *connection, const char *reason);

/* client_call.c */
/* Submits the request; false: the connection takes no more and is leaving. */
bool rpc_client_call_submit(struct rpc_client_call *call, struct rpc_client_connection *connection);
/* Takes the call out of everything, resets its stream if it is open, and tells on_end. The message
 * is read before it returns. */
void rpc_client_call_end(struct rpc_client_call *call, int status, const char *message);
/* A header or trailer of the answer; those that nobody needs are dropped. */
void rpc_client_call_header(struct rpc_client_call *call, const uint8_t *name, size_t name_length,
                            const uint8_t *value, size_t length);
void rpc_client_call_receive(struct rpc_client_call *call, const uint8_t *bytes, size_t length);
/* The stream is over: the status is the trailers', else follows from HTTP's status or the reset
 * code. */
void rpc_client_call_closed(struct rpc_client_call *call, uint32_t error_code);

#endif
