/* File access as the job's user. See user.h. */
#include "src/agent/node/user.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "src/base/check.h"

enum { CLAIM_BYTES = 2 * PATH_MAX };

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

/* ---- workers ---- */

/* Work on a user's files, as this user. All else is done by a process of its own: questions to the
 * directory of users, and what root does to the files of many. */
static const struct shared_verb {
    const char *verb;
    unsigned claimed_above; /* how many levels below the folder that root makes for the user */
    const char *claims;     /* the option that names it; NULL: root makes nothing */
} shared_verbs[] = {{"put", 2, "--path"},     {"publish", 0, NULL},     {"stage", 2, "--path"},
                    {"prepare", 1, "--path"}, {"reserve", 0, "--path"}, {"retain", 0, NULL},
                    {"sweep", 0, NULL},       {"abandon", 0, NULL},     {"restore", 0, NULL},
                    {"space", 0, NULL}};

static const char *find_argument(const char *const *arguments, const char *option)
{
    for (size_t i = 1; arguments[i] != NULL && arguments[i + 1] != NULL; i += 2)
        if (strcmp(arguments[i], option) == 0)
            return arguments[i + 1];
    return NULL;
}

/* NULL: the task is done by a process of its own. */
static const struct shared_verb *find_shared(const char *const *arguments)
{
    if (find_argument(arguments, "--as") != NULL)
        return NULL;
    for (size_t i = 0; i < ARRAY_COUNT(shared_verbs); i++)
        if (strcmp(shared_verbs[i].verb, arguments[0]) == 0)
            return &shared_verbs[i];
    return NULL;
}

/* The folder below its prefix, as a text. A path that is too long is none that root has made. */
static const char *claim_of(const struct shared_verb *shared, const char *const *arguments,
                            char claim[CLAIM_BYTES])
{
    const char *folder = shared->claims == NULL ? NULL : find_argument(arguments, shared->claims);
    const char *prefix = find_argument(arguments, "--prefix");
    char *slash;

    if (folder == NULL)
        return NULL;
    snprintf(claim, CLAIM_BYTES, "%s\n%s", prefix == NULL ? "" : prefix, folder);
    for (unsigned i = 0; i < shared->claimed_above; i++) {
        slash = strrchr(claim, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    return claim;
}

/* An agent that is not root has one user. Root's own jobs have no other groups than the agent. */
int user_worker_start(uv_loop_t *loop, const char *const *arguments,
                      const struct machine_user *user, uint64_t deadline_ms, worker_done_fn *done,
                      void *data, struct worker **ret_worker, struct err *err)
{
    const struct shared_verb *shared = find_shared(arguments);
    const char *all[WORKER_ARGUMENTS_MAX + 1], *claim = NULL;
    char as[PROC_GROUPS_BYTES + 32] = "", claim_text[CLAIM_BYTES];
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
        if (shared != NULL)
            claim = claim_of(shared, arguments, claim_text);
    }
    all[count] = NULL;
    return worker_start(loop,
                        &(struct worker_task){.arguments = all,
                                              .user = shared == NULL ? NULL : as,
                                              .claim = claim,
                                              .deadline_ms = deadline_ms,
                                              .done = done,
                                              .data = data},
                        ret_worker, err);
}
