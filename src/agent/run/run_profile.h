/* The profile that a line of ckpt-run names, as if its options had been typed.
 *
 * Flow     run_profile_take() when all options were read; run_profile_say() before the start.
 * Shapes   an option of the line stands above the profile's. The name of a way of asking stays as
 *          it is. PROFILE_AUTO takes the profile that knows the command's program, if there is one;
 *          else the application is asked as registered. For a line that says nothing, the
 *          profile is only named: it stops the program, and a program that runs through today goes
 *          on doing so. Without a broker a checkpoint is what the line asks for, and it is taken.
 * Errors   ERR_INVALID with the file, the line and the nearest key or name.
 * Source   S1-030.
 */
#ifndef CKPT_AGENT_RUN_PROFILE_H
#define CKPT_AGENT_RUN_PROFILE_H

#include <stdbool.h>

#include "src/agent/run/run_options.h"
#include "src/base/err.h"

#define RUN_STAND_IN_WAY "file" /* in which a stand-in is asked */

/* As if `--name value` stood on the line, unless the line has that option already. */
typedef int run_profile_add_fn(struct run_options *options, const char *name, const char *value,
                               struct err *err);

int run_profile_take(struct run_options *options, char *const *command, run_profile_add_fn *add,
                     struct err *err);
/* The line says nothing, and PROFILE_AUTO would take a profile. */
bool run_profile_is_known(void);
/* By which profile, and why; nothing where the line named one. For a line that says nothing, the
 * profile that it could name. */
void run_profile_say(void);
/* A restart command with {command} replaced by the line's, quoted for a shell. It
 * lasts until the next call. */
const char *run_profile_restart(const char *restart_command, char *const *command);

#endif
