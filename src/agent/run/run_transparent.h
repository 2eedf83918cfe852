/* A program that a tool saves from outside (transparent/tool.h): the front of run_command.h that
 * calls none of the owner's commands.
 *
 * Flow     run_transparent_open() once; before each start run_transparent_begin() and
 *          run_transparent_line(); run_transparent_save() when the agent asks, and
 *          run_transparent_why() when that failed.
 * Shapes   one tool for a ckpt-run, by its profile. With --profile auto the first one that works
 *          is at hand: at each start the agent says whether the policy allows it. Else nothing is
 *          done.
 * Errors   run_transparent_open: ERR_REFUSED, the tool does not work on this node, and why.
 */
#ifndef CKPT_AGENT_RUN_TRANSPARENT_H
#define CKPT_AGENT_RUN_TRANSPARENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/run/run_options.h"
#include "src/base/err.h"

struct run_transparent_save {
    const char *folder;
    pid_t application;
    bool stops;
    uint64_t deadline_ms;
};

/* Of the profile that the options name. */
bool run_transparent_wanted(const struct run_options *options);
int run_transparent_open(const struct run_options *options, const char *work_dir, struct err *err);
bool run_transparent_is_on(void);
/* The profile of the tool that is at hand; "": none is. */
const char *run_transparent_at_hand(void);
/* Its address cannot be served: it is at hand no more. */
void run_transparent_drop(void);
/* allowed: by the agent, for this start. An image in the restored files is of a tool, whatever the
 * policy says now. -1: no tool can restore it here. */
int run_transparent_begin(bool allowed, const char *restore_dir, struct err *err);
/* The application runs already, and this program goes on with it. */
void run_transparent_resume(pid_t application);
/* Valid until the next call. NULL with err: the tool cannot be made ready. */
char *const *run_transparent_line(const struct run_options *options, const char *restore_dir,
                                  struct err *err);
/* A job of several parts: one tool saves the processes of one node. */
int run_transparent_refuse_parts(const struct run_options *options, uint32_t parts,
                                 struct err *err);
/* Errors of a line; the words of the other ways do not go with it. */
int run_transparent_check(const struct run_options *options, struct err *err);
/* The process that saves it; it is told to drop that by SIGTERM, and never killed. */
pid_t run_transparent_save(const struct run_transparent_save *asked);
void run_transparent_why(char *ret_why, size_t size);
/* The reason of a front that could not restore the application; "": it has ended otherwise. */
void run_transparent_end_why(int wait_status, char *ret_why, size_t size);

#endif
