/* Which checkpoints are granted bandwidth next: the best of all that wait, found in steps.
 *
 * Flow     a scan goes over the targets' lists of active checkpoints, by id, and keeps the best of
 *          each in a heap whose root is the worst of them: a target that is full does not hide what
 *          waits for another.
 * Shapes   a step visits a bounded number; between two, entries may be applied: what has left is
 *          passed over, what has come since is found when its id is still ahead.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "src/base/heap.h"

/* A back-off that is not over keeps a checkpoint out until a Tick clears it, so that this asks for
 * no time. */
static bool grant_allowed(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED &&
           checkpoint->view.retry_at_ms == 0 && !fsm_checkpoint_held(fsm, checkpoint);
}

/* a * milli / 1000, saturated. */
static uint64_t scaled_by_milli(uint64_t a, uint64_t milli)
{
    uint64_t product;

    return __builtin_mul_overflow(a, milli, &product) ? UINT64_MAX : product / 1000;
}

/* The work at stake, and with it the chance to lose it, goes on growing while a checkpoint waits:
 * its value per byte grows with the square of its age. Without that, large jobs would starve behind
 * small ones that are asked again and again. */
uint64_t fsm_grant_priority(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint)
{
    enum { GROWTH_MILLI_MAX = 1000000000 };
    uint64_t age_ms = checkpoint->terms == NULL ? 0 : checkpoint->terms->age_ms;
    uint64_t waited_ms =
        fsm->now_ms > checkpoint->created_at_ms ? fsm->now_ms - checkpoint->created_at_ms : 0;
    uint64_t growth_milli;

    CHECK(checkpoint->id != 0);
    if (age_ms == 0)
        return checkpoint->priority_gpu_ms_per_gb;
    growth_milli = waited_ms / age_ms >= GROWTH_MILLI_MAX / 1000
                       ? GROWTH_MILLI_MAX
                       : 1000 + scaled_by_milli(1000000, waited_ms) / age_ms;
    return scaled_by_milli(scaled_by_milli(checkpoint->priority_gpu_ms_per_gb, growth_milli),
                           growth_milli);
}

bool fsm_grant_weighed(const struct fsm_checkpoint *checkpoint)
{
    CHECK(checkpoint->id != 0);
    return checkpoint->terms != NULL &&
           checkpoint->priority_gpu_ms_per_gb <= FSM_PRIORITY_WEIGHED_MAX;
}

/* Resumed ones first, then by value, then the oldest. */
static bool granted_before(const struct fsm_waiting *a, const struct fsm_waiting *b)
{
    if (a->resumed != b->resumed)
        return a->resumed;
    return a->value != b->value ? a->value > b->value : a->id < b->id;
}

/* The root is the worst one. */
static bool granted_after(const void *a, const void *b)
{
    return granted_before(b, a);
}

static const struct heap_kind waiting_heap = {sizeof(struct fsm_waiting), granted_after, NULL};
_Static_assert(sizeof(struct fsm_waiting) <= HEAP_ITEM_BYTES_MAX, "an item of a heap");

/* The heap holds the best `max`; who is not better than the worst of them is dropped at once. */
static void scan_take(struct fsm_grantable_scan *scan, const struct fsm_waiting *waiting)
{
    struct fsm_waiting *heap = scan->best + scan->base; /* of this target */
    size_t count = scan->count - scan->base;

    CHECK(scan->count <= scan->base + scan->max);
    if (count < scan->max) {
        heap[count] = *waiting;
        heap_up(&waiting_heap, heap, count);
        scan->count++;
    } else if (granted_before(waiting, &heap[0])) {
        heap[0] = *waiting;
        heap_down(&waiting_heap, heap, 0, count);
    }
}

/* The sums are of all that wait, also of those for whom there is no room in `best`: the evaluator
 * takes the price of bandwidth and the length of the line from them. */
static void scan_visit(const struct fsm *fsm, struct fsm_grantable_scan *scan,
                       const struct checkpoint *checkpoint)
{
    struct fsm_waiting waiting = {.id = checkpoint->view.id,
                                  .resumed = checkpoint->view.resumed_from_outage};
    struct fsm_waiting_sum *sum = &scan->sums[scan->target_slot];

    CHECK(scan->count <= scan->base + scan->max);
    CHECK(checkpoint->view.id != 0);
    if (!grant_allowed(fsm, checkpoint))
        return;
    sum->count++;
    sum->bytes = fsm_add(
        sum->bytes, allocation_at(fsm, checkpoint->view.allocation_slot)->view.size_estimate_bytes);
    if (fsm_grant_weighed(&checkpoint->view))
        sum->price_gpu_ms_per_gb =
            fsm_max(sum->price_gpu_ms_per_gb, fsm_grant_priority(fsm, &checkpoint->view));
    waiting.value = waiting.resumed ? checkpoint->view.recompute_saved_gpu_ms
                                    : fsm_grant_priority(fsm, &checkpoint->view);
    scan_take(scan, &waiting);
}

