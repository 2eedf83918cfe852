/* Worker processes: their results, deadlines, and what is said of one that cannot be killed. */
#include "src/dest/worker.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/parent.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { LONG_MS = 30000 }; /* a deadline that no test reaches unless something is wrong */

struct run {
    uv_loop_t loop;
    char folder[64];
    char script[128];
    struct worker *worker;
    struct worker_result result;
    char output[WORKER_OUTPUT_MAX_BYTES + 1];
    int done_count;
};

static int setup(void **state)
{
    struct run *run = calloc(1, sizeof(*run));

    assert_int_equal(uv_loop_init(&run->loop), 0);
    snprintf(run->folder, sizeof(run->folder), "/tmp/ckpt-worker-XXXXXX");
    assert_non_null(mkdtemp(run->folder));
    assert_int_equal(chmod(run->folder, 0755), 0);
    snprintf(run->script, sizeof(run->script), "%s/ckpt-worker", run->folder);
    *state = run;
    return 0;
}

static int teardown(void **state)
{
    struct run *run = *state;

    assert_uint_equal(worker_active(), 0);
    assert_int_equal(uv_run(&run->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&run->loop), 0); /* no handle is left */
    remove_tree(run->folder);
    worker_set_program("");
    free(run);
    return 0;
}

static void done(void *data, const struct worker_result *result)
{
    struct run *run = data;

    run->result = *result;
    snprintf(run->output, sizeof(run->output), "%s", result->output);
    run->result.output = run->output;
    run->done_count++;
}

