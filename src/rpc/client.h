/* gRPC client over nghttp2 in the libuv loop: channels to one address, unary and streaming calls.
 *
 * A program with one server uses a channel. A program that follows the leader of a cluster uses
 * follow.h, which owns channels. C programs outside of this tree use src/client/client.h, which
 * also repeats calls.
 *
 * Flow     rpc_channel_new dials in the background and re-dials with back-off; rpc_channel_unary /
 *          _open start calls. A unary call: on_message once, then on_end. A stream: on_message per
 *          message, rpc_client_call_send() as often as wanted, _half_close() after the last
 *          message, on_end when the server has ended it.
 * Shapes   every call ends with exactly one on_end; then its pointer is gone. Closing a channel
 *          ends its calls with UNAVAILABLE.
 * Units    milliseconds and bytes, as the names say.
 * Owners   address, path and messages are copied; the TLS context is borrowed until the channel is
 *          gone. Bytes given to on_message and texts of struct rpc_end are valid until it returns.
 * Threads  one: the loop's, for functions and callbacks alike.
 * Errors   gRPC statuses; local failures are UNAVAILABLE (not sent: `sent` false) or
 *          DEADLINE_EXCEEDED. A request that was not sent may be repeated as it is. A request that
 *          was sent may have been carried out: only a request with a request id may be repeated.
 * Absent   retries, load balancing, name lookups beyond the system's own.
 */
#ifndef CKPT_RPC_CLIENT_H
#define CKPT_RPC_CLIENT_H

#include "src/rpc/server.h"

struct rpc_channel;
struct rpc_client_call;

/* All zeros is a good configuration. Copied. */
struct rpc_channel_config {
    uint64_t connect_timeout_ms; /* 0: 2,000; until the peer's first HTTP/2 frame, TLS included */
    /* of a follower (follow.h): it doubles the former after each dial that took too long, up to
     * this; 0: it stays */
    uint64_t connect_timeout_max_ms;
    uint64_t backoff_min_ms;  /* 0: 50; pause after the first failure, doubled each time */
    uint64_t backoff_max_ms;  /* 0: 1,000; each pause is spread by a quarter either way */
    uint64_t keepalive_ms;    /* 0: 2,000: ping a silent peer while calls are open */
    size_t message_max_bytes; /* 0: 4 MiB received */
    /* NULL: plain; outlives the channel. The server must be a replica of our certificate's cluster.
     * Unix sockets stay plain. */
    const struct tls_context *tls;
    /* For a unix socket: the listener must run as peer_uid, or with root_may as root. The channel
     * checks this before it sends anything. */
    bool check_peer;
    bool root_may;
    uid_t peer_uid;
};

/* The configuration with defaults in place of zeros; NULL: all defaults. */
struct rpc_channel_config rpc_channel_config_filled(const struct rpc_channel_config *config);

/* address "host:port" or "unix:PATH". With a wrong address every call ends with UNAVAILABLE and the
 * reason. A connection that the peer ends by GOAWAY (drain, idle) is dialled again when the next
 * call starts. A broken connection is dialled again with back-off. */
struct rpc_channel *rpc_channel_new(uv_loop_t *loop, const char *address,
                                    const struct rpc_channel_config *config);
/* Open calls end with UNAVAILABLE before it returns, and no callback comes afterwards. The loop
 * closes the handles. Allowed inside a callback. NULL allowed. */
void rpc_channel_free(struct rpc_channel *channel);
/* True: a call that is started now goes out at once. */
bool rpc_channel_connected(const struct rpc_channel *channel);
/* After a change of the TLS context: a connection whose peer's certificate is no longer good ends,
 * and its calls with UNAVAILABLE. Not from inside an event of a call or a connection. */
void rpc_channel_recheck(struct rpc_channel *channel);
/* Dials now if the channel waits to dial again, and begins its pauses anew: for an owner that has
 * heard that the peer is there. */
void rpc_channel_hurry(struct rpc_channel *channel);
size_t rpc_channel_calls(const struct rpc_channel *channel); /* open ones */
/* True: the last dial took longer than connect_timeout_ms. The peer may have been reached, and have
 * had others to greet first. */
bool rpc_channel_late(const struct rpc_channel *channel);
/* Its next dials may take so long. */
void rpc_channel_give_time(struct rpc_channel *channel, uint64_t connect_timeout_ms);
/* The address of rpc_channel_new(); lives as long as the channel. */
const char *rpc_channel_address(const struct rpc_channel *channel);

/* The end of a call, valid during on_end. */
struct rpc_end {
    int status;          /* enum rpc_status */
    const char *message; /* decoded; "" when none */
    bool sent;           /* false: the request certainly did not reach a server */
    /* value of the trailer "ckpt-leader-hint" when present, else NULL ("" = leader unknown) */
    const char *redirect;
    bool pushback; /* the trailer "grpc-retry-pushback-ms" asks to come back after pushback_ms */
    uint64_t pushback_ms;
    const struct rpc_channel *channel; /* the call's; may be compared, not used */
};
/* A caller's static table; any may be NULL. on_message: one whole message. on_writable: after
 * rpc_client_call_send() was false, half of the waiting bytes are gone. on_end: the last one; it
 * may free the channel and start other calls. */
struct rpc_client_handlers {
    void (*on_message)(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length);
    void (*on_writable)(struct rpc_client_call *call, void *data);
    void (*on_end)(struct rpc_client_call *call, void *data, const struct rpc_end *end);
};

/* A pair beside the message, for rpc_call_metadata() of the server. Printable ASCII; the name in
 * lower case. */
struct rpc_metadata {
    const char *name, *value;
};
enum { RPC_METADATA_MAX = 4 };
/* One unary call. All of it is copied before the call returns. */
struct rpc_request {
    const char *path;     /* "/package.Service/Method" */
    const uint8_t *bytes; /* the packed message */
    size_t length;
    uint64_t timeout_ms; /* 0: none; from the start of the call, with its waiting */
    bool wait_for_ready; /* see below */
    const struct rpc_metadata *metadata;
    size_t metadata_count; /* at most RPC_METADATA_MAX */
};

/* A call on a channel that is dialling waits for the outcome of this dial; when it fails, or while
 * the channel waits to dial again, the call ends with UNAVAILABLE. With wait_for_ready it waits for
 * a connection until its timeout instead. timeout_ms 0: none. on_end never comes before these two
 * functions return. A caller that only waits for on_end may drop the returned pointer. The path
 * begins with '/'. */
struct rpc_client_call *rpc_channel_unary(struct rpc_channel *channel,
                                          const struct rpc_request *request,
                                          const struct rpc_client_handlers *handlers, void *data);
struct rpc_client_call *rpc_channel_open(struct rpc_channel *channel, const char *path,
                                         uint64_t timeout_ms, bool wait_for_ready,
                                         const struct rpc_client_handlers *handlers, void *data);
/* Queues one message of a stream, copied. false: more than 64 KiB wait, on_writable follows. Before
 * the connection is there messages wait in the call. Not after half-closing. */
bool rpc_client_call_send(struct rpc_client_call *call, const uint8_t *bytes, size_t length);
/* Says that no message follows; the server's answers go on. */
void rpc_client_call_half_close(struct rpc_client_call *call);
/* The keepalive of the call's channel from here on; 0: the default. For an owner that needs not
 * know soon, at this time, that a silent peer lives. */
void rpc_client_call_keepalive(struct rpc_client_call *call, uint64_t keepalive_ms);
/* No further callback; the pointer is gone. */
void rpc_client_call_cancel(struct rpc_client_call *call);

#endif
