/* Which node looks through a target for checkpoints, where no control node may: a job's folders
 * are its user's.
 *
 * Flow     the leader asks (ScanTarget), and the node's agent finds the target in its order set. It
 *          tells what it finds on its stream, and the leader asks for the end. A node that is lost
 *          gives the target back: nobody looks until the leader asks again.
 * Shapes   one node per target at a time; each time another one, those of the target's domain
 *          first. A scan changes nothing and none of it is kept: the next leader begins anew.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"
#include "fsm/orphans.h"

static bool scan_fits(const struct fsm *fsm, const struct target *target, uint32_t slot,
                      bool any_domain)
{
    const struct node *node = node_find_slot(fsm, slot);

    CHECK(target->view.id != NULL);
    return node != NULL && !node->removed &&
           node->view.state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
           (any_domain ||
            (node->view.domain[0] != '\0' && strcmp(node->view.domain, target->view.domain) == 0));
}

/* Once a day for each target, so that a walk through all nodes is no burden. */
static bool scan_choose(const struct fsm *fsm, const struct target *target, uint32_t *ret_slot)
{
    uint32_t end = fsm->nodes.slot_end;

    CHECK(target->view.id != NULL);
    for (int any_domain = 0; any_domain < 2; any_domain++)
        for (uint32_t i = 0; i < end; i++) {
            uint32_t slot = (target->scans + i) % end;

            if (!scan_fits(fsm, target, slot, any_domain == 1))
                continue;
            *ret_slot = slot;
            return true;
        }
    return false;
}

/* Its agent finds the target in its set no more. Whatever it tells of it now is passed over by the
 * leader, which asks the state whose order it was. */
static void scan_end(struct fsm *fsm, struct target *target)
{
    const struct node *node;

    CHECK(target->view.id != NULL);
    CHECK(target->scan_node <= FSM_NODES_MAX);
    if (target->scan_node == 0)
        return;
    node = node_find_slot(fsm, target->scan_node - 1);
    if (node != NULL) /* a snapshot may have been made up */
        fsm_node_changed(fsm, node);
    target->scan_node = 0;
    fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
}

enum fsm_status fsm_apply_scan_target(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__ScanTarget *asked = command->scan_target;
    struct target *target = target_edit(fsm, target_find(fsm, asked->target_id));
    uint32_t slot;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_SCAN_TARGET);
    CHECK(outcome != NULL);
    CHECK(target == NULL || !target->removed);
    if (target == NULL)
        return FSM_TARGET_NOT_FOUND;
    scan_end(fsm, target);
    if (asked->end)
        return FSM_OK;
    if (!scan_choose(fsm, target, &slot))
        return FSM_NODE_NOT_FOUND;
    target->scans++;
    target->scan_node = slot + 1;
    fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
    fsm_node_changed(fsm, node_at(fsm, slot));
    outcome->current = target->scans;
    return FSM_OK;
}

/* One that has only booted anew finds its order as it was, and begins at the first page. */
void fsm_scan_node_lost(struct fsm *fsm, const struct node *node)
{
    CHECK(node->view.id != NULL);
    if (!fsm_node_gone(&node->view))
        return;
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        struct target *target = target_edit(fsm, target_find_slot(fsm, slot));

        if (target != NULL && target->scan_node == node->view.slot + 1)
            scan_end(fsm, target);
    }
}

bool fsm_scan_of(const struct fsm *fsm, uint32_t target_slot, struct fsm_scan *ret_scan)
{
    const struct target *target = target_find_slot(fsm, target_slot);

    CHECK(ret_scan != NULL);
    if (target == NULL || target->removed || target->scan_node == 0)
        return false;
    *ret_scan = (struct fsm_scan){
        .target_slot = target_slot, .node_slot = target->scan_node - 1, .attempt = target->scans};
    return true;
}

size_t fsm_scans_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_scan *ret_scans,
                         size_t max)
{
    struct fsm_scan scan;
    size_t count = 0;

    CHECK(fsm->targets.slot_end <= FSM_TARGETS_MAX);
    CHECK(ret_scans != NULL || max == 0);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        if (!fsm_scan_of(fsm, slot, &scan) || scan.node_slot != node_slot)
            continue;
        if (count < max)
            ret_scans[count] = scan;
        count++;
    }
    return count;
}
