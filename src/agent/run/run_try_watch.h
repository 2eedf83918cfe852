/* A look at a trial while its checkpoint is waited for. A program that saves when it is asked, and
 * leaves no `done`, would else be told of by the end of the time alone.
 *
 * Flow     try_watch_look() about once a second; it says its line once.
 * Shapes   the newest file below the folder where the program runs, or in its work folder's out/,
 *          that is newer than the question and has not changed for TRY_WATCH_QUIET_MS.
 */
#ifndef CKPT_AGENT_RUN_TRY_WATCH_H
#define CKPT_AGENT_RUN_TRY_WATCH_H

#include <stdbool.h>

enum { TRY_WATCH_QUIET_MS = 3000, TRY_WATCH_FILES_MAX = 10000 };

struct try_watch {
    bool said;
};

void try_watch_look(const char *work_dir, struct try_watch *watch);

#endif
