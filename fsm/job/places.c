/* How many parts of checkpoints are written to a target at a time: its max_writes (S2-032).
 *
 * Flow     a grant takes a place for each part, all at once, and gives them back with its bandwidth
 *          (checkpoint.c). One that has more parts than there are places is written alone, and one
 *          with a deadline asks for none (without_place).
 * Shapes   what was written before the limit was lowered goes on, and is excused until it ends.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

bool fsm_writes_fit(const struct target *target, const struct checkpoint *checkpoint)
{
    const struct fsm_target *view = &target->view;

    CHECK(checkpoint->view.shard_count > 0);
    return view->max_writes == 0 || view->writing_count == 0 ||
           fsm_add(view->writing_count, checkpoint->view.shard_count) <= view->max_writes;
}

void fsm_writes_excused(struct target *target, uint32_t count)
{
    const struct fsm_target *view = &target->view;

    CHECK(view->id != NULL);
    target->excused_writes = view->writing_count <= view->max_writes || view->max_writes == 0
                                 ? 0
                                 : (uint32_t)fsm_min(count, view->writing_count);
}

const char *fsm_writes_broken(const struct target *target)
{
    const struct fsm_target *view = &target->view;
    uint64_t writing = 0, placed = 0, placed_count = 0;

    for (const struct list *at = target->active.next; at != &target->active; at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, queue);

        if (!fsm_checkpoint_writes(checkpoint))
            continue;
        writing += checkpoint->view.shard_count;
        placed += checkpoint->without_place ? 0 : checkpoint->view.shard_count;
        placed_count += !checkpoint->without_place;
    }
    if (writing != view->writing_count)
        return "I36 parts that are written";
    return view->max_writes == 0 || placed_count <= 1 ||
                   placed <= fsm_max(view->max_writes, target->excused_writes)
               ? NULL
               : "I36 parts within max_writes";
}
