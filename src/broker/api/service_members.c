/* OperatorService's AddMember, PromoteMember, RemoveMember and TransferLeadership. See methods.h.
 *
 * Flow     each begins when a read is confirmed: on the leader, with a state that has all that was
 *          acknowledged before. add: refusals that the state knows -> the address is asked -> the
 *          address book (MemberFacts) is committed, so that every member that learns of the new one
 *          can find it -> Raft changes the members. The history of changes is written by
 *          member_watch.c.
 * Errors   refusals of raft/ come back as FAILED_PRECONDITION or NOT_FOUND, "MEMBER_REFUSED:
 *          numbers; next".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/broker/api/methods.h"

/* ---- answers ---- */

/* `repeated`: what was asked for was done already, and nothing was changed. */
static void members_reply(struct request *request, bool repeated)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct consensus_status status;

    if (request->call != NULL) {
        replica_get_status(request->broker->replica, &status);
        reply.index = status.configuration_index;
        reply.repeated = repeated;
        answer_reply(request->call, &reply.base);
    }
    request_end(request);
}

/* The same functions refuse for several methods: the next step depends on which one was called. */
static bool is_method(const struct request *request, const char *name)
{
    return strcmp(strrchr(request->method->path, '/') + 1, name) == 0;
}

/* The command that comes next, once what the refusal says is done. */
static void next_command(const struct request *request, enum rpc_status status, char *text,
                         size_t size)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    char id[24];
    const char *member = asked->name;

    if (member[0] == '\0') {
        snprintf(id, sizeof(id), "%" PRIu64, asked->member_id);
        member = id;
    }
    if (is_method(request, "AddMember"))
        snprintf(text, size,
                 "the next free id is %" PRIu64 "; ckptctl member list shows the members",
                 fsm_member_id_max(replica_fsm(request->broker->replica)) + 1);
    else if (status != RPC_FAILED_PRECONDITION)
        snprintf(text, size, "ckptctl member list shows the members");
    else if (is_method(request, "PromoteMember"))
        snprintf(text, size, "ckptctl member promote %.128s waits until it has caught up", member);
    else if (is_method(request, "RemoveMember"))
        snprintf(text, size, "ckptctl member remove %.128s when that is mended", member);
    else
        snprintf(text, size, "ckptctl transfer %.128s when that is mended", member);
}

/* Ends the call, if it is still there, and the request. */
static void members_refuse(struct request *request, enum rpc_status status, const char *name,
                           const char *what)
{
    char text[ANSWER_TEXT_BYTES], next[256];

    if (request->call != NULL) {
        next_command(request, status, next, sizeof(next));
        snprintf(text, sizeof(text), "%s: %.700s; %s", name, what, next);
        rpc_call_finish(request->call, status, text);
    }
    request_end(request);
}

/* raft/ says why by the code of its error; here it becomes a status of gRPC and a name that callers
 * can tell apart. */
static void members_failed(struct request *request, const struct err *failed)
{
    bool leads = replica_serving(request->broker->replica);

    if (failed->code == ERR_REFUSED)
        members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_REFUSED", failed->text);
    else if (failed->code == ERR_MISMATCH)
        members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_MISMATCH", failed->text);
    else if (failed->code == ERR_INVALID)
        members_refuse(request, RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT", failed->text);
    else if (failed->code == ERR_NOT_FOUND)
        members_refuse(request, RPC_NOT_FOUND, "MEMBER_NOT_FOUND", failed->text);
    else if (failed->code == ERR_UNAVAILABLE && leads)
        members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_UNREACHABLE", failed->text);
    else {
        if (request->call != NULL)
            answer_failed(request->broker, request->call, failed);
        request_end(request);
    }
}

/* Raft's change is committed, or was not begun. */
static void change_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;

    CHECK(outcome == NULL);
    if (failed != NULL)
        members_failed(request, failed);
    else
        members_reply(request, false);
}

/* ---- who is meant ---- */

/* NULL: no other member has the id. */
static const struct consensus_peer_status *peer_of(const struct consensus_status *status,
                                                   uint64_t id)
{
    for (size_t i = 0; i < status->peer_count; i++) {
        if (status->peers[i].id == id)
            return &status->peers[i];
    }
    return NULL;
}

