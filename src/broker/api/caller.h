/* The caller of a method, for the audit trail and for the events of a change.
 *
 * Shapes   texts live in the caller's struct and in the call; printable ASCII.
 * Source   V-016; V-014 for those who ask through an agent.
 */
#ifndef CKPT_BROKER_CALLER_H
#define CKPT_BROKER_CALLER_H

#include "ckpt/log/v1/command.pb-c.h"
#include "src/rpc/server.h"

enum { CALLER_IDENTITY_BYTES = 640 };
struct caller {
    Ckpt__Log__V1__Caller message;
    char identity[CALLER_IDENTITY_BYTES];
};

/* By what the connection proves: the certificate's identity, "local uid=N", "unauthenticated".
 * path: NULL names no method. */
void caller_of_peer(const struct rpc_peer *peer, const char *path, struct caller *ret_caller);
/* ... and for whom, where an agent asks for a user of its node. */
void caller_of_call(const struct rpc_call *call, const char *path, struct caller *ret_caller);

/* The texts and numbers of a request that say something, but for its request id: "name=n4,
 * member_id=4". Returns text. */
enum { CALLER_ASKED_BYTES = 512 };
char *caller_asked(const ProtobufCMessage *request, char text[CALLER_ASKED_BYTES]);

#endif
