/* Our gRPC client for tests against servers in other languages: rpc_ask ADDRESS.
 *
 * Flow     runs a fixed set of calls one after another against the methods of the test's server
 *          (/test.T/Unary, /Fail, /Chat, /Hold, /Missing) and prints one line for each: "NAME
 *          STATUS messages=N bytes=N text".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/client.h"

struct ask {
    const char *name;
    const char *method;
    size_t messages, bytes; /* to send: that many of that length */
    uint64_t timeout_ms;
};

static const struct ask asks[] = {
    {"empty", "/test.T/Unary", 1, 0, 5000},       {"small", "/test.T/Unary", 1, 200, 5000},
    {"large", "/test.T/Unary", 1, 3000000, 9000}, {"fail", "/test.T/Fail", 1, 1, 5000},
    {"missing", "/test.T/Missing", 1, 1, 5000},   {"hold", "/test.T/Hold", 1, 1, 200},
    {"chat", "/test.T/Chat", 2000, 500, 9000},    {"none", "/test.T/Chat", 0, 0, 5000},
    {"forever", "/test.T/Unary", 1, 10, 0}};

struct result {
    const struct ask *ask;
    size_t messages, bytes, sent;
    uint8_t *message;
    bool done;
};

static void got_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                        size_t length)
{
    struct result *result = data;

    (void)call;
    (void)bytes;
    result->messages++;
    result->bytes += length;
}

static void send_more(struct rpc_client_call *call, void *data)
{
    struct result *result = data;
    bool room = true;

    if (result->sent > result->ask->messages)
        return;
    while (room && result->sent < result->ask->messages) {
        result->sent++;
        room = rpc_client_call_send(call, result->message, result->ask->bytes);
    }
    if (result->sent == result->ask->messages) {
        result->sent++;
        rpc_client_call_half_close(call);
    }
}

static void ended(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct result *result = data;

    (void)call;
    printf("%s %s messages=%zu bytes=%zu %s\n", result->ask->name, rpc_status_name(end->status),
           result->messages, result->bytes, end->message);
    fflush(stdout);
    result->done = true;
}

int main(int argc, char **argv)
{
    static const struct rpc_client_handlers handlers = {
        .on_message = got_message, .on_writable = send_more, .on_end = ended};
    uv_loop_t *loop = uv_default_loop();
    struct rpc_channel *channel;

    CHECK(argc == 2);
    channel = rpc_channel_new(loop, argv[1], NULL);
    for (size_t i = 0; i < ARRAY_COUNT(asks); i++) {
        struct result result = {.ask = &asks[i], .message = check_calloc(1, asks[i].bytes + 1)};
        struct rpc_client_call *call = rpc_channel_open(channel, asks[i].method, asks[i].timeout_ms,
                                                        false, &handlers, &result);

        send_more(call, &result);
        while (!result.done)
            uv_run(loop, UV_RUN_ONCE);
        free(result.message);
    }
    rpc_channel_free(channel);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) == 0 ? 0 : 1;
}
