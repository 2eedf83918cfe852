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

/* IDLE dials when a call comes, BACKOFF when its time is over; client.c draws the moves. */
enum rpc_channel_state {
    RPC_CHANNEL_IDLE,
    RPC_CHANNEL_DIALLING,
    RPC_CHANNEL_READY,
    RPC_CHANNEL_BACKOFF
};

struct rpc_channel {
    uv_loop_t *loop;
    char *text; /* of the address */
    bool address_bad;
    bool local; /* a unix socket: it stays plain */
    struct rpc_channel_config config;
    enum rpc_channel_state state;
    struct rpc_client_connection *current; /* being dialled, or ready */
    struct list connections;
    struct list waiting; /* calls */
    size_t calls_count;
    struct rpc_flusher flusher;
    struct rpc_timers timers;
    struct rpc_timer dial;   /* the dial's timeout, or the end of the back-off */
    struct rpc_timer settle; /* ends calls that cannot wait */
    struct rpc_timer sweep;  /* keepalive while calls are open */
    uint64_t backoff_ms;
    uint64_t ready_ms;
    char reason[ERR_TEXT_BYTES]; /* why it is not connected */
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    bool freeing;
    size_t handles;
};

/* One dialled connection; after GOAWAY it is `leaving` and ends with its last call. */
struct rpc_client_connection {
    struct rpc_h2 h2;
    struct rpc_channel *channel;
    struct list node;
    struct list calls;
    bool leaving; /* GOAWAY came or stream numbers ran out: no new calls */
};

/* One call, from its start to its on_end. It is in the list of its connection, or of the channel
 * while it waits for one. */
struct rpc_client_call {
    struct list node;
    struct rpc_channel *channel;
    struct rpc_client_connection *connection; /* NULL: waits */
    const struct rpc_client_handlers *handlers;
    void *data;
    int32_t stream_id;
    uint64_t deadline_ms;
    struct rpc_timer deadline;
    bool wait_for_ready;
    bool half_closed; /* by us */
    bool sent;
    bool busy; /* inside its on_message */
    bool ended;
    struct rpc_inbox inbox;
    struct rpc_outbox outbox;
    int http_status;
    int grpc_status; /* -1: none came */
    struct buf message;
    struct buf leader_hint;
    bool leader_hinted;
    bool pushback;
    uint64_t pushback_ms;
    char path[];
};

/* client.c */
void rpc_channel_lost(struct rpc_channel *channel, struct rpc_client_connection *connection,
                      const char *reason);
void rpc_channel_settled(
    struct rpc_channel *channel); /* the current connection's peer speaks HTTP/2 */
void rpc_channel_leave(struct rpc_channel *channel, struct rpc_client_connection *connection);
void rpc_channel_start_call(struct rpc_channel *channel, struct rpc_client_call *call);
void rpc_channel_handle_closed(struct rpc_channel *channel);
void rpc_channel_dialled(struct rpc_channel *channel, struct rpc_client_connection *connection,
                         const char *failed);

/* client_connection.c */
void rpc_client_callbacks(nghttp2_session_callbacks *callbacks);
struct rpc_client_connection *rpc_client_connection_new(struct rpc_channel *channel);
void rpc_client_connection_close(struct rpc_client_connection *connection, const char *reason);
void rpc_client_connection_end_calls(struct rpc_client_connection *connection, const char *reason);

/* client_call.c */
/* Submits the request; false: the connection takes no more and is leaving. */
bool rpc_client_call_submit(struct rpc_client_call *call, struct rpc_client_connection *connection);
void rpc_client_call_end(struct rpc_client_call *call, int status, const char *message);
void rpc_client_call_header(struct rpc_client_call *call, const uint8_t *name, size_t name_length,
                            const uint8_t *value, size_t length);
void rpc_client_call_receive(struct rpc_client_call *call, const uint8_t *bytes, size_t length);
void rpc_client_call_closed(struct rpc_client_call *call, uint32_t error_code);

#endif
