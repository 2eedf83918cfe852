/* Certificates against roles. See access.h. */
#include "src/broker/api/access.h"

#include <stdio.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"

/* "scheduler or operator": the kinds of a method, for a refusal. */
static void name_kinds(unsigned kinds, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "no certificate");
    for (unsigned kind = TLS_NOBODY + 1; kind < TLS_KIND_COUNT && used < size; kind++) {
        if (kinds & 1u << kind)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : " or ",
                                     tls_kind_name((enum tls_kind)kind));
    }
}

bool access_allowed(const char *cluster, const struct rpc_peer *peer,
                    const struct access_call *call, char *text, size_t size)
{
    const unsigned kinds = call->roles;
    struct tls_identity identity = {.kind = TLS_NOBODY};
    char names[96];

    /* who may open the socket's file is trusted like an operator */
    if (peer->local) {
        identity.kind = TLS_OPERATOR;
    } else if (tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) != 0) {
        snprintf(text, size,
                 "PERMISSION_DENIED: the client certificate names nobody, it must have exactly one "
                 "URI ckpt://%s/KIND/NAME; ckptctl tls issue makes such a one",
                 cluster);
        return false;
    } else if (strcmp(identity.cluster, cluster) != 0) {
        snprintf(text, size, "PERMISSION_DENIED: %s is of another cluster than %s", peer->identity,
                 cluster);
        return false;
    }
    if (identity.tenant[0] != '\0' && call->beyond_tenant && (kinds & 1u << identity.kind)) {
        snprintf(text, size,
                 "PERMISSION_DENIED: %s is for the jobs of tenant %s alone, and %s is about others "
                 "as well; it takes a scheduler's certificate without a tenant, or an operator's",
                 peer->identity, identity.tenant, call->path + 1);
        return false;
    }
    if (kinds & 1u << identity.kind)
        return true;
    name_kinds(kinds, names, sizeof(names));
    snprintf(text, size, "PERMISSION_DENIED: %s may not call %s; it takes a certificate of kind %s",
             peer->local ? "a local user" : peer->identity, call->path + 1, names);
    return false;
}

bool access_is_agent(const struct rpc_peer *peer, const char *node_id)
{
    struct tls_identity identity;

    if (!peer->tls)
        return true;
    return tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) == 0 &&
           identity.kind == TLS_AGENT && strcmp(identity.name, node_id) == 0;
}

bool access_is_kind(const struct rpc_peer *peer, enum tls_kind kind)
{
    struct tls_identity identity;

    return peer->tls &&
           tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) == 0 &&
           identity.kind == kind;
}

/* A user's job may ask for so long to write its last checkpoint; more would hold nodes that others
 * wait for. */
enum { OWN_GRACE_MAX_MS = 600000, OWN_PERIOD_MIN_MS = 60000, OWN_WRONG_BYTES = 256 };

/* What a user may say of an own job, and of its nodes; all else, also what is added to the messages
 * later, is for schedulers and operators. `continues` names an own job as well: the state refuses
 * one of another owner. */
static const char *const own_fields[] = {"allocation_id", "tenant",          "project",
                                         "vcluster",      "owner",           "profile",
                                         "nodes",         "strategy",        "restore",
                                         "walltime_ms",   "grace_ms",        "target_id",
                                         "continues",     "period_ms",       "requeue_policy",
                                         "restart",       "staging",         "attributes",
                                         "on_hang",       "first_period_ms", NULL};
static const char *const own_node_fields[] = {"node_id", "gpu_count", NULL};

static bool field_given(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *at = (const char *)message + field->offset;

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)((const char *)message + field->quantifier_offset) > 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return **(const char *const *)at != '\0';
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_UINT32:
        return *(const uint32_t *)at != 0;
    case PROTOBUF_C_TYPE_UINT64:
        return *(const uint64_t *)at != 0;
    default:
        return true; /* of no use to an owner */
    }
}

const char *access_field_beyond(const ProtobufCMessage *message, const char *const *fields)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const char *const *at = fields;

        while (*at != NULL && strcmp(type->fields[i].name, *at) != 0)
            at++;
        if (*at == NULL && field_given(message, &type->fields[i]))
            return type->fields[i].name;
    }
    return NULL;
}

const char *access_text_field(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    if (field == NULL)
        return "";
    CHECK(field->type == PROTOBUF_C_TYPE_STRING);
    return *(const char *const *)(const void *)((const char *)message + field->offset);
}

uint64_t access_number_field(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    if (field == NULL)
        return 0;
    CHECK(field->type == PROTOBUF_C_TYPE_UINT64);
    return *(const uint64_t *)(const void *)((const char *)message + field->offset);
}

