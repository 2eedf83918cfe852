/* Starts the application in a process group of its own.
 *
 * Errors   run_child_start: errno of what failed: execvp's, when the command cannot be run, else of fork or pipe.
 */
#ifndef CKPT_AGENT_RUN_CHILD_H
#define CKPT_AGENT_RUN_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct run_environment {
    const char *allocation_id;
    const char *node_id;
    const char *work_dir;
    const char *restore_dir; /* "": from scratch */
    uint32_t restart_count;
};

/* 0, or an errno. The child is the leader of group *ret_pid when this returns. */
int run_child_start(char *const *command, const struct run_environment *environment,
                    pid_t *ret_pid);

#endif
