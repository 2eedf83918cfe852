/* What is read of state and replica when metrics are asked for, and what the leader counts of
 * events. See metrics_state.h. Gauges are set from the state of the moment; counters of the leader
 * follow the events of the state, from where the last look ended. */
#include "src/broker/daemon/metrics_state.h"

#include <stdio.h>
#include <string.h>

#include "fsm/audit.h"
#include "fsm/drill.h"
#include "fsm/names.h"
#include "fsm/node_life.h"
#include "fsm/pause.h"
#include "fsm/quota.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/daemon/metrics_model.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/telemetry.h"
#include "src/broker/keep/accounting.h"
#include "src/broker/keep/audit_trail.h"
#include "src/broker/keep/scanner.h"

/* ---- events of the leader ---- */

static double seconds_between(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1e3 : 0;
}

/* Of its size, what an earlier checkpoint had already, as the agents reported it with each part. */
static uint64_t saved_bytes(const struct fsm_checkpoint *checkpoint)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        if (shard->size_bytes > shard->written_bytes)
            sum += shard->size_bytes - shard->written_bytes;
    }
    return sum;
}

/* The duration is from the dispatch that succeeded, the time of a victim from the request. */
static void checkpoint_complete(struct metrics *metrics, const struct fsm_checkpoint *checkpoint,
                                uint64_t at_ms)
{
    double seconds = seconds_between(checkpoint->dispatched_at_ms, at_ms);

    metrics_observe(metrics, METRIC_CHECKPOINT_DURATION, seconds);
    metrics_observe(metrics, METRIC_L_DURATION, seconds);
    metrics_observe(metrics, METRIC_CHECKPOINT_SIZE, (double)checkpoint->size_bytes);
    metrics_add(metrics, METRIC_CHECKPOINT_SAVED, NULL, NULL, (double)saved_bytes(checkpoint));
    if (checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT)
        metrics_observe(metrics, METRIC_L_PREEMPTION_DURATION,
                        seconds_between(checkpoint->created_at_ms, at_ms));
}

static void checkpoint_failed(struct metrics *metrics, const struct fsm_checkpoint *checkpoint,
                              Ckpt__V1__Reason reason)
{
    char word[FSM_WORD_BYTES];

    metrics_add(metrics, METRIC_L_FAILURES, fsm_reason_word(reason, word), NULL, 1);
    if (reason != CKPT__V1__REASON__REASON_NODE_DOWN) /* the hazard's, not the checkpoint's */
        metrics_model_ended(metrics, checkpoint, false);
}

/* An attempt failed, and another one is to come. */
static bool attempt_failed(const Ckpt__V1__Event *event)
{
    return event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED &&
           (event->old_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED ||
            event->old_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING);
}

/* A checkpoint that began to be written, or came to an end. */
static void checkpoint_event(struct metrics *metrics, const struct fsm *fsm,
                             const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    Ckpt__V1__CheckpointState state = (Ckpt__V1__CheckpointState)event->new_state;
    char result[FSM_WORD_BYTES], purpose[FSM_WORD_BYTES];

    if (checkpoint == NULL || state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COLLECTED)
        return;
    if (state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING)
        metrics_observe(metrics, METRIC_HINT_ACK,
                        seconds_between(checkpoint->dispatched_at_ms, event->at_ms));
    if (attempt_failed(event))
        metrics_add(metrics, METRIC_ATTEMPTS_FAILED, fsm_reason_word(event->reason, result), NULL,
                    1);
    if (fsm_checkpoint_state_active(state))
        return;
    fsm_enum_word(&ckpt__v1__checkpoint_state__descriptor, (int)state, result);
    metrics_add(metrics, METRIC_HINTS, fsm_purpose_word(checkpoint->purpose, purpose), result, 1);
    metrics_add(metrics, METRIC_L_OPERATIONS, result, NULL, 1);
    if (state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE) {
        checkpoint_complete(metrics, checkpoint, event->at_ms);
        metrics_model_ended(metrics, checkpoint, true);
        return;
    }
    if (state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED ||
        state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_TIMED_OUT)
        checkpoint_failed(metrics, checkpoint, event->reason);
    if (checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT)
        metrics_add(metrics, METRIC_L_PREEMPTION_FAILED, NULL, NULL, 1);
}

