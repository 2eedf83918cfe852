/* A model of a checkpoint command (ckpt-run --checkpoint-cmd, -k, a tool that saves from outside):
 * its ckpt-run's side of src/agent/run/run_command.c, and the process that saves.
 *
 *   IDLE --asked--> RUNNING --its end is told--> IDLE
 *                      | not wanted any more: SIGTERM, and SIGKILL 5 s later
 *                      v
 *                   ENDING --ended--> IDLE
 *
 * Flow     application_command_new() with its ckpt-run, application_command_of() when the
 *          application begins and ends, application_command_free() when the ckpt-run is gone, also
 *          by SIGKILL: the command dies with it, and the application that it stopped goes on.
 * Faults   a command fails, dies half way, hangs, is late or leaves nothing. It may not heed
 *          SIGTERM and write on, may stop the application and forget to let it go on, or take it
 *          along. Its end may be told twice.
 * Checks   COMMAND: no command runs on whose attempt its agent has done with.
 * Source   src/agent/run/run_command.c, run_reaper.h
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_COMMAND_H
#define CKPT_TESTS_SIM_APPLICATION_COMMAND_H

#include "tests/sim/application.h"

struct application_command;

struct application_command *application_command_new(struct agent_machine *machine,
                                                    const char *allocation_id,
                                                    enum world_labels labels,
                                                    const struct application_manners *manners,
                                                    const struct application_checks *checks);
void application_command_free(struct application_command *command); /* NULL allowed */

/* Its address, which its ckpt-run says when it attaches. */
const char *application_command_endpoint(const struct application_command *command);
/* NULL: none runs. */
void application_command_of(struct application_command *command, struct application *application);

#endif
