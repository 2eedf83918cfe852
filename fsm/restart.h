/* Restarts by the broker: which stopped jobs it starts again, when, and on which nodes.
 *
 * Flow     a job ends REQUEUED, or SUSPENDED by a preemption: from restart_at_ms on the leader
 *          looks for nodes where a ckpt-run of the job waits, and proposes a RestartChoice. The
 *          state decides: it takes the choice only while all of this still holds.
 * Shapes   the leader knows who waits where (src/broker/decide/restarter.h); the state does not.
 * Units    milliseconds of the state's clock; nodes are counted.
 * Source   V-001, V-002, S1-022, S3-047, F-008, F-015.
 */
#ifndef CKPT_FSM_RESTART_H
#define CKPT_FSM_RESTART_H

#include "fsm/fsm.h"

enum {
    FSM_RESTART_BACKOFF_MS = 5000, /* before the second restart without progress; doubles */
    FSM_RESTART_BACKOFF_MAX_MS = 600000,
    FSM_FAILED_ON_MIN = 2,          /* failures in a row, after which a node is excluded ... */
    FSM_EXCLUDED_MS = 120000,       /* ... for so long since the last one: others may come */
    FSM_PREEMPTED_KEPT_MS = 300000, /* for who is to come to nodes that a preemption freed */
    FSM_PEERS_GRACE_MS = 1000       /* of parts whose peer has died: they hang in a collective */
};

/* The broker restarts it when it has stopped: it is neither sensitive, nor MANUAL, nor NEVER. */
bool fsm_restart_is_auto(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The job has stopped and the broker restarts it, from allocation->restart_at_ms on. */
bool fsm_restart_awaited(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* So many nodes does its restart take: as before, or fewer where it can go on with fewer; of these
 * at least so many that it did not have, after a move. */
struct fsm_restart_nodes {
    uint32_t most, fewest, others;
};
struct fsm_restart_nodes fsm_restart_nodes(const struct fsm *fsm,
                                           const struct fsm_allocation *allocation);
/* The node was the cause of the job's last failures, without progress between: others come first.
 * A person's restart begins the count anew. */
bool fsm_restart_failed_on(const struct fsm_allocation *allocation, const struct fsm_node *node);
/* ... which is cause_node_id, and is not taken before then; 0: none is excluded. */
uint64_t fsm_restart_excluded_until_ms(const struct fsm_allocation *allocation);
/* FAILED by a failure after which it would be requeued, had it not been as often as it may without
 * a complete checkpoint: so often; 0: that is not why. */
uint32_t fsm_restart_requeues_used(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The place among its nodes; node_count: it is none of them. */
uint32_t fsm_restart_place(const struct fsm_allocation *allocation, const struct fsm_node *node);
/* OK: the job may be restarted on the node at that instant of the state's clock, which stands still
 * between commands. Else why not: NODE_DOWN, NODE_DRAINING, NODE_SHARED, NODE_UNLIKE,
 * NODE_OUTSIDE_DOMAIN, NODE_EXCLUDED, NODE_LEFT (the job was moved away from it, or it was taken by
 * a preemption and is not free again). */
enum fsm_status fsm_restart_node_status(const struct fsm *fsm,
                                        const struct fsm_allocation *allocation,
                                        const struct fsm_node *node, uint64_t now_ms);

#endif
