/* OperatorService's drills: RunDrill, PlanDrill, ListDrills, and what members tell. See methods.h
 * and fsm/drill.h.
 *
 * Flow     a begin is proposed with the facts that the state does not have: who leads, how many may
 *          fail, whether somebody starts the leader again. A plan asks the same guards and proposes
 *          nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fsm/drill.h"
#include "fsm/level.h"
#include "fsm/passive.h"
#include "fsm/pause.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/broker/api/methods.h"
#include "src/broker/daemon/upgrades.h"
#include "src/broker/drill/faults.h"

enum { BEHIND_MAX = 1000 /* entries; a member that follows is behind by a few */ };

/* ---- what the leader adds ---- */

static uint32_t count_builds(const struct broker *broker, const struct consensus_status *raft)
{
    char texts[CONSENSUS_MEMBERS_MAX + 1][sizeof(((struct consensus_build *)0)->text)];
    struct consensus_build build;
    uint32_t count = 1;

    snprintf(texts[0], sizeof(texts[0]), "%s", build_text);
    for (size_t i = 0; i < raft->peer_count; i++) {
        bool known = false;

        (void)replica_member_build(broker->replica, raft->peers[i].id, &build);
        for (uint32_t j = 0; j < count; j++)
            known = known || strcmp(texts[j], build.text) == 0;
        if (!known && build.text[0] != '\0')
            snprintf(texts[count++], sizeof(texts[0]), "%s", build.text);
    }
    return count;
}

/* Its end would fail the watch, and have the build before put back. */
static bool canary_watches(const struct broker *broker)
{
    const struct upgrades_watch *watch =
        broker->upgrades == NULL ? NULL : upgrades_watched(broker->upgrades);

    return watch != NULL && strcmp(watch->state, "watching") == 0;
}

static bool somebody_is_behind(const struct broker *broker, const struct consensus_status *raft)
{
    for (size_t i = 0; i < raft->peer_count; i++)
        if (raft->peers[i].voter && (!broker_peer_reachable(broker, raft, &raft->peers[i]) ||
                                     raft->peers[i].match_index + BEHIND_MAX < raft->last_index))
            return true;
    return false;
}

/* The one with the highest id: members that were added last are spared least. 0: there is none. */
static uint64_t choose_follower(const struct broker *broker, const struct consensus_status *raft)
{
    uint64_t chosen = 0;

    for (size_t i = 0; i < raft->peer_count; i++)
        if (raft->peers[i].voter && raft->peers[i].id > chosen &&
            broker_peer_reachable(broker, raft, &raft->peers[i]))
            chosen = raft->peers[i].id;
    return chosen;
}

static const char *default_target(const struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target != NULL && target->is_default)
            return target->id;
    }
    return "";
}

struct begin {
    Ckpt__V1__DrillKind kind;
    const char *target_id, *allocation_id;
    uint64_t duration_ms; /* 0: the kind's own */
};

static void fill_start(const struct broker *broker, const struct begin *begin,
                       Ckpt__Log__V1__StartDrill *start)
{
    const struct fsm_drill_kind *kind = fsm_drill_kind(begin->kind);
    const struct fsm *fsm = replica_fsm(broker->replica);
    struct consensus_status raft;

    replica_get_status(broker->replica, &raft);
    start->kind = begin->kind;
    start->member_id = broker->config->self->id;
    start->duration_ms = begin->duration_ms;
    start->target_id = translate_text(begin->target_id);
    start->allocation_id = translate_text(begin->allocation_id);
    start->supervised = upgrades_supervisor(broker->config->supervised)[0] != '\0';
    start->tolerance = broker_tolerance(broker, &raft);
    start->builds = count_builds(broker, &raft) + canary_watches(broker);
    start->behind = somebody_is_behind(broker, &raft);
    if (kind == NULL)
        return; /* the proposal is refused */
    if (kind->hits == FSM_DRILL_HITS_FOLLOWER) {
        uint64_t follower = choose_follower(broker, &raft);

        start->member_id = follower == 0 ? start->member_id : follower;
    }
    if (kind->hits == FSM_DRILL_HITS_TARGET && begin->target_id[0] == '\0')
        start->target_id = translate_text(default_target(fsm));
    if (begin->duration_ms == 0)
        start->duration_ms = kind->duration_ms;
}

