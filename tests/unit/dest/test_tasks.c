/* A worker that stays for the next task of its user, by the real program. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/tasks.h"
#include "src/dest/worker_process.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { LONG_MS = 30000, PROCESSES_MAX = 64, ANN = 20001 };

struct run {
    uv_loop_t loop;
    uv_timer_t life; /* a daemon's loop always waits for something */
    char folder[64]; /* of a destination that everybody may enter */
    int done_count;
    int exit_code; /* of the last one */
    bool cancelled;
    char output[4096], error[512];
};

static void lives(uv_timer_t *timer)
{
    (void)timer;
}

static int setup(void **state)
{
    struct run *run = calloc(1, sizeof(*run));
    char self[PATH_MAX] = {0}, product[PATH_MAX];

    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    *strstr(self, "/tests/unit/") = '\0';
    assert_true(snprintf(product, sizeof(product), "%.4000s/bin/ckpt-worker", self) < PATH_MAX);
    if (access(product, X_OK) == 0)
        worker_set_program(product);
    else
        worker_set_program("");
    assert_int_equal(uv_loop_init(&run->loop), 0);
    assert_int_equal(uv_timer_init(&run->loop, &run->life), 0);
    assert_int_equal(uv_timer_start(&run->life, lives, 1, 1), 0);
    snprintf(run->folder, sizeof(run->folder), "/tmp/test_tasks.XXXXXX");
    assert_non_null(mkdtemp(run->folder));
    assert_int_equal(chmod(run->folder, 0755), 0);
    worker_set_idle(WORKER_IDLE_MS);
    *state = run;
    return 0;
}

static int teardown(void **state)
{
    struct run *run = *state;

    worker_retire_idle();
    uv_close((uv_handle_t *)&run->life, NULL);
    assert_int_equal(uv_run(&run->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&run->loop), 0);   /* no handle is left */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and no process */
    remove_tree(run->folder);
    free(run);
    return 0;
}

static void need(bool root)
{
    char program[PATH_MAX];
    struct err err;

    if (worker_program(program, &err) != 0 || access(program, X_OK) != 0) {
        print_message("# SKIP ckpt-worker is not built: make programs\n");
        skip();
    }
    if (root && geteuid() != 0) {
        print_message("# SKIP changing the user needs root\n");
        skip();
    }
}

static void done(void *data, const struct worker_result *result)
{
    struct run *run = data;

    run->done_count++;
    run->exit_code = result->exit_code;
    run->cancelled = result->cancelled;
    snprintf(run->output, sizeof(run->output), "%s", result->output);
    snprintf(run->error, sizeof(run->error), "%s", result->error);
}

static struct worker *start(struct run *run, const char *user, const char *claim,
                            const char *const *arguments)
{
    const struct worker_task task = {.arguments = arguments,
                                     .user = user,
                                     .claim = claim,
                                     .deadline_ms = LONG_MS,
                                     .done = done,
                                     .data = run};
    struct worker *worker;
    struct err err;

    if (worker_start(&run->loop, &task, &worker, &err) != 0)
        fail_msg("%s", err.text);
    return worker;
}

/* Until so many in all are done. */
static void finish(struct run *run, int count)
{
    while (run->done_count < count)
        (void)uv_run(&run->loop, UV_RUN_ONCE);
}

static void does(struct run *run, const char *user, const char *const *arguments)
{
    start(run, user, NULL, arguments);
    finish(run, run->done_count + 1);
}

static void space(struct run *run, const char *user)
{
    const char *const arguments[] = {"space", "--path", run->folder, NULL};

    does(run, user, arguments);
    assert_int_equal(run->exit_code, WORKER_EXIT_OK);
    assert_non_null(strstr(run->output, "free_bytes="));
}

/* Of this program; zombies are none. */
static size_t processes(pid_t pids[PROCESSES_MAX])
{
    char path[64];
    FILE *file;
    size_t count = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
    file = fopen(path, "re");
    assert_non_null(file);
    while (count < PROCESSES_MAX && fscanf(file, "%d", &pids[count]) == 1)
        count++;
    fclose(file);
    return count;
}