/* Stopped for others, with a checkpoint or without one. */
static bool stopped_by_preemption(const Ckpt__V1__Event *event)
{
    return event->reason == CKPT__V1__REASON__REASON_PREEMPTED ||
           event->reason == CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT;
}

static void allocation_event(struct metrics *metrics, const Ckpt__V1__Event *event)
{
    bool goes_on = event->new_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED ||
                   event->new_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED;

    if (goes_on && stopped_by_preemption(event))
        metrics_add(metrics, METRIC_L_PREEMPTION_REQUEUE, NULL, NULL, 1);
}

/* One event per victim. */
static void preemption_event(struct metrics *metrics, const struct fsm *fsm,
                             const Ckpt__V1__Event *event)
{
    const int reason = event->new_state != 0
                           ? (int)event->new_state
                           : (int)CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_PRIORITY;
    char word[FSM_WORD_BYTES];
    const struct fsm_allocation *victim = fsm_allocation_find(fsm, event->allocation_id);

    if (victim == NULL)
        return;
    metrics_add(metrics, METRIC_L_PREEMPTIONS, victim->vcluster,
                fsm_enum_word(&ckpt__v1__preemption_reason__descriptor, reason, word), 1);
}

static void preemption_ended(struct metrics *metrics, const struct fsm *fsm,
                             const Ckpt__V1__Event *event)
{
    const struct fsm_preemption *preemption = fsm_preemption_next(fsm, event->number - 1);
    bool released = event->new_state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED;

    metrics_add(metrics, METRIC_PREEMPTIONS_ENDED, released ? "released" : "expired", NULL, 1);
    if (released && preemption != NULL && preemption->id == event->number)
        metrics_observe(metrics, METRIC_PREEMPTION_RELEASE,
                        seconds_between(preemption->asked_at_ms, event->at_ms));
}

static void deleted_event(struct metrics *metrics, const Ckpt__V1__Event *event)
{
    metrics_add(metrics, METRIC_DELETED, event->subject, NULL, 1);
    metrics_add(metrics, METRIC_DELETED_BYTES, event->subject, NULL, (double)event->number);
}

/* From the event after the cursor on. Events that are gone by then are not counted: the state keeps
 * the last ones only. */
void metrics_state_events(struct metrics *metrics, const struct broker *broker, uint64_t *cursor)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const Ckpt__V1__Event *event;
    bool gap;

    while ((event = fsm_event_after(fsm, *cursor, &gap)) != NULL) {
        *cursor = event->sequence;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE)
            checkpoint_event(metrics, fsm, event);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE)
            allocation_event(metrics, event);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION)
            preemption_event(metrics, fsm, event);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION_STATE)
            preemption_ended(metrics, fsm, event);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DELETED)
            deleted_event(metrics, event);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED)
            metrics_add(metrics, METRIC_POINTS_DAMAGED, NULL, NULL, 1);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED)
            metrics_add(metrics, METRIC_DISCARDED, NULL, NULL, 1);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_FAILOVER &&
                 event->new_state == 1)
            metrics_add(metrics, METRIC_FAILOVERS, event->subject, NULL, 1);
        else if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE &&
                 (event->new_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST ||
                  (event->new_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN &&
                   event->old_state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST)))
            metrics_add(metrics, METRIC_NODE_FAILURES, NULL, NULL, 1);
    }
}

/* ---- at each exposition ---- */

static void set_value(struct metrics *metrics, enum metric metric, double value)
{
    metrics_set(metrics, metric, NULL, NULL, value);
}

/* The replica counts in buckets of its own; they are handed on as a histogram. */
static void read_commits(struct metrics *metrics, const struct broker *broker)
{
    double uppers[REPLICA_LATENCY_BUCKETS];
    struct replica_stats stats;

    replica_get_stats(broker->replica, &stats);
    for (int i = 0; i < REPLICA_LATENCY_BUCKETS; i++)
        uppers[i] = (double)(UINT64_C(1) << i) / 1e6;
    metrics_replace(metrics, METRIC_RAFT_COMMIT, uppers, stats.commit_us, REPLICA_LATENCY_BUCKETS,
                    (double)stats.commit_us_total / 1e6);
    metrics_replace(metrics, METRIC_L_COMMIT, uppers, stats.commit_us, REPLICA_LATENCY_BUCKETS,
                    (double)stats.commit_us_total / 1e6);
}

