/* The conversation with criu, with a stand-in for it: this program again, by the name criu, which
 * speaks the protocol and fails as it is told. S1-049, S3-004. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/transparent/criu_call.h"
#include "src/agent/transparent/tool.h"
#include "src/base/check.h"

enum { BYTES = 65536, MANY = 100 };
#define HOW  "CKPT_TEST_CRIU"
#define SEEN "CKPT_TEST_CRIU_SEEN"

static char folder[] = "/tmp/test_criu_XXXXXX";
static char seen_path[64], own_path[64];
static int work_fd = -1;
static struct err err;
static struct criu_answer answer;

/* ---- the stand-in ---- */

/* Its caller may have had enough. */
static void say_raw(int fd, const void *bytes, size_t length)
{
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
        _exit(1);
}

static void say(int fd, const Criu__Response *response)
{
    uint8_t bytes[BYTES];

    say_raw(fd, bytes, criu__response__pack(response, bytes));
}

static Criu__Request *hear(int fd)
{
    uint8_t bytes[BYTES];
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);

    return got <= 0 ? NULL : criu__request__unpack(NULL, (size_t)got, bytes);
}

static bool step(int fd, const char *name, FILE *seen)
{
    Criu__Response response = CRIU__RESPONSE__INIT;
    Criu__Notice notice = CRIU__NOTICE__INIT;
    const Criu__Request *told;
    char script[32];

    snprintf(script, sizeof(script), "%s", name);
    notice.script = script;
    response.type = CRIU__KIND__KIND_NOTIFY;
    response.success = true;
    response.notify = &notice;
    say(fd, &response);
    told = hear(fd);
    if (told == NULL || told->type != CRIU__KIND__KIND_NOTIFY)
        return false;
    fprintf(seen, "%s=%d\n", name, told->notify_success);
    return told->notify_success;
}

static void note_request(const Criu__Request *request, FILE *seen)
{
    const Criu__Options *options = request->opts;

    fprintf(seen, "kind=%d\n", (int)request->type);
    if (options == NULL)
        return;
    fprintf(seen, "pid=%d running=%d stopped=%d sibling=%d shell=%d notify=%d unprivileged=%d\n",
            options->pid, options->leave_running, options->leave_stopped, options->rst_sibling,
            options->shell_job, options->notify_scripts, options->unprivileged);
    fprintf(seen, "log=%s cgroups=%d work=%d\n", options->log_file, options->manage_cgroups_mode,
            options->has_work_dir_fd);
    for (size_t i = 0; i < options->n_inherit_fd; i++)
        fprintf(seen, "inherit %d %s\n", options->inherit_fd[i]->fd, options->inherit_fd[i]->key);
}

