/* Which checkpoints may be removed, and when (D-004, I28, I29, K-007).
 *
 * Flow     review() runs whenever an allocation's checkpoints or its restartability change: it arms
 *          each unprotected one with the instant it expires. Expired ones form the collectable
 *          list; the collector removes their folders and says so. Protected: the newest
 *          keep_complete (two at least) COMPLETE ones of a restartable allocation that are not
 *          damaged. COMPLETE ones expire retention_ms after completion; at once beyond
 *          FSM_COMPLETE_KEPT_MAX, and beyond keep_complete where they lie on another target than
 *          the newest one. Folders of failed attempts expire one checkpoint timeout after the end,
 *          when no agent writes there any more.
 *          A folder that cannot be removed is kept apart (undeleted.c): its record makes room for
 *          the job's next checkpoint, and the job itself leaves without it.
 *          An operator pins complete ones, which then stay whatever their age, and lets others go
 *          before their time (expire), as far as the rules above do not need them.
 * Shapes   expiry is never taken back: between listing and removal nothing may start to need the
 *          folder. A changed policy reaches an allocation at its next review. A changed retention
 *          reaches all of them in one pass of Ticks, FSM_REVIEW_PER_TICK_MAX in each.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/quota.h"

static bool retention_complete(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
}

/* Expiry is never taken back: a collector may be removing the folder by now. An expired checkpoint
 * stays in the list until its folder is gone, whatever a later review finds. */
static void retention_set(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t at_ms)
{
    CHECK(checkpoint->view.id != 0);
    if (checkpoint->expired)
        return;
    fsm_hold_checkpoint(fsm, checkpoint);
    if (at_ms != 0 && at_ms <= fsm->now_ms) {
        CHECK(list_empty(&checkpoint->queue));
        checkpoint->expired = true;
        fsm_quota_leaves(fsm, checkpoint);
        fsm_verify_end(fsm, checkpoint);
        list_push_back(fsm->collectable, &checkpoint->queue);
    }
    checkpoint->collect_at_ms = checkpoint->expired ? 0 : at_ms;
    fsm_checkpoint_arm(fsm, checkpoint);
}

/* One of those that are kept to go back to. What is on its way out is none, and an older one that
 * is pinned may be the last that is whole. */
static bool retention_counts(const struct checkpoint *checkpoint)
{
    CHECK(retention_complete(checkpoint));
    return !checkpoint->view.damaged && !checkpoint->expired;
}

/* A run of the job is about to begin from it, which need not be the newest one: the target of that
 * may be away. */
static bool retention_begins(const struct allocation *job, const struct checkpoint *checkpoint)
{
    CHECK(retention_complete(checkpoint));
    return job->assigned && job->starting_count > 0 && !job->view.terminating &&
           job->view.restart_id == checkpoint->view.id && !checkpoint->view.damaged;
}

static uint32_t retention_keep(const struct fsm *fsm, const struct allocation *allocation)
{
    return fsm_allocation_restartable(allocation) ? fsm_keep_complete(fsm, allocation) : 0;
}

/* A walk from the end of the list meets the newest first, which are the protected ones. Folders of
 * failed attempts wait for one checkpoint timeout more, since an agent that was cut off may still
 * be writing. */
void fsm_retention_review(struct fsm *fsm, struct allocation *allocation)
{
    uint32_t keep = retention_keep(fsm, allocation);
    uint32_t keep_complete = fsm_keep_complete(fsm, allocation);
    uint32_t rank = 0;                 /* among COMPLETE ones, the newest first */
    uint32_t newest_slot = UINT32_MAX; /* its target */

    CHECK(allocation->view.id != NULL);
    for (struct list *at = allocation->checkpoints.previous; at != &allocation->checkpoints;
         at = at->previous) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (retention_complete(checkpoint)) {
            uint64_t at_ms = fsm_kept_until_ms(fsm, allocation, checkpoint->view.completed_at_ms);

            if (rank < keep && !checkpoint->view.damaged)
                at_ms = 0;
            else if (rank >= FSM_COMPLETE_KEPT_MAX ||
                     (rank >= keep_complete && newest_slot != UINT32_MAX &&
                      checkpoint->view.target_slot != newest_slot)) /* S2-025 */
                at_ms = fsm->now_ms;
            if (checkpoint->view.pinned || retention_begins(allocation, checkpoint))
                at_ms = 0;
            retention_set(fsm, checkpoint, at_ms);
            rank += retention_counts(checkpoint);
            if (newest_slot == UINT32_MAX && !checkpoint->view.damaged)
                newest_slot = checkpoint->view.target_slot;
        } else if (!fsm_checkpoint_state_active(checkpoint->view.state) &&
                   fsm_checkpoint_has_folder(checkpoint)) {
            retention_set(fsm, checkpoint,
                          checkpoint->view.state_since_ms + fsm->policy.checkpoint_timeout_ms);
        }
    }
    fsm_copies_review(fsm, allocation);
}

