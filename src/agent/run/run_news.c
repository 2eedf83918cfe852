/* News of an application's keeper on the loop of ckpt-run. See run_news.h. */
#include "src/agent/run/run_news.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "src/base/check.h"

static struct {
    uv_poll_t *poll; /* NULL: none is watched */
    int fd;
    run_news_fn *take;
} watch;

/* take() may stop the watch, or begin another one. */
void run_news_read(void)
{
    uv_poll_t *poll = watch.poll;
    struct keeper_news news;
    ssize_t got;

    while (poll != NULL && watch.poll == poll) {
        got = recv(watch.fd, &news, sizeof(news), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        watch.take(got == (ssize_t)sizeof(news) ? &news : NULL);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    if (poll == watch.poll)
        run_news_read();
}

void run_news_watch(uv_loop_t *loop, int fd, run_news_fn *take)
{
    CHECK(watch.poll == NULL);
    watch.poll = check_calloc(1, sizeof(*watch.poll));
    watch.fd = fd;
    watch.take = take;
    CHECK(uv_poll_init(loop, watch.poll, fd) == 0);
    CHECK(uv_poll_start(watch.poll, UV_READABLE, on_readable) == 0);
}

static void poll_closed(uv_handle_t *handle)
{
    free(handle);
}

void run_news_stop(void)
{
    if (watch.poll == NULL)
        return;
    uv_close((uv_handle_t *)watch.poll, poll_closed);
    watch.poll = NULL;
}
