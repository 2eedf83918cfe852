/* File access as the job's user, so that a link in a job's folder never makes the agent write
 * elsewhere.
 *
 * Flow     user_enter() ... file operations on the loop thread ... user_leave(). Not nested.
 * Shapes   changes the thread's file system ids only (setfsuid(2)); does nothing when the agent is
 *          not root.
 */
#ifndef CKPT_AGENT_USER_H
#define CKPT_AGENT_USER_H

#include <sys/types.h>

#include "src/agent/node/machine.h"

void user_enter(uid_t uid, gid_t gid);
void user_leave(void);
/* worker_start(), for what is the user's: its worker becomes that user. */
int user_worker_start(uv_loop_t *loop, const char *const *arguments,
                      const struct machine_user *user, uint64_t deadline_ms, worker_done_fn *done,
                      void *data, struct worker **ret_worker, struct err *err);
#endif
