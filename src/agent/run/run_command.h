/* Commands of the job's owner that take a checkpoint of an application which knows of none, and
 * start it again from one.
 *
 * Flow     run_command_open() once; run_command_of() tells the application; the agent calls
 *          AppCheckpointService.Checkpoint at run_command_endpoint(), the command runs, and its
 *          status is the answer. run_command_reaped() takes the end of a child. run_command_close()
 *          before this program leaves.
 * Shapes   one command at a time, below a reaper (run_reaper.h), as the job's user, in the folder
 *          of ckpt-run. {dir} and {pid} in it are replaced; {dir} comes quoted for the shell.
 *          Beside what ckpt-run has it has CKPT_CHECKPOINT_DIR, CKPT_PID, CKPT_HINT,
 *          CKPT_DEADLINE_MS and CKPT_LABEL_FILE. In the last one it may leave the step, or another
 *          label.
 * Errors   a command that ends otherwise than with 0 has failed: the checkpoint is not taken. One
 *          that the agent does not wait for any more gets SIGTERM, and SIGKILL after 5 s. It does
 *          not outlive ckpt-run, nor does what it has begun, and the application goes on then.
 */
#ifndef CKPT_AGENT_RUN_COMMAND_H
#define CKPT_AGENT_RUN_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "src/agent/run/run_options.h"
#include "src/base/err.h"

/* ERR_INVALID: the path of its socket, in the work folder, is too long. Without such a command in
 * the options nothing is opened. */
int run_command_open(uv_loop_t *loop, const struct run_options *options, const char *work_dir,
                     struct err *err);
/* "unix:PATH"; "": there is no such command. */
const char *run_command_endpoint(void);
/* The application that the command is to save; 0: none runs. */
void run_command_of(pid_t pid);
/* The command that starts it: with a checkpoint that of --restart-cmd, by a shell. Valid until the
 * next call. With err it cannot be started. */
char *const *run_command_line(const struct run_options *options, const char *restore_dir,
                              struct err *err);
/* False: the child is none of a command. */
bool run_command_reaped(pid_t pid, int wait_status);
void run_command_close(void);

#endif
