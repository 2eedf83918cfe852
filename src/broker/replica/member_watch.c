/* The replicated list of members beside Raft's own one. See member_watch.h. Three things are
 * compared, in the order of the file: addresses in the state with Raft's address book, Raft's
 * members with the roles in the state, and members of other histories with what was logged of
 * them. */
#include "src/broker/replica/member_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/api/answer.h"
#include "src/broker/broker.h"

struct member_watch {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    uint64_t members_index; /* of the state when the book was told last */
    struct told {           /* what it was told */
        uint64_t id;
        char raft[CONSENSUS_ADDRESS_BYTES];
    } told[FSM_MEMBERS_MAX];
    struct consensus_foreign foreign[CONSENSUS_MEMBERS_MAX]; /* as logged */
    size_t foreign_count;
    size_t proposed; /* commands whose outcome is not known yet */
};

/* ---- state -> book ---- */

/* An address that was told before is not told again: meanwhile the member itself may have said
 * another. */
static bool is_news(struct member_watch *watch, size_t i, const Ckpt__Log__V1__MemberFacts *facts)
{
    struct told *told = &watch->told[i];

    CHECK(i < FSM_MEMBERS_MAX);
    if (told->id == facts->member_id && strcmp(told->raft, facts->raft_address) == 0)
        return false;
    told->id = facts->member_id;
    snprintf(told->raft, sizeof(told->raft), "%s", facts->raft_address);
    return true;
}

/* The index of the last change of the list is compared first: entries that change no member cost
 * one comparison. */
static void book_tell(struct member_watch *watch)
{
    struct replica *replica = watch->broker->replica;
    const struct fsm *fsm = replica_fsm(replica);
    const Ckpt__Log__V1__MemberFacts *facts;

    if (fsm_members_index(fsm) == watch->members_index)
        return;
    watch->members_index = fsm_members_index(fsm);
    for (size_t i = 0; (facts = fsm_member_at(fsm, i)) != NULL; i++) {
        struct consensus_member member = {.id = facts->member_id};

        if (facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED ||
            facts->raft_address[0] == '\0' ||
            strlen(facts->raft_address) >= CONSENSUS_ADDRESS_BYTES || !is_news(watch, i, facts))
            continue;
        snprintf(member.name, sizeof(member.name), "%s", facts->name);
        snprintf(member.address, sizeof(member.address), "%s", facts->raft_address);
        replica_member_put(replica, &member);
    }
}

/* ---- Raft -> state ---- */

/* A record that the state refuses is logged and not repeated by force: the next look proposes what
 * still differs. */
static void proposed_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct member_watch *watch = data;

    CHECK(watch->proposed > 0);
    watch->proposed--;
    if (failed == NULL && outcome->status != FSM_OK)
        log_warning("member_record_refused", "status=%s current=%" PRIu64,
                    fsm_status_name(outcome->status), outcome->current);
}

/* The state writes the change down as an event, and keeps a removed id for ever: ids are never used
 * again. */
static void propose_role(struct member_watch *watch, uint64_t id, const char *name,
                         Ckpt__Log__V1__MemberRole role)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberRoleChange change = CKPT__LOG__V1__MEMBER_ROLE_CHANGE__INIT;

    change.member_id = id;
    change.role = role;
    change.name = (char *)(uintptr_t)name;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_ROLE;
    command.member_role = &change;
    watch->proposed++;
    replica_propose(watch->broker->replica, &command, proposed_done, watch);
}

static void propose_facts(struct member_watch *watch, uint64_t id, const char *name,
                          const char *raft, const char *api, const char *version)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;

    facts.member_id = id;
    facts.name = (char *)(uintptr_t)name;
    facts.raft_address = (char *)(uintptr_t)raft;
    facts.api_address = (char *)(uintptr_t)api;
    facts.version = (char *)(uintptr_t)version;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
    command.member_facts = &facts;
    watch->proposed++;
    replica_propose(watch->broker->replica, &command, proposed_done, watch);
}

static Ckpt__Log__V1__MemberRole role_of(enum consensus_member_role role)
{
    switch (role) {
    case CONSENSUS_VOTER:
        return CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER;
    case CONSENSUS_LEARNER:
        return CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_LEARNER;
    case CONSENSUS_JOINING:
    case CONSENSUS_NO_MEMBER:
        break;
    }
    return CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_UNSPECIFIED;
}

/* A member that is joining has no role yet: it is told when Raft has committed one. */
static void compare_member(struct member_watch *watch, uint64_t id, const char *name,
                           enum consensus_member_role role)
{
    const Ckpt__Log__V1__MemberFacts *facts = answer_facts(watch->broker, id);
    Ckpt__Log__V1__MemberRole wanted = role_of(role);

    if (wanted != CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_UNSPECIFIED &&
        (facts == NULL || facts->role != wanted))
        propose_role(watch, id, name, wanted);
}

