/* Schedulers of one tenant: their certificate names it, and they see and stop its jobs alone.
 *
 * Flow     access_allowed() refuses methods that are about others as well (SCOPE_NOTHING). Of the
 *          others scope_may_ask() looks at the request, and scope_is_theirs() at whose job it is
 *          about, on a state that is not older than the call.
 *          Watch, a stream, asks scope_sees() itself. ListNodes tells of nodes what a scheduler
 *          needs to place jobs, and counts its tenant's jobs alone.
 * Errors   NOT_YOURS is the same for a job of another tenant and for none.
 * Absent   several tenants in one certificate: such a scheduler has several, or none that is
 *          narrowed.
 * Source   K-005.
 */
#ifndef CKPT_BROKER_SCOPE_H
#define CKPT_BROKER_SCOPE_H

#include <protobuf-c/protobuf-c.h>

#include "fsm/fsm.h"
#include "src/rpc/server.h"

struct method;

/* Whether the peer's certificate is of one tenant. */
bool scope_asks(const struct rpc_peer *peer);
/* False: the text says why not; PERMISSION_DENIED. */
bool scope_may_ask(const struct method *method, const struct rpc_peer *peer,
                   const ProtobufCMessage *message, char *text, size_t size);
/* False: the text says NOT_YOURS; NOT_FOUND. */
bool scope_is_theirs(const struct method *method, const struct fsm *fsm,
                     const struct rpc_peer *peer, const ProtobufCMessage *message, char *text,
                     size_t size);

/* Of one job, for calls that do not go the way of a request, and for answers about all: whether
 * the peer may see it. A peer that is of no tenant sees all. allocation NULL: one of a tenant does
 * not. */
bool scope_sees(const struct rpc_peer *peer, const struct fsm_allocation *allocation);
/* NOT_YOURS, as scope_is_theirs() says it; allocation_id "": none is named. The peer is of one
 * tenant. */
void scope_refusal(const struct rpc_peer *peer, const char *allocation_id, char *text, size_t size);

#endif