/* A job that may start again keeps what it would start from, for as long as it was told when it
 * ended. */
void fsm_retention_pass(struct fsm *fsm)
{
    CHECK(fsm->allocations.slot_end <= UINT32_MAX - 1);
    for (uint32_t i = 0; i < FSM_REVIEW_PER_TICK_MAX && fsm->retention_review != 0; i++) {
        uint32_t slot = fsm->retention_review - 1;
        struct allocation *allocation;

        if (slot >= fsm->allocations.slot_end) {
            fsm->retention_review = 0;
            return;
        }
        fsm->retention_review++;
        allocation = allocation_edit(fsm, allocation_find_slot(fsm, slot));
        if (allocation == NULL || allocation->assigned)
            continue;
        fsm_hold_allocation(fsm, allocation);
        fsm_retention_review(fsm, allocation);
        if (!fsm_allocation_restartable(allocation))
            fsm_allocation_arm(fsm, allocation);
    }
}

/* What the job would compute again grows by what the lost one had saved: a new one is worth that
 * much more, at once. */
static void retention_lose(const struct fsm *fsm, struct fsm_allocation *view,
                           const struct fsm_checkpoint *lost)
{
    const struct fsm_checkpoint *before = fsm_restart_point(fsm, view->id, 0);
    uint64_t saved_gpu_ms = before == NULL ? 0 : before->useful_gpu_ms;
    uint64_t lost_ms = (lost->useful_gpu_ms - fsm_min(saved_gpu_ms, lost->useful_gpu_ms)) /
                       fsm_max(fsm_account_gpus(view), 1);

    CHECK(lost->damaged);
    view->last_complete_snapshot_ms -=
        fsm_min(lost_ms, view->last_complete_snapshot_ms -
                             fsm_min(view->started_at_ms, view->last_complete_snapshot_ms));
}

/* What the job would go back to is the next one that is whole, which is kept from now on. */
void fsm_retention_damaged(struct fsm *fsm, struct allocation *allocation,
                           struct checkpoint *checkpoint)
{
    struct fsm_allocation *view = &allocation->view;
    const struct fsm_checkpoint *last;
    const struct fsm_checkpoint *previous;
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED,
                                    .allocation_id = view->id,
                                    .checkpoint_id = checkpoint->view.id,
                                    .subject = fsm->detail};

    CHECK(retention_complete(checkpoint));
    checkpoint->view.damaged = true;
    fsm_checkpoint_set_detail(fsm, checkpoint, fsm->detail == NULL ? "" : fsm->detail);
    fsm_event_emit(fsm, &event);
    fsm_verify_end(fsm, checkpoint);
    if (view->last_complete_id == checkpoint->view.id)
        retention_lose(fsm, view, &checkpoint->view);
    last = fsm_restart_point(fsm, view->id, 0);
    previous = last == NULL ? NULL : fsm_restart_point(fsm, view->id, last->id);
    view->last_complete_id = last == NULL ? 0 : last->id;
    view->previous_complete_id = previous == NULL ? 0 : previous->id;
    if (last != NULL) /* it may share what is damaged: unchanged files are one */
        fsm_verify_ask(fsm, checkpoint_edit(fsm, checkpoint_at(fsm, last->id)));
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint->view.id);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, view->slot);
    fsm_retention_review(fsm, allocation);
}

/* The whole job is reviewed again: the policy may have changed since the instant was set, and a
 * checkpoint that is protected now does not expire. */
void fsm_retention_due(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    fsm_timer_set(&fsm->timers, &checkpoint->timer, 0);
    fsm_retention_review(
        fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)));
}

/* One of the `keep` newest ones of its job, as the review has them, or what it begins from. */
static bool retention_needed(const struct fsm *fsm, const struct checkpoint *checkpoint,
                             uint32_t keep)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);
    uint32_t newer = 0;

    CHECK(retention_complete(checkpoint));
    if (checkpoint->view.damaged)
        return false;
    if (retention_begins(job, checkpoint))
        return true;
    for (const struct list *at = checkpoint->in_allocation.next; at != &job->checkpoints;
         at = at->next) {
        const struct checkpoint *other = LIST_ITEM_CONST(at, struct checkpoint, in_allocation);

        newer += retention_complete(other) && retention_counts(other);
    }
    return newer < keep;
}

