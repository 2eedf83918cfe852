/* The lines of ckpt-run on standard error.
 *
 * Flow     run_say_quiet() once. run_say_waiting() says why nothing happens: at once, when it is
 *          another reason than before, and again every 10 s, until run_say_over().
 * Shapes   one job: the last reason is kept here.
 */
#ifndef CKPT_AGENT_RUN_SAY_H
#define CKPT_AGENT_RUN_SAY_H

#include <stdbool.h>

enum { RUN_SAY_AGAIN_MS = 10000 };

/* Say only why ckpt-run itself fails. */
void run_say_quiet(bool quiet);
/* The reason for which ckpt-run itself fails. */
__attribute__((format(printf, 1, 2))) void run_say_error(const char *format, ...);
/* News of the job. */
__attribute__((format(printf, 1, 2))) void run_say(const char *format, ...);
/* A text that was said with more behind it (--stay) is the same reason. */
__attribute__((format(printf, 1, 2))) void run_say_waiting(const char *format, ...);
/* This wait has ended. */
void run_say_over(void);
/* Why nothing happens, as it was said; "": not yet in this wait. */
const char *run_say_cause(void);

#endif
