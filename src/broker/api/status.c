/* OperatorService/Status and DebugCheck: what this member knows of the cluster and of itself, also
 * without a leader.
 *
 * Flow     consensus status + summary of the state + what the duties saw -> members, targets,
 *          warnings, each of these with its remedy.
 * Units    ages in milliseconds; UINT64_MAX means never.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fsm/quota.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/api/damaged.h"
#include "src/broker/api/methods.h"
#include "src/broker/api/service_nodes.h"
#include "src/broker/api/service_pause.h"
#include "src/broker/daemon/process.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "src/broker/health/storage_watch.h"
#include "src/broker/health/telemetry.h"
#include "src/broker/keep/backup_schedule.h"
#include "src/tls/watch.h"

enum { STATUS_WARNINGS_MAX = 128, STATUS_VIOLATIONS_MAX = 64 };

/* One answer under construction: everything that is looked at is looked at once, so that its parts
 * agree. */
struct status {
    const struct broker *broker;
    struct scratch *scratch;
    struct consensus_status raft;
    struct replica_stats stats;
    struct fsm_summary summary;
    uint64_t state_ms; /* the state's time now: ages of what is in it */
    Ckpt__V1__StatusReply *reply;
    struct consensus_build builds[CONSENSUS_MEMBERS_MAX + 1]; /* of reply->members */
};

static const struct consensus_peer_status *status_peer(const struct consensus_status *raft,
                                                       uint64_t id)
{
    for (size_t i = 0; i < raft->peer_count; i++) {
        if (raft->peers[i].id == id)
            return &raft->peers[i];
    }
    return NULL;
}

/* ---- members ---- */

/* This member knows itself without asking anybody. */
static void status_self(const struct status *status, Ckpt__V1__MemberStatus *member)
{
    member->role = translate_text(translate_role(&status->raft));
    member->reachable = true;
    member->match_index = status->raft.last_index;
    member->clock_offset_ms = status->reply->clock_offset_ms;
    member->version = translate_text(build_text);
    member->feature_level = FSM_LEVEL_NEWEST;
}

/* Who answers where it is dialled holds another history. A copy that only calls says nothing of the
 * member. */
static bool status_is_foreign(const struct consensus_status *raft, uint64_t id)
{
    for (size_t i = 0; i < raft->foreign_count; i++)
        if (raft->foreign[i].id == id && raft->foreign[i].answers)
            return true;
    return false;
}

/* What is known of another member depends on who leads: a follower hears the leader alone. */
static void status_other(struct status *status, Ckpt__V1__MemberStatus *member)
{
    const struct consensus_status *raft = &status->raft;
    const struct consensus_peer_status *peer = status_peer(raft, member->member_id);
    const Ckpt__Log__V1__MemberFacts *facts = answer_facts(status->broker, member->member_id);
    struct consensus_build *build;

    if (facts != NULL)
        member->version = facts->version;
    CHECK(status->reply->n_members <= CONSENSUS_MEMBERS_MAX);
    build = &status->builds[status->reply->n_members];
    if (replica_member_build(status->broker->replica, member->member_id, build)) {
        member->feature_level = build->level;
        if (build->text[0] != '\0')
            member->version = build->text;
    }
    member->role = translate_text("unknown");
    member->last_contact_ms = UINT64_MAX;
    if (peer == NULL)
        return;
    member->reachable =
        broker_peer_reachable(status->broker, raft, peer) && !status_is_foreign(raft, peer->id);
    member->last_contact_ms = peer->last_contact_age_ms;
    if (raft->role == CONSENSUS_LEADER) {
        member->match_index = peer->match_index;
        member->lag_entries =
            raft->last_index > peer->match_index ? raft->last_index - peer->match_index : 0;
    }
    (void)replica_clock_of(status->broker->replica, peer->id, &member->clock_offset_ms);
    if (raft->leader_id == member->member_id)
        member->role = translate_text("leader");
    else if (!peer->voter)
        member->role = translate_text("learner");
    else if (member->reachable)
        member->role = translate_text("follower");
}