bool fsm_may_expire(const struct fsm *fsm, const struct fsm_checkpoint *view)
{
    const struct checkpoint *checkpoint = checkpoint_at(fsm, view->id);

    if (checkpoint->expired || checkpoint->collected || view->pinned ||
        fsm_checkpoint_state_active(view->state) || !fsm_checkpoint_has_folder(checkpoint))
        return false;
    if (retention_complete(checkpoint))
        return !retention_needed(fsm, checkpoint,
                                 retention_keep(fsm, allocation_at(fsm, view->allocation_slot)));
    return fsm_add(view->state_since_ms, fsm->policy.checkpoint_timeout_ms) <= fsm->now_ms;
}

bool fsm_retention_expire(struct fsm *fsm, uint64_t checkpoint_id)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));

    if (checkpoint == NULL || !fsm_may_expire(fsm, &checkpoint->view))
        return false;
    retention_set(fsm, checkpoint, fsm->now_ms);
    return true;
}

/* A tenant that has more bytes than it may keeps fewer of each job than it would. */
bool fsm_retention_may_leave_early(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);

    CHECK(job->view.id != NULL);
    return retention_complete(checkpoint) && !checkpoint->expired && !checkpoint->view.pinned &&
           !retention_needed(fsm, checkpoint,
                             fsm_allocation_restartable(job) ? FSM_COMPLETE_KEPT_MIN : 0);
}

bool fsm_retention_leave_early(struct fsm *fsm, struct checkpoint *checkpoint)
{
    if (!fsm_retention_may_leave_early(fsm, checkpoint))
        return false;
    retention_set(fsm, checkpoint, fsm->now_ms);
    return true;
}

/* What expires is never taken back, so that a pin comes too late for it. */
enum fsm_status fsm_retention_pin(struct fsm *fsm, uint64_t checkpoint_id, bool pinned,
                                  struct fsm_outcome *outcome)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));
    struct allocation *job;

    CHECK(outcome != NULL);
    if (checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    if (!retention_complete(checkpoint) || checkpoint->expired)
        return FSM_NOT_KEPT;
    job = allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    outcome->limit = FSM_PINNED_MAX;
    for (const struct list *at = job->checkpoints.next; at != &job->checkpoints; at = at->next)
        outcome->current += LIST_ITEM(at, struct checkpoint, in_allocation)->view.pinned;
    if (pinned && !checkpoint->view.pinned && outcome->current >= FSM_PINNED_MAX)
        return FSM_PINS_FULL;
    checkpoint->view.pinned = pinned;
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint_id);
    fsm_retention_review(fsm, job);
    return FSM_OK;
}

/* What leaves first when a job's list is full. */
enum retention_rank {
    RETENTION_HAS_NO_FOLDER,
    RETENTION_UNDELETED, /* its folder could not be removed */
    RETENTION_EXPIRED,
    RETENTION_DAMAGED, /* nothing begins from it any more */
    RETENTION_FAILED,  /* its agent may still write there */
    RETENTION_STAYS
};

static enum retention_rank retention_rank(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (fsm_checkpoint_state_active(checkpoint->view.state))
        return RETENTION_STAYS;
    if (!fsm_checkpoint_has_folder(checkpoint))
        return RETENTION_HAS_NO_FOLDER;
    if (checkpoint->undeleted != NULL)
        return RETENTION_UNDELETED;
    if (checkpoint->expired)
        return RETENTION_EXPIRED;
    if (!retention_complete(checkpoint))
        return RETENTION_FAILED;
    return checkpoint->view.damaged && !checkpoint->view.pinned ? RETENTION_DAMAGED
                                                                : RETENTION_STAYS;
}

/* The oldest of the lowest rank that there is; and how many have that rank. The rank is computed
 * anew each time: lists are short, and an order that is kept would have to follow every move. */
static struct checkpoint *retention_first(struct allocation *allocation, uint32_t *ret_count)
{
    enum retention_rank lowest = RETENTION_STAYS;
    struct checkpoint *first = NULL;

    CHECK(allocation->view.id != NULL);
    *ret_count = 0;
    for (struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);
        enum retention_rank rank = retention_rank(checkpoint);

        if (rank < lowest) {
            lowest = rank;
            first = checkpoint;
            *ret_count = 0;
        }
        *ret_count += first != NULL && rank == lowest;
    }
    return first;
}

