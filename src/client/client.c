/* Calls that follow the leader and are retried with the same bytes. See client.h.
 *
 * Flow     client_call packs once → attempt on the current channel → end: done, or another attempt
 *          (at once, after a delay or after the peer's push-back) until the deadline.
 * Shapes   a call is in its client's list until done; the private loop of client_call_wait holds
 *          nothing afterwards.
 * Units    milliseconds.
 */
#include "src/client/client_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/ops.h"
#include "src/base/text.h"
#include "src/rpc/uv_clock.h"

enum { ATTEMPT_MS = 500, TIMEOUT_MS = 5000, METHOD_BYTES = 128 };

struct client_pending {
    struct list node;
    struct client *client;
    char path[METHOD_BYTES];
    uint8_t *request;
    size_t length;
    const ProtobufCMessageDescriptor *reply_type;
    client_done_fn *done;
    void *data;
    uint64_t deadline_ms;
    /* until the next attempt, or the deadline while there is none under way */
    struct rpc_timer timer;
    struct rpc_client_call *attempt;
    uint64_t attempt_began_ms;
    bool attempt_cut; /* it ends with the caller's deadline, before its own time is over */
    ProtobufCMessage *reply;
    bool reply_bad;
    char last_text[256]; /* of the last refused attempt: why it took so long */
    int last_status;
    bool uncertain; /* an attempt may have been applied without our hearing of it */
};

static void pending_attempt(struct client_pending *pending);

static void pending_timer(struct rpc_timer *timer)
{
    pending_attempt(LIST_ITEM(timer, struct client_pending, timer));
}

struct client *client_make(uv_loop_t *loop, uint64_t attempt_ms, uint64_t timeout_ms)
{
    struct client *client = check_calloc(1, sizeof(*client));

    client->loop = loop;
    client->attempt_ms = attempt_ms > 0 ? attempt_ms : ATTEMPT_MS;
    client->timeout_ms = timeout_ms > 0 ? timeout_ms : TIMEOUT_MS;
    list_init(&client->calls);
    if (loop != NULL)
        rpc_timers_init(&client->timers, loop);
    return client;
}

int client_new(uv_loop_t *loop, const struct client_config *config, struct client **ret_client,
               struct err *err)
{
    const struct rpc_channel_config channel = {
        .connect_timeout_ms = config->attempt_ms > 0 ? config->attempt_ms : ATTEMPT_MS,
        .tls = config->tls};
    struct rpc_follow *follow;

    if (rpc_follow_new(loop, config->endpoints, &channel, &follow, err) != 0)
        return -1;
    *ret_client = client_make(loop, config->attempt_ms, config->timeout_ms);
    (*ret_client)->follow = follow;
    (*ret_client)->endpoints = check_strdup(config->endpoints);
    (*ret_client)->tls = config->tls;
    return 0;
}

static void pending_done(struct client_pending *pending, int status, const char *text)
{
    struct client *client = pending->client;

    CHECK(pending->attempt == NULL);
    rpc_timer_stop(&client->timers, &pending->timer);
    list_remove(&pending->node);
    pending->done(pending->data, status, text, status == RPC_OK ? pending->reply : NULL);
    if (pending->reply != NULL)
        protobuf_c_message_free_unpacked(pending->reply, NULL);
    free(pending->request);
    free(pending);
}

static void client_timers_closed(void *data)
{
    struct client *client = data;

    free(client->endpoints);
    free(client);
}

void client_free(struct client *client)
{
    if (client == NULL)
        return;
    client->freeing = true;
    while (!list_empty(&client->calls)) {
        struct client_pending *pending = LIST_ITEM(client->calls.next, struct client_pending, node);

        if (pending->attempt != NULL)
            rpc_client_call_cancel(pending->attempt);
        pending->attempt = NULL;
        pending_done(pending, RPC_UNAVAILABLE, "client closed");
    }
    rpc_follow_free(client->follow);
    rpc_channel_free(client->channel);
    if (client->loop != NULL)
        rpc_timers_close(&client->timers, client_timers_closed, client);
    else
        client_timers_closed(client);
}

static void attempt_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                            size_t length)
{
    struct client_pending *pending = data;

    (void)call;
    if (pending->reply != NULL) {
        pending->reply_bad = true; /* a unary answer is one message */
        return;
    }
    pending->reply = protobuf_c_message_unpack(pending->reply_type, NULL, length, bytes);
    pending->reply_bad = pending->reply == NULL;
}

/* The caller's deadline ended it, which says nothing about the member: only when such attempts have
 * waited for as long as one may last, and nothing else was heard of it meanwhile, it is left. */
static bool attempt_was_cut(struct client_pending *pending, const struct rpc_end *end,
                            uint64_t now_ms)
{
    struct client *client = pending->client;
    uint64_t from_ms = pending->attempt_began_ms;

    if (!pending->attempt_cut || end->status != RPC_DEADLINE_EXCEEDED) {
        client->waited_ms = 0;
        return false;
    }
    if (from_ms < client->waited_until_ms)
        from_ms = client->waited_until_ms; /* several wait at the same time */
    client->waited_ms += now_ms - from_ms;
    client->waited_until_ms = now_ms;
    if (client->waited_ms < client->attempt_ms)
        return true;
    client->waited_ms = 0;
    return false;
}

