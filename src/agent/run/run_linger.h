/* The moment between the end of the application and the note of it. Processes that it has left
 * running may be about to end as well: the `tee` of `exec > >(tee log)` would lose its last lines.
 *
 * Flow     run_linger_begin() when the application has ended. done() comes at once where it has
 *          left nothing or a signal ended it, else when nothing is left, or after LINGER_MS.
 *          run_linger_hurry() ends the wait. The agent kills what is left when it has the note.
 * Shapes   an application that this ckpt-run has started leaves its children to it (a subreaper).
 *          Children that it had before run_linger_open() are none of these.
 * Errors   none: where the kernel does not tell the children nothing is waited for.
 * Absent   processes that an application left which another ckpt-run had started.
 */
#ifndef CKPT_AGENT_RUN_LINGER_H
#define CKPT_AGENT_RUN_LINGER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

enum { LINGER_MS = 2000 };

/* Before the first application is started. */
void run_linger_open(uv_loop_t *loop);
/* keeper: no child of the application; 0: there is none. wait_status: handed to done(). */
void run_linger_begin(pid_t keeper, int wait_status, void (*done)(int wait_status));
/* True: done() has been called. */
bool run_linger_hurry(void);

#endif
