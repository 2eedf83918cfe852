/* The fields of an allocation, and of its shares of nodes. How to add one: record.h.
 *
 * SPEC       the scheduler's values at the registration: AllocationSpec. Their bounds hold there as
 *            well
 * STATUS     the state's values that everybody sees: ckpt.v1.Allocation
 * KEPT       the state's values that only the broker reads: AllocationRecord
 * INSIDE     values that the state machine alone needs: AllocationRecord
 * LEARNED    from its own checkpoints: LearnedRecord
 *
 * A snapshot's AllocationRecord holds the Allocation, which holds the spec: a field stands in one
 * message only. Values that follow from other fields (sums, the active checkpoint) are in no table:
 * they are computed again when a snapshot is read.
 */
#ifndef CKPT_FSM_RECORDS_ALLOCATION_H
#define CKPT_FSM_RECORDS_ALLOCATION_H

#include "fsm/limits.h"
#include "fsm/records/record.h"

/* clang-format off */
#define FSM_ALLOCATION_SPEC(FIELD, TEXT)                                                           \
    TEXT(tenant)                                                                                   \
    TEXT(project)                                                                                  \
    TEXT(vcluster)                                                                                 \
    TEXT(owner)                                                                                    \
    TEXT(profile)                                                                                  \
    TEXT(attributes)                    /* of one that checkpoints itself; "": none */             \
    TEXT(continues)                     /* the job whose checkpoints went over to it; "": none */  \
    TEXT(jurisdiction)                  /* of a sensitive one: to which it keeps; "": any */       \
    FIELD(uint64_t, submitted_at_ms, FSM_TIME_MAX_MS)                                              \
    FIELD(uint64_t, started_at_ms, FSM_TIME_MAX_MS)                                                \
    FIELD(uint64_t, walltime_ms, FSM_DURATION_MAX_MS)           /* 0: none */                      \
    FIELD(uint64_t, grace_ms, FSM_DURATION_MAX_MS)              /* 0: the policy's, at each use */ \
    FIELD(uint64_t, period_ms, FSM_DURATION_MAX_MS)             /* 0: none */                      \
    FIELD(uint64_t, first_period_ms, FSM_DURATION_MAX_MS)       /* 0: none */                      \
    FIELD(uint64_t, retention_ms, FSM_DURATION_MAX_MS)          /* 0: its tenant's */              \
    FIELD(uint64_t, checkpoint_timeout_ms, FSM_DURATION_MAX_MS) /* 0: the policy's */              \
    FIELD(uint64_t, write_bytes_per_s, FSM_BANDWIDTH_MAX)       /* per node; 0: the policy's */    \
    FIELD(Ckpt__V1__Strategy, strategy, RECORD_ANY)                                                \
    FIELD(Ckpt__V1__RequeuePolicy, requeue_policy, RECORD_ANY)                                     \
    FIELD(Ckpt__V1__VclusterKind, vcluster_kind, RECORD_ANY)                                       \
    FIELD(Ckpt__V1__RestoreMode, restore, RECORD_ANY)                                              \
    FIELD(Ckpt__V1__DomainRule, domain_rule, RECORD_ANY)                                           \
    FIELD(Ckpt__V1__Staging, staging, RECORD_ANY)              /* UNSPECIFIED: the target's */     \
    FIELD(Ckpt__V1__RestartMode, restart, RECORD_ANY)                                              \
    FIELD(Ckpt__V1__OnHang, on_hang, RECORD_ANY)                                                   \
    FIELD(uint32_t, max_requeue, FSM_REQUEUE_MAX)                                                  \
    FIELD(uint32_t, keep_complete, FSM_COMPLETE_KEPT_MAX)       /* 0: its tenant's */              \
    FIELD(uint32_t, reactive_min_nodes, FSM_NODES_PER_ALLOCATION_MAX)                              \
    FIELD(uint32_t, reactive_max_nodes, FSM_NODES_PER_ALLOCATION_MAX)                              \
    FIELD(uint8_t, preemption_class, FSM_CLASS_MAX)                                                \
    FIELD(bool, sensitive, true)