/* Both, where both are given: a name may come to belong to another member, an id never does. */
static bool is_meant(const Ckpt__V1__MemberRequest *asked, uint64_t id, const char *name)
{
    return (asked->member_id != 0 || asked->name[0] != '\0') &&
           (asked->member_id == 0 || asked->member_id == id) &&
           (asked->name[0] == '\0' || strcmp(asked->name, name) == 0);
}

/* Among Raft's members, this one included; 0: none of them. */
static uint64_t find_member(const struct broker *broker, const struct consensus_status *status,
                            const Ckpt__V1__MemberRequest *asked)
{
    const struct config_member *self = broker->config->self;

    if (is_meant(asked, self->id, self->name))
        return self->id;
    for (size_t i = 0; i < status->peer_count; i++) {
        if (is_meant(asked, status->peers[i].id, status->peers[i].name))
            return status->peers[i].id;
    }
    return 0;
}

/* A repeated removal succeeds: the tombstone of the member is in the state. */
static bool removed_before(const struct broker *broker, const Ckpt__V1__MemberRequest *asked)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const Ckpt__Log__V1__MemberFacts *facts;

    for (size_t i = 0; (facts = fsm_member_at(fsm, i)) != NULL; i++) {
        if (facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED &&
            is_meant(asked, facts->member_id, facts->name))
            return true;
    }
    return false;
}

/* The text says by what the member was asked for: a name, an id, or both. */
static void not_found(struct request *request)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    char what[256];

    if (asked->name[0] != '\0' && asked->member_id != 0)
        snprintf(what, sizeof(what), "there is no member %.128s with id %" PRIu64, asked->name,
                 asked->member_id);
    else if (asked->name[0] != '\0')
        snprintf(what, sizeof(what), "there is no member %.128s", asked->name);
    else
        snprintf(what, sizeof(what), "there is no member with id %" PRIu64, asked->member_id);
    members_refuse(request, RPC_NOT_FOUND, "MEMBER_NOT_FOUND", what);
}

/* ---- add ---- */

static void member_of(const struct request *request, struct consensus_member *ret_member)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;

    memset(ret_member, 0, sizeof(*ret_member));
    ret_member->id = asked->member_id;
    snprintf(ret_member->name, sizeof(ret_member->name), "%s", asked->name);
    snprintf(ret_member->address, sizeof(ret_member->address), "%s", asked->raft_address);
    snprintf(ret_member->contact, sizeof(ret_member->contact), "%s", asked->api_address);
}

/* Every member can find the new one by now: Raft may begin to send to it. */
static void book_committed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;
    struct consensus_member member;

    if (failed == NULL && outcome->status != FSM_OK) {
        if (request->call != NULL)
            answer_outcome(request->call, outcome);
        request_end(request);
        return;
    }
    if (failed != NULL) {
        members_failed(request, failed);
        return;
    }
    member_of(request, &member);
    replica_member_add(request->broker->replica, &member, change_done, request);
}

/* Who answers there is the member that was named, with an empty folder. */
static void address_probed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;

    CHECK(outcome == NULL);
    if (failed != NULL) {
        members_failed(request, failed);
        return;
    }
    facts.member_id = asked->member_id;
    facts.name = asked->name;
    facts.raft_address = asked->raft_address;
    facts.api_address = asked->api_address;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
    command.member_facts = &facts;
    replica_propose(request->broker->replica, &command, book_committed, request);
}

