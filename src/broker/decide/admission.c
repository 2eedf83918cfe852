/* Which of a cycle's decisions are proposed. See admission.h. Each target has a heap of those that
 * fit so far, with the worst at its root: a better one pushes the worst out as soon as the better
 * ones together leave no room for it. */
#include "src/broker/decide/admission.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/heap.h"

struct admission_heap {
    struct admission_candidate *items; /* the root is the worst */
    size_t count, capacity;
    double bytes;
    bool left_out; /* somebody was */
};

struct admission {
    admission_left_out *left_out;
    void *context;
    struct admission_room rooms[FSM_TARGETS_MAX];
    struct admission_heap heaps[FSM_TARGETS_MAX];
    size_t count;                       /* in all heaps */
    struct admission_candidate *sorted; /* once closed */
    size_t sorted_count, next;
    struct admission_line {
        bool drawn;
        double gain;
    } lines[FSM_TARGETS_MAX];
};

/* ---- room ---- */

/* Three quarters of the budget count, as everywhere when it is asked whether a target is full; what
 * writes or waits already takes its part. */
void admission_rooms(const struct fsm *fsm, const struct fsm_grantable_scan *waiting,
                     uint64_t now_ms, uint64_t window_ms,
                     struct admission_room ret_rooms[FSM_TARGETS_MAX])
{
    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++) {
        const struct fsm_target *target =
            slot < fsm_target_slots(fsm) ? fsm_target_find_slot(fsm, slot) : NULL;
        const struct fsm_waiting_sum *sum = &waiting->sums[slot];

        ret_rooms[slot] = (struct admission_room){0};
        if (target == NULL || !target->available)
            continue;
        ret_rooms[slot].bytes =
            (double)(target->budget_bytes_per_s / 4 * 3) * ((double)window_ms / 1e3) -
            (double)sum->bytes - (double)fsm_target_writing_bytes(fsm, slot, now_ms);
        ret_rooms[slot].clear_gain_gpu_s_per_byte =
            (double)sum->price_gpu_ms_per_gb / 1e12 * ADMISSION_CLEARLY;
        if (sum->count < ADMISSION_WAITING_MIN)
            ret_rooms[slot].count = ADMISSION_WAITING_MIN - sum->count;
    }
}

/* ---- heaps ---- */

/* Of equals the higher slot is worse, so that the order is the same whenever it is asked for. */
static bool is_worse(const void *x, const void *y)
{
    const struct admission_candidate *a = x, *b = y;

    if (a->gain_gpu_s_per_byte != b->gain_gpu_s_per_byte)
        return a->gain_gpu_s_per_byte < b->gain_gpu_s_per_byte;
    return a->slot > b->slot;
}

static const struct heap_kind worst_first = {sizeof(struct admission_candidate), is_worse, NULL};
_Static_assert(sizeof(struct admission_candidate) <= HEAP_ITEM_BYTES_MAX, "an item of a heap");

/* Leaves the worst out, and tells so at once: its verdict is known. */
static void heap_pop(struct admission *admission, struct admission_heap *heap)
{
    struct admission_candidate worst;

    CHECK(heap->count > 0 && admission->count > 0);
    worst = heap->items[0];
    heap->bytes -= worst.size_bytes;
    heap->left_out = true;
    heap->items[0] = heap->items[--heap->count];
    if (heap->count > 0)
        heap_down(&worst_first, heap->items, 0, heap->count);
    admission->count--;
    admission->left_out(admission->context, &worst);
}

/* With the worst all of them are. */
static bool clearly_better(const struct admission_heap *heap, const struct admission_room *room)
{
    return heap->count <= ADMISSION_BETTER_MAX &&
           heap->items[0].gain_gpu_s_per_byte > room->clear_gain_gpu_s_per_byte;
}

/* The better ones leave no room for the worst. */
static bool is_overfull(const struct admission_heap *heap, const struct admission_room *room)
{
    return heap->count > 0 && !clearly_better(heap, room) && heap->count - 1 >= room->count &&
           heap->bytes - heap->items[0].size_bytes >= room->bytes;
}

