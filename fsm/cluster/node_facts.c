/* Questions about a node, which change nothing: who is gone, what is wanted of it, what is heard of
 * it, and whether its record is as it may be. See fsm/node_life.h. */
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

bool fsm_node_gone(const struct fsm_node *view)
{
    CHECK((unsigned)view->state < FSM_STATES_NODE);
    return view->state == NODE(AGENT_LOST) || view->state == NODE(DOWN);
}

/* A drain of level 1 is in the state alone. */
Ckpt__Log__V1__NodeWanted fsm_node_wanted(const struct fsm_node *view)
{
    if (view->wanted == CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED &&
        view->state == NODE(DRAINING))
        return CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN;
    return view->wanted;
}

enum fsm_status fsm_node_refusal(const struct fsm_node *view)
{
    switch (fsm_node_wanted(view)) {
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN:
        return FSM_NODE_DRAINING;
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DISABLE:
        return FSM_NODE_DISABLED;
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED:
    case _CKPT__LOG__V1__NODE_WANTED_IS_INT_SIZE:
        break;
    }
    return FSM_OK;
}

Ckpt__Log__V1__NodeState fsm_node_contact(const struct fsm_node *view)
{
    CHECK(view->id != NULL);
    if (fsm_node_gone(view))
        return view->state;
    if (view->silent_since_ms != 0 || view->state == NODE(DEGRADED))
        return NODE(DEGRADED);
    return view->boot_id[0] == '\0' && view->state != NODE(READY) ? NODE(UNSPECIFIED) : NODE(READY);
}

/* I65: the deadline of a drain is its timer's. */
static bool node_timer_fits(const struct node *node)
{
    bool armed = node->timer.position != 0;

    CHECK(node->view.id != NULL);
    if (node->view.drain_until_ms == 0)
        return !armed;
    return armed && node->timer.at_ms == node->view.drain_until_ms && !node->removed &&
           node->view.wanted == CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN;
}

const char *fsm_node_broken(const struct node *node)
{
    uint32_t count = 0;

    CHECK(node->view.id != NULL);
    for (const struct list *at = node->assignments.next; at != &node->assignments; at = at->next)
        count++;
    if (count != node->view.allocation_count)
        return "INDEX allocations of a node";
    if (node->view.off_at_ms != 0 && node->view.silent_since_ms == 0)
        return "I63 a node has a second witness only of its silence";
    if (node->view.state == NODE(DRAINED) && node->view.allocation_count != 0)
        return "I64 a node that is drained has no job";
    return node_timer_fits(node) ? NULL : "I65 a drain's deadline is its timer's";
}
