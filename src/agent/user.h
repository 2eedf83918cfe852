/* File access as the job's user, so that a link in a job's folder never makes the agent write elsewhere.
 *
 * Flow     user_enter() ... file operations on the loop thread ... user_leave(). Not nested.
 * Shapes   changes the thread's file system ids only (setfsuid(2)); does nothing when the agent is not root.
 */
#ifndef CKPT_AGENT_USER_H
#define CKPT_AGENT_USER_H

#include <stdbool.h>
#include <sys/types.h>

void user_enter(uid_t uid, gid_t gid);
void user_leave(void);
/* For worker_start: the ids to run as, (uid_t)-1 when the agent is not root. */
uid_t user_worker_uid(uid_t uid);
gid_t user_worker_gid(gid_t gid);

#endif
