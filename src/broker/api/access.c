/* Certificates against roles. See access.h. */
#include "src/broker/api/access.h"

#include <stdio.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
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
enum { OWN_GRACE_MAX_MS = 600000 };

/* The first field that an owner may not set so; NULL: none. */
static const char *own_wrong(const struct rpc_peer *peer, const Ckpt__V1__AllocationSpec *spec)
{
    const Ckpt__V1__NodeShare *node = spec->n_nodes == 1 ? spec->nodes[0] : NULL;

    if (node == NULL || !access_is_agent(peer, node->node_id))
        return "nodes must be the agent's own node, and no other";
    if (node->borrowed || node->home_vcluster[0] != '\0' || node->gpu_memory_used_bytes != 0)
        return "nodes may say node_id and gpu_count only";
    if (spec->owner[0] == '\0')
        return "owner must be given";
    if (spec->preemption_class != 0)
        return "preemption_class must be 0";
    if (spec->sensitive)
        return "sensitive must be false";
    if (spec->reactive_min_nodes != 0 || spec->reactive_max_nodes != 0)
        return "reactive_min_nodes and reactive_max_nodes must be 0";
    if (spec->strategy != CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED &&
        spec->strategy != CKPT__V1__STRATEGY__STRATEGY_AUTO)
        return "strategy must be AUTO";
    if (spec->vcluster_kind != CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_UNSPECIFIED)
        return "vcluster_kind must not be given";
    if (spec->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_UNSPECIFIED ||
        spec->max_requeue != 0)
        return "requeue_policy and max_requeue must not be given";
    if (spec->grace_ms > OWN_GRACE_MAX_MS)
        return "grace_ms must be at most 600000 (10 min)";
    if (spec->submitted_at_ms != 0 || spec->started_at_ms != 0 || spec->period_ms != 0 ||
        spec->checkpoint_timeout_ms != 0 || spec->write_bytes_per_s != 0)
        return "submitted_at_ms, started_at_ms, period_ms, checkpoint_timeout_ms and "
               "write_bytes_per_s must not be given";
    return NULL;
}

/* What is refused here would let a user's job stand above others': a class, a sensitivity, a
 * vCluster's rights, or another owner's node. */
bool access_own_allocation(const struct rpc_peer *peer, const ProtobufCMessage *message, char *text,
                           size_t size)
{
    const Ckpt__V1__RegisterAllocationRequest *request = (const void *)message;
    const char *wrong =
        request->spec == NULL ? "spec must be given" : own_wrong(peer, request->spec);

    if (wrong != NULL)
        snprintf(text, size,
                 "PERMISSION_DENIED: an agent registers a job of a user of its own node only: %s; "
                 "other jobs takes RegisterAllocation, with a certificate of kind scheduler or "
                 "operator",
                 wrong);
    return wrong == NULL;
}
