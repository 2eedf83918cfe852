/* Tells when a process ended that is not our child: pidfd_open(2) in the loop.
 *
 * Errors   pid_watch_new: NULL when the process is gone already, or the kernel has no pidfd (before
 *          5.3); the caller polls as well.
 */
#ifndef CKPT_AGENT_PID_WATCH_H
#define CKPT_AGENT_PID_WATCH_H

#include <sys/types.h>
#include <uv.h>

struct pid_watch;
struct pid_watch *pid_watch_new(uv_loop_t *loop, pid_t pid, void (*ended)(void *data), void *data);
void pid_watch_free(struct pid_watch *watch); /* NULL allowed */

#endif