/* Of its nodes. */
static const char *own_nodes_wrong(const struct rpc_peer *peer, const struct fsm *fsm,
                                   const Ckpt__V1__RegisterAllocationRequest *request,
                                   char text[OWN_WRONG_BYTES])
{
    const Ckpt__V1__AllocationSpec *spec = request->spec;
    bool has_own = false;

    for (size_t i = 0; i < spec->n_nodes; i++) {
        const Ckpt__V1__NodeShare *share = spec->nodes[i];
        const struct fsm_node *node = fsm == NULL ? NULL : fsm_node_find(fsm, share->node_id);
        bool own = access_is_agent(peer, share->node_id);

        has_own = has_own || own;
        if (access_field_beyond(&share->base, own_node_fields) != NULL)
            return "nodes may say node_id and gpu_count only";
        if (own || fsm == NULL || (node != NULL && node->boot_id[0] != '\0'))
            continue;
        snprintf(text, OWN_WRONG_BYTES,
                 "no agent has ever spoken from node %.128s; name one where ckpt-run can be "
                 "started",
                 share->node_id);
        return text;
    }
    if (!has_own)
        return "nodes must have the agent's own node";
    return spec->n_nodes == 1 || request->waits
               ? NULL
               : "other nodes than the agent's own are held by nobody's word but their own: waits "
                 "must be set";
}

/* A job whose nodes are names is started by the broker. */
static bool own_starts(const Ckpt__V1__RegisterAllocationRequest *request)
{
    return !request->waits ||
           (request->spec->restart != CKPT__V1__RESTART_MODE__RESTART_MODE_MANUAL &&
            request->spec->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER);
}

/* What of it an owner may not say; NULL: nothing. */
static const char *own_wrong(const struct rpc_peer *peer, const struct fsm *fsm,
                             const Ckpt__V1__RegisterAllocationRequest *request,
                             char text[OWN_WRONG_BYTES])
{
    const Ckpt__V1__AllocationSpec *spec = request->spec;
    const char *beyond = access_field_beyond(&spec->base, own_fields);

    if (spec->owner[0] == '\0')
        return "owner must be given";
    if (beyond != NULL) {
        snprintf(text, OWN_WRONG_BYTES, "%s must not be given", beyond);
        return text;
    }
    if (spec->grace_ms > OWN_GRACE_MAX_MS)
        return "grace_ms must be at most 600000 (10 min)";
    if (spec->period_ms != 0 && spec->period_ms < OWN_PERIOD_MIN_MS)
        return "period_ms must be at least 60000 (1 min), or 0";
    if (spec->first_period_ms != 0 && spec->first_period_ms < OWN_PERIOD_MIN_MS)
        return "first_period_ms must be at least 60000 (1 min), or 0";
    if (!own_starts(request))
        return "a job of several nodes is started by the broker: neither restart manual nor "
               "requeue "
               "never";
    return own_nodes_wrong(peer, fsm, request, text);
}

/* What is refused here would let a user's job stand above others': a class, a sensitivity, a
 * vCluster's rights, or another owner's node. */
bool access_own_allocation(const struct rpc_peer *peer, const struct fsm *fsm,
                           const ProtobufCMessage *message, char *text, size_t size)
{
    const Ckpt__V1__RegisterAllocationRequest *request = (const void *)message;
    char why[OWN_WRONG_BYTES];
    const char *wrong =
        request->spec == NULL ? "spec must be given" : own_wrong(peer, fsm, request, why);

    if (wrong != NULL)
        snprintf(text, size,
                 "PERMISSION_DENIED: an agent registers a job of a user of its own node only: %s; "
                 "other jobs takes RegisterAllocation, with a certificate of kind scheduler or "
                 "operator",
                 wrong);
    return wrong == NULL;
}

bool access_restart_point(const struct rpc_peer *peer, const struct fsm *fsm,
                          const ProtobufCMessage *message, char *text, size_t size)
{
    const Ckpt__V1__GetRestartPointRequest *asked = (const void *)message;

    (void)fsm;
    if (!access_is_kind(peer, TLS_AGENT) || access_is_agent(peer, asked->node_id))
        return true;
    snprintf(
        text, size,
        "PERMISSION_DENIED: %s asks for its own node only, node_id is \"%.64s\"; of other nodes "
        "it takes a certificate of kind scheduler or operator",
        peer->identity, asked->node_id);
    return false;
}

bool access_node_off(const struct rpc_peer *peer, const struct fsm *fsm,
                     const ProtobufCMessage *message, char *text, size_t size)
{
    const Ckpt__V1__MarkNodeOffRequest *asked = (const void *)message;
    struct tls_identity identity;

    (void)fsm;
    if (!peer->tls || asked->witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER ||
        tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) != 0 ||
        identity.kind != TLS_SCHEDULER)
        return true;
    snprintf(text, size,
             "PERMISSION_DENIED: witness must be SCHEDULER for a scheduler's certificate; an "
             "operator's or a BMC's word takes an operator's");
    return false;
}
