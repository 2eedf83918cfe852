/* The owner's verbs, over the agent's socket. See run_owner.h. */
#include "src/agent/run/run_owner.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/agent/run/run_call.h"
#include "src/agent/run/run_options.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/owner.h"
#include "src/rpc/server.h"

enum {
    TIMEOUT_MS = 15000, /* the agent gives up earlier */
    JOB_TIMEOUT_MS = 5000,
    METHOD_BYTES = 128
};

/* The agent passes on the methods of own_call.c, and knows no other one. */
static int ask_agent(const char *socket, const struct client_request *request,
                     struct run_answer *ret_answer)
{
    char path[METHOD_BYTES];
    struct buf bytes;

    snprintf(path, sizeof(path), "/ckpt.v1.%s", request->method);
    buf_init(&bytes);
    protobuf_c_message_pack(
        request->message, buf_extend(&bytes, protobuf_c_message_get_packed_size(request->message)));
    run_call(socket, path, &bytes, request->timeout_ms, ret_answer);
    buf_close(&bytes);
    return ret_answer->status;
}

static int take_answer(const struct client_request *request, const char *socket,
                       const struct run_answer *answer, ProtobufCMessage **ret_reply,
                       struct err *err)
{
    if (answer->status != RPC_OK && !answer->sent)
        err_set(err, ERR_UNAVAILABLE, "the agent at %s cannot be reached: %s; %s", socket,
                answer->text, run_unreachable_advice(socket));
    else if (answer->status != RPC_OK)
        err_set(err, ERR_UNAVAILABLE, "%s", answer->text);
    if (answer->status != RPC_OK)
        return answer->status;
    *ret_reply = protobuf_c_message_unpack(request->reply_type, NULL, answer->bytes.length,
                                           answer->bytes.bytes);
    if (*ret_reply != NULL)
        return RPC_OK;
    err_set(err, ERR_CORRUPT, "the answer is no %s", request->reply_type->name);
    return RPC_INTERNAL;
}

static int ask_for_cli(void *context, const char *endpoint, const struct client_request *request,
                       ProtobufCMessage **ret_reply, struct err *err)
{
    const struct cli *cli = context;
    const char *socket = cli->endpoints != NULL ? cli->endpoints : RUN_DEFAULT_SOCKET;
    struct client_request timed = *request;
    struct run_answer answer;
    int status;

    if (endpoint != NULL) { /* a question to each member */
        err_set(err, ERR_UNAVAILABLE, "an agent speaks with the leader only");
        return RPC_UNAVAILABLE;
    }
    timed.timeout_ms = cli->timeout_set ? cli->timeout_ms : TIMEOUT_MS;
    (void)ask_agent(socket, &timed, &answer);
    status = take_answer(&timed, socket, &answer, ret_reply, err);
    buf_close(&answer.bytes);
    return status;
}

int run_owner(int argc, char **argv)
{
    return owner_run(argc, argv, ask_for_cli);
}

Ckpt__V1__Allocation *run_owner_job(const char *socket, const char *allocation_id)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__Allocation *job = NULL;
    struct run_answer answer;

    request.allocation_id = check_strdup(allocation_id);
    if (ask_agent(socket,
                  &(struct client_request){.method = "BrokerService/GetAllocation",
                                           .message = &request.base,
                                           .timeout_ms = JOB_TIMEOUT_MS},
                  &answer) == RPC_OK)
        job = ckpt__v1__allocation__unpack(NULL, answer.bytes.length, answer.bytes.bytes);
    buf_close(&answer.bytes);
    free(request.allocation_id);
    if (job != NULL && job->spec == NULL) {
        ckpt__v1__allocation__free_unpacked(job, NULL);
        job = NULL;
    }
    return job;
}

int run_owner_end(const char *socket, const char *allocation_id)
{
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    struct run_answer answer;
    char id[33];
    int code = EXIT_SUCCESS;

    request.allocation_id = check_strdup(allocation_id);
    request.request_id = client_request_id(id);
    if (ask_agent(socket,
                  &(struct client_request){.method = "BrokerService/EndAllocation",
                                           .message = &request.base,
                                           .timeout_ms = TIMEOUT_MS},
                  &answer) != RPC_OK)
        code = run_call_fail(socket, &answer);
    buf_close(&answer.bytes);
    free(request.allocation_id);
    return code;
}
