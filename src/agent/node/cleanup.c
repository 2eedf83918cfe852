/* Removes a job's folders off the loop. See cleanup.h. */
#include "src/agent/node/cleanup.h"

#include <stdlib.h>
#include <string.h>

#include "src/agent/node/user.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

/* Of one folder: only a mount that hangs takes so long. What is overwritten is written anew. */
enum { SWEEP_DEADLINE_MS = 60000, WIPE_DEADLINE_MS = 600000 };

struct cleanup {
    uv_loop_t *loop;
    uv_timer_t timer; /* to call back from the loop when there is nothing left to start */
    char *folders[CLEANUP_FOLDERS_MAX];
    size_t folder_count, next;
    bool wipe;
    struct machine_user user;
    void (*done)(void *data);
    void *data;
};

static void sweep_next(struct cleanup *cleanup);

static void cleanup_closed(uv_handle_t *handle)
{
    struct cleanup *cleanup = handle->data;

    for (size_t i = 0; i < cleanup->folder_count; i++)
        free(cleanup->folders[i]);
    free(cleanup);
}

static void cleanup_finish(uv_timer_t *timer)
{
    struct cleanup *cleanup = timer->data;

    if (cleanup->done != NULL)
        cleanup->done(cleanup->data);
    uv_close((uv_handle_t *)&cleanup->timer, cleanup_closed);
}

static void sweep_ended(void *data, const struct worker_result *result)
{
    struct cleanup *cleanup = data;

    if (result->exit_code != WORKER_EXIT_OK && result->exit_code != WORKER_EXIT_NOT_FOUND)
        log_warning("sweep_failed", "folder=\"%s\" text=\"%s\"", cleanup->folders[cleanup->next],
                    result->error);
    cleanup->next++;
    sweep_next(cleanup);
}

static void sweep_next(struct cleanup *cleanup)
{
    struct worker *worker;
    struct err err;

    for (; cleanup->next < cleanup->folder_count; cleanup->next++) {
        const char *const arguments[] = {"sweep",
                                         "--path",
                                         cleanup->folders[cleanup->next],
                                         "--wipe",
                                         cleanup->wipe ? "yes" : "no",
                                         NULL};
        if (user_worker_start(cleanup->loop, arguments, &cleanup->user,
                              cleanup->wipe ? WIPE_DEADLINE_MS : SWEEP_DEADLINE_MS, sweep_ended,
                              cleanup, &worker, &err) == 0)
            return;
        log_warning("sweep_failed", "folder=\"%s\" text=\"%s\"", cleanup->folders[cleanup->next],
                    err.text);
    }
    CHECK(uv_timer_start(&cleanup->timer, cleanup_finish, 0, 0) == 0);
}

struct cleanup *cleanup_start(uv_loop_t *loop, const struct machine_folders *folders,
                              struct machine_user user, void (*done)(void *data), void *data)
{
    struct cleanup *cleanup = check_calloc(1, sizeof(*cleanup));

    CHECK(folders->count <= CLEANUP_FOLDERS_MAX);
    *cleanup = (struct cleanup){.loop = loop,
                                .folder_count = folders->count,
                                .wipe = folders->wipe,
                                .user = user,
                                .done = done,
                                .data = data};
    for (size_t i = 0; i < folders->count; i++)
        cleanup->folders[i] = check_strdup(folders->paths[i]);
    CHECK(uv_timer_init(loop, &cleanup->timer) == 0);
    cleanup->timer.data = cleanup;
    sweep_next(cleanup);
    return cleanup;
}

void cleanup_detach(struct cleanup *cleanup)
{
    if (cleanup != NULL)
        cleanup->done = NULL;
}
