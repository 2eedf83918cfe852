/* Reading /proc: names with brackets, the masks of signals, real processes with and without a
 * handler (S1-031, decision 11). */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/machine.h"
#include "src/agent/node/proc.h"
#include "tests/support/test.h"

static void stat_with_brackets_and_blanks_in_the_name_is_read(void **state)
{
    const char *text = "4242 (a) b (c)) S 1 4240 4200 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 "
                       "1 2 18446744073709551615\n";
    struct proc_stat stat;

    (void)state;
    assert_int_equal(proc_parse_stat(text, &stat), 0);
    assert_int_equal(stat.pid, 4242);
    assert_string_equal(stat.name, "a) b (c)");
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.parent, 1);
    assert_int_equal(stat.group, 4240);
    assert_int_equal(stat.session, 4200);
    assert_uint_equal(stat.threads, 1);
    assert_uint_equal(stat.start_ticks, 987654);
}

static void stat_that_ends_early_is_refused(void **state)
{
    struct proc_stat stat;

    (void)state;
    assert_int_equal(proc_parse_stat("", &stat), -1);
    assert_int_equal(proc_parse_stat("12 (x", &stat), -1);
    assert_int_equal(proc_parse_stat("12 (x) S 1 2 3", &stat), -1);
    assert_int_equal(proc_parse_stat("12 )x( S 1", &stat), -1);
}

static void status_masks_and_ids_are_read(void **state)
{
    const char *text =
        "Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t100\t0\t0\t0\nSigBlk:\t0000000000000000\n"
        "SigIgn:\t0000000000001000\nSigCgt:\t0000000000000200\nCapInh:\t0\n";
    struct proc_status status;

    (void)state;
    assert_int_equal(proc_parse_status(text, &status), 0);
    assert_uint_equal(status.uid, 1000);
    assert_uint_equal(status.gid, 100);
    assert_true(status.caught & UINT64_C(1) << (SIGUSR1 - 1));
    assert_false(status.caught & UINT64_C(1) << (SIGUSR2 - 1));
    assert_uint_equal(status.ignored, 0x1000);
}

/* workers have the application's groups */
static void supplementary_groups_are_read(void **state)
{
    static char text[16384] = "Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t4 27 20001 \n"
                              "SigIgn:\t0\nSigCgt:\t0\n";
    struct proc_status status;
    size_t used;

    (void)state;
    assert_int_equal(proc_parse_status(text, &status), 0);
    assert_string_equal(status.groups, "4,27,20001");
    used = (size_t)snprintf(text, sizeof(text), "Uid:\t1\nGid:\t1\nGroups:\t");
    for (int i = 0; i < 1000; i++)
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%u ", 4294960000u - (unsigned)i);
    snprintf(text + used, sizeof(text) - used, "\nSigIgn:\t0\nSigCgt:\t0\n");
    assert_int_equal(proc_parse_status(text, &status), 0); /* as many whole ones as fit */
    assert_true(strlen(status.groups) > PROC_GROUPS_BYTES - 16);
    assert_true(strlen(strrchr(status.groups, ',')) == strlen(",4294960000"));
    assert_int_equal(
        proc_parse_status("Uid:\t1\nGid:\t1\nGroups:\t\nSigIgn:\t0\nSigCgt:\t0\n", &status), 0);
    assert_string_equal(status.groups, "");
}

/* A program that root lent its rights to takes on groups of others before it becomes one of them:
 * they are not its user's. */
static void groups_of_a_process_that_is_two_users_are_not_taken(void **state)
{
    static const char *const ids[] = {"1000\t0\t0\t0", "1000\t1000\t0\t1000", "1000\t1000\t1000\t0",
                                      "1000\t0\t1000\t1000"};
    struct proc_status status;
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(text, sizeof(text),
                 "Uid:\t%s\nGid:\t100\t100\t100\t100\nGroups:\t0 4 20002 \n"
                 "SigIgn:\t0\nSigCgt:\t0\n",
                 ids[i]);
        assert_int_equal(proc_parse_status(text, &status), 0);
        assert_uint_equal(status.uid, 1000);
        assert_string_equal(status.groups, "");
    }
}

