/* The application is held until the agent knows it: a ckpt-run that dies in between leaves nothing
 * that runs (I22, F-025). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/agent/run/run_child.h"
#include "src/base/check.h"
#include "tests/support/test.h"

static struct start_signals found; /* nothing is blocked or ignored */
static const struct run_environment environment = {.signals = &found,
                                                   .allocation_id = "job",
                                                   .node_id = "n1",
                                                   .work_dir = "/nowhere",
                                                   .restore_dir = "",
                                                   .run = "1-5",
                                                   .socket = "/nowhere/agent.sock",
                                                   .app_socket = "",
                                                   .restore_uri = "",
                                                   .restore_label = ""};

/* A folder that the command would make: there or not is what tells whether it ran. */
static char mark[64];
static char mkdir_name[] = "mkdir";

static int make_mark_name(void **state)
{
    (void)state;
    snprintf(mark, sizeof(mark), "/tmp/ckpt-run-child-XXXXXX");
    if (mkdtemp(mark) == NULL)
        return -1;
    return rmdir(mark);
}

static int remove_mark(void **state)
{
    (void)state;
    rmdir(mark);
    return 0;
}

static int start(char *const *command, const struct run_environment *environs,
                 struct run_child *ret_child)
{
    const struct keeper_start keeper = {.work_dir = "/tmp", .line = {"job", command, "/tmp"}};

    return run_child_start(&keeper, environs, command, ret_child);
}

/* As its keeper tells it. */
static int wait_of(struct run_child *child)
{
    struct keeper_news news;

    run_child_tell(child, KEEPER_CONFIRM);
    do
        assert_int_equal(recv(child->keeper_fd, &news, sizeof(news), 0), sizeof(news));
    while (news.kind != KEEPER_ENDED);
    run_child_done(child);
    return news.value;
}

static void a_released_child_becomes_the_command(void **state)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;

    (void)state;
    assert_int_equal(run_child_find(command[0]), 0);
    assert_int_equal(start(command, &environment, &child), 0);
    assert_int_equal(getpgid(child.pid), child.pid);
    assert_int_equal(run_child_release(&child), 0);
    assert_int_equal(wait_of(&child), 0);
    assert_int_equal(access(mark, F_OK), 0);
}

static void a_child_whose_gate_closes_runs_nothing(void **state)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;
    int status;

    (void)state;
    assert_int_equal(start(command, &environment, &child), 0);
    close(child.gate_fd); /* what the kernel does when ckpt-run is killed */
    status = wait_of(&child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 125);
    assert_int_not_equal(access(mark, F_OK), 0);
    close(child.failure_fd);
}

static void a_held_child_dies_of_a_signal_and_its_release_is_no_failure(void **state)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;
    void (*old)(int) = signal(SIGPIPE, SIG_IGN); /* as in ckpt-run */

    (void)state;
    assert_int_equal(start(command, &environment, &child), 0);
    assert_int_equal(kill(-child.pid, SIGKILL), 0);
    assert_true(WIFSIGNALED(wait_of(&child)));
    assert_int_equal(run_child_release(&child), 0);
    assert_int_not_equal(access(mark, F_OK), 0);
    signal(SIGPIPE, old);
}

static void note_signal(int number)
{
    (void)number;
    rmdir(mark); /* in whichever process it runs */
}

/* A handler of ckpt-run never runs in its child, however early a signal comes there. */
static void a_signal_reaches_a_child_from_its_first_moment(void **state)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;

    (void)state;
    assert_int_equal(mkdir(mark, 0700), 0);
    signal(SIGUSR2, note_signal);
    alarm(20); /* one that was spared is held for ever */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(start(command, &environment, &child), 0);
        assert_int_equal(kill(-child.pid, SIGUSR2), 0);
        assert_int_equal(WTERMSIG(wait_of(&child)), SIGUSR2);
        close(child.gate_fd);
        close(child.failure_fd);
    }
    alarm(0);
    signal(SIGUSR2, SIG_DFL);
    assert_int_equal(access(mark, F_OK), 0);
}

static int forks; /* between the test and this process, once they are counted */
static bool counted;

/* The command's process is the keeper's child, and late here. */
static void come_late(void)
{
    const struct timespec late = {.tv_nsec = 100 * 1000 * 1000};

    if (counted && ++forks == 2)
        nanosleep(&late, NULL);
}

/* Whoever looks at it before it has become the command would take ckpt-run's handlers for those of
 * the command, and signal what does not catch. */
static void a_child_is_never_seen_with_a_handler_of_its_starter(void **state)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;
    struct proc_status status;

    (void)state;
    signal(SIGUSR2, note_signal);
    assert_int_equal(pthread_atfork(NULL, NULL, come_late), 0);
    counted = true;
    assert_int_equal(start(command, &environment, &child), 0);
    counted = false;
    assert_int_equal(proc_read_status(child.pid, &status), 0);
    assert_int_equal(status.caught, 0);
    run_child_drop(&child);
    signal(SIGUSR2, SIG_DFL);
}

