/* A binary heap of timers under one libuv timer. See timers.h. */
#include "src/rpc/timers.h"

#include <stdlib.h>

#include "src/base/check.h"
#include "src/base/heap.h"

static bool timer_before(const void *a, const void *b)
{
    return (*(struct rpc_timer *const *)a)->due_ms < (*(struct rpc_timer *const *)b)->due_ms;
}

static void timer_placed(void *item, size_t i)
{
    (*(struct rpc_timer **)item)->position = i + 1;
}

static const struct heap_kind timer_heap = {sizeof(struct rpc_timer *), timer_before, timer_placed};

static void timer_remove(struct rpc_timers *timers, struct rpc_timer *timer)
{
    size_t i = timer->position - 1;
    struct rpc_timer *last = timers->heap[--timers->count];

    CHECK(timer->position > 0 && i <= timers->count);
    timer->position = 0;
    if (last == timer)
        return;
    timers->heap[i] = last;
    heap_up(&timer_heap, timers->heap, i);
    heap_down(&timer_heap, timers->heap, last->position - 1, timers->count);
}

static void timers_fired(uv_timer_t *uv);

/* Only an earlier due time moves the libuv timer; a later one is found when it fires. */
static void timers_arm(struct rpc_timers *timers)
{
    uint64_t now_ms = uv_now(timers->uv.loop);
    uint64_t due_ms = timers->count > 0 ? timers->heap[0]->due_ms : UINT64_MAX;

    if (due_ms >= timers->armed_ms)
        return;
    timers->armed_ms = due_ms;
    CHECK(uv_timer_start(&timers->uv, timers_fired, due_ms > now_ms ? due_ms - now_ms : 0, 0) == 0);
}

static void timers_fired(uv_timer_t *uv)
{
    struct rpc_timers *timers = uv->data;
    uint64_t now_ms = uv_now(uv->loop);

    timers->armed_ms = 0; /* no arming while timers are taken out */
    while (timers->count > 0 && timers->heap[0]->due_ms <= now_ms) {
        struct rpc_timer *timer = timers->heap[0];

        timer_remove(timers, timer);
        timer->fire(timer);
    }
    timers->armed_ms = UINT64_MAX;
    if (!uv_is_closing((uv_handle_t *)uv))
        timers_arm(timers);
}

void rpc_timers_init(struct rpc_timers *timers, uv_loop_t *loop)
{
    *timers = (struct rpc_timers){.armed_ms = UINT64_MAX};
    CHECK(uv_timer_init(loop, &timers->uv) == 0);
    timers->uv.data = timers;
}

static void timers_closed(uv_handle_t *handle)
{
    struct rpc_timers *timers = handle->data;

    timers->closed(timers->closed_data);
}

void rpc_timers_close(struct rpc_timers *timers, void (*closed)(void *data), void *data)
{
    while (timers->count > 0)
        timer_remove(timers, timers->heap[timers->count - 1]);
    free(timers->heap);
    timers->heap = NULL;
    timers->capacity = 0;
    timers->closed = closed;
    timers->closed_data = data;
    uv_close((uv_handle_t *)&timers->uv, timers_closed);
}

void rpc_timer_init(struct rpc_timer *timer, void (*fire)(struct rpc_timer *timer))
{
    *timer = (struct rpc_timer){.fire = fire};
}

void rpc_timer_start(struct rpc_timers *timers, struct rpc_timer *timer, uint64_t due_ms)
{
    CHECK(!uv_is_closing((uv_handle_t *)&timers->uv));
    rpc_timer_stop(timers, timer);
    if (timers->count == timers->capacity) {
        timers->capacity = timers->capacity == 0 ? 16 : timers->capacity * 2;
        timers->heap = check_realloc(timers->heap, timers->capacity, sizeof(struct rpc_timer *));
    }
    timer->due_ms = due_ms;
    timers->heap[timers->count] = timer;
    heap_up(&timer_heap, timers->heap, timers->count++);
    timers_arm(timers);
}

void rpc_timer_stop(struct rpc_timers *timers, struct rpc_timer *timer)
{
    if (timer->position != 0)
        timer_remove(timers, timer);
}
