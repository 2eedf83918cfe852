/* Folders of expired checkpoints that could not be removed, and those that no job's list has room
 * for any more: nothing of them stands in the way of a job's next checkpoint, and nothing of them
 * is forgotten without a word.
 *
 * Flow     failed() when the collector could not remove one: its reason is kept, and it is tried
 *          again later and later. detach() when its record leaves its job's list; gone() when it
 *          was removed after all.
 * Shapes   FSM_UNDELETED_MAX places, found by checkpoint. One that its job still lists takes a
 *          place of the first half only, since nothing is lost without it; one that no job lists,
 *          or whose job waits for it to leave, takes any, and when there is none the one whose turn
 *          it is gives way, which is the oldest unless others went before it: it is counted and
 *          told as an event.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"

enum { UNDELETED_WAIT_MIN_MS = 60000, UNDELETED_WAIT_MAX_MS = 3600000 };

static uint32_t undeleted_hash(uint64_t checkpoint_id)
{
    uint64_t hash = fsm_hash_mix(0, checkpoint_id);

    return (uint32_t)(hash ^ hash >> 32);
}

/* key is the id. */
static bool undeleted_equal(const void *item, const char *key)
{
    return ((const struct undeleted *)item)->view.checkpoint_id ==
           *(const uint64_t *)(const void *)key;
}

/* By a hash table: a report of the collector names up to thousands of checkpoints. */
static struct undeleted *undeleted_named(const struct fsm *fsm, uint64_t checkpoint_id)
{
    return fsm_map_find(&fsm->undeleted_map, undeleted_hash(checkpoint_id), undeleted_equal,
                        (const char *)(const void *)&checkpoint_id);
}

/* A snapshot at work takes the place as it is before it changes. */
static void undeleted_hold(struct fsm *fsm, uint32_t place)
{
    if (!list_empty(fsm->snapshots))
        fsm_save_undeleted(fsm, place);
}

struct undeleted *fsm_undeleted_edit(struct fsm *fsm, uint64_t checkpoint_id)
{
    struct undeleted *undeleted = undeleted_named(fsm, checkpoint_id);

    if (undeleted != NULL)
        undeleted_hold(fsm, undeleted->view.place);
    return undeleted;
}

/* An operator hears of the first failure and of what is forgotten, not of each try: a folder that
 * cannot be removed is tried for days. */
static void undeleted_emit(struct fsm *fsm, const struct undeleted *undeleted,
                           Ckpt__V1__UndeletedChange change)
{
    struct fsm_event event = {
        .kind = CKPT__V1__EVENT_KIND__EVENT_KIND_UNDELETED,
        .allocation_id = undeleted->view.allocation_id,
        .checkpoint_id = undeleted->view.checkpoint_id,
        .new_state = (uint32_t)change,
        .subject = target_at(fsm, undeleted->view.target_slot)->view.id,
        .number = undeleted->view.size_bytes,
    };

    CHECK(undeleted->view.checkpoint_id != 0);
    fsm_event_emit(fsm, &event);
}

/* The target stays registered as long as a folder lies below its prefix, so it counts them, with a
 * record of the checkpoint or without. */
struct undeleted *fsm_undeleted_place(struct fsm *fsm, uint32_t place, uint64_t checkpoint_id,
                                      uint32_t target_slot)
{
    struct undeleted *undeleted = check_calloc(1, sizeof(*undeleted));

    CHECK(target_slot < FSM_TARGETS_MAX);
    CHECK(fsm->undeleted[place] == NULL);
    undeleted->view.place = place;
    undeleted->view.checkpoint_id = checkpoint_id;
    undeleted->view.target_slot = target_slot;
    fsm->undeleted[place] = undeleted;
    fsm->undeleted_count++;
    fsm_moved(fsm, FSM_RECORD_UNDELETED, place);
    target_edit(fsm, target_at(fsm, target_slot))->checkpoint_count++;
    target_edit(fsm, target_at(fsm, target_slot))->folder_count++; /* no record has it, so far */
    fsm_map_add(&fsm->undeleted_map, undeleted_hash(checkpoint_id), undeleted);
    return undeleted;
}