/* One line for each member; voters are counted as it goes, for the quorum. */
static void status_member(struct status *status, uint64_t id, const char *name, const char *raft,
                          enum consensus_member_role role)
{
    Ckpt__V1__StatusReply *reply = status->reply;
    Ckpt__V1__MemberStatus *member = scratch_take(status->scratch, 1, sizeof(*member));
    struct answer_member found = {"", ""};

    ckpt__v1__member_status__init(member);
    (void)answer_find_member(status->broker, id, &found);
    member->member_id = id;
    member->name = scratch_printf(status->scratch, "%s", found.name[0] != '\0' ? found.name : name);
    member->api_address = translate_text(found.api);
    member->raft_address = scratch_printf(status->scratch, "%s", raft);
    if (id == status->raft.member_id)
        status_self(status, member);
    else
        status_other(status, member);
    member->voter = role == CONSENSUS_VOTER;
    if (role == CONSENSUS_VOTER) {
        reply->voter_count++;
        reply->reachable_count += member->reachable;
    }
    reply->members[reply->n_members++] = member;
}

/* The members of the configuration in use, by id, with this one. */
static void status_members(struct status *status)
{
    const struct config_member *self = status->broker->config->self;
    const struct consensus_status *raft = &status->raft;
    Ckpt__V1__StatusReply *reply = status->reply;
    uint64_t after = 0;
    uint32_t majority;

    reply->members = scratch_take(status->scratch, raft->peer_count + 1, sizeof(reply->members[0]));
    for (size_t n = 0; n <= raft->peer_count; n++) {
        const struct consensus_peer_status *next = NULL;

        for (size_t i = 0; i < raft->peer_count; i++) {
            const struct consensus_peer_status *peer = &raft->peers[i];
            if (peer->id > after && (next == NULL || peer->id < next->id))
                next = peer;
        }
        if (self->id > after && (next == NULL || self->id < next->id)) {
            status_member(status, self->id, self->name, self->raft, raft->member_role);
            after = self->id;
        } else if (next != NULL) {
            status_member(status, next->id, next->name, next->address, next->role);
            after = next->id;
        }
    }
    majority = reply->voter_count / 2 + 1;
    reply->failure_tolerance = reply->quorum && reply->reachable_count >= majority
                                   ? (int32_t)(reply->reachable_count - majority)
                                   : -1;
}

/* ---- targets ---- */

/* Also for ListTargets. The queue is the leader's; the last probe is this member's own, if it ever
 * led. */
size_t status_targets(const struct broker *broker, struct scratch *scratch,
                      Ckpt__V1__TargetStatus ***ret_targets)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const uint32_t slots = fsm_target_slots(fsm);
    size_t count = 0;

    *ret_targets = scratch_take(scratch, slots, sizeof((*ret_targets)[0]));
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        Ckpt__V1__TargetStatus *item;
        const char *detail;
        uint64_t probe_ms;

        if (target == NULL)
            continue;
        item = scratch_take(scratch, 1, sizeof(*item));
        translate_target(target, scratch, item);
        dispatcher_fill_queue(broker->dispatcher, slot, item);
        if (broker->storage_watch != NULL &&
            storage_watch_last_probe(broker->storage_watch, target->id, &detail, &probe_ms)) {
            item->detail = translate_text(detail);
            item->last_probe_ms = probe_ms;
        }
        (*ret_targets)[count++] = item;
    }
    return count;
}

/* ---- warnings ---- */

/* Each warning is one line with the next step; more than STATUS_WARNINGS_MAX are left out. */
static void status_warn(struct status *status, char *text)
{
    Ckpt__V1__StatusReply *reply = status->reply;

    if (reply->n_warnings < STATUS_WARNINGS_MAX)
        reply->warnings[reply->n_warnings++] = text;
}

static uint64_t age_ms(uint64_t now_ms, uint64_t since_ms)
{
    return now_ms > since_ms ? now_ms - since_ms : 0;
}

static uint64_t status_age_s(const struct status *status, uint64_t since_ms)
{
    return age_ms(status->state_ms, since_ms) / 1000;
}

