/* A stand-in for programs that know nothing of checkpoints: ckpt-run puts it before the command. It
 * is the main process of the job and the parent of the program, asks the program in the program's
 * own way, and takes the files that it saves.
 *
 *   asked by   a file that it looks for (VASP's STOPCAR, CP2K's EXIT), a signal, or nothing: it
 *              saves when it wants to
 *   has saved  when it ends with a status or by a signal; or while it goes on: its files are newer
 *              and quiet, its tracker file is, or it has printed a line
 *   and then   goes on, is started again in place, or ends because it has requeued itself
 *
 *   PROGRAM RUNS --request--> TOLD --it ends as it was to, files are newer--> SAVED --> runs again
 *    |                         |  '--goes-on: its files are newer and quiet--> SAVED, runs on
 *    |                         '--withdrawn--> the file is removed; if it had read the file and
 *    |                                         ends as it was to, it runs again
 *    '--unasked: it ends so----> SET ASIDE, runs again --request--> handed over, SAVED
 *
 * Flow     the files of $CKPT_RESTORE_DIR come back into the folder, and the program starts. Ten
 *          times a second the stand-in looks for $CKPT_DIR/request. It tells the program, and waits
 *          for its end, or for its files. It copies them and says done (src/ask/sentinel.h). A save
 *          that nobody asked for is set aside (run_aside.h), and a checkpoint is asked for
 *          (run_wish.h).
 * Shapes   newer is later than what told it, or than its start, by the same file system's clock.
 *          An end with 0 while nothing is asked is that of the work: to run it again would do the
 *          work twice. So it is also after a request that was withdrawn, unless the program has
 *          saved since it was told and ends soon: then it had read the file, and its work is not
 *          done.
 * Errors   the status of `done` says why nothing was saved; a save without any newer file is an
 *          empty checkpoint. The program's own end is the stand-in's: status or signal; 127 or 126
 *          when it cannot be executed.
 * Absent   jobs of several nodes: nothing tells the programs of all nodes one step.
 * Source   S1-030, S4-003, S5-002 to S5-007.
 */
#ifndef CKPT_AGENT_RUN_STAND_IN_H
#define CKPT_AGENT_RUN_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "src/agent/run/run_tell.h"
#include "src/base/err.h"

struct stand_in {
    const char *file;    /* by which it is told; NULL: by none */
    const char *text;    /* in it */
    struct tell tell;    /* the signal by which it is told */
    const char *files;   /* run_saved_files.h */
    const char *outputs; /* ... beside them; NULL: none */
    const char *restart; /* a shell command in the program's place, when files are there; or NULL */
    const char *complete; /* its status 0 is the end of its work only when this file is there, newer
                           * than the start; NULL: in any case */
    const char *more;     /* ... and this one is not */
    const char *tracker;  /* goes_on: a file that is newer when it has saved, with the label in it;
                           * NULL: none */
    const char *line;     /* goes_on: a text that it prints then; NULL: none */
    bool goes_on;         /* after it has saved; else it ends */
    bool unasked;         /* an end as that of a save is one at any time */
    bool requeues;        /* after it has saved it has requeued itself: it is not started again */
    bool then_named;      /* the option that says what follows was given */
    int status;      /* it ends with this when it has saved; with 0 alone, also when its work is
                           * complete */
    int end_signal;  /* ... or by this; 0: not by one */
    int kill_signal; /* by which it is told to end, and SIGTERM is blocked for it; 0: by SIGTERM */
    uint64_t quiet_ms; /* goes_on: files that have not changed for so long are whole; 0: default */
};

#define STAND_IN_ALL_FILES "*"
/* In its environment: the folder of the checkpoints, where the program may see it (--dir). */
#define STAND_IN_CHECKPOINTS "CKPT_STANDALONE_DIR"
/* ... and the checkpoint that was restored, or STAND_IN_NONE: one was wanted, and there is none.
 * Absent: none is to be begun from. */
#define STAND_IN_RESTORED "CKPT_RESTORE_ID"
#define STAND_IN_NONE     "none"
enum { STAND_IN_QUIET_MS = 2000, STAND_IN_REQUEUED = 85 };

/* Some option asks for one. */
bool stand_in_wanted(const struct stand_in *stand_in);
/* Whether these options go together. */
int stand_in_check(const struct stand_in *stand_in, const char *profile, uint32_t ranks,
                   struct err *err);
/* The command with the stand-in before it: one block of the heap, which the caller frees. */
char **stand_in_command(const struct stand_in *stand_in, char *const *command);
/* The program that such a command names; of another command its own. */
const char *stand_in_program(char *const *command);
/* Of a command line: false, it is none of a stand-in. The texts stay the line's. */
bool stand_in_read(char **words, struct stand_in *ret_stand_in, char ***ret_command);
/* The end of a program. */
struct stand_in_end {
    int wait_status; /* as of waitpid(2) */
    bool told;       /* to save, since its start */
    bool complete;   /* its work, as the files say that tell */
};
/* It has saved and its work goes on; else its end is that of the job. */
bool stand_in_goes_on(const struct stand_in *stand_in, const struct stand_in_end *end);
/* False: one of the two files says that the work goes on. An older one is of a run before. */
bool stand_in_complete(const struct stand_in *stand_in, const struct timespec *began);
/* This process was started as one: does not return. */
void stand_in_run(int argc, char **argv);

#endif
