/* Every replicated limit. "Full" is an outcome (fsm/status.h), never a crash. */
#ifndef CKPT_FSM_LIMITS_H
#define CKPT_FSM_LIMITS_H

#include <stdint.h>

enum {
    FSM_ID_BYTES = 129, /* 128 and the terminator */
    FSM_ALLOCATIONS_MAX = 2000000,
    FSM_NODES_MAX = 65536,
    FSM_NODES_PER_ALLOCATION_MAX = 4096,
    FSM_DEPARTED_MAX = 4096, /* nodes that left a job and may run it on; the first gives way */
    FSM_RESTORE_ALL_NODES_MAX = 256, /* each node brings the parts of all */
    FSM_GPUS_PER_NODE_MAX = 1024,
    FSM_RANKS_PER_NODE_MAX = 256, /* of one job */
    FSM_PLATFORM_BYTES = 65, /* with the terminator: architecture, operating system of a node */
    /* kept records; the oldest collected or failed ones go first */
    FSM_CHECKPOINTS_PER_ALLOCATION_MAX = 64,
    /* complete checkpoints of an allocation; older ones expire at once */
    FSM_COMPLETE_KEPT_MIN = 2, /* the newest may turn out to be damaged */
    FSM_COMPLETE_KEPT_MAX = 32,
    FSM_ENDED_KEPT_MAX = 16,   /* records without a folder kept as history of an allocation */
    FSM_UNDELETED_MAX = 16384, /* folders that could not be removed; then the oldest is forgotten */
    FSM_UNDELETED_REASON_BYTES = 256, /* with the terminator */
    FSM_DETAIL_BYTES = 201,           /* likewise, an agent's words about a failure */
    FSM_PAUSE_BY_BYTES = 129,         /* likewise, who paused the cluster */
    FSM_COLLECTABLE_MAX = 64,         /* folders that the collector gets at once */
    FSM_PINNED_MAX = 16,              /* of one allocation */
    FSM_EXPIRED_PER_COMMAND_MAX = 1024,
    FSM_REMOVALS_PER_NODE_MAX = 16,     /* folders that a node is to remove at a time */
    FSM_VERIFICATIONS_PER_NODE_MAX = 4, /* checkpoints that a node reads again at a time */
    FSM_VERIFIED_PER_COMMAND_MAX = 64,
    FSM_VERIFY_TRIES_MAX = 4, /* nodes that tried to read a part, and could not */
    FSM_ORPHANS_PER_COMMAND_MAX = 256,
    FSM_TARGETS_MAX = 64,
    FSM_RESTORES_MAX = 1 << 20, /* parts that read from a target at a time */
    FSM_WRITES_MAX = 1 << 20,   /* parts that are written to it at a time */
    FSM_TENANTS_MAX = 1024,     /* with sums of their own; the last one stands for all others */
    FSM_QUEUES_MAX = 256,
    FSM_DRILLS_MAX = 32, /* kept; the oldest gives way */
    FSM_WAITING_PER_QUEUE_MAX = 64,
    FSM_PAST_REQUESTS_MAX = 1000000,
    FSM_REQUEST_FIELDS_MAX = 20,         /* of a command, by prints; what is beyond is not named */
    FSM_PAST_REQUEST_MIN_AGE_MS = 15000, /* a younger one is never evicted: SESSIONS_FULL instead */
    FSM_PAST_REQUESTS_EVICTED_PER_COMMAND_MAX =
        8, /* a few thousand commands are applied in one turn */
    FSM_EVENTS_MAX = 65536,
    FSM_MEMBERS_MAX = 64, /* removed ones included; the one removed first gives way */
    FSM_VICTIMS_MAX = 16,
    FSM_REVIEW_PER_TICK_MAX = 1000, /* jobs, when retention has changed */
    FSM_PREEMPTIONS_MAX = 1024,     /* kept; the oldest ended one gives way */
    /* candidates in place of lost victims; the next Tick goes on */
    FSM_VICTIMS_LOOKED_PER_TICK_MAX = 65536,
    FSM_DECISIONS_PER_COMMAND_MAX = 4096,
    FSM_RUNNING_PER_COMMAND_MAX = 256,
    FSM_INPUT_NUMBERS_MAX = 64, /* inputs of a decision: of a job, of a policy */
    FSM_INPUT_SOURCES_MAX = 32,
    /* policies of cycles; above the limit decisions are kept without their inputs */
    FSM_BASES_MAX = 1 << 18,
    FSM_AUDIT_CALLS_MAX = 64,        /* of one command */
    FSM_TIMERS_PER_TICK_MAX = 4096,  /* the next Tick goes on */
    FSM_COMMAND_MAX_BYTES = 1 << 18, /* 256 KiB, one request */
    FSM_PREFIX_MAX_BYTES = 1024,
    FSM_ORDERS_PER_NODE_MAX = 1024,
    FSM_COPIES_PER_NODE_MAX = 4096, /* of its own shards that a node keeps */
    FSM_SHARD_PLACES_MAX = 4,       /* of a part of a checkpoint */
    FSM_CLASS_MAX = 10,
    FSM_REQUEUE_MAX = 100,
    FSM_ATTEMPTS_MAX = 16,
    FSM_GENERATIONS_MAX = 255, /* as in a MANIFEST */
    /* after the grace: a silent node's part then counts as ended */
    FSM_CAUSE_AGAIN_MS = 5000, /* between looks at silent nodes that may be the cause of an end */
    FSM_TERMINATE_SLACK_MS = 30000,
    /* time for delivery that a STARTED report adds when it restarts the deadline */
    FSM_REPORT_SLACK_MAX_MS = 5000,
    FSM_REPORT_SLACK_MIN_MS = 250,
    /* learn.c */
    FSM_GROUPS_CALM = FSM_CLASS_MAX + 2, /* of jobs: by preemption class, then on borrowed nodes */
    /* likewise again, while the queue of their vCluster is busy */
    FSM_GROUPS = 2 * FSM_GROUPS_CALM,
    FSM_AGE_BINS = 7, /* of nodes, by the time since their last failure */
    FSM_HAZARD_WORDS = 2 + 2 * FSM_AGE_BINS,
    FSM_ALARM_WORDS = 4
};

