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

enum { TIMEOUT_MS = 15000 /* the agent gives up earlier */, METHOD_BYTES = 128 };

/* The agent passes on the methods of own_call.c, and knows no other one. */
static int ask(const char *socket, const char *method, uint64_t timeout_ms,
               const ProtobufCMessage *request, struct run_answer *ret_answer)
{
    char path[METHOD_BYTES];
    struct buf bytes;

    snprintf(path, sizeof(path), "/ckpt.v1.%s", method);
    buf_init(&bytes);
    protobuf_c_message_pack(request,
                            buf_extend(&bytes, protobuf_c_message_get_packed_size(request)));
    run_call(socket, path, &bytes, timeout_ms, ret_answer);
    buf_close(&bytes);
    return ret_answer->status;
}

static int transport(void *context, const char *endpoint, const char *method,
                     const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                     ProtobufCMessage **ret_reply, struct err *err)
{
    const struct cli *cli = context;
    const char *socket = cli->endpoints != NULL ? cli->endpoints : RUN_DEFAULT_SOCKET;
    struct run_answer answer;
    int status;

    if (endpoint != NULL) { /* a question to each member */
        err_set(err, ERR_UNAVAILABLE, "an agent speaks with the leader only");
        return RPC_UNAVAILABLE;
    }
    status = ask(socket, method, cli->timeout_set ? cli->timeout_ms : TIMEOUT_MS, request, &answer);
    if (status == RPC_OK) {
        *ret_reply =
            protobuf_c_message_unpack(reply_type, NULL, answer.bytes.length, answer.bytes.bytes);
        if (*ret_reply == NULL) {
            status = RPC_INTERNAL;
            err_set(err, ERR_CORRUPT, "the answer is no %s", reply_type->name);
        }
    } else if (!answer.sent) {
        err_set(err, ERR_UNAVAILABLE, "the agent at %s cannot be reached: %s; %s", socket,
                answer.text, run_unreachable_advice(socket));
    } else {
        err_set(err, ERR_UNAVAILABLE, "%s", answer.text);
    }
    buf_close(&answer.bytes);
    return status;
}

int run_owner(int argc, char **argv)
{
    return owner_run(argc, argv, transport);
}

Ckpt__V1__Allocation *run_owner_job(const char *socket, const char *allocation_id)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__Allocation *job = NULL;
    struct run_answer answer;

    request.allocation_id = check_strdup(allocation_id);
    if (ask(socket, "BrokerService/GetAllocation", TIMEOUT_MS, &request.base, &answer) == RPC_OK)
        job = ckpt__v1__allocation__unpack(NULL, answer.bytes.length, answer.bytes.bytes);
    buf_close(&answer.bytes);
    free(request.allocation_id);
    if (job != NULL && job->spec == NULL) {
        ckpt__v1__allocation__free_unpacked(job, NULL);
        job = NULL;
    }
    return job;
}
