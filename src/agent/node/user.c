/* File access as the job's user. See user.h. */
#include "src/agent/node/user.h"

#include <stdio.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "src/base/check.h"

static bool user_entered;

void user_enter(uid_t uid, gid_t gid)
{
    CHECK(!user_entered);
    user_entered = true;
    if (geteuid() != 0)
        return;
    setfsgid(gid);
    setfsuid(uid);
    CHECK((uid_t)setfsuid((uid_t)-1) == uid); /* -1 changes nothing and tells the current one */
}

void user_leave(void)
{
    CHECK(user_entered);
    user_entered = false;
    if (geteuid() != 0)
        return;
    setfsuid(0);
    setfsgid(getegid());
}

/* An agent that is not root has one user. Root's own jobs have no other groups than the agent. */
int user_worker_start(uv_loop_t *loop, const char *const *arguments,
                      const struct machine_user *user, uint64_t deadline_ms, worker_done_fn *done,
                      void *data, struct worker **ret_worker, struct err *err)
{
    const char *all[WORKER_ARGUMENTS_MAX + 1];
    char as[PROC_GROUPS_BYTES + 32];
    size_t count = 0;

    for (; arguments[count] != NULL; count++) {
        CHECK(count + 3 < ARRAY_COUNT(all));
        all[count] = arguments[count];
    }
    if (geteuid() == 0 && (user->uid != 0 || user->gid != 0)) {
        snprintf(as, sizeof(as), "%u:%u%s%s", (unsigned)user->uid, (unsigned)user->gid,
                 user->groups[0] == '\0' ? "" : ":", user->groups);
        all[count++] = "--as";
        all[count++] = as;
    }
    all[count] = NULL;
    return worker_start(
        loop,
        &(struct worker_task){
            .arguments = all, .deadline_ms = deadline_ms, .done = done, .data = data},
        ret_worker, err);
}
