/* The duty of the first process of a PID namespace, as a daemon is in a container without an init.
 * Processes that have lost their parents become its children, and nobody else takes their status.
 *
 * Flow     reaper_watch() in the daemon's beginning; from then on each end of a child that is none
 *          of the daemon's own is taken. A daemon with another process id has no such children, and
 *          nothing is watched.
 * Shapes   the daemon's own children are left to who waits for them: `own` says which they are. A
 *          look asks for all children that have ended, at each SIGCHLD and once more a little later
 *          when an own one stood before others.
 * Errors   none.
 */
#ifndef CKPT_SERVE_REAPER_H
#define CKPT_SERVE_REAPER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct reaper {
    uv_signal_t signal;
    uv_timer_t again;
    bool (*own)(pid_t pid); /* started by the daemon, and waited for */
    bool watches;
};

/* reaper: the caller's storage, until the loop has closed it. */
void reaper_watch(uv_loop_t *loop, struct reaper *reaper, bool (*own)(pid_t pid));
void reaper_unwatch(struct reaper *reaper);
/* Takes those of the children that have ended and are not its own; returns how many. */
size_t reaper_look(struct reaper *reaper);

#endif
