/* What an allocation's user has named. See user_path.h. */
#include "src/agent/node/user_path.h"

#include <stdio.h>
#include <string.h>

#include "src/base/log.h"

enum { LOOK_AGAIN_US = 1000000 };

static void looked(void *data, struct opened *take, const char *why)
{
    struct user_path *user_path = data;

    user_path->opening = NULL;
    user_path->opened = take;
    snprintf(user_path->why, sizeof(user_path->why), "%s", why);
    if (take == NULL)
        log_warning("path_closed", "path=\"%s\" text=\"%s\"", user_path->path, why);
    user_path->looked(user_path->data);
}

bool user_path_ready(struct user_path *user_path, const char *path, uid_t uid)
{
    const struct machine_ops *machine = user_path->machine;
    uint64_t now_us = user_path->clock->monotonic_us(user_path->clock->context);
    bool same = strcmp(user_path->path, path) == 0;

    if (same && user_path->opened != NULL)
        return true;
    if (path[0] == '\0' ||
        (same && (user_path->opening != NULL || now_us - user_path->looked_us < LOOK_AGAIN_US)))
        return false;
    user_path_close(user_path);
    snprintf(user_path->path, sizeof(user_path->path), "%s", path);
    snprintf(user_path->why, sizeof(user_path->why), "%.300s has not been looked at yet", path);
    user_path->looked_us = now_us;
    user_path->opening = machine->path_open(machine->context, user_path->kind, user_path->path, uid,
                                            looked, user_path);
    return false;
}

void user_path_take(struct user_path *user_path, const char *path, struct opened *take)
{
    user_path_close(user_path);
    snprintf(user_path->path, sizeof(user_path->path), "%s", path);
    user_path->opened = take;
    user_path->looked(user_path->data);
}

void user_path_close(struct user_path *user_path)
{
    user_path->machine->path_open_detach(user_path->opening);
    user_path->machine->opened_close(user_path->opened);
    user_path->opening = NULL;
    user_path->opened = NULL;
    user_path->path[0] = '\0';
}
