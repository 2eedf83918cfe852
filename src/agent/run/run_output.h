/* Where output to files goes on: at their ends, whoever has written to them.
 *
 * Flow     run_output_continue() before a restart; run_output_line() for each line of ckpt-run.
 * Shapes   a file that was opened to append does so by itself; one that was not, once for each of
 *          two descriptors (> log 2> log), has an offset for each. Terminals and pipes have none.
 */
#ifndef CKPT_AGENT_RUN_OUTPUT_H
#define CKPT_AGENT_RUN_OUTPUT_H

#include <sys/types.h>

void run_output_continue(void);
/* Of the application, with which this ckpt-run goes on: where `> log` of the same line has emptied
 * its file, it goes on at the end that the file has now. The name of that output; NULL: none, or
 * the kernel does not let one process look at another (ptrace_scope). */
const char *run_output_meet(pid_t pid);
/* On standard error. */
void run_output_line(const char *line);

#endif
