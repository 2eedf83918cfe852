/* The fronts: ckpt-run again, started in the place of a command, which it runs in a way of its own.
 *
 * Flow     run_front() comes first in main().
 */
#ifndef CKPT_AGENT_RUN_FRONT_H
#define CKPT_AGENT_RUN_FRONT_H

/* This process was started as one: does not return. */
void run_front(int argc, char **argv);
/* The program behind a front; the line's own where there is none. */
const char *run_front_program(char *const *line);

#endif