/* Nothing else of the members is known before they agree. */
static void status_warn_founding(struct status *status)
{
    status_warn(status,
                scratch_printf(status->scratch,
                               "the first start of %s waits for %s: start every founder with "
                               "--bootstrap and the same configuration",
                               status->broker->config->self->name, status->raft.founding));
}

/* The worst first: no member, no quorum, no tolerance, then each that is not reachable. */
static void status_warn_members(struct status *status)
{
    Ckpt__V1__StatusReply *reply = status->reply;

    if (status->raft.member_role == CONSENSUS_NO_MEMBER)
        status_warn(
            status,
            scratch_printf(status->scratch,
                           "this member is no part of the cluster yet: on a machine that "
                           "reaches the leader run ckptctl member add %s --id %" PRIu64
                           " --raft %s --api %s",
                           status->broker->config->self->name, status->broker->config->self->id,
                           status->broker->config->self->raft, status->broker->config->self->api));
    else if (!reply->quorum && reply->reachable_count > reply->voter_count / 2)
        status_warn(status, scratch_printf(status->scratch,
                                           "NO LEADER (an election is under way): nothing can be "
                                           "changed until a member leads; that takes seconds"));
    else if (!reply->quorum)
        status_warn(status, scratch_printf(status->scratch,
                                           "NO QUORUM (%" PRIu32 " of %" PRIu32
                                           " reachable): nothing can be changed and this data may "
                                           "be stale; start the members that are down",
                                           reply->reachable_count, reply->voter_count));
    else if (reply->failure_tolerance == 0 && reply->voter_count > 1)
        status_warn(status, scratch_printf(status->scratch,
                                           "failure tolerance is 0: one more member down stops all "
                                           "changes; start the members that are down"));
    for (size_t i = 0; i < reply->n_members; i++) {
        const Ckpt__V1__MemberStatus *member = reply->members[i];

        if (member->reachable)
            continue;
        if (member->last_contact_ms == UINT64_MAX)
            status_warn(status, scratch_printf(status->scratch,
                                               "member %s was not heard of since this member "
                                               "started: check ckptd there and %s",
                                               member->name, member->raft_address));
        else
            status_warn(status, scratch_printf(status->scratch,
                                               "member %s is unreachable (last contact %" PRIu64
                                               " s ago): check ckptd there and %s",
                                               member->name, member->last_contact_ms / 1000,
                                               member->raft_address));
    }
}

/* A learner that was forgotten, and an even number of voters, cost without helping. */
static void status_warn_learners(struct status *status)
{
    const Ckpt__V1__StatusReply *reply = status->reply;

    for (size_t i = 0; i < reply->n_members; i++)
        if (!reply->members[i]->voter && reply->voter_count > 0)
            status_warn(status, scratch_printf(status->scratch,
                                               "member %s is a learner and does not count for the "
                                               "quorum: ckptctl member promote %s, or remove it",
                                               reply->members[i]->name, reply->members[i]->name));
    if (reply->voter_count > 0 && reply->voter_count % 2 == 0)
        status_warn(status,
                    scratch_printf(status->scratch,
                                   "%" PRIu32 " voters tolerate no more failures than %" PRIu32
                                   ": add and promote one, or remove one",
                                   reply->voter_count, reply->voter_count - 1));
}

/* Jobs go on without checkpoints until it is repaired. */
static void status_warn_storage(struct status *status)
{
    for (size_t i = 0; i < status->reply->n_targets; i++) {
        const Ckpt__V1__TargetStatus *target = status->reply->targets[i];

        if (!target->available)
            status_warn(status, scratch_printf(
                                    status->scratch,
                                    "storage target %s is unavailable since %" PRIu64 " s, %" PRIu64
                                    " checkpoints are paused: repair %s; they resume by themselves",
                                    target->spec->target_id, status_age_s(status, target->since_ms),
                                    target->paused_count, target->spec->prefix));
    }
    if (status->summary.initialised && status->reply->n_targets == 0)
        status_warn(status, scratch_printf(status->scratch,
                                           "no storage target is known, no checkpoint can be "
                                           "written: ckptctl target put"));
}

