/* The site's command for news of jobs: mail, chat, a ticket. restart_hook of ckptd's configuration.
 *
 * Flow     hook_call() starts `PATH restart JOB`, or `PATH hang JOB`, with the news in its
 *          environment: CKPT_EVENT, CKPT_ALLOC_ID, CKPT_OWNER, CKPT_TENANT, CKPT_CHECKPOINT (0-0:
 *          from scratch), CKPT_TEXT.
 * Shapes   The leader calls it once for each restart that it has chosen and each hang that it has
 *          found, after the commit. A leader that dies in this moment may leave a call out; none is
 *          made twice.
 * Limits   HOOK_CALLS_MAX at once; further ones are left out, which the log says. A call that has
 *          not ended after HOOK_DEADLINE_MS is killed with its process group.
 * Errors   a path that cannot be started, and a status that is not 0, are warnings of the log: no
 *          restart waits for the command.
 * Source   V-001, V-030, S3-061.
 */
#ifndef CKPT_BROKER_HOOK_H
#define CKPT_BROKER_HOOK_H

#include <stdint.h>
#include <uv.h>

enum { HOOK_CALLS_MAX = 16, HOOK_DEADLINE_MS = 30000 };

struct hook;

struct hook_news {
    const char *event; /* "restart", "hang" */
    const char *allocation_id, *owner, *tenant, *text;
    uint64_t checkpoint_id; /* 0: from scratch */
};

/* path: absolute; "": there is no command, NULL is returned. Copied. */
struct hook *hook_new(uv_loop_t *loop, const char *path);
/* NULL allowed. A call that still runs is left to itself. */
void hook_free(struct hook *hook);
void hook_call(struct hook *hook, const struct hook_news *news); /* NULL allowed */

#endif