/* What only the replicated state knows. */
static bool add_refused(struct request *request, const Ckpt__V1__MemberRequest *asked)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const Ckpt__Log__V1__MemberFacts *facts;
    char what[ANSWER_TEXT_BYTES];
    struct err err = {0};

    if (id_check("the member's name", asked->name, &err) != 0) {
        members_refuse(request, RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT", err.text);
        return true;
    }
    if (id_is_number(asked->name)) {
        snprintf(what, sizeof(what),
                 "the name %.128s reads as a member's id where either can be given, and names one "
                 "that it does not mean: give it a letter as well, as in n%.128s",
                 asked->name, asked->name);
        members_refuse(request, RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT", what);
        return true;
    }
    if (asked->raft_address[0] == '\0' || asked->api_address[0] == '\0' ||
        strlen(asked->raft_address) >= CONSENSUS_ADDRESS_BYTES ||
        strlen(asked->api_address) >= CONSENSUS_ADDRESS_BYTES ||
        strchr(asked->raft_address, ':') == NULL || strchr(asked->api_address, ':') == NULL) {
        members_refuse(request, RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                       "a new member needs a Raft address and an API address (host:port)");
        return true;
    }
    if (fsm_member_was_removed(fsm, asked->member_id)) {
        snprintf(what, sizeof(what),
                 "id %" PRIu64 " is not above %" PRIu64
                 ", the highest so far, and ids only grow, so that none is ever used again: use "
                 "%" PRIu64 " or higher, with an empty folder",
                 asked->member_id, fsm_member_id_max(fsm), fsm_member_id_max(fsm) + 1);
        members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_REFUSED", what);
        return true;
    }
    for (size_t i = 0; (facts = fsm_member_at(fsm, i)) != NULL; i++) {
        if (facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED ||
            facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_UNSPECIFIED ||
            facts->member_id == asked->member_id ||
            strcmp(facts->api_address, asked->api_address) != 0)
            continue;
        snprintf(what, sizeof(what), "API address %.255s is in use by member %.128s",
                 asked->api_address, facts->name);
        members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_REFUSED", what);
        return true;
    }
    return false;
}

/* Without an id: the one it has got already, so that the same command can be repeated; else the
 * next. */
static uint64_t id_to_add(const struct request *request, const struct consensus_status *status,
                          const Ckpt__V1__MemberRequest *asked)
{
    for (size_t i = 0; i < status->peer_count; i++) {
        if (strcmp(status->peers[i].name, asked->name) == 0 &&
            strcmp(status->peers[i].address, asked->raft_address) == 0)
            return status->peers[i].id;
    }
    return fsm_member_id_max(replica_fsm(request->broker->replica)) + 1;
}

/* A command that is repeated after its success is answered without any change; one that was cut
 * short goes on where it was. */
static void add_member(struct request *request)
{
    Ckpt__V1__MemberRequest *asked = (void *)request->message;
    const struct consensus_peer_status *peer;
    struct consensus_status status;
    struct consensus_member member;

    replica_get_status(request->broker->replica, &status);
    if (asked->member_id == 0)
        asked->member_id = id_to_add(request, &status, asked);
    peer = peer_of(&status, asked->member_id);
    if (peer != NULL && strcmp(peer->name, asked->name) == 0 &&
        strcmp(peer->address, asked->raft_address) == 0 && peer->role != CONSENSUS_JOINING) {
        members_reply(request, true);
        return;
    }
    if (peer == NULL && add_refused(request, asked))
        return;
    member_of(request, &member);
    replica_member_probe(request->broker->replica, &member, address_probed, request);
}

/* ---- promote, remove ---- */

/* A learner that lags is refused by raft/ with how far it is behind. */
static void promote_member(struct request *request)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    const struct consensus_peer_status *peer;
    struct consensus_status status;
    uint64_t id;

    replica_get_status(request->broker->replica, &status);
    id = find_member(request->broker, &status, asked);
    peer = peer_of(&status, id);
    if (id == 0)
        not_found(request);
    else if (peer == NULL || (peer->voter && status.change_index == 0))
        members_reply(request, true); /* this leader, or a voter already */
    else
        replica_member_promote(request->broker->replica, id, change_done, request);
}

/* The new leader is asked by the caller, who follows the redirect. */
static void handed_over(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;
    char what[ANSWER_TEXT_BYTES];

    (void)outcome;
    if (failed == NULL || !replica_serving(request->broker->replica)) {
        if (request->call != NULL)
            answer_not_leader(request->broker, request->call);
        request_end(request);
        return;
    }
    snprintf(what, sizeof(what), "%s leads, and handing over failed: %.500s",
             request->broker->config->self->name, failed->text);
    members_refuse(request, RPC_FAILED_PRECONDITION, "MEMBER_REFUSED", what);
}

/* A leader that is to be removed hands leadership over first, and the caller asks the next one: a
 * cluster is never without a leader because of a removal. */
