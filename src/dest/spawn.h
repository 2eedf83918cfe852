/* Starts a program without copying the running process: a daemon with gigabytes of state must not
 * stop for the milliseconds that fork(2) needs to copy its page tables, nor fault on every page
 * afterwards.
 *
 * Flow     the child shares the memory until it executes the program (clone with CLONE_VM and
 *          CLONE_VFORK, as posix_spawn(3) does, which can neither change user nor tell which step
 *          failed).
 * Shapes   the program leads a session and group of its own, reads nothing, has default signal
 *          actions and an empty signal mask. Descriptors of the caller must be close-on-exec.
 * Errors   the negative errno of the step that failed; nothing is left then.
 */
#ifndef CKPT_DEST_SPAWN_H
#define CKPT_DEST_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

enum { SPAWN_SOCKET_FD = 3 };

/* The program to start. All of it is read during the call only. */
struct spawn {
    const char *file;         /* a path; $PATH is not searched */
    char *const *arguments;   /* of argv[0] on, ended by NULL */
    char *const *environment; /* "NAME=value", ended by NULL: nothing is inherited beside it */
    int output_fd, errors_fd; /* become 1 and 2; may be the same, stay open in the caller */
    int socket_fd;            /* becomes SPAWN_SOCKET_FD, likewise; 0: none */
};

/* Returns when the program was executed, or could not be: the caller stands still for as long as
 * execve(2) takes. 0: ret_pidfd becomes readable when the program has ended; then spawn_ended() and
 * close it. Signals to its group (kill(-pid)) reach what it starts itself, too. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid, int *ret_pidfd);
/* Takes the wait status of one that has ended; false: it runs. */
bool spawn_ended(pid_t pid, int *ret_wait_status);
/* Started here, and its end not taken yet: who adopts other processes too (src/serve/reaper.h)
 * leaves it alone. */
bool spawn_owns(pid_t pid);

#endif
