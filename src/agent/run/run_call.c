/* One question of ckpt-run to the node's agent. See run_call.h. */
#include "src/agent/run/run_call.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_options.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/owner.h"

const char *run_unreachable_advice(const char *socket)
{
    struct stat stat;

    if (lstat(socket, &stat) != 0 && errno == ENOENT)
        return "nothing is there: is ckpt-agentd started on this node, with this socket? --socket "
               "names another";
    if (access(socket, W_OK) != 0 && errno == EACCES)
        return "you may not open it: ask who runs this node";
    return "is ckpt-agentd well? (its log tells)";
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct run_answer *answer = data;

    (void)call;
    buf_append(&answer->bytes, bytes, length);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct run_answer *answer = data;

    (void)call;
    answer->status = end->status;
    answer->sent = end->sent;
    text_shown(end->message, answer->text, sizeof(answer->text));
}

struct rpc_channel *run_channel_new(uv_loop_t *loop, const char *socket)
{
    const struct rpc_channel_config config = {
        .check_peer = true, .root_may = true, .peer_uid = geteuid()};
    char address[PATH_MAX];

    snprintf(address, sizeof(address), "unix:%s", socket);
    return rpc_channel_new(loop, address, &config);
}

void run_call(const char *socket, const char *method, const struct buf *request,
              uint64_t timeout_ms, struct run_answer *ret_answer)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    struct rpc_channel *channel;
    uv_loop_t loop;

    *ret_answer = (struct run_answer){.status = -1};
    buf_init(&ret_answer->bytes);
    CHECK(uv_loop_init(&loop) == 0);
    channel = run_channel_new(&loop, socket);
    rpc_channel_unary(channel,
                      &(struct rpc_request){.path = method,
                                            .bytes = request->bytes,
                                            .length = request->length,
                                            .timeout_ms = timeout_ms},
                      &handlers, ret_answer);
    while (ret_answer->status == -1)
        uv_run(&loop, UV_RUN_ONCE);
    rpc_channel_free(channel);
    uv_run(&loop, UV_RUN_DEFAULT); /* closes its handles */
    CHECK(uv_loop_close(&loop) == 0);
}

static void say_refused(const char *text)
{
    fputs("ckpt-run: ", stderr);
    owner_words(stderr, text);
    fputc('\n', stderr);
}

int run_call_fail(const char *socket, const struct run_answer *answer)
{
    switch (answer->status) {
    case RPC_NOT_FOUND:
        say_refused(answer->text);
        return RUN_EXIT_NOT_KNOWN;
    case RPC_PERMISSION_DENIED:
    case RPC_ALREADY_EXISTS:
    case RPC_INVALID_ARGUMENT:
    case RPC_FAILED_PRECONDITION:
    case RPC_RESOURCE_EXHAUSTED:
        say_refused(answer->text);
        return RUN_EXIT_REFUSED;
    case RPC_UNIMPLEMENTED:
        fprintf(stderr, "ckpt-run: what listens at %s is no agent that can do this: %s\n", socket,
                answer->text);
        return RUN_EXIT_SELF;
    default:
        break;
    }
    if (answer->sent && answer->status != RPC_DEADLINE_EXCEEDED)
        fprintf(stderr, "ckpt-run: %s: %s\n", rpc_status_name(answer->status), answer->text);
    else
        fprintf(stderr, "ckpt-run: cannot reach the agent at %s: %s; %s\n", socket, answer->text,
                run_unreachable_advice(socket));
    return RUN_EXIT_SELF;
}