/* A job's checkpoints go on whatever becomes of the folders of old ones. */
static void retention_drop(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (fsm_checkpoint_has_folder(checkpoint))
        fsm_undeleted_detach(fsm, checkpoint);
    fsm_checkpoint_free(fsm, checkpoint);
}

/* Called before a new record is made. History without folders goes first and is bounded of its own,
 * so that a job that fails again and again keeps the records of its folders. */
void fsm_retention_make_room(struct fsm *fsm, struct allocation *allocation)
{
    uint32_t count;
    struct checkpoint *first = retention_first(allocation, &count);

    CHECK(allocation->view.id != NULL);
    if (first != NULL && retention_rank(first) == RETENTION_HAS_NO_FOLDER &&
        count >= FSM_ENDED_KEPT_MAX)
        retention_drop(fsm, first);
    if (allocation->checkpoint_count < FSM_CHECKPOINTS_PER_ALLOCATION_MAX)
        return;
    first = retention_first(allocation, &count);
    /* at most one is active, FSM_COMPLETE_KEPT_MAX are whole and kept, FSM_PINNED_MAX pinned */
    CHECK(first != NULL);
    retention_drop(fsm, first);
}

struct deleted {
    uint64_t checkpoint_id;
    uint32_t target_slot;
    uint64_t bytes;
};

static void retention_tell(struct fsm *fsm, const char *allocation_id,
                           const struct deleted *deleted)
{
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_DELETED,
                                    .allocation_id = allocation_id,
                                    .checkpoint_id = deleted->checkpoint_id,
                                    .subject = target_at(fsm, deleted->target_slot)->view.id,
                                    .number = deleted->bytes};

    CHECK(deleted->checkpoint_id != 0);
    fsm_event_emit(fsm, &event);
}

/* Of one that no job lists any more. */
static enum fsm_status retention_apart_gone(struct fsm *fsm, uint64_t checkpoint_id, uint64_t bytes)
{
    const struct fsm_undeleted *undeleted = fsm_undeleted_find(fsm, checkpoint_id);

    if (undeleted == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    retention_tell(fsm, undeleted->allocation_id,
                   &(struct deleted){checkpoint_id, undeleted->target_slot,
                                     bytes != 0 ? bytes : undeleted->size_bytes});
    CHECK(fsm_undeleted_gone(fsm, checkpoint_id));
    return FSM_OK;
}

/* I28: what is not expired is not taken, whoever says so. What the job's record says of its last
 * complete ones goes with the folder, so that nothing starts from a folder that is gone. */
enum fsm_status fsm_retention_collected(struct fsm *fsm, uint64_t checkpoint_id, uint64_t bytes)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));
    struct allocation *allocation;

    if (checkpoint == NULL)
        return retention_apart_gone(fsm, checkpoint_id, bytes);
    if (checkpoint->collected)
        return FSM_OK;
    if (!checkpoint->expired)
        return FSM_INVALID_ARGUMENT;
    if (checkpoint->undeleted != NULL)
        CHECK(fsm_undeleted_gone(fsm, checkpoint_id));
    retention_tell(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)->view.id,
                   &(struct deleted){checkpoint_id, checkpoint->view.target_slot,
                                     bytes != 0 ? bytes : checkpoint->view.size_bytes});
    allocation = allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    list_remove(&checkpoint->queue);
    target_edit(fsm, target_at(fsm, checkpoint->view.target_slot))->folder_count -=
        fsm_checkpoint_has_folder(checkpoint);
    checkpoint->collected = true;
    fsm_copies_forget(fsm, checkpoint);
    fsm_checkpoint_drop_inputs(fsm, checkpoint);
    if (allocation->view.last_complete_id == checkpoint_id)
        allocation->view.last_complete_id = 0;
    if (allocation->view.previous_complete_id == checkpoint_id)
        allocation->view.previous_complete_id = 0;
    if (retention_complete(checkpoint))
        fsm_checkpoint_move(fsm, checkpoint, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COLLECTED,
                            CKPT__V1__REASON__REASON_NONE);
    fsm_retention_leave(fsm, allocation);
    return FSM_OK;
}

/* What could not be removed is kept without the job. */
void fsm_retention_leave(struct fsm *fsm, struct allocation *allocation)
{
    if (!allocation->expired)
        return;
    for (struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (fsm_checkpoint_has_folder(checkpoint) && checkpoint->undeleted == NULL)
            return;
    }
    fsm_allocation_remove(fsm, allocation);
}
