/* Nodes of sensitive jobs: nobody else is beside them (N-001).
 *
 * Flow     asked before a job gets nodes: at its registration, when its set changes, and at a
 *          restart, whoever chose the nodes.
 * Shapes   besides the parts of running jobs those count that may run on there: of stopped jobs
 *          (unended.c), and those that left their jobs (departed.c).
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

static bool is_beside(const struct allocation *other, const struct holder *holder)
{
    CHECK(other->view.id != NULL);
    return other != holder->job && other != holder->before &&
           (holder->sensitive || other->view.sensitive);
}

static bool parts_beside(const struct list *parts, const struct holder *holder)
{
    for (const struct list *at = parts->next; at != parts; at = at->next)
        if (is_beside(LIST_ITEM_CONST(at, struct assignment, in_node)->allocation, holder))
            return true;
    return false;
}

bool fsm_node_is_shared(const struct node *node, const struct holder *holder)
{
    const struct list *departed = &node->departed;

    CHECK(node->view.id != NULL);
    if (parts_beside(&node->assignments, holder) || parts_beside(&node->unended, holder))
        return true;
    for (const struct list *at = departed->next; at != departed; at = at->next)
        if (is_beside(LIST_ITEM_CONST(at, struct departed, in_node)->allocation, holder))
            return true;
    return false;
}
