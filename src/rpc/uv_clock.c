/* Clock and random tables over libuv and getrandom(2). See uv_clock.h. */
#include "src/rpc/uv_clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "src/base/check.h"

struct clock_timer {
    uv_timer_t uv;
    void (*fire)(void *data);
    void *data;
    bool firing;
};

static uint64_t clock_monotonic_us(void *context)
{
    (void)context;
    return uv_hrtime() / 1000;
}

static uint64_t clock_wall_ms(void *context)
{
    struct timespec now;

    (void)context;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct clock_timer *clock_timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct clock_timer *timer = check_calloc(1, sizeof(*timer));
    uv_loop_t *loop = context;

    CHECK(uv_timer_init(loop, &timer->uv) == 0);
    timer->uv.data = timer;
    timer->fire = fire;
    timer->data = data;
    return timer;
}

static void timer_fired(uv_timer_t *uv)
{
    struct clock_timer *timer = uv->data;

    timer->firing = true;
    timer->fire(timer->data);
    timer->firing = false; /* freed by the loop, so not before this */
}

/* No delay means the next turn of the loop. libuv runs a timer that restarts itself at once in the
 * same turn, so that one waits for the next millisecond: I/O comes in between. The loop's time is
 * cached and may lag: the due time is taken from the real clock and rounded up to the loop's
 * milliseconds, so that a timer never fires before monotonic_us() says it is due. */
static void clock_timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    uint64_t now_us = clock_monotonic_us(NULL);
    uint64_t due_us = delay_us > UINT64_MAX / 2 ? UINT64_MAX / 2 : now_us + delay_us;
    uint64_t due_ms = (due_us + 999) / 1000;
    uint64_t loop_ms = uv_now(timer->uv.loop);

    uint64_t wait_ms = due_ms > loop_ms ? due_ms - loop_ms : 0;

    if (delay_us == 0 && !timer->firing)
        wait_ms = 0;
    CHECK(uv_timer_start(&timer->uv, timer_fired, wait_ms, 0) == 0);
}

static void clock_timer_stop(struct clock_timer *timer)
{
    uv_timer_stop(&timer->uv);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void clock_timer_free(struct clock_timer *timer)
{
    if (timer != NULL)
        uv_close((uv_handle_t *)&timer->uv, timer_closed);
}

static void random_fill(void *context, void *bytes, size_t length)
{
    uint8_t *at = bytes;

    (void)context;
    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);

        if (got < 0 && errno == EINTR)
            continue;
        CHECK(got > 0);
        at += got;
        length -= (size_t)got;
    }
}

void uv_clock_ops(uv_loop_t *loop, struct clock_ops *ret_ops)
{
    *ret_ops = (struct clock_ops){.context = loop,
                                  .monotonic_us = clock_monotonic_us,
                                  .wall_ms = clock_wall_ms,
                                  .timer_new = clock_timer_new,
                                  .timer_start = clock_timer_start,
                                  .timer_stop = clock_timer_stop,
                                  .timer_free = clock_timer_free};
}

void uv_random_ops(struct random_ops *ret_ops)
{
    *ret_ops = (struct random_ops){.context = NULL, .fill = random_fill};
}
