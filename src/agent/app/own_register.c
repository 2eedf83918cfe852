/* AppService.RegisterOwnJob on the agent's unix socket. See own_register.h. */
#include "src/agent/app/own_register.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/own_tenant.h"
#include "src/agent/job/allocation.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/dest/worker.h"
#include "src/rpc/follow.h"

#define REGISTER_OWN_JOB_METHOD        "/ckpt.v1.AppService/RegisterOwnJob"
#define REGISTER_OWN_ALLOCATION_METHOD "/ckpt.v1.BrokerService/RegisterOwnAllocation"

enum {
    CALL_TIMEOUT_MS = 5000,
    RETRY_MIN_MS = 100,
    PATIENCE_US = 10000000,
    NAME_DEADLINE_MS = 10000, /* of the directory of users */
    AT_ONCE_MAX = 4,          /* of one user */
    NOT_STARTED_MAX = 100,    /* likewise */
    TEXT_BYTES = 600,
    GROUPS_BYTES = 8192,
    REQUEST_ID_BYTES = 40
};

struct own_registrar {
    struct agent *agent;
    struct rpc_follow *follow;
    const char *tenants; /* the site's table; NULL: nobody may */
    struct list asked;   /* struct own_request */
};

struct own_request {
    struct list node;
    struct agent *agent;
    struct own_registrar *registrar;
    struct rpc_call *call;
    uid_t uid;
    Ckpt__V1__RegisterOwnJobRequest *message;
    char owner[ID_MAX_BYTES + 1];
    char request_id[REQUEST_ID_BYTES];
    uint64_t began_us;
    struct clock_timer *timer;
    struct worker *worker;
    struct rpc_client_call *up;
    bool cancelled; /* the worker still runs; freed when it ends */
};

/* ---- ends ---- */

static void request_free(struct own_request *request)
{
    request->agent->clock.timer_free(request->timer);
    ckpt__v1__register_own_job_request__free_unpacked(request->message, NULL);
    free(request);
}

static void request_refuse(struct own_request *request, enum rpc_status status, const char *text)
{
    log_warning("own_register_refused", "allocation=%s uid=%u status=%s text=\"%s\"",
                request->message->allocation_id, (unsigned)request->uid, rpc_status_name(status),
                text);
    list_remove(&request->node);
    rpc_call_set_data(request->call, NULL);
    rpc_call_finish(request->call, status, text);
    request_free(request);
}

/* Its owner sees it before anything of it has started. What is known of an id here stays: it is the
 * broker who says whose that is. */
static void keep_owner(const struct own_request *request)
{
    struct allocation *allocation = agent_get(request->agent, request->message->allocation_id);

    if (allocation == NULL || allocation->entry.owned || !allocation_idle(allocation))
        return;
    allocation->entry.owned = true;
    allocation->entry.owner_uid = request->uid;
    text_copy(allocation->entry.owner, sizeof(allocation->entry.owner), request->owner);
    allocation_commit(allocation, NULL, 0);
}

static void request_done(struct own_request *request)
{
    Ckpt__V1__RegisterOwnJobReply reply = CKPT__V1__REGISTER_OWN_JOB_REPLY__INIT;
    char node[ID_MAX_BYTES + 1];
    struct buf bytes;

    keep_owner(request);
    log_info("own_registered", "allocation=%s uid=%u owner=%s", request->message->allocation_id,
             (unsigned)request->uid, request->owner);
    text_copy(node, sizeof(node), request->agent->node_id);
    reply.owner = request->owner;
    reply.node_id = node;
    buf_init(&bytes);
    ckpt__v1__register_own_job_reply__pack(
        &reply, buf_extend(&bytes, ckpt__v1__register_own_job_reply__get_packed_size(&reply)));
    list_remove(&request->node);
    rpc_call_set_data(request->call, NULL);
    rpc_call_reply(request->call, bytes.bytes, bytes.length);
    buf_close(&bytes);
    request_free(request);
}

/* ---- the broker ---- */

static void up_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct own_request *request = data;

    (void)bytes, (void)length; /* a refusal is a status */
    rpc_client_call_cancel(call);
    request->up = NULL;
    request_done(request);
}

