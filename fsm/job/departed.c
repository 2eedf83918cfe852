/* Parts that have left a running job, and of which nobody knows that they have ended.
 *
 * Flow     nodes leave a job at once where somebody says `force` or nothing is saved, and at their
 *          deadline where their agents are silent: the job and whoever takes the nodes wait for
 *          nobody. Processes may live on there. So the node has an order to end that run
 *          (orders.c), as for a part of a stopped job (unended.c), until its agent has said so or
 *          the node has booted. The job's next run begins nowhere before: it would be a second copy
 *          (silent.c).
 * Shapes   one for a node, of the last run there, in the order in which they left. A node that is
 *          given back to the job has a part again: its agent ends the old run before it begins or
 *          ends the new one. Of more than FSM_DEPARTED_MAX the first is forgotten.
 * Absent   level 1 knows of none. One on a node for which no agent ever spoke hinders the broker's
 *          own choice alone (silent.c): an agent may have begun by a leader that was none any more.
 * Source   I61, F-022, R-003.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

#include <malloc.h>

/* The node's order goes with it. A removed node whose last name this was leaves by it. */
static void departed_remove(struct fsm *fsm, struct allocation *allocation, uint32_t place)
{
    struct departed *departed = allocation->departed[place];
    uint32_t node_slot = departed->node_slot;

    CHECK(place < allocation->departed_count);
    CHECK(departed->allocation == allocation);
    list_remove(&departed->in_node);
    free(departed);
    allocation->departed_count--;
    memmove(&allocation->departed[place], &allocation->departed[place + 1],
            (allocation->departed_count - place) * sizeof(struct departed *));
    if (allocation->departed_count == 0) {
        free(allocation->departed);
        allocation->departed = NULL;
    }
    fsm_node_changed(fsm, node_edit(fsm, node_at(fsm, node_slot)));
    fsm_node_unrefer(fsm, node_slot);
}

void fsm_departed_adopt(struct fsm *fsm, struct allocation *allocation, uint32_t node_slot,
                        uint64_t run)
{
    struct node *node = node_edit(fsm, node_at(fsm, node_slot));
    struct departed *departed = check_calloc(1, sizeof(*departed));
    uint32_t place;

    CHECK(allocation->view.id != NULL);
    if (allocation->departed_count == FSM_DEPARTED_MAX)
        departed_remove(fsm, allocation, 0);
    place = allocation->departed_count++;
    allocation->departed =
        check_realloc(allocation->departed, allocation->departed_count, sizeof(struct departed *));
    allocation->departed[place] = departed;
    departed->allocation = allocation;
    departed->node_slot = node_slot;
    departed->run = run;
    list_push_back(&node->departed, &departed->in_node);
    fsm_node_refer(fsm, node_slot);
    fsm_node_changed(fsm, node);
}

/* Whether nobody's word says that nothing of it is left. */
static bool departed_may_run(const struct assignment *part)
{
    CHECK(part->allocation != NULL);
    return part->away || !(part->terminated || part->exited);
}

/* Called before the job's shares change. */
void fsm_departed_note(struct fsm *fsm, struct allocation *allocation,
                       const struct fsm_node_share *next, uint32_t count)
{
    uint64_t stamp = ++fsm->stamp;

    CHECK(allocation->assigned);
    CHECK(count > 0);
    for (uint32_t i = 0; i < count; i++)
        ((struct node *)fsm_pool_at(&fsm->nodes, next[i].node_slot))->stamp = stamp;
    for (uint32_t i = 0; fsm_level(fsm) >= 2 && i < allocation->view.node_count; i++) {
        const struct fsm_node_share *share = &allocation->view.nodes[i];
        const struct node *node = node_at(fsm, share->node_slot);

        if (node->stamp != stamp && departed_may_run(&allocation->assignments[i]))
            fsm_departed_adopt(fsm, allocation, share->node_slot, share->run);
    }
}

/* Those that its shares name now. */
void fsm_departed_return(struct fsm *fsm, struct allocation *allocation)
{
    uint64_t stamp;

    CHECK(allocation->view.id != NULL);
    if (allocation->departed_count == 0)
        return;
    stamp = ++fsm->stamp;
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        ((struct node *)fsm_pool_at(&fsm->nodes, allocation->view.nodes[i].node_slot))->stamp =
            stamp;
    for (uint32_t i = allocation->departed_count; i-- > 0;)
        if (node_at(fsm, allocation->departed[i]->node_slot)->stamp == stamp)
            departed_remove(fsm, allocation, i);
}

void fsm_departed_clear(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    while (allocation->departed_count > 0)
        departed_remove(fsm, allocation, allocation->departed_count - 1);
}

/* departed_count: it has none of that node. */
static uint32_t departed_place(const struct allocation *allocation, uint32_t node_slot)
{
    uint32_t place = 0;

    CHECK(allocation->view.id != NULL);
    while (place < allocation->departed_count &&
           allocation->departed[place]->node_slot != node_slot)
        place++;
    return place;
}

/* An end of a run before that one says nothing of it. */
enum fsm_status fsm_departed_reported(struct fsm *fsm, struct allocation *allocation,
                                      const struct node *node, const Ckpt__V1__AgentReport *report)
{
    uint32_t place = departed_place(allocation, node->view.slot);

    CHECK(fsm_allocation_part(allocation, node->view.slot) == NULL);
    if (place == allocation->departed_count || !fsm_report_ends(report) ||
        report->run < allocation->departed[place]->run)
        return FSM_NODE_NOT_ASSIGNED;
    departed_remove(fsm, allocation, place);
    return FSM_OK;
}

void fsm_departed_rebooted(struct fsm *fsm, struct node *node)
{
    CHECK(node->view.id != NULL);
    while (!list_empty(&node->departed)) {
        struct departed *departed = LIST_ITEM(node->departed.next, struct departed, in_node);
        struct allocation *allocation = departed->allocation;

        fsm_hold_allocation(fsm, allocation);
        departed_remove(fsm, allocation, departed_place(allocation, node->view.slot));
    }
}

const char *fsm_departed_broken(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if ((allocation->departed_count == 0) != (allocation->departed == NULL))
        return "INDEX departed parts";
    for (uint32_t i = 0; i < allocation->departed_count; i++) {
        const struct departed *departed = allocation->departed[i];

        if (departed->allocation != allocation || list_empty(&departed->in_node) ||
            departed_place(allocation, departed->node_slot) != i)
            return "INDEX departed parts";
        if (departed->run > run_make(fsm->epoch, fsm->command_count))
            return "INDEX a departed run began in the past";
        if (fsm_allocation_part(allocation, departed->node_slot) != NULL)
            return "I61 what left a job is none of its parts";
    }
    return NULL;
}
