/* See worker_serve.h.
 *
 * Flow     readable -> answer_one() for each request that waits, at most SERVING_TURN of them while
 *          there are tokens -> no tokens: no more reading until the timer has brought some.
 *          The worker has closed its end, or takes no answers -> both handles rest until
 *          serving_close().
 * Shapes   tokens: SERVING_PER_S at the most, so many more each second. A put of 100,000 files asks
 *          100,000 times; what one worker may cost the daemon is bounded by them, about 2 % of a
 *          core.
 *          The two buffers of a message are the program's: requests are answered one at a time.
 */
#include "src/dest/worker_serve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"

struct serving {
    const struct destination_serve *serve;
    void *state;
    int fd;
    uv_poll_t poll;
    uv_timer_t refill; /* ticks while requests wait for their turn */
    uint64_t filled_ms;
    unsigned tokens; /* requests that may be answered now */
    unsigned open_handles;
};

static void on_readable(uv_poll_t *poll, int status, int events);

static void stop_serving(struct serving *serving)
{
    uv_poll_stop(&serving->poll);
    uv_timer_stop(&serving->refill);
}

static void fill_tokens(struct serving *serving)
{
    uint64_t now_ms = uv_now(serving->poll.loop);
    uint64_t more = (now_ms - serving->filled_ms) * SERVING_PER_S / 1000;

    if (more == 0)
        return;
    serving->filled_ms = now_ms;
    serving->tokens =
        more > SERVING_PER_S - serving->tokens ? SERVING_PER_S : serving->tokens + (unsigned)more;
}

static void on_refill(uv_timer_t *timer)
{
    struct serving *serving = timer->data;

    fill_tokens(serving);
    if (serving->tokens == 0)
        return;
    uv_timer_stop(timer);
    CHECK(uv_poll_start(&serving->poll, UV_READABLE, on_readable) == 0);
}

/* False: there is nothing to answer, or nobody. */
static bool answer_one(struct serving *serving)
{
    static char request[SERVE_MESSAGE_BYTES], answer[SERVE_MESSAGE_BYTES];
    ssize_t got = recv(serving->fd, request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
    size_t length;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        stop_serving(serving); /* the worker has closed it, or has ended */
        return false;
    }
    length = serving->serve->answer(serving->state, request, (size_t)got, answer);
    CHECK(length > 0 && length <= sizeof(answer));
    if (send(serving->fd, answer, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length)
        return true;
    stop_serving(serving);
    return false;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct serving *serving = poll->data;

    (void)status;
    (void)events;
    fill_tokens(serving);
    for (unsigned i = 0; i < SERVING_TURN && serving->tokens > 0; i++) {
        if (!answer_one(serving))
            return;
        serving->tokens--;
    }
    if (serving->tokens > 0)
        return;
    uv_poll_stop(poll);
    CHECK(uv_timer_start(&serving->refill, on_refill, SERVING_TICK_MS, SERVING_TICK_MS) == 0);
}

int serving_open(uv_loop_t *loop, const struct destination_serve *serve,
                 const char *const *arguments, struct serving **ret_serving, int *ret_worker_end,
                 struct err *err)
{
    struct serving *serving;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_set(err, ERR_IO, "a socket for ckpt-worker: %s", strerror(errno));
    serving = check_calloc(1, sizeof(*serving));
    serving->serve = serve;
    serving->fd = ends[0];
    serving->state = serve->open(arguments);
    serving->tokens = SERVING_PER_S;
    serving->filled_ms = uv_now(loop);
    serving->open_handles = 2;
    CHECK(serving->state != NULL);
    CHECK(uv_poll_init(loop, &serving->poll, serving->fd) == 0);
    CHECK(uv_timer_init(loop, &serving->refill) == 0);
    serving->poll.data = serving->refill.data = serving;
    *ret_serving = serving;
    *ret_worker_end = ends[1];
    return 0;
}

void serving_begin(struct serving *serving)
{
    CHECK(uv_poll_start(&serving->poll, UV_READABLE, on_readable) == 0);
}

static void handle_closed(uv_handle_t *handle)
{
    struct serving *serving = handle->data;

    CHECK(serving->open_handles > 0);
    if (--serving->open_handles > 0)
        return;
    serving->serve->close(serving->state);
    free(serving);
}

void serving_close(struct serving *serving)
{
    if (serving == NULL)
        return;
    stop_serving(serving);
    uv_close((uv_handle_t *)&serving->poll, handle_closed);
    uv_close((uv_handle_t *)&serving->refill, handle_closed);
    close(serving->fd);
}