static void up_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct own_request *request = data;
    bool late = agent_now_us(request->agent) - request->began_us >= PATIENCE_US;
    uint64_t delay_ms = RETRY_MIN_MS;
    char text[TEXT_BYTES];

    (void)call;
    request->up = NULL;
    if (rpc_follow_result(request->registrar->follow, end, &delay_ms) && !late) {
        request->agent->clock.timer_start(
            request->timer, (delay_ms < RETRY_MIN_MS ? RETRY_MIN_MS : delay_ms) * 1000);
        return;
    }
    text_shown(end->message, text, sizeof(text));
    if (end->status == RPC_OK) /* without a message: no broker of ours */
        request_refuse(request, RPC_INTERNAL, "the broker answered nothing");
    else if (end->status == RPC_UNIMPLEMENTED)
        request_refuse(request, RPC_FAILED_PRECONDITION,
                       "the cluster's brokers do not take jobs from owners; they are older than "
                       "this agent");
    else
        request_refuse(request, (enum rpc_status)end->status, text);
}

static void up_ask(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = up_message, .on_end = up_end};
    struct own_request *own = data;
    const Ckpt__V1__RegisterOwnJobRequest *message = own->message;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *nodes[] = {&share};
    char node[ID_MAX_BYTES + 1];
    struct buf bytes;

    text_copy(node, sizeof(node), own->agent->node_id);
    share.node_id = node;
    share.gpu_count = message->gpu_count;
    spec.allocation_id = message->allocation_id;
    spec.tenant = message->tenant;
    spec.project = message->project;
    spec.vcluster = message->vcluster;
    spec.owner = own->owner;
    spec.profile = message->profile;
    spec.target_id = message->target_id;
    spec.continues = message->continues;
    spec.walltime_ms = message->walltime_ms;
    spec.grace_ms = message->grace_ms;
    spec.on_hang = message->on_hang;
    spec.strategy = CKPT__V1__STRATEGY__STRATEGY_AUTO;
    spec.nodes = nodes;
    spec.n_nodes = 1;
    request.request_id = own->request_id;
    request.spec = &spec;
    buf_init(&bytes);
    ckpt__v1__register_allocation_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__register_allocation_request__get_packed_size(&request)));
    own->up = rpc_channel_unary(rpc_follow_channel(own->registrar->follow),
                                &(struct rpc_request){.path = REGISTER_OWN_ALLOCATION_METHOD,
                                                      .bytes = bytes.bytes,
                                                      .length = bytes.length,
                                                      .timeout_ms = CALL_TIMEOUT_MS},
                                &handlers, own);
    buf_close(&bytes);
}

/* ---- whose it is ---- */

/* Else it is refused. Root speaks for everybody. */
static bool tenant_is_theirs(struct own_request *request, const char *output)
{
    const char *tenant = request->message->tenant;
    char groups[GROUPS_BYTES], text[TEXT_BYTES];

    if (worker_output_get(output, "groups", groups, sizeof(groups)) != 0)
        groups[0] = '\0';
    if (request->uid == 0 ||
        own_tenant_is(tenant, request->owner, groups, request->registrar->tenants))
        return true;
    snprintf(text, sizeof(text),
             "TENANT_NOT_YOURS: tenant %.100s is neither your name nor one of your groups (%.100s; "
             "%.150s), and owners_tenants in ckpt-agentd.yaml does not give it to you: register "
             "with --tenant \"$(id -gn)\", or ask the site",
             tenant, request->owner, groups);
    request_refuse(request, RPC_PERMISSION_DENIED, text);
    return false;
}

/* A name that the cluster cannot hold is left for the number, by which the agent finds the user as
 * well. */
static void name_found(void *data, const struct worker_result *result)
{
    struct own_request *request = data;
    char name[ID_MAX_BYTES + 1], text[TEXT_BYTES];

    request->worker = NULL;
    if (request->cancelled) {
        request_free(request);
        return;
    }
    if (result->exit_code != WORKER_EXIT_OK) {
        snprintf(text, sizeof(text), "which user of this node you are cannot be found out: %.300s",
                 result->error);
        request_refuse(request, RPC_UNAVAILABLE, text);
        return;
    }
    if (worker_output_get(result->output, "name", name, sizeof(name)) == 0 && id_valid(name))
        text_copy(request->owner, sizeof(request->owner), name);
    else
        snprintf(request->owner, sizeof(request->owner), "%u", (unsigned)request->uid);
    if (tenant_is_theirs(request, result->output))
        up_ask(request);
}

static void name_find(struct own_request *request)
{
    char uid[16];
    const char *const arguments[] = {"name", "--uid", uid, NULL};
    const struct machine_ops *machine = &request->agent->machine;
    struct err err = {0};

    snprintf(uid, sizeof(uid), "%u", (unsigned)request->uid);
    if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                              NAME_DEADLINE_MS, name_found, request, &request->worker, &err) == 0)
        return;
    request->worker = NULL;
    request_refuse(request, RPC_UNAVAILABLE, err.text);
}

/* ---- the caller ---- */