#define FSM_ALLOCATION_STATUS(FIELD, TEXT)                                                         \
    TEXT(continued_by)                 /* the last job to which its checkpoints went; "": none */  \
    TEXT(restart_choice)                /* why the broker's last restart is on these nodes */      \
    TEXT(cause_node_id)                 /* of the first cause of its last failure; "": none */     \
    TEXT(hang_text)                     /* of its last hang: who is behind, and why; "": none */   \
    FIELD(Ckpt__V1__AllocationState, state, RECORD_ANY)                                            \
    FIELD(Ckpt__V1__Reason, reason, RECORD_ANY)                                                    \
    FIELD(uint64_t, state_since_ms, FSM_TIME_MAX_MS)                                               \
    FIELD(uint64_t, registered_index, RECORD_ANY)                                                  \
    FIELD(uint64_t, size_estimate_bytes, FSM_ALLOCATION_BYTES_MAX)                                 \
        /* of all nodes; learned from completed ones, first from used GPU memory */                \
    FIELD(uint64_t, restart_at_ms, 2 * FSM_TIME_MAX_MS)                                            \
        /* stopped: the broker does not restart it before; 0: it does not at all */                \
    FIELD(uint64_t, cause_at_ms, FSM_TIME_MAX_MS) /* of that cause: since when it was silent */    \
    FIELD(uint64_t, hung_since_ms, FSM_TIME_MAX_MS)            /* it is HUNG; 0: it is not */      \
    FIELD(uint64_t, last_step_at_ms, FSM_TIME_MAX_MS)          /* before its last hang; 0: none */ \
    FIELD(uint64_t, write_estimate_ms, RECORD_ANY)                                                 \
        /* bound for timeouts: rises at once, falls slowly; 0: unknown */                          \
    FIELD(uint64_t, told_write_ms, FSM_TOLD_WRITE_MAX_MS)                                          \
        /* its application's own word at its last checkpoint; 0: it never told */                  \
    FIELD(uint32_t, requeue_count, RECORD_ANY)                                                     \
    FIELD(uint32_t, preempted_count, RECORD_ANY)                                                   \
    FIELD(uint32_t, restart_count, RECORD_ANY)                                                     \
    FIELD(uint32_t, restarts_without_progress, RECORD_ANY)                                         \
    FIELD(uint32_t, cause_wait_status, RECORD_ANY) /* of that cause; 0: the node was lost */       \
    FIELD(uint32_t, cause_count, RECORD_ANY) /* so often in a row it was that node's */            \
    FIELD(bool, unresponsive, true)                                                                \
        /* it did not answer when it was asked last, and has written no checkpoint since */

#define FSM_ALLOCATION_KEPT(FIELD, TEXT)                                                           \
    FIELD(uint64_t, last_complete_id, RECORD_ANY)               /* 0: none */                      \
    FIELD(uint64_t, last_complete_snapshot_ms, RECORD_ANY)                                         \
        /* work after this instant would be recomputed; started_at_ms when there is none */        \
    FIELD(uint64_t, previous_complete_id, RECORD_ANY)                                              \
    FIELD(uint64_t, last_attempt_end_ms, RECORD_ANY)                                               \
        /* of the last terminal checkpoint: the minimal interval counts from here too */           \
    FIELD(uint64_t, complete_count, RECORD_ANY)                                                    \
    FIELD(uint64_t, waited_ms, RECORD_ANY)                                                         \
        /* stopped, until it was started again: it held no nodes, so no time is lost */            \
    FIELD(uint64_t, resumed_at_ms, RECORD_ANY)                                                     \
        /* when it ran again after a preemption; 0: it was not preempted */                        \
    FIELD(uint64_t, restart_id, RECORD_ANY)                                                        \
        /* the checkpoint that all parts of this run are to begin from; 0: from scratch */         \
    FIELD(uint64_t, scaled_at_ms, RECORD_ANY)                                                      \
        /* when it was preempted, restarted or shrunk: it does not grow for a while; 0: never */   \
    FIELD(uint32_t, target_slot, FSM_TARGETS_MAX - 1)                                              \
    FIELD(uint32_t, death_count, RECORD_ANY)                                                       \
        /* times that its application ended by itself before it was done */                        \
    FIELD(uint32_t, node_gpus, FSM_GPUS_PER_NODE_MAX)                                              \
        /* the policy's, as its account has taken it over */                                       \
    FIELD(bool, profile_named, true)                 /* its registration named the profile */      \
    FIELD(Ckpt__V1__Reason, terminate_reason, RECORD_ANY)                                          \
    FIELD(bool, walltime_asked, true)                /* the walltime's checkpoint was requested */ \
    FIELD(bool, walltime_warned, true)               /* its end soon was announced */              \
    FIELD(bool, terminating, true)                   /* a terminate order stands */                \
    FIELD(bool, leaving, true)                                                                     \
        /* the scale-down's checkpoint has ended, and the leaving parts are terminated */