/* A folder that a checkpoint's record still lists is counted by that one. */
void fsm_undeleted_free(struct fsm *fsm, struct undeleted *undeleted)
{
    struct fsm_undeleted *view = &undeleted->view;
    struct target *target = target_edit(fsm, target_at(fsm, view->target_slot));

    CHECK(undeleted->view.checkpoint_id != 0);
    if (view->given)
        fsm_removal_take(fsm, undeleted);
    if (undeleted->checkpoint != NULL)
        undeleted->checkpoint->undeleted = NULL;
    else
        target->folder_count--;
    fsm_map_remove(&fsm->undeleted_map, undeleted_hash(view->checkpoint_id), undeleted);
    target->checkpoint_count--;
    fsm->undeleted[view->place] = NULL;
    fsm->undeleted_count--;
    RECORD_RELEASE_TEXTS(FSM_UNDELETED, fsm, view);
    RECORD_RELEASE_TEXTS(FSM_UNDELETED_KEPT, fsm, view);
    free(undeleted);
    if (fsm_level(fsm) >= 2)
        fsm_target_leave(fsm, target);
}

/* A place for one more, with no regard to what stands there already. The hand goes round, so that
 * it comes to the oldest without a search. What its job still lists loses only the reason: its
 * record goes on. */
static uint32_t undeleted_take_place(struct fsm *fsm)
{
    uint32_t place = fsm->undeleted_hand;
    struct undeleted *old;

    while (fsm->undeleted_count < FSM_UNDELETED_MAX && fsm->undeleted[place] != NULL)
        place = (place + 1) % FSM_UNDELETED_MAX;
    fsm->undeleted_hand = (place + 1) % FSM_UNDELETED_MAX;
    undeleted_hold(fsm, place);
    old = fsm->undeleted[place];
    if (old == NULL)
        return place;
    if (old->checkpoint == NULL) {
        fsm->undeleted_forgotten++;
        fsm->undeleted_forgotten_bytes =
            fsm_add(fsm->undeleted_forgotten_bytes, old->view.size_bytes);
        undeleted_emit(fsm, old, CKPT__V1__UNDELETED_CHANGE__UNDELETED_CHANGE_FORGOTTEN);
    }
    fsm_undeleted_free(fsm, old);
    return place;
}

struct undeleted *fsm_undeleted_new_place(struct fsm *fsm, uint64_t checkpoint_id,
                                          uint32_t target_slot)
{
    return fsm_undeleted_place(fsm, undeleted_take_place(fsm), checkpoint_id, target_slot);
}

/* The texts of the path are held: the job may leave before the folder does. */
static struct undeleted *undeleted_new(struct fsm *fsm, struct checkpoint *checkpoint)
{
    const struct fsm_allocation *job = &allocation_at(fsm, checkpoint->view.allocation_slot)->view;
    struct undeleted *undeleted =
        fsm_undeleted_new_place(fsm, checkpoint->view.id, checkpoint->view.target_slot);
    struct fsm_undeleted *view = &undeleted->view;

    CHECK(checkpoint->view.id != 0);
    view->allocation_id =
        fsm_intern_again(checkpoint->view.home[0] == '\0' ? job->id : checkpoint->view.home);
    view->tenant = fsm_intern_again(job->tenant);
    view->project = fsm_intern_again(job->project);
    view->owner = fsm_intern_again(job->owner);
    view->reason = fsm_intern(fsm, "");
    view->size_bytes = checkpoint->view.size_bytes;
    view->sensitive = job->sensitive;
    view->since_ms = fsm->now_ms;
    view->not_before_ms = checkpoint->collect_at_ms;
    fsm_undeleted_attach(fsm, undeleted, checkpoint);
    return undeleted;
}

/* A folder is counted once at its target: by the record of its checkpoint while there is one. */
void fsm_undeleted_attach(struct fsm *fsm, struct undeleted *undeleted,
                          struct checkpoint *checkpoint)
{
    CHECK(checkpoint->undeleted == NULL && undeleted->checkpoint == NULL);
    target_edit(fsm, target_at(fsm, undeleted->view.target_slot))
        ->folder_count--; /* it counts there */
    undeleted->checkpoint = checkpoint;
    undeleted->view.listed = true;
    checkpoint->undeleted = undeleted;
}