static pid_t the_process(void)
{
    pid_t pids[PROCESSES_MAX];

    assert_uint_equal(processes(pids), 1);
    return pids[0];
}

static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    int fd;
    ssize_t got;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    got = read(fd, text, size - 1);
    assert_true(got >= 0);
    text[got] = '\0';
    for (ssize_t i = 0; i + 1 < got; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    close(fd);
}

/* ---- who shares one ---- */

static void a_process_does_the_next_task_of_its_user(void **state)
{
    struct run *run = *state;
    pid_t pid;

    need(false);
    space(run, "");
    pid = the_process();
    space(run, "");
    assert_int_equal(the_process(), pid);
    assert_uint_equal(worker_active(), 0);
}

static void another_user_has_another_process(void **state)
{
    struct run *run = *state;
    const char *arguments[] = {"space", "--path", run->folder, "--as", "20001:20001", NULL};
    pid_t first, pids[PROCESSES_MAX];
    char status[4096];

    need(true);
    does(run, "20001:20001", arguments);
    first = the_process();
    read_proc(first, "status", status, sizeof(status));
    assert_non_null(strstr(status, "Uid:\t20001\t20001\t20001\t20001\n"));
    arguments[4] = "20001:20001:20005"; /* other groups */
    does(run, "20001:20001:20005", arguments);
    assert_int_equal(run->exit_code, WORKER_EXIT_OK);
    assert_uint_equal(processes(pids), 2);
    space(run, ""); /* root's */
    assert_uint_equal(processes(pids), 3);
    arguments[4] = "20001:20001";
    does(run, "20001:20001", arguments);
    assert_uint_equal(processes(pids), 3);
}

/* A task that asks for no user's process gets one that ends. */
static void a_task_of_nobody_leaves_no_process(void **state)
{
    struct run *run = *state;
    pid_t pids[PROCESSES_MAX];

    need(false);
    space(run, NULL);
    assert_uint_equal(processes(pids), 0);
    worker_set_idle(0);
    space(run, "");
    assert_uint_equal(processes(pids), 0);
}

static void two_tasks_at_a_time_have_two_processes(void **state)
{
    struct run *run = *state;
    const char *const arguments[] = {"space", "--path", run->folder, NULL};
    pid_t pids[PROCESSES_MAX];

    need(false);
    for (int i = 0; i < WORKER_IDLE_MAX + 3; i++)
        start(run, "", NULL, arguments);
    finish(run, WORKER_IDLE_MAX + 3);
    while (processes(pids) > WORKER_IDLE_MAX) /* the oldest go */
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    for (int i = 0; i < 50; i++)
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    assert_uint_equal(processes(pids), WORKER_IDLE_MAX);
}

/* ---- the end of one ---- */

static void an_idle_one_ends_after_its_time(void **state)
{
    struct run *run = *state;
    pid_t pids[PROCESSES_MAX];

    need(false);
    worker_set_idle(50);
    space(run, "");
    while (processes(pids) > 0) {
        (void)uv_run(&run->loop, UV_RUN_ONCE);
        usleep(1000);
    }
    space(run, "");
    assert_uint_equal(processes(pids), 1);
}

static void one_that_was_killed_is_replaced(void **state)
{
    struct run *run = *state;
    pid_t pid;

    need(false);
    space(run, "");
    pid = the_process();
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (kill(pid, 0) == 0) {
        char text[1024];

        read_proc(pid, "stat", text, sizeof(text));
        if (strstr(text, ") Z ") != NULL)
            break;
        usleep(1000);
    }
    space(run, ""); /* although nobody has looked yet */
    assert_int_not_equal(the_process(), pid);
}

