/* Checkpoints that lie at a target without a record, and the nodes that look for them.
 *
 * Flow     a leader looks through its targets (src/broker/keep/scanner.c), or has a node do so: an
 *          order, which stays until the leader asks for its end. fsm_is_orphan() says of each id
 *          that was found whether an operator may let it go (RemoveOrphans).
 * Shapes   at most one node per target. What was found is in no state.
 */
#ifndef CKPT_FSM_ORPHANS_H
#define CKPT_FSM_ORPHANS_H

#include "fsm/fsm.h"

struct fsm_scan {
    uint32_t target_slot, node_slot;
    uint32_t attempt; /* counted for the target, from 1 */
};
/* The targets that a node is to look through. Returns how many there are; writes at most max. */
size_t fsm_scans_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_scan *ret_scans,
                         size_t max);
/* False: no node looks through it. */
bool fsm_scan_of(const struct fsm *fsm, uint32_t target_slot, struct fsm_scan *ret_scan);
/* Whether an id that a scan found is one that this cluster has given, and has no record of. */
bool fsm_is_orphan(const struct fsm *fsm, uint64_t checkpoint_id);

#endif