static void remove_member(struct request *request)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    struct consensus_status status;
    uint64_t id;

    replica_get_status(request->broker->replica, &status);
    id = find_member(request->broker, &status, asked);
    if (id == 0 && removed_before(request->broker, asked))
        members_reply(request, true);
    else if (id == 0)
        not_found(request);
    else if (id == status.member_id && status.voter_count > 1)
        replica_transfer(request->broker->replica, 0, handed_over, request);
    else
        replica_member_remove(request->broker->replica, id, change_done, request);
}

/* ---- leadership ---- */

static uint64_t entries_behind(const struct consensus_status *status,
                               const struct consensus_peer_status *peer)
{
    return peer->match_index < status->last_index ? status->last_index - peer->match_index : 0;
}

static const char *contact_text(const struct consensus_peer_status *peer, char text[64])
{
    if (peer->last_contact_age_ms == UINT64_MAX)
        snprintf(text, 64, "never heard of");
    else
        snprintf(text, 64, "last contact %" PRIu64 " ms ago", peer->last_contact_age_ms);
    return text;
}

/* Why it would not be handed leadership; "": it would. */
static const char *unfit_text(const struct consensus_peer_status *peer)
{
    switch (peer->unfit) {
    case CONSENSUS_DISK_FULL:
        return ", its disk is nearly full and takes no changes";
    case CONSENSUS_RELUCTANT:
        return ", its clock is off";
    case CONSENSUS_FIT:
    case CONSENSUS_UNFIT_END:
        break;
    }
    return "";
}

/* Why none of the voters has taken over, each with its numbers, and the next command. */
static void transfer_kept(const struct request *request, char text[ANSWER_TEXT_BYTES])
{
    const struct broker *broker = request->broker;
    const struct consensus_peer_status *level = NULL;
    struct consensus_status status;
    size_t used = 0;
    char contact[64];

    text[0] = '\0';
    replica_get_status(broker->replica, &status);
    for (size_t i = 0; i < status.peer_count && used < ANSWER_TEXT_BYTES / 2; i++) {
        const struct consensus_peer_status *peer = &status.peers[i];
        bool reachable = broker_peer_reachable(broker, &status, peer);

        if (!peer->voter)
            continue;
        used += (size_t)snprintf(text + used, ANSWER_TEXT_BYTES - used,
                                 "; %.100s is %s%" PRIu64 " entries behind, %s%s", peer->name,
                                 reachable ? "" : "not reachable, ", entries_behind(&status, peer),
                                 contact_text(peer, contact), unfit_text(peer));
        if (reachable && peer->unfit == CONSENSUS_FIT &&
            (level == NULL || entries_behind(&status, peer) < entries_behind(&status, level)))
            level = peer;
    }
    if (level != NULL)
        snprintf(text + used, ANSWER_TEXT_BYTES - used, "; ckptctl transfer %.128s tries again",
                 level->name);
    else
        snprintf(text + used, ANSWER_TEXT_BYTES - used,
                 "; ckptctl member list shows when one of them answers");
}

/* The text says who leads now, why each voter has not taken over, and what to do next. */
static void transfer_failed(struct request *request, const struct err *failed)
{
    const struct broker *broker = request->broker;
    bool unknown = failed->code == ERR_TIMEOUT; /* somebody may take it yet */
    char text[2 * ANSWER_TEXT_BYTES], who[512] = "", next[ANSWER_TEXT_BYTES];
    struct answer_member leader;

    if (!replica_serving(broker->replica) &&
        answer_find_member(broker, replica_leader_id(broker->replica), &leader))
        snprintf(who, sizeof(who), " (%.128s leads now, at %.255s)", leader.name, leader.api);
    if (replica_serving(broker->replica))
        transfer_kept(request, next);
    else
        snprintf(next, sizeof(next), "; ckptctl status shows who leads");
    snprintf(text, sizeof(text), "%s: %.400s%s%s", unknown ? "OUTCOME_UNKNOWN" : "TRANSFER_REFUSED",
             failed->text, who, next);
    rpc_call_finish(request->call, unknown ? RPC_UNAVAILABLE : RPC_FAILED_PRECONDITION, text);
}

