/* The process between ckpt-run and a command of the job's owner. Where the command is ended, also
 * by the death of ckpt-run, nothing that it has begun outlives it, and the application that it
 * stopped goes on.
 *
 *   RUNNING --the command ends--> its process group is killed, and the reaper ends as it did
 *      |  '--RUN_REAPER_TELL------> the command's process group gets SIGTERM; with its end all
 *      |                            below it is killed
 *      '-----RUN_REAPER_END, or ckpt-run has gone--> all below it is killed, and the application
 *                                                    goes on
 *
 * Flow     in a child of ckpt-run, which has blocked all signals: run_reaper() forks the command,
 *          waits, and never returns.
 * Shapes   the reaper adopts what the command has left behind (a subreaper), in whatever session it
 *          is. The command has a session of its own.
 * Errors   the reaper's wait status is the command's; RUN_REAPER_FAILED when it cannot be forked.
 */
#ifndef CKPT_AGENT_RUN_REAPER_H
#define CKPT_AGENT_RUN_REAPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_REAPER_TELL = SIGTERM, RUN_REAPER_END = SIGUSR1, RUN_REAPER_FAILED = 127 };

/* The application that the command is to save. */
struct run_application {
    pid_t pid; /* its main process and process group; 0: none */
    uint64_t start_ticks;
    bool stood_still; /* before the command began: nobody but its user lets it go on */
};

/* In the command's process: it executes another program, or ends. */
typedef void run_reaper_command_fn(void *data);

__attribute__((noreturn)) void run_reaper(pid_t parent, const struct run_application *application,
                                          run_reaper_command_fn *become, void *data);
/* Also for ckpt-run itself, when it has ended a command. */
void run_application_goes_on(const struct run_application *application);
/* As it is now. */
struct run_application run_application_look(pid_t pid);

#endif
