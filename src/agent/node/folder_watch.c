/* inotify on a folder, by libuv. See folder_watch.h. */
#include <stdlib.h>

#include "src/agent/node/folder_watch.h"
#include "src/ask/sentinel.h"
#include "src/base/check.h"

struct folder_watch {
    uv_fs_event_t event;
    void (*changed)(void *data);
    void *data;
};

static void watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void watch_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct folder_watch *watch = event->data;

    (void)events;
    if (status == 0 && watch->changed != NULL && name != NULL && sentinel_named(name))
        watch->changed(watch->data);
}

struct folder_watch *folder_watch_new(uv_loop_t *loop, const char *folder,
                                      void (*changed)(void *data), void *data)
{
    struct folder_watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(uv_fs_event_init(loop, &watch->event) == 0);
    watch->event.data = watch;
    watch->changed = changed;
    watch->data = data;
    if (uv_fs_event_start(&watch->event, watch_event, folder, 0) != 0) {
        folder_watch_free(watch);
        return NULL;
    }
    return watch;
}

void folder_watch_free(struct folder_watch *watch)
{
    if (watch == NULL)
        return;
    watch->changed = NULL;
    uv_close((uv_handle_t *)&watch->event, watch_closed);
}
