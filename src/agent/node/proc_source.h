/* The node's side of the table of processes, as a table of calls: /proc and the kernel, or a test's
 * model of them.
 *
 * Flow     forks() and list() say who is new; the others read one process. proc_source_node() is
 *          the real one.
 * Shapes   list() calls back for each process by rising pid, with the inode number of its folder in
 *          /proc. The kernel gives each process another number, so a pid that came again is noticed
 *          without a read. forks() and list() are for one thread at a time.
 * Units    ticks are of the clock of start_ticks (proc.h).
 * Errors   as in proc.h: -1 gone or not to be seen, 1 not to be read just now.
 */
#ifndef CKPT_AGENT_PROC_SOURCE_H
#define CKPT_AGENT_PROC_SOURCE_H

#include "src/agent/node/proc.h"

struct proc_forks {
    uint64_t count;   /* of all processes and threads since boot, each counted as it appears */
    uint64_t tasks;   /* existing ones */
    uint64_t pid_max; /* numbers rise up to it, then begin anew */
    pid_t last;       /* the number that was given last */
};

/* Of processes above `after`, up to `until`; {0, 0}: of all. */
struct proc_span {
    pid_t after;
    pid_t until;
};

typedef void proc_listed_fn(void *data, pid_t pid, uint64_t folder);
struct proc_source {
    void *context;
    /* -1: not told here. */
    int (*forks)(void *context, struct proc_forks *ret_forks);
    /* -1: it cannot be listed just now, or, unless of all, not by parts. */
    int (*list)(void *context, struct proc_span span, proc_listed_fn *each, void *data);
    int (*stat)(void *context, pid_t pid, struct proc_stat *ret_stat);
    int (*status)(void *context, pid_t pid, struct proc_status *ret_status);
    /* See proc_read_bytes(). May wait for as long as the process holds its memory map. */
    char *(*bytes)(void *context, pid_t pid, const char *file, size_t max, size_t *ret_bytes,
                   int *ret_result);
    /* Its process group, without opening a file; -1: not told. */
    pid_t (*group)(void *context, pid_t pid);
    uint64_t (*now_ticks)(void *context);
};

const struct proc_source *proc_source_node(void);

#endif
