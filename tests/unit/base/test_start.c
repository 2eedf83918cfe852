/* However a program is started, it begins alike; its caller's signals can be handed on (V-011). */
#include "src/base/start.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

/* In a process of its own, which begins as a careless caller has left it. */
static int in_child(int (*begins)(void))
{
    pid_t pid = fork();
    int status = -1;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(begins());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int without_descriptors(void)
{
    int file;

    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    start_program(NULL);
    file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!is_open(STDIN_FILENO) || !is_open(STDOUT_FILENO) || !is_open(STDERR_FILENO))
        return 1;
    return file > STDERR_FILENO && write(STDERR_FILENO, "x", 1) == 1 ? 0 : 2;
}

static int without_one(void)
{
    int kept = dup(STDOUT_FILENO);

    close(STDERR_FILENO);
    start_program(NULL);
    return is_open(STDERR_FILENO) && kept > STDERR_FILENO && is_open(kept) ? 0 : 1;
}

static int with_signals_shut(void)
{
    struct start_signals found;
    sigset_t all, none, now;
    pid_t child;

    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    start_program(&found);
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (!sigisemptyset(&now))
        return 1;
    child = fork();
    if (child == 0)
        _exit(7);
    if (waitpid(child, NULL, 0) != child)
        return 2; /* the kernel has reaped it: SIGCHLD is still ignored */
    if (sigismember(&found.blocked, SIGUSR1) != 1 || sigismember(&found.ignored, SIGHUP) != 1 ||
        sigismember(&found.ignored, SIGINT) != 0)
        return 3;
    signal(SIGINT, SIG_IGN);
    sigaddset(&none, SIGUSR1);
    start_restore(&found, &none);
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, SIGUSR1) != 0 || sigismember(&now, SIGALRM) != 1)
        return 4;
    return signal(SIGHUP, SIG_DFL) == SIG_IGN && signal(SIGINT, SIG_DFL) == SIG_DFL ? 0 : 5;
}

static void closed_descriptors_are_opened_and_are_nobody_elses(void **state)
{
    (void)state;
    assert_int_equal(in_child(without_descriptors), 0);
    assert_int_equal(in_child(without_one), 0);
}

static void blocked_and_ignored_signals_are_a_matter_of_the_caller(void **state)
{
    (void)state;
    assert_int_equal(in_child(with_signals_shut), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_descriptors_are_opened_and_are_nobody_elses),
        cmocka_unit_test(blocked_and_ignored_signals_are_a_matter_of_the_caller),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
