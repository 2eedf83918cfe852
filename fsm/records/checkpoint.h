/* The fields of a checkpoint, and of its shards. How to add one: record.h.
 *
 * STATUS     what everybody sees: ckpt.v1.Checkpoint, which a snapshot's CheckpointRecord holds
 * KEPT       what the broker reads as well: CheckpointRecord
 * INSIDE     what the state machine alone needs: CheckpointRecord
 * FSM_VERIFICATION  of one that a node is reading again: VerificationRecord
 */
#ifndef CKPT_FSM_RECORDS_CHECKPOINT_H
#define CKPT_FSM_RECORDS_CHECKPOINT_H

#include "fsm/limits.h"
#include "fsm/records/record.h"

/* clang-format off */
#define FSM_CHECKPOINT_STATUS(FIELD, TEXT)                                                         \
    TEXT(label)                                 /* of all verified shards; "": none told one */    \
    TEXT(home)                         /* the allocation whose folder it lies in; "": its own */   \
    FIELD(uint64_t, created_at_ms, RECORD_ANY)                                                     \
    FIELD(uint64_t, dispatched_at_ms, RECORD_ANY)               /* last; 0: never */               \
    FIELD(uint64_t, completed_at_ms, FSM_TIME_MAX_MS)           /* 0: not complete */              \
    FIELD(uint64_t, state_since_ms, FSM_TIME_MAX_MS)                                               \
    FIELD(uint64_t, deadline_ms, 2 * FSM_TIME_MAX_MS)           /* 0: none */                      \
    FIELD(uint64_t, deferred_ms, FSM_DURATION_MAX_MS)           /* granted in all attempts */      \
    FIELD(uint64_t, granted_bytes_per_s, FSM_BANDWIDTH_MAX)     /* all nodes; 0: none now */       \
    FIELD(uint64_t, size_bytes, RECORD_ANY)                     /* of the verified shards */       \
    FIELD(uint64_t, recompute_saved_gpu_ms, RECORD_ANY)                                            \
        /* order after an outage: brought up to date at resume */                                  \
    FIELD(uint64_t, agreed_step, RECORD_ANY)    /* of this attempt; 0: not agreed */               \
    FIELD(uint64_t, verified_at_ms, FSM_TIME_MAX_MS)            /* read again, and whole */        \
    FIELD(uint64_t, told_write_ms, FSM_TOLD_WRITE_MAX_MS)                                          \
        /* of its application in this attempt, from the question on; 0: it has not told */         \
    FIELD(Ckpt__V1__CheckpointState, state, RECORD_ANY)                                            \
    FIELD(Ckpt__V1__Purpose, purpose, RECORD_ANY)                                                  \
    FIELD(Ckpt__V1__AfterCheckpoint, after, RECORD_ANY)                                            \
    FIELD(Ckpt__V1__Reason, reason, RECORD_ANY)                                                    \
    FIELD(Ckpt__V1__BarrierPhase, barrier, RECORD_ANY)          /* of this attempt */              \
    FIELD(uint32_t, attempt, RECORD_ANY)                        /* counted at dispatch, from 1 */  \
    FIELD(uint32_t, paused_count, RECORD_ANY)                                                      \
    FIELD(uint32_t, resumed_count, RECORD_ANY)                                                     \
    FIELD(bool, extended, true)              /* the one extension of the timeout was used */       \
    FIELD(bool, pinned, true)    /* retention keeps it until it is unpinned */                     \
    FIELD(bool, damaged, true)  /* a part found a shard of it so: nothing begins from it any more */

#define FSM_CHECKPOINT_KEPT(FIELD, TEXT)                                                           \
    TEXT(machine)       /* of the nodes that wrote it, when it is complete; "": not known, ... */  \
    TEXT(os)            /* ... or they differ */                                                   \
    FIELD(uint64_t, started_at_ms, RECORD_ANY)                                                     \
    FIELD(uint64_t, retry_at_ms, RECORD_ANY)                                                       \
        /* REQUESTED: not granted before this instant; 0: at once */                               \
    FIELD(uint64_t, timeout_ms, FSM_TIME_MAX_MS)                /* of this attempt */              \
    FIELD(uint64_t, deferred_before_ms, FSM_DURATION_MAX_MS)    /* before this attempt */          \
    FIELD(uint64_t, max_deferral_ms, FSM_DURATION_MAX_MS)                                          \
        /* to which deferred_ms may grow in this attempt */                                        \
    FIELD(uint64_t, snapshot_at_ms, RECORD_ANY)      /* earliest STARTED among the nodes */        \
    FIELD(uint64_t, priority_gpu_ms_per_gb, RECORD_ANY)         /* order of grants */              \
    FIELD(uint64_t, stall_ms, RECORD_ANY)                                                          \
        /* of this attempt: how long its slowest node stood still, as reported */                  \
    FIELD(uint64_t, useful_gpu_ms, RECORD_ANY)                                                     \
        /* COMPLETE: of the allocation's account then, and of those of the jobs before it */       \
    FIELD(uint32_t, target_slot, FSM_TARGETS_MAX - 1)                                              \
    FIELD(uint32_t, success_ppm, RECORD_ANY)         /* predicted when it was made */              \
    FIELD(bool, resumed_from_outage, true)                                                         \
        /* REQUESTED after a pause: granted before all others, by recompute_saved */