static void status_without_masks_is_refused(void **state)
{
    struct proc_status status;

    (void)state;
    assert_int_equal(proc_parse_status("", &status), -1);
    assert_int_equal(proc_parse_status("Uid:\t1\nGid:\t1\nSigIgn:\t0\n", &status), -1);
    assert_int_equal(proc_parse_status("Uid:\t1\nGid:\t1\nSigIgn:\t0\nSigCgt:\tzz\n", &status), -1);
    /* a name cannot smuggle a line in: it is only read where a line begins */
    assert_int_equal(proc_parse_status("Name:\tSigCgt: 1\nUid:\t1\nGid:\t1\nSigIgn:\t0\n", &status),
                     -1);
}

static struct machine_ops machine;

static void on_signal(int number)
{
    (void)number;
}

/* A child in a group of its own, with the given disposition; ready when this returns. */
static pid_t start(pid_t group, void (*handler)(int))
{
    int pipes[2];
    char byte = 'r';
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, group);
        signal(SIGUSR1, handler);
        if (write(pipes[1], &byte, 1) == 1) {
            for (;;)
                pause();
        }
        _exit(1);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void group_of_handlers_catches(void **state)
{
    struct proc_catching catching;
    pid_t main_process = start(0, on_signal);
    pid_t process = start(main_process, SIG_IGN);

    (void)state;
    assert_int_equal(machine_group_catches(&machine, main_process, SIGUSR1, &catching),
                     PROC_CATCHES);
    end(process);
    end(main_process);
}

static void one_process_without_handler_is_the_culprit(void **state)
{
    struct proc_catching catching;
    pid_t main_process = start(0, on_signal);
    pid_t process = start(main_process, SIG_DFL);

    (void)state;
    assert_int_equal(machine_group_catches(&machine, main_process, SIGUSR1, &catching),
                     PROC_WOULD_DIE);
    assert_int_equal(catching.culprit, process);
    end(process);
    assert_int_equal(machine_group_catches(&machine, main_process, SIGUSR1, &catching),
                     PROC_CATCHES);
    end(main_process);
}

static void group_that_only_ignores_does_not_catch(void **state)
{
    struct proc_catching catching;
    pid_t main_process = start(0, SIG_IGN);

    (void)state;
    assert_int_equal(machine_group_catches(&machine, main_process, SIGUSR1, &catching),
                     PROC_NONE_CATCHES);
    end(main_process);
}

static void process_is_alive_by_pid_and_start_time_only(void **state)
{
    pid_t pid = start(0, SIG_DFL);
    struct proc_stat stat;

    (void)state;
    assert_int_equal(proc_read_stat(pid, &stat), 0);
    assert_true(machine_alive(&machine, pid, stat.start_ticks));
    assert_false(machine_alive(&machine, pid, stat.start_ticks + 1));
    kill(pid, SIGKILL);
    /* a zombie keeps its entry and counts as ended */
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(proc_read_stat(pid, &stat), 0);
    assert_false(machine_alive(&machine, pid, stat.start_ticks));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(machine_alive(&machine, 0, 0));
}

static void *stay(void *data)
{
    for (;;)
        pause();
    return data;
}

/* An application whose main thread has nothing left to do computes on. */
static void process_without_its_first_thread_is_alive(void **state)
{
    struct proc_stat stat = {0};
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t thread;
        alarm(10); /* should the test fail */
        if (pthread_create(&thread, NULL, stay, NULL) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    for (int i = 0; i < 500 && stat.state != 'Z'; i++) {
        usleep(10000);
        assert_int_equal(proc_read_stat(pid, &stat), 0);
    }
    assert_int_equal(stat.state, 'Z');
    assert_true(machine_alive(&machine, pid, stat.start_ticks));
    end(pid);
    assert_false(machine_alive(&machine, pid, stat.start_ticks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_with_brackets_and_blanks_in_the_name_is_read),
        cmocka_unit_test(stat_that_ends_early_is_refused),
        cmocka_unit_test(status_masks_and_ids_are_read),
        cmocka_unit_test(supplementary_groups_are_read),
        cmocka_unit_test(groups_of_a_process_that_is_two_users_are_not_taken),
        cmocka_unit_test(status_without_masks_is_refused),
        cmocka_unit_test(group_of_handlers_catches),
        cmocka_unit_test(one_process_without_handler_is_the_culprit),
        cmocka_unit_test(group_that_only_ignores_does_not_catch),
        cmocka_unit_test(process_is_alive_by_pid_and_start_time_only),
        cmocka_unit_test(process_without_its_first_thread_is_alive),
    };

    machine_uv_ops(NULL, &machine); /* no watches here: no loop */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
