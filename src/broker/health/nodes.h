/* What the leader knows of nodes beside the replicated state: when each was heard of last.
 *
 * Flow     the dispatcher calls nodes_heard() for hellos and heartbeats; a timer compares ages with
 *          the policy and proposes NodeSeen DEGRADED, then AGENT_LOST. With a second witness it
 *          proposes DOWN: telemetry or a BMC's word (from the first missed heartbeat on), a
 *          scheduler's word, members that get no answer (node_probe.h). A node that is heard again
 *          is proposed READY. A node that no agent ever reported has no age:
 *          silence says nothing of it. What heartbeats say of health goes to node_health.h, how
 *          many GPUs it has stays here.
 * Shapes   one record per node slot; one NodeSeen in flight per node, NODES_IN_FLIGHT_MAX in all,
 *          and nodes given up while those before have fewer than NODES_ALLOCATIONS_IN_FLIGHT_MAX
 *          allocations: a look stops there, and goes on where it stopped when these are applied.
 *          One log line per look.
 * Units    milliseconds, monotonic clock.
 * Errors   a proposal that fails is repeated by a later look.
 * Absent   replication of heartbeats: a new leader starts every age at its own start, so that a
 *          failover never kills a node.
 * Source   F-006, F-007, S3-060, V-003.
 */
#ifndef CKPT_BROKER_NODES_H
#define CKPT_BROKER_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "ckpt/v1/agent.pb-c.h"

struct broker;
struct fsm_node;
struct node_health;
struct nodes;

enum {
    NODES_IN_FLIGHT_MAX = 256,
    NODES_ALLOCATIONS_IN_FLIGHT_MAX = 2048 /* that end with their nodes: one turn of the loop */
};

/* Made before the dispatcher, which feeds it, and on every member; it rests until nodes_start().
 * Freed after the dispatcher, when the replica is closed. */
struct nodes *nodes_new(struct broker *broker);
void nodes_free(struct nodes *nodes);
/* The dispatcher calls these when leadership begins and ends, since it is the one that hears
 * agents. */
void nodes_start(struct nodes *nodes);
void nodes_stop(struct nodes *nodes);

/* heartbeat NULL: a sign of life without numbers (hello, report). */
void nodes_heard(struct nodes *nodes, uint32_t node_slot,
                 const Ckpt__V1__AgentHeartbeat *heartbeat);
/* Where members probe the node: its agent's setting, and the address of its stream's other end. */
void nodes_reached(struct nodes *nodes, uint32_t node_slot, const char *setting, const char *peer);
/* The i-th of its tools that save programs from outside, as its agent tells; NULL: no more. */
enum { NODES_TOOLS_MAX = 4, NODES_TOOL_BYTES = 200 };
const char *nodes_tool(const struct nodes *nodes, uint32_t node_slot, size_t i);
/* No agent ever spoke for it, to any leader: a job, or an operator who drains it, named it. */
bool nodes_unreported(const struct fsm_node *node);
/* UINT64_MAX: not heard of by this leader. */
uint64_t nodes_heartbeat_age_ms(const struct nodes *nodes, uint32_t node_slot);
/* Owned by nodes; NULL for NULL. */
struct node_health *nodes_health(const struct nodes *nodes);
/* As it said to this leader; 0: it did not. */
uint32_t nodes_gpus(const struct nodes *nodes, uint32_t node_slot);
/* >= 1. */
double nodes_hazard_factor(const struct nodes *nodes, uint32_t node_slot);

/* What is compared for one node: its age, and the policy's limits with what is added for the sake
 * of its jobs. */
struct node_age {
    bool heard;       /* by this leader; else the age runs since this leader knows the node */
    bool first;       /* the cluster is at level 1: a silence alone makes a node DOWN */
    bool witnessed;   /* somebody beside the silence says that the machine is off */
    bool powered_off; /* ... somebody who is sure at the first missed heartbeat */
    uint64_t age_ms;
    uint64_t missed_after_ms;
    uint64_t degraded_after_ms;
    uint64_t down_after_ms;
};
/* The state that an age means; `now` is the one it has. At level 1 DRAINING stays until the node is
 * down; from level 2 on what is said is what is heard, and the state keeps what is wanted. Only a
 * sign of life makes a node READY. */
Ckpt__Log__V1__NodeState nodes_state_for_age(Ckpt__Log__V1__NodeState now,
                                             const struct node_age *age);

#endif
