/* What ckpt-run told an application by its environment, read back from a process: the application,
 * or what it has started.
 *
 * Flow     proc_read_environment(); may take as long as the process holds its memory map, so it is
 *          not for the loop of a running agent.
 * Errors   false: no such process, one that this program may not read, or none that ckpt-run
 *          started.
 * Absent   what a process that changed its own environment was started with, in so far as it
 *          overwrote the memory.
 */
#ifndef CKPT_AGENT_PROC_ENVIRONMENT_H
#define CKPT_AGENT_PROC_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "src/agent/durable/ledger.h"

struct proc_environment {
    char allocation_id[ID_MAX_BYTES + 1];
    char node_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    char socket[PATH_MAX];
    char run[CHECKPOINT_ID_TEXT_BYTES];
};

bool proc_read_environment(pid_t pid, struct proc_environment *ret_found);
/* The process runs a program that had other rights than who started it (set-user-id): its
 * environment is not its user's word. True also when that cannot be read. */
bool proc_is_secure(pid_t pid);

#endif
