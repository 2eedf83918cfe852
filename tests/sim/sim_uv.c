/* See sim_uv.h. */
#include "tests/sim/sim_uv.h"

#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/net/uv_network.h"

enum {
    IDLE_LATE_IN = 64, /* one round of a loop in so many comes as late as ... */
    IDLE_LATE_MAX_US = 20000
};

void sim_loop_init(struct sim_loop *loop, struct sim *sim, unsigned node)
{
    memset(loop, 0, sizeof(*loop));
    loop->sim = sim;
    loop->node = node;
    loop->uv.data = loop;
    sim_node_clock(sim, node, &loop->clock);
}

struct sim_loop *sim_loop_of(const uv_loop_t *loop)
{
    return loop->data;
}

uint64_t uv_now(const uv_loop_t *loop)
{
    const struct sim_loop *own = sim_loop_of(loop);

    return own->clock.monotonic_us(own->clock.context) / 1000;
}

void uv_update_time(uv_loop_t *loop)
{
    (void)loop;
}

uint64_t uv_hrtime(void)
{
    return sim_now_us(sim_current()) * 1000;
}

/* ---- timers: the event is kept where libuv keeps its heap ---- */

static void timer_fire(void *data)
{
    uv_timer_t *timer = data;

    timer->heap_node[0] = NULL;
    timer->timer_cb(timer);
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    void *data = timer->data;

    memset(timer, 0, sizeof(*timer));
    timer->data = data;
    timer->loop = loop;
    timer->type = UV_TIMER;
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout_ms, uint64_t repeat_ms)
{
    struct sim_loop *loop = sim_loop_of(timer->loop);

    CHECK(repeat_ms == 0);
    CHECK(!uv_is_closing((uv_handle_t *)timer));
    uv_timer_stop(timer);
    timer->timer_cb = callback;
    timer->heap_node[0] = sim_schedule(
        loop->sim, loop->node, timeout_ms > UINT32_MAX ? UINT64_C(1) << 50 : timeout_ms * 1000,
        timer_fire, timer);
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    if (timer->heap_node[0] != NULL)
        sim_cancel(sim_loop_of(timer->loop)->sim, timer->heap_node[0]);
    timer->heap_node[0] = NULL;
    return 0;
}

/* ---- rounds of the loop: libuv's list of idle handles has the event and whether it is started ---- */

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle)
{
    void *data = idle->data;

    memset(idle, 0, sizeof(*idle));
    idle->data = data;
    idle->loop = loop;
    idle->type = UV_IDLE;
    return 0;
}

static void idle_fire(void *data)
{
    uv_idle_t *idle = data;
    struct sim_loop *loop = sim_loop_of(idle->loop);

    idle->queue[0] = NULL;
    idle->idle_cb(idle);
    if (idle->queue[1] != NULL && idle->queue[0] == NULL)
        idle->queue[0] = sim_schedule(loop->sim, loop->node, 1, idle_fire, idle);
}

int uv_idle_start(uv_idle_t *idle, uv_idle_cb callback)
{
    struct sim_loop *loop = sim_loop_of(idle->loop);
    struct sim *sim = loop->sim;

    CHECK(!uv_is_closing((uv_handle_t *)idle));
    if (idle->queue[1] != NULL)
        return 0;
    idle->idle_cb = callback;
    idle->queue[1] = idle;
    if (idle->queue[0] == NULL)
        idle->queue[0] = sim_schedule(
            sim, loop->node, sim_chance(sim, IDLE_LATE_IN) ? sim_random(sim, IDLE_LATE_MAX_US) : 0,
            idle_fire, idle);
    return 0;
}

int uv_idle_stop(uv_idle_t *idle)
{
    if (idle->queue[0] != NULL)
        sim_cancel(sim_loop_of(idle->loop)->sim, idle->queue[0]);
    idle->queue[0] = NULL;
    idle->queue[1] = NULL;
    return 0;
}

enum { HANDLE_CLOSING = 1 };

int uv_is_closing(const uv_handle_t *handle)
{
    return (handle->flags & HANDLE_CLOSING) != 0;
}

static void handle_closed(void *data)
{
    uv_handle_t *handle = data;

    handle->close_cb(handle);
}

void uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    struct sim_loop *loop = sim_loop_of(handle->loop);

    CHECK(handle->type == UV_TIMER || handle->type == UV_IDLE);
    if (handle->type == UV_TIMER)
        uv_timer_stop((uv_timer_t *)handle);
    else
        uv_idle_stop((uv_idle_t *)handle);
    handle->close_cb = closed;
    handle->flags |= HANDLE_CLOSING;
    if (closed != NULL)
        sim_on_drop(sim_schedule(loop->sim, loop->node, 0, handle_closed, handle), handle_closed);
}

/* ---- the network ---- */

void network_uv_ops(uv_loop_t *loop, struct network_ops *ret_ops)
{
    const struct sim_loop *own = sim_loop_of(loop);

    sim_node_network(own->sim, own->node, ret_ops);
}

/* ---- time and chance ---- */

/* nghttp2 limits by it how often streams are reset. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    uint64_t now_us;

    if (clock != CLOCK_MONOTONIC || sim_current() == NULL)
        return (int)syscall(SYS_clock_gettime, clock, ret_time);
    now_us = sim_now_us(sim_current());
    *ret_time = (struct timespec){.tv_sec = (time_t)(now_us / 1000000),
                                  .tv_nsec = (long)(now_us % 1000000) * 1000};
    return 0;
}

ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    struct random_ops random;

    (void)flags;
    if (sim_current() == NULL) { /* of a library before the world is there */
        memset(bytes, 0x5a, length);
        return (ssize_t)length;
    }
    sim_node_random(sim_current(), 0, &random);
    random.fill(random.context, bytes, length);
    return (ssize_t)length;
}