/* Space that retention gave up and nobody got back. */
static void status_warn_undeleted(struct status *status)
{
    const struct fsm *fsm = replica_fsm(status->broker->replica);
    struct fsm_undeleted_sum sum;

    fsm_undeleted_sum(fsm, &sum);
    if (sum.count > 0)
        status_warn(status,
                    scratch_printf(
                        status->scratch,
                        "%" PRIu64 " expired checkpoints could not be deleted, the oldest "
                        "since %" PRIu64 " s (%s); jobs go on, the space stays taken: "
                        "ckptctl undeleted",
                        sum.count, status_age_s(status, sum.oldest->since_ms), sum.oldest->reason));
}

/* Nobody else would notice before the restart. */
static void status_warn_damaged(struct status *status, struct broker_damaged *damaged)
{
    const struct fsm *fsm = replica_fsm(status->broker->replica);

    damaged_update(damaged, fsm, status->summary.next_event_sequence);
    for (size_t i = 0; i < damaged->count; i++) {
        const struct fsm_checkpoint *point = fsm_restart_point(fsm, damaged->jobs[i], 0);
        char id[CHECKPOINT_ID_TEXT_BYTES];

        status_warn(status,
                    scratch_printf(status->scratch,
                                   "the last checkpoint of job %s is DAMAGED, it would begin from "
                                   "%s: ckptctl checkpoints %s; while it runs ckptctl hint %s "
                                   "writes a new one",
                                   damaged->jobs[i],
                                   point == NULL ? "nothing" : checkpoint_id_format(point->id, id),
                                   damaged->jobs[i], damaged->jobs[i]));
    }
}

/* Its jobs go on, and lose more from hour to hour. */
static void status_warn_tenants(struct status *status)
{
    const struct fsm *fsm = replica_fsm(status->broker->replica);
    struct fsm_quota quota;

    for (uint32_t i = 0; i < fsm_tenant_count(fsm); i++) {
        const char *tenant = fsm_tenant_quota(fsm, i, &quota);

        if (tenant == NULL || fsm_quota_wanted(&quota, status->state_ms) == 0 ||
            fsm_quota_excess(&quota, status->state_ms) == 0)
            continue;
        status_warn(status,
                    scratch_printf(status->scratch,
                                   "checkpoints of tenant %s are refused: it has %" PRIu64
                                   " of %" PRIu64 " bytes, %" PRIu64
                                   " more are written, and the largest would have %" PRIu64
                                   ": ckptctl tenants",
                                   tenant, quota.stored_bytes, quota.max_bytes, quota.running_bytes,
                                   fsm_quota_wanted(&quota, status->state_ms)));
    }
}

/* Queues as the model counts them, and a warning for each that it does not count any more. */
static void status_queues(struct status *status)
{
    const struct fsm *fsm = replica_fsm(status->broker->replica);
    Ckpt__V1__StatusReply *reply = status->reply;
    uint64_t max_age_ms = fsm_policy(fsm)->queue_max_age_ms;
    double queued = 0, running = 0;

    reply->queues = scratch_take(status->scratch, fsm_queue_count(fsm), sizeof(reply->queues[0]));
    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        Ckpt__V1__QueueStatus *item = scratch_take(status->scratch, 1, sizeof(*item));
        struct fsm_queue queue;

        fsm_queue_at(fsm, i, &queue);
        ckpt__v1__queue_status__init(item);
        item->vcluster = translate_text(queue.vcluster);
        item->age_ms = age_ms(status->state_ms, queue.reported_at_ms);
        item->counted = item->age_ms <= max_age_ms;
        item->queued_gpu_ms = queue.queued_gpu_ms;
        item->running_gpu_ms = queue.running_gpu_ms;
        item->waiting_count = (uint32_t)queue.waiting_count;
        reply->queues[reply->n_queues++] = item;
        queued += item->counted ? (double)queue.queued_gpu_ms : 0;
        running += item->counted ? (double)queue.running_gpu_ms : 0;
        if (!item->counted && queue.queued_gpu_ms > 0)
            status_warn(status,
                        scratch_printf(status->scratch,
                                       "the queue of %s was reported %" PRIu64
                                       " s ago and is not counted any more (limit %" PRIu64
                                       " s): its scheduler should report it, also when it is empty",
                                       queue.vcluster, item->age_ms / 1000, max_age_ms / 1000));
    }
    reply->pressure_ppm = (uint32_t)(evaluator_pressure(queued, running) * 1e6);
}

