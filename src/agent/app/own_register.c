/* AppService.RegisterOwnJob on the agent's unix socket. See own_register.h. */
#include "src/agent/app/own_register.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/own_up.h"
#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/serve/tenant_table.h"

#define REGISTER_OWN_JOB_METHOD        "/ckpt.v1.AppService/RegisterOwnJob"
#define REGISTER_OWN_ALLOCATION_METHOD "/ckpt.v1.BrokerService/RegisterOwnAllocation"

enum { NOT_STARTED_MAX = 100 /* of one user */, REQUEST_ID_BYTES = 40, OWN_NODES_MAX = 256 };

struct own_request {
    struct own_up up; /* the first member: own_up.h */
    Ckpt__V1__RegisterOwnJobRequest *message;
    char request_id[REQUEST_ID_BYTES];
    size_t node_count; /* of the job */
};

/* ---- ends ---- */

static void request_free(struct own_up *up)
{
    struct own_request *own = (struct own_request *)up;

    ckpt__v1__register_own_job_request__free_unpacked(own->message, NULL);
    free(own);
}

/* Its owner sees it before anything of it has started. What is known of an id here stays: it is the
 * broker who says whose that is. */
static void keep_owner(const struct own_request *own)
{
    struct allocation *allocation = agent_get(own->up.agent, own->message->allocation_id);

    if (allocation == NULL || allocation->entry.owned || !allocation_idle(allocation))
        return;
    allocation->entry.owned = true;
    allocation->entry.owner_uid = own->up.uid;
    text_copy(allocation->entry.owner, sizeof(allocation->entry.owner), own->up.owner);
    allocation_commit(allocation, NULL, 0);
}

static void request_answered(struct own_up *up, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__RegisterOwnJobReply reply = CKPT__V1__REGISTER_OWN_JOB_REPLY__INIT;
    struct own_request *own = (struct own_request *)up;
    char node[ID_MAX_BYTES + 1];
    struct buf packed;

    (void)bytes, (void)length; /* a refusal is a status */
    keep_owner(own);
    log_info("own_registered", "allocation=%s uid=%u owner=%s", own->message->allocation_id,
             (unsigned)up->uid, up->owner);
    text_copy(node, sizeof(node), up->agent->node_id);
    reply.owner = up->owner;
    reply.node_id = node;
    reply.node_count = (uint32_t)own->node_count;
    buf_init(&packed);
    ckpt__v1__register_own_job_reply__pack(
        &reply, buf_extend(&packed, ckpt__v1__register_own_job_reply__get_packed_size(&reply)));
    own_up_reply(up, packed.bytes, packed.length);
    buf_close(&packed);
}

/* ---- the broker ---- */

/* This node, unless the caller names it, and the named ones; the caller frees the list. */
static size_t request_nodes(const struct own_request *own, Ckpt__V1__NodeShare *share,
                            Ckpt__V1__NodeShare ***ret_nodes)
{
    const Ckpt__V1__RegisterOwnJobRequest *message = own->message;
    Ckpt__V1__NodeShare **nodes = check_calloc(message->n_nodes + 1, sizeof(*nodes));
    bool named = false;
    size_t count = 0;

    for (size_t i = 0; i < message->n_nodes; i++)
        named = named || strcmp(message->nodes[i]->node_id, share->node_id) == 0;
    if (!named)
        nodes[count++] = share;
    for (size_t i = 0; i < message->n_nodes; i++)
        nodes[count++] = message->nodes[i];
    *ret_nodes = nodes;
    return count;
}

static void request_pack(struct own_request *own)
{
    const Ckpt__V1__RegisterOwnJobRequest *message = own->message;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT;
    char node[ID_MAX_BYTES + 1];

    text_copy(node, sizeof(node), own->up.agent->node_id);
    share.node_id = node;
    share.gpu_count = message->gpu_count;
    spec.allocation_id = message->allocation_id;
    spec.tenant = message->tenant;
    spec.project = message->project;
    spec.vcluster = message->vcluster;
    spec.owner = own->up.owner;
    spec.profile = message->profile;
    spec.target_id = message->target_id;
    spec.continues = message->continues;
    spec.attributes = message->attributes;
    spec.walltime_ms = message->walltime_ms;
    spec.grace_ms = message->grace_ms;
    spec.on_hang = message->on_hang;
    spec.strategy = message->strategy == CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED
                        ? CKPT__V1__STRATEGY__STRATEGY_AUTO
                        : message->strategy;
    spec.period_ms = message->period_ms;
    spec.first_period_ms = message->first_period_ms;
    spec.requeue_policy = message->requeue_policy;
    spec.restart = message->restart;
    spec.restore = message->restore;
    spec.staging = message->staging;
    spec.n_nodes = own->node_count = request_nodes(own, &share, &spec.nodes);
    request.request_id = own->request_id;
    request.spec = &spec;
    request.waits = spec.n_nodes > 1;
    ckpt__v1__register_allocation_request__pack(
        &request, buf_extend(&own->up.request,
                             ckpt__v1__register_allocation_request__get_packed_size(&request)));
    free(spec.nodes);
}