/* ---- RunDrill ---- */

static void answer_run(struct request *request, const struct fsm_outcome *outcome)
{
    Ckpt__V1__RunDrillReply reply = CKPT__V1__RUN_DRILL_REPLY__INIT;

    if ((unsigned)outcome->status < BROKER_OUTCOMES_MAX)
        request->broker->counters.outcomes_total[outcome->status]++;
    if (request->call == NULL)
        return;
    if (outcome->status != FSM_OK) {
        answer_outcome(request->call, outcome);
        return;
    }
    reply.index = outcome->index;
    reply.repeated = outcome->repeated;
    reply.drill_id = outcome->current;
    answer_reply(request->call, &reply.base);
}

static void run_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;

    if (failed == NULL)
        answer_run(request, outcome);
    else if (request->call != NULL)
        answer_failed(request->broker, request->call, failed);
    request_end(request);
}

/* A retry comes with other facts: the leader that it was asked of may be the one that failed. */
static bool answer_repeat(struct request *request, const char *request_id)
{
    struct fsm_request found;

    if (!fsm_request_find(replica_fsm(request->broker->replica), request_id, &found) ||
        found.command != CKPT__LOG__V1__COMMAND__BODY_START_DRILL)
        return false;
    found.outcome.repeated = true;
    answer_run(request, &found.outcome);
    request_end(request);
    return true;
}

static void run_start(struct request *request)
{
    const Ckpt__V1__DrillRequest *asked = (const void *)request->message;
    const struct fsm_drill_kind *kind = fsm_drill_kind_named(asked->name);
    const struct begin begin = {kind == NULL ? CKPT__V1__DRILL_KIND__DRILL_KIND_UNSPECIFIED
                                             : kind->kind,
                                asked->target_id, asked->allocation_id, asked->duration_ms};
    Ckpt__Log__V1__StartDrill start = CKPT__LOG__V1__START_DRILL__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    struct fsm_outcome missing = {.status = FSM_REQUEST_ID_MISSING};

    if (request->message->n_unknown_fields > 0)
        missing.status = FSM_UNKNOWN_FIELD;
    if (asked->request_id[0] == '\0' || missing.status == FSM_UNKNOWN_FIELD) {
        answer_run(request, &missing);
        request_end(request);
        return;
    }
    if (answer_repeat(request, asked->request_id))
        return;
    request->broker->counters.mutations_total++;
    fill_start(request->broker, &begin, &start);
    command.request_id = asked->request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_START_DRILL;
    command.start_drill = &start;
    replica_propose(request->broker->replica, &command, run_done, request);
}

/* ---- PlanDrill ---- */

static const char *member_name(const struct broker *broker, uint64_t member_id)
{
    struct answer_member member;

    return answer_find_member(broker, member_id, &member) ? member.name : "";
}

/* `outcome` refuses, or is OK. */
static void add_guard(Ckpt__V1__PlanDrillReply *reply, struct scratch *scratch, const char *name,
                      const struct fsm_outcome *outcome)
{
    Ckpt__V1__DrillGuard *guard = scratch_take(scratch, 1, sizeof(*guard));
    char text[ANSWER_TEXT_BYTES];

    ckpt__v1__drill_guard__init(guard);
    guard->name = translate_text(name);
    if (outcome->status != FSM_OK)
        guard->text = scratch_printf(scratch, "%s: %s", fsm_status_name(outcome->status),
                                     fsm_outcome_text(outcome, text, sizeof(text)));
    reply->possible = reply->possible && outcome->status == FSM_OK;
    reply->guards[reply->n_guards++] = guard;
}