/* Two histories of one cluster are alive: people must know before they believe either, and neither
 * knows which one is right. */
static void status_warn_incarnations(struct status *status)
{
    for (size_t i = 0; i < status->raft.foreign_count; i++) {
        const struct consensus_foreign *foreign = &status->raft.foreign[i];
        struct answer_member member = {"?", ""};
        const char *name;

        (void)answer_find_member(status->broker, foreign->id, &member);
        name = member.name;
        if (foreign->answers)
            status_warn(
                status,
                scratch_printf(status->scratch,
                               "member %s is of another incarnation of this cluster (at %s: "
                               "%016" PRIx64 ", here %016" PRIx64
                               ") and is refused: one of the two was restored or recovered "
                               "without the other; decide which history is right before anything "
                               "is stopped or moved (RUNBOOK, Two histories)",
                               name, foreign->address, foreign->incarnation,
                               status->raft.incarnation));
        else
            status_warn(status,
                        scratch_printf(
                            status->scratch,
                            "a copy of this cluster of another incarnation calls as member %s "
                            "(from %s, it says that it listens at %s: %016" PRIx64
                            ", here %016" PRIx64 ") and is refused; %s itself is not "
                            "concerned: stop the copy at that address, or keep it away from "
                            "this network (RUNBOOK, Two histories)",
                            name, foreign->from[0] != '\0' ? foreign->from : "?", foreign->address,
                            foreign->incarnation, status->raft.incarnation, name));
    }
}

/* From TLS_EXPIRY_WARN_S before the end on. */
static void status_warn_expiry(struct status *status, const char *what, int64_t expiry_s,
                               const char *next)
{
    int64_t left_s = expiry_s - (int64_t)(status->reply->now_ms / 1000);

    if (left_s < TLS_EXPIRY_WARN_S)
        status_warn(status, scratch_printf(status->scratch,
                                           "the %s of %s %s %" PRId64
                                           " days; connections are refused from then on: %s",
                                           what, status->broker->config->self->name,
                                           left_s < 0 ? "ended" : "ends in",
                                           (left_s < 0 ? -left_s : left_s) / 86400, next));
}

static void status_warn_tls(struct status *status)
{
    const struct broker_counters *counters = &status->broker->counters;

    if (counters->tls_expiry_s == 0)
        return;
    status_warn_expiry(status, "certificate", counters->tls_expiry_s,
                       scratch_printf(status->scratch,
                                      "ckptctl tls issue replica %" PRIu64 " --replace",
                                      status->broker->config->self->id));
    status_warn_expiry(status, "CA", counters->tls_ca_expiry_s, "ckptctl tls init in a new folder");
    if (counters->tls_reload_failed)
        status_warn(status, scratch_printf(status->scratch,
                                           "the certificate files of %s cannot be used, the old "
                                           "ones stay in use: see tls_reload_failed in its log",
                                           status->broker->config->self->name));
}

/* Agents obey the highest reign that they ever heard of (I25), so that a restore to an older epoch
 * is obeyed by nobody. */
static void status_warn_fence(struct status *status)
{
    const struct broker_counters *counters = &status->broker->counters;
    uint64_t epoch = status->summary.epoch;

    if (status->raft.role != CONSENSUS_LEADER || counters->fence_epoch < epoch ||
        (counters->fence_epoch == epoch && counters->fence_term <= status->raft.term))
        return;
    status_warn(
        status,
        scratch_printf(status->scratch,
                       "agents have obeyed epoch %" PRIu64 " term %" PRIu64
                       " and refuse this cluster (epoch %" PRIu64 " term %" PRIu64
                       "): it was restored from a file that had been restored before; restore it "
                       "again with --epoch %" PRIu64,
                       counters->fence_epoch, counters->fence_term, epoch, status->raft.term,
                       counters->fence_epoch + 1));
}

