/* A cluster of one's own for a trial: one member and one agent, below a folder that goes with it.
 *
 * Flow     try_site_name(), try_site_open(); programs are started by try_site_run() and waited for
 *          by try_site_wait(); try_site_close() ends what is left and removes the folder.
 * Shapes   its programs lie beside this one, or in the PATH. They listen on loopback, on ports that
 *          were free, and die with this program.
 * Errors   err has one line with the next step; what a daemon says is in its log, whose last line
 *          is told.
 */
#ifndef CKPT_AGENT_RUN_TRY_SITE_H
#define CKPT_AGENT_RUN_TRY_SITE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

#define TRY_JOB "try"

struct try_site {
    char folder[64];
    char socket[PATH_MAX];
    char work_dir[PATH_MAX];
    pid_t member, agent; /* 0: it does not run */
};

/* Where the program's own name leads. */
const char *try_site_program(const char *name, char path[PATH_MAX]);
/* log NULL: the streams of this program, but for its input. Returns its pid. */
pid_t try_site_run(char *const *command, const char *log);
/* The status of waitpid(2); -1: it runs on after so long, or this program was told to end. */
int try_site_wait(pid_t pid, uint64_t wait_ms);
/* Waits so long. False: this program was told to end. */
bool try_site_pause(uint64_t wait_ms);
/* Its folder is made: its names are known. */
int try_site_name(struct try_site *site, struct err *err);
/* Until its job is registered. */
int try_site_open(struct try_site *site, struct err *err);
/* The last error of ckpt-run in one of its logs, else its last line; "": it has none. Returns
 * ret_said. */
enum { TRY_SAID_BYTES = 2048 };
const char *try_site_said(const struct try_site *site, const char *name,
                          char ret_said[TRY_SAID_BYTES]);
void try_site_close(struct try_site *site);

#endif
