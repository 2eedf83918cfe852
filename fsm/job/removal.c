/* Folders of expired checkpoints that the control nodes may not remove: they are the jobs' users',
 * and so are the nodes' agents while they remove them.
 *
 * Flow     give() when a control node was refused: a node that wrote the checkpoint, else another
 *          one. Its agent finds the folder in its order set, and reports. A node that is lost, or
 *          is to be emptied, gives back what it had: others get it at once. What fails is given to
 *          the next one after the wait of undeleted.c, when a control node was refused again.
 * Shapes   FSM_REMOVALS_PER_NODE_MAX per node. The state alone says which node is next: the place
 *          of the folder and the number of attempts.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

enum { REMOVAL_LOOKED_MAX = 64 }; /* nodes, for one folder */

static bool removal_fits(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_find_slot(fsm, slot);

    return node != NULL && !node->removed &&
           node->view.state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
           node->removal_count < FSM_REMOVALS_PER_NODE_MAX;
}

/* Who wrote it mounts its destination, and knows its owner. False: none of them can. */
static bool removal_writer(const struct fsm *fsm, const struct undeleted *undeleted,
                           uint32_t *ret_slot)
{
    const struct checkpoint *checkpoint = undeleted->checkpoint;
    uint32_t count = checkpoint == NULL ? 0 : checkpoint->view.shard_count;

    CHECK(undeleted->view.checkpoint_id != 0);
    for (uint32_t i = 0; i < count && i < REMOVAL_LOOKED_MAX; i++) {
        uint32_t slot = checkpoint->shards[(undeleted->view.attempts + i) % count].node_slot;

        if (!removal_fits(fsm, slot))
            continue;
        *ret_slot = slot;
        return true;
    }
    return false;
}

/* Of a large cluster each attempt looks at other nodes. */
static bool removal_other(const struct fsm *fsm, const struct undeleted *undeleted,
                          uint32_t *ret_slot)
{
    uint32_t end = fsm->nodes.slot_end;
    uint64_t first =
        (uint64_t)undeleted->view.attempts * REMOVAL_LOOKED_MAX + undeleted->view.place;

    CHECK(undeleted->view.checkpoint_id != 0);
    for (uint32_t i = 0; i < end && i < REMOVAL_LOOKED_MAX; i++) {
        uint32_t slot = (uint32_t)((first + i) % end);

        if (!removal_fits(fsm, slot))
            continue;
        *ret_slot = slot;
        return true;
    }
    return false;
}

/* The oldest first. Of two that were given at once the place decides: a member that was restored
 * from a snapshot has the same order, in which those of a lost node find other ones. */
static void removal_queue(struct node *node, struct undeleted *undeleted)
{
    const struct fsm_undeleted *view = &undeleted->view;
    struct list *at = node->removals.next;

    CHECK(node->removal_count < FSM_REMOVALS_PER_NODE_MAX);
    for (; at != &node->removals; at = at->next) {
        const struct fsm_undeleted *other = &LIST_ITEM(at, struct undeleted, in_node)->view;

        if (other->given_at_ms > view->given_at_ms ||
            (other->given_at_ms == view->given_at_ms && other->place > view->place))
            break;
    }
    list_push_back(at, &undeleted->in_node);
    node->removal_count++;
}

/* The node is named by the folder's record from here on, so that its slot stays its own. Of a
 * snapshot that was made up, the node may not be there, or have more than it takes. */
bool fsm_removal_link(struct fsm *fsm, struct undeleted *undeleted)
{
    struct node *node = node_edit(fsm, node_find_slot(fsm, undeleted->view.node_slot));

    CHECK(undeleted->view.given);
    if (node == NULL || node->removed || fsm_node_gone(&node->view) ||
        node->removal_count >= FSM_REMOVALS_PER_NODE_MAX) {
        undeleted->view.given = false;
        return false;
    }
    removal_queue(node, undeleted);
    fsm_node_refer(fsm, node->view.slot);
    fsm_node_changed(fsm, node);
    return true;
}

/* The instant says until when the node has time; then a control node tries again, and the order
 * goes to another one (undeleted.c). */
bool fsm_removal_give(struct fsm *fsm, struct undeleted *undeleted)
{
    struct fsm_undeleted *view = &undeleted->view;
    uint32_t slot;

    CHECK(!view->given);
    if (!removal_writer(fsm, undeleted, &slot) && !removal_other(fsm, undeleted, &slot))
        return false;
    view->given = true;
    view->node_slot = slot;
    view->given_at_ms = fsm->now_ms;
    CHECK(fsm_removal_link(fsm, undeleted));
    fsm_moved(fsm, FSM_RECORD_UNDELETED, view->place);
    return true;
}

void fsm_removal_take(struct fsm *fsm, struct undeleted *undeleted)
{
    struct fsm_undeleted *view = &undeleted->view;
    struct node *node = node_edit(fsm, node_at(fsm, view->node_slot));
    uint32_t slot = view->node_slot;

    CHECK(view->given);
    CHECK(node->removal_count > 0);
    list_remove(&undeleted->in_node);
    node->removal_count--;
    view->given = false;
    view->node_slot = 0;
    view->given_at_ms = 0;
    fsm_node_changed(fsm, node);
    fsm_node_unrefer(fsm, slot);
}

/* A node that has only booted anew finds its orders as they were. Each folder is held before it
 * changes: a snapshot may be at work. One that no other node can take is due at once, and a control
 * node tries it. */
void fsm_removal_node_lost(struct fsm *fsm, struct node *node)
{
    if (!fsm_node_gone(&node->view))
        return;
    while (!list_empty(&node->removals)) {
        struct undeleted *undeleted =
            (struct undeleted *)(void *)((char *)node->removals.next -
                                         offsetof(struct undeleted, in_node));

        if (!list_empty(fsm->snapshots))
            fsm_save_undeleted(fsm, undeleted->view.place);
        fsm_removal_take(fsm, undeleted);
        (void)fsm_removal_give(fsm, undeleted);
    }
}

/* In the order in which they were given: the oldest is removed first. */
size_t fsm_removals_on_node(const struct fsm *fsm, uint32_t node_slot,
                            const struct fsm_undeleted **ret_removals, size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    size_t count = 0;

    CHECK(ret_removals != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->removals.next; at != &node->removals; at = at->next) {
        if (count < max)
            ret_removals[count] = &LIST_ITEM_CONST(at, struct undeleted, in_node)->view;
        count++;
    }
    return count;
}
