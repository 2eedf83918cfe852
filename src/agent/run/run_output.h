/* Where output to files goes on: at their ends, whoever has written to them.
 *
 * Flow     run_output_continue() before a restart; run_output_line() for each line of ckpt-run.
 * Shapes   a file that was opened to append does so by itself; one that was not, once for each of
 *          two descriptors (> log 2> log), has an offset for each. Terminals and pipes have none.
 */
#ifndef CKPT_AGENT_RUN_OUTPUT_H
#define CKPT_AGENT_RUN_OUTPUT_H

void run_output_continue(void);
/* On standard error. */
void run_output_line(const char *line);

#endif