static void start(struct run *run, const char *script, uint64_t deadline_ms)
{
    static const char *const arguments[] = {"verb", "--key", "value", NULL};
    struct err err = {0};

    write_text(run->folder, "ckpt-worker", script);
    assert_int_equal(chmod(run->script, 0755), 0);
    worker_set_program(run->script);
    if (worker_start(
            &run->loop,
            &(struct worker_task){
                .arguments = arguments, .deadline_ms = deadline_ms, .done = done, .data = run},
            &run->worker, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(run->done_count, 0);
    assert_uint_equal(worker_active(), 1);
}

static void finish(struct run *run)
{
    assert_int_equal(uv_run(&run->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(run->done_count, 1);
    assert_uint_equal(worker_active(), 0);
}

static void output_and_exit_code_are_reported(void **state)
{
    struct run *run = *state;
    char value[16];

    start(run, "#!/bin/sh\necho \"arguments=$*\"\necho size_bytes=42\necho files=1\n", LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, 0);
    assert_string_equal(run->result.error, "");
    assert_false(run->result.timed_out || run->result.unkillable || run->result.cancelled);
    assert_int_equal(worker_output_get(run->output, "size_bytes", value, sizeof(value)), 0);
    assert_string_equal(value, "42");
    assert_string_equal(run->output, "arguments=verb --key value\nsize_bytes=42\nfiles=1\n");
}

static void values_are_found_by_their_whole_key(void **state)
{
    const char *output = "files=1\nother_files=2\nlong=1234567\nempty=\nlast=x";
    char value[8];

    (void)state;
    assert_int_equal(worker_output_get(output, "files", value, sizeof(value)), 0);
    assert_string_equal(value, "1");
    assert_int_equal(worker_output_get(output, "long", value, sizeof(value)), 0);
    assert_int_equal(worker_output_get(output, "long", value, 7), -1);
    assert_int_equal(worker_output_get(output, "empty", value, sizeof(value)), 0);
    assert_string_equal(value, "");
    assert_int_equal(worker_output_get(output, "last", value, sizeof(value)), 0);
    assert_int_equal(worker_output_get(output, "file", value, sizeof(value)), -1);
    assert_int_equal(worker_output_get("", "x", value, sizeof(value)), -1);
}

static void first_line_of_the_error_text_is_reported(void **state)
{
    struct run *run = *state;

    start(run, "#!/bin/sh\necho 'no space; free some' >&2\necho more >&2\nexit 5\n", LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, WORKER_EXIT_UNAVAILABLE);
    assert_string_equal(run->result.error, "no space; free some");
}

static void death_by_a_signal_is_an_error(void **state)
{
    struct run *run = *state;

    start(run, "#!/bin/sh\nkill -11 $$\n", LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, -1);
    assert_string_equal(run->result.error, "ckpt-worker was ended by signal 11");
}

static void output_is_bounded(void **state)
{
    struct run *run = *state;

    start(run, "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x\nhead -c 1000000 /dev/zero >&2\n",
          LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, 0);
    assert_uint_equal(strlen(run->output), WORKER_OUTPUT_MAX_BYTES);
}

/* A hung mount: the worker and what it started are killed at the deadline, and the caller hears it
 * once. */
static void hung_worker_is_killed_at_its_deadline(void **state)
{
    struct run *run = *state;

    start(run, "#!/bin/sh\necho begun=1\nsleep 600\n", 200);
    finish(run);
    assert_true(run->result.timed_out);
    assert_false(run->result.unkillable);
    assert_int_equal(run->result.exit_code, -1);
    assert_true(run->result.duration_ms >= 200 && run->result.duration_ms < 1200);
    assert_string_equal(run->output, "begun=1\n");
    assert_non_null(strstr(run->result.error, "did not end within"));
}

static void cancelled_worker_is_killed_and_reported(void **state)
{
    struct run *run = *state;

    start(run, "#!/bin/sh\nsleep 600\n", LONG_MS);
    worker_cancel(run->worker);
    worker_cancel(run->worker); /* twice is as good as once */
    assert_int_equal(run->done_count, 0);
    finish(run);
    assert_true(run->result.cancelled);
    assert_false(run->result.timed_out);
    assert_string_equal(run->result.error, "cancelled");
}

/* What the worker left running must not hold its result back. */
static void stray_grandchild_does_not_delay_the_result(void **state)
{
    struct run *run = *state;
    char pid[16];

    start(run, "#!/bin/sh\nsleep 600 &\necho pid=$!\n", LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, 0);
    assert_true(run->result.duration_ms < 5000);
    assert_int_equal(worker_output_get(run->output, "pid", pid, sizeof(pid)), 0);
    assert_int_equal(kill((pid_t)atoi(pid), SIGKILL), 0);
}

static void missing_program_is_said_at_once(void **state)
{
    struct run *run = *state;
    static const char *const arguments[] = {"probe", NULL};
    struct err err = {0};

    worker_set_program("/nowhere/ckpt-worker");
    assert_int_equal(
        worker_start(&run->loop,
                     &(struct worker_task){
                         .arguments = arguments, .deadline_ms = LONG_MS, .done = done, .data = run},
                     &run->worker, &err),
        -1);
    assert_non_null(strstr(err.text, "/nowhere/ckpt-worker"));
    assert_int_equal(uv_run(&run->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(run->done_count, 0);
}

static void program_is_looked_for_beside_the_running_one(void **state)
{
    struct run *run = *state;
    static const char *const arguments[] = {"probe", NULL};
    char self[PATH_MAX] = {0};
    struct err err = {0};

    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    strrchr(self, '/')[1] = '\0';
    assert_int_equal(
        worker_start(&run->loop,
                     &(struct worker_task){
                         .arguments = arguments, .deadline_ms = LONG_MS, .done = done, .data = run},
                     &run->worker, &err),
        -1); /* there is none beside the unit tests */
    assert_non_null(strstr(err.text, self));
    assert_int_equal(uv_run(&run->loop, UV_RUN_DEFAULT), 0);
}

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("# SKIP changing the user needs root\n");
        skip();
    }
}

/* Stands for a process in D state: a signal from a user without the right to send it has no effect
 * either. */
static void worker_that_cannot_be_killed_is_reported_once_and_reaped_later(void **state)
{
    struct run *run = *state;
    pid_t pid = 0;
    FILE *file;
    char path[128];

    need_root();
    snprintf(path, sizeof(path), "%s/pid", run->folder);
    start(run,
          "#!/bin/sh\necho $$ > \"${0%/*}/pid.new\"\nmv \"${0%/*}/pid.new\" \"${0%/*}/pid\"\n"
          "exec sleep 600\n",
          500);
    while ((file = fopen(path, "r")) == NULL)
        usleep(1000);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    assert_int_equal(setresuid(65534, 65534, 0), 0);
    while (run->done_count == 0)
        uv_run(&run->loop, UV_RUN_ONCE);
    assert_int_equal(setresuid(0, 0, 0), 0);
    assert_true(run->result.unkillable && run->result.timed_out);
    assert_non_null(strstr(run->result.error, "cannot be killed"));
    assert_uint_equal(worker_active(), 1); /* until the kernel lets it go */
    assert_true(worker_hangs(run->result.hang_id));
    assert_false(worker_hangs(run->result.hang_id + 1));
    assert_int_equal(kill(pid, SIGKILL), 0);
    finish(run);
    assert_false(worker_hangs(run->result.hang_id));
}

/* ---- the program itself ---- */

static bool find_product(char ret_path[PATH_MAX])
{
    char self[PATH_MAX] = {0};

    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    *strstr(self, "/tests/unit/") = '\0';
    assert_true(snprintf(ret_path, PATH_MAX, "%.4000s/bin/ckpt-worker", self) < PATH_MAX);
    return access(ret_path, X_OK) == 0;
}

static void need_product(char ret_path[PATH_MAX])
{
    if (!find_product(ret_path)) {
        print_message("# SKIP ckpt-worker is not built: make programs\n");
        skip();
    }
}

static void ckpt_worker_answers_through_worker_start(void **state)
{
    struct run *run = *state;
    char product[PATH_MAX], value[32];
    const char *arguments[] = {"probe", "--prefix", run->folder, NULL};
    struct err err;

    need_product(product);
    worker_set_program(product);
    assert_int_equal(
        worker_start(&run->loop,
                     &(struct worker_task){
                         .arguments = arguments, .deadline_ms = LONG_MS, .done = done, .data = run},
                     &run->worker, &err),
        0);
    finish(run);
    assert_int_equal(run->result.exit_code, 0);
    assert_int_equal(worker_output_get(run->output, "duration_ms", value, sizeof(value)), 0);
}

static void product_runs(struct run *run, const char *const *arguments)
{
    struct err err;

    run->done_count = 0;
    if (worker_start(&run->loop,
                     &(struct worker_task){
                         .arguments = arguments, .deadline_ms = LONG_MS, .done = done, .data = run},
                     &run->worker, &err) != 0)
        fail_msg("%s", err.text);
    finish(run);
}

/* S2-032: who has no place in the line of its target gets no byte of that, whatever its own copy is
 * worth. */
static void ckpt_worker_reads_a_copy_alone_when_told_so(void **state)
{
    struct run *run = *state;
    char product[PATH_MAX], sha256[80], source[80], path[2][128], to[80], grid[192];
    const char *put[] = {"put",    "--prefix", run->folder, "--path", path[0],
                         "--part", "n1",       "--source",  source,   NULL};
    const char *restore[] = {"restore", "--path", path[0], "--part", "n1",   "--manifest-sha256",
                             sha256,    "--copy", path[1], "--from", "copy", "--to",
                             to,        NULL};

    need_product(product);
    worker_set_program(product);
    snprintf(source, sizeof(source), "%s/source", run->folder);
    snprintf(to, sizeof(to), "%s/back", run->folder);
    assert_int_equal(mkdir(source, 0755), 0);
    write_text(source, "grid.bin", "what it computed");
    for (int i = 0; i < 2; i++) { /* the destination, and the node's copy */
        snprintf(path[i], sizeof(path[i]), "%s/%s/checkpoints/1-1", run->folder,
                 i == 0 ? "there" : "copy");
        put[4] = path[i];
        product_runs(run, put);
        assert_int_equal(run->result.exit_code, 0);
    }
    assert_int_equal(worker_output_get(run->output, "manifest_sha256", sha256, sizeof(sha256)), 0);
    snprintf(grid, sizeof(grid), "%s/n1/grid.bin", path[1]);
    flip_bit(grid, 3);
    product_runs(run, restore);
    assert_int_equal(run->result.exit_code, WORKER_EXIT_CORRUPT);
    assert_false(exists(run->folder, "back")); /* the destination is whole, and was not read */
    flip_bit(grid, 3);
    remove_tree(path[0]);
    product_runs(run, restore);
    assert_int_equal(run->result.exit_code, 0);
    assert_int_equal(worker_output_get(run->output, "copy", sha256, sizeof(sha256)), 0);
    assert_string_equal(sha256, "used");
    assert_true(exists(to, "grid.bin"));
}

/* A put that nobody waits for would write beside the next one. */
static void ckpt_worker_dies_with_its_daemon(void **state)
{
    struct run *run = *state;
    char product[PATH_MAX], path[128];
    static char bytes[100000];
    int ready[2], status;
    pid_t daemon_pid, worker_pid;

    need_product(product);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    write_file(run->folder, "data", bytes, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-1", run->folder);
    assert_int_equal(pipe(ready), 0);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        worker_pid = fork();
        if (worker_pid == 0) {
            execl(product, "ckpt-worker", "put", "--prefix", run->folder, "--path", path, "--part",
                  "n1", "--source", run->folder, "--rate", "100", (char *)NULL);
            _exit(99);
        }
        for (int waited_ms = 0; count_hidden(path) == 0;
             waited_ms++) { /* until it writes, at 100 bytes a second */
            if (waited_ms == 20000)
                _exit(97);
            usleep(1000);
        }
        if (write(ready[1], &worker_pid, sizeof(worker_pid)) != (ssize_t)sizeof(worker_pid))
            _exit(98);
        pause();
    }
    close(ready[1]); /* or a daemon that gave up would leave the read waiting */
    assert_int_equal(read(ready[0], &worker_pid, sizeof(worker_pid)), (ssize_t)sizeof(worker_pid));
    assert_int_equal(kill(daemon_pid, SIGKILL), 0);
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    assert_int_equal(waitpid(worker_pid, &status, 0), worker_pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ready[0]);
}

/* The daemon dies between fork() and the worker's prctl(): the kernel would not tell it any
 * more. */
static void worker_whose_daemon_is_gone_already_ends_at_once(void **state)
{
    struct err err;
    char text[32];
    int ready[2], status = 0;
    pid_t daemon_pid, worker_pid;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(ready), 0);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        snprintf(text, sizeof(text), "%d", (int)getpid());
        worker_pid = fork();
        if (worker_pid == 0) {
            setenv(WORKER_PARENT, text, 1);
            while (getppid() == (pid_t)atoi(text))
                usleep(1000);
            _exit(parent_bind(&err) == 0 ? 1 : WORKER_EXIT_UNAVAILABLE);
        }
        _exit(write(ready[1], &worker_pid, sizeof(worker_pid)) == (ssize_t)sizeof(worker_pid) ? 0
                                                                                              : 98);
    }
    assert_int_equal(read(ready[0], &worker_pid, sizeof(worker_pid)), (ssize_t)sizeof(worker_pid));
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    assert_int_equal(waitpid(worker_pid, &status, 0), worker_pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WORKER_EXIT_UNAVAILABLE);
    close(ready[0]);
    close(ready[1]);
}

/* Also when the daemon was itself started with such a variable. */
static void worker_is_told_who_its_daemon_is(void **state)
{
    struct run *run = *state;
    char expected[64];

    assert_int_equal(setenv(WORKER_PARENT, "1", 1), 0);
    start(run, "#!/bin/sh\necho parent=$CKPT_WORKER_PARENT:$PPID\n", LONG_MS);
    finish(run);
    assert_int_equal(unsetenv(WORKER_PARENT), 0);
    snprintf(expected, sizeof(expected), "parent=%d:%d\n", (int)getpid(), (int)getpid());
    assert_string_equal(run->output, expected);
}

static void ckpt_worker_of_another_daemon_does_nothing(void **state)
{
    struct run *run = *state;
    char product[PATH_MAX];
    int status;
    pid_t pid;

    need_product(product);
    pid = fork();
    if (pid == 0) {
        setenv(WORKER_PARENT, "1", 1);
        execl(product, "ckpt-worker", "probe", "--prefix", run->folder, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WORKER_EXIT_UNAVAILABLE);
}

static int copies; /* of this process */

static void copy_counted(void)
{
    copies++;
}

/* fork(2) of a daemon with a million allocations holds its loop for tens of milliseconds. */
static void worker_is_started_without_copying_the_daemon(void **state)
{
    struct run *run = *state;

    assert_int_equal(pthread_atfork(copy_counted, NULL, NULL), 0);
    start(run, "#!/bin/sh\n", LONG_MS);
    finish(run);
    assert_int_equal(run->result.exit_code, 0);
    assert_int_equal(copies, 0);
    assert_true(fork() != 0 || (_exit(0), true)); /* the counter counts */
    assert_int_equal(copies, 1);
    assert_true(wait(NULL) > 0);
}

/* A worker that ignored what its daemon ignores could not be ended by a closed pipe. */
static void worker_has_default_signals_and_a_session_and_nothing_to_read(void **state)
{
    struct run *run = *state;
    unsigned long long blocked_found, ignored_found;
    sigset_t blocked, before;

    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
    start(
        run,
        "#!/bin/sh\n" /* nothing is started for it: dash blocks all signals while it starts a command */
        "while read -r key mask; do case $key in SigBlk:|SigIgn:) echo $mask;; esac; done "
        "< /proc/$$/status\n"
        "read line || echo nothing to read\n"
        "test $(ps -o sid= -p $$) = $$ && echo session\n",
        LONG_MS);
    finish(run);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    assert_int_equal(sscanf(run->output, "%llx %llx", &blocked_found, &ignored_found), 2);
    assert_true(blocked_found == 0);
    assert_true((ignored_found >> (SIGPIPE - 1) & 1) == 0);
    assert_non_null(strstr(run->output, "\nnothing to read\nsession\n"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(output_and_exit_code_are_reported),
        T(values_are_found_by_their_whole_key),
        T(first_line_of_the_error_text_is_reported),
        T(death_by_a_signal_is_an_error),
        T(output_is_bounded),
        T(hung_worker_is_killed_at_its_deadline),
        T(cancelled_worker_is_killed_and_reported),
        T(stray_grandchild_does_not_delay_the_result),
        T(missing_program_is_said_at_once),
        T(program_is_looked_for_beside_the_running_one),
        T(worker_that_cannot_be_killed_is_reported_once_and_reaped_later),
        T(ckpt_worker_answers_through_worker_start),
        T(ckpt_worker_reads_a_copy_alone_when_told_so),
        T(ckpt_worker_dies_with_its_daemon),
        T(worker_whose_daemon_is_gone_already_ends_at_once),
        T(worker_is_told_who_its_daemon_is),
        T(ckpt_worker_of_another_daemon_does_nothing),
        T(worker_is_started_without_copying_the_daemon),
        T(worker_has_default_signals_and_a_session_and_nothing_to_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