/* What is missing in the replicated book, or wrong by what the member says of itself. */
static void compare_address(struct member_watch *watch, const struct consensus_peer_status *peer)
{
    const struct config *config = watch->broker->config;
    const Ckpt__Log__V1__MemberFacts *facts = answer_facts(watch->broker, peer->id);
    const char *api = replica_member_contact(watch->broker->replica, peer->id);

    if (api[0] == '\0' && facts != NULL)
        api = facts->api_address;
    if (peer->address[0] == '\0' ||
        (facts != NULL && api[0] != '\0' && strcmp(facts->api_address, api) == 0 &&
         strcmp(facts->raft_address, peer->address) == 0))
        return;
    for (size_t i = 0; i < config->member_count && api[0] == '\0'; i++) {
        if (config->members[i].id == peer->id)
            api = config->members[i].api;
    }
    if (api[0] == '\0' && facts != NULL && strcmp(facts->raft_address, peer->address) == 0)
        return; /* nobody knows more */
    propose_facts(watch, peer->id, peer->name, peer->address, api,
                  facts != NULL ? facts->version : "");
}

/* A member of Raft's configuration, this one included. */
static bool in_use(const struct consensus_status *status, uint64_t id)
{
    for (size_t i = 0; i < status->peer_count; i++) {
        if (status->peers[i].id == id)
            return true;
    }
    return id == status->member_id;
}

/* Looks at all members once. Nothing is compared while a change is on its way, or while an earlier
 * proposal has no outcome: what differs then may be about to be told. */
static void compare_members(struct member_watch *watch)
{
    struct replica *replica = watch->broker->replica;
    const struct fsm *fsm = replica_fsm(replica);
    const Ckpt__Log__V1__MemberFacts *facts;
    struct consensus_status status;

    if (!replica_serving(replica) || watch->proposed > 0)
        return;
    replica_get_status(replica, &status);
    if (status.change_index != 0 || status.change_under_way)
        return;
    compare_member(watch, status.member_id, watch->broker->config->self->name, status.member_role);
    for (size_t i = 0; i < status.peer_count; i++) {
        compare_address(watch, &status.peers[i]);
        compare_member(watch, status.peers[i].id, status.peers[i].name, status.peers[i].role);
    }
    for (size_t i = 0; (facts = fsm_member_at(fsm, i)) != NULL; i++) {
        if ((facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_LEARNER ||
             facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER) &&
            !in_use(&status, facts->member_id))
            propose_role(watch, facts->member_id, facts->name,
                         CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED);
    }
}

/* ---- other histories ---- */

static bool same_foreign(const struct consensus_foreign *a, const struct consensus_foreign *b)
{
    return a->id == b->id && a->answers == b->answers && a->incarnation == b->incarnation &&
           strcmp(a->address, b->address) == 0;
}

/* Each once, and again when it comes back after it was gone. */
static void foreign_tell(struct member_watch *watch)
{
    const struct broker *broker = watch->broker;
    struct consensus_status status;

    replica_get_status(broker->replica, &status);
    for (size_t i = 0; i < status.foreign_count; i++) {
        const struct consensus_foreign *foreign = &status.foreign[i];
        bool known = false;

        for (size_t k = 0; k < watch->foreign_count; k++)
            known |= same_foreign(&watch->foreign[k], foreign);
        if (!known)
            log_warning("foreign_member",
                        "member=%" PRIu64 " address=%s from=%s incarnation=%016" PRIx64
                        " own_incarnation=%016" PRIx64 " text=\"%s\"",
                        foreign->id, foreign->address,
                        foreign->from[0] != '\0' ? foreign->from : "-", foreign->incarnation,
                        status.incarnation,
                        foreign->answers ? "another history of this cluster answers there; it is "
                                           "refused"
                                         : "a copy of this cluster calls as this member; it is "
                                           "refused, the member is not concerned");
    }
    memcpy(watch->foreign, status.foreign, sizeof(watch->foreign));
    watch->foreign_count = status.foreign_count;
}

/* ---- life ---- */

static void on_timer(void *data)
{
    struct member_watch *watch = data;

    compare_members(watch);
    foreign_tell(watch);
    watch->broker->clock.timer_start(watch->timer, MEMBER_WATCH_MS * UINT64_C(1000));
}

/* Never from inside a callback of the replica: soon. */
static void look_soon(void *context)
{
    struct member_watch *watch = context;

    watch->broker->clock.timer_start(watch->timer, 0);
}

static void on_applied(void *context)
{
    book_tell(context);
}

struct member_watch *member_watch_new(struct broker *broker)
{
    struct member_watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(broker->replica != NULL);
    watch->broker = broker;
    watch->timer = broker->clock.timer_new(broker->clock.context, on_timer, watch);
    broker->clock.timer_start(watch->timer, 0);
    watch->observer.context = watch;
    watch->observer.applied = on_applied;
    watch->observer.serving = look_soon;
    watch->observer.members_changed = look_soon;
    replica_observe(broker->replica, &watch->observer);
    book_tell(watch);
    return watch;
}

void member_watch_free(struct member_watch *watch)
{
    if (watch == NULL)
        return;
    CHECK(watch->proposed == 0);
    watch->broker->clock.timer_free(watch->timer);
    free(watch);
}
