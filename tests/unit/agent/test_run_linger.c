/* Processes that an application has left may end by themselves; others are not taken for them. */
#include "src/agent/run/run_linger.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_say.h"
#include "tests/support/test.h"

static uv_loop_t loop;
static int told; /* the wait status; -1: not yet */

static void note_end(int wait_status)
{
    told = wait_status;
}

static pid_t start_process(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* `work & exec ckpt-run ...`: the work is the shell's, and goes on. */
static void children_of_before_are_not_waited_for(void **state)
{
    pid_t before = start_process(), keeper;

    (void)state;
    told = -1;
    run_linger_open(&loop);
    keeper = start_process();
    run_linger_begin(keeper, 0, note_end);
    assert_int_equal(told, 0);
    assert_false(run_linger_hurry());
    end_process(before);
    end_process(keeper);
}

static void a_child_that_is_left_is_waited_for_until_it_ends(void **state)
{
    uint64_t begin_ms;
    pid_t left;

    (void)state;
    told = -1;
    run_linger_open(&loop);
    left = start_process();
    run_linger_begin(0, 3 << 8, note_end);
    assert_int_equal(told, -1);
    end_process(left);
    begin_ms = uv_now(&loop);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told, 3 << 8);
    assert_true(uv_now(&loop) - begin_ms < LINGER_MS);
}

static void the_wait_has_an_end_and_can_be_cut_short(void **state)
{
    uint64_t begin_ms;
    pid_t left;

    (void)state;
    told = -1;
    run_linger_open(&loop);
    left = start_process();
    run_linger_begin(0, 0, note_end);
    begin_ms = uv_now(&loop);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told, 0);
    assert_true(uv_now(&loop) - begin_ms >= LINGER_MS);
    told = -1;
    run_linger_begin(0, 9, note_end); /* a signal took it: nothing is waited for */
    assert_int_equal(told, 9);
    told = -1;
    run_linger_begin(0, 4 << 8, note_end);
    assert_true(run_linger_hurry());
    assert_int_equal(told, 4 << 8);
    end_process(left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_before_are_not_waited_for),
        cmocka_unit_test(a_child_that_is_left_is_waited_for_until_it_ends),
        cmocka_unit_test(the_wait_has_an_end_and_can_be_cut_short),
    };

    run_say_quiet(true);
    assert_int_equal(uv_loop_init(&loop), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
