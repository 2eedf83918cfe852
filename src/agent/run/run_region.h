/* The memory that an application shares with its agent, made before the application starts.
 *
 * Flow     run_region_make() before each start, as the job's user; the agent removes it when
 *          nothing of the job is left on the node.
 * Shapes   a file of a fixed size at the path that the agent named, zeros but for its head
 *          (src/ask/region.h), mode 0600. A file that an earlier start has left is another
 *          one: a process that still maps it reaches nobody.
 * Errors   err has one line with the path and the next step: another user's file has the name, no
 *          room, a path that is none of a region.
 */
#ifndef CKPT_AGENT_RUN_REGION_H
#define CKPT_AGENT_RUN_REGION_H

#include "src/base/err.h"

/* path "": none is wanted. */
int run_region_make(const char *path, struct err *err);
/* The program can probably be run, and has its memory: 0. Else errno, and err where that says too
 * little. */
int run_start_prepare(const char *program, const char *path, struct err *err);
/* As of waitpid(2), for a program that could not be started for that errno. */
int run_start_status(int failure);

#endif
