/* How a program begins: the same whoever started it, a shell, nohup, cron, systemd or another
 * program.
 *
 * Flow     start_program() comes first in main(). Before execve() of a program that is to find what
 *          this one had found, a child calls start_restore(). Where others look at that child
 *          before, its parent calls start_forget() first, and the child is forked with none.
 * Shapes   from then on nothing is blocked, ended children can be waited for, and descriptors 0 to
 *          2 are open. A number that the caller left free would go to the next file or pipe, which
 *          the program would then read or write as its own input, output or log. Other
 *          ignored signals stay so until the program catches them.
 * Errors   none: what cannot be is a failed CHECK.
 */
#ifndef CKPT_BASE_START_H
#define CKPT_BASE_START_H

#include <signal.h>

/* Of the caller's. */
struct start_signals {
    sigset_t blocked;
    sigset_t ignored;
};

/* NULL: nobody is started who would want it. */
void start_program(struct start_signals *ret_found);
/* Each signal that this program catches has its default action from now on. */
void start_forget(void);
/* All signals as they were found, but for those in `open`, which come with their default action. */
void start_restore(const struct start_signals *found, const sigset_t *open);

#endif
