/* Tells when a process ended that is not our child. See pid_watch.h. */
#include "src/agent/node/pid_watch.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"

struct pid_watch {
    uv_poll_t poll;
    int fd;
    void (*ended)(void *data);
    void *data;
};

static void watch_closed(uv_handle_t *handle)
{
    struct pid_watch *watch = handle->data;

    close(watch->fd);
    free(watch);
}

static void watch_readable(uv_poll_t *poll, int status, int events)
{
    struct pid_watch *watch = poll->data;

    (void)status;
    (void)events;
    uv_poll_stop(poll);
    watch->ended(watch->data);
}

struct pid_watch *pid_watch_new(uv_loop_t *loop, pid_t pid, void (*ended)(void *data), void *data)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pid_watch *watch;

    if (fd < 0)
        return NULL;
    watch = check_calloc(1, sizeof(*watch));
    watch->fd = fd;
    watch->ended = ended;
    watch->data = data;
    watch->poll.data = watch;
    CHECK(uv_poll_init(loop, &watch->poll, fd) == 0);
    CHECK(uv_poll_start(&watch->poll, UV_READABLE, watch_readable) == 0);
    return watch;
}

void pid_watch_free(struct pid_watch *watch)
{
    if (watch != NULL)
        uv_close((uv_handle_t *)&watch->poll, watch_closed);
}
