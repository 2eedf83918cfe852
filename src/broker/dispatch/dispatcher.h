/* Duty of the leader: turns decided checkpoints into bandwidth grants and orders, and takes the
 * agents' reports.
 *
 * Flow     applied state -> grants (dispatcher_grants.h) -> GrantBatch; fsm_take_changed_node() ->
 *          OrderSet on the stream of that node. Up: hello -> NodeSeen -> welcome, or where it tells
 *          of another boot: welcome -> next message -> NodeSeen; report -> NodeReport ->
 *          acknowledged after its commit; heartbeats touch nodes.h, and tell of starts whose
 *          reports were lost: NodeRunning. Everything sent is derived
 *          from applied state: another leader derives the same.
 * Shapes   at most one stream per node, the newest wins; at most DISPATCHER_REPORTS_MAX reports of
 *          one stream in flight; one GrantBatch in flight.
 * Units    bytes per second for grants, milliseconds for ages and deadlines; GPU-milliseconds per
 *          10^9 bytes for prices that are told.
 * Errors   a stream ends with UNAVAILABLE and the trailer ckpt-leader-hint when this member
 *          does not lead, with ABORTED when it was replaced or its numbering skips, with
 *          UNAVAILABLE when a report could not be proposed: the agent connects again and repeats
 *          what was not acknowledged.
 * Absent   orders kept beside the state; retries of its own.
 * Source   S1-045, D-001, D-002, F-009, F-022; invariants I20,
 *          I22.
 */
#ifndef CKPT_BROKER_DISPATCHER_H
#define CKPT_BROKER_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"

struct broker;
struct dispatcher;

/* Reports of one stream that wait for their commit. An agent that sends more before it is
 * acknowledged loses its stream (RESOURCE_EXHAUSTED) and begins again. */
enum { DISPATCHER_REPORTS_MAX = 256 };

/* Adds ckpt.v1.AgentService/Session to broker->rpc when that is not NULL. broker->nodes must be
 * there already, and broker->evaluator before leadership begins: without one the order is that of
 * the decisions. */
struct dispatcher *dispatcher_new(struct broker *broker);
/* After the server is freed and the replica is closed. */
void dispatcher_free(struct dispatcher *dispatcher);

/* How many agents are connected to this member; 0 for NULL. */
size_t dispatcher_connected_count(const struct dispatcher *dispatcher);
/* The age is written also for a lost node; UINT64_MAX when this leader never heard of it. */
bool dispatcher_node_connected(const struct dispatcher *dispatcher, const char *node_id,
                               uint64_t *ret_heartbeat_age_ms);
/* Where a waiting checkpoint stands, and who waits for a target; nothing on a member that does not
 * lead. */
void dispatcher_fill_place(struct dispatcher *dispatcher, Ckpt__V1__Checkpoint *checkpoint);
void dispatcher_fill_queue(const struct dispatcher *dispatcher, uint32_t target_slot,
                           Ckpt__V1__TargetStatus *target);

/* For Status, for a minute after the last refusal: a node has two agents. The text lives in the
 * scratch; NULL: none has. */
struct scratch;
char *dispatcher_twin_warning(const struct dispatcher *dispatcher, struct scratch *scratch);

#endif
