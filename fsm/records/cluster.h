/* The fields of the cluster itself, of nodes, targets and queues. How to add one: record.h.
 *
 * FSM_COUNTERS        of the state as a whole, ever: SnapshotHeader, struct fsm_summary
 * FSM_NODE, _INSIDE   NodeRecord
 * FSM_TARGET_SPEC     what an operator says of a target: TargetSpec
 * FSM_TARGET_STATUS   what everybody sees: TargetStatus, TargetRecord
 * FSM_TARGET_INSIDE   what the state machine alone needs: TargetRecord
 * FSM_TENANT_SPEC     what an operator says of a tenant: TenantSpec
 * FSM_TENANT_STATUS   TenantRecord
 * FSM_QUEUE           QueueRecord
 */
#ifndef CKPT_FSM_RECORDS_CLUSTER_H
#define CKPT_FSM_RECORDS_CLUSTER_H

#include "fsm/limits.h"
#include "fsm/records/record.h"

/* clang-format off */
#define FSM_COUNTERS(FIELD, TEXT)                                                                  \
    FIELD(uint64_t, rejected_reports, RECORD_ANY)                                                  \
    FIELD(uint64_t, duplicate_reports, RECORD_ANY)                                                 \
    FIELD(uint64_t, earlier_run_reports, RECORD_ANY)                                              \
    FIELD(uint64_t, skipped_decisions, RECORD_ANY)                                                 \
    FIELD(uint64_t, resumed_total, RECORD_ANY)                                                     \
    FIELD(uint64_t, paused_total, RECORD_ANY)                                                      \
    FIELD(uint64_t, walltime_conflicts, RECORD_ANY)  /* it ended during a checkpoint (F-014) */    \
    FIELD(uint64_t, preemptions_total, RECORD_ANY)   /* victims */                                 \
    FIELD(uint64_t, requeues_total, RECORD_ANY)                                                    \
    FIELD(uint64_t, verified_total, RECORD_ANY)      /* read again, and whole */                   \
    FIELD(uint64_t, unreadable_total, RECORD_ANY)    /* nobody could read them again */            \
    FIELD(uint64_t, released_verified_total, RECORD_ANY)                                           \
        /* victims, when another node had read their checkpoint */                                 \
    FIELD(uint64_t, released_unverified_total, RECORD_ANY)   /* ... when none could, in time */    \
    FIELD(uint64_t, malformed_entries, RECORD_ANY)                                                 \
        /* log entries that do not decode: ignored by every member alike */

#define FSM_NODE(FIELD, TEXT)                                                                      \
    TEXT(boot_id)                                                                                  \
    TEXT(version)                                                                                  \
    TEXT(home_vcluster)                                         /* whose it is; "": not known */   \
    TEXT(machine)                                               /* uname -m; "": not told */       \
    TEXT(os)                                 /* ID and VERSION_ID of os-release; likewise */       \
    TEXT(domain)                                  /* as its agent is configured; "": none */       \
    TEXT(evidence)                                /* of its witness, for people */                 \
    TEXT(probe)                                   /* where members probe it; "": nowhere */        \
    FIELD(uint64_t, made, RECORD_ANY)                                                              \
        /* by which command: the slot of one that was removed may be another one's later */        \
    FIELD(uint64_t, state_since_ms, RECORD_ANY)                                                    \
    FIELD(uint64_t, last_report_sequence, RECORD_ANY)  /* reports up to here are committed */      \
    FIELD(uint64_t, steady_since_ms, FSM_TIME_MAX_MS)                                              \
        /* its last failure, or when first seen; 0: no agent yet */                                \
    FIELD(Ckpt__Log__V1__NodeState, state, RECORD_ANY)                                             \
        /* UNSPECIFIED: named by an allocation, no agent was seen yet */                           \
    FIELD(uint64_t, silent_since_ms, FSM_TIME_MAX_MS)                                              \
        /* its agent was last heard; 0: it is heard, or none ever spoke */                         \
    FIELD(uint64_t, off_at_ms, FSM_TIME_MAX_MS)                                                    \
        /* with silent_since: a second witness said that the machine is off; 0: none did */        \
    FIELD(uint64_t, word_at_ms, FSM_TIME_MAX_MS)                                                   \
        /* a witness spoke whose word does not count yet; 0: none */                               \
    FIELD(uint64_t, drain_until_ms, FSM_TIME_MAX_MS) /* with DRAIN: what is there then is ended */ \
    FIELD(Ckpt__V1__NodeWitness, witness, CKPT__V1__NODE_WITNESS__NODE_WITNESS_PROBE)              \
        /* of off_at, else of word_at */                                                           \
    FIELD(Ckpt__Log__V1__NodeWanted, wanted, CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DISABLE)      \
    FIELD(Ckpt__Log__V1__NodeLeave, leave,                                                         \
          CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_AT_NEXT_CHECKPOINT)                                \
    FIELD(uint32_t, failure_count, RECORD_ANY)                                                     \
        /* found down, or with another boot id, unless it was drained */

