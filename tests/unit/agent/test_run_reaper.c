/* The reaper of a checkpoint command: its status, and that nothing of it is left, whoever dies. */
#include "src/agent/run/run_reaper.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "tests/support/test.h"

enum { LOOK_MS = 10, PATIENCE_MS = 10000 };

/* The processes of a case tell it to the test. */
static struct {
    volatile pid_t shell, child; /* of the command, and in another session */
} * told;

static int set_up(void **state)
{
    (void)state;
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(told, sizeof(*told));
}

static void become_shell(void *data)
{
    sigset_t none;

    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    execl("/bin/sh", "sh", "-c", (const char *)data, (char *)NULL);
}

/* Waits, as does a process that it has begun in a session of its own; neither heeds SIGTERM. */
static void become_two(void *data)
{
    sigset_t none;

    (void)data;
    signal(SIGTERM, SIG_IGN);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (fork() == 0) {
        (void)setsid();
        told->child = getpid();
    } else {
        told->shell = getpid();
    }
    for (;;)
        pause();
}

static pid_t reaper_start(const struct run_application *application, run_reaper_command_fn *become,
                          const char *text)
{
    const pid_t own = getpid();
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0)
        run_reaper(own, application, become, (void *)(uintptr_t)text);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int wait_status_of(const char *text)
{
    const struct run_application none = {0};
    const pid_t pid = reaper_start(&none, become_shell, text);
    int status;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static bool lives(pid_t pid)
{
    struct proc_stat stat;

    return proc_read_stat(pid, &stat) == 0 && proc_living(&stat);
}

static bool stands(pid_t pid)
{
    struct proc_stat stat;

    return proc_read_stat(pid, &stat) == 0 && stat.state == 'T';
}

static bool both_began(void)
{
    return told->shell != 0 && told->child != 0;
}

static bool both_ended(void)
{
    return !lives(told->shell) && !lives(told->child);
}

static bool becomes(bool (*is)(void))
{
    for (int i = 0; i < PATIENCE_MS / LOOK_MS && !is(); i++)
        usleep(LOOK_MS * 1000);
    return is();
}

static void its_status_is_that_of_the_command(void **state)
{
    int status;

    (void)state;
    assert_int_equal(wait_status_of("exit 0"), 0);
    status = wait_status_of("exit 3");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    status = wait_status_of("kill -SEGV $$");
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void it_passes_the_word_to_end_and_waits_for_the_end(void **state)
{
    const struct run_application none = {0};
    const pid_t pid = reaper_start(&none, become_shell,
                                   "trap 'exit 5' TERM; kill -TERM $PPID; "
                                   "while :; do sleep 0.05; done");
    int status;

    (void)state;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

/* A process that waits, in a group of its own. */
static pid_t application_start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)setpgid(0, 0);
        for (;;)
            pause();
    }
    (void)setpgid(pid, pid);
    return pid;
}

static pid_t application;

static bool application_stands(void)
{
    return stands(application);
}

static bool application_goes(void)
{
    return lives(application) && !stands(application);
}

static void application_end(void)
{
    assert_int_equal(kill(application, SIGKILL), 0);
    assert_int_equal(waitpid(application, NULL, 0), application);
}

static void told_to_end_it_kills_all_and_lets_the_application_go_on(void **state)
{
    struct run_application seen;
    int status;
    pid_t pid;

    (void)state;
    application = application_start();
    seen = run_application_look(application);
    pid = reaper_start(&seen, become_two, "");
    assert_true(becomes(both_began));
    assert_int_equal(kill(application, SIGSTOP), 0);
    assert_true(becomes(application_stands));
    assert_int_equal(kill(pid, RUN_REAPER_TELL), 0);
    usleep(50000);
    assert_false(both_ended());
    assert_int_equal(kill(pid, RUN_REAPER_END), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(both_ended());
    assert_true(becomes(application_goes));
    application_end();
}

/* Also one in another session, and an application that stood still before stays so. */
static void nothing_is_left_when_its_parent_is_killed(void **state)
{
    struct run_application seen;
    int status;
    pid_t parent;

    (void)state;
    application = application_start();
    assert_int_equal(kill(application, SIGSTOP), 0);
    assert_true(becomes(application_stands));
    seen = run_application_look(application);
    assert_true(seen.stood_still);
    parent = fork();
    if (parent == 0) {
        (void)reaper_start(&seen, become_two, "");
        for (;;)
            pause();
    }
    assert_true(becomes(both_began));
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(becomes(both_ended));
    usleep(50000);
    assert_true(application_stands());
    application_end();
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(its_status_is_that_of_the_command),
        T(it_passes_the_word_to_end_and_waits_for_the_end),
        T(told_to_end_it_kills_all_and_lets_the_application_go_on),
        T(nothing_is_left_when_its_parent_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
