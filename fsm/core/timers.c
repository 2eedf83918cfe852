/* Deadlines in an indexed heap. See timers.h. */
#include "fsm/core/timers.h"

#include <malloc.h>
#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"

/* No two timers are equal in all three, so that the first one is the same on every member. */
static bool timer_before(const struct timer *a, const struct timer *b)
{
    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->key < b->key;
}

static void timer_place(struct timers *timers, struct timer *timer, uint32_t i)
{
    CHECK(timers->count <= timers->capacity);
    timers->heap[i] = timer;
    timer->position = i + 1;
}

static void timer_up(struct timers *timers, uint32_t i)
{
    struct timer *timer = timers->heap[i];

    CHECK(timers->count <= timers->capacity);
    for (; i > 0 && timer_before(timer, timers->heap[(i - 1) / 2]); i = (i - 1) / 2)
        timer_place(timers, timers->heap[(i - 1) / 2], i);
    timer_place(timers, timer, i);
}

static void timer_down(struct timers *timers, uint32_t i)
{
    struct timer *timer = timers->heap[i];

    CHECK(timers->count <= timers->capacity);
    for (uint32_t child = 2 * i + 1; child < timers->count; child = 2 * i + 1) {
        if (child + 1 < timers->count && timer_before(timers->heap[child + 1], timers->heap[child]))
            child++;
        if (!timer_before(timers->heap[child], timer))
            break;
        timer_place(timers, timers->heap[child], i);
        i = child;
    }
    timer_place(timers, timer, i);
}

/* The last one takes the place and may belong above it or below: one of the two walks does
 * nothing. */
static void timer_remove(struct timers *timers, struct timer *timer)
{
    uint32_t i = timer->position - 1;
    struct timer *last = timers->heap[--timers->count];

    CHECK(timers->heap[i] == timer);
    timer->position = 0;
    if (last == timer)
        return;
    timer_place(timers, last, i);
    timer_up(timers, i);
    timer_down(timers, last->position - 1);
}

/* A timer that is set to what it has stays where it is, so whoever is not sure arms it again. */
void fsm_timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms)
{
    CHECK(timers != NULL);
    CHECK(timer != NULL);
    if (timer->position != 0 && timer->at_ms == at_ms)
        return;
    if (timer->position != 0)
        timer_remove(timers, timer);
    timer->at_ms = at_ms;
    if (at_ms == 0)
        return;
    if (timers->count == timers->capacity) {
        timers->capacity = timers->capacity == 0 ? 64 : timers->capacity * 2;
        timers->heap = check_realloc(timers->heap, timers->capacity, sizeof(*timers->heap));
    }
    timers->heap[timers->count] = timer;
    timers->count++;
    timer_up(timers, timers->count - 1);
}

struct timer *fsm_timer_first(const struct timers *timers)
{
    CHECK(timers != NULL);
    return timers->count == 0 ? NULL : timers->heap[0];
}

void fsm_timers_free(struct timers *timers)
{
    CHECK(timers != NULL);
    free(timers->heap);
    memset(timers, 0, sizeof(*timers));
}
