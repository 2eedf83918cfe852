/* libckptclient: a C client that follows the leader and retries with request ids. The library for
 * schedulers' plug-ins and for ckptctl; README.md has an example.
 *
 * Order    1. client_tls() when the cluster has certificates.
 *          2. client_new() with the addresses of all members, or of some: the others are found.
 *          3. client_request_id() once for each change, and the text into the request.
 *          4. client_call() as often as wanted, calls side by side; done() comes once for each. A
 *             program without a loop uses client_call_wait() instead, one call at a time.
 *          5. client_free(), then the loop runs on until the client's handles are closed, and
 *             tls_context_free().
 * Flow     client_new on a libuv loop; client_call() sends one unary request, retries it on
 *          UNAVAILABLE, with or without a redirect, and on RESOURCE_EXHAUSTED with push-back
 *          until its deadline, always with the same bytes (same request id). client_call_wait()
 *          runs a private loop and is for programs without one (ckptctl).
 * Errors   gRPC status and text; RPC_DEADLINE_EXCEEDED means: outcome unknown, ask again with the
 *          same request id. When no attempt can have been applied, the deadline ends the call with
 *          UNAVAILABLE or RESOURCE_EXHAUSTED and the last attempt's text instead. A refusal by the
 *          cluster's rules is a status whose text begins with its name (fsm/STATUSES.md); it is
 *          final and never retried.
 * Owners   texts and messages that are passed in are copied or packed before the call returns;
 *          the TLS context is borrowed until client_free(). A reply belongs to the client and is
 *          gone after done(), but for client_call_wait(), whose reply is the caller's.
 * Threads  none of its own. All calls on a client come from the thread of its loop, and so does
 *          done(); two clients on two loops share nothing.
 * Limits   16 addresses; a request of 256 KiB; a reply of 4 MiB. Calls that are open at once share
 *          one connection.
 */
#ifndef CKPT_CLIENT_CLIENT_H
#define CKPT_CLIENT_CLIENT_H

#include <protobuf-c/protobuf-c.h>

#include "src/rpc/follow.h"

struct client;

/* What is 0 or NULL has the default that its comment names. */
struct client_config {
    const char *endpoints;         /* "host:port,host:port,..." */
    uint64_t attempt_ms;           /* 0: 500 per attempt (a hung leader is left after it) */
    uint64_t timeout_ms;           /* 0: 5,000 overall */
    const struct tls_context *tls; /* NULL: plain; outlives the client */
};
/* The caller's certificate: the files given, what is NULL from CKPT_CA, CKPT_CERT and CKPT_KEY.
 * *ret_tls is NULL when none is named; ERR_EMPTY when only some are. The caller frees it by
 * tls_context_free(). */
int client_tls(const struct tls_files *given, struct tls_context **ret_tls, struct err *err);

/* loop NULL: for client_call_wait alone. An endpoint that is no host:port is ERR_INVALID. */
int client_new(uv_loop_t *loop, const struct client_config *config, struct client **ret_client,
               struct err *err);
/* Open calls end with UNAVAILABLE before it returns; handles are closed by the loop. */
void client_free(struct client *client);

/* reply is NULL unless status is RPC_OK; it is freed after the callback. */
typedef void client_done_fn(void *data, int status, const char *text,
                            const ProtobufCMessage *reply);
/* One call. The message is packed before the call returns. */
struct client_request {
    const char *method;              /* "BrokerService/RegisterAllocation" of package ckpt.v1 */
    const ProtobufCMessage *message; /* of the method's request type */
    const ProtobufCMessageDescriptor *reply_type;
    uint64_t timeout_ms; /* 0: the client's */
};

/* done() never comes before this returns. */
void client_call(struct client *client, const struct client_request *request, client_done_fn *done,
                 void *data);
/* Unique id for a mutating request: random, 32 hexadecimal digits. The same id means the same
 * change: the cluster answers a repeat with the first outcome, for session_ttl of the policy (a day
 * unless changed), whoever leads. A program that may be restarted keeps the id until it has the
 * answer. */
char *client_request_id(char text[33]);

/* Blocking form; the caller frees *ret_reply with protobuf_c_message_free_unpacked. Returns the
 * gRPC status. endpoint NULL: follow the leader; else exactly that one, without retries (status,
 * debug check). */
int client_call_wait(struct client *client, const char *endpoint,
                     const struct client_request *request, ProtobufCMessage **ret_reply,
                     struct err *err);

#endif
