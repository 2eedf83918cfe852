/* How the services answer. See answer.h. */
#include "src/broker/api/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

/* Most replies are small and are packed on the stack. */
void answer_reply(struct rpc_call *call, const ProtobufCMessage *reply)
{
    uint8_t small[512];
    size_t size = protobuf_c_message_get_packed_size(reply);
    uint8_t *bytes = size <= sizeof(small) ? small : check_alloc(size);

    CHECK(protobuf_c_message_pack(reply, bytes) == size);
    rpc_call_reply(call, bytes, size);
    if (bytes != small)
        free(bytes);
}

void answer_outcome(struct rpc_call *call, const struct fsm_outcome *outcome)
{
    char what[ANSWER_TEXT_BYTES];
    char text[ANSWER_TEXT_BYTES + 64];

    CHECK(outcome->status != FSM_OK);
    snprintf(text, sizeof(text), "%s: %s", fsm_status_name(outcome->status),
             fsm_outcome_text(outcome, what, sizeof(what)));
    rpc_call_finish(call, (enum rpc_status)fsm_status_grpc(outcome->status), text);
}

/* A refusal that did not come from the state, in the words of the catalogue all the same. */
void answer_status(struct rpc_call *call, enum fsm_status status, uint64_t current, uint64_t limit)
{
    struct fsm_outcome outcome;

    memset(&outcome, 0, sizeof(outcome));
    outcome.status = status;
    outcome.current = current;
    outcome.limit = limit;
    answer_outcome(call, &outcome);
}

const Ckpt__Log__V1__MemberFacts *answer_facts(const struct broker *broker, uint64_t member_id)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const Ckpt__Log__V1__MemberFacts *facts;

    for (size_t i = 0; (facts = fsm_member_at(fsm, i)) != NULL; i++) {
        if (facts->member_id == member_id)
            return facts;
    }
    return NULL;
}

/* The member's own word first. Until it has said hello, of two sources the one with the Raft
 * address that it goes by; the file, which is the same everywhere, before the replicated book. */
bool answer_find_member(const struct broker *broker, uint64_t member_id,
                        struct answer_member *ret_member)
{
    const Ckpt__Log__V1__MemberFacts *facts = answer_facts(broker, member_id);
    const struct config_member *listed = NULL;
    const char *raft = "", *contact = replica_member_contact(broker->replica, member_id);
    struct consensus_status status;

    for (size_t i = 0; i < broker->config->member_count; i++) {
        if (broker->config->members[i].id == member_id)
            listed = &broker->config->members[i];
    }
    if (listed == NULL && facts == NULL)
        return false;
    if (listed != NULL && listed != broker->config->self && facts != NULL &&
        strcmp(listed->raft, facts->raft_address) != 0) {
        replica_get_status(broker->replica, &status);
        for (size_t i = 0; i < status.peer_count; i++) {
            if (status.peers[i].id == member_id)
                raft = status.peers[i].address;
        }
        if (raft[0] != '\0' && strcmp(listed->raft, raft) != 0 &&
            strcmp(facts->raft_address, raft) == 0)
            listed = NULL;
    }
    if (listed != NULL)
        *ret_member = (struct answer_member){listed->name, listed->api};
    else
        *ret_member = (struct answer_member){facts->name, facts->api_address};
    if (contact[0] != '\0')
        ret_member->api = contact;
    return true;
}

/* The leader as far as this member knows; false when none is, or when it is this one. */
static bool answer_leader(const struct broker *broker, struct answer_member *ret_leader)
{
    uint64_t leader_id = replica_leader_id(broker->replica);

    return leader_id != 0 && leader_id != broker->config->self->id &&
           answer_find_member(broker, leader_id, ret_leader);
}

/* Clients follow the trailer without reading the text; people read the text. */
void answer_passive(struct rpc_call *call)
{
    char text[ANSWER_TEXT_BYTES];

    snprintf(text, sizeof(text), "%s: %s; %s", fsm_status_name(FSM_PASSIVE),
             fsm_status_text(FSM_PASSIVE), fsm_status_next(FSM_PASSIVE));
    rpc_call_finish(call, RPC_FAILED_PRECONDITION, text);
}

void answer_not_leader(struct broker *broker, struct rpc_call *call)
{
    struct answer_member leader = {NULL, ""};
    bool known = answer_leader(broker, &leader);
    char text[ANSWER_TEXT_BYTES];

    broker->counters.not_leader_total++;
    if (known)
        snprintf(text, sizeof(text), "NOT_LEADER: member %s does not lead; ask %s at %s",
                 broker->config->self->name, leader.name, leader.api);
    else
        snprintf(text, sizeof(text),
                 "NOT_LEADER: member %s does not lead and knows no leader; ask again, or see "
                 "ckptctl status",
                 broker->config->self->name);
    rpc_call_trailer(call, "ckpt-leader-hint", leader.api);
    rpc_call_finish(call, RPC_UNAVAILABLE, text);
}

/* The fate of a command as gRPC tells it (replica.h, Errors). What clients may repeat without fear
 * has a redirect or a push-back; what they may not says OUTCOME_UNKNOWN. */
void answer_failed(struct broker *broker, struct rpc_call *call, const struct err *failed)
{
    char text[ANSWER_TEXT_BYTES];

    switch (failed->code) {
    case ERR_UNAVAILABLE:
        answer_not_leader(broker, call);
        return;
    case ERR_FULL:
        broker->counters.full_total++;
        snprintf(text, sizeof(text), "%d", ANSWER_PUSHBACK_MS);
        rpc_call_trailer(call, "grpc-retry-pushback-ms", text);
        snprintf(text, sizeof(text), "FULL: %.400s; send it again in %d ms", failed->text,
                 ANSWER_PUSHBACK_MS);
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, text);
        return;
    case ERR_TIMEOUT:
        /* Without a redirect, which promises that nothing was applied. */
        answer_status(call, FSM_OUTCOME_UNKNOWN, 0, 0);
        return;
    default:
        snprintf(text, sizeof(text), "%s: %.400s", err_code_name(failed->code), failed->text);
        rpc_call_finish(call, RPC_INTERNAL, text);
        return;
    }
}