/* Whoever frees the record of a checkpoint whose folder may still lie there comes by here first, or
 * the folder would lie there for ever. */
void fsm_undeleted_detach(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct undeleted *undeleted = checkpoint->undeleted;

    CHECK(checkpoint->view.id != 0);
    if (undeleted == NULL)
        undeleted = undeleted_new(fsm, checkpoint);
    undeleted_hold(fsm, undeleted->view.place);
    target_edit(fsm, target_at(fsm, undeleted->view.target_slot))->folder_count++;
    undeleted->checkpoint = NULL;
    undeleted->view.listed = false;
    checkpoint->undeleted = NULL;
}

/* One after the other, so that those that always fail leave the others their turn, with a place
 * here or without. */
static struct undeleted *undeleted_of_record(struct fsm *fsm, struct checkpoint *checkpoint)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);

    if (!checkpoint->expired || checkpoint->collected)
        return NULL;
    list_remove(&checkpoint->queue);
    list_push_back(fsm->collectable, &checkpoint->queue);
    if (checkpoint->undeleted != NULL ||
        (fsm->undeleted_count >= FSM_UNDELETED_MAX / 2 && !job->expired))
        return checkpoint->undeleted;
    return undeleted_new(fsm, checkpoint);
}

/* What a node was to remove and did not, within the time that it has, counts as a failure; what a
 * control node may not remove is none before a node has failed too. The job may have waited for
 * this folder alone; it leaves now, and the folder stays known. */
bool fsm_undeleted_failed(struct fsm *fsm, uint64_t checkpoint_id, const char *reason,
                          bool elsewhere)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));
    struct undeleted *undeleted = checkpoint != NULL ? undeleted_of_record(fsm, checkpoint)
                                                     : undeleted_named(fsm, checkpoint_id);

    CHECK(reason != NULL);
    if (undeleted == NULL)
        return false;
    undeleted_hold(fsm, undeleted->view.place);
    if (undeleted->view.given) {
        if (fsm->now_ms < fsm_undeleted_due_ms(&undeleted->view))
            return true; /* a node is at it */
        fsm_removal_take(fsm, undeleted);
    } else if (elsewhere && fsm_removal_give(fsm, undeleted)) {
        return true;
    }
    fsm_intern_set(fsm, &undeleted->view.reason, reason);
    undeleted->view.tried_at_ms = fsm->now_ms;
    if (undeleted->view.attempts++ == 0)
        undeleted_emit(fsm, undeleted, CKPT__V1__UNDELETED_CHANGE__UNDELETED_CHANGE_FAILED);
    if (checkpoint != NULL)
        fsm_retention_leave(
            fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)));
    return true;
}

bool fsm_undeleted_gone(struct fsm *fsm, uint64_t checkpoint_id)
{
    struct undeleted *undeleted = undeleted_named(fsm, checkpoint_id);

    if (undeleted == NULL)
        return false;
    undeleted_hold(fsm, undeleted->view.place);
    fsm_undeleted_free(fsm, undeleted);
    return true;
}

void fsm_undeleted_close(struct fsm *fsm)
{
    for (uint32_t place = 0; fsm->undeleted_count > 0; place++)
        if (fsm->undeleted[place] != NULL)
            fsm_undeleted_free(fsm, fsm->undeleted[place]);
    free(fsm->undeleted);
    fsm_map_free(&fsm->undeleted_map);
}

/* The wait doubles from a minute to an hour: a share that is away for a night is asked some ten
 * times, not thousands. One that was never tried waits until its agent can write there no more; one
 * that a node is to remove, until that has had its time. */
uint64_t fsm_undeleted_due_ms(const struct fsm_undeleted *view)
{
    uint64_t wait_ms = UNDELETED_WAIT_MIN_MS;

    CHECK(view->checkpoint_id != 0);
    if (view->given)
        return fsm_add(view->given_at_ms, UNDELETED_WAIT_MAX_MS);
    if (view->attempts == 0)
        return view->not_before_ms;
    for (uint32_t i = 1; i < view->attempts && wait_ms < UNDELETED_WAIT_MAX_MS; i++)
        wait_ms *= 2;
    return fsm_add(view->tried_at_ms, fsm_min(wait_ms, UNDELETED_WAIT_MAX_MS));
}

