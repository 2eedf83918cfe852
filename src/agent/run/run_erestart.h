/* A start from a checkpoint by a site's erestart, as LSF calls it: the process that stands in the
 * command's place.
 *
 *   a method's   erestart.METHOD runs and ends with 0 -> the command that it left in .restart_cmd,
 *                else that of before, takes this process over
 *   erestart     is the job: it says pid= and pgid= on its standard error, or closes it -> this
 *                process waits for it, hands its words on and ends as it has ended
 *
 * Flow     run_erestart_command() puts this program before the command; run_erestart_front() is
 *          its main function. The method is that of the checkpoint's .echkpnt, else of the line.
 * Shapes   LSF's variables: LSB_RESTART=Y, LSB_RESTART_PID, LSB_RESTART_PGID, LSB_OLD_JOBID,
 *          LSB_ERESTART_USRCMD, and for an erestart that is the job LSB_STDERR_FD.
 * Errors   the reason of a failure is said on the job's standard error, and left in the work folder
 *          for the end note (run_erestart_why()). A method's erestart that goes on for 10 minutes,
 *          or an erestart that says nothing for so long, is ended.
 * Absent   restoring by path: erestart gets files of this node.
 * Source   S3-010, S3-022 to S3-028, S3-068.
 */
#ifndef CKPT_AGENT_RUN_ERESTART_H
#define CKPT_AGENT_RUN_ERESTART_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "src/agent/run/run_options.h"

/* Valid until the next call. */
char *const *run_erestart_command(const struct run_options *options, const char *work_dir,
                                  const char *restore_dir);
/* This process was started as one: does not return. */
void run_erestart_front(int argc, char **argv);
/* The process is still this front, not yet the command. */
bool run_erestart_runs(pid_t pid);
/* The reason that such a process has left; "": none. It is taken away. */
void run_erestart_why(const char *work_dir, pid_t pid, char *ret_why, size_t size);

#endif
