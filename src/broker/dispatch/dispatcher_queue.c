/* See dispatcher_queue.h. */
#include "src/broker/dispatch/dispatcher_queue.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

void queue_clear(struct grant_queue *queue)
{
    queue->count = 0;
    queue->sorted = true;
    memset(queue->targets, 0, sizeof(queue->targets));
    memset(queue->injected_bytes_per_s, 0, sizeof(queue->injected_bytes_per_s));
    memset(queue->bytes, 0, sizeof(queue->bytes));
    memset(queue->parts, 0, sizeof(queue->parts));
}

/* The memory of the largest look is kept. */
static void queue_reach(struct grant_queue *queue, size_t count)
{
    if (count <= queue->capacity)
        return;
    queue->places = check_realloc(queue->places, count, sizeof(*queue->places));
    queue->capacity = count;
}

/* A wave is as many writers as three quarters of the budget let begin together, a large one alone;
 * none is left out. */
static bool wave_is_full(uint64_t injected_bytes_per_s, uint64_t budget_bytes_per_s)
{
    uint64_t room = budget_bytes_per_s / 4 * 3;

    return room > 0 && injected_bytes_per_s >= room;
}

static uint64_t rate_of(const struct grant_candidate *candidate, const struct grant_target *of)
{
    unsigned __int128 places_bytes_per_s =
        (unsigned __int128)candidate->wanted_bytes_per_s * of->places / candidate->parts;

    return of->places > 0 && places_bytes_per_s < of->budget_bytes_per_s
               ? (uint64_t)places_bytes_per_s
               : of->budget_bytes_per_s;
}

/* One that waits: behind all that were added before, in the wave that still has room. */
static void queue_add(struct grant_queue *queue, const struct grant_candidate *candidate,
                      const struct grant_target *of)
{
    struct queue_target *target = &queue->targets[candidate->target];
    uint64_t *injected = &queue->injected_bytes_per_s[candidate->target];
    uint64_t *bytes = &queue->bytes[candidate->target];
    uint64_t *parts = &queue->parts[candidate->target];

    if (target->waiting_count == 0)
        target->wave_count = 1;
    if (wave_is_full(*injected, of->budget_bytes_per_s) ||
        (of->places > 0 && *parts > 0 && *parts + candidate->parts > of->places)) {
        target->wave_count++;
        *injected = 0;
        *parts = 0;
    }
    if (candidate->gain_gpu_s_per_byte > target->price_gpu_s_per_byte)
        target->price_gpu_s_per_byte = candidate->gain_gpu_s_per_byte;
    queue->places[queue->count++] = (struct queue_place){.checkpoint_id = candidate->checkpoint_id,
                                                         .target = candidate->target,
                                                         .position = ++target->waiting_count,
                                                         .wave = target->wave_count,
                                                         .bytes_ahead = *bytes,
                                                         .bytes_per_s = rate_of(candidate, of)};
    *injected += candidate->wanted_bytes_per_s;
    *parts += candidate->parts;
    *bytes += candidate->size_bytes;
}

/* Grants come in the order of the candidates, so that one pass tells who got one. */
void queue_note(struct grant_queue *queue, const struct grant_candidate *candidates, size_t count,
                const struct grant *grants, size_t granted, const struct grant_target *targets)
{
    size_t next = 0;

    queue_clear(queue);
    queue_reach(queue, count);
    for (size_t i = 0; i < count; i++) {
        CHECK(candidates[i].target < FSM_TARGETS_MAX);
        if (next < granted && grants[next].checkpoint_id == candidates[i].checkpoint_id)
            next++;
        else
            queue_add(queue, &candidates[i], &targets[candidates[i].target]);
    }
    CHECK(next == granted);
    queue->sorted = false;
}

static int by_id(const void *left, const void *right)
{
    const struct queue_place *a = left, *b = right;

    return (a->checkpoint_id > b->checkpoint_id) - (a->checkpoint_id < b->checkpoint_id);
}

/* Sorted by id when somebody asks for the first time after a look: most looks are asked about by
 * nobody. */
const struct queue_place *queue_find(struct grant_queue *queue, uint64_t checkpoint_id)
{
    struct queue_place wanted = {.checkpoint_id = checkpoint_id};

    if (queue->count == 0)
        return NULL;
    if (!queue->sorted)
        qsort(queue->places, queue->count, sizeof(*queue->places), by_id);
    queue->sorted = true;
    return bsearch(&wanted, queue->places, queue->count, sizeof(*queue->places), by_id);
}

void queue_close(struct grant_queue *queue)
{
    free(queue->places);
    memset(queue, 0, sizeof(*queue));
}
