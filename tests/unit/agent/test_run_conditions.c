/* The parts of a job outside of a checkpoint: open sockets and pipes, handlers, devices. S3-066. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_conditions.h"
#include "src/base/check.h"

static void open_files_are_told_apart(void **state)
{
    struct conditions conditions = {.pid = 1};
    static const char *const harmless[] = {
        "/dev/null",   "/dev/pts/3", "/dev/shm/x", "/tmp/state", "anon_inode:[eventpoll]",
        "/dev/urandom"};

    (void)state;
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        conditions_add_open(&conditions, harmless[i], false);
    assert_int_equal(conditions.sockets + conditions.pipes + conditions.devices, 0);
    assert_int_equal(conditions.removed, 0);
    conditions_add_open(&conditions, "socket:[123]", false);
    conditions_add_open(&conditions, "socket:[124]", false);
    conditions_add_open(&conditions, "pipe:[5]", false);
    conditions_add_open(&conditions, "/dev/nvidia0", false);
    conditions_add_open(&conditions, "/tmp/x (deleted)", false);
    assert_int_equal(conditions.sockets, 2);
    assert_int_equal(conditions.pipes, 1);
    assert_int_equal(conditions.devices, 1);
    assert_int_equal(conditions.removed, 1);
    assert_false(conditions.standard_pipe);
    conditions_add_open(&conditions, "pipe:[6]", true);
    assert_true(conditions.standard_pipe);
    assert_int_equal(conditions.pipes, 1);
}

static void on_signal(int number)
{
    (void)number;
}

static void child_runs(int ready, int go_on)
{
    int pipes[2], sockets[2];
    char byte = 0;

    (void)signal(SIGHUP, on_signal);
    CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(write(ready, &byte, 1) == 1);
    _exit(read(go_on, &byte, 1) < 0);
}

static void a_process_is_looked_at_and_told(void **state)
{
    int ready[2], go_on[2], status;
    struct conditions conditions;
    size_t length = 0;
    char *text = NULL, byte;
    FILE *to;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go_on), 0);
    pid = fork();
    if (pid == 0)
        child_runs(ready[1], go_on[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(conditions_look(pid, &conditions));
    to = open_memstream(&text, &length);
    conditions_print(to, &conditions);
    conditions_print_machine(to);
    assert_int_equal(fclose(to), 0);
    assert_contains(text, "2 sockets: the other end");
    assert_contains(text, "pipes: what is in it is lost");
    assert_contains(text, "catches SIGHUP\n");
    assert_contains(text, "the same architecture and system");
    assert_null(strstr(text, "linked statically"));
    free(text);
    assert_int_equal(write(go_on[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(conditions_look(pid, &conditions));
    close(ready[0]), close(ready[1]), close(go_on[0]), close(go_on[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_files_are_told_apart),
        cmocka_unit_test(a_process_is_looked_at_and_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
