/* The pool of sensitive data: who needs its targets, and that nothing has left it (N-003).
 *
 * Flow     destination.c chooses among the targets of the pool; an operator takes none out of it,
 *          out of use or away while jobs would be left without one, or their data lie there.
 * Shapes   a target is of the pool by its specification. A job is sensitive, and keeps to its
 *          jurisdiction, for its whole life.
 * Absent   ordinary jobs may lie in the pool as well: nothing of them is wiped or held there.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* What a target takes is part of its specification, so that a restored member knows it. */
static bool target_is_of_pool(const struct target *target)
{
    CHECK(target->view.id != NULL);
    return target->view.pool == CKPT__V1__POOL__POOL_SENSITIVE;
}

/* Something of it may lie at its target, or is about to. */
static bool checkpoint_lies(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return fsm_checkpoint_state_active(checkpoint->view.state) ||
           fsm_checkpoint_has_folder(checkpoint);
}

/* Checkpoints of the job that lie at that target; its records are few. */
static uint64_t lying_of(const struct allocation *job, const struct target *target)
{
    uint64_t count = 0;

    CHECK(job->view.sensitive);
    for (const struct list *at = job->checkpoints.next; at != &job->checkpoints; at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, in_allocation);

        count += checkpoint->view.target_slot == target->view.slot && checkpoint_lies(checkpoint);
    }
    return count;
}

/* All jobs are looked at: what an operator does is rare. */
uint64_t fsm_pool_users(const struct fsm *fsm, const struct target *target, bool lies)
{
    const struct fsm_undeleted *view;
    uint64_t count = 0;

    CHECK(target->view.id != NULL);
    if (!target_is_of_pool(target))
        return 0;
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        const struct allocation *job = allocation_find_slot(fsm, slot);

        if (job == NULL || !job->view.sensitive)
            continue;
        count += fsm_allocation_goes_on(job) &&
                 fsm_target_sensitive(fsm, target, job->view.jurisdiction) == NULL;
        count += lies ? lying_of(job, target) : 0;
    }
    for (uint32_t place = 0; lies && (view = fsm_undeleted_next(fsm, place)) != NULL;
         place = view->place + 1)
        count += view->sensitive && view->target_slot == target->view.slot;
    return count;
}

/* A job that has not ended has somewhere to write, and all that it wrote lies in the pool. */
static bool job_keeps_to_pool(const struct fsm *fsm, const struct allocation *job)
{
    CHECK(job->view.sensitive);
    if (fsm_allocation_goes_on(job) && fsm_destination(fsm, &job->view) == NULL)
        return false;
    for (const struct list *at = job->checkpoints.next; at != &job->checkpoints; at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, in_allocation);

        if (checkpoint_lies(checkpoint) &&
            !fsm_pool_takes(target_at(fsm, checkpoint->view.target_slot), job->view.jurisdiction))
            return false;
    }
    return true;
}

/* I55, of every job: one that is not sensitive is nobody's business here. */
bool fsm_pools_kept(const struct fsm *fsm)
{
    CHECK(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        const struct allocation *job = allocation_find_slot(fsm, slot);

        if (job != NULL && job->view.sensitive && !job_keeps_to_pool(fsm, job))
            return false;
    }
    return true;
}
