/* A job without a cluster: `ckpt-run --standalone --every 30m --dir D -- command`.
 *
 * Flow     run_alone_prepare() makes and locks the folder, and names the job after it;
 *          run_alone_open() starts the agent of this one job (src/agent/alone/) and waits until it
 *          listens. From there on ckpt-run does all as below any agent. run_alone_reaped() takes
 *          the end of that process, which is started again.
 * Shapes   a job is its folder: the same folder is the same job, with the same work folder, and so
 *          the same line goes on with what it finds, an application that runs or a checkpoint.
 *          Without --standalone none of these does anything.
 * Errors   ERR_INVALID, ERR_LOCKED, ERR_IO with the next step.
 * Source   S4-007.
 */
#ifndef CKPT_AGENT_RUN_ALONE_H
#define CKPT_AGENT_RUN_ALONE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/agent/run/run_options.h"
#include "src/base/err.h"

int run_alone_prepare(struct run_options *options, struct err *err);
/* work_dir: the caller's, as all that options point to, until the program ends. */
int run_alone_open(uv_loop_t *loop, struct run_options *options, const char *work_dir,
                   struct err *err);
/* The application was started, and is held. -1: the folder takes no note of it, so that it must not
 * be released, and that was said. */
int run_alone_started(pid_t pid, uint64_t start_ticks);
/* The folder whose note the program's keeper is to hold; NULL: it has a cluster. */
const char *run_alone_held(void);
/* True: it was that one. */
bool run_alone_reaped(pid_t pid, int wait_status);
/* This program leaves; ended: no application runs on, and the memory by which it was asked is
 * removed, as is the copy of the checkpoint from which it began. */
void run_alone_close(bool ended);
/* The agent would have it begin from scratch for this reason; "": for none. True: it does not, and
 * that was said: of what is damaged nothing else will come. */
bool run_alone_refuses(const char *scratch);
/* Where there is no checkpoint, none was to be left aside. False: one was, or it has a cluster. */
bool run_alone_lacks(uint32_t restart_count);
/* How the job goes on, in the place of a cluster's word. False: it has a cluster. */
bool run_alone_say_next(void);

#endif
