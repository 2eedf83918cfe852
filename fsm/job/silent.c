/* Nodes of a stopped job that are only silent: its processes may run on there, and nobody knows.
 *
 * Flow     a part that counted as done without its node's word keeps that mark when its job has
 *          ended (`away`). One whose job a scheduler ended has no mark at all. Its node was silent
 *          then; while nobody has heard it since, and nobody
 *          has said that the machine is off, a run elsewhere would be a second copy. The agent ends
 *          the old run when it is heard.
 * Absent   the window from the moment at which the agent is heard until it has ended what it finds:
 *          a run that begins there meanwhile waits for that end, one elsewhere does not.
 */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

/* Of nodes that were down when the level rose nothing else is known. */
uint64_t fsm_node_silent_since_ms(const struct fsm_node *view)
{
    CHECK(view->id != NULL);
    if (view->silent_since_ms != 0)
        return view->silent_since_ms;
    return fsm_node_gone(view) ? fsm_max(view->state_since_ms, 1) : 0;
}

/* It counted as done without its node's word; or a scheduler ended the job, whatever ran. */
static bool unheard_part(const struct assignment *part)
{
    return part->away || !(part->terminated || part->exited);
}

/* It was silent when the job ended: a silence is noticed when it has lasted for a while. */
static bool silent_part(const struct fsm *fsm, const struct allocation *allocation, uint32_t i)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct fsm_node *node = &node_at(fsm, view->nodes[i].node_slot)->view;
    uint64_t since_ms = fsm_node_silent_since_ms(node);

    CHECK(i < view->node_count);
    return unheard_part(&allocation->assignments[i]) && since_ms != 0 && node->off_at_ms == 0 &&
           since_ms <= fsm_add(view->state_since_ms, fsm->policy.node_degraded_after_ms);
}

uint32_t fsm_silent_place(const struct fsm *fsm, const struct allocation *allocation, uint32_t from)
{
    CHECK(allocation->view.id != NULL);
    if (fsm_level(fsm) < 2 || allocation->assigned)
        return UINT32_MAX;
    for (uint32_t i = from; i < allocation->view.node_count; i++)
        if (silent_part(fsm, allocation, i))
            return i;
    return UINT32_MAX;
}

enum fsm_status fsm_silent_refusal(const struct fsm *fsm, const struct allocation *allocation,
                                   uint32_t place, struct fsm_outcome *outcome)
{
    const struct fsm_node *node = &node_at(fsm, allocation->view.nodes[place].node_slot)->view;

    CHECK(outcome != NULL);
    outcome->subject = node->id;
    outcome->current = fsm_since(fsm, fsm_node_silent_since_ms(node)) / 1000;
    outcome->limit = 0;
    return FSM_NODE_SILENT;
}

const struct fsm_node *fsm_allocation_silent(const struct fsm *fsm,
                                             const struct fsm_allocation *view)
{
    uint32_t place = fsm_silent_place(fsm, allocation_at(fsm, view->slot), 0);

    CHECK(view->id != NULL);
    return place == UINT32_MAX ? NULL : &node_at(fsm, view->nodes[place].node_slot)->view;
}

bool fsm_part_unheard(const struct fsm *fsm, const struct fsm_allocation *view, uint32_t place)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(place < view->node_count);
    return !allocation->assigned && unheard_part(&allocation->assignments[place]) &&
           node_at(fsm, view->nodes[place].node_slot)->view.off_at_ms == 0;
}
