/* OperatorService's RestartMember and StartCanary, and what Status tells for upgrades and of a
 * drill. See methods.h.
 *
 * Flow     both are asked of the member that is meant, not of the leader, and answered at once; the
 *          process ends after the answer (daemon/upgrades.h). A member knows enough to refuse:
 *          whether somebody starts it again, and who would be left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fsm/drill.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/api/methods.h"
#include "src/broker/daemon/upgrades.h"

static void refuse_call(struct request *request, enum rpc_status status, const char *text)
{
    rpc_call_finish(request->call, status, text);
}

/* The address may be another member's by now, and a process that was restarted is not meant. */
static bool is_meant(struct request *request, uint64_t member_id, uint64_t started_at_ms)
{
    const struct config_member *self = request->broker->config->self;
    Ckpt__V1__MemberStart start = CKPT__V1__MEMBER_START__INIT;
    char text[ANSWER_TEXT_BYTES];

    upgrades_fill_start(request->broker->upgrades, &start);
    if (member_id == self->id && (started_at_ms == 0 || started_at_ms == start.at_ms))
        return true;
    if (member_id != self->id)
        snprintf(text, sizeof(text),
                 "MEMBER_MISMATCH: this is %.128s (id %" PRIu64 "), and id %" PRIu64
                 " is meant; ckptctl member list",
                 self->name, self->id, member_id);
    else
        snprintf(text, sizeof(text),
                 "MEMBER_MISMATCH: %.128s was restarted since then, at %" PRIu64
                 "; ckptctl upgrade status",
                 self->name, start.at_ms);
    refuse_call(request, RPC_FAILED_PRECONDITION, text);
    return false;
}

/* Voters that would be left, and how many decide. A follower knows of the others that their
 * connections stand, and how far it is behind itself. */
static bool costs_quorum(const struct broker *broker, char *text, size_t size)
{
    struct consensus_status raft;
    size_t left = 0, majority;

    replica_get_status(broker->replica, &raft);
    if (raft.member_role != CONSENSUS_VOTER)
        return false;
    for (size_t i = 0; i < raft.peer_count; i++)
        left += raft.peers[i].voter && broker_peer_reachable(broker, &raft, &raft.peers[i]);
    majority = raft.voter_count / 2 + 1;
    if (left >= majority && raft.quorum)
        return false;
    snprintf(text, size,
             "QUORUM_AT_RISK: without %.128s %zu of %zu voters are left and %zu decide: nothing "
             "could be changed until it is back; start what is down, or restart-member "
             "--accept-outage",
             broker->config->self->name, left, raft.voter_count, majority);
    return true;
}

static void restart_member(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__RestartMemberRequest *asked = (const void *)request->message;
    const Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct broker *broker = request->broker;
    char text[ANSWER_TEXT_BYTES];

    (void)scratch;
    if (!is_meant(request, asked->member_id, asked->started_at_ms))
        return;
    if (upgrades_supervisor(broker->config->supervised)[0] == '\0') {
        snprintf(text, sizeof(text),
                 "NOT_SUPERVISED: nobody is known to start %.128s again when it ends (neither "
                 "NOTIFY_SOCKET nor INVOCATION_ID is set, as systemd does, nor supervised: yes in "
                 "%.500s); stop it and start it on its host, as it was started",
                 broker->config->self->name, broker->config->path);
        refuse_call(request, RPC_FAILED_PRECONDITION, text);
        return;
    }
    if (!asked->accept_outage && costs_quorum(broker, text, sizeof(text))) {
        refuse_call(request, RPC_FAILED_PRECONDITION, text);
        return;
    }
    log_info("restart_asked", "text=\"this member ends, and its supervisor starts it again\"");
    answer_reply(request->call, &reply.base);
    upgrades_restart(broker->upgrades);
}

static void start_canary(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__StartCanaryRequest *asked = (const void *)request->message;
    const Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct upgrades *upgrades = request->broker->upgrades;
    char text[ANSWER_TEXT_BYTES];
    struct err err;

    (void)scratch;
    if (!is_meant(request, asked->member_id, 0))
        return;
    if (asked->duration_ms == 0) {
        upgrades_watch_end(upgrades);
        answer_reply(request->call, &reply.base);
        return;
    }
    if (asked->duration_ms < UPGRADES_WATCH_MIN_MS || asked->duration_ms > UPGRADES_WATCH_MAX_MS) {
        snprintf(text, sizeof(text),
                 "OUT_OF_RANGE: a watch of %" PRIu64
                 " ms, at least %d and at most %d are possible; ckptctl upgrade canary %.128s 15m",
                 asked->duration_ms, UPGRADES_WATCH_MIN_MS, UPGRADES_WATCH_MAX_MS,
                 request->broker->config->self->name);
        refuse_call(request, RPC_OUT_OF_RANGE, text);
        return;
    }
    if (upgrades_watch(upgrades, asked->duration_ms, &err) != 0) {
        snprintf(text, sizeof(text), "CANARY_REFUSED: %.700s", err.text);
        refuse_call(request, RPC_FAILED_PRECONDITION, text);
        return;
    }
    answer_reply(request->call, &reply.base);
}

/* ---- Status ---- */

static void fill_canary(const struct upgrades_watch *watch, struct scratch *scratch,
                        Ckpt__V1__Canary *canary)
{
    Ckpt__V1__CanaryCheck *checks = scratch_take(scratch, CANARY_CHECK_COUNT, sizeof(*checks));

    ckpt__v1__canary__init(canary);
    canary->state = translate_text(watch->state);
    canary->begun_ms = watch->begun_ms;
    canary->until_ms = watch->until_ms;
    canary->checks = scratch_take(scratch, CANARY_CHECK_COUNT, sizeof(canary->checks[0]));
    for (size_t i = 0; i < CANARY_CHECK_COUNT; i++) {
        ckpt__v1__canary_check__init(&checks[i]);
        checks[i].name = translate_text(watch->results[i].name);
        checks[i].limit = translate_text(watch->results[i].limit);
        checks[i].value = translate_text(watch->results[i].value);
        checks[i].failed = watch->results[i].failed;
        canary->checks[canary->n_checks++] = &checks[i];
    }
}

void upgrade_fill_status(const struct broker *broker, struct scratch *scratch,
                         Ckpt__V1__StatusReply *reply)
{
    const struct upgrades_watch *watch;

    reply->feature_level = fsm_level(replica_fsm(broker->replica));
    reply->drill = (Ckpt__V1__Drill *)(uintptr_t)fsm_drill_open(replica_fsm(broker->replica));
    if (broker->upgrades == NULL)
        return;
    reply->start = scratch_take(scratch, 1, sizeof(*reply->start));
    ckpt__v1__member_start__init(reply->start);
    upgrades_fill_start(broker->upgrades, reply->start);
    watch = upgrades_watched(broker->upgrades);
    if (watch == NULL)
        return;
    reply->canary = scratch_take(scratch, 1, sizeof(*reply->canary));
    fill_canary(watch, scratch, reply->canary);
}

/* ---- the table ---- */

#define LOCAL(method, message, function)                                                           \
    METHOD_ROW("OperatorService", method, ROLE_OPERATOR, METHOD_LOCAL, message, .answer = function)

const struct method service_upgrade_methods[] = {
    LOCAL("RestartMember", restart_member_request, restart_member),
    LOCAL("StartCanary", start_canary_request, start_canary),
};
const size_t service_upgrade_method_count = ARRAY_COUNT(service_upgrade_methods);