/* Only a leader knows how far the others are. */
static void read_peers(struct metrics *metrics, const struct broker *broker,
                       const struct consensus_status *status)
{
    char member[32];

    metrics_clear(metrics, METRIC_RAFT_PEER_UP);
    metrics_clear(metrics, METRIC_RAFT_PEER_LAG);
    for (size_t i = 0; i < status->peer_count; i++) {
        const struct consensus_peer_status *peer = &status->peers[i];

        if (peer->id == status->member_id)
            continue;
        snprintf(member, sizeof(member), "%llu", (unsigned long long)peer->id);
        metrics_set(metrics, METRIC_RAFT_PEER_UP, member, NULL,
                    broker_peer_reachable(broker, status, peer));
        metrics_set(metrics, METRIC_RAFT_PEER_LAG, member, NULL,
                    status->role == CONSENSUS_LEADER && status->last_index > peer->match_index
                        ? (double)(status->last_index - peer->match_index)
                        : 0);
    }
}

static void read_raft(struct metrics *metrics, const struct broker *broker)
{
    bool leads = replica_serving(broker->replica);
    struct consensus_status status;

    replica_get_status(broker->replica, &status);
    set_value(metrics, METRIC_RAFT_IS_LEADER, leads);
    set_value(metrics, METRIC_L_LEADER, leads);
    set_value(metrics, METRIC_RAFT_HAS_LEADER, status.leader_id != 0 && status.quorum);
    set_value(metrics, METRIC_RAFT_TERM, (double)status.term);
    set_value(metrics, METRIC_RAFT_VOTERS, (double)status.voter_count);
    set_value(metrics, METRIC_RAFT_LEARNERS, (double)status.learner_count);
    set_value(metrics, METRIC_RAFT_COMMIT_INDEX, (double)status.commit_index);
    set_value(metrics, METRIC_RAFT_APPLIED_INDEX, (double)status.applied_index);
    set_value(metrics, METRIC_RAFT_LEADER_CHANGES, (double)status.leader_changes_total);
    set_value(metrics, METRIC_RAFT_PENDING, (double)status.proposals_in_flight);
    set_value(metrics, METRIC_RAFT_WAITING, (double)replica_waiting(broker->replica));
    set_value(metrics, METRIC_RAFT_FSYNCS, (double)status.fsync_count);
    set_value(metrics, METRIC_RAFT_FSYNC_SECONDS, (double)status.fsync_us_total / 1e6);
    set_value(metrics, METRIC_RAFT_FSYNC_MAX, (double)status.fsync_us_max / 1e6);
    set_value(metrics, METRIC_RAFT_SNAPSHOT_BYTES, (double)status.snapshot_bytes);
    set_value(metrics, METRIC_RAFT_SNAPSHOTS, (double)status.snapshot_count);
    set_value(metrics, METRIC_RAFT_SNAPSHOT_FAILURES, (double)status.snapshot_failures_total);
    set_value(metrics, METRIC_RAFT_SNAPSHOT_UNREADABLE, (double)status.snapshot_unreadable_total);
    set_value(metrics, METRIC_RAFT_SNAPSHOT, (double)status.snapshot_ms_last / 1e3);
    set_value(metrics, METRIC_L_SNAPSHOT, (double)status.snapshot_ms_last / 1e3);
    set_value(metrics, METRIC_RAFT_LOG_BYTES, (double)status.log_bytes);
    set_value(metrics, METRIC_L_ENTRIES, (double)(status.last_index - status.snapshot_index));
    set_value(metrics, METRIC_DISK_FREE, (double)status.disk_free_bytes);
    set_value(metrics, METRIC_DISK_TOTAL, (double)status.disk_total_bytes);
    set_value(metrics, METRIC_DISK_ACCEPTS, status.accepts_writes);
    set_value(metrics, METRIC_RAFT_FOUNDING, status.founding[0] != '\0');
    set_value(metrics, METRIC_RAFT_FOREIGN, (double)status.foreign_count);
    read_peers(metrics, broker, &status);
    read_commits(metrics, broker);
}