static void leave_log(const char *text)
{
    int fd = open(CRIU_LOG_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void answer_as_told(int fd, const char *how, const Criu__Request *request, bool wanted)
{
    Criu__Response response = CRIU__RESPONSE__INIT;
    Criu__Restored restored = CRIU__RESTORED__INIT;
    Criu__Version version = CRIU__VERSION__INIT;
    char text[] = "no such\nthing";

    response.type = request->type;
    response.success = wanted;
    restored.pid = strcmp(how, "no pid") == 0 ? 0 : 4711;
    version.major_number = 4;
    version.minor_number = 1;
    version.has_sublevel = true;
    version.sublevel = 1;
    if (request->type == CRIU__KIND__KIND_RESTORE)
        response.restore = &restored;
    if (request->type == CRIU__KIND__KIND_VERSION)
        response.version = &version;
    if (strcmp(how, "another kind") == 0)
        response.type = CRIU__KIND__KIND_CHECK;
    if (strncmp(how, "refuses", 7) == 0)
        response.success = false;
    if (strcmp(how, "refuses by text") == 0)
        response.cr_errmsg = text;
    if (strcmp(how, "refuses by errno") == 0) {
        response.has_cr_errno = true;
        response.cr_errno = EBADRQC;
    }
    if (strcmp(how, "refuses by log") == 0)
        leave_log("(00.1) Error (criu/util.c:1): rlimit: not needed\n(00.2) Error "
                  "(criu/sk-inet.c:192): inet: Connected TCP socket\n(00.3) Error "
                  "(criu/cr-dump.c:1): Dump files (pid: 7) failed with -1\n(00.4) Error "
                  "(criu/cr-dump.c:2): Dumping FAILED.\n(00.5) Warn  (criu/a.c:1): nothing\n");
    say(fd, &response);
}

/* Steps as criu 4.1.1 has them. */
static int stand_in(int fd)
{
    static const char *const steps[] = {"pre-dump", "network-lock", "network-unlock", "post-dump"};
    const char *how = getenv(HOW);
    Criu__Request *request = hear(fd);
    FILE *seen = fopen(getenv(SEEN), "a");
    bool wanted = true;

    CHECK(request != NULL && seen != NULL && chdir(getenv("CKPT_TEST_CRIU_WORK")) == 0);
    note_request(request, seen);
    if (strcmp(how, "dies") == 0)
        return 1;
    if (strcmp(how, "garbage") == 0) {
        say_raw(fd, "\xff\xff\xff", 3);
        return 0;
    }
    for (int i = 0; strcmp(how, "steps for ever") == 0 && i < MANY; i++)
        if (!step(fd, "pre-dump", seen))
            return 0;
    for (size_t i = 0; request->type == CRIU__KIND__KIND_DUMP && i < ARRAY_COUNT(steps); i++) {
        if (strcmp(how, "asks nobody") == 0)
            break;
        wanted = wanted && step(fd, steps[i], seen);
        if (strcmp(how, "dies at post-dump") == 0 && i == ARRAY_COUNT(steps) - 1)
            return 1;
    }
    answer_as_told(fd, how, request, wanted);
    fclose(seen);
    return 0;
}

/* ---- calls ---- */

static void will(const char *how)
{
    setenv(HOW, how, 1);
    (void)unlink(seen_path);
    (void)unlinkat(work_fd, CRIU_LOG_NAME, 0);
    memset(&err, 0, sizeof(err));
    memset(&answer, 0, sizeof(answer));
}

static const char *seen(void)
{
    static char text[4096];
    int fd = open(seen_path, O_RDONLY);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return text;
}

static int steps_taken;

static int take_step(void *data, const char *name, struct err *ret_err)
{
    steps_taken++;
    return data != NULL && strcmp(name, data) == 0
               ? err_set(ret_err, ERR_REFUSED, "not at %s", name)
               : 0;
}

static int dump(const char *veto_at, bool stops)
{
    const struct criu_request request = {.kind = CRIU__KIND__KIND_DUMP,
                                         .images_fd = work_fd,
                                         .work_fd = work_fd,
                                         .pid = 77,
                                         .stops = stops,
                                         .step = take_step,
                                         .data = (void *)(uintptr_t)veto_at};

    steps_taken = 0;
    return criu_call(&request, &answer, &err);
}

static int restore(void)
{
    const struct criu_inherited inherited[] = {{"pipe:[12]", 0}, {"tmp/out", 1}};
    const struct criu_request request = {.kind = CRIU__KIND__KIND_RESTORE,
                                         .images_fd = work_fd,
                                         .work_fd = work_fd,
                                         .inherited = inherited,
                                         .inherited_count = 2};

    return criu_call(&request, &answer, &err);
}

static void a_dump_is_asked_with_what_it_needs(void **state)
{
    (void)state;
    will("works");
    assert_int_equal(dump(NULL, false), 0);
    assert_contains(seen(), "kind=1\npid=77 running=1 stopped=0 sibling=0 shell=1 notify=1");
    assert_contains(seen(), geteuid() == 0 ? "unprivileged=0" : "unprivileged=1");
    assert_contains(seen(), "log=" CRIU_LOG_NAME " cgroups=0 work=1");
    assert_contains(seen(), "post-dump=1");
    assert_int_equal(steps_taken, 4);
    will("works");
    assert_int_equal(dump(NULL, true), 0);
    assert_contains(seen(), "running=0 stopped=1");
}

/* The answer to post-dump is the commit point: a no there is no checkpoint, with its own reason. */
static void a_step_that_says_no_takes_no_checkpoint(void **state)
{
    static const char *const steps[] = {"pre-dump", "network-lock", "network-unlock", "post-dump"};
    char line[40];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        will("works");
        assert_int_equal(dump(steps[i], false), -1);
        snprintf(line, sizeof(line), "not at %s", steps[i]);
        assert_string_equal(err.text, line);
        snprintf(line, sizeof(line), "%s=0", steps[i]);
        assert_contains(seen(), line);
        assert_int_equal(steps_taken, (int)i + 1); /* nobody is asked again after a no */
    }
    will("dies at post-dump");
    assert_int_equal(dump("post-dump", false), -1);
    assert_string_equal(err.text, "not at post-dump");
}

static void a_restore_tells_the_pid(void **state)
{
    (void)state;
    will("works");
    assert_int_equal(restore(), 0);
    assert_int_equal(answer.pid, 4711);
    assert_contains(seen(), "kind=2");
    assert_contains(seen(), "sibling=1");
    assert_contains(seen(), "inherit 0 pipe:[12]\ninherit 1 tmp/out");
}

static void each_bad_answer_has_its_reason(void **state)
{
    static const struct {
        const char *how, *reason;
        enum err_code code;
    } rows[] = {{"dies", "criu ended without an answer", ERR_UNAVAILABLE},
                {"dies at post-dump", "criu ended without an answer", ERR_UNAVAILABLE},
                {"garbage", "criu's answer does not decode", ERR_CORRUPT},
                {"another kind", "criu answers a request that nobody made", ERR_CORRUPT},
                {"steps for ever", "criu told of more than 64 steps", ERR_CORRUPT},
                {"refuses", "criu refuses without a reason", ERR_REFUSED},
                {"refuses by text", "criu: no such?thing", ERR_REFUSED},
                {"refuses by errno", "criu: Invalid request code", ERR_REFUSED},
                {"refuses by log", "criu: inet: Connected TCP socket", ERR_REFUSED}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        will(rows[i].how);
        assert_int_equal(dump(NULL, false), -1);
        assert_string_equal(err.text, rows[i].reason);
        assert_int_equal(err.code, rows[i].code);
    }
    will("no pid");
    assert_int_equal(restore(), -1);
    assert_string_equal(err.text, "criu says pid 0 of what it has restored");
}

static void the_cause_is_found_among_its_errors(void **state)
{
    static const struct {
        const char *log, *reason;
    } rows[] = {
        {"", ""},
        {"Looks good.\n", ""},
        {"Error (a.c:1)\nError without its place\n", ""},
        {"Error (criu/util.c:642): exited, status=1\nError (criu/vdso.c:381): vdso: Unexpected rt "
         "vDSO area bounds\nError (criu/vdso.c:613): vdso: Failed to fill self vdso "
         "symtable\nError "
         "(criu/kerndat.c:1615): kerndat_vdso_fill_symtable failed when initializing kerndat.\n"
         "Error (criu/crtools.c:260): Could not initialize kernel features detection.\n",
         "vdso: Unexpected rt vDSO area bounds"}};
    char log[1024], reason[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        snprintf(log, sizeof(log), "%s", rows[i].log);
        criu_reason(log, reason, sizeof(reason));
        assert_string_equal(reason, rows[i].reason);
    }
}

static void without_criu_the_next_step_is_said(void **state)
{
    char *path = check_strdup(getenv("PATH"));

    (void)state;
    will("works");
    setenv("PATH", "/nonexistent", 1);
    if (access("/usr/sbin/criu", X_OK) != 0 && access("/usr/local/sbin/criu", X_OK) != 0) {
        assert_int_equal(dump(NULL, false), -1);
        assert_int_equal(err.code, ERR_NOT_FOUND);
        assert_contains(err.text, "install it");
    }
    setenv("PATH", path, 1);
    free(path);
}

/* ---- the tool ---- */

static bool not_wanted;

static bool is_unwanted(void)
{
    return not_wanted;
}

/* A front with one program below it. */
static pid_t start_front(int children)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < children; i++)
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                pause();
            }
        CHECK(write(ready[1], "", 1) == 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_front(pid_t front)
{
    kill(front, SIGKILL);
    assert_int_equal(waitpid(front, NULL, 0), front);
}

static int save_by_tool(pid_t front)
{
    const struct tool_save save = {.work_dir = folder,
                                   .folder = folder,
                                   .front = front,
                                   .deadline_ms = UINT64_MAX,
                                   .unwanted = is_unwanted};

    (void)unlinkat(work_fd, "ckpt-criu.record", 0);
    return tool_find("criu")->save(&save, &err);
}

static void the_tool_saves_one_program_and_its_children(void **state)
{
    pid_t front = start_front(1);

    (void)state;
    will("works");
    assert_int_equal(save_by_tool(front), 0);
    assert_int_equal(faccessat(work_fd, "ckpt-criu.record", R_OK, 0), 0);
    not_wanted = true;
    will("works");
    assert_int_equal(save_by_tool(front), -1);
    assert_string_equal(err.text, "the checkpoint is not wanted any more");
    assert_contains(seen(), "pre-dump=0");
    not_wanted = false;
    will("asks nobody");
    assert_int_equal(save_by_tool(front), -1);
    assert_contains(err.text, "did not ask");
    end_front(front);
    front = start_front(0);
    will("works");
    assert_int_equal(save_by_tool(front), -1);
    assert_contains(err.text, "has ended, or has not begun");
    end_front(front);
    front = start_front(2);
    will("works");
    assert_int_equal(save_by_tool(front), -1);
    assert_contains(err.text, "1 of its processes have no parent in it");
    assert_string_equal(seen(), "");
    end_front(front);
}

static int open_site(void **state)
{
    char link_path[64], path[4096], self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)state;
    assert_non_null(mkdtemp(folder));
    work_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    self[length > 0 ? length : 0] = '\0';
    snprintf(own_path, sizeof(own_path), "%s/bin", folder);
    snprintf(link_path, sizeof(link_path), "%s/bin/criu", folder);
    snprintf(seen_path, sizeof(seen_path), "%s/seen", folder);
    snprintf(path, sizeof(path), "%s:%s", own_path, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv(SEEN, seen_path, 1);
    setenv("CKPT_TEST_CRIU_WORK", folder, 1);
    return mkdir(own_path, 0700) == 0 && symlink(self, link_path) == 0 ? 0 : -1;
}

static int close_site(void **state)
{
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", folder);
    return system(line);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_is_asked_with_what_it_needs),
        cmocka_unit_test(a_step_that_says_no_takes_no_checkpoint),
        cmocka_unit_test(a_restore_tells_the_pid),
        cmocka_unit_test(each_bad_answer_has_its_reason),
        cmocka_unit_test(the_cause_is_found_among_its_errors),
        cmocka_unit_test(without_criu_the_next_step_is_said),
        cmocka_unit_test(the_tool_saves_one_program_and_its_children),
    };

    if (argc == 3 && strcmp(argv[1], "swrk") == 0)
        return stand_in((int)strtol(argv[2], NULL, 10));
    return cmocka_run_group_tests(tests, open_site, close_site);
}
