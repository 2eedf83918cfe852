/* A user's call on its way to the leader. See own_up.h. */
#include "src/agent/app/own_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/app/own_names.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/dest/worker.h"
#include "src/rpc/follow.h"

enum {
    CALL_TIMEOUT_MS = 5000,
    RETRY_MIN_MS = 100,
    PATIENCE_US = 10000000,
    NAME_DEADLINE_MS = 10000 /* of the directory of users */
};

struct own_asker {
    struct agent *agent;
    struct rpc_follow *follow;
    char *brokers; /* as configured */
    const char *tenants;
    struct list asked; /* struct own_up */
    struct own_names names;
};

/* ---- ends ---- */

static void up_free(struct own_up *up)
{
    up->agent->clock.timer_free(up->timer);
    buf_close(&up->request);
    up->ops->free(up);
}

void own_up_reply(struct own_up *up, const uint8_t *bytes, size_t length)
{
    list_remove(&up->node);
    rpc_call_set_data(up->call, NULL);
    rpc_call_reply(up->call, bytes, length);
    up_free(up);
}

void own_up_refuse(struct own_up *up, enum rpc_status status, const char *text)
{
    log_warning("own_refused", "method=%s uid=%u status=%s text=\"%s\"", up->path,
                (unsigned)up->uid, rpc_status_name(status), text);
    list_remove(&up->node);
    rpc_call_set_data(up->call, NULL);
    rpc_call_finish(up->call, status, text);
    up_free(up);
}

/* ---- the broker ---- */

static void up_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct own_up *up = data;

    rpc_client_call_cancel(call); /* a refusal is a status */
    up->up = NULL;
    up->ops->answered(up, bytes, length);
}

/* A leader has answered: it begins each refusal with a name, "OUTCOME_UNKNOWN: ...". */
static bool leader_speaks(const char *text)
{
    static const char other[] = "NOT_LEADER:"; /* of those that are none */
    const size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    return length >= 4 && text[length] == ':' && strncmp(text, other, sizeof(other) - 1) != 0;
}

/* Of whoever is asked in vain the user can do nothing but name the addresses. */
static void say_unreached(const struct own_asker *asker, const char *why,
                          char text[OWN_UP_TEXT_BYTES])
{
    snprintf(text, OWN_UP_TEXT_BYTES,
             "no leader of the cluster has answered this node's agent for %d s: %.300s; it asked "
             "%.300s (brokers in ckpt-agentd.yaml); try again, or ask who runs the cluster",
             PATIENCE_US / 1000000, why, asker->brokers);
}

static void up_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct own_up *up = data;
    bool late = agent_now_us(up->agent) - up->began_us >= PATIENCE_US;
    uint64_t delay_ms = RETRY_MIN_MS;
    char text[OWN_UP_TEXT_BYTES], unreached[OWN_UP_TEXT_BYTES];

    (void)call;
    up->up = NULL;
    if (rpc_follow_result(up->agent->own_asker->follow, end, &delay_ms) && !late) {
        up->agent->clock.timer_start(up->timer,
                                     (delay_ms < RETRY_MIN_MS ? RETRY_MIN_MS : delay_ms) * 1000);
        return;
    }
    text_shown(end->message, text, sizeof(text));
    if (end->status == RPC_OK) { /* without a message: no broker of ours */
        own_up_refuse(up, RPC_INTERNAL, "the broker answered nothing");
    } else if (end->status == RPC_UNIMPLEMENTED) {
        own_up_refuse(
            up, RPC_FAILED_PRECONDITION,
            "the cluster's brokers do not take this from owners of jobs; they are older than "
            "this agent");
    } else if (end->status == RPC_UNAVAILABLE && !leader_speaks(text)) {
        say_unreached(up->agent->own_asker, text, unreached);
        own_up_refuse(up, RPC_UNAVAILABLE, unreached);
    } else {
        own_up_refuse(up, (enum rpc_status)end->status, text);
    }
}

struct rpc_client_call *own_asker_call(struct own_asker *asker, const struct own_ask *ask,
                                       const struct rpc_client_handlers *handlers, void *data)
{
    char uid[OWN_UP_UID_BYTES];
    const struct rpc_metadata metadata[RPC_METADATA_MAX] = {
        {"ckpt-owner-node", asker->agent->node_id},
        {"ckpt-owner", ask->owner[0] == '\0' ? uid : ask->owner},
        {"ckpt-owner-uid", uid},
        {"ckpt-owner-known", ask->known   ? "yes"
                             : ask->looks ? "looks"
                                          : "no"}};

    snprintf(uid, sizeof(uid), "%u", (unsigned)ask->uid);
    return rpc_channel_unary(rpc_follow_channel(asker->follow),
                             &(struct rpc_request){.path = ask->path,
                                                   .bytes = ask->request->bytes,
                                                   .length = ask->request->length,
                                                   .timeout_ms = ask->timeout_ms,
                                                   .metadata = metadata,
                                                   .metadata_count = RPC_METADATA_MAX},
                             handlers, data);
}

void own_asker_answered(struct own_asker *asker, const struct rpc_end *end)
{
    uint64_t delay_ms;

    (void)rpc_follow_result(asker->follow, end, &delay_ms);
}

static void up_ask(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = up_message, .on_end = up_end};
    struct own_up *up = data;
    const struct own_ask ask = {.path = up->path,
                                .request = &up->request,
                                .owner = up->owner,
                                .uid = up->uid,
                                .known = up->known,
                                .looks = up->looks,
                                .timeout_ms = CALL_TIMEOUT_MS};

    if (up->ops->says_owner)
        up->up = own_asker_call(up->agent->own_asker, &ask, &handlers, up);
    else
        up->up = rpc_channel_unary(rpc_follow_channel(up->agent->own_asker->follow),
                                   &(struct rpc_request){.path = up->path,
                                                         .bytes = up->request.bytes,
                                                         .length = up->request.length,
                                                         .timeout_ms = CALL_TIMEOUT_MS},
                                   &handlers, up);
}