#define FSM_CHECKPOINT_INSIDE(FIELD, TEXT)                                                         \
    FIELD(uint64_t, stop_deadline_ms, RECORD_ANY)                                                  \
        /* of a victim: no attempt goes beyond; 0: none, or not dispatched */                      \
    FIELD(uint64_t, stop_limit_ms, RECORD_ANY)                                                     \
        /* nor does that go beyond this, but for deferrals (L4) */                                 \
    FIELD(uint64_t, base_timeout_ms, FSM_TIME_MAX_MS)  /* before the extension and deferrals */    \
    FIELD(uint64_t, expected_bytes, FSM_ALLOCATION_BYTES_MAX)  /* when it was asked for */         \
    FIELD(uint64_t, collect_at_ms, RECORD_ANY)    /* terminal: when it expires; 0: kept */         \
    FIELD(uint64_t, verify_asked_at_ms, FSM_TIME_MAX_MS)   /* to be read again; 0: not asked */    \
    FIELD(uint64_t, verify_tried_at_ms, FSM_TIME_MAX_MS)   /* when that came to nothing */         \
    FIELD(uint32_t, verify_orders, RECORD_ANY)    /* to nodes, ever */                             \
    FIELD(uint32_t, failure_count, FSM_ATTEMPTS_MAX) /* of attempts; pauses do not count */        \
    FIELD(bool, bypass_budget, true)                                                               \
    FIELD(bool, without_place, true)  /* it has a deadline: max_writes did not hold it back */     \
    FIELD(bool, hurried, true)   /* it is put off no longer: the last safe slot has come */        \
    FIELD(bool, expired, true)                    /* may be collected; never taken back */         \
    FIELD(bool, collected, true)                  /* its folder is gone */

/* VerificationRecord: a node is reading it again. */
#define FSM_VERIFICATION(FIELD, TEXT)                                                              \
    FIELD(uint64_t, given_at_ms, FSM_TIME_MAX_MS)     /* when the node was asked for this part */  \
    FIELD(uint64_t, deadline_ms, 2 * FSM_TIME_MAX_MS) /* until when it has time */                 \
    FIELD(uint32_t, node_slot, FSM_NODES_MAX - 1)                                                  \
    FIELD(uint32_t, part, FSM_NODES_PER_ALLOCATION_MAX - 1) /* those before it are whole */        \
    FIELD(uint32_t, tries, FSM_VERIFY_TRIES_MAX)      /* nodes that could not read this part */    \
    FIELD(bool, holds, true)                          /* its job keeps its nodes meanwhile */

/* ShardRecord. */
#define FSM_SHARD(FIELD, TEXT)                                                                     \
    FIELD(uint32_t, node_slot, FSM_NODES_MAX - 1)                                                  \
    FIELD(bool, started, true)                                                                     \
    FIELD(bool, verified, true)                                                                    \
    FIELD(bool, stopped_writing, true)                                                             \
    FIELD(bool, barrier, true)     /* its ranks agree on a step with those of other parts */       \
    FIELD(bool, aware, true)       /* with barrier: all of them know that they are asked */        \
    FIELD(uint64_t, size_bytes, FSM_NODE_BYTES_MAX)                                                \
    FIELD(uint64_t, written_bytes, FSM_NODE_BYTES_MAX) /* the rest is an earlier checkpoint's */   \
    FIELD(Ckpt__V1__Staging, staging, RECORD_ANY)  /* UNSPECIFIED: not verified */                 \
    FIELD(uint64_t, write_ms, RECORD_ANY)                                                          \
    FIELD(uint64_t, stall_ms, RECORD_ANY)  /* from asking the application until it said done */    \
    FIELD(uint64_t, step, RECORD_ANY)                                                              \
        /* with barrier: the first that all of its ranks can meet; 0: not said */                  \
    FIELD(uint32_t, ranks, FSM_RANKS_PER_NODE_MAX)  /* that said done; 0: not verified */          \
    FIELD(uint64_t, rank_print, RECORD_ANY)         /* of their numbers (id.h) */                  \
    FIELD(uint32_t, ranks_all, RECORD_ANY)  /* on all nodes, as a launcher counts; 0: not told */
/* clang-format on */

#endif
