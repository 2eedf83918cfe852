/* The terminal that ckpt-run and its application share, and job control as a shell expects it.
 *
 * Flow     run_terminal_open() once; run_terminal_begin() when an application runs,
 *          run_terminal_changed() with each wait status of one that was stopped or goes on,
 *          run_terminal_end() when it has ended.
 * Shapes   the foreground is lent on demand, not at the start. The kernel stops an application that
 *          reads or sets the terminal from the background (SIGTTIN, SIGTTOU): then its process
 *          group gets the foreground, if ckpt-run has it, and goes on. As long as ckpt-run has it,
 *          its keys reach ckpt-run and all that its shell started with it. Status 0 after a Ctrl-C
 *          is then known to be none of completed work.
 *          Ctrl-Z stops both, and so their shell's job; both go on together. An application that
 *          stays stopped for 5 s is told of, and gets the foreground as soon as ckpt-run has it.
 *          SIGTTOU is ignored from the beginning, so lines of ckpt-run never stop it.
 * Absent   job control inside the application: a shell there gives the foreground to its own jobs.
 *          The agent's stops (SIGSTOP), and what people do with that signal.
 */
#ifndef CKPT_AGENT_RUN_TERMINAL_H
#define CKPT_AGENT_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "src/base/start.h"

/* found: signals that were ignored then stay so. */
void run_terminal_open(uv_loop_t *loop, const struct start_signals *found);
/* group: of the application; 0: none runs. */
void run_terminal_begin(pid_t group);
void run_terminal_changed(int wait_status);
/* The application was told to end, which it learns when it goes on. */
void run_terminal_told(void);
/* True: it was ended by keys of the terminal. */
bool run_terminal_end(int wait_status);

#endif
