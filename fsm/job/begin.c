/* What a run begins from: one checkpoint for all of its parts, chosen once in the state.
 *
 * Flow     the start of all parts names the run's restart_id (allocation.c). Each part says
 *          RESTORED when it has what it needs of that; when all have, they may begin. One that
 *          finds a shard damaged says RESTART_DAMAGED: then the one before it is chosen, for all,
 *          or the run is over when there is none. To have begun from it is to have restored it: a
 *          single part, which waits for nobody, says no more, and others may come beside it.
 * Shapes   all parts restore in one way: what a part says that restores in another one counts for
 *          nothing. A word about another checkpoint than restart_id, or of a part that joined,
 *          changes nothing. A checkpoint that is damaged stays so.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define REASON(name) CKPT__V1__REASON__REASON_##name

/* The first that has said how it restores; NULL: none but `except`. */
static const struct assignment *restored_first(const struct allocation *allocation,
                                               const struct assignment *except)
{
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];

        if (part != except && part->restored_as != 0)
            return part;
    }
    return NULL;
}

bool fsm_begin_restored_as(const struct fsm *fsm, const struct fsm_allocation *view,
                           Ckpt__V1__RestoreMode *ret_mode, uint32_t *ret_part)
{
    const struct assignment *first = restored_first(allocation_at(fsm, view->slot), NULL);

    CHECK(ret_mode != NULL && ret_part != NULL);
    if (first == NULL)
        return false;
    *ret_mode = (Ckpt__V1__RestoreMode)first->restored_as;
    *ret_part = first->share;
    return true;
}

/* True: the others restore in another way. Its agent hears so when it asks again. */
static bool restored_otherwise(const struct allocation *allocation, struct assignment *part,
                               Ckpt__V1__RestoreMode mode)
{
    const struct assignment *other = restored_first(allocation, part);
    bool said = (unsigned)(mode - 1) < CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH;

    CHECK(part->allocation == allocation);
    if (said && other != NULL && other->restored_as != mode)
        return true;
    if (said)
        part->restored_as = (uint8_t)mode;
    return false;
}

/* The last of them lets all of them begin: their orders say so. */
void fsm_begin_restored(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                        uint64_t checkpoint_id, Ckpt__V1__RestoreMode mode)
{
    CHECK(part->allocation == allocation);
    if (checkpoint_id == 0 || checkpoint_id != allocation->view.restart_id || part->joined)
        return;
    fsm_read_ended(fsm, allocation, part);
    if (restored_otherwise(allocation, part, mode) || part->restored)
        return;
    part->restored = true;
    allocation->restored_count++;
    CHECK(allocation->restored_count <= allocation->view.node_count);
    if (allocation->view.node_count > 1 && fsm_begin_all_restored(allocation))
        fsm_allocation_changed(fsm, allocation);
}

/* What no part has begun from is chosen again for all. Where one has, the others cannot go with it
 * any more. */
static void begin_again(struct fsm *fsm, struct allocation *allocation)
{
    const struct fsm_checkpoint *next = fsm_restart_point(fsm, allocation->view.id, 0);
    const struct fsm_plan none = {REASON(NO_RESTART_POINT),
                                  CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
                                  REASON(NO_RESTART_POINT)};

    CHECK(allocation->starting_count > 0);
    if (next != NULL && next->shard_count != allocation->view.node_count &&
        allocation->view.restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN)
        next = NULL; /* its places are not those of these parts */
    if (allocation->starting_count < allocation->view.node_count)
        fsm_terminate_begin(fsm, allocation,
                            fsm_plan_failure(fsm, allocation, REASON(MIXED_RESTART), true));
    else if (next == NULL)
        fsm_terminate_begin(fsm, allocation, none);
    else
        fsm_allocation_parts_start(fsm, allocation, next->id);
    fsm_allocation_changed(fsm, allocation);
}

/* Parts of it are still to begin from this one. */
static bool begins_from(const struct fsm *fsm, const struct allocation *allocation,
                        const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.allocation_slot == allocation->view.slot);
    return fsm_begin_of_part(fsm, &allocation->view) == &checkpoint->view && allocation->assigned &&
           allocation->starting_count > 0 && !allocation->view.terminating;
}

/* A part that stands in the target's line has no use for its node's copy. */
bool fsm_begin_by_copies(const struct fsm *fsm, const struct allocation *allocation,
                         const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return begins_from(fsm, allocation, checkpoint) && list_empty(&allocation->in_reads) &&
           fsm_copies_serve(fsm, &checkpoint->view);
}

/* For one that holds nodes the stop goes on, by another checkpoint or without: its job is not left
 * waiting for a reader, whoever found the damage, and is not ended twice. */
