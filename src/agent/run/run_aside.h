/* A save that nobody asked for: its files are set aside in the work folder, and are handed over to
 * the checkpoint that is asked for because of it.
 *
 * Flow     aside_take() when the program has ended by itself as one that has saved; aside_give()
 *          for a question. aside_drop() at the start, and once a later save has gone to a question.
 * Shapes   one save, the last one, in <work>/ckpt-run.aside. It stays when it was handed over: the
 *          next attempt at the same checkpoint may need it.
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
};

void aside_drop(const char *work_dir, struct aside *aside);
/* Of no files: an empty save. */
int aside_take(const char *work_dir, const struct saved_files *files, struct aside *aside,
               struct err *err);
int aside_give(const char *work_dir, const struct aside *aside, const char *folder,
               struct err *err);

#endif
