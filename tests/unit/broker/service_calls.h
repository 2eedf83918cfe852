/* Unary calls of the service's tests, and a registration. */
#ifndef CKPT_TESTS_UNIT_BROKER_SERVICE_CALLS_H
#define CKPT_TESTS_UNIT_BROKER_SERVICE_CALLS_H

#include "tests/unit/broker/service_fixture.h"

struct answer {
    bool ended;
    int status;
    char message[1024];
    char hint[64];
    bool has_hint;
    uint8_t bytes[1 << 16];
    size_t length;
    size_t messages;
    uint64_t last_sequence; /* of events */
};

static inline void take_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                                size_t length)
{
    struct answer *answer = data;

    (void)call;
    assert_true(length <= sizeof(answer->bytes));
    memcpy(answer->bytes, bytes, length);
    answer->length = length;
    answer->messages++;
}

static inline void take_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct answer *answer = data;

    (void)call;
    answer->ended = true;
    answer->status = end->status;
    snprintf(answer->message, sizeof(answer->message), "%s", end->message);
    answer->has_hint = end->redirect != NULL;
    snprintf(answer->hint, sizeof(answer->hint), "%s", end->redirect == NULL ? "" : end->redirect);
}

static const struct rpc_client_handlers unary_handlers = {.on_message = take_message,
                                                          .on_end = take_end};

static inline void start_bytes(const char *path, const uint8_t *bytes, size_t length,
                               struct answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    assert_non_null(rpc_channel_unary(fixture->channel,
                                      &(struct rpc_request){.path = path,
                                                            .bytes = bytes,
                                                            .length = length,
                                                            .timeout_ms = 5000,
                                                            .wait_for_ready = true},
                                      &unary_handlers, answer));
}

static inline void start(const char *path, const ProtobufCMessage *request, struct answer *answer)
{
    uint8_t bytes[4096];
    size_t length = protobuf_c_message_get_packed_size(request);

    assert_true(length <= sizeof(bytes));
    protobuf_c_message_pack(request, bytes);
    start_bytes(path, bytes, length, answer);
}

static inline void call(const char *path, const ProtobufCMessage *request, struct answer *answer)
{
    start(path, request, answer);
    run_until(&answer->ended);
}

static inline void expect(const struct answer *answer, int status, const char *text)
{
    if (answer->status != status || strstr(answer->message, text) == NULL)
        fail_msg("%s '%s', expected %s '%s'", rpc_status_name(answer->status), answer->message,
                 rpc_status_name(status), text);
}

static Ckpt__V1__Strategy registered_as; /* the next ones */
static const char *registered_profile = "";

static inline void pack_registration(const char *request_id, const char *id, uint8_t *bytes,
                                     size_t *ret_length)
{
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare node = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *nodes[] = {&node};

    node.node_id = (char *)(uintptr_t) "node-1";
    node.gpu_count = 4;
    node.gpu_memory_used_bytes = 1 << 30;
    spec.allocation_id = (char *)(uintptr_t)id;
    spec.tenant = (char *)(uintptr_t) "physics";
    spec.project = (char *)(uintptr_t) "heat";
    spec.vcluster = (char *)(uintptr_t) "hpc";
    spec.owner = (char *)(uintptr_t) "ada";
    spec.preemption_class = 3;
    spec.strategy = registered_as;
    spec.profile = (char *)(uintptr_t)registered_profile;
    spec.n_nodes = 1;
    spec.nodes = nodes;
    request.request_id = (char *)(uintptr_t)request_id;
    request.spec = &spec;
    *ret_length = ckpt__v1__register_allocation_request__pack(&request, bytes);
}

#define BROKER(method)   "/ckpt.v1.BrokerService/" method
#define OPERATOR(method) "/ckpt.v1.OperatorService/" method

static inline void start_registration(const char *request_id, const char *id, struct answer *answer)
{
    uint8_t bytes[1024];
    size_t length;

    pack_registration(request_id, id, bytes, &length);
    start_bytes(BROKER("RegisterAllocation"), bytes, length, answer);
}

static inline Ckpt__V1__MutationReply *register_allocation(const char *request_id, const char *id)
{
    static struct answer answer;
    Ckpt__V1__MutationReply *reply;

    start_registration(request_id, id, &answer);
    run_until(&answer.ended);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__mutation_reply__unpack(NULL, answer.length, answer.bytes);
    assert_non_null(reply);
    return reply;
}

#endif
