/* Tools that save a program from outside, which knows nothing of it: one row and one file each.
 *
 * Flow     ckpt-run starts the program below a front (front.h), and a checkpoint is a process
 *          beside it (save.h). The row says how each is done.
 *              prepare()  in ckpt-run, before each start
 *              become()   in the child of the front: the program, or the tool that restores it
 *              restore()  in the front, where the tool makes what it restores the front's child
 *              save()     in the process beside it
 *              check()    whether the tool works on this node
 * Shapes   a row keeps no state. Between these its files lie in the work folder.
 * Errors   save(), restore(), prepare() and check(): -1 with one line for the job's owner.
 */
#ifndef CKPT_AGENT_TOOL_H
#define CKPT_AGENT_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum { TOOL_VERSION_BYTES = 32 };

struct tool_start {
    const char *work_dir;
    const char *restore_dir; /* "": from scratch */
    char *const *command;
};

struct tool_save {
    const char *work_dir;
    const char *folder; /* for the image; it is there, and empty */
    pid_t front;
    bool stops;           /* it is left stopped where the tool can */
    uint64_t deadline_ms; /* since the epoch */
    /* The checkpoint is not wanted any more, by the agent or because ckpt-run has gone. */
    bool (*unwanted)(void);
};

struct tool {
    const char *name; /* of its profile */
    int (*check)(char ret_version[TOOL_VERSION_BYTES], struct err *err);
    int (*prepare)(const struct tool_start *start, struct err *err); /* NULL: nothing is needed */
    void (*become)(const struct tool_start *start);                  /* returns with errno */
    int (*restore)(const struct tool_start *start, pid_t *ret_pid, struct err *err); /* NULL:
                                                                          become() does it */
    int (*save)(const struct tool_save *save, struct err *err);
    /* The files of this folder are an image of it. */
    bool (*left)(const char *folder);
    bool marks; /* ... with a file of ours in it: nobody else's are taken for one */
};

extern const struct tool tool_criu;
extern const struct tool tool_dmtcp;

/* NULL: no tool has that name. */
const struct tool *tool_find(const char *name);
/* The tool whose image lies in the folder of a checkpoint's files; NULL: there is none, or "". */
const struct tool *tool_of_image(const char *folder);
/* The i-th, from 0; NULL: no more. */
const struct tool *tool_at(size_t i);
/* A line for each tool: "criu 4.1.1", or "criu: REASON". Up to a second where one is there. */
enum { TOOLS_MAX = 4, TOOL_LINE_BYTES = 200 };
size_t tools_look(char ret_lines[TOOLS_MAX][TOOL_LINE_BYTES]);

#endif
