/* Every replicated limit. "Full" is an outcome (fsm/status.h), never a crash. */
#ifndef CKPT_FSM_LIMITS_H
#define CKPT_FSM_LIMITS_H

enum {
    FSM_ID_BYTES = 129, /* 128 and the terminator */
    FSM_ALLOCATIONS_MAX = 2000000,
    FSM_NODES_MAX = 65536,
    FSM_NODES_PER_ALLOCATION_MAX = 4096,
    FSM_GPUS_PER_NODE_MAX = 1024,
    FSM_CHECKPOINTS_PER_ALLOCATION_MAX = 64, /* records kept; the oldest collected or failed ones go first */
    FSM_TARGETS_MAX = 64,
    FSM_QUEUES_MAX = 256,
    FSM_WAITING_PER_QUEUE_MAX = 64,
    FSM_SESSIONS_MAX = 1000000,
    FSM_EVENTS_MAX = 65536,
    FSM_VICTIMS_MAX = 16,
    FSM_DECISIONS_PER_COMMAND_MAX = 4096,
    FSM_COMMAND_MAX_BYTES = 1 << 18, /* 256 KiB, one request */
    FSM_PREFIX_MAX_BYTES = 1024,
    FSM_ORDERS_PER_NODE_MAX = 1024,
    FSM_CLASS_MAX = 10
};

_Static_assert(FSM_VICTIMS_MAX >= 3, "the policy's default of three victims must fit");
_Static_assert(FSM_NODES_PER_ALLOCATION_MAX <= FSM_NODES_MAX, "an allocation may span all nodes at most");

#endif