/* The tenant must be the user's. Root speaks for everybody. */
static enum rpc_status request_named(struct own_up *up, const char *groups,
                                     char text[OWN_UP_TEXT_BYTES])
{
    struct own_request *own = (struct own_request *)up;
    const char *tenant = own->message->tenant;

    if (up->uid != 0 && !tenant_is_named(tenant, up->owner, groups) &&
        !tenant_table_gives(own_asker_tenants(up->agent->own_asker), tenant, up->owner, groups)) {
        snprintf(text, OWN_UP_TEXT_BYTES,
                 "TENANT_NOT_YOURS: tenant %.100s is neither your name nor one of your groups "
                 "(%.100s; %.150s), and owners_tenants in ckpt-agentd.yaml does not give it to "
                 "you: register with --tenant \"$(id -gn)\", or ask the site",
                 tenant, up->owner, groups);
        return RPC_PERMISSION_DENIED;
    }
    request_pack(own);
    return RPC_OK;
}

/* ---- the caller ---- */

static size_t count_not_started(const struct agent *agent, uid_t uid)
{
    size_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct ledger_entry *entry = &LIST_ITEM(at, struct allocation, node)->entry;

        count +=
            entry->owned && entry->owner_uid == uid && entry->started_at_ms == 0 && !entry->ended;
    }
    return count;
}

static enum rpc_status caller_wrong(const struct agent *agent, const struct rpc_peer *peer,
                                    const Ckpt__V1__RegisterOwnJobRequest *message, struct err *err,
                                    const char **ret_text)
{
    enum rpc_status status;

    *ret_text = "this site does not take jobs from their owners; a scheduler or an operator "
                "registers them (owners_register: yes in ckpt-agentd.yaml allows it)";
    if (own_asker_tenants(agent->own_asker) == NULL)
        return RPC_PERMISSION_DENIED;
    *ret_text = err->text;
    if (id_check("allocation_id", message->allocation_id, err) != 0 ||
        id_check("tenant", message->tenant, err) != 0 ||
        id_check("project", message->project, err) != 0)
        return RPC_INVALID_ARGUMENT;
    *ret_text = "at most 256 nodes are named in a registration by an owner";
    if (message->n_nodes > OWN_NODES_MAX)
        return RPC_INVALID_ARGUMENT;
    status = own_up_wrong(agent, peer, ret_text);
    if (status != RPC_OK)
        return status;
    *ret_text = "100 jobs of your user are registered on this node and not started; start some "
                "(ckpt-run status lists them; ckpt-run --alloc ID -- true completes one)";
    if (peer->uid != 0 && count_not_started(agent, peer->uid) >= NOT_STARTED_MAX)
        return RPC_RESOURCE_EXHAUSTED;
    return RPC_OK;
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    static const struct own_up_ops ops = {
        .named = request_named, .answered = request_answered, .free = request_free};
    Ckpt__V1__RegisterOwnJobRequest *message =
        ckpt__v1__register_own_job_request__unpack(NULL, length, bytes);
    struct agent *agent = data;
    struct own_request *own;
    const char *text = "the request is no ckpt.v1.RegisterOwnJobRequest";
    enum rpc_status status = RPC_INVALID_ARGUMENT;
    struct err err = {0};
    uint64_t random[2];

    if (message != NULL)
        status = caller_wrong(agent, rpc_call_peer(call), message, &err, &text);
    if (status != RPC_OK) {
        rpc_call_finish(call, status, text);
        if (message != NULL)
            ckpt__v1__register_own_job_request__free_unpacked(message, NULL);
        return;
    }
    CHECK(uv_random(NULL, NULL, random, sizeof(random), 0, NULL) == 0);
    own = check_calloc(1, sizeof(*own));
    own->up.ops = &ops;
    own->up.path = REGISTER_OWN_ALLOCATION_METHOD;
    own->message = message;
    snprintf(own->request_id, sizeof(own->request_id), "own-%016" PRIx64 "%016" PRIx64, random[0],
             random[1]);
    own_up_start(agent, call, &own->up);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    (void)data;
    own_up_cancel(call);
}

void own_register_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};

    rpc_server_add_method(server, REGISTER_OWN_JOB_METHOD, false, false, &handlers, agent);
}
