/* Nodes of sensitive jobs: nobody else is beside them (N-001).
 *
 * Flow     asked before a job gets nodes: at its registration, when its set changes, and at a
 *          restart, whoever chose the nodes.
 * Shapes   besides the parts of running jobs those count that may run on there: of stopped jobs
 *          (unended.c), and those that left their jobs (departed.c). A job whose next set has the
 *          node counts as well (scale.c).
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* A sensitive job is alone: a node on which one is has few parts, but for nodes that were shared
 * before level 2. So no registration walks over the thousands of jobs of one node. */
enum { PARTS_LOOKED = 256 };

static bool is_beside(const struct allocation *other, const struct holder *holder)
{
    CHECK(other->view.id != NULL);
    return other != holder->job && other != holder->before &&
           (holder->sensitive || other->view.sensitive);
}

static bool parts_beside(const struct list *parts, const struct holder *holder)
{
    unsigned left = PARTS_LOOKED;

    CHECK(parts->next != NULL);
    for (const struct list *at = parts->next; at != parts && left > 0; at = at->next, left--)
        if (is_beside(LIST_ITEM_CONST(at, struct assignment, in_node)->allocation, holder))
            return true;
    return false;
}

/* Jobs that get the node with their next set, which waits for a checkpoint (scale.c). All jobs are
 * looked at while there is such a set, and the node has a job that is not there: that is rare. */
static bool joins_beside(const struct fsm *fsm, const struct node *node,
                         const struct holder *holder)
{
    CHECK(node->view.id != NULL);
    if (fsm->next_set_count == 0 || node->going_count <= node->view.allocation_count)
        return false;
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        const struct allocation *job = allocation_find_slot(fsm, slot);

        if (job == NULL || job->view.next_count == 0 || !is_beside(job, holder))
            continue;
        for (uint32_t i = 0; i < job->view.next_count; i++)
            if (job->view.next[i].node_slot == node->view.slot)
                return true;
    }
    return false;
}

bool fsm_node_is_shared(const struct fsm *fsm, const struct node *node, const struct holder *holder)
{
    const struct list *departed = &node->departed;
    unsigned left = PARTS_LOOKED;

    CHECK(node->view.id != NULL);
    if (fsm_level(fsm) < 2)
        return false;
    if (parts_beside(&node->assignments, holder) || parts_beside(&node->unended, holder) ||
        joins_beside(fsm, node, holder))
        return true;
    for (const struct list *at = departed->next; at != departed && left > 0; at = at->next, left--)
        if (is_beside(LIST_ITEM_CONST(at, struct departed, in_node)->allocation, holder))
            return true;
    return false;
}
