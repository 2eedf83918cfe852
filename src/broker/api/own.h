/* Calls of users of nodes, through the agent of their node, without a certificate of their own.
 *
 * Flow     the agent passes a user's call on as it is, and says beside it, as metadata, whose it is
 *          (struct own_word). own_asks() finds such a call. own_may_ask() looks at the agent and at
 *          the fields; own_is_theirs() at whose job it is about, on a state that is not older than
 *          the call. The method's own function does the rest, as for everybody.
 * Shapes   a method that a user may ask has `own` in its row: the fields that the user may set.
 *          All else of its request, also what is added later, is for schedulers and operators.
 *          An admin of a tenant looks at all its jobs, by reads of which no file comes: the agent
 *          says which these are. All else of another's job stays its owner's.
 * Errors   NOT_YOURS is the same for a job that is another's and for none.
 * Absent   the name of a user is the agent's word: who rules a node can speak for each user that
 *          the node has. Root of a node is the owner of what runs there.
 * Source   V-014, N-005, S3-055.
 */
#ifndef CKPT_BROKER_OWN_H
#define CKPT_BROKER_OWN_H

#include <protobuf-c/protobuf-c.h>

#include "fsm/fsm.h"
#include "src/rpc/server.h"

struct method;

/* Names of the metadata; src/agent/app/own_call.c sends them. */
#define OWN_NODE_METADATA  "ckpt-owner-node"
#define OWN_NAME_METADATA  "ckpt-owner"
#define OWN_UID_METADATA   "ckpt-owner-uid"
#define OWN_KNOWN_METADATA "ckpt-owner-known"

/* The method that is asked, and the site's table of tenants' admins (src/serve/tenant_table.h). */
struct own_rule {
    const struct method *method;
    const char *admins;
};

/* Whether a user asks: an agent calls a method that is not the agents' own, or whoever calls says
 * for whom. */
bool own_asks(const struct method *method, const struct rpc_call *call);
/* False: the text says why not; PERMISSION_DENIED. */
bool own_may_ask(const struct own_rule *rule, const struct rpc_call *call,
                 const ProtobufCMessage *message, char *text, size_t size);
/* False: the text says NOT_YOURS; NOT_FOUND. */
bool own_is_theirs(const struct own_rule *rule, const struct fsm *fsm, const struct rpc_call *call,
                   const ProtobufCMessage *message, char *text, size_t size);

#endif