/* Every state has a series, also at 0: a rule over a missing series is silent. */
static void read_checkpoint_states(struct metrics *metrics, const struct fsm_summary *summary)
{
    const ProtobufCEnumDescriptor *type = &ckpt__v1__checkpoint_state__descriptor;
    char name[FSM_WORD_BYTES];

    for (int state = 1; state < (int)type->n_values; state++) {
        fsm_enum_word(type, state, name);
        metrics_set(metrics, METRIC_STATE_CHECKPOINTS, name, NULL,
                    summary->checkpoints_by_state[state]);
        metrics_set(metrics, METRIC_ENTERED, name, NULL, (double)summary->checkpoints_total[state]);
    }
}

static void read_summary(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    struct fsm_summary summary;
    const ProtobufCEnumDescriptor *type = &ckpt__v1__allocation_state__descriptor;
    char name[FSM_WORD_BYTES];

    fsm_get_summary(fsm, &summary);
    metrics_add(metrics, METRIC_ATTEMPTS_FAILED,
                fsm_reason_word(CKPT__V1__REASON__REASON_RANKS_MISSING, name), NULL, 0);
    for (int state = 1; state < (int)type->n_values; state++) {
        fsm_enum_word(type, state, name);
        metrics_set(metrics, METRIC_STATE_ALLOCATIONS, name, NULL,
                    summary.allocations_by_state[state]);
    }
    read_checkpoint_states(metrics, &summary);
    set_value(metrics, METRIC_PAUSED,
              summary.checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED]);
    set_value(
        metrics, METRIC_OLDEST_PAUSED,
        summary.oldest_paused_since_ms == 0
            ? 0
            : seconds_between(summary.oldest_paused_since_ms, replica_state_ms(broker->replica)));
    set_value(metrics, METRIC_REQUEST_IDS, summary.past_request_count);
    set_value(metrics, METRIC_EVENTS_SEQUENCE,
              summary.next_event_sequence > 0 ? (double)(summary.next_event_sequence - 1) : 0);
    metrics_set(metrics, METRIC_REPORTS_REJECTED, "refused", NULL,
                (double)summary.rejected_reports);
    metrics_set(metrics, METRIC_REPORTS_REJECTED, "duplicate", NULL,
                (double)summary.duplicate_reports);
    metrics_set(metrics, METRIC_REPORTS_REJECTED, "earlier_run", NULL,
                (double)summary.earlier_run_reports);
    set_value(metrics, METRIC_DECISIONS_SKIPPED, (double)summary.skipped_decisions);
    set_value(metrics, METRIC_L_WALLTIME, (double)summary.walltime_conflicts);
    set_value(metrics, METRIC_CLUSTER_PAUSED, fsm_pause(replica_fsm(broker->replica)) != NULL);
    set_value(metrics, METRIC_HUNG, summary.hung_count);
    set_value(metrics, METRIC_REQUEUES, (double)summary.requeues_total);
    metrics_set(metrics, METRIC_RELEASES_VERIFIED, "verified", NULL,
                (double)summary.released_verified_total);
    metrics_set(metrics, METRIC_RELEASES_VERIFIED, "unverified", NULL,
                (double)summary.released_unverified_total);
    metrics_set(metrics, METRIC_VERIFICATIONS, "whole", NULL, (double)summary.verified_total);
    metrics_set(metrics, METRIC_VERIFICATIONS, "unreadable", NULL,
                (double)summary.unreadable_total);
    set_value(metrics, METRIC_MALFORMED, (double)summary.malformed_entries);
}

/* Where its checkpoints go, and what keeps it from being removed. */
static void set_drain(struct metrics *metrics, const struct fsm *fsm,
                      const struct fsm_target *target)
{
    metrics_set(metrics, METRIC_DESTINATION_DRAINING, target->id, NULL, target->draining);
    metrics_set(metrics, METRIC_DESTINATION_RECORDS, target->id, NULL,
                fsm_target_records(fsm, target->slot));
    if (target->failed_over)
        metrics_set(metrics, METRIC_DESTINATION_FAILED_OVER, target->id, target->failover_target_id,
                    1);
}

