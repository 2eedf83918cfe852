/* See sim_uv.h. */
#include "tests/sim/sim_uv.h"

#include <string.h>
#include <sys/random.h>

#include "src/base/check.h"

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

    CHECK(handle->type == UV_TIMER);
    uv_timer_stop((uv_timer_t *)handle);
    handle->close_cb = closed;
    handle->flags |= HANDLE_CLOSING;
    if (closed != NULL)
        sim_on_drop(sim_schedule(loop->sim, loop->node, 0, handle_closed, handle), handle_closed);
}

/* ---- chance ---- */

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
