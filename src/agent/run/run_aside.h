/* A save that nobody asked for: its files are set aside in the work folder, and are handed over to
 * the checkpoint that is asked for because of it.
 *
 * Flow     aside_take() when the program has ended by itself as one that has saved; aside_give()
 *          for a question; aside_drop() once a later save has gone to a question, or the work is
 *          complete. A start finds what one before has left (aside_find()), and brings it back
 *          where no checkpoint is as new.
 * Shapes   one save, the last one: <work>/ckpt-run.aside/files, and beside it a note of whose it
 *          is. All of it is synced and takes its name at once, so a node that loses its power has
 *          the last one or the one before. It stays when it was handed over: the next attempt at
 *          the same checkpoint may need it.
 * Units    milliseconds since the epoch.
 * Errors   err names the file and the system's word; the save before stays then.
 */
#ifndef CKPT_AGENT_RUN_ASIDE_H
#define CKPT_AGENT_RUN_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/agent/run/run_saved_files.h"
#include "src/base/err.h"

struct aside {
    bool there;
    bool empty; /* it has no files: the checkpoint is to fail as an empty one */
    uint64_t bytes;
    uint64_t at_ms;
    uint64_t
        newest; /* checkpoint known then: each later one has this save, or a later one; 0: none */
};

void aside_drop(const char *work_dir, struct aside *aside);
/* Of no files: an empty save. */
int aside_take(const char *work_dir, const struct saved_files *files, uint64_t newest,
               struct aside *aside, struct err *err);
/* False: none, or it is another job's, or of a program that runs in another folder. */
bool aside_find(const char *work_dir, struct aside *ret_aside);
/* Its files, under their names below this folder. */
int aside_bring_back(const char *work_dir, const struct saved_names *names, struct err *err);
int aside_give(const char *work_dir, const struct aside *aside, const char *folder,
               struct err *err);

#endif
