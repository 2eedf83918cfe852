/* Checkpoints that lie at a target without a record, and the nodes that look for them.
 *
 * Flow     a leader looks through its targets (src/broker/keep/scanner.c), or orders a node to do
 *          so. The order stays until the leader ends it. For each found id fsm_is_orphan() says
 *          whether an operator may remove the checkpoint (RemoveOrphans).
 * Shapes   at most one node per target. The state does not hold the results.
 */
#ifndef CKPT_FSM_ORPHANS_H
#define CKPT_FSM_ORPHANS_H

#include "fsm/fsm.h"

struct fsm_scan {
    uint32_t target_slot, node_slot;
    uint32_t attempt; /* counted for the target, from 1 */
};
/* The targets that the node is to look through. Returns how many there are; writes at most max. */
size_t fsm_scans_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_scan *ret_scans,
                         size_t max);
/* False: no node looks through it. */
bool fsm_scan_of(const struct fsm *fsm, uint32_t target_slot, struct fsm_scan *ret_scan);
/* True: this cluster has given the id, and has no record of its checkpoint. */
bool fsm_is_orphan(const struct fsm *fsm, uint64_t checkpoint_id);

#endif