static void start_where_the_session_is_not_seen(void)
{
    char *command[] = {mkdir_name, mark, NULL};
    struct run_child child;

    CHECK(getsid(0) == 0);
    CHECK(start(command, &environment, &child) == 0);
    CHECK(getsid(child.pid) > 0);
    run_child_drop(&child);
}

/* As of a command that is brought into a container. */
static void a_child_has_a_session_that_is_seen_where_it_runs(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    if (geteuid() != 0)
        skip();
    pid = fork();
    if (pid == 0) {
        CHECK(setsid() > 0); /* no terminal is there */
        CHECK(unshare(CLONE_NEWPID) == 0);
        pid = fork();
        if (pid == 0) {
            start_where_the_session_is_not_seen();
            _exit(0);
        }
        _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_cannot_be_run_is_told(void **state)
{
    char file[] = "/etc/passwd";
    char nothing[] = "/no/such/command";
    char *command[] = {file, NULL};
    char *missing[] = {nothing, NULL};
    struct run_child child;

    (void)state;
    assert_int_equal(run_child_find("no-such-command-anywhere"), ENOENT);
    assert_int_equal(run_child_find("/no/such/command"), ENOENT);
    assert_int_equal(run_child_find("/tmp"), EISDIR);
    assert_int_equal(start(command, &environment, &child), 0);
    assert_int_equal(run_child_release(&child), EACCES);
    assert_int_equal(WEXITSTATUS(wait_of(&child)), 126);
    assert_int_equal(start(missing, &environment, &child), 0);
    assert_int_equal(run_child_release(&child), ENOENT);
    assert_int_equal(WEXITSTATUS(wait_of(&child)), 127);
}

static void the_command_knows_its_place_only_where_it_is_known(void **state)
{
    char shell[] = "/bin/sh", dash_c[] = "-c";
    char of_three[] = "test \"$CKPT_PART of $CKPT_PARTS $CKPT_RESTORE_URI $CKPT_RESTORE_LABEL\" = "
                      "'2 of 3 file:///c 128'";
    char unknown[] = "test \"${CKPT_PART-no}${CKPT_PARTS-no}\" = nono";
    char *command[] = {shell, dash_c, of_three, NULL};
    struct run_environment placed = environment;
    struct run_child child;

    (void)state;
    placed.part = 2;
    placed.parts = 3;
    placed.restore_uri = "file:///c";
    placed.restore_label = "128";
    assert_int_equal(start(command, &placed, &child), 0);
    assert_int_equal(run_child_release(&child), 0);
    assert_int_equal(wait_of(&child), 0);
    setenv("CKPT_PART", "7", 1); /* of a job around this one */
    command[2] = unknown;
    assert_int_equal(start(command, &environment, &child), 0);
    assert_int_equal(run_child_release(&child), 0);
    assert_int_equal(wait_of(&child), 0);
    unsetenv("CKPT_PART");
}

/* As nohup and a shell's background start it (V-011). */
static void what_the_caller_ignored_and_blocked_stays_so_but_for_what_asks_and_ends(void **state)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD};
    static const int blocked[] = {SIGALRM, SIGTERM, SIGUSR2};
    char shell[] = "/bin/sh", dash_c[] = "-c";
    char as_expected[] = "set -- $(sed -n 's/^SigBlk:.//p; s/^SigIgn:.//p' /proc/self/status);"
                         "test $((0x$1 & 0x16a00)) = $((1 << 13)) && test $((0x$2 & 0x14203)) = 3";
    char *command[] = {shell, dash_c, as_expected, NULL};
    struct start_signals before = {0};
    struct run_environment environs = environment;
    struct run_child child;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ignored); i++)
        sigaddset(&before.ignored, ignored[i]);
    for (size_t i = 0; i < ARRAY_COUNT(blocked); i++)
        sigaddset(&before.blocked, blocked[i]);
    environs.signals = &before;
    assert_int_equal(start(command, &environs, &child), 0);
    assert_int_equal(run_child_release(&child), 0);
    assert_int_equal(wait_of(&child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_released_child_becomes_the_command, make_mark_name,
                                        remove_mark),
        cmocka_unit_test_setup_teardown(a_child_whose_gate_closes_runs_nothing, make_mark_name,
                                        remove_mark),
        cmocka_unit_test_setup_teardown(a_held_child_dies_of_a_signal_and_its_release_is_no_failure,
                                        make_mark_name, remove_mark),
        cmocka_unit_test_setup_teardown(a_signal_reaches_a_child_from_its_first_moment,
                                        make_mark_name, remove_mark),
        cmocka_unit_test_setup_teardown(a_child_is_never_seen_with_a_handler_of_its_starter,
                                        make_mark_name, remove_mark),
        cmocka_unit_test(a_child_has_a_session_that_is_seen_where_it_runs),
        cmocka_unit_test(what_cannot_be_run_is_told),
        cmocka_unit_test(what_the_caller_ignored_and_blocked_stays_so_but_for_what_asks_and_ends),
        cmocka_unit_test(the_command_knows_its_place_only_where_it_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
