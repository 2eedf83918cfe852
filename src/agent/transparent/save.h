/* A checkpoint by a tool, in a process beside the application.
 *
 * Flow     save_start() in ckpt-run: a process that runs the tool's save() and ends with 0 when the
 *          image is whole, else with 1 and a reason that save_why() takes.
 * Shapes   nobody kills it: what is broken off in the middle of a dump may take the application
 *          along. SAVE_DROP, and the end of its ckpt-run, mean that the checkpoint is not wanted
 *          any more; the tool then lets the application go on as soon as it can.
 */
#ifndef CKPT_AGENT_SAVE_H
#define CKPT_AGENT_SAVE_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "src/agent/transparent/tool.h"

enum { SAVE_DROP = SIGTERM, SAVE_WHY_BYTES = 400 };

/* save->unwanted is filled in. -1: it cannot be forked. */
pid_t save_start(const struct tool *tool, const struct tool_save *save);
/* Leaves a reason in the work folder, and takes it away; "": there is none. */
void save_leave_why(const char *work_dir, const char *text);
void save_why(const char *work_dir, char ret_why[SAVE_WHY_BYTES]);

#endif
