/* client_call_wait: one call on a private loop, for programs without one. See client.h. */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/client/client_internal.h"

struct wait {
    bool done;
    int status;
    ProtobufCMessage *reply;
    struct err *err;
};

static enum err_code code_of(int status)
{
    switch (status) {
    case RPC_INVALID_ARGUMENT:
    case RPC_OUT_OF_RANGE:
    case RPC_UNIMPLEMENTED:
        return ERR_INVALID;
    case RPC_DEADLINE_EXCEEDED:
        return ERR_TIMEOUT;
    case RPC_NOT_FOUND:
        return ERR_NOT_FOUND;
    case RPC_PERMISSION_DENIED:
    case RPC_UNAUTHENTICATED:
        return ERR_AUTH;
    case RPC_RESOURCE_EXHAUSTED:
        return ERR_FULL;
    case RPC_UNAVAILABLE:
        return ERR_UNAVAILABLE;
    case RPC_DATA_LOSS:
        return ERR_CORRUPT;
    case RPC_ALREADY_EXISTS:
    case RPC_FAILED_PRECONDITION:
    case RPC_ABORTED:
        return ERR_REFUSED;
    default:
        return ERR_IO;
    }
}

/* The reply belongs to the call: a copy goes by way of its bytes. */
static ProtobufCMessage *message_copy(const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = check_alloc(length + 1);
    ProtobufCMessage *copy;

    protobuf_c_message_pack(message, bytes);
    copy = protobuf_c_message_unpack(message->descriptor, NULL, length, bytes);
    free(bytes);
    CHECK(copy != NULL);
    return copy;
}

static void wait_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct wait *wait = data;

    wait->done = true;
    wait->status = status;
    if (status == RPC_OK)
        wait->reply = message_copy(reply);
    else
        err_set(wait->err, code_of(status), "%s", text[0] != '\0' ? text : rpc_status_name(status));
}

/* A client on the private loop: of one endpoint, or with the settings of the caller's. */
static int wait_client(uv_loop_t *loop, const struct client *client, const char *endpoint,
                       struct client **ret_private, struct err *err)
{
    const struct client_config config = {.endpoints = client->endpoints,
                                         .attempt_ms = client->attempt_ms,
                                         .timeout_ms = client->timeout_ms,
                                         .tls = client->tls};
    const struct rpc_channel_config channel = {.tls = client->tls};

    if (endpoint == NULL)
        return client_new(loop, &config, ret_private, err);
    *ret_private = client_make(loop, client->attempt_ms, client->timeout_ms);
    (*ret_private)->channel = rpc_channel_new(loop, endpoint, &channel);
    return 0;
}

int client_call_wait(struct client *client, const char *endpoint,
                     const struct client_request *request, ProtobufCMessage **ret_reply,
                     struct err *err)
{
    struct wait wait = {.err = err};
    struct client *private_client;
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    if (wait_client(&loop, client, endpoint, &private_client, err) != 0) {
        CHECK(uv_loop_close(&loop) == 0);
        return RPC_INVALID_ARGUMENT;
    }
    client_call(private_client, request, wait_done, &wait);
    while (!wait.done)
        uv_run(&loop, UV_RUN_ONCE);
    client_free(private_client);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    if (wait.status == RPC_OK)
        *ret_reply = wait.reply;
    return wait.status;
}