/* Only the leader writes backups, and only it knows that they fail. */
static void status_warn_backups(struct status *status)
{
    uint64_t since_ms;
    const char *why = backup_schedule_failure(status->broker->backup_schedule, &since_ms);

    if (why == NULL)
        return;
    if (since_ms == 0)
        status_warn(status, scratch_printf(status->scratch,
                                           "scheduled backups fail, none was written by %s yet: "
                                           "%.300s",
                                           status->broker->config->self->name, why));
    else
        status_warn(status, scratch_printf(status->scratch,
                                           "scheduled backups fail, the last good one is %" PRIu64
                                           " s old: %.300s",
                                           age_ms(status->reply->now_ms, since_ms) / 1000, why));
}

static void take_telemetry_warning(void *context, char *text)
{
    status_warn(context, text);
}

/* A name that is written wrong would be preferred silently by nobody. */
static void status_warn_preferred(struct status *status)
{
    const struct config *config = status->broker->config;
    const char *name = config->preferred_leader;

    if (name == NULL || name[0] == '\0' || strcmp(name, config->self->name) == 0 ||
        status->raft.member_role == CONSENSUS_NO_MEMBER)
        return;
    for (size_t i = 0; i < status->raft.peer_count; i++)
        if (strcmp(status->raft.peers[i].name, name) == 0)
            return;
    status_warn(status, scratch_printf(status->scratch,
                                       "preferred_leader %s is no member, so nobody is preferred: "
                                       "correct it in %s of %s (ckptctl member list has the names)",
                                       name, config->path, config->self->name));
}

/* Nothing on such nodes is checkpointed, and their silence ends no job. */
static void status_warn_nodes(struct status *status)
{
    const struct fsm *fsm = replica_fsm(status->broker->replica);
    const char *first = NULL;
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node == NULL || node->allocation_count == 0 || !nodes_unreported(node))
            continue;
        first = first == NULL ? node->id : first;
        count++;
    }
    if (count > 0)
        status_warn(status, scratch_printf(status->scratch,
                                           "%" PRIu32 " nodes have jobs, and no agent ever "
                                           "reported there (the first: %s): start ckpt-agentd "
                                           "there, or correct the name; nothing on them is "
                                           "checkpointed, and their failure is not noticed",
                                           count, first));
}

/* Off by more than STATE_CLOCK_OFF_MS for several looks. */
static void status_warn_clock(struct status *status)
{
    const struct broker *broker = status->broker;
    struct replica_clock clock;

    replica_clock_get(broker->replica, &clock);
    if (!clock.off)
        return;
    status_warn(
        status,
        scratch_printf(status->scratch,
                       "the clock of %s is %" PRIu64
                       " s %s the other members': it leads only while nobody else can; set "
                       "it right (chronyc tracking, or timedatectl, on its host)",
                       broker->config->self->name,
                       (uint64_t)(clock.offset_ms < 0 ? -clock.offset_ms : clock.offset_ms) / 1000,
                       clock.offset_ms < 0 ? "behind" : "ahead of"));
}

