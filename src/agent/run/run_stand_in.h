/* A stand-in for programs that know nothing of checkpoints but look for a file by which they are
 * told to save and stop (VASP's STOPCAR, ABINIT's abinit.exit, CP2K's EXIT, Quantum ESPRESSO's
 * prefix.EXIT). `ckpt-run --ask-file` puts it before the command: it is the main process of the job
 * and the parent of the program.
 *
 *   PROGRAM RUNS --request--> TOLD --it ends as it was to, files are newer--> SAVED --> runs again
 *                              |  '--goes-on: its files are newer and quiet--> SAVED, runs on
 *                              '--withdrawn--> the file is removed; if it ends all the same, it
 *                                              runs again
 *
 * Flow     the files of $CKPT_RESTORE_DIR come back into the folder, and the program starts. Ten
 *          times a second the stand-in looks for $CKPT_DIR/request. It writes the file, and waits
 *          for the end of the program, or for its files. It copies them and says done
 *          (src/ask/sentinel.h).
 * Shapes   newer is later than the file that told it, by the same file system's clock.
 * Errors   the status of `done` says why nothing was saved. The program's own end is the
 *          stand-in's: status or signal; 127 or 126 when it cannot be executed.
 * Absent   jobs of several nodes: nothing tells the programs of all nodes one step.
 * Source   S1-030.
 */
#ifndef CKPT_AGENT_RUN_STAND_IN_H
#define CKPT_AGENT_RUN_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"

struct stand_in {
    const char *file; /* NULL: none is wanted */
    const char *text;
    const char *files;   /* run_saved_files.h */
    const char *restart; /* a shell command in the program's place, when files are there; or NULL */
    bool goes_on;        /* after it has saved; else it ends */
    int status;          /* ... with this one; with 0 alone, also when its work is complete */
    bool then_named;     /* these were */
    uint64_t
        quiet_ms; /* goes_on: files that have not changed for so long are whole; 0: the default */
};

enum { STAND_IN_QUIET_MS = 2000 };

/* Whether these options go together. */
int stand_in_check(const struct stand_in *stand_in, const char *profile, uint32_t ranks,
                   struct err *err);
/* The command with the stand-in before it; on the heap. */
char **stand_in_command(const struct stand_in *stand_in, char *const *command);
/* The program that such a command names; of another command its own. */
const char *stand_in_program(char *const *command);
/* This process was started as one: does not return. */
void stand_in_run(int argc, char **argv);

#endif
