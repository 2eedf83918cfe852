/* The site's command for news of jobs. See hook.h. */
#include "src/broker/daemon/hook.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/list.h"
#include "src/base/log.h"

enum { ENVIRONMENT_MAX = 256, WORD_BYTES = 512 };

struct hook {
    uv_loop_t *loop;
    char *path;
    struct list calls; /* running ones */
    unsigned open;     /* calls whose handles are not closed yet */
    bool freed;        /* the last call frees it */
};

/* One call; freed when both of its handles are closed. */
struct call {
    struct hook *hook;
    struct list node;
    uv_process_t process;
    uv_timer_t deadline;
    unsigned open; /* handles */
    char allocation_id[ID_MAX_BYTES + 1];
};

static void hook_release(struct hook *hook)
{
    if (!hook->freed || hook->open > 0)
        return;
    free(hook->path);
    free(hook);
}

static void call_closed(uv_handle_t *handle)
{
    struct call *call = handle->data;
    struct hook *hook = call->hook;

    CHECK(call->open > 0);
    if (--call->open > 0)
        return;
    free(call);
    CHECK(hook->open > 0);
    hook->open--;
    hook_release(hook);
}

static void call_close(struct call *call)
{
    list_remove(&call->node);
    uv_close((uv_handle_t *)&call->deadline, call_closed);
    uv_close((uv_handle_t *)&call->process, call_closed);
}

static void call_ended(uv_process_t *process, int64_t status, int signal_number)
{
    struct call *call = process->data;

    if (status != 0 || signal_number != 0)
        log_warning("hook_failed", "allocation=%s status=%lld signal=%d command=%s",
                    call->allocation_id, (long long)status, signal_number, call->hook->path);
    call_close(call);
}

static void call_overdue(uv_timer_t *timer)
{
    struct call *call = timer->data;

    log_warning("hook_killed", "allocation=%s after_ms=%d command=%s", call->allocation_id,
                HOOK_DEADLINE_MS, call->hook->path);
    kill(-call->process.pid, SIGKILL); /* its own group, which cannot have another one's number */
}

/* The daemon's environment without its keys, and the news. */
static char **call_environment(char words[][WORD_BYTES], size_t count)
{
    extern char **environ;
    char **environment = check_calloc(ENVIRONMENT_MAX + count + 1, sizeof(*environment));
    size_t used = 0;

    for (size_t i = 0; environ[i] != NULL && used < ENVIRONMENT_MAX; i++)
        if (strncmp(environ[i], "AWS_", 4) != 0 && strncmp(environ[i], "CKPT_", 5) != 0)
            environment[used++] = environ[i];
    for (size_t i = 0; i < count; i++)
        environment[used++] = words[i];
    return environment;
}

static int call_start(struct call *call, const struct hook_news *news)
{
    char words[6][WORD_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];
    char *arguments[] = {call->hook->path, (char *)(uintptr_t)news->event, call->allocation_id,
                         NULL};
    uv_stdio_container_t streams[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD}, {.flags = UV_INHERIT_FD}};
    uv_process_options_t options = {.file = call->hook->path,
                                    .args = arguments,
                                    .exit_cb = call_ended,
                                    .flags = UV_PROCESS_DETACHED, /* a group of its own */
                                    .stdio_count = 3,
                                    .stdio = streams};
    int result;

    streams[1].data.fd = streams[2].data.fd = 2; /* stdout is the log's, line by line */
    snprintf(words[0], WORD_BYTES, "CKPT_EVENT=%s", news->event);
    snprintf(words[1], WORD_BYTES, "CKPT_ALLOC_ID=%s", news->allocation_id);
    snprintf(words[2], WORD_BYTES, "CKPT_OWNER=%s", news->owner);
    snprintf(words[3], WORD_BYTES, "CKPT_TENANT=%s", news->tenant);
    snprintf(words[4], WORD_BYTES, "CKPT_CHECKPOINT=%s",
             checkpoint_id_format(news->checkpoint_id, id));
    snprintf(words[5], WORD_BYTES, "CKPT_TEXT=%s", news->text);
    options.env = call_environment(words, ARRAY_COUNT(words));
    result = uv_spawn(call->hook->loop, &call->process, &options);
    free(options.env);
    return result;
}

void hook_call(struct hook *hook, const struct hook_news *news)
{
    struct call *call;
    int result;

    if (hook == NULL)
        return;
    CHECK(!hook->freed);
    if (hook->open >= HOOK_CALLS_MAX) {
        log_warning("hook_left_out", "allocation=%s running=%u command=%s", news->allocation_id,
                    hook->open, hook->path);
        return;
    }
    call = check_calloc(1, sizeof(*call));
    call->hook = hook;
    call->process.data = call->deadline.data = call;
    call->open = 2;
    snprintf(call->allocation_id, sizeof(call->allocation_id), "%s", news->allocation_id);
    hook->open++;
    list_push_back(&hook->calls, &call->node);
    CHECK(uv_timer_init(hook->loop, &call->deadline) == 0);
    result = call_start(call, news);
    if (result == 0) {
        uv_timer_start(&call->deadline, call_overdue, HOOK_DEADLINE_MS, 0);
        return;
    }
    log_warning("hook_failed", "allocation=%s command=%s text=\"%s\"", call->allocation_id,
                hook->path, uv_strerror(result));
    call_close(call); /* uv_spawn has made the handle, although nothing runs */
}

struct hook *hook_new(uv_loop_t *loop, const char *path)
{
    struct hook *hook;

    if (path[0] == '\0')
        return NULL;
    CHECK(path[0] == '/');
    hook = check_calloc(1, sizeof(*hook));
    hook->loop = loop;
    list_init(&hook->calls);
    hook->path = check_strdup(path);
    return hook;
}

void hook_free(struct hook *hook)
{
    if (hook == NULL)
        return;
    hook->freed = true;
    hook->open++; /* the walk needs it */
    while (!list_empty(&hook->calls))
        call_close(LIST_ITEM(hook->calls.next, struct call, node));
    hook->open--;
    hook_release(hook);
}
