/* The command line of ckpt-worker as a function, so that tests drive it in a child process.
 *
 * Flow     verbs_main() parses, becomes the user that --as names, calls the row of the
 *          destination's kind (destination.h), prints key=value lines to out, or one line of error
 *          to errors.
 * Errors   the exit codes are enum worker_exit (worker.h).
 */
#ifndef CKPT_DEST_VERBS_H
#define CKPT_DEST_VERBS_H

#include <stdio.h>

/* One task from its arguments to its exit code. May change user for the rest of the process' life
 * and may block for ever. argv[0] is not looked at. */
int verbs_main(int argc, char *const *argv, FILE *out, FILE *errors);
/* Another one in the same process, for the user of the first: `became` is the --as of that, "" when
 * it had none. TASKS_ANEW tells that nothing was done (tasks.h). */
int verbs_again(int argc, char *const *argv, const char *became, FILE *out, FILE *errors);

#endif