/* The machine under this member: disk, clock, certificates, processor. */
static void status_warn_self(struct status *status)
{
    uint64_t lag_ms;
    const struct broker *broker = status->broker;
    const struct consensus_status *raft = &status->raft;

    if (!raft->accepts_writes)
        status_warn(status,
                    scratch_printf(status->scratch,
                                   "the disk of %s is nearly full (%" PRIu64
                                   " MB free), %s: free space on the file system of %s",
                                   broker->config->self->name, raft->disk_free_bytes / 1000000,
                                   raft->role == CONSENSUS_LEADER ? "changes are refused"
                                                                  : "as leader it would refuse "
                                                                    "changes",
                                   broker->config->data_dir));
    if (raft->log_write_ms >= broker->config->election_ms)
        status_warn(status,
                    scratch_printf(status->scratch,
                                   "the disk of %s hangs, a write of the log has taken %" PRIu64
                                   " ms so far: look at the file system of %s and at dmesg",
                                   broker->config->self->name, raft->log_write_ms,
                                   broker->config->data_dir));
    if (!status->summary.initialised && raft->member_role != CONSENSUS_NO_MEMBER)
        status_warn(status, scratch_printf(status->scratch,
                                           "the cluster is not initialised yet: a majority of the "
                                           "members must run"));
    if (broker->config->insecure && !config_pages_guarded(broker->config))
        status_warn(status, scratch_printf(
                                status->scratch,
                                "%s of %s is insecure: everyone who reaches %s; restrict the "
                                "network%s",
                                broker->config->tls_ca[0] != '\0' ? "the HTTP port" : "the network",
                                broker->config->self->name,
                                broker->config->tls_ca[0] != '\0'
                                    ? "it reads the metrics"
                                    : "its addresses can command this cluster",
                                broker->config->tls_ca[0] != '\0' ? "" : ", or set tls"));
    status_warn_clock(status);
    status_warn_tls(status);
    lag_ms = process_loop_lag_ms(&broker->counters, uv_hrtime() / 1000000);
    if (lag_ms > 0)
        status_warn(status, scratch_printf(status->scratch,
                                           "the loop of %s was blocked for up to %" PRIu64
                                           " ms lately: give it a CPU and a disk of its own",
                                           broker->config->self->name, lag_ms));
}

/* ---- Status ---- */

/* This member's view of Raft; it need not be the leader's. */
static void status_fill_raft(struct status *status)
{
    const struct broker *broker = status->broker;
    struct answer_member leader = {"", ""};
    Ckpt__V1__StatusReply *reply = status->reply;
    struct replica_clock clock;

    replica_clock_get(broker->replica, &clock);
    reply->clock_offset_ms = clock.offset_ms;
    (void)answer_find_member(broker, status->raft.leader_id, &leader);
    reply->term = status->raft.term;
    reply->leader_id = status->raft.leader_id;
    reply->leader_name = translate_text(leader.name);
    reply->leader_api_address = translate_text(leader.api);
    reply->leader_since_ms = status->stats.leader_since_ms;
    reply->member_id = status->raft.member_id;
    reply->member_name = broker->config->self->name;
    reply->role = translate_text(translate_role(&status->raft));
    reply->quorum = status->raft.quorum;
    reply->commit_index = status->raft.commit_index;
    reply->applied_index = status->raft.applied_index;
    reply->last_commit_age_ms = status->stats.last_commit_age_ms;
}

static void status_fill_state(struct status *status)
{
    const struct fsm_summary *summary = &status->summary;
    Ckpt__V1__StatusReply *reply = status->reply;

    reply->cluster_id = status->broker->config->cluster_id;
    reply->epoch = summary->epoch;
    reply->incarnation = status->raft.incarnation;
    reply->state_hash = summary->state_hash;
    reply->allocation_count = summary->allocation_count;
    reply->running_count =
        summary->allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING] +
        summary->allocations_by_state
            [CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP];
    reply->starting_count =
        summary->allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING];
    for (unsigned state = 0; state < ARRAY_COUNT(summary->checkpoints_by_state); state++) {
        if (fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)state))
            reply->active_checkpoint_count += summary->checkpoints_by_state[state];
    }
    reply->paused_count =
        summary->checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED];
    if (summary->oldest_paused_since_ms != 0)
        reply->oldest_paused_age_ms = age_ms(status->state_ms, summary->oldest_paused_since_ms);
}