/* The member asked for leads, or the reason why it does not. */
static void transfer_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    const Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct request *request = data;

    CHECK(outcome == NULL);
    if (request->call != NULL && failed == NULL) {
        answer_reply(request->call, &reply.base);
    } else if (request->call != NULL && failed->code == ERR_UNAVAILABLE) {
        answer_not_leader(request->broker, request->call);
    } else if (request->call != NULL) {
        transfer_failed(request, failed);
    }
    request_end(request);
}

/* Writes wait while a hand-over is tried: not for a member that cannot answer. */
static void transfer_unreachable(struct request *request, const struct consensus_peer_status *peer)
{
    char text[ANSWER_TEXT_BYTES], contact[64];

    snprintf(text, sizeof(text), "%.128s is not reachable at %.255s (%s): start it first",
             peer->name, peer->address, contact_text(peer, contact));
    members_refuse(request, RPC_FAILED_PRECONDITION, "TRANSFER_REFUSED", text);
}

/* It would be asked to lead and could not do the work: refused here, where the reason can be
 * told. */
static void transfer_unfit(struct request *request, const struct consensus_peer_status *peer)
{
    char text[ANSWER_TEXT_BYTES];
    int64_t offset_ms = 0;

    if (peer->unfit == CONSENSUS_DISK_FULL)
        snprintf(text, sizeof(text),
                 "the disk of %.128s is nearly full, it would take no changes as leader: make room "
                 "on the file system of its data folder first",
                 peer->name);
    else {
        (void)replica_clock_of(request->broker->replica, peer->id, &offset_ms);
        snprintf(text, sizeof(text),
                 "the clock of %.128s is %" PRId64
                 " ms off, and other members can lead: set it right first (chronyc tracking, or "
                 "timedatectl, on its host)",
                 peer->name, offset_ms);
    }
    members_refuse(request, RPC_FAILED_PRECONDITION, "TRANSFER_REFUSED", text);
}

static void transfer_learner(struct request *request, const struct consensus_status *status,
                             const struct consensus_peer_status *peer)
{
    char text[ANSWER_TEXT_BYTES];

    snprintf(text, sizeof(text),
             "%.128s is a learner, %" PRIu64
             " entries behind, and only voters lead: first ckptctl member promote %.128s",
             peer->name, entries_behind(status, peer), peer->name);
    members_refuse(request, RPC_FAILED_PRECONDITION, "TRANSFER_REFUSED", text);
}

/* What is known to come to nothing is refused before commands have to wait for it. */
static void transfer_leadership(struct request *request)
{
    const Ckpt__V1__MemberRequest *asked = (const void *)request->message;
    bool any = asked->name[0] == '\0' && asked->member_id == 0;
    const struct consensus_peer_status *peer;
    struct consensus_status status;
    uint64_t member_id;

    replica_get_status(request->broker->replica, &status);
    member_id = any ? 0 : find_member(request->broker, &status, asked);
    peer = peer_of(&status, member_id);
    if (!any && member_id == 0)
        not_found(request);
    else if (member_id == status.member_id)
        transfer_done(request, NULL, NULL); /* it leads already */
    else if (peer != NULL && !peer->voter)
        transfer_learner(request, &status, peer);
    else if (peer != NULL && !broker_peer_reachable(request->broker, &status, peer))
        transfer_unreachable(request, peer);
    else if (peer != NULL && peer->unfit != CONSENSUS_FIT)
        transfer_unfit(request, peer);
    else
        replica_transfer(request->broker->replica, member_id, transfer_done, request);
}

/* ---- the table ---- */

#define OWN(method, may, function)                                                                 \
    METHOD_ROW("OperatorService", method, may, METHOD_OWN, member_request, .start = function)

const struct method service_members_methods[] = {
    OWN("AddMember", ROLE_OPERATOR, add_member),
    OWN("PromoteMember", ROLE_OPERATOR, promote_member),
    OWN("RemoveMember", ROLE_OPERATOR, remove_member),
    OWN("TransferLeadership", ROLE_OPERATOR, transfer_leadership),
};
const size_t service_members_method_count = ARRAY_COUNT(service_members_methods);
