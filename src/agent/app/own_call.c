/* The owner's calls of the cluster's API. See own_call.h. */
#include "src/agent/app/own_call.h"

#include <stdlib.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/agent/app/app_jobs.h"
#include "src/agent/app/own_up.h"
#include "src/agent/job/allocation.h"
#include "src/base/check.h"

/* Calls for users of the node; the broker's rows say which fields they may set. */
struct own_call_row {
    const char *path;
    const ProtobufCMessageDescriptor *type; /* of the request */
};
static const struct own_call_row rows[] = {
    {"/ckpt.v1.BrokerService/GetAllocation", &ckpt__v1__get_allocation_request__descriptor},
    {"/ckpt.v1.BrokerService/ListAllocations", &ckpt__v1__list_allocations_request__descriptor},
    {"/ckpt.v1.BrokerService/ListCheckpoints", &ckpt__v1__list_checkpoints_request__descriptor},
    {"/ckpt.v1.BrokerService/Explain", &ckpt__v1__explain_request__descriptor},
    {"/ckpt.v1.BrokerService/RequestCheckpoint", &ckpt__v1__request_checkpoint_request__descriptor},
    {"/ckpt.v1.BrokerService/RestartAllocation", &ckpt__v1__restart_allocation_request__descriptor},
    {"/ckpt.v1.BrokerService/RequestMigration", &ckpt__v1__request_migration_request__descriptor},
    {"/ckpt.v1.BrokerService/EndAllocation", &ckpt__v1__end_allocation_request__descriptor},
    {"/ckpt.v1.OperatorService/GetLosses", &ckpt__v1__get_losses_request__descriptor},
    {"/ckpt.v1.OperatorService/PinCheckpoint", &ckpt__v1__pin_request__descriptor},
};

_Static_assert(ARRAY_COUNT(rows) == OWN_CALL_COUNT, "each row is served");

struct own_passed {
    struct own_up up; /* the first member: own_up.h */
};

static enum rpc_status passed_named(struct own_up *up, const char *groups,
                                    char text[OWN_UP_TEXT_BYTES])
{
    (void)up, (void)groups, (void)text;
    return RPC_OK;
}

static void passed_answered(struct own_up *up, const uint8_t *bytes, size_t length)
{
    own_up_reply(up, bytes, length);
}

static void passed_free(struct own_up *up)
{
    free((struct own_passed *)up);
}

/* A job that is registered without an owner is its first user's, as this agent has it. */
static bool job_known(const struct agent *agent, const ProtobufCMessage *message, uid_t uid)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "allocation_id");
    const struct allocation *allocation;

    if (field == NULL)
        return false;
    CHECK(field->type == PROTOBUF_C_TYPE_STRING);
    allocation = agent_find(
        agent, *(const char *const *)(const void *)((const char *)message + field->offset));
    return allocation != NULL && app_jobs_seen(allocation, uid);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    static const struct own_up_ops ops = {.named = passed_named,
                                          .answered = passed_answered,
                                          .free = passed_free,
                                          .says_owner = true};
    const struct own_method *method = data;
    ProtobufCMessage *message = protobuf_c_message_unpack(method->row->type, NULL, length, bytes);
    const char *text = "the request is not of this method";
    enum rpc_status status = RPC_INVALID_ARGUMENT;
    struct own_passed *passed;
    bool known = false;

    if (message != NULL) {
        status = own_up_wrong(method->agent, rpc_call_peer(call), &text);
        known = job_known(method->agent, message, rpc_call_peer(call)->uid);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    if (status != RPC_OK) {
        rpc_call_finish(call, status, text);
        return;
    }
    passed = check_calloc(1, sizeof(*passed));
    passed->up.ops = &ops;
    passed->up.path = method->row->path;
    passed->up.known = known;
    passed->up.looks = true;
    buf_append(&passed->up.request, bytes, length);
    own_up_start(method->agent, call, &passed->up);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    (void)data;
    own_up_cancel(call);
}

void own_call_serve(struct rpc_server *server, struct agent *agent,
                    struct own_method methods[OWN_CALL_COUNT])
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        methods[i] = (struct own_method){&rows[i], agent};
        rpc_server_add_method(server, rows[i].path, false, false, &handlers, &methods[i]);
    }
}
