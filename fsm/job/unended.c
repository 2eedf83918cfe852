/* Parts of stopped jobs of which the state does not know that they have ended.
 *
 * Flow     a part counts as done without its node's word when its node is gone, when the deadline
 *          of its stop has passed, or when a scheduler ends the job. From then on the node has an
 *          order to end that run (orders.c), whatever runs there. The agent answers with a report,
 *          also when it knows of nothing, and the part has ended by that. A boot ends it as well.
 *          Until then a run that leaves the node out would be a second copy, and is refused
 *          (silent.c).
 * Shapes   such parts are in a list of their node, by the link that they have in its list of
 *          assignments while their job runs. The list follows from the records, and is made again
 *          when a snapshot is read.
 * Absent   a part that a scale-down took from its job: departed.c.
 * Source   I61, F-016, F-022.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

static void unended_link(struct fsm *fsm, struct assignment *part)
{
    const struct fsm_node_share *share = &part->allocation->view.nodes[part->share];
    struct node *node = node_edit(fsm, node_at(fsm, share->node_slot));

    CHECK(list_empty(&part->in_node));
    list_push_back(&node->unended, &part->in_node);
    fsm_node_changed(fsm, node);
}

static void unended_unlink(struct fsm *fsm, struct assignment *part)
{
    const struct fsm_node_share *share = &part->allocation->view.nodes[part->share];

    CHECK(!part->allocation->assigned);
    if (list_empty(&part->in_node))
        return;
    list_remove(&part->in_node);
    fsm_node_changed(fsm, node_edit(fsm, node_at(fsm, share->node_slot)));
}

void fsm_unended_begin(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(!allocation->assigned);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct assignment *part = &allocation->assignments[i];

        unended_unlink(fsm, part);
        if (fsm_part_unended(part))
            unended_link(fsm, part);
    }
}

void fsm_unended_clear(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(!allocation->assigned);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        unended_unlink(fsm, &allocation->assignments[i]);
}

void fsm_unended_told(struct fsm *fsm, struct assignment *part)
{
    CHECK(part->allocation != NULL);
    if (!fsm_part_unended(part))
        unended_unlink(fsm, part);
}

bool fsm_report_ends(const Ckpt__V1__AgentReport *report)
{
    CHECK(report != NULL);
    return report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED ||
           report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED ||
           (report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED &&
            report->will_restart == 0);
}

void fsm_unended_ended(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    CHECK(part->allocation == allocation);
    CHECK(!allocation->assigned);
    part->away = false;
    if (!part->terminated) {
        part->terminated = true;
        allocation->terminated_count++;
    }
    unended_unlink(fsm, part);
    fsm_part_check(allocation, part);
}

void fsm_unended_lives(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    CHECK(part->allocation == allocation);
    CHECK(!allocation->assigned);
    allocation->terminated_count -= part->terminated;
    allocation->exited_count -= part->exited;
    part->terminated = part->exited = part->away = false;
    if (list_empty(&part->in_node))
        unended_link(fsm, part);
    fsm_part_check(allocation, part);
}

void fsm_unended_rebooted(struct fsm *fsm, struct node *node)
{
    CHECK(node->view.id != NULL);
    while (fsm_level(fsm) >= 2 && !list_empty(&node->unended)) {
        struct assignment *part = LIST_ITEM(node->unended.next, struct assignment, in_node);

        fsm_hold_allocation(fsm, part->allocation);
        fsm_unended_ended(fsm, part->allocation, part);
    }
}
