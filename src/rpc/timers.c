/* A binary heap of timers under one libuv timer. See timers.h. */
#include "src/rpc/timers.h"

#include <stdlib.h>

#include "src/base/check.h"

static void heap_set(struct rpc_timers *timers, size_t position, struct rpc_timer *timer)
{
    timers->heap[position] = timer;
    timer->position = position;
}

static void heap_up(struct rpc_timers *timers, size_t position, struct rpc_timer *timer)
{
    for (; position > 1 && timers->heap[position / 2]->due_ms > timer->due_ms; position /= 2)
        heap_set(timers, position, timers->heap[position / 2]);
    heap_set(timers, position, timer);
}

static void heap_down(struct rpc_timers *timers, size_t position, struct rpc_timer *timer)
{
    for (;;) {
        size_t child = position * 2;

        if (child < timers->count && timers->heap[child + 1]->due_ms < timers->heap[child]->due_ms)
            child++;
        if (child > timers->count || timers->heap[child]->due_ms >= timer->due_ms)
            break;
        heap_set(timers, position, timers->heap[child]);
        position = child;
    }
    heap_set(timers, position, timer);
}

static void heap_remove(struct rpc_timers *timers, struct rpc_timer *timer)
{
    size_t position = timer->position;
    struct rpc_timer *last = timers->heap[timers->count--];

    CHECK(position > 0 && position <= timers->count + 1);
    timer->position = 0;
    if (last == timer)
        return;
    if (position > 1 && timers->heap[position / 2]->due_ms > last->due_ms)
        heap_up(timers, position, last);
    else
        heap_down(timers, position, last);
}

static void timers_fired(uv_timer_t *uv);

/* Only an earlier due time moves the libuv timer; a later one is found when it fires. */
static void timers_arm(struct rpc_timers *timers)
{
    uint64_t now_ms = uv_now(timers->uv.loop);
    uint64_t due_ms = timers->count > 0 ? timers->heap[1]->due_ms : UINT64_MAX;

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
    while (timers->count > 0 && timers->heap[1]->due_ms <= now_ms) {
        struct rpc_timer *timer = timers->heap[1];

        heap_remove(timers, timer);
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
        heap_remove(timers, timers->heap[timers->count]);
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
    if (timers->count + 1 >= timers->capacity) {
        timers->capacity = timers->capacity == 0 ? 16 : timers->capacity * 2;
        timers->heap = check_realloc(timers->heap, timers->capacity, sizeof(struct rpc_timer *));
    }
    timer->due_ms = due_ms;
    heap_up(timers, ++timers->count, timer);
    timers_arm(timers);
}

void rpc_timer_stop(struct rpc_timers *timers, struct rpc_timer *timer)
{
    if (timer->position != 0)
        heap_remove(timers, timer);
}