/* Any member answers, also without a leader: this is what is asked when nothing works. */
void status_answer(struct request *request, struct scratch *scratch)
{
    const struct broker *broker = request->broker;
    Ckpt__V1__StatusReply reply = CKPT__V1__STATUS_REPLY__INIT;
    struct status status = {.broker = broker, .scratch = scratch, .reply = &reply};
    char *lost;

    replica_get_status(broker->replica, &status.raft);
    replica_get_stats(broker->replica, &status.stats);
    fsm_get_summary(replica_fsm(broker->replica), &status.summary);
    reply.now_ms = broker_wall_ms(broker);
    status.state_ms = replica_state_ms(broker->replica);
    reply.version = translate_text(build_text);
    upgrade_fill_status(broker, scratch, &reply);
    reply.loop_lag_max_ms = broker->counters.loop_lag_max_ms;
    reply.certificate_expires_ms = (uint64_t)broker->counters.tls_expiry_s * 1000;
    reply.ca_expires_ms = (uint64_t)broker->counters.tls_ca_expiry_s * 1000;
    reply.warnings = scratch_take(scratch, STATUS_WARNINGS_MAX, sizeof(reply.warnings[0]));
    if ((lost = audit_status(broker, scratch, &reply)) != NULL)
        status_warn(&status, lost);
    status_fill_raft(&status);
    status_fill_state(&status);
    status_members(&status);
    reply.n_targets = status_targets(broker, scratch, &reply.targets);
    if ((lost = pause_status(broker, scratch, &reply)) != NULL)
        status_warn(&status, lost);
    if (status.raft.founding[0] != '\0')
        status_warn_founding(&status);
    else
        status_warn_members(&status);
    status_warn_learners(&status);
    status_warn_preferred(&status);
    status_warn_storage(&status);
    status_warn_damaged(&status, &request->broker->damaged);
    if (status.summary.hung_count > 0)
        status_warn(&status, nodes_hung_warning(status.summary.hung_count, scratch));
    status_warn_tenants(&status);
    status_warn_undeleted(&status);
    status_warn_nodes(&status);
    if ((lost = dispatcher_twin_warning(broker->dispatcher, scratch)) != NULL)
        status_warn(&status, lost);
    if ((lost = nodes_status(broker, scratch, &reply)) != NULL)
        status_warn(&status, lost);
    status_queues(&status);
    status_warn_incarnations(&status);
    status_warn_fence(&status);
    status_warn_backups(&status);
    telemetry_warnings(broker->telemetry, scratch, take_telemetry_warning, &status);
    status_warn_self(&status);
    answer_reply(request->call, &reply.base);
}

/* ---- DebugCheck ---- */

struct violations {
    Ckpt__V1__DebugCheckReply *reply;
    struct scratch *scratch;
};

/* The first ones are enough to find the cause. */
static void take_violation(void *context, const char *text)
{
    struct violations *violations = context;
    Ckpt__V1__DebugCheckReply *reply = violations->reply;

    if (reply->n_violations < STATUS_VIOLATIONS_MAX)
        reply->violations[reply->n_violations++] = scratch_printf(violations->scratch, "%s", text);
}

/* Looks at the whole state in one go, which may hold the loop for long: the lag that follows is
 * excused. */
void status_debug_check(struct request *request, struct scratch *scratch)
{
    struct broker *broker = request->broker;
    const struct fsm *fsm = replica_fsm(broker->replica);
    Ckpt__V1__DebugCheckReply reply = CKPT__V1__DEBUG_CHECK_REPLY__INIT;
    struct violations violations = {&reply, scratch};
    struct replica_hash *hashes = scratch_take(scratch, REPLICA_HASHES, sizeof(*hashes));
    Ckpt__V1__HashAt *history;
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    reply.member_id = broker->config->self->id;
    reply.applied_index = summary.applied_index;
    reply.state_hash = summary.state_hash;
    reply.violations = scratch_take(scratch, STATUS_VIOLATIONS_MAX, sizeof(reply.violations[0]));
    broker->counters.loop_lag_excused = true;
    reply.invariants_checked = fsm_check(fsm, take_violation, &violations);
    reply.n_history = replica_hashes(broker->replica, hashes, REPLICA_HASHES);
    history = scratch_take(scratch, reply.n_history, sizeof(*history));
    reply.history = scratch_take(scratch, reply.n_history, sizeof(reply.history[0]));
    for (size_t i = 0; i < reply.n_history; i++) {
        ckpt__v1__hash_at__init(&history[i]);
        history[i].index = hashes[i].index;
        history[i].hash = hashes[i].hash;
        reply.history[i] = &history[i];
    }
    answer_reply(request->call, &reply.base);
}
