/* Checkpoints that lie at a target and of which no record is left, as a restore from a backup, or a
 * store that wrote late, leaves them: an operator has seen them in a scan and lets them go.
 *
 * Flow     adopt() gives each a place among the folders that no job lists (undeleted.c): from then
 *          on it is removed as any other, by a control node or a node's agent, and told.
 * Shapes   what has a record is none, whatever a scan said: the state is asked, not the scan. Nor
 *          is what has an id that this cluster has not given yet: a checkpoint to come would lie
 *          there.
 */
#include "fsm/orphans.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* Only half of the places are for orphans: the rest is for what the jobs leave. */
static bool orphan_has_room(const struct fsm *fsm)
{
    CHECK(fsm->undeleted_count <= FSM_UNDELETED_MAX);
    return fsm->undeleted_count < FSM_UNDELETED_MAX / 2;
}

/* Ids of earlier epochs were all given before a restore. */
static bool orphan_was_given(const struct fsm *fsm, uint64_t id)
{
    uint64_t epoch = id >> CHECKPOINT_SEQUENCE_BITS;

    CHECK(id != 0);
    return epoch < fsm->epoch ||
           (epoch == fsm->epoch && id <= checkpoint_id_make(fsm->epoch, fsm->checkpoint_sequence));
}

bool fsm_is_orphan(const struct fsm *fsm, uint64_t checkpoint_id)
{
    CHECK(fsm != NULL);
    if (fsm_level(fsm) >= 2 && !checkpoint_id_valid(checkpoint_id))
        return false; /* a snapshot with it could not be read */
    return checkpoint_id != 0 && orphan_was_given(fsm, checkpoint_id) &&
           checkpoint_find(fsm, checkpoint_id) == NULL &&
           fsm_undeleted_find(fsm, checkpoint_id) == NULL;
}

/* The texts make its path, and the owner is whom an agent removes it as, where the folder itself
 * does not tell. */
static bool orphan_adopt(struct fsm *fsm, const Ckpt__V1__Orphan *orphan)
{
    const struct target *target = target_find(fsm, orphan->target_id);
    struct undeleted *undeleted;
    struct fsm_undeleted *view;

    CHECK(orphan->checkpoint_id != 0);
    CHECK(orphan->target_id != NULL);
    if (target == NULL || !orphan_has_room(fsm) || !fsm_is_orphan(fsm, orphan->checkpoint_id))
        return false;
    undeleted = fsm_undeleted_new_place(fsm, orphan->checkpoint_id, target->view.slot);
    view = &undeleted->view;
    view->allocation_id = fsm_intern(fsm, orphan->allocation_id);
    view->tenant = fsm_intern(fsm, orphan->tenant);
    view->project = fsm_intern(fsm, orphan->project);
    view->owner = fsm_intern(fsm, orphan->owner);
    view->reason = fsm_intern(fsm, "");
    view->size_bytes = orphan->size_bytes;
    view->sensitive = target->view.pool == CKPT__V1__POOL__POOL_SENSITIVE; /* it may have been */
    view->since_ms = fsm->now_ms;
    view->not_before_ms = fsm->now_ms;
    return true;
}

/* outcome: current taken of limit named. What has a record by now stays. */
enum fsm_status fsm_apply_remove_orphans(struct fsm *fsm, const fsm_command *command,
                                         struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__RemoveOrphans *named = command->remove_orphans;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS);
    CHECK(outcome != NULL);
    outcome->limit = named->n_orphans;
    for (size_t i = 0; i < named->n_orphans; i++)
        outcome->current += orphan_adopt(fsm, named->orphans[i]);
    return FSM_OK;
}
