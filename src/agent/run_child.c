/* Starts the application in a process group of its own. See run_child.h. */
#include "src/agent/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void child_environment(const struct run_environment *environment)
{
    char count[16];

    snprintf(count, sizeof(count), "%" PRIu32, environment->restart_count);
    setenv("CKPT_ALLOCATION_ID", environment->allocation_id, 1);
    setenv("CKPT_NODE_ID", environment->node_id, 1);
    setenv("CKPT_DIR", environment->work_dir, 1);
    setenv("CKPT_RESTART_COUNT", count, 1);
    if (environment->restore_dir[0] != '\0')
        setenv("CKPT_RESTORE_DIR", environment->restore_dir, 1);
    else
        unsetenv("CKPT_RESTORE_DIR");
}

static void child_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* also what ckpt-run ignores; not possible for some: no matter */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void child_run(char *const *command,
                                                const struct run_environment *environment,
                                                int failure_fd)
{
    int failure;

    setpgid(0, 0);
    child_environment(environment);
    child_signals();
    execvp(command[0], command);
    failure = errno;
    if (write(failure_fd, &failure, sizeof(failure)) != sizeof(failure))
        _exit(126);
    _exit(127);
}

int run_child_start(char *const *command, const struct run_environment *environment, pid_t *ret_pid)
{
    int failure = 0;
    ssize_t got;
    int pipes[2];
    pid_t pid;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return errno;
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        failure = errno;
        close(pipes[0]);
        close(pipes[1]);
        return failure;
    }
    if (pid == 0)
        child_run(command, environment, pipes[1]);
    close(pipes[1]);
    do {
        got = read(pipes[0], &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
    close(pipes[0]);
    if (got == (ssize_t)sizeof(failure)) {
        waitpid(pid, NULL, 0);
        return failure;
    }
    *ret_pid = pid;
    return 0;
}
