/* ckpt-worker processes, each for one task or, of one user, for one after the other.
 *
 * Flow     process_take() gives a task to an idle process that may do it, else process_start()
 *          makes a process with the task. answered(): the task is done and the process stays.
 *          process_release() makes it idle for the next task, or process_kill() ends it. ended():
 *          the process is gone, with or without an answer; then process_close().
 * Shapes   at most WORKER_IDLE_MAX idle ones, the oldest goes first; each ends after
 *          worker_set_idle() milliseconds without a task, and has no handle that keeps the loop
 *          running. A process is shared within a struct process_scope.
 * Errors   a process that cannot take a task is not told of: a new one is made.
 */
#ifndef CKPT_DEST_WORKER_PROCESS_H
#define CKPT_DEST_WORKER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

/* The oldest idle one goes when there is one more. */
enum { WORKER_IDLE_MAX = 8, WORKER_IDLE_MS = 30000 };

struct process;

/* The scope of a process: the tasks that may follow an earlier one. Texts are copied. */
struct process_scope {
    const char *user;  /* with groups, as --as has them; NULL: nobody, the process does one task */
    const char *claim; /* the thing that root has to make for the user first; NULL: nothing */
};

/* Callbacks to the giver of a task. On the loop's thread, never from inside a call of this
 * header. */
struct process_events {
    void (*answered)(void *data, int exit_code); /* enum worker_exit, or TASKS_ANEW (tasks.h) */
    void (*ended)(void *data, int wait_status);
};

/* A task and where its output goes. Descriptors stay the caller's, and argv[0] is the program. */
struct process_task {
    char *const *argv; /* ended by NULL */
    int output_fd, errors_fd;
    int socket_fd;        /* descriptor of the process for its one task; 0: none */
    const char *variable; /* in the environment, that tells its number */
    struct process_scope scope;
    const struct process_events *events;
    void *data;
};

/* NULL: none that is idle may do it. */
struct process *process_take(const struct process_task *task);
/* 0, or a negative errno: nothing was started. */
int process_start(uv_loop_t *loop, const struct process_task *task, struct process **ret_process);
pid_t process_pid(const struct process *process);
/* After answered(): the next one may have it. Nobody is told of it any more. */
void process_release(struct process *process);
/* SIGKILL, to what it has started as well. */
void process_kill(struct process *process);
/* Its end is nobody's concern any more: it is killed. */
void process_drop(struct process *process);
/* After ended(). */
void process_close(struct process *process);

#endif