/* Who reads and writes there, and who waits to. */
static void set_lines(struct metrics *metrics, const struct broker *broker,
                      const struct fsm_target *target)
{
    Ckpt__V1__TargetStatus queue = CKPT__V1__TARGET_STATUS__INIT;

    metrics_set(metrics, METRIC_RESTORES, target->id, "reading", target->reading_count);
    metrics_set(metrics, METRIC_RESTORES, target->id, "waiting", target->waiting_count);
    metrics_set(metrics, METRIC_WRITES, target->id, "writing", target->writing_count);
    dispatcher_fill_queue(broker->dispatcher, target->slot, &queue);
    if (replica_serving(broker->replica))
        metrics_set(metrics, METRIC_WRITES, target->id, "waiting", queue.waiting_count);
}

/* Series of targets that were removed are cleared first. */
static void read_targets(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    bool any_down = false;
    char word[FSM_WORD_BYTES];

    metrics_clear(metrics, METRIC_DESTINATION_UP);
    metrics_clear(metrics, METRIC_DESTINATION_OUTAGE);
    metrics_clear(metrics, METRIC_DESTINATION_RATE);
    metrics_clear(metrics, METRIC_DESTINATION_MEASURED);
    metrics_clear(metrics, METRIC_GRANTED_RATIO);
    metrics_clear(metrics, METRIC_DESTINATION_DRAINING);
    metrics_clear(metrics, METRIC_DESTINATION_RECORDS);
    metrics_clear(metrics, METRIC_DESTINATION_FAILED_OVER);
    metrics_clear(metrics, METRIC_RESTORES);
    metrics_clear(metrics, METRIC_WRITES);
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target == NULL)
            continue;
        any_down |= !target->available;
        metrics_set(metrics, METRIC_DESTINATION_UP, target->id, NULL, target->available);
        if (!target->available)
            metrics_set(metrics, METRIC_DESTINATION_OUTAGE, target->id,
                        fsm_enum_word(&ckpt__v1__reason__descriptor, (int)target->reason, word), 1);
        metrics_set(metrics, METRIC_DESTINATION_RATE, target->id, NULL,
                    (double)target->budget_bytes_per_s);
        if (target->measured_bytes_per_s > 0)
            metrics_set(metrics, METRIC_DESTINATION_MEASURED, target->id, NULL,
                        (double)target->measured_bytes_per_s);
        metrics_set(metrics, METRIC_GRANTED_RATIO, target->id, NULL,
                    target->budget_bytes_per_s == 0
                        ? 0
                        : (double)target->granted_bytes_per_s / (double)target->budget_bytes_per_s);
        set_drain(metrics, fsm, target);
        set_lines(metrics, broker, target);
    }
    set_value(metrics, METRIC_L_STORAGE, any_down);
}

/* Only the leader has looked. */
static void read_orphans(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);

    metrics_clear(metrics, METRIC_ORPHANS);
    metrics_clear(metrics, METRIC_ORPHAN_BYTES);
    metrics_clear(metrics, METRIC_ORPHAN_SCAN_AT);
    for (uint32_t slot = 0; broker->scanner != NULL && slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        const struct orphan_scan *ended;
        uint64_t count, bytes;
        bool running;

        if (target == NULL)
            continue;
        ended = scanner_ended(broker->scanner, slot, &running);
        if (ended->ended_at_ms == 0)
            continue;
        scanner_count(broker->scanner, slot, &count, &bytes);
        metrics_set(metrics, METRIC_ORPHANS, target->id, NULL, (double)count);
        metrics_set(metrics, METRIC_ORPHAN_BYTES, target->id, NULL, (double)bytes);
        metrics_set(metrics, METRIC_ORPHAN_SCAN_AT, target->id, NULL,
                    (double)ended->ended_at_ms / 1000);
    }
}

static void read_undeleted(struct metrics *metrics, const struct broker *broker)
{
    struct fsm_undeleted_sum sum;

    fsm_undeleted_sum(replica_fsm(broker->replica), &sum);
    set_value(metrics, METRIC_UNDELETED, (double)sum.count);
    set_value(metrics, METRIC_UNDELETED_BYTES, (double)sum.bytes);
    set_value(metrics, METRIC_UNDELETED_OLDEST,
              sum.oldest == NULL ? 0
                                 : seconds_between(sum.oldest->since_ms, broker_wall_ms(broker)));
    set_value(metrics, METRIC_UNDELETED_FORGOTTEN, (double)sum.forgotten);
}

