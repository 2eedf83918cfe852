/* How the services answer: replies, refusals of the replicated state, and "not here, not now".
 *
 * Errors   a refusal is the catalogue's gRPC status with the message "NAME: what happened; next
 *          step". Not the leader: UNAVAILABLE, which no refusal uses, with the trailer
 *          ckpt-leader-hint (host:port, empty when unknown): nothing was applied here, ask there.
 *          Queue full: RESOURCE_EXHAUSTED with grpc-retry-pushback-ms. Leadership lost with the
 *          command on its way: UNAVAILABLE, OUTCOME_UNKNOWN, and no redirect.
 * Flow     Each answer_*() ends its call, and nothing may be sent on it afterwards. The functions
 *          know no request: a caller that has one ends it by itself (request.h).
 */
#ifndef CKPT_BROKER_ANSWER_H
#define CKPT_BROKER_ANSWER_H

#include <protobuf-c/protobuf-c.h>

#include "src/broker/broker.h"

/* A client that was pushed back sends again after so many milliseconds; texts of refusals have at
 * most so many bytes. */
enum { ANSWER_PUSHBACK_MS = 100, ANSWER_TEXT_BYTES = 1024 };

/* Each ends the call. */
void answer_reply(struct rpc_call *call, const ProtobufCMessage *reply);
void answer_outcome(struct rpc_call *call, const struct fsm_outcome *outcome);
void answer_status(struct rpc_call *call, enum fsm_status status, uint64_t current, uint64_t limit);
void answer_not_leader(struct broker *broker, struct rpc_call *call);
/* To an agent of a cluster that is passive (fsm/passive.h): it waits, and asks again. */
void answer_passive(struct rpc_call *call);
void answer_failed(struct broker *broker, struct rpc_call *call, const struct err *failed);
/* What the member said of itself when it last began to lead; NULL: it never did. */
const Ckpt__Log__V1__MemberFacts *answer_facts(const struct broker *broker, uint64_t member_id);
/* Borrowed texts: of the configuration, of the state or of Raft's address book. Use them before the
 * loop goes on. */
struct answer_member {
    const char *name;
    const char *api;
};
/* From the configuration or the replicated address book (MemberFacts); false: neither knows it. */
bool answer_find_member(const struct broker *broker, uint64_t member_id,
                        struct answer_member *ret_member);

#endif
