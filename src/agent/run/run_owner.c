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

/* NULL: answer says why, and its bytes are the caller's to close in any case. */
static Ckpt__V1__Allocation *ask_for_job(const char *socket, const char *allocation_id,
                                         uint64_t timeout_ms, struct run_answer *ret_answer)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__Allocation *job = NULL;

    request.allocation_id = check_strdup(allocation_id);
    if (ask_agent(socket,
                  &(struct client_request){.method = "BrokerService/GetAllocation",
                                           .message = &request.base,
                                           .timeout_ms = timeout_ms},
                  ret_answer) == RPC_OK)
        job = ckpt__v1__allocation__unpack(NULL, ret_answer->bytes.length, ret_answer->bytes.bytes);
    free(request.allocation_id);
    if (job != NULL && job->spec == NULL) {
        ckpt__v1__allocation__free_unpacked(job, NULL);
        job = NULL;
    }
    return job;
}

Ckpt__V1__Allocation *run_owner_job_asked(const char *socket, const char *allocation_id,
                                          uint64_t timeout_ms, bool *ret_unknown)
{
    struct run_answer answer;
    Ckpt__V1__Allocation *job = ask_for_job(socket, allocation_id, timeout_ms, &answer);

    *ret_unknown = job == NULL && answer.status == RPC_NOT_FOUND;
    buf_close(&answer.bytes);
    return job;
}

Ckpt__V1__Allocation *run_owner_job(const char *socket, const char *allocation_id,
                                    uint64_t timeout_ms)
{
    bool unknown;

    return run_owner_job_asked(socket, allocation_id, timeout_ms, &unknown);
}

/* A job of the caller's has it, also one that has ended. */
static bool id_taken(void *context, const char *id)
{
    Ckpt__V1__Allocation *job = run_owner_job(context, id, RUN_OWNER_JOB_MS);

    if (job == NULL)
        return false;
    ckpt__v1__allocation__free_unpacked(job, NULL);
    return true;
}

void run_owner_job_print(FILE *out, const char *socket, const Ckpt__V1__Allocation *job,
                         const char *node_id)
{
    const struct owner_ids ids = {id_taken, text_message(socket)};

    owner_job_print(out, job, node_id, &ids);
}

void run_owner_job_next(FILE *out, const char *socket, const Ckpt__V1__Allocation *job)
{
    const struct owner_ids ids = {id_taken, text_message(socket)};

    owner_job_next(out, job, &ids);
}

Ckpt__V1__Allocation *run_owner_job_told(const char *socket, const char *allocation_id,
                                         int *ret_code)
{
    struct run_answer answer;
    Ckpt__V1__Allocation *job = ask_for_job(socket, allocation_id, RUN_OWNER_JOB_MS, &answer);

    if (job == NULL)
        *ret_code = run_call_fail(socket, &answer);
    buf_close(&answer.bytes);
    return job;
}

bool run_owner_stopped(const Ckpt__V1__Allocation *job)
{
    return job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED ||
           job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED ||
           job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED ||
           job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED;
}

/* ---- changes ---- */

static void change_ask(const char *socket, const char *method, const ProtobufCMessage *request,
                       struct run_owner_change *ret_change)
{
    Ckpt__V1__MutationReply *reply = NULL;

    *ret_change = (struct run_owner_change){0};
    if (ask_agent(socket,
                  &(struct client_request){
                      .method = method, .message = request, .timeout_ms = TIMEOUT_MS},
                  &ret_change->answer) == RPC_OK)
        reply = ckpt__v1__mutation_reply__unpack(NULL, ret_change->answer.bytes.length,
                                                 ret_change->answer.bytes.bytes);
    buf_close(&ret_change->answer.bytes);
    if (reply == NULL)
        return;
    ret_change->checkpoint_id = reply->checkpoint_id;
    ckpt__v1__mutation_reply__free_unpacked(reply, NULL);
}

int run_owner_end(const char *socket, const char *allocation_id)
{
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    struct run_owner_change ended;
    char id[33];

    request.allocation_id = check_strdup(allocation_id);
    request.request_id = client_request_id(id);
    change_ask(socket, "BrokerService/EndAllocation", &request.base, &ended);
    free(request.allocation_id);
    return ended.answer.status == RPC_OK ? EXIT_SUCCESS : run_call_fail(socket, &ended.answer);
}

void run_owner_checkpoint(const char *socket, const char *allocation_id, const char *request_id,
                          struct run_owner_change *ret_change)
{
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;

    request.allocation_id = check_strdup(allocation_id);
    request.request_id = check_strdup(request_id);
    change_ask(socket, "BrokerService/RequestCheckpoint", &request.base, ret_change);
    free(request.allocation_id);
    free(request.request_id);
}

void run_owner_migrate(const char *socket, const char *allocation_id,
                       struct run_owner_change *ret_change)
{
    Ckpt__V1__RequestMigrationRequest request = CKPT__V1__REQUEST_MIGRATION_REQUEST__INIT;
    char id[33];

    request.allocation_id = check_strdup(allocation_id);
    request.request_id = client_request_id(id);
    change_ask(socket, "BrokerService/RequestMigration", &request.base, ret_change);
    free(request.allocation_id);
}

void run_owner_restart(const char *socket, const char *allocation_id, bool from_scratch,
                       struct run_owner_change *ret_change)
{
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    char id[33];

    request.allocation_id = check_strdup(allocation_id);
    request.request_id = client_request_id(id);
    request.from_scratch = from_scratch;
    change_ask(socket, "BrokerService/RestartAllocation", &request.base, ret_change);
    free(request.allocation_id);
}