#define FSM_ALLOCATION_INSIDE(FIELD, TEXT)                                                         \
    FIELD(uint64_t, account_at_ms, RECORD_ANY)                                                     \
    FIELD(uint64_t, inherited_gpu_ms, RECORD_ANY)                                                  \
        /* useful_gpu_ms of the newest checkpoint that came from the job that it continues */      \
    FIELD(uint64_t, inherited_since_ms, FSM_TIME_MAX_MS)                                           \
        /* submitted_at_ms of the first of the jobs that it continues; 0: it continues none */     \
    FIELD(uint64_t, hazard_e12, RECORD_ANY)          /* of the last decision; 0: none yet */       \
    FIELD(uint64_t, stake_gpu_ms, RECORD_ANY)                                                      \
        /* GPU time that the last checkpoint saves at a failure before stake_until_ms */           \
    FIELD(uint64_t, stake_until_ms, RECORD_ANY)                                                    \
    FIELD(uint64_t, terminate_deadline_ms, 2 * FSM_TIME_MAX_MS)                                    \
        /* then silent nodes count as done */                                                      \
    FIELD(uint64_t, grace_end_ms, 2 * FSM_TIME_MAX_MS)   /* then SIGKILL */                        \
    FIELD(uint64_t, read_sequence, RECORD_ANY)                                                     \
        /* its place in line to read, by the command that put it there; 0: no part reads */        \
    FIELD(uint64_t, read_until_ms, 2 * FSM_TIME_MAX_MS)  /* then its readers lose their places */  \
    FIELD(uint32_t, read_target_slot, FSM_TARGETS_MAX - 1)           /* from where they read */    \
    FIELD(uint8_t, plan_state, UINT8_MAX)            /* its state after its nodes are done */      \
    FIELD(uint8_t, plan_reason, UINT8_MAX)                                                         \
    FIELD(uint8_t, leave_reason, UINT8_MAX)      /* of nodes that leave without a checkpoint */    \
    FIELD(uint8_t, preemptor_class, FSM_CLASS_MAX)       /* of the last preemption; 0: none */     \
    FIELD(bool, expired, true)                                                                     \
        /* FAILED or COMPLETED for longer than the retention: leaves when its folders are          \
         * collected */

/* Integers alike on every member (books/learn.c). Size: size_estimate_bytes is the mean. */
#define FSM_ALLOCATION_LEARNED(FIELD, TEXT)                                                        \
    FIELD(uint64_t, write_mean_us, 2 * FSM_DURATION_MAX_MS * 1000)                                 \
        /* from asking the application until the last shard was verified */                        \
    FIELD(uint64_t, write_deviation_us, 2 * FSM_DURATION_MAX_MS * 1000)       /* standard */       \
    FIELD(uint64_t, size_deviation_bytes, FSM_ALLOCATION_BYTES_MAX)                                \
    FIELD(uint32_t, count, RECORD_ANY)         /* complete checkpoints; 0: nothing is known */     \
    FIELD(uint32_t, done_e6, FSM_OUTCOMES_E6_MAX)    /* moving counts of outcomes, times 10^6 */   \
    FIELD(uint32_t, failed_e6, FSM_OUTCOMES_E6_MAX)                                                \
    FIELD(uint32_t, stall_ppm, FSM_PPM)                                                            \
        /* of the write, during which the application stood still */                               \
    FIELD(bool, stall_measured, true)

/* A share of a node: the scheduler's values (NodeShare, and ShareRecord), and values that the
 * broker reads as well (ShareRecord). */
#define FSM_SHARE_SPEC(FIELD, TEXT)                                                                \
    FIELD(uint64_t, gpu_memory_used_bytes, FSM_NODE_BYTES_MAX)                                     \
    FIELD(uint32_t, gpu_count, FSM_GPUS_PER_NODE_MAX)                                              \
    FIELD(bool, borrowed, true)

#define FSM_SHARE_KEPT(FIELD, TEXT)                                                                \
    FIELD(uint64_t, run, RECORD_ANY)           /* of the part there (id.h); 0: of `next` */        \
    FIELD(uint32_t, node_slot, FSM_NODES_MAX - 1)

/* The part on the node: values that the state machine alone needs (ShareRecord). */
#define FSM_SHARE_PART(FIELD, TEXT)                                                                \
    FIELD(bool, terminated, true)  /* its terminate order is carried out, or its node is down */   \
    FIELD(bool, away, true)        /* its node is down: terminated until the node is back */       \
    FIELD(bool, exited, true)      /* its application has ended by itself, with status 0 */        \
    FIELD(bool, starting, true)    /* it is to start, or to start again, and has not yet */        \
    FIELD(bool, restored, true)    /* its files of restart_id are verified */                      \
    FIELD(bool, joined, true)      /* it came after its run had begun: it restores nothing */      \
    FIELD(uint8_t, restored_as, CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH)                         \
        /* with restored: its RestoreMode; 0: it did not say */                                    \
    FIELD(uint32_t, shard, FSM_NODES_PER_ALLOCATION_MAX)                                           \
        /* the shard of restart_id that it restores, + 1; 0: none. Kept when places change */      \
    FIELD(bool, read_waits, true)  /* it is in line to read its files */                           \
    FIELD(bool, reads, true)       /* it was let in: it may read, ... */                           \
    FIELD(uint64_t, read_bytes_per_s, FSM_BANDWIDTH_MAX)  /* ... at this rate; 0: at any */        \
    FIELD(uint32_t, user, RECORD_ANY)                                                              \
        /* of the node, whose it was when it last began there, + 1; 0: nobody's so far */

/* A part that left the job, and that may run on (DepartedRecord). */
#define FSM_DEPARTED(FIELD, TEXT)                                                                  \
    FIELD(uint64_t, run, RECORD_ANY)                                                               \
    FIELD(uint32_t, node_slot, FSM_NODES_MAX - 1)
/* clang-format on */

#endif