static void add_guards(const struct broker *broker, Ckpt__Log__V1__Command *command,
                       struct scratch *scratch, Ckpt__V1__PlanDrillReply *reply)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    struct fsm_outcome outcome = {.status = FSM_OK};
    size_t count = 0;

    while (fsm_drill_guard(count) != NULL)
        count++;
    reply->guards = scratch_take(scratch, count + 3, sizeof(reply->guards[0]));
    (void)fsm_validate_level(fsm, command, &outcome);
    add_guard(reply, scratch, "level", &outcome);
    outcome = (struct fsm_outcome){.status = FSM_OK};
    if (fsm_passive_since_ms(fsm) != 0)
        outcome.status = FSM_PASSIVE;
    add_guard(reply, scratch, "adopted", &outcome);
    outcome = (struct fsm_outcome){.status = FSM_OK};
    outcome.status = fsm_pause_refusal(fsm, &outcome);
    add_guard(reply, scratch, "not paused", &outcome);
    for (size_t i = 0; i < count; i++) {
        outcome = (struct fsm_outcome){.status = FSM_OK};
        (void)fsm_drill_guard_ask(fsm, i, command->start_drill, replica_state_ms(broker->replica),
                                  &outcome);
        add_guard(reply, scratch, fsm_drill_guard(i)->name, &outcome);
    }
}

static void plan_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__PlanDrillRequest *asked = (const void *)request->message;
    const struct begin begin = {asked->kind, asked->target_id, asked->allocation_id,
                                asked->duration_ms};
    Ckpt__V1__PlanDrillReply reply = CKPT__V1__PLAN_DRILL_REPLY__INIT;
    Ckpt__Log__V1__StartDrill start = CKPT__LOG__V1__START_DRILL__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    struct fsm_outcome outcome = {.status = FSM_OK};

    fill_start(request->broker, &begin, &start);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_START_DRILL;
    command.start_drill = &start;
    command.request_id = translate_text("plan");
    if (fsm_validate_command(&command, &outcome) != FSM_OK) {
        answer_outcome(request->call, &outcome);
        return;
    }
    outcome.status = fsm_drill_names(replica_fsm(request->broker->replica), &start, &outcome);
    if (outcome.status != FSM_OK) {
        answer_outcome(request->call, &outcome);
        return;
    }
    reply.kind = asked->kind;
    reply.member_id = start.member_id;
    reply.member_name = translate_text(member_name(request->broker, start.member_id));
    reply.does = translate_text(fault_find(asked->kind)->does);
    reply.costs = translate_text(fault_find(asked->kind)->costs);
    reply.lead_ms = FSM_DRILL_LEAD_MS;
    reply.duration_ms = start.duration_ms;
    reply.settle_ms = fsm_drill_kind(asked->kind)->settle_ms;
    reply.possible = true;
    add_guards(request->broker, &command, scratch, &reply);
    answer_reply(request->call, &reply.base);
}

/* ---- ListDrills ---- */

static void take_shortest(uint64_t *shortest, uint64_t told)
{
    if (told != 0 && (*shortest == 0 || told < *shortest))
        *shortest = told;
}

/* Of all members but the one that stood still or was cut off: its own clock says nothing of the
 * service. */
static size_t sort_away(const Ckpt__V1__Drill *drill, uint64_t ret_away[FSM_MEMBERS_MAX])
{
    bool one_apart = drill->kind == CKPT__V1__DRILL_KIND__DRILL_KIND_LEADER_HANG ||
                     drill->kind == CKPT__V1__DRILL_KIND__DRILL_KIND_MEMBER_LOSS;
    size_t count = 0;

    for (size_t i = 0; i < drill->n_members && count < FSM_MEMBERS_MAX; i++) {
        const Ckpt__V1__DrillMember *member = drill->members[i];
        size_t at = count;

        if (member->word == NULL || (one_apart && member->member_id == drill->member_id))
            continue;
        for (; at > 0 && ret_away[at - 1] > member->word->away_ms; at--)
            ret_away[at] = ret_away[at - 1];
        ret_away[at] = member->word->away_ms;
        count++;
    }
    return count;
}

