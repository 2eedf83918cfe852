/* A ckpt-worker that stays for the next task of the same user, so that a small checkpoint does not
 * wait for a program to be loaded. The daemon's side is worker_process.h.
 *
 * Flow     the first task is the program's arguments, as of any ckpt-worker. With TASKS_SOCKET in
 *          the environment the process may stay: it answers with the exit code, and waits for a
 *          message with the arguments of the next task and the descriptors of its output. The
 *          daemon's end is closed -> it ends.
 * Shapes   a message: the arguments, verb first, each ended by NUL, TASKS_MESSAGE_BYTES at most,
 *          with two descriptors, which become 1 and 2. An answer: struct tasks_answer.
 *          Between tasks nothing is kept but the user that the first one became: descriptors are
 *          closed, memory goes back, umask, signals and folder are as at the start.
 *          It stays after a task that came to its end well. After any other one it ends, and what
 *          that left behind with it.
 * Errors   a message that the daemon must not send ends the process.
 */
#ifndef CKPT_DEST_TASKS_H
#define CKPT_DEST_TASKS_H

#include "src/dest/worker.h"

/* In the worker's environment: the descriptor of the socket. Without it the process ends with its
 * first task. */
#define TASKS_SOCKET WORKER_WORDS "TASKS"
enum {
    TASKS_MESSAGE_BYTES = 65536,
    /* Not an exit code: the task wants what only a new process of root's can do, and nothing of it
     * is done. */
    TASKS_ANEW = -2
};

struct tasks_answer {
    int exit_code; /* enum worker_exit, or TASKS_ANEW */
};

/* All of a worker program, from its arguments to its exit code. A task of a kind of destination
 * that another program does is handed over to that one, which lies beside this one. */
int tasks_main(int argc, char **argv);

#endif
