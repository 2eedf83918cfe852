/* The metrics of ckptd: the table.
 *
 * Flow     parts of the broker call metrics_add / _set / _observe with an id of the table; what is
 *          read from the state and from raft is set when the text is asked for (metrics_state.c).
 * Shapes   see src/serve/metrics.h. Label values come from fixed sets (states, reasons, targets,
 *          vClusters), never from jobs.
 * Units    base units as in the names: seconds, bytes, ratios 0..1. Gauges are the same on every
 *          member (the state is replicated); counters count what the leader did, so sums over
 *          members are right. ckpt_checkpoints_entered_total is exact.
 * Absent   per-job labels.
 * Source   U14, P-080, F-014, T-004, T-006, S1-070.
 */
#ifndef CKPT_BROKER_METRICS_H
#define CKPT_BROKER_METRICS_H

#include "src/serve/metrics.h"

struct broker;

/* clang-format off */
/* id, kind, name, label names (up to two), help. SECONDS, BYTES and RATIO are histograms with fixed
 * bounds. */
#define METRICS(X)                                                                                 \
    /* The process and Raft. What is "known here" is this member's own view: the leader's log      \
     * may be ahead of it. */                                                                      \
    X(BUILD_INFO, GAUGE, "ckpt_build_info", "version", NULL, "Always 1; the version is a label.")  \
    X(START_TIME, GAUGE, "ckpt_start_time_seconds", NULL, NULL,                                    \
      "Unix time at which the process started.")                                                   \
    X(RAFT_IS_LEADER, GAUGE, "ckpt_raft_is_leader", NULL, NULL, "1 on the member that leads.")     \
    X(RAFT_HAS_LEADER, GAUGE, "ckpt_raft_has_leader", NULL, NULL,                                  \
      "1 when this member knows a leader and is in contact with a majority.")                      \
    X(RAFT_FOUNDING, GAUGE, "ckpt_raft_founding", NULL, NULL,                                      \
      "1 on a member whose first start waits for the other founders.")                             \
    X(RAFT_TERM, GAUGE, "ckpt_raft_term", NULL, NULL, "Current term.")                             \
    X(RAFT_COMMIT_INDEX, GAUGE, "ckpt_raft_commit_index", NULL, NULL,                              \
      "Highest committed log index known here.")                                                   \
    X(RAFT_APPLIED_INDEX, GAUGE, "ckpt_raft_applied_index", NULL, NULL,                            \
      "Highest applied log index.")                                                                \
    X(RAFT_LEADER_CHANGES, COUNTER, "ckpt_raft_leader_changes_total", NULL, NULL,                  \
      "Changes of the leader seen by this member.")                                                \
    X(RAFT_PENDING, GAUGE, "ckpt_raft_proposals_pending", NULL, NULL,                              \
      "Log entries proposed here that wait for their commit.")                                     \
    X(RAFT_WAITING, GAUGE, "ckpt_raft_commands_waiting", NULL, NULL,                               \
      "Commands proposed here that wait for their outcome.")                                       \
    X(RAFT_COMMIT, SECONDS, "ckpt_raft_commit_duration_seconds", NULL, NULL,                       \
      "From proposal to applied, of log entries proposed by this member.")                         \
    X(RAFT_FSYNC_SECONDS, COUNTER, "ckpt_raft_wal_fsync_seconds_total", NULL, NULL,                \
      "Time spent in fdatasync of the log.")                                                       \
    X(RAFT_FSYNCS, COUNTER, "ckpt_raft_wal_fsyncs_total", NULL, NULL,                              \
      "Calls of fdatasync of the log.")                                                            \
    X(RAFT_FSYNC_MAX, GAUGE, "ckpt_raft_wal_fsync_max_seconds", NULL, NULL,                        \
      "Longest fdatasync of the log since the start.")                                             \
    X(RAFT_SNAPSHOT, GAUGE, "ckpt_raft_snapshot_duration_seconds", NULL, NULL,                     \
      "Duration of the last snapshot written here.")                                               \
    X(RAFT_SNAPSHOT_BYTES, GAUGE, "ckpt_raft_snapshot_size_bytes", NULL, NULL,                     \
      "Content of the newest snapshot here, before compression; 0: there is none.")                \
    X(RAFT_SNAPSHOTS, COUNTER, "ckpt_raft_snapshots_total", NULL, NULL,                            \
      "Snapshots written or installed here.")                                                      \
    X(RAFT_SNAPSHOT_FAILURES, COUNTER, "ckpt_raft_snapshot_failures_total", NULL, NULL,            \
      "Own snapshots that could not be written; each is tried again, and the log grows "           \
      "meanwhile.")                                                                                \
    X(RAFT_SNAPSHOT_UNREADABLE, COUNTER, "ckpt_raft_snapshot_unreadable_total", NULL, NULL,        \
      "Times that this member's newest snapshot did not read when it was to be sent to "           \
      "another one; then another snapshot is taken.")                                              \
    X(RAFT_LOG_BYTES, GAUGE, "ckpt_raft_log_size_bytes", NULL, NULL,                               \
      "Bytes of log segments on disk.")                                                            \
    X(RAFT_PEER_LAG, GAUGE, "ckpt_raft_peer_lag_entries", "member", NULL,                          \
      "Entries that the peer is behind; known to the leader only.")                                \
    X(RAFT_VOTERS, GAUGE, "ckpt_raft_voters", NULL, NULL,                                          \
      "Members that vote, of the configuration in use here.")                                      \
    X(RAFT_LEARNERS, GAUGE, "ckpt_raft_learners", NULL, NULL, "Members that do not vote yet.")     \
    X(RAFT_PEER_UP, GAUGE, "ckpt_raft_peer_connected", "member", NULL,                             \
      "1 when the peer is connected and, where it should speak, heard of.")                        \
    /* The machine: disk of the data folder, wall clock, and the loop that everything runs         \
     * on. */                                                                                      \
    X(DISK_FREE, GAUGE, "ckpt_disk_free_bytes", NULL, NULL,                                        \
      "Free space of the data folder's file system.")                                              \
    X(DISK_TOTAL, GAUGE, "ckpt_disk_size_bytes", NULL, NULL,                                       \
      "Size of that file system, without what is reserved for root; 0: not known.")                \
    X(DISK_ACCEPTS, GAUGE, "ckpt_disk_accepts_writes", NULL, NULL,                                 \
      "0 while proposals are refused because the disk is nearly full.")                            \
    X(CLOCK_OFFSET, GAUGE, "ckpt_clock_offset_seconds", NULL, NULL,                                \
      "This member's wall clock beside the median of the voters'; ahead is positive.")             \
    X(LOOP_LAG, GAUGE, "ckpt_loop_lag_max_seconds", NULL, NULL,                                    \
      "Longest time the event loop was blocked since the start.")                                  \
    X(LOOP_LAG_CPU, GAUGE, "ckpt_loop_lag_cpu_max_seconds", NULL, NULL,                            \
      "Longest time the event loop was blocked by its own work, in processor time; for the "       \
      "rest of ckpt_loop_lag_max_seconds it waited for a processor or the disk.")                  \
    /* The replicated state. Every member exposes the same numbers, so that a sum over             \
     * members counts each thing several times: rules aggregate them with max. */                  \
    X(STATE_ALLOCATIONS, GAUGE, "ckpt_allocations", "state", NULL, "Allocations by state.")        \
    X(STATE_CHECKPOINTS, GAUGE, "ckpt_checkpoints", "state", NULL,                                 \
      "Checkpoints kept in the state, by state.")                                                  \
    X(ENTERED, COUNTER, "ckpt_checkpoints_entered_total", "state", NULL,                           \
      "Checkpoints that ever entered the state; replicated, the same on every member: "            \
      "aggregate with max.")                                                                       \
    X(PAUSED, GAUGE, "ckpt_paused_requests", NULL, NULL,                                           \
      "Checkpoints that wait for their destination to come back.")                                 \
    X(OLDEST_PAUSED, GAUGE, "ckpt_oldest_paused_age_seconds", NULL, NULL,                          \
      "Age of the oldest pause; 0 when nothing is paused.")                                        \
    X(ORPHANS, GAUGE, "ckpt_orphan_folders", "destination", NULL,                                  \
      "Checkpoints that lie there without a record, as the leader's last scan found them: "        \
      "ckptctl gc orphans.")                                                                       \
    X(ORPHAN_BYTES, GAUGE, "ckpt_orphan_bytes", "destination", NULL, "What they hold.")            \
    X(ORPHAN_SCAN_AT, GAUGE, "ckpt_orphan_scan_timestamp_seconds", "destination", NULL,            \
      "When the leader last looked through all of it; absent until it has.")                       \
    X(UNDELETED, GAUGE, "ckpt_undeleted_checkpoints", NULL, NULL,                                  \
      "Expired checkpoints whose folder could not be removed; tried again every 1 to 60 min.")     \
    X(UNDELETED_BYTES, GAUGE, "ckpt_undeleted_bytes", NULL, NULL,                                  \
      "What they hold, of complete ones.")                                                         \
    X(UNDELETED_OLDEST, GAUGE, "ckpt_undeleted_oldest_age_seconds", NULL, NULL,                    \
      "Since the first failure of the oldest of them; 0 when there is none.")                      \
    X(UNDELETED_FORGOTTEN, COUNTER, "ckpt_undeleted_forgotten_total", NULL, NULL,                  \
      "Of these: no longer known, nor tried, since there were more than 16,384; replicated, "      \
      "aggregate with max.")                                                                       \
    X(TENANT_BYTES, GAUGE, "ckpt_tenant_bytes", "tenant", "kind",                                  \
      "Of checkpoints of a tenant that has a limit: stored, leaving (of these, about to be "       \
      "deleted), running (expected of those under way), limit.")                                   \
    X(TENANT_REFUSED, GAUGE, "ckpt_tenant_over_quota", "tenant", NULL,                             \
      "1: a checkpoint of the tenant was refused within ten minutes, since its limit of bytes "    \
      "leaves no room; 0: none was.")                                                              \
    X(REQUEST_IDS, GAUGE, "ckpt_request_ids", NULL, NULL,                                          \
      "Request ids whose outcome is remembered; at 1,000,000 the oldest leave, those younger "     \
      "than 15 s do not.")                                                                         \
    X(EVENTS_SEQUENCE, GAUGE, "ckpt_events_sequence", NULL, NULL, "Number of the newest event.")   \
    X(REPORTS_REJECTED, COUNTER, "ckpt_agent_reports_rejected_total", "reason", NULL,              \
      "Agents' reports that were not taken; replicated, aggregate with max.")                      \
    X(DECISIONS_SKIPPED, COUNTER, "ckpt_decisions_skipped_total", NULL, NULL,                      \
      "Decisions that no longer held when applied; replicated, aggregate with max.")               \
    X(VERIFICATIONS, COUNTER, "ckpt_verifications_total", "result", NULL,                          \
      "Complete checkpoints that were read again, by result: whole, unreadable; what is damaged "  \
      "is ckpt_restart_points_damaged_total; replicated, aggregate with max.")                     \
    X(RELEASES_VERIFIED, COUNTER, "ckpt_victims_released_total", "checkpoint", NULL,               \
      "Victims that stopped with a checkpoint: verified when another node had read it before "     \
      "their nodes were released, unverified when none could in time; replicated, aggregate "      \
      "with max.")                                                                                 \
    X(CLUSTER_PAUSED, GAUGE, "ckpt_cluster_paused", NULL, NULL,                                    \
      "1 while an operator has paused the cluster: the broker does nothing by itself.")            \
    X(HUNG, GAUGE, "ckpt_allocations_hung", NULL, NULL,                                            \
      "Running allocations of which no rank steps any more.")                                      \
    X(REQUEUES, COUNTER, "ckpt_allocation_requeues_total", NULL, NULL,                             \
      "Allocations that were requeued; replicated, aggregate with max.")                           \
    X(GPU_HELD, COUNTER, "ckpt_held_gpu_seconds_total", NULL, NULL,                                \
      "GPU time that allocations held, by what they weigh; replicated, aggregate with max.")       \
    X(GPU_USEFUL, GAUGE, "ckpt_useful_gpu_seconds", NULL, NULL,                                    \
      "GPU time whose work is in a complete checkpoint or a result; falls when a job has to "      \
      "go back to an older checkpoint.")                                                           \
    X(GPU_PENDING, GAUGE, "ckpt_pending_gpu_seconds", NULL, NULL,                                  \
      "GPU time computed since the last complete checkpoints: what would be lost now.")            \
    X(GPU_LOST, COUNTER, "ckpt_lost_gpu_seconds_total", "cause", NULL,                             \
      "GPU time lost, by cause; replicated, aggregate with max.")                                  \
    X(MALFORMED, COUNTER, "ckpt_raft_malformed_entries_total", NULL, NULL,                         \
      "Log entries that do not decode; replicated, aggregate with max.")                           \
    /* Storage targets: budgets are of the state, probes are the leader's own. */                  \
    X(DESTINATION_UP, GAUGE, "ckpt_destination_up", "destination", NULL,                           \
      "1 when the storage target can be written.")                                                 \
    X(DESTINATION_OUTAGE, GAUGE, "ckpt_destination_outage", "destination", "reason",               \
      "1 while the storage target cannot be written, with the reason; absent while it can.")       \
    X(DESTINATION_DRAINING, GAUGE, "ckpt_destination_draining", "destination", NULL,               \
      "1 while the storage target takes no new checkpoints, so that it can be removed.")           \
    X(DESTINATION_RECORDS, GAUGE, "ckpt_destination_checkpoints", "destination", NULL,             \
      "Checkpoints that lie at the storage target or are bound for it: 0 before it can be "        \
      "removed.")                                                                                  \
    X(DESTINATION_FAILED_OVER, GAUGE, "ckpt_destination_failed_over", "destination", "to",         \
      "1 while what is bound for the storage target goes to its fail-over target; else absent.")   \
    X(FAILOVERS, COUNTER, "ckpt_destination_failovers_total", "destination", NULL,                 \
      "Outages of the storage target that lasted until its fail-over target took over.")           \
    X(DISCARDED, COUNTER, "ckpt_restarts_discarding_total", NULL, NULL,                            \
      "Restarts that did not wait for the last checkpoint, whose storage target was away.")        \
    X(DELETED, COUNTER, "ckpt_destination_deleted_checkpoints_total", "destination", NULL,         \
      "Checkpoints whose folder is gone from the storage target.")                                 \
    X(DELETED_BYTES, COUNTER, "ckpt_destination_deleted_bytes_total", "destination", NULL,         \
      "Bytes of these, as their remover counted them.")                                            \
    X(DESTINATION_RATE, GAUGE, "ckpt_destination_write_bytes_per_second", "destination", NULL,     \
      "Budget of checkpoint writes after the staging share, at most what is measured.")            \
    X(DESTINATION_MEASURED, GAUGE, "ckpt_destination_measured_write_bytes_per_second",             \
      "destination", NULL,                                                                         \
      "What the storage system leaves for checkpoints, as the replicated state has it; "           \
      "absent while nothing measures it.")                                                         \
    X(GRANTED_RATIO, GAUGE, "ckpt_bandwidth_granted_ratio", "destination", NULL,                   \
      "Granted share of the budget, 0 to 1.")                                                      \
    X(RESTORES, GAUGE, "ckpt_destination_restores", "destination", "state",                        \
      "Parts of jobs that read what they begin from there, or wait in line to.")                   \
    X(WRITES, GAUGE, "ckpt_destination_writes", "destination", "state",                            \
      "Parts of checkpoints that are written to there (writing), and checkpoints that wait for "   \
      "bandwidth or a place (waiting; the leader knows them).")                                    \
    X(PROBES, COUNTER, "ckpt_destination_probes_total", "destination", "result",                   \
      "Write probes by result.")                                                                   \
    X(PROBE_LAST, GAUGE, "ckpt_destination_last_probe_seconds", "destination", NULL,               \
      "Duration of the last write probe.")                                                         \
    X(PROBE_DURATION, SECONDS, "ckpt_destination_probe_duration_seconds", NULL, NULL,              \
      "Duration of write probes.")                                                                 \
    /* The leader's evaluation cycles, and what became of the checkpoints that they decided. */    \
    X(EVALUATIONS, COUNTER, "ckpt_evaluations_total", "decision", "reason",                        \
      "Evaluated allocations by decision and rule.")                                               \
    X(EVALUATION_DURATION, SECONDS, "ckpt_evaluation_duration_seconds", NULL, NULL,                \
      "Loop time that one evaluation cycle took.")                                                 \
    X(EVALUATION_CYCLE, SECONDS, "ckpt_evaluation_cycle_seconds", NULL, NULL,                      \
      "From the begin of an evaluation cycle until its last decision was committed and "           \
      "applied.")                                                                                  \
    X(EVALUATION_LAST, GAUGE, "ckpt_evaluation_last_timestamp_seconds", NULL, NULL,                \
      "Unix time of the last complete cycle of this leader; 0 on followers.")                      \
    X(EVALUATION_INTERVAL, GAUGE, "ckpt_evaluation_interval_seconds", NULL, NULL,                  \
      "Interval of evaluations in the policy.")                                                    \
    X(HINTS, COUNTER, "ckpt_hints_total", "purpose", "result",                                     \
      "Checkpoints that reached a final state, by purpose and result.")                            \
    X(HINT_ACK, SECONDS, "ckpt_hint_ack_seconds", NULL, NULL,                                      \
      "From dispatch until the first node reported that its application was asked.")               \
    X(CHECKPOINT_DURATION, SECONDS, "ckpt_checkpoint_duration_seconds", NULL, NULL,                \
      "From dispatch until every shard was verified.")                                             \
    X(CHECKPOINT_SIZE, BYTES, "ckpt_checkpoint_size_bytes", NULL, NULL,                            \
      "Size of complete checkpoints, all shards.")                                                 \
    X(CHECKPOINT_SAVED, COUNTER, "ckpt_checkpoint_saved_bytes_total", NULL, NULL,                  \
      "Of ckpt_checkpoint_size_bytes_sum, what was not written again: taken over from an "         \
      "earlier checkpoint, or compressed away.")                                                   \
    /* The model: what decisions expected beside what came, and what was learned of the            \
     * fleet. */                                                                                   \
    X(ESTIMATE_RATIO, RATIO, "ckpt_estimate_error_ratio", "what", NULL,                            \
      "What a decision expected over what came, of its complete checkpoint: size or "              \
      "write_time.")                                                                               \
    X(ESTIMATE_SUCCESS, COUNTER, "ckpt_estimate_success_total", "of", NULL,                        \
      "Decided checkpoints that ended: how many should have completed by what was learned "        \
      "(expected), and how many did (actual).")                                                    \
    X(LEARNED_FAILURES, GAUGE, "ckpt_learned_node_failures_per_second", NULL, NULL,                \
      "Failure rate of a node of average age, as learned; 0 on followers.")                        \
    X(LEARNED_AGE_FACTOR, GAUGE, "ckpt_learned_node_age_factor", "since_failure", NULL,            \
      "Times the rate of a node of average age, by the time since a node failed last.")            \
    X(LEARNED_CERTAINTY, GAUGE, "ckpt_learned_certainty", NULL, NULL,                              \
      "How sure the failure rate is: believed over the highest that the failures seen allow. "     \
      "max_interval binds less the nearer it is to 1; 0 on followers.")                            \
    X(LEARNED_ALARMS, GAUGE, "ckpt_learned_alarms", "number", NULL,                                \
      "Hard signals of nodes, as learned: recall and precision as shares, lead_seconds "           \
      "before the failure; 0 on followers.")                                                       \
    X(LEARNED_KILLS, GAUGE, "ckpt_learned_kills_per_second", "group", NULL,                        \
      "Rate at which a running job is stopped for others without a checkpoint, as learned; "       \
      "by preemption class, or on borrowed nodes, and busy where the queue of their vCluster "     \
      "is.")                                                                                       \
    X(LEARNED_DEMANDS, GAUGE, "ckpt_learned_demands_per_second", "group", NULL,                    \
      "Rate at which a running job is made a victim of preemption, as learned; likewise.")         \
    X(LEARNED_SAVED, GAUGE, "ckpt_learned_saved_timestamp_seconds", NULL, NULL,                    \
      "Unix time up to which the replicated state holds what was learned of the fleet; 0: "        \
      "nothing yet.")                                                                              \
    /* Queues of schedulers, waiting for bandwidth, preemption. */                                 \
    X(QUEUE_AGE, GAUGE, "ckpt_queue_report_age_seconds", "vcluster", NULL,                         \
      "Since the queue of the vCluster was reported.")                                             \
    X(QUEUE_WAITING, GAUGE, "ckpt_queue_waiting_jobs", "vcluster", NULL,                           \
      "Waiting jobs in the last report, at most 64.")                                              \
    X(QUEUE_COUNTED, GAUGE, "ckpt_queue_report_counted", "vcluster", NULL,                         \
      "1 while the report is young enough to be counted by the model.")                            \
    X(PRESSURE, GAUGE, "ckpt_backlog_pressure", NULL, NULL,                                        \
      "GPU time that waits over GPU time that runs, of the reports that count, at most 1.")        \
    X(BANDWIDTH_WAITING, GAUGE, "ckpt_bandwidth_waiting_checkpoints", "destination", NULL,         \
      "Checkpoints that wait for bandwidth, as the leader's last look saw them.")                  \
    X(BANDWIDTH_WAVES, GAUGE, "ckpt_bandwidth_waves", "destination", NULL,                         \
      "Waves in which those that wait are granted.")                                               \
    X(BANDWIDTH_PRICE, GAUGE, "ckpt_bandwidth_price_gpu_seconds_per_byte", "destination", NULL,    \
      "What the best of those that wait would gain per byte.")                                     \
    X(PREEMPTIONS_ENDED, COUNTER, "ckpt_preemptions_ended_total", "result", NULL,                  \
      "Preemptions by result: released when every victim let go, expired when one kept its "       \
      "nodes and there was no other.")                                                             \
    X(PREEMPTION_RELEASE, SECONDS, "ckpt_preemption_release_seconds", NULL, NULL,                  \
      "From the request until every victim had let go.")                                           \
    X(ATTEMPTS_FAILED, COUNTER, "ckpt_checkpoint_attempts_failed_total", "reason", NULL,           \
      "Attempts at checkpoints that failed and are tried again, by reason.")                       \
    X(POINTS_DAMAGED, COUNTER, "ckpt_restart_points_damaged_total", NULL, NULL,                    \
      "Complete checkpoints of which a restart or a verification found a part "                    \
      "damaged.")                                                                                  \
    /* Nodes and their agents. */                                                                  \
    X(NODE_FAILURES, COUNTER, "ckpt_node_failures_total", NULL, NULL, "Nodes declared down.")      \
    X(AGENTS, GAUGE, "ckpt_agent_connected", NULL, NULL, "Agents connected to this member.")       \
    X(AGENT_REPORTS, COUNTER, "ckpt_agent_reports_total", NULL, NULL,                              \
      "Reports taken from agents and acknowledged.")                                               \
    X(HEARTBEATS_REFUSED, COUNTER, "ckpt_agent_heartbeats_refused_total", NULL, NULL,              \
      "Heartbeats of agents that came once more, or out of order.")                                \
    X(GRANTS, COUNTER, "ckpt_grants_total", NULL, NULL, "Bandwidth grants proposed.")              \
    X(NODES, GAUGE, "ckpt_nodes", "state", NULL,                                                   \
      "Known nodes by state; unknown: no agent ever reported there.")                              \
    /* Backups, and members of another incarnation. */                                             \
    X(RAFT_FOREIGN, GAUGE, "ckpt_raft_foreign_members", NULL, NULL,                                \
      "Members that say they belong to another incarnation of this cluster, and are refused.")     \
    X(BACKUP_LAST, GAUGE, "ckpt_backup_last_success_timestamp_seconds", NULL, NULL,                \
      "Unix time of the last good scheduled backup written by this member; 0: none; absent: "      \
      "none are configured.")                                                                      \
    X(BACKUP_INTERVAL, GAUGE, "ckpt_backup_interval_seconds", NULL, NULL,                          \
      "Configured interval of scheduled backups; absent: none are configured.")                    \
    X(BACKUPS, COUNTER, "ckpt_backups_total", "result", NULL,                                      \
      "Scheduled backups by result: ok or failed.")                                                \
    X(BACKUP_SIZE, GAUGE, "ckpt_backup_size_bytes", NULL, NULL,                                    \
      "Size of the last good scheduled backup.")                                                   \
    X(BACKUP_DURATION, GAUGE, "ckpt_backup_duration_seconds", NULL, NULL,                          \
      "Time that the last good scheduled backup took, its copy read back.")                        \
    X(BACKUP_VERIFIED, GAUGE, "ckpt_backup_last_verified_timestamp_seconds", NULL, NULL,           \
      "Unix time at which a backup of this member was last restored in memory and found "          \
      "right; absent: none was.")                                                                  \
    X(BACKUP_VERIFICATIONS, COUNTER, "ckpt_backup_verifications_total", "result", NULL,            \
      "Backups restored in memory by schedule, by result: ok or failed.")                          \
    X(DRILL_PASSED, GAUGE, "ckpt_drill_last_passed_timestamp_seconds", NULL, NULL,                 \
      "Unix time at which the last failover drill passed, by the state's clock; 0: none did.")     \
    X(DRILL_MAX_AGE, GAUGE, "ckpt_drill_max_age_seconds", NULL, NULL,                              \
      "Time after which another drill is due (drill_max_age of the policy).")                      \
    X(DRILL_OPEN, GAUGE, "ckpt_drill_under_way", NULL, NULL, "1 while a failover drill runs.")     \
    /* Accounting: each member writes the same records. */                                         \
    X(ACCOUNTING, COUNTER, "ckpt_accounting_records_total", "result", NULL,                        \
      "Accounting records of this member: written to its files; lost, as far as their number is "  \
      "known; removed with the oldest file.")                                                      \
    X(ACCOUNTING_GAPS, COUNTER, "ckpt_accounting_gaps_total", NULL, NULL,                          \
      "Times that events were dropped before this member had made records of them.")               \
    X(ACCOUNTING_FAILING, GAUGE, "ckpt_accounting_failing", NULL, NULL,                            \
      "1 while this member's disk takes no accounting records.")                                   \
    X(ACCOUNTING_WAITING, GAUGE, "ckpt_accounting_records_waiting", NULL, NULL,                    \
      "Accounting records in this member's memory, which the disk has not taken yet.")             \
    /* Telemetry of nodes: every member asks its sources, a follower more rarely. */               \
    X(TELEMETRY_UP, GAUGE, "ckpt_telemetry_up", "source", NULL,                                    \
      "1 when the last poll of any endpoint of the source succeeded.")                             \
    X(TELEMETRY_FAILING, GAUGE, "ckpt_telemetry_endpoints_failing", "source", NULL,                \
      "Endpoints of the source whose last poll failed.")                                           \
    X(TELEMETRY_ENDPOINTS, GAUGE, "ckpt_telemetry_endpoints", "source", NULL,                      \
      "Endpoints of the source.")                                                                  \
    X(TELEMETRY_AGE, GAUGE, "ckpt_telemetry_age_seconds", "source", NULL,                          \
      "Time since the source was last heard, or since it was set up.")                             \
    X(TELEMETRY_POLLS, COUNTER, "ckpt_telemetry_polls_total", "source", NULL,                      \
      "Polls of the source's endpoints.")                                                          \
    X(TELEMETRY_FAILURES, COUNTER, "ckpt_telemetry_failures_total", "source", NULL,                \
      "Polls that failed.")                                                                        \
    X(TELEMETRY_REFUSED, COUNTER, "ckpt_telemetry_samples_refused_total", "source", "reason",      \
      "Values that were not taken: value (no count or level), old (by their own time stamp), "     \
      "room.")                                                                                     \
    X(TELEMETRY_NODES, GAUGE, "ckpt_telemetry_nodes", "source", "sight",                           \
      "Nodes that the source should speak of: fresh, stale (silent for three intervals), "         \
      "blind (never heard by this member).")                                                       \
    X(NODES_UNWELL, GAUGE, "ckpt_nodes_unwell", NULL, NULL,                                        \
      "Nodes whose hazard is multiplied because of their health, as this member knows it.")        \
    X(NODES_ALARMS, GAUGE, "ckpt_nodes_with_alarm", NULL, NULL,                                    \
      "Nodes with a hard signal that announces a failure.")                                        \
    X(NODES_DRAINS, COUNTER, "ckpt_node_alarm_drains_total", "result", NULL,                       \
      "Drains asked for because of hard signals: asked, or held back by "                          \
      "health.drain_max_per_hour.")                                                                \
    /* TLS and the API. */                                                                         \
    X(TLS_EXPIRY, GAUGE, "ckpt_tls_certificate_expiry_timestamp_seconds", "certificate", NULL,     \
      "Unix time at which this member's own certificate, or its CA, ends.")                        \
    X(TLS_RELOAD_FAILED, GAUGE, "ckpt_tls_reload_failed", NULL, NULL,                              \
      "1 while the certificate files on disk cannot be used and the old ones are.")                \
    X(DENIED, COUNTER, "ckpt_denied_total", "reason", NULL,                                        \
      "Calls that were denied: role, by the method's row; spoofed_node, an agent that spoke for "  \
      "another node than its certificate's.")                                                      \
    X(AUDIT_RECORDS, COUNTER, "ckpt_audit_records_total", "result", NULL,                          \
      "Records of the audit trail: written to this member's files; missed by them; lost, left "    \
      "the state before the leader's files had them.")                                             \
    X(AUDIT_FAILING, GAUGE, "ckpt_audit_failing", NULL, NULL,                                      \
      "1 while this member's disk takes no records of the audit trail.")                           \
    X(AUDIT_CHANGED, GAUGE, "ckpt_audit_changed", NULL, NULL,                                      \
      "1 when the audit files did not end with what this member wrote when it started.")           \
    X(TLS_REFUSED, COUNTER, "ckpt_tls_refused_total", "port", NULL,                                \
      "Connections that TLS refused, by port: api or raft.")                                       \
    X(RPC_CONNECTIONS, GAUGE, "ckpt_rpc_connections", NULL, NULL, "Open API connections.")         \
    X(RPC_STALLED, COUNTER, "ckpt_rpc_stalled_total", NULL, NULL,                                  \
      "API connections that were closed because their peers did not read what they had asked "     \
      "for.")                                                                                      \
    X(RPC_CALLS, COUNTER, "ckpt_rpc_calls_total", "code", NULL,                                    \
      "Finished API calls by gRPC status.")                                                        \
    X(MUTATIONS, COUNTER, "ckpt_mutations_total", NULL, NULL,                                      \
      "Mutating requests proposed for callers.")                                                   \
    X(OUTCOMES, COUNTER, "ckpt_mutation_outcomes_total", "status", NULL,                           \
      "Outcomes of callers' mutations by name.")                                                   \
    X(NOT_LEADER, COUNTER, "ckpt_not_leader_total", NULL, NULL,                                    \
      "Requests answered with a redirect to the leader.")                                          \
    X(RATE_LIMITED, COUNTER, "ckpt_rate_limited_total", NULL, NULL,                                \
      "Requests of users refused because the user asks too often.")                                \
    X(AGENT_TWINS, COUNTER, "ckpt_agent_twins_refused_total", NULL, NULL,                          \
      "Hellos of agents with the name of a node whose agent is heard.")                            \
    X(PUSHED_BACK, COUNTER, "ckpt_pushed_back_total", NULL, NULL,                                  \
      "Requests refused because a queue was full.")                                                \
    /* The same things under the names that another scheduler's dashboards know. Each is set       \
     * beside the row of ours that it repeats. */                                                  \
    X(L_STORAGE, GAUGE, "lattice_checkpoint_storage_unavailable", NULL, NULL,                      \
      "1 while any storage target is unavailable.")                                                \
    X(L_LEADER, GAUGE, "lattice_raft_leader", NULL, NULL, "1 on the member that leads.")           \
    X(L_COMMIT, SECONDS, "lattice_raft_commit_latency_seconds", NULL, NULL,                        \
      "From proposal to applied, of log entries proposed by this member.")                         \
    X(L_ENTRIES, GAUGE, "lattice_raft_log_entries", NULL, NULL,                                    \
      "Log entries kept since the last snapshot.")                                                 \
    X(L_SNAPSHOT, GAUGE, "lattice_raft_snapshot_duration_seconds", NULL, NULL,                     \
      "Duration of the last snapshot written here.")                                               \
    X(L_EVALUATIONS, COUNTER, "lattice_checkpoint_evaluations_total", "decision", NULL,            \
      "Evaluated allocations by decision.")                                                        \
    X(L_OPERATIONS, COUNTER, "lattice_checkpoint_operations_total", "result", NULL,                \
      "Checkpoints that reached a final state, by result.")                                        \
    X(L_DURATION, SECONDS, "lattice_checkpoint_duration_seconds", NULL, NULL,                      \
      "From dispatch until every shard was verified.")                                             \
    X(L_FAILURES, COUNTER, "lattice_checkpoint_failures_total", "reason", NULL,                    \
      "Failed checkpoints by reason.")                                                             \
    X(L_PREEMPTIONS, COUNTER, "lattice_preemptions_total", "vcluster", "reason",                   \
      "Victims of preemption by their vCluster and why.")                                          \
    X(L_PREEMPTION_DURATION, SECONDS, "lattice_preemption_checkpoint_duration_seconds",            \
      NULL, NULL,                                                                                  \
      "From the request to a victim until its checkpoint was complete.")                           \
    X(L_PREEMPTION_REQUEUE, COUNTER, "lattice_preemption_victim_requeue_total", NULL, NULL,        \
      "Victims that were suspended or requeued to run again.")                                     \
    X(L_PREEMPTION_FAILED, COUNTER, "lattice_preemption_failed_checkpoint_total", NULL, NULL,      \
      "Checkpoints of victims that did not complete.")                                             \
    X(L_WALLTIME, COUNTER, "lattice_checkpoint_walltime_conflict_total", NULL, NULL,               \
      "Walltime ended while a checkpoint was active; replicated, aggregate with max.")

/* clang-format on */

enum metric { METRICS(METRIC_ID) METRIC_COUNT };

/* With the replica's observer that counts what happens; metrics_free() ends both. */
struct metrics *broker_metrics_new(struct broker *broker);

#endif