/* ... and what the state machine alone needs of it. */
#define FSM_NODE_INSIDE(FIELD, TEXT)                                                               \
    FIELD(uint64_t, preempted_at_ms, FSM_TIME_MAX_MS)                                              \
        /* a preemption freed it, and no run has begun there since; 0: none did */                 \
    FIELD(uint8_t, preempted_class, FSM_CLASS_MAX)     /* with preempted_at: of that preemption */ \
    FIELD(bool, removed, true)   /* it is gone, but for its name, which the records have */

#define FSM_TARGET_SPEC(FIELD, TEXT)                                                               \
    TEXT(prefix)                                                                                   \
    TEXT(domain)                                                                                   \
    TEXT(tier)                                                                                     \
    TEXT(failover_target_id)                                                                       \
    TEXT(jurisdiction)                                                                             \
    FIELD(uint64_t, write_bytes_per_s, FSM_BANDWIDTH_MAX)                                          \
    FIELD(uint64_t, read_bytes_per_s, FSM_BANDWIDTH_MAX)   /* of restores; 0: no limit */          \
    FIELD(uint64_t, cost_micro_usd_per_gb_month, FSM_BANDWIDTH_MAX)                                \
    FIELD(Ckpt__V1__TargetKind, kind, RECORD_ANY)                                                  \
    FIELD(Ckpt__V1__ReadBack, read_back, RECORD_ANY)                                               \
    FIELD(uint32_t, generations, FSM_GENERATIONS_MAX)                                              \
    FIELD(Ckpt__V1__Staging, staging, RECORD_ANY)                                                  \
    FIELD(Ckpt__V1__Compression, compression, RECORD_ANY)                                          \
    FIELD(Ckpt__V1__Pool, pool, RECORD_ANY)                                                        \
    FIELD(Ckpt__V1__Assured, encrypted, RECORD_ANY)                                                \
    FIELD(Ckpt__V1__Assured, hot_only, RECORD_ANY)                                                 \
    FIELD(uint32_t, max_restores, FSM_RESTORES_MAX)        /* parts at a time; 0: no limit */      \
    FIELD(uint32_t, max_writes, FSM_WRITES_MAX)            /* likewise, of checkpoints */          \
    FIELD(uint32_t, staging_share_ppm, FSM_PPM)

#define FSM_TARGET_STATUS(FIELD, TEXT)                                                             \
    FIELD(uint64_t, since_ms, RECORD_ANY)                       /* of the availability */          \
    FIELD(uint64_t, measured_bytes_per_s, FSM_BANDWIDTH_MAX)                                       \
        /* what checkpoints may write, as the storage system measures; 0: not known */             \
    FIELD(uint64_t, measured_at_ms, RECORD_ANY)      /* when that was last set or forgotten */     \
    FIELD(Ckpt__V1__Reason, reason, RECORD_ANY)                                                    \
    FIELD(bool, available, true)                                                                   \
    FIELD(bool, draining, true)      /* it takes no new checkpoints */                             \
    FIELD(bool, failed_over, true)   /* what is bound for it goes to its fail-over target */

#define FSM_TARGET_INSIDE(FIELD, TEXT)                                                             \
    FIELD(uint64_t, excused_bytes_per_s, RECORD_ANY) /* granted before the budget was lowered */   \
    FIELD(uint64_t, failover_at_ms, RECORD_ANY)      /* when that is looked at next; 0: not */     \
    FIELD(uint64_t, excused_read_bytes_per_s, RECORD_ANY)  /* as excused_bytes_per_s, ... */       \
    FIELD(uint32_t, excused_restores, RECORD_ANY)          /* ... and parts, of restores */        \
    FIELD(uint32_t, excused_writes, RECORD_ANY)            /* likewise, of what is written */      \
    FIELD(uint32_t, scan_node, FSM_NODES_MAX) /* slot + 1 of who looks through it; 0: nobody */    \
    FIELD(uint32_t, scans, RECORD_ANY)               /* so often a node was asked to */            \
    FIELD(bool, removed, true)                                                                     \
        /* it is gone, but for its name, which the records have */

#define FSM_TENANT_SPEC(FIELD, TEXT)                                                               \
    FIELD(uint64_t, max_bytes, FSM_ALLOCATION_BYTES_MAX)     /* of its checkpoints; 0: no limit */ \
    FIELD(uint64_t, retention_ms, FSM_DURATION_MAX_MS)       /* 0: the policy's */                 \
    FIELD(uint32_t, keep_complete, FSM_COMPLETE_KEPT_MAX)    /* 0: the policy's */

#define FSM_TENANT_STATUS(FIELD, TEXT)                                                             \
    FIELD(uint64_t, wanted_bytes, FSM_ALLOCATION_BYTES_MAX)                                        \
        /* of the largest checkpoint that was refused lately */                                    \
    FIELD(uint64_t, refused_at_ms, FSM_TIME_MAX_MS)          /* the last one; 0: none ever */

#define FSM_QUEUE(FIELD, TEXT)                                                                     \
    FIELD(uint64_t, reported_at_ms, RECORD_ANY)                                                    \
    FIELD(uint32_t, told_pressure_ppm, RECORD_ANY)              /* of its last event */            \
    FIELD(uint32_t, told_gpus, RECORD_ANY)                      /* likewise */
/* clang-format on */

#endif
