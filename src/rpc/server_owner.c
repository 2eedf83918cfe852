/* What the connections of one identity hold together; without an identity, of one address or local
 * user. See server_internal.h.
 *
 * Flow     a connection that can have calls takes its owner, and gives it back when it has closed;
 *          the owner goes with the last one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/server_internal.h"

static void owner_name(const struct rpc_peer *peer, char name[RPC_OWNER_NAME_BYTES])
{
    const char *port = strrchr(peer->address, ':');

    if (peer->identity[0] != '\0')
        snprintf(name, RPC_OWNER_NAME_BYTES, "%s", peer->identity);
    else if (peer->local)
        snprintf(name, RPC_OWNER_NAME_BYTES, "user %u", (unsigned)peer->uid);
    else
        snprintf(name, RPC_OWNER_NAME_BYTES, "%.*s",
                 port == NULL ? (int)sizeof(peer->address) : (int)(port - peer->address),
                 peer->address);
}

static struct list *owner_bucket(struct rpc_server *server, const char *name)
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619U;
    return &server->owners[hash % RPC_OWNER_BUCKETS];
}

struct rpc_owner *rpc_owner_take(struct rpc_server *server, const struct rpc_peer *peer)
{
    char name[RPC_OWNER_NAME_BYTES];
    struct rpc_owner *owner;
    struct list *bucket;

    owner_name(peer, name);
    bucket = owner_bucket(server, name);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        owner = LIST_ITEM(node, struct rpc_owner, node);
        if (strcmp(owner->name, name) == 0) {
            owner->connections++;
            return owner;
        }
    }
    owner = check_calloc(1, sizeof(*owner));
    snprintf(owner->name, sizeof(owner->name), "%s", name);
    owner->connections = 1;
    list_init(&owner->turn_node);
    list_init(&owner->connections_waiting);
    list_push_back(bucket, &owner->node);
    return owner;
}

void rpc_owner_give(struct rpc_owner *owner)
{
    if (owner == NULL)
        return;
    CHECK(owner->connections > 0);
    if (--owner->connections > 0)
        return;
    CHECK(owner->buffered_bytes == 0 && owner->partial_bytes == 0);
    CHECK(list_empty(&owner->connections_waiting));
    list_remove(&owner->turn_node);
    list_remove(&owner->node);
    free(owner);
}
