/* Starting a program on shared memory. See spawn.h. */
#include "src/dest/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"

/* Its stack is not the one that the sanitizers know for this thread, and what they would note of it
 * outlives it. */
#define SPAWN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

enum { SPAWN_STACK_BYTES = 1 << 16, SPAWN_HIGH_FD = 10 };

struct spawn_child {
    const struct spawn *spawn;
    int error; /* written by the child, on shared memory */
};

/* Descriptors first go above those they become: an end of a pipe may itself be 0, 1 or 2. */
SPAWN_CHILD static int child_descriptors(const struct spawn *spawn)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int count = spawn->socket_fd > 0 ? SPAWN_SOCKET_FD + 1 : SPAWN_SOCKET_FD;
    int high[SPAWN_SOCKET_FD + 1] = {fcntl(input, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD),
                                     fcntl(spawn->output_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD),
                                     fcntl(spawn->errors_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD)};

    if (spawn->socket_fd > 0)
        high[SPAWN_SOCKET_FD] = fcntl(spawn->socket_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD);
    for (int fd = 0; fd < count; fd++)
        if (high[fd] < 0 || dup2(high[fd], fd) < 0)
            return -1;
    return 0;
}

/* Handlers of the caller would run on its memory. */
SPAWN_CHILD static void child_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &action, NULL); /* refused for SIGKILL, SIGSTOP and glibc's own */
}

/* Returning ends the child alone: clone() calls _exit. */
SPAWN_CHILD static int child_main(void *data)
{
    struct spawn_child *child = data;
    sigset_t none;

    child_signals();
    sigemptyset(&none);
    if (setsid() >= 0 && child_descriptors(child->spawn) == 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(child->spawn->file, child->spawn->arguments, child->spawn->environment);
    child->error = errno != 0 ? errno : EIO;
    return 127;
}

/* ---- those that are waited for ---- */

/* As many as there ever were at once; a daemon has few. */
static struct own {
    pid_t *pids;
    size_t count, capacity;
} own;

static void own_add(pid_t pid)
{
    if (own.count == own.capacity) {
        own.capacity = own.capacity == 0 ? 16 : 2 * own.capacity;
        own.pids = check_realloc(own.pids, own.capacity, sizeof(*own.pids));
    }
    own.pids[own.count++] = pid;
}

static void own_drop(pid_t pid)
{
    for (size_t i = 0; i < own.count; i++) {
        if (own.pids[i] == pid) {
            own.pids[i] = own.pids[--own.count];
            return;
        }
    }
    CHECK_UNREACHABLE("a child that nobody has started");
}

/* All signals wait while the child shares the memory: a handler of the daemon that ran in it would
 * change the daemon. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid, int *ret_pidfd)
{
    struct spawn_child child = {spawn, 0};
    sigset_t all, before;
    char *stack = mmap(NULL, SPAWN_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid;
    int pidfd;

    if (stack == MAP_FAILED)
        return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack + SPAWN_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
    if (pid < 0)
        child.error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)munmap(stack, SPAWN_STACK_BYTES); /* the child has another memory now, or none */
    if (pid < 0)
        return -child.error;
    own_add(pid);
    pidfd = child.error == 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd >= 0) {
        *ret_pid = pid;
        *ret_pidfd = pidfd;
        return 0;
    }
    if (child.error == 0) { /* it runs, but nobody would learn when it ends */
        child.error = errno;
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    own_drop(pid);
    return -child.error;
}

bool spawn_ended(pid_t pid, int *ret_wait_status)
{
    CHECK(pid > 0);
    if (waitpid(pid, ret_wait_status, WNOHANG) != pid)
        return false;
    own_drop(pid);
    return true;
}

bool spawn_owns(pid_t pid)
{
    for (size_t i = 0; i < own.count; i++)
        if (own.pids[i] == pid)
            return true;
    return false;
}