/* The first active checkpoint of the target with an id above the last one visited; NULL: none. The
 * last one may have ended between two steps: then its place is looked for by its id. Counts what it
 * passes over. */
static const struct list *scan_resume(const struct fsm *fsm, const struct target *target,
                                      const struct fsm_grantable_scan *scan, size_t *visits)
{
    const struct checkpoint *at = checkpoint_find(fsm, scan->after_id);

    CHECK(scan->count <= scan->base + scan->max);
    CHECK(target->view.id != NULL);
    if (scan->after_id == 0)
        return target->active.next;
    if (at != NULL && fsm_checkpoint_state_active(at->view.state))
        return at->queue.next;
    for (at = fsm_registry_next(fsm, scan->after_id); at != NULL;
         at = fsm_registry_next(fsm, at->view.id), ++*visits)
        if (at->view.target_slot == target->view.slot &&
            fsm_checkpoint_state_active(at->view.state))
            return &at->queue;
    return &target->active;
}

/* The heap of the target that is done stays where it is; the next one's begins behind it. */
static void scan_next_target(struct fsm_grantable_scan *scan)
{
    CHECK(scan->count <= scan->base + scan->max);
    scan->target_slot++;
    scan->after_id = 0;
    scan->base = scan->count;
}

/* A target that is away has only paused ones. It costs a visit too, so that a step ends. */
static size_t scan_target(const struct fsm *fsm, struct fsm_grantable_scan *scan, size_t left)
{
    const struct target *target = target_find_slot(fsm, scan->target_slot);
    const struct list *at;
    size_t visits = 0;

    CHECK(scan->count <= scan->base + scan->max);
    if (target == NULL || !target->view.available) {
        scan_next_target(scan);
        return 1;
    }
    for (at = scan_resume(fsm, target, scan, &visits); at != &target->active && visits < left;
         at = at->next, visits++) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, queue);

        scan_visit(fsm, scan, checkpoint);
        scan->after_id = checkpoint->view.id;
    }
    if (at == &target->active) {
        scan_next_target(scan);
        visits++;
    }
    return visits;
}

/* The best of all targets together, in order. */
static void scan_sort(struct fsm_grantable_scan *scan)
{
    CHECK(scan->count <= scan->base + scan->max);
    for (size_t i = scan->count / 2; i > 0; i--)
        heap_down(&waiting_heap, scan->best, i - 1, scan->count);
    for (size_t end = scan->count; end > 1; end--) {
        struct fsm_waiting last = scan->best[end - 1];

        scan->best[end - 1] = scan->best[0];
        scan->best[0] = last;
        heap_down(&waiting_heap, scan->best, 0, end - 1);
    }
}

void fsm_grantable_begin(struct fsm_grantable_scan *scan, struct fsm_waiting *best,
                         size_t max_per_target)
{
    CHECK(scan != NULL);
    CHECK(best != NULL);
    *scan = (struct fsm_grantable_scan){.best = best, .max = max_per_target};
}

/* When it is done the heaps of all targets are sorted as one. */
bool fsm_grantable_step(const struct fsm *fsm, struct fsm_grantable_scan *scan, size_t visits_max)
{
    size_t visits = 0;

    CHECK(fsm != NULL);
    CHECK(scan != NULL);
    while (scan->max > 0 && scan->target_slot < fsm->targets.slot_end) {
        if (visits >= visits_max)
            return false;
        visits += scan_target(fsm, scan, visits_max - visits);
    }
    scan_sort(scan);
    return true;
}

bool fsm_grant_possible(const struct fsm *fsm, uint64_t id)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, id);

    return checkpoint != NULL && grant_allowed(fsm, checkpoint) &&
           target_at(fsm, checkpoint->view.target_slot)->view.available;
}

/* In one go, however many there are: for tests. */
size_t fsm_grantable(const struct fsm *fsm, uint64_t *ret_ids, size_t max)
{
    struct fsm_waiting *best = check_calloc(fsm->targets.slot_end * max, sizeof(*best));
    struct fsm_grantable_scan scan;
    size_t count;

    CHECK(ret_ids != NULL || max == 0);
    fsm_grantable_begin(&scan, best, max);
    while (!fsm_grantable_step(fsm, &scan, SIZE_MAX))
        continue;
    count = scan.count < max ? scan.count : max;
    for (size_t i = 0; i < count; i++)
        ret_ids[i] = best[i].id;
    free(best);
    return count;
}