/* ---- whose it is ---- */

bool own_up_worked(struct own_up *up)
{
    up->worker = NULL;
    if (!up->cancelled)
        return true;
    up_free(up);
    return false;
}

static void name_known(struct own_up *up, const char *owner, const char *groups)
{
    char text[OWN_UP_TEXT_BYTES] = "";
    enum rpc_status status;

    text_copy(up->owner, sizeof(up->owner), owner);
    status = up->ops->named(up, groups, text);
    if (status == RPC_OK)
        up_ask(up);
    else
        own_up_refuse(up, status, text);
}

/* A name that the cluster cannot hold is left for the number, by which the agent finds the user as
 * well. */
static void name_found(void *data, const struct worker_result *result)
{
    struct own_up *up = data;
    char name[ID_MAX_BYTES + 1], groups[OWN_UP_GROUPS_BYTES] = "", text[OWN_UP_TEXT_BYTES] = "";

    if (!own_up_worked(up))
        return;
    if (result->exit_code != WORKER_EXIT_OK) {
        snprintf(text, sizeof(text), "which user of this node you are cannot be found out: %.300s",
                 result->error);
        own_up_refuse(up, RPC_UNAVAILABLE, text);
        return;
    }
    if (worker_output_get(result->output, "name", name, sizeof(name)) != 0 || !id_valid(name))
        snprintf(name, sizeof(name), "%u", (unsigned)up->uid);
    if (worker_output_get(result->output, "groups", groups, sizeof(groups)) != 0)
        groups[0] = '\0';
    own_names_put(&up->agent->own_asker->names, up->uid, agent_now_us(up->agent), name, groups);
    name_known(up, name, groups);
}

static void name_find(struct own_up *up)
{
    char uid[OWN_UP_UID_BYTES];
    const char *const arguments[] = {"name", "--uid", uid, NULL};
    const struct machine_ops *machine = &up->agent->machine;
    const struct own_name *known =
        own_names_get(&up->agent->own_asker->names, up->uid, agent_now_us(up->agent));
    struct err err = {0};

    if (known != NULL) {
        name_known(up, known->owner, known->groups);
        return;
    }
    snprintf(uid, sizeof(uid), "%u", (unsigned)up->uid);
    if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                              NAME_DEADLINE_MS, name_found, up, &up->worker, &err) == 0)
        return;
    up->worker = NULL;
    own_up_refuse(up, RPC_UNAVAILABLE, err.text);
}

/* ---- the caller ---- */

enum rpc_status own_up_wrong(const struct agent *agent, const struct rpc_peer *peer,
                             const char **ret_text)
{
    const struct own_asker *asker = agent->own_asker;
    size_t count = 0;

    *ret_text = "this agent takes nothing from users, or the kernel does not tell who asks";
    if (asker == NULL || !peer->local)
        return RPC_PERMISSION_DENIED;
    for (const struct list *at = asker->asked.next; at != &asker->asked; at = at->next)
        count += LIST_ITEM(at, const struct own_up, node)->uid == peer->uid;
    *ret_text = "4 requests of your user are under way on this node; try again in a moment";
    return count >= OWN_UP_MAX ? RPC_RESOURCE_EXHAUSTED : RPC_OK;
}

void own_up_start(struct agent *agent, struct rpc_call *call, struct own_up *up)
{
    CHECK(up->ops != NULL && up->path != NULL);
    up->agent = agent;
    up->call = call;
    up->uid = rpc_call_peer(call)->uid;
    up->began_us = agent_now_us(agent);
    up->timer = agent->clock.timer_new(agent->clock.context, up_ask, up);
    list_push_back(&agent->own_asker->asked, &up->node);
    rpc_call_set_data(call, up);
    name_find(up);
}

void own_up_cancel(struct rpc_call *call)
{
    struct own_up *up = rpc_call_data(call);

    if (up == NULL)
        return;
    list_remove(&up->node);
    up->agent->clock.timer_stop(up->timer);
    if (up->up != NULL)
        rpc_client_call_cancel(up->up);
    up->up = NULL;
    if (up->worker == NULL) {
        up_free(up);
        return;
    }
    up->cancelled = true;
    up->agent->machine.worker_cancel(up->worker);
}

/* ---- life ---- */

int own_asker_new(struct agent *agent, const char *brokers, const char *tenants,
                  struct own_asker **ret_asker, struct err *err)
{
    const struct rpc_channel_config config = {.tls = agent->tls};
    struct own_asker *asker = check_calloc(1, sizeof(*asker));

    *asker =
        (struct own_asker){.agent = agent, .brokers = check_strdup(brokers), .tenants = tenants};
    list_init(&asker->asked);
    if (rpc_follow_new(agent->loop, brokers, &config, &asker->follow, err) != 0) {
        free(asker->brokers);
        free(asker);
        return -1;
    }
    *ret_asker = asker;
    return 0;
}

void own_asker_free(struct own_asker *asker)
{
    if (asker == NULL)
        return;
    rpc_follow_free(asker->follow);
    own_names_close(&asker->names);
    free(asker->brokers);
    free(asker);
}

void own_asker_recheck(struct own_asker *asker)
{
    if (asker != NULL)
        rpc_follow_recheck(asker->follow);
}

const char *own_asker_tenants(const struct own_asker *asker)
{
    return asker == NULL ? NULL : asker->tenants;
}
