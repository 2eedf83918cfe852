/* The metrics of ckpt-agentd: the table.
 *
 * Flow     a row of the table; its value is set by read_agent() (metrics.c) when the text is asked
 *          for.
 * Units    base units, as in the names.
 */
#ifndef CKPT_AGENT_METRICS_H
#define CKPT_AGENT_METRICS_H

#include "src/agent/daemon/agent.h"
#include "src/serve/metrics.h"

/* clang-format off */
/* id, kind, name, label names (up to two), help */
#define AGENT_METRICS(X)                                                                           \
    X(CONNECTED, GAUGE, "ckpt_agent_connected", NULL, NULL, "1 while a leader has welcomed this agent.") \
    X(APPLICATIONS, GAUGE, "ckpt_agent_applications", NULL, NULL, "Applications attached and running.") \
    X(REPORTS_PENDING, GAUGE, "ckpt_agent_reports_pending", NULL, NULL, "Reports that are not acknowledged yet.") \
    X(SESSIONS, COUNTER, "ckpt_agent_sessions_total", NULL, NULL, "Streams welcomed by a leader.")  \
    X(ORDER_SETS, COUNTER, "ckpt_agent_order_sets_total", NULL, NULL, "Order sets taken.")         \
    X(FENCED, COUNTER, "ckpt_agent_fenced_total", NULL, NULL, "Messages refused because they came from an older leader.") \
    X(SIGNALS, COUNTER, "ckpt_agent_signals_total", NULL, NULL, "Applications asked for a checkpoint.") \
    X(DEFERRALS, COUNTER, "ckpt_agent_deferrals_total", NULL, NULL, "Deferrals granted to applications that are called.") \
    X(STARTED, COUNTER, "ckpt_agent_checkpoints_started_total", NULL, NULL, "Attempts started.")   \
    X(VERIFIED, COUNTER, "ckpt_agent_checkpoints_verified_total", NULL, NULL, "Shards written and verified.") \
    X(FAILED, COUNTER, "ckpt_agent_checkpoints_failed_total", NULL, NULL, "Attempts that failed.") \
    X(ABANDONED, COUNTER, "ckpt_agent_checkpoints_abandoned_total", NULL, NULL, "Attempts withdrawn.") \
    X(COPIES_KEPT, COUNTER, "ckpt_agent_copies_kept_total", NULL, NULL,                            \
      "Copies of what jobs wrote that this node began to keep.")                                   \
    X(COPIES_DROPPED, COUNTER, "ckpt_agent_copies_dropped_total", NULL, NULL,                      \
      "Copies that this node removed.")                                                            \
    X(COPY_RESTORES, COUNTER, "ckpt_agent_copy_restores_total", NULL, NULL,                        \
      "Parts restored from a copy on this node, without the destination.")                         \
    X(WALLTIME_KILLS, COUNTER, "ckpt_agent_walltime_kills_total", NULL, NULL, "Applications ended by the agent's own walltime timer.") \
    X(PROC_FILES, COUNTER, "ckpt_agent_proc_files_opened_total", NULL, NULL,                       \
      "Files of /proc/PID opened to see what processes are and whose.")                            \
    X(TLS_EXPIRY, GAUGE, "ckpt_tls_certificate_expiry_timestamp_seconds", "certificate", NULL, "Unix time at which this agent's certificate, or its CA, ends.") \
    X(L_WALLTIME, COUNTER, "lattice_checkpoint_walltime_conflict_total", NULL, NULL, "Walltime ended while a checkpoint was in progress.")
/* clang-format on */

enum agent_metric { AGENT_METRICS(METRIC_ID) METRIC_COUNT };

struct metrics *agent_metrics_new(struct agent *agent);

#endif
