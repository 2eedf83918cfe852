/* libckptclient: a C client that follows the leader and retries with request ids. The library for
 * schedulers' plug-ins and for ckptctl; README.md has an example.
 *
 * Order    1. client_tls() when the cluster has certificates.
 *          2. client_new() with the addresses of all members, or of some: the client finds the
 *             others.
 *          3. client_request_id() once for each change; the request carries the text.
 *          4. client_call() for each call, also for several at once; done() comes once for each. A
 *             program without a loop uses client_call_wait() instead, one call at a time.
 *          5. client_free(); the loop runs on until the client's handles are closed; then
 *             tls_context_free().
 * Flow     client_call() sends one unary request. Until the deadline it retries the request on
 *          UNAVAILABLE, with or without a redirect, and on RESOURCE_EXHAUSTED with push-back.
 *          Each retry has the same bytes, so the same request id. client_call_wait() runs a loop of
 *          its own.
 * Errors   a gRPC status and a text. RPC_DEADLINE_EXCEEDED means that the outcome is unknown: ask
 *          again with the same request id. When no attempt can have been applied, a call that
 *          passes its deadline ends with UNAVAILABLE or RESOURCE_EXHAUSTED and the last attempt's
 *          text. A refusal by the cluster's rules has a text that begins with the refusal's name
 *          (fsm/STATUSES.md). It is final and never retried.
 * Owners   texts and messages of the caller are copied or packed before the call returns. The TLS
 *          context is borrowed until client_free(). The client frees a reply after done(). The
 *          reply of client_call_wait() is the caller's.
 * Threads  none of its own. All calls on a client, and done(), run on the thread of its loop. Two
 *          clients on two loops share nothing.
 * Limits   16 addresses; a request of 256 KiB; a reply of 4 MiB. Open calls share one connection.
 */
#ifndef CKPT_CLIENT_CLIENT_H
#define CKPT_CLIENT_CLIENT_H

#include <protobuf-c/protobuf-c.h>

#include "src/rpc/follow.h"

struct client;

/* A field that is 0 or NULL has the default of its comment. */
struct client_config {
    const char *endpoints; /* "host:port,host:port,..." */
    /* 0: 500; a leader that does not answer an attempt for so long is left */
    uint64_t attempt_ms;
    uint64_t timeout_ms;           /* 0: 5,000; of the whole call */
    const struct tls_context *tls; /* NULL: no TLS; must outlive the client */
};
/* The caller's certificate from the given files; files that are NULL are named by CKPT_CA,
 * CKPT_CERT and CKPT_KEY. *ret_tls is NULL when no file is named; ERR_EMPTY when only some are. The
 * caller frees the context by tls_context_free(). */
int client_tls(const struct tls_files *given, struct tls_context **ret_tls, struct err *err);

/* loop NULL: only client_call_wait() may be used. ERR_INVALID: an endpoint is no host:port. */
int client_new(uv_loop_t *loop, const struct client_config *config, struct client **ret_client,
               struct err *err);
/* Open calls end with UNAVAILABLE before it returns. The loop closes the handles. */
void client_free(struct client *client);

/* reply is NULL unless status is RPC_OK; the client frees it after the callback. */
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
 * change: under every leader the cluster answers a repeat with the first outcome, for the policy's
 * session_ttl (a day by default). A program that may be restarted stores the id until it has the
 * answer. */
char *client_request_id(char text[33]);

/* Blocks until the call has ended; the caller frees *ret_reply with
 * protobuf_c_message_free_unpacked. Returns the gRPC status. endpoint NULL: follow the leader; else
 * this endpoint alone, without retries. */
int client_call_wait(struct client *client, const char *endpoint,
                     const struct client_request *request, ProtobufCMessage **ret_reply,
                     struct err *err);

#endif
