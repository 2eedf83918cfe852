/* What a run begins from: one checkpoint for all of its parts, chosen once in the state.
 *
 * Flow     the start of all parts names the run's restart_id (allocation.c). Each part says
 *          RESTORED when it has what it needs of that; when all have, they may begin. One that
 *          finds its shard damaged says RESTART_DAMAGED.
 * Shapes   a word about another checkpoint than restart_id, or of a part that joined, changes
 *          nothing. A checkpoint that is damaged stays so.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* The last of them lets all of them begin: their orders say so. */
void fsm_begin_restored(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                        uint64_t checkpoint_id)
{
    CHECK(part->allocation == allocation);
    if (checkpoint_id == 0 || checkpoint_id != allocation->view.restart_id || part->joined ||
        part->restored)
        return;
    part->restored = true;
    allocation->restored_count++;
    CHECK(allocation->restored_count <= allocation->view.node_count);
    if (fsm_begin_part(part).may_begin)
        fsm_allocation_changed(fsm, allocation);
}

void fsm_begin_damaged(struct fsm *fsm, struct allocation *allocation, uint64_t checkpoint_id)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));

    CHECK(allocation->view.id != NULL);
    if (checkpoint == NULL || checkpoint_id != allocation->view.restart_id ||
        checkpoint->view.allocation_slot != allocation->view.slot)
        return;
    fsm_retention_damaged(fsm, allocation, checkpoint);
}
