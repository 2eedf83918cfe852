/* The agent as a whole: what its parts share.
 *
 * Flow     session (orders) -> agent_take_orders -> reconcile -> executor; app_server (ckpt-run) -> executor;
 *          every fact -> agent_commit: journal first, then the session sends it.
 * Shapes   one struct agent per process, one loop; it owns the allocations (at most
 *          AGENT_ALLOCATIONS_MAX) and the last order set.
 * Units    *_us monotonic, *_ms durations or wall time as named.
 * Errors   a journal that cannot be written stops the program: agent_commit does not return then.
 *          Applications live on.
 */
#ifndef CKPT_AGENT_AGENT_H
#define CKPT_AGENT_AGENT_H

#include <uv.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/node/machine.h"
#include "src/base/list.h"
#include "src/base/ops.h"
#include "src/dest/mark.h"
#include "src/tls/context.h"

enum {
    AGENT_ALLOCATIONS_MAX = LEDGER_ENTRIES_MAX,
    AGENT_ALLOCATIONS_KEPT = 1024,
    AGENT_ALLOCATIONS_PER_USER = AGENT_ALLOCATIONS_MAX / 4 /* that run or are attached */
};

struct allocation;
struct caller_ops;
struct owner_orders;
struct copies_watch;
struct session;
struct own_asker;
struct revoked_kept;
struct rank_stream_ops;
struct scans;
struct restart_points;

struct agent_counters {
    uint64_t checkpoints_started;
    uint64_t checkpoints_verified;
    uint64_t checkpoints_failed;
    uint64_t checkpoints_abandoned;
    uint64_t signals_sent;
    uint64_t deferrals;
    uint64_t order_sets;
    uint64_t orders_fenced; /* sets refused because of a lower (epoch, term) */
    uint64_t sessions_opened;
    uint64_t walltime_kills;
    uint64_t folders_removed;    /* of expired checkpoints, by order */
    uint64_t parts_read_again;   /* of complete checkpoints, by order: whole ones */
    uint64_t walltime_conflicts; /* walltime ended while a checkpoint was in progress */
    uint64_t copies_kept;
    uint64_t copies_dropped;
    uint64_t copy_restores; /* from a copy, without the destination */
};

struct agent {
    uv_loop_t *loop;
    struct clock_ops clock;
    struct machine_ops machine;
    const char *node_id;
    const char *boot_id;
    const char *architecture, *os; /* of the node; "": not told (src/agent/node/platform.h) */
    const char *domain;            /* as configured; "": none */
    const char *node_probe;        /* likewise; "": port 22 */
    char **tools;                  /* a line for each of transparent/tool.h */
    size_t tool_count;
    const char *sysfs;      /* where sensors are read; "": nowhere */
    struct cgroups cgroups; /* where jobs get control groups */
    uint32_t cgroup_told;   /* why a job got none: each enum err_code is logged once, as a bit */
    const char *app_socket; /* the ranks' own; "": nobody listens there */
    uint64_t started_at_ms;
    uint64_t started_us;
    struct ledger *ledger;
    struct session *session;
    uint64_t leader_left_us; /* 0: its stream is open; else since then it is not */
    void (*send_reports)(struct session *session); /* there is one to send */
    /* false: there is no stream, or no room in it; who sends tries again later */
    bool (*send_page)(struct session *session, Ckpt__V1__ScanPage *page);
    const struct caller_ops *callers;           /* of the streams of ckpt-run */
    const struct rank_stream_ops *rank_streams; /* NULL: no rank can have one */
    struct restart_points *restart_points;
    struct own_asker *own_asker;
    struct owner_orders *owner_orders;
    struct scans *scans;
    void (*hurry)(struct session *session); /* a heartbeat soon: something in it is new */
    const struct tls_context *tls;          /* to the control nodes; NULL: plain */
    struct revoked_kept *revoked;           /* members that are refused; NULL: no TLS */
    struct list pretenders;                 /* see src/agent/job/pretenders.h */
    size_t pretender_count;
    struct clock_timer *pretenders_timer; /* NULL: none has had to end yet */
    struct list allocations;
    size_t allocation_count;
    Ckpt__V1__OrderSet *orders; /* the newest taken; NULL before the first */
    uint64_t cluster_mark;      /* of the cluster that welcomed it last (mark.h); 0: none yet */
    uint32_t feature_level;     /* of that cluster, as it was then; 0: none yet, or the first */
    uint64_t orders_taken_us;
    uint64_t first_runs_until; /* of the first set of this agent's life: later runs began in it */
    struct clock_timer *reconcile_timer;
    struct agent_counters counters;
    /* of what jobs wrote, in all (0: none is kept), and what stays free beside it */
    uint64_t copies_max_bytes, copies_keep_free;
    struct copies_watch *copies_watch;
    /* where jobs write checkpoints in the node's memory ("": nowhere), and how much in all */
    const char *memory_path;
    uint64_t memory_max_bytes, memory_user_max_bytes; /* 0: as memory_user_max() has it */
};

/* loop is for RPC alone. */
void agent_init(struct agent *agent, uv_loop_t *loop, const struct clock_ops *clock,
                const struct machine_ops *machine, const char *node_id, const char *boot_id,
                struct ledger *ledger);
/* Takes up what the journal says was running. */
void agent_resume(struct agent *agent);
void agent_close(struct agent *agent); /* applications are left running */

uint64_t agent_now_us(const struct agent *agent);

/* For --cluster of a worker that writes or removes at a target: the mark, or where it is 0 that of
 * the last welcome, with the epoch of the fence. Returns text; NULL: no cluster is known yet. */
const char *agent_claim(const struct agent *agent, uint64_t mark, char text[MARK_CLAIM_BYTES]);

/* Takes the set: the caller has checked the fence. Reconciles soon. */
void agent_take_orders(struct agent *agent, Ckpt__V1__OrderSet *take_orders);
/* Runs reconcile from the loop, once, however often it is asked for. */
void agent_reconcile_soon(struct agent *agent);

/* Durable when it returns: the entry (or NULL) together with the report (or NULL). since_us:
 * instant from which the report's age counts; 0: it has none. The report's sequence and time are
 * set here. */
void agent_commit(struct agent *agent, const struct ledger_entry *entry,
                  Ckpt__V1__AgentReport *report, uint64_t since_us);

/* A failed journal: logs and ends the program. */
__attribute__((noreturn)) void agent_journal_failed(struct agent *agent, const struct err *err);

struct allocation *agent_find(const struct agent *agent, const char *allocation_id);
/* Finds or creates; NULL when AGENT_ALLOCATIONS_MAX are in use. */
struct allocation *agent_get(struct agent *agent, const char *allocation_id);

#endif
