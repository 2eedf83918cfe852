/* Starts a program without copying the running process: a daemon with gigabytes of state must not
 * stop for the milliseconds that fork(2) needs to copy its page tables, nor fault on every page
 * afterwards.
 *
 * Flow     the child shares the memory until it executes the program (clone with CLONE_VM and
 *          CLONE_VFORK, as posix_spawn(3) does, which can neither change user nor tell which step
 *          failed).
 * Shapes   the program leads a session and group of its own, reads nothing, has default signal
 *          actions and an empty signal mask. Descriptors of the caller must be close-on-exec.
 * Errors   a negative errno, of whichever step failed; nothing is left then.
 */
#ifndef CKPT_DEST_SPAWN_H
#define CKPT_DEST_SPAWN_H

#include <sys/types.h>

struct spawn {
    const char *file; /* a path */
    char *const *arguments;
    char *const *environment;
    int output_fd, errors_fd; /* become 1 and 2 */
};

/* ret_pidfd becomes readable when the program has ended; then waitpid() the pid and close it. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid, int *ret_pidfd);

#endif