/* A put that is slow stands for a mount that hangs. */
static void a_cancelled_task_takes_its_process_along(void **state)
{
    struct run *run = *state;
    char path[128];
    const char *const arguments[] = {"put", "--prefix", run->folder, "--path", path,  "--part",
                                     "n1",  "--source", run->folder, "--rate", "100", NULL};
    static char bytes[100000];
    struct worker *worker;
    pid_t pid, pids[PROCESSES_MAX];

    need(false);
    write_file(run->folder, "data", bytes, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-1", run->folder);
    space(run, "");
    pid = the_process();
    worker = start(run, "", NULL, arguments);
    while (count_hidden(path) == 0)
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    space(run, ""); /* another task of the user does not wait for it */
    assert_uint_equal(processes(pids), 2);
    worker_cancel(worker);
    finish(run, 3);
    assert_true(run->cancelled);
    assert_int_equal(kill(pid, 0), -1);
    space(run, "");
    assert_int_not_equal(the_process(), pid);
}

/* Its rests go with it. */
static void one_whose_task_failed_ends(void **state)
{
    struct run *run = *state;
    const char *const arguments[] = {
        "put",    "--prefix", "/nowhere", "--path",    "/nowhere/t/p/a/checkpoints/1-1",
        "--part", "n1",       "--source", run->folder, NULL};
    pid_t pids[PROCESSES_MAX];

    need(false);
    space(run, "");
    does(run, "", arguments);
    assert_int_equal(run->exit_code, WORKER_EXIT_UNAVAILABLE);
    assert_non_null(strstr(run->output, "cause=storage_unreachable\n"));
    assert_non_null(strstr(run->error, "/nowhere"));
    assert_uint_equal(processes(pids), 0);
}

/* ---- what is between two tasks ---- */

static void nothing_of_a_task_is_left_for_the_next_one(void **state)
{
    struct run *run = *state;
    char text[4096], path[128];
    const char *const sweep[] = {"sweep", "--path", path, "--wipe", "yes", NULL};
    int fds = 0;
    pid_t pid;

    need(false);
    snprintf(path, sizeof(path), "%s/gone", run->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    does(run, "", sweep);
    assert_int_equal(run->exit_code, WORKER_EXIT_OK);
    pid = the_process();
    for (int fd = 0; fd < 64; fd++) {
        snprintf(text, sizeof(text), "/proc/%d/fd/%d", (int)pid, fd);
        fds += access(text, F_OK) == 0 || fd < 3;
        assert_true(fd <= 3 || faccessat(AT_FDCWD, text, F_OK, AT_SYMLINK_NOFOLLOW) != 0);
    }
    read_proc(pid, "cmdline", text, sizeof(text));
    assert_non_null(strstr(text, " idle "));
    assert_null(strstr(text, path));
    snprintf(text, sizeof(text), "/proc/%d/cwd", (int)pid);
    assert_int_equal(readlink(text, path, sizeof(path)), 1);
    assert_int_equal(path[0], '/');
    assert_true(fds >= 3);
}

/* A worker of a POSIX destination does without the HTTP client and all that this one wants. */
static void a_posix_worker_loads_no_http_client(void **state)
{
    struct run *run = *state;
    static char maps[1 << 16];

    need(false);
    space(run, "");
    read_proc(the_process(), "maps", maps, sizeof(maps));
    assert_non_null(strstr(maps, "/libc."));
    for (size_t i = 0; i < 4; i++) {
        static const char *const libraries[] = {"curl", "krb5", "ldap", "nghttp2"};

        assert_null(strstr(maps, libraries[i]));
    }
}

/* ---- what only root can make ---- */

static void put_as_ann(struct run *run, const char *checkpoint)
{
    char path[160], source[80], claim[200];
    const char *const arguments[] = {"put",  "--prefix", run->folder,   "--path",
                                     path,   "--part",   "n1",          "--source",
                                     source, "--as",     "20001:20001", NULL};

    snprintf(source, sizeof(source), "%s/source", run->folder);
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/%s", run->folder, checkpoint);
    snprintf(claim, sizeof(claim), "%s\n%s/t/p/a", run->folder, run->folder);
    start(run, "20001:20001", claim, arguments);
    finish(run, run->done_count + 1);
    assert_string_equal(run->error, "");
    assert_int_equal(run->exit_code, WORKER_EXIT_OK);
}

/* Root made the job's folder for the first task, and the process is the user's alone since. */
static void a_claim_that_has_gone_is_made_by_a_new_process(void **state)
{
    struct run *run = *state;
    char source[80], job[160];
    pid_t pid;

    need(true);
    snprintf(source, sizeof(source), "%s/source", run->folder);
    assert_int_equal(mkdir(source, 0755), 0);
    write_text(source, "data", "of one");
    assert_int_equal(chmod(source, 0755), 0);
    put_as_ann(run, "1-1");
    pid = the_process();
    put_as_ann(run, "1-2");
    assert_int_equal(the_process(), pid);
    snprintf(job, sizeof(job), "%s/t/p/a", run->folder);
    remove_tree(job);
    put_as_ann(run, "1-3");
    (void)uv_run(&run->loop, UV_RUN_ONCE);
    while (kill(pid, 0) == 0)
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    assert_int_not_equal(the_process(), pid);
}

/* A prefix that gets its group while jobs run: their folders get it with the next checkpoint. */
static void a_prefix_that_was_given_to_a_group_is_followed(void **state)
{
    struct run *run = *state;
    char source[80], job[160];
    struct stat status;
    pid_t pid;

    need(true);
    snprintf(source, sizeof(source), "%s/source", run->folder);
    assert_int_equal(mkdir(source, 0755), 0);
    assert_int_equal(chmod(source, 0755), 0);
    write_text(source, "data", "of one");
    put_as_ann(run, "1-1");
    pid = the_process();
    assert_int_equal(chown(run->folder, 0, 20005), 0);
    assert_int_equal(chmod(run->folder, 02775), 0);
    put_as_ann(run, "1-2");
    snprintf(job, sizeof(job), "%s/t/p/a", run->folder);
    assert_int_equal(stat(job, &status), 0);
    assert_int_equal(status.st_gid, 20005);
    assert_true((status.st_mode & S_ISGID) != 0);
    while (kill(pid, 0) == 0)
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    pid = the_process();
    put_as_ann(run, "1-3");
    assert_int_equal(the_process(), pid);
}

static void a_process_serves_the_claim_that_it_began_with(void **state)
{
    struct run *run = *state;
    const char *const arguments[] = {"space", "--path", run->folder, NULL};
    pid_t pid, pids[PROCESSES_MAX];

    need(false);
    start(run, "", "one", arguments);
    finish(run, 1);
    pid = the_process();
    space(run, ""); /* wants none */
    assert_int_equal(the_process(), pid);
    start(run, "", "other", arguments);
    finish(run, 3);
    assert_uint_equal(processes(pids), 2);
    start(run, "", "one", arguments);
    finish(run, 4);
    assert_uint_equal(processes(pids), 2);
}

/* ---- the daemon dies ---- */

static void an_idle_one_dies_with_its_daemon(void **state)
{
    struct run *run = *state;
    int ready[2], status;
    pid_t daemon_pid, pid, ended;
    bool found = false;

    need(false);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        assert_int_equal(uv_loop_fork(&run->loop), 0);
        space(run, "");
        pid = the_process();
        if (write(ready[1], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
            _exit(98);
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &pid, sizeof(pid)), (ssize_t)sizeof(pid));
    assert_int_equal(kill(daemon_pid, SIGKILL), 0);
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    while ((ended = waitpid(-1, &status, 0)) > 0) /* all that it left */
        found = found || ended == pid;
    assert_true(found);
    close(ready[0]);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_process_does_the_next_task_of_its_user),
        T(another_user_has_another_process),
        T(a_task_of_nobody_leaves_no_process),
        T(two_tasks_at_a_time_have_two_processes),
        T(an_idle_one_ends_after_its_time),
        T(one_that_was_killed_is_replaced),
        T(a_cancelled_task_takes_its_process_along),
        T(one_whose_task_failed_ends),
        T(nothing_of_a_task_is_left_for_the_next_one),
        T(a_posix_worker_loads_no_http_client),
        T(a_claim_that_has_gone_is_made_by_a_new_process),
        T(a_prefix_that_was_given_to_a_group_is_followed),
        T(a_process_serves_the_claim_that_it_began_with),
        T(an_idle_one_dies_with_its_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