static void fill_result(const Ckpt__V1__Drill *drill, struct scratch *scratch,
                        Ckpt__V1__DrillResult *result)
{
    struct fsm_drill_check checks[FSM_DRILL_CHECK_COUNT];
    Ckpt__V1__DrillCheck *items = scratch_take(scratch, FSM_DRILL_CHECK_COUNT, sizeof(*items));
    uint64_t away[FSM_MEMBERS_MAX];
    size_t count = sort_away(drill, away);

    ckpt__v1__drill_result__init(result);
    result->drill = (Ckpt__V1__Drill *)(uintptr_t)drill;
    (void)fsm_drill_check(drill, checks);
    result->checks = scratch_take(scratch, FSM_DRILL_CHECK_COUNT, sizeof(result->checks[0]));
    for (size_t i = 0; i < FSM_DRILL_CHECK_COUNT; i++) {
        ckpt__v1__drill_check__init(&items[i]);
        items[i].name = translate_text(checks[i].name);
        items[i].value = checks[i].value;
        items[i].limit = checks[i].limit;
        items[i].failed = checks[i].failed;
        result->checks[result->n_checks++] = &items[i];
    }
    result->away_p50_ms = count == 0 ? 0 : away[(count - 1) / 2];
    result->away_max_ms = count == 0 ? 0 : away[count - 1];
    for (size_t i = 0; i < drill->n_members; i++) {
        const Ckpt__V1__DrillWord *word = drill->members[i]->word;

        if (word == NULL)
            continue;
        take_shortest(&result->detect_ms, word->detect_ms);
        take_shortest(&result->elected_ms, word->elected_ms);
        take_shortest(&result->commit_ms, word->commit_ms);
        take_shortest(&result->orders_ms, word->orders_ms);
    }
}

static void list_answer(struct request *request, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__ListDrillsReply reply = CKPT__V1__LIST_DRILLS_REPLY__INIT;
    size_t count = 0;

    while (fsm_drill_at(fsm, count) != NULL)
        count++;
    reply.drills = scratch_take(scratch, count + 1, sizeof(reply.drills[0]));
    while (count-- > 0) {
        Ckpt__V1__DrillResult *item = scratch_take(scratch, 1, sizeof(*item));

        fill_result(fsm_drill_at(fsm, count), scratch, item);
        reply.drills[reply.n_drills++] = item;
    }
    reply.last_passed_ms = fsm_drill_passed_ms(fsm);
    reply.max_age_ms = fsm_policy(fsm)->drill_max_age_ms;
    reply.now_ms = replica_state_ms(request->broker->replica);
    reply.cluster_id = translate_text(request->broker->config->cluster_id);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* ---- words of members ---- */

/* With TLS a member speaks for itself alone. */
static bool is_own_word(const struct rpc_peer *peer, const struct fsm *fsm,
                        const ProtobufCMessage *message, char *text, size_t size)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "member_id");
    uint64_t member_id = *(const uint64_t *)(const void *)((const char *)message + field->offset);
    struct tls_identity identity;
    char own[24];

    (void)fsm;
    snprintf(own, sizeof(own), "%" PRIu64, member_id);
    if (!peer->tls ||
        (tls_identity_parse(peer->identity, strlen(peer->identity), &identity, NULL) == 0 &&
         strcmp(identity.name, own) == 0))
        return true;
    snprintf(text, size, "PERMISSION_DENIED: %s may not speak for member %s", peer->identity, own);
    return false;
}

/* ---- the table ---- */

#define METHOD(of_kind, method, may, message, ...)                                                 \
    METHOD_ROW("OperatorService", method, may, of_kind, message, __VA_ARGS__)

/* clang-format off */
const struct method service_drills_methods[] = {
    METHOD(METHOD_OWN, "RunDrill", ROLE_OPERATOR, drill_request, .start = run_start),
    METHOD(METHOD_READ, "PlanDrill", ROLE_OPERATOR | ROLE_AUDITOR, plan_drill_request,
           .answer = plan_answer),
    METHOD(METHOD_READ, "ListDrills", ROLE_READER, list_drills_request, .answer = list_answer),
    METHOD(METHOD_MUTATION, "ProbeDrill", ROLE_REPLICA, probe_drill_request,
           .body_case = CKPT__LOG__V1__COMMAND__BODY_PROBE_DRILL, .allowed = is_own_word),
    METHOD(METHOD_MUTATION, "TellDrill", ROLE_REPLICA, tell_drill_request,
           .body_case = CKPT__LOG__V1__COMMAND__BODY_TELL_DRILL, .allowed = is_own_word),
};
/* clang-format on */
const size_t service_drills_method_count = ARRAY_COUNT(service_drills_methods);
