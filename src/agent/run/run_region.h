/* The memory that an application shares with its agent, made before the application starts.
 *
 * Flow     run_region_make() before each start, as the job's user; the agent removes it when
 *          nothing of the job is left on the node. The agent of a job without a cluster ends with
 *          its ckpt-run, which then does so itself.
 * Shapes   a file of a fixed size at the path that the agent named, zeros but for its head
 *          (src/ask/region.h), mode 0600. A file that an earlier start has left is another
 *          one: a process that still maps it reaches nobody.
 * Errors   err has one line with the path and the next step: another user's file has the name, no
 *          room, a path that is none of a region. An application that may be asked in other ways is
 *          started without it then, and the line is said where it has --profile auto.
 */
#ifndef CKPT_AGENT_RUN_REGION_H
#define CKPT_AGENT_RUN_REGION_H

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_options.h"
#include "src/base/err.h"

/* path "": none is wanted. */
int run_region_make(const char *path, struct err *err);
/* The program can probably be run, and has its memory, or needs none: 0. Else errno, and err where
 * that says too little. */
int run_start_prepare(const char *program, const struct run_options *options,
                      const Ckpt__V1__AttachReady *ready, struct err *err);
/* As the last run_start_prepare() has made it; "": it has made none. */
const char *run_region_path(void);
/* Of this user; what is another one's stays, and so does what is no region. */
void run_region_drop(const char *path);
/* As of waitpid(2), for a program that could not be started for that errno. */
int run_start_status(int failure);

#endif
