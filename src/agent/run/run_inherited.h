/* The application's descriptors beside its standard streams: those that a shell has opened for it
 * (`3< FILE`), and those that the command names (`prog <(...)` is `prog /dev/fd/63`).
 *
 * Flow     run_inherited_open() before anything else is opened; run_inherited_name() once the
 *          command is known; run_inherited_prepare() before each start; run_inherited_again() when
 *          another start is wanted.
 * Shapes   a file that is read is read again from where the first start read, through a
 *          description of its own. Output goes on where it was. A pipe from
 *          which something may have been read is not given again: of one that the command names
 *          that is known as of standard input (run_input.h). Others may be no input at all, as what
 *          a supervisor keeps open: they count where something goes through them, and we could not
 *          write to them ourselves, as to the tokens of make.
 * Errors   beyond INHERITED_MAX descriptors are not looked at.
 * Absent   sockets and devices that the command does not name; files opened to read and write.
 * Source   V-004.
 */
#ifndef CKPT_AGENT_RUN_INHERITED_H
#define CKPT_AGENT_RUN_INHERITED_H

#include <stdbool.h>

enum { INHERITED_MAX = 64 };

void run_inherited_open(void);
void run_inherited_name(char *const *command);
/* may_restart: the first start says what other starts need. */
void run_inherited_prepare(bool may_restart);
/* A descriptor that cannot be given again; -1: all can. */
int run_inherited_again(void);

#endif
