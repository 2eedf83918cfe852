/* The processes below one, and the files that they have open, as they are at one moment.
 *
 * Shapes   at most PROCESS_TREE_MAX processes; the caller frees. Of a tree that runs a process may
 *          be missing: a caller that needs them all looks while they stand still.
 */
#ifndef CKPT_AGENT_PROCESS_TREE_H
#define CKPT_AGENT_PROCESS_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum { PROCESS_TREE_MAX = 4096 };

struct process_tree {
    pid_t *pids; /* the first is the root */
    size_t count;
};

/* ERR_NOT_FOUND: there is no such process. ERR_FULL: more than PROCESS_TREE_MAX. */
int process_tree_look(pid_t root, struct process_tree *ret_tree, struct err *err);
void process_tree_free(struct process_tree *tree);
/* The children of a process: their number, and one of them. */
size_t process_children(pid_t pid, pid_t *ret_child);
/* The one program below a front. ERR_NOT_FOUND: none is there. ERR_UNFIT: others have lost their
 * parents. */
int process_program(pid_t parent, pid_t *ret_root, struct err *err);

struct open_file {
    char target[PATH_MAX]; /* as /proc names it: a path, "pipe:[7]" */
    bool is_regular, is_written;
    uint64_t bytes; /* of a regular file */
};

/* -1: nothing is open under this number. */
int process_open_file(pid_t pid, int fd, struct open_file *ret_file);
/* Of each open file of the process; each() returns other than 0 to stop, and that is returned. */
typedef int process_file_fn(void *data, const struct open_file *file);
int process_each_file(pid_t pid, process_file_fn *each, void *data);

#endif