/* Of those that have a limit: a series for each of a thousand tenants would be of no use. */
static void read_quotas(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    uint64_t now_ms = replica_state_ms(broker->replica);
    struct fsm_quota quota;
    const char *tenant;

    metrics_clear(metrics, METRIC_TENANT_BYTES);
    metrics_clear(metrics, METRIC_TENANT_REFUSED);
    for (uint32_t i = 0; (tenant = fsm_tenant_quota(fsm, i, &quota)) != NULL; i++) {
        if (quota.max_bytes == 0)
            continue;
        metrics_set(metrics, METRIC_TENANT_BYTES, tenant, "stored", (double)quota.stored_bytes);
        metrics_set(metrics, METRIC_TENANT_BYTES, tenant, "leaving", (double)quota.leaving_bytes);
        metrics_set(metrics, METRIC_TENANT_BYTES, tenant, "running", (double)quota.running_bytes);
        metrics_set(metrics, METRIC_TENANT_BYTES, tenant, "limit", (double)quota.max_bytes);
        metrics_set(metrics, METRIC_TENANT_REFUSED, tenant, NULL,
                    fsm_quota_wanted(&quota, now_ms) > 0);
    }
}

static void read_account(struct metrics *metrics, const struct broker *broker)
{
    struct fsm_account account;

    fsm_cluster_account(replica_fsm(broker->replica), replica_state_ms(broker->replica), &account);
    set_value(metrics, METRIC_GPU_HELD, (double)account.held_gpu_ms / 1e3);
    set_value(metrics, METRIC_GPU_USEFUL, (double)account.useful_gpu_ms / 1e3);
    set_value(metrics, METRIC_GPU_PENDING, (double)account.pending_gpu_ms / 1e3);
    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++)
        metrics_set(metrics, METRIC_GPU_LOST, fsm_loss_name((enum fsm_loss)cause), NULL,
                    (double)account.lost_gpu_ms[cause] / 1e3);
}

/* Series by state; a node that no agent ever reported counts as unknown. */
static void read_nodes(struct metrics *metrics, const struct fsm *fsm)
{
    const ProtobufCEnumDescriptor *type = &ckpt__log__v1__node_state__descriptor;
    uint32_t counts[FSM_STATES_NODE] = {0};
    char name[FSM_WORD_BYTES];

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node != NULL && (unsigned)node->state < ARRAY_COUNT(counts))
            counts[node->state]++;
    }
    metrics_set(metrics, METRIC_NODES, "unknown", NULL, counts[0]);
    for (size_t state = 1; state < ARRAY_COUNT(counts); state++)
        metrics_set(metrics, METRIC_NODES, fsm_enum_word(type, (int)state, name), NULL,
                    counts[state]);
}

static void read_rpc(struct metrics *metrics, const struct broker *broker)
{
    struct rpc_server_stats stats;

    if (broker->rpc == NULL)
        return;
    rpc_server_get_stats(broker->rpc, &stats);
    set_value(metrics, METRIC_RPC_CONNECTIONS, (double)stats.connections);
    set_value(metrics, METRIC_RPC_STALLED, (double)stats.stalled_total);
    for (int code = 0; code < (int)ARRAY_COUNT(stats.by_status); code++) {
        if (stats.by_status[code] > 0)
            metrics_set(metrics, METRIC_RPC_CALLS, rpc_status_name(code), NULL,
                        (double)stats.by_status[code]);
    }
}

/* Also at 0: a rate over a series that begins with its first count would miss that one, and limits
 * are told by these. */
static bool is_limit(const char *status_name)
{
    static const char ending[] = "_FULL";
    size_t length = strlen(status_name);

    return length >= strlen(ending) && strcmp(status_name + length - strlen(ending), ending) == 0;
}

