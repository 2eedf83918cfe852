/* The front: the process that ckpt-run starts in the place of a program which a tool saves from
 * outside. It is the parent of the program, of one that is restored as well, and ends as it ends.
 *
 *   ckpt-run ── keeper ── front ── the program, with the number that it always had
 *                           '────── criu, while it restores
 *
 * Flow     front_line() puts it before a command; front_run() is its main function.
 * Shapes   the program is in the front's process group: what the agent sends to the group reaches
 *          both, and the front takes no notice. It is in a session of its caller's.
 * Errors   a program that cannot be restored: the reason on standard error and in the work folder,
 *          and FRONT_FAILED.
 */
#ifndef CKPT_AGENT_FRONT_H
#define CKPT_AGENT_FRONT_H

#include <sys/types.h>

#include "src/agent/transparent/tool.h"

enum { FRONT_FAILED = 125 };
#define FRONT_NAME "ckpt-front"                           /* of its process */
#define FRONT_WHY  "the application cannot be restored: " /* begins its reason */

/* NULL-terminated; valid until the next call. */
char *const *front_line(const struct tool *tool, const struct tool_start *start);
/* The program behind the front; the line's own where there is no front. */
const char *front_program(char *const *line);
/* This process was started as one: does not return. */
void front_run(int argc, char **argv);

#endif