static size_t count_asked(const struct own_registrar *registrar, uid_t uid)
{
    size_t count = 0;

    for (const struct list *at = registrar->asked.next; at != &registrar->asked; at = at->next)
        count += LIST_ITEM(at, const struct own_request, node)->uid == uid;
    return count;
}

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

static enum rpc_status caller_wrong(const struct own_registrar *registrar,
                                    const struct rpc_peer *peer,
                                    const Ckpt__V1__RegisterOwnJobRequest *message,
                                    const char **ret_text)
{
    *ret_text = "this site does not take jobs from their owners; a scheduler or an operator "
                "registers them (owners_register: yes in ckpt-agentd.yaml allows it)";
    if (registrar == NULL || registrar->tenants == NULL || !peer->local)
        return RPC_PERMISSION_DENIED;
    *ret_text =
        "allocation_id, tenant and project must be 1 to 128 characters of A-Z a-z 0-9 . _ -";
    if (!id_valid(message->allocation_id) || !id_valid(message->tenant) ||
        !id_valid(message->project))
        return RPC_INVALID_ARGUMENT;
    *ret_text = "4 registrations of your user are under way on this node; try again in a moment";
    if (count_asked(registrar, peer->uid) >= AT_ONCE_MAX)
        return RPC_RESOURCE_EXHAUSTED;
    *ret_text = "100 jobs of your user are registered on this node and not started; start some "
                "(ckpt-run status lists them; ckpt-run --alloc ID -- true completes one)";
    if (peer->uid != 0 && count_not_started(registrar->agent, peer->uid) >= NOT_STARTED_MAX)
        return RPC_RESOURCE_EXHAUSTED;
    return RPC_OK;
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__RegisterOwnJobRequest *message =
        ckpt__v1__register_own_job_request__unpack(NULL, length, bytes);
    const struct rpc_peer *peer = rpc_call_peer(call);
    struct agent *agent = data;
    struct own_request *request;
    const char *text = "the request is no ckpt.v1.RegisterOwnJobRequest";
    enum rpc_status status = RPC_INVALID_ARGUMENT;
    uint64_t random[2];

    if (message != NULL)
        status = caller_wrong(agent->own_registrar, peer, message, &text);
    if (status != RPC_OK) {
        rpc_call_finish(call, status, text);
        if (message != NULL)
            ckpt__v1__register_own_job_request__free_unpacked(message, NULL);
        return;
    }
    CHECK(uv_random(NULL, NULL, random, sizeof(random), 0, NULL) == 0);
    request = check_calloc(1, sizeof(*request));
    request->agent = agent;
    request->registrar = agent->own_registrar;
    request->call = call;
    request->uid = peer->uid;
    request->message = message;
    request->began_us = agent_now_us(agent);
    request->timer = agent->clock.timer_new(agent->clock.context, up_ask, request);
    snprintf(request->request_id, sizeof(request->request_id), "own-%016" PRIx64 "%016" PRIx64,
             random[0], random[1]);
    list_push_back(&agent->own_registrar->asked, &request->node);
    rpc_call_set_data(call, request);
    name_find(request);
}

/* What the broker was told may take effect all the same: the caller asks again, and hears that it
 * exists. */
static void on_cancel(struct rpc_call *call, void *data)
{
    struct own_request *request = rpc_call_data(call);

    (void)data;
    if (request == NULL)
        return;
    list_remove(&request->node);
    request->agent->clock.timer_stop(request->timer);
    if (request->up != NULL)
        rpc_client_call_cancel(request->up);
    request->up = NULL;
    if (request->worker == NULL) {
        request_free(request);
        return;
    }
    request->cancelled = true;
    request->agent->machine.worker_cancel(request->worker);
}

/* ---- life ---- */

int own_registrar_new(struct agent *agent, const char *brokers, const char *tenants,
                      struct own_registrar **ret_registrar, struct err *err)
{
    const struct rpc_channel_config config = {.tls = agent->tls};
    struct own_registrar *registrar = check_calloc(1, sizeof(*registrar));

    *registrar = (struct own_registrar){.agent = agent, .tenants = tenants};
    list_init(&registrar->asked);
    if (rpc_follow_new(agent->loop, brokers, &config, &registrar->follow, err) != 0) {
        free(registrar);
        return -1;
    }
    *ret_registrar = registrar;
    return 0;
}

void own_registrar_free(struct own_registrar *registrar)
{
    if (registrar == NULL)
        return;
    rpc_follow_free(registrar->follow);
    free(registrar);
}

void own_register_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};

    rpc_server_add_method(server, REGISTER_OWN_JOB_METHOD, false, false, &handlers, agent);
}