void fsm_begin_found_damaged(struct fsm *fsm, struct allocation *allocation,
                             struct checkpoint *checkpoint)
{
    bool held = fsm_verify_held(fsm, allocation) == checkpoint;
    bool begins = begins_from(fsm, allocation, checkpoint);

    if (held)
        fsm_verify_take(fsm, checkpoint);
    fsm_retention_damaged(fsm, allocation, checkpoint);
    if (held) {
        fsm->detail = NULL; /* it is not of what follows */
        fsm_release_damaged(fsm, checkpoint);
        begins = begins && fsm_level(fsm) >= 2 && !allocation->view.terminating;
    }
    if (begins)
        begin_again(fsm, allocation);
}

/* Nothing of it has begun: what its parts had restored so far is forgotten. */
bool fsm_begin_discard(struct fsm *fsm, struct allocation *allocation)
{
    const struct fsm_checkpoint *next;
    uint64_t discarded_ms;

    CHECK(allocation->view.id != NULL);
    if (list_empty(&allocation->in_reads) ||
        fsm_begin_discard_at_ms(fsm, &allocation->view) > fsm->now_ms)
        return false;
    next = fsm_begin_choose(fsm, &allocation->view, &discarded_ms);
    CHECK(discarded_ms > 0);
    fsm_allocation_parts_start(fsm, allocation, next == NULL ? 0 : next->id);
    fsm_destination_discarded(fsm, allocation, discarded_ms);
    fsm_allocation_changed(fsm, allocation);
    return true;
}

void fsm_begin_damaged(struct fsm *fsm, struct allocation *allocation, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *point = fsm_begin_of_part(fsm, &allocation->view);

    CHECK(allocation->view.id != NULL);
    if (point != NULL && point->id == checkpoint_id)
        fsm_begin_found_damaged(fsm, allocation,
                                checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id)));
}

/* Who joined has a part of a complete checkpoint now: it begins again from that, like the others
 * do. */
void fsm_begin_whole(struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count && allocation->joined_count > 0; i++) {
        struct assignment *part = &allocation->assignments[i];

        if (!part->joined)
            continue;
        part->joined = false;
        part->restored = allocation->view.restart_id != 0;
        allocation->joined_count--;
        allocation->restored_count += part->restored;
    }
    CHECK(allocation->restored_count <= allocation->view.node_count);
}

/* No two parts of a run restore one shard, and each shard is one of the checkpoint's. */
static bool shards_stand(const struct allocation *allocation, const struct checkpoint *point)
{
    uint64_t taken[(FSM_NODES_PER_ALLOCATION_MAX + 63) / 64] = {0};

    CHECK(allocation->view.node_count <= FSM_NODES_PER_ALLOCATION_MAX);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        uint32_t shard = allocation->assignments[i].shard;

        if (shard == 0)
            continue;
        if (shard > FSM_NODES_PER_ALLOCATION_MAX ||
            (point != NULL && shard > point->view.shard_count) ||
            (taken[(shard - 1) / 64] >> (shard - 1) % 64 & 1) != 0)
            return false;
        taken[(shard - 1) / 64] |= UINT64_C(1) << (shard - 1) % 64;
    }
    return true;
}

/* I45: what all parts are to begin from is whole, and who joined has restored nothing of it. */
const char *fsm_begin_broken(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *point = checkpoint_find(fsm, view->restart_id);
    bool begins = allocation->assigned && !view->terminating && view->restart_id != 0 &&
                  allocation->starting_count == view->node_count;
    const struct assignment *first = restored_first(allocation, NULL);
    uint32_t restored = 0;
    uint32_t joined = 0;

    CHECK(view->id != NULL);
    if (view->restart_at_ms != 0 && !fsm_allocation_state_waits(view->state))
        return "I60 only what has stopped waits for the broker";
    for (uint32_t i = 0; i < view->node_count; i++) {
        restored += allocation->assignments[i].restored;
        joined += allocation->assignments[i].joined;
        if ((allocation->assignments[i].restored || allocation->assignments[i].shard != 0) &&
            allocation->assignments[i].joined)
            return "I45 who joined has restored nothing";
        if (allocation->assignments[i].restored_as != 0 &&
            (!allocation->assignments[i].restored ||
             allocation->assignments[i].restored_as != first->restored_as))
            return "I45 all parts restore in one way";
    }
    if (restored != allocation->restored_count || joined != allocation->joined_count)
        return "INDEX restored and joined parts";
    if (!shards_stand(allocation, point))
        return "I45 each part restores a shard of its own";
    if (view->restart_id == 0 && restored > 0)
        return "I45 from scratch nothing is restored";
    if (begins && (point == NULL ||
                   point->view.state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE ||
                   point->view.damaged || point->expired))
        return "I45 what all parts begin from can be restored";
    return NULL;
}
