/* Who may call what: a certificate against the roles of a method, which stand in its row
 * (methods.h).
 *
 * Flow     access_allowed() is asked before each call when the API has TLS; without TLS everybody
 *          may call everything.
 * Errors   the text names who asked, for what, and which certificate would do.
 * Absent   rights of single operators: a certificate's name is for logs. A scheduler's tenant is
 *          looked at in scope.c. Whether
 *          an agent speaks for its own node is checked where its hello is taken
 *          (dispatcher_session.c), and here of restart points and of jobs that it registers. Calls
 *          for a user are checked in own.c.
 * Source   K-001; the matrix is in README.md.
 */
#ifndef CKPT_BROKER_ACCESS_H
#define CKPT_BROKER_ACCESS_H

#include <protobuf-c/protobuf-c.h>

#include "fsm/fsm.h"
#include "src/rpc/server.h"
#include "src/tls/identity.h"

/* What is called, for the check and for the text of a refusal. */
struct access_call {
    const char *path;
    unsigned roles;     /* bits 1 << enum tls_kind: who may call it */
    bool beyond_tenant; /* it is about others than one tenant */
};

/* Whether the peer's certificate may call the method in this cluster. A peer of the unix socket
 * counts as an operator: who may open its file is trusted like one. False: `text` says who asked,
 * for what, and what it takes. */
bool access_allowed(const char *cluster, const struct rpc_peer *peer,
                    const struct access_call *call, char *text, size_t size);
/* Whether the peer may speak for this node: always without TLS. */
bool access_is_agent(const struct rpc_peer *peer, const char *node_id);
/* Whether its certificate is of this kind; never without TLS. */
bool access_is_kind(const struct rpc_peer *peer, enum tls_kind kind);
/* The first field of the message that says something and is not of these, which NULL ends; NULL:
 * none. */
const char *access_field_beyond(const ProtobufCMessage *message, const char *const *fields);
/* A field of a request by its name; "" and 0 where its type has none. */
const char *access_text_field(const ProtobufCMessage *message, const char *name);
uint64_t access_number_field(const ProtobufCMessage *message, const char *name);
/* Whether an agent may register this for a user of its node: there, as somebody's, and with nothing
 * that could stand above others. message: a RegisterAllocationRequest. fsm: NULL: this member does
 * not lead, and knows not all nodes. */
bool access_own_allocation(const struct rpc_peer *peer, const struct fsm *fsm,
                           const ProtobufCMessage *message, char *text, size_t size);

/* Whether an agent may ask for that node's restart points: for its own. */
bool access_restart_point(const struct rpc_peer *peer, const struct fsm *fsm,
                          const ProtobufCMessage *message, char *text, size_t size);
/* A scheduler may give its own word of a node that is off, and nobody else's. */
bool access_node_off(const struct rpc_peer *peer, const struct fsm *fsm,
                     const ProtobufCMessage *message, char *text, size_t size);

#endif