#define FSM_TIME_MAX_MS          (UINT64_C(1) << 48)    /* of any instant: year 10889 */
#define FSM_DRAIN_MAX_MS         UINT64_C(31536000000)  /* a year */
#define FSM_DURATION_MAX_MS      UINT64_C(315360000000) /* ten years */
#define FSM_TOLD_WRITE_MAX_MS    UINT64_C(604800000)    /* the longest timeout of a policy */
#define FSM_NODE_BYTES_MAX       (UINT64_C(1) << 50)    /* memory or shard of one node */
#define FSM_BANDWIDTH_MAX        (UINT64_C(1) << 50)    /* bytes per second */
#define FSM_EPOCH_MAX            ((UINT64_C(1) << 24) - 1)
#define FSM_PPM                  UINT64_C(1000000)
#define FSM_ALLOCATION_BYTES_MAX (FSM_NODE_BYTES_MAX * FSM_NODES_PER_ALLOCATION_MAX)
#define FSM_OUTCOMES_E6_MAX      20000000 /* 1 / (1 - 0.95) */

_Static_assert(FSM_VICTIMS_MAX >= 3, "the policy's default of three victims must fit");
_Static_assert(FSM_EVENTS_MAX % 1024 == 0, "the ring is whole pages");
_Static_assert(FSM_NODES_PER_ALLOCATION_MAX <= FSM_NODES_MAX,
               "an allocation may span all nodes at most");
_Static_assert(FSM_COMPLETE_KEPT_MAX + FSM_PINNED_MAX + FSM_ENDED_KEPT_MAX <=
                   FSM_CHECKPOINTS_PER_ALLOCATION_MAX,
               "complete and pinned ones leave room for the others");
_Static_assert(FSM_NODE_BYTES_MAX <= UINT64_MAX / FSM_NODES_PER_ALLOCATION_MAX,
               "an allocation's bytes never overflow");

#endif