const struct fsm_undeleted *fsm_undeleted_next(const struct fsm *fsm, uint32_t place)
{
    CHECK(fsm != NULL);
    if (fsm->undeleted_count == 0)
        return NULL;
    for (; place < FSM_UNDELETED_MAX; place++)
        if (fsm->undeleted[place] != NULL)
            return &fsm->undeleted[place]->view;
    return NULL;
}

const struct fsm_undeleted *fsm_undeleted_find(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct undeleted *undeleted = undeleted_named(fsm, checkpoint_id);

    return undeleted == NULL ? NULL : &undeleted->view;
}

/* One that was not tried is no trouble, and is not counted. */
void fsm_undeleted_sum(const struct fsm *fsm, struct fsm_undeleted_sum *ret_sum)
{
    const struct fsm_undeleted *view;
    struct fsm_undeleted_sum sum = {.forgotten = fsm->undeleted_forgotten,
                                    .forgotten_bytes = fsm->undeleted_forgotten_bytes};

    CHECK(ret_sum != NULL);
    for (uint32_t place = 0; (view = fsm_undeleted_next(fsm, place)) != NULL;
         place = view->place + 1) {
        if (view->attempts == 0)
            continue;
        sum.count++;
        sum.bytes = fsm_add(sum.bytes, view->size_bytes);
        if (sum.oldest == NULL || view->since_ms < sum.oldest->since_ms)
            sum.oldest = view;
    }
    *ret_sum = sum;
}

/* ---- what the collector is given ---- */

struct due {
    uint64_t due_ms;
    uint64_t checkpoint_id;
};

/* Those that have a place here, the longest due first, by an insertion sort: max is small, and the
 * places are walked once. */
static size_t undeleted_due(const struct fsm *fsm, uint64_t at_ms, struct due *due, size_t max)
{
    const struct fsm_undeleted *view;
    size_t count = 0;

    for (uint32_t place = 0; (view = fsm_undeleted_next(fsm, place)) != NULL;
         place = view->place + 1) {
        uint64_t due_ms = fsm_undeleted_due_ms(view);
        size_t at = count;

        if (due_ms > at_ms || (count == max && due[max - 1].due_ms <= due_ms))
            continue;
        if (count < max)
            count++;
        else
            at--;
        for (; at > 0 && due[at - 1].due_ms > due_ms; at--)
            due[at] = due[at - 1];
        due[at] = (struct due){due_ms, view->checkpoint_id};
    }
    return count;
}

/* Those that were not. */
static size_t collectable_fresh(const struct fsm *fsm, uint64_t *ret_ids, size_t max)
{
    size_t count = 0;

    for (const struct list *at = fsm->collectable->next; at != fsm->collectable && count < max;
         at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, queue);

        if (checkpoint->undeleted == NULL)
            ret_ids[count++] = checkpoint->view.id;
    }
    return count;
}

/* A quarter of the list is kept for what failed before, the rest for what was not tried; each may
 * use what the other leaves. Without that, thousands of folders on a broken destination would keep
 * all others waiting. */
size_t fsm_collectable(const struct fsm *fsm, uint64_t at_ms, uint64_t *ret_ids, size_t max)
{
    struct due due[FSM_COLLECTABLE_MAX];
    size_t again, fresh;

    CHECK(fsm != NULL);
    CHECK(ret_ids != NULL || max == 0);
    CHECK(max <= FSM_COLLECTABLE_MAX);
    if (fsm_pause(fsm) != NULL)
        return 0;
    again = undeleted_due(fsm, fsm_max(at_ms, fsm->now_ms), due, max);
    fresh = collectable_fresh(fsm, ret_ids, max - fsm_min(again, max / 4));
    again = fsm_min(again, max - fresh);
    for (size_t i = 0; i < again; i++)
        ret_ids[fresh + i] = due[i].checkpoint_id;
    return fresh + again;
}