/* Over ADMISSION_MAX in all, the target with the most candidates gives one up. */
static struct admission_heap *find_largest(struct admission *admission)
{
    struct admission_heap *found = &admission->heaps[0];

    for (uint32_t target = 1; target < FSM_TARGETS_MAX; target++)
        if (admission->heaps[target].count > found->count)
            found = &admission->heaps[target];
    return found;
}

/* ---- a cycle ---- */

struct admission *admission_new(admission_left_out *left_out, void *context)
{
    struct admission *admission = check_calloc(1, sizeof(*admission));

    admission->left_out = left_out;
    admission->context = context;
    return admission;
}

/* Empty, with no memory held but for what a quiet cycle needs. */
static void forget_candidates(struct admission *admission)
{
    for (uint32_t target = 0; target < FSM_TARGETS_MAX; target++) {
        free(admission->heaps[target].items);
        admission->heaps[target] = (struct admission_heap){0};
    }
    free(admission->sorted);
    admission->sorted = NULL;
    admission->sorted_count = admission->next = admission->count = 0;
}

void admission_free(struct admission *admission)
{
    if (admission == NULL)
        return;
    forget_candidates(admission);
    free(admission);
}

void admission_begin(struct admission *admission,
                     const struct admission_room rooms[FSM_TARGETS_MAX])
{
    forget_candidates(admission);
    memcpy(admission->rooms, rooms, sizeof(admission->rooms));
}

/* The new one may be the one that is left out. */
void admission_add(struct admission *admission, const struct admission_candidate *candidate)
{
    struct admission_heap *heap = &admission->heaps[candidate->target];
    const struct admission_room *room = &admission->rooms[candidate->target];

    CHECK(candidate->target < FSM_TARGETS_MAX && admission->sorted == NULL);
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity == 0 ? 256 : heap->capacity * 2;
        heap->items = check_realloc(heap->items, heap->capacity, sizeof(*heap->items));
    }
    heap->items[heap->count++] = *candidate;
    heap->bytes += candidate->size_bytes;
    admission->count++;
    heap_up(&worst_first, heap->items, heap->count - 1);
    while (is_overfull(heap, room))
        heap_pop(admission, heap);
    if (admission->count > ADMISSION_MAX)
        heap_pop(admission, find_largest(admission));
    CHECK(admission->count <= ADMISSION_MAX);
}

static int best_first(const void *left, const void *right)
{
    return is_worse(left, right) ? 1 : -1;
}

/* Of all targets the best first, so that a full command has the best of all. The line of a target
 * is drawn at the least gain that was admitted. */
void admission_close(struct admission *admission)
{
    CHECK(admission->sorted == NULL && admission->sorted_count == 0);
    if (admission->count > 0)
        admission->sorted = check_calloc(admission->count, sizeof(*admission->sorted));
    for (uint32_t target = 0; target < FSM_TARGETS_MAX; target++) {
        const struct admission_heap *heap = &admission->heaps[target];

        admission->lines[target] = (struct admission_line){0};
        if (heap->count > 0 && heap->left_out)
            admission->lines[target] =
                (struct admission_line){true, heap->items[0].gain_gpu_s_per_byte};
        if (heap->count > 0)
            memcpy(admission->sorted + admission->sorted_count, heap->items,
                   heap->count * sizeof(*heap->items));
        admission->sorted_count += heap->count;
    }
    CHECK(admission->sorted_count == admission->count);
    if (admission->count > 1)
        qsort(admission->sorted, admission->count, sizeof(*admission->sorted), best_first);
}

const struct admission_candidate *admission_next(struct admission *admission)
{
    return admission->next < admission->sorted_count ? &admission->sorted[admission->next++] : NULL;
}

bool admission_line(const struct admission *admission, uint32_t target, double *ret_gain)
{
    CHECK(target < FSM_TARGETS_MAX);
    *ret_gain = admission->lines[target].gain;
    return admission->lines[target].drawn;
}
