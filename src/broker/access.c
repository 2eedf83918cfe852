/* The matrix of certificates and methods. See access.h. */
#include "src/broker/access.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum {
    REPLICA = 1 << TLS_REPLICA,
    AGENT = 1 << TLS_AGENT,
    SCHEDULER = 1 << TLS_SCHEDULER,
    OPERATOR = 1 << TLS_OPERATOR,
    EVERYBODY = REPLICA | AGENT | SCHEDULER | OPERATOR
};

/* The first one that begins the path decides; what none begins, nobody may call. */
static const struct {
    const char *prefix;
    unsigned kinds;
} rules[] = {
    {"/grpc.health.v1.Health/", EVERYBODY},
    {"/grpc.reflection.v1alpha.ServerReflection/", EVERYBODY},
    {"/ckpt.v1.AgentService/", AGENT},
    {"/ckpt.v1.BrokerService/GetRestartPoint", AGENT | SCHEDULER | OPERATOR},
    {"/ckpt.v1.BrokerService/", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/Status", REPLICA | SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/GetPolicy", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/ListTargets", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/GetLosses", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/GetCalibration", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/ListNodes", SCHEDULER | OPERATOR},
    {"/ckpt.v1.OperatorService/", OPERATOR},
};

unsigned access_kinds(const char *path)
{
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        size_t length = strlen(rules[i].prefix);
        bool whole = rules[i].prefix[length - 1] != '/'; /* a method, not a service */

        if (strncmp(path, rules[i].prefix, length) == 0 && (!whole || path[length] == '\0'))
            return rules[i].kinds;
    }
    return 0;
}

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

bool access_allowed(const char *cluster, const struct rpc_peer *peer, const char *path, char *text,
                    size_t size)
{
    unsigned kinds = access_kinds(path);
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
             peer->local ? "a local user" : peer->identity, path + 1, names);
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