/* Whether another attempt may help, and when. */
static bool attempt_retry(struct client_pending *pending, const struct rpc_end *end,
                          uint64_t *ret_delay_ms)
{
    struct client *client = pending->client;

    if (client->follow == NULL || client->freeing)
        return false;
    return rpc_follow_result(client->follow, end, ret_delay_ms);
}

static void note_refusal(struct client_pending *pending, const struct rpc_end *end)
{
    bool hung = end->status == RPC_DEADLINE_EXCEEDED && !end->sent; /* it tells nothing new */

    if (!hung || pending->last_status == RPC_OK) {
        text_copy(pending->last_text, sizeof(pending->last_text), end->message);
        pending->last_status = hung ? RPC_UNAVAILABLE : end->status;
    }
    /* A redirect, like RESOURCE_EXHAUSTED, comes from a member that proposed nothing.
     * UNAVAILABLE without one may come later. */
    if (end->sent && end->redirect == NULL && end->status != RPC_RESOURCE_EXHAUSTED)
        pending->uncertain = true;
}

/* Who knows that nothing happened is not told that it is unknown. */
static void pending_overdue(struct client_pending *pending)
{
    char text[sizeof(pending->last_text) + 96];
    bool tried = pending->last_status != RPC_OK;

    if (tried && !pending->uncertain) {
        pending_done(pending, pending->last_status, pending->last_text);
        return;
    }
    snprintf(text, sizeof(text), "no answer in time%s%s%s%s", tried ? "; last attempt: " : "",
             tried ? rpc_status_name(pending->last_status) : "", tried ? ": " : "",
             pending->last_text);
    pending_done(pending, RPC_DEADLINE_EXCEEDED, text);
}

static void attempt_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct client_pending *pending = data;
    struct client *client = pending->client;
    uint64_t now_ms = uv_now(client->loop);
    uint64_t delay_ms = 0;

    (void)call;
    pending->attempt = NULL;
    if (attempt_was_cut(pending, end, now_ms)) {
        note_refusal(pending, end);
        pending_overdue(pending);
    } else if (attempt_retry(pending, end, &delay_ms)) {
        note_refusal(pending, end);
        if (pending->reply != NULL)
            protobuf_c_message_free_unpacked(pending->reply, NULL);
        pending->reply = NULL;
        pending->reply_bad = false;
        /* never inside the callback, and never past the deadline */
        rpc_timer_start(&client->timers, &pending->timer,
                        delay_ms < pending->deadline_ms - now_ms ? now_ms + delay_ms
                                                                 : pending->deadline_ms);
    } else if (end->status == RPC_OK && (pending->reply == NULL || pending->reply_bad)) {
        pending_done(pending, RPC_INTERNAL, "answer is not the expected message");
    } else {
        pending_done(pending, end->status, end->message);
    }
}

static const struct rpc_client_handlers attempt_handlers = {.on_message = attempt_message,
                                                            .on_end = attempt_end};

static void pending_attempt(struct client_pending *pending)
{
    struct client *client = pending->client;
    uint64_t now_ms = uv_now(client->loop);
    uint64_t left_ms = pending->deadline_ms > now_ms ? pending->deadline_ms - now_ms : 0;

    if (left_ms == 0) {
        pending_overdue(pending);
        return;
    }
    pending->attempt_began_ms = now_ms;
    pending->attempt_cut = client->follow != NULL && left_ms < client->attempt_ms;
    if (client->follow != NULL && left_ms > client->attempt_ms)
        left_ms = client->attempt_ms;
    pending->attempt = rpc_channel_unary(client->follow != NULL ? rpc_follow_channel(client->follow)
                                                                : client->channel,
                                         &(struct rpc_request){.path = pending->path,
                                                               .bytes = pending->request,
                                                               .length = pending->length,
                                                               .timeout_ms = left_ms},
                                         &attempt_handlers, pending);
}

void client_call(struct client *client, const struct client_request *request, client_done_fn *done,
                 void *data)
{
    struct client_pending *pending = check_calloc(1, sizeof(*pending));
    int written = snprintf(pending->path, sizeof(pending->path), "/ckpt.v1.%s", request->method);

    CHECK(client->loop != NULL && !client->freeing);
    CHECK(written > 0 && (size_t)written < sizeof(pending->path));
    pending->client = client;
    pending->length = protobuf_c_message_get_packed_size(request->message);
    pending->request = check_alloc(pending->length + 1); /* also for an empty message */
    protobuf_c_message_pack(request->message, pending->request);
    pending->reply_type = request->reply_type;
    pending->done = done;
    pending->data = data;
    rpc_timer_init(&pending->timer, pending_timer);
    uv_update_time(client->loop); /* the program may have computed for long before this */
    pending->deadline_ms =
        uv_now(client->loop) + (request->timeout_ms > 0 ? request->timeout_ms : client->timeout_ms);
    list_push_back(&client->calls, &pending->node);
    pending_attempt(pending);
}

char *client_request_id(char text[33])
{
    struct random_ops random;
    uint8_t bytes[16];

    uv_random_ops(&random);
    random.fill(random.context, bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}
