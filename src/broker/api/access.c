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
    char names[64];

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

/* A user's job may ask for so long to write its last checkpoint; more would hold nodes that others
 * wait for. */
enum { OWN_GRACE_MAX_MS = 600000, OWN_WRONG_BYTES = 96 };

/* What a user may say of an own job, and of its node; all else, also what is added to the messages
 * later, is for schedulers and operators. `continues` names an own job as well: the state refuses
 * one of another owner. */
static const char *const own_fields[] = {
    "allocation_id", "tenant",  "project",     "vcluster", "owner",     "profile",  "nodes",
    "strategy",      "restore", "walltime_ms", "grace_ms", "target_id", "continues"};
static const char *const own_node_fields[] = {"node_id", "gpu_count"};

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

/* The first field that says something and is not of these; NULL: none. */
static const char *field_beyond(const ProtobufCMessage *message, const char *const *fields,
                                size_t count)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        size_t k = 0;

        while (k < count && strcmp(type->fields[i].name, fields[k]) != 0)
            k++;
        if (k == count && field_given(message, &type->fields[i]))
            return type->fields[i].name;
    }
    return NULL;
}

/* What of it an owner may not say; NULL: nothing. */
static const char *own_wrong(const struct rpc_peer *peer, const Ckpt__V1__AllocationSpec *spec,
                             char text[OWN_WRONG_BYTES])
{
    const Ckpt__V1__NodeShare *node = spec->n_nodes == 1 ? spec->nodes[0] : NULL;
    const char *beyond = field_beyond(&spec->base, own_fields, ARRAY_COUNT(own_fields));

    if (node == NULL || !access_is_agent(peer, node->node_id))
        return "nodes must be the agent's own node, and no other";
    if (field_beyond(&node->base, own_node_fields, ARRAY_COUNT(own_node_fields)) != NULL)
        return "nodes may say node_id and gpu_count only";
    if (spec->owner[0] == '\0')
        return "owner must be given";
    if (beyond != NULL) {
        snprintf(text, OWN_WRONG_BYTES, "%s must not be given", beyond);
        return text;
    }
    if (spec->strategy != CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED &&
        spec->strategy != CKPT__V1__STRATEGY__STRATEGY_AUTO)
        return "strategy must be AUTO";
    if (spec->grace_ms > OWN_GRACE_MAX_MS)
        return "grace_ms must be at most 600000 (10 min)";
    return NULL;
}

/* What is refused here would let a user's job stand above others': a class, a sensitivity, a
 * vCluster's rights, or another owner's node. */
bool access_own_allocation(const struct rpc_peer *peer, const ProtobufCMessage *message, char *text,
                           size_t size)
{
    const Ckpt__V1__RegisterAllocationRequest *request = (const void *)message;
    char why[OWN_WRONG_BYTES];
    const char *wrong =
        request->spec == NULL ? "spec must be given" : own_wrong(peer, request->spec, why);

    if (wrong != NULL)
        snprintf(text, size,
                 "PERMISSION_DENIED: an agent registers a job of a user of its own node only: %s; "
                 "other jobs takes RegisterAllocation, with a certificate of kind scheduler or "
                 "operator",
                 wrong);
    return wrong == NULL;
}

bool access_node_off(const struct rpc_peer *peer, const ProtobufCMessage *message, char *text,
                     size_t size)
{
    const Ckpt__V1__MarkNodeOffRequest *asked = (const void *)message;
    struct tls_identity identity;

    if (!peer->tls || asked->witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER ||
        tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) != 0 ||
        identity.kind != TLS_SCHEDULER)
        return true;
    snprintf(text, size,
             "PERMISSION_DENIED: witness must be SCHEDULER for a scheduler's certificate; an "
             "operator's or a BMC's word takes an operator's");
    return false;
}