/* What the parts counted since the start (struct broker_counters). */
static void read_counters(struct metrics *metrics, const struct broker *broker)
{
    const struct broker_counters *counters = &broker->counters;
    struct replica_clock clock;

    replica_clock_get(broker->replica, &clock);
    set_value(metrics, METRIC_CLOCK_OFFSET, (double)clock.offset_ms / 1e3);
    metrics_set(metrics, METRIC_BUILD_INFO, build_text, NULL, 1);
    set_value(metrics, METRIC_START_TIME, (double)counters->started_at_ms / 1e3);
    set_value(metrics, METRIC_LOOP_LAG, (double)counters->loop_lag_max_ms / 1e3);
    set_value(metrics, METRIC_LOOP_LAG_CPU, (double)counters->loop_lag_cpu_max_ms / 1e3);
    set_value(metrics, METRIC_MUTATIONS, (double)counters->mutations_total);
    set_value(metrics, METRIC_NOT_LEADER, (double)counters->not_leader_total);
    set_value(metrics, METRIC_RATE_LIMITED, (double)counters->rate_limited_total);
    set_value(metrics, METRIC_AGENT_TWINS, (double)counters->agent_twins_total);
    set_value(metrics, METRIC_PUSHED_BACK, (double)counters->full_total);
    CHECK(fsm_status_count() <= BROKER_OUTCOMES_MAX);
    for (size_t status = 0; status < fsm_status_count(); status++) {
        const char *name = fsm_status_name((enum fsm_status)status);

        if (counters->outcomes_total[status] > 0 || is_limit(name))
            metrics_set(metrics, METRIC_OUTCOMES, name, NULL,
                        (double)counters->outcomes_total[status]);
    }
}

static void read_accounting(struct metrics *metrics, const struct broker *broker)
{
    struct accounting_counts counts;

    if (broker->accounting == NULL)
        return;
    counts = accounting_counts(broker->accounting);
    metrics_set(metrics, METRIC_ACCOUNTING, "written", NULL, (double)counts.written);
    metrics_set(metrics, METRIC_ACCOUNTING, "lost", NULL, (double)counts.lost);
    metrics_set(metrics, METRIC_ACCOUNTING, "removed", NULL, (double)counts.removed);
    set_value(metrics, METRIC_ACCOUNTING_GAPS, (double)counts.gaps);
    set_value(metrics, METRIC_ACCOUNTING_FAILING, counts.failing);
    set_value(metrics, METRIC_ACCOUNTING_WAITING, (double)counts.waiting);
}

static void read_drills(struct metrics *metrics, const struct fsm *fsm)
{
    set_value(metrics, METRIC_DRILL_PASSED, (double)fsm_drill_passed_ms(fsm) / 1e3);
    set_value(metrics, METRIC_DRILL_MAX_AGE, (double)fsm_policy(fsm)->drill_max_age_ms / 1e3);
    set_value(metrics, METRIC_DRILL_OPEN, fsm_drill_open(fsm) != NULL);
}

static void read_audit(struct metrics *metrics, const struct broker *broker)
{
    struct audit_trail_counts counts;
    struct fsm_audit audit;

    if (broker->audit_trail == NULL)
        return;
    counts = audit_trail_counts(broker->audit_trail);
    fsm_get_audit(replica_fsm(broker->replica), &audit);
    metrics_set(metrics, METRIC_AUDIT_RECORDS, "written", NULL, (double)counts.written);
    metrics_set(metrics, METRIC_AUDIT_RECORDS, "missed", NULL, (double)counts.missed);
    metrics_set(metrics, METRIC_AUDIT_RECORDS, "lost", NULL, (double)audit.lost);
    set_value(metrics, METRIC_AUDIT_FAILING, counts.failing);
    set_value(metrics, METRIC_AUDIT_CHANGED, counts.changed);
}

/* Called for each exposition, on the loop: it looks at summaries, never at all jobs. */
void metrics_state_read(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);

    read_raft(metrics, broker);
    read_summary(metrics, broker);
    read_targets(metrics, broker);
    read_undeleted(metrics, broker);
    read_quotas(metrics, broker);
    read_orphans(metrics, broker);
    read_nodes(metrics, fsm);
    read_drills(metrics, fsm);
    metrics_model_read(metrics, broker);
    read_account(metrics, broker);
    read_accounting(metrics, broker);
    read_audit(metrics, broker);
    read_rpc(metrics, broker);
    read_counters(metrics, broker);
    telemetry_read_metrics(broker->telemetry, metrics);
    set_value(metrics, METRIC_AGENTS, (double)dispatcher_connected_count(broker->dispatcher));
    set_value(metrics, METRIC_EVALUATION_LAST,
              (double)evaluator_last_cycle_ms(broker->evaluator) / 1e3);
    set_value(metrics, METRIC_EVALUATION_INTERVAL,
              (double)fsm_policy(fsm)->evaluation_interval_ms / 1e3);
}
