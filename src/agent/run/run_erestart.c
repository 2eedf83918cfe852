/* A start from a checkpoint by a site's erestart. See run_erestart.h. */
#include "src/agent/run/run_erestart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/durable/why_note.h"
#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_lsf_answer.h"
#include "src/agent/run/run_lsf_output.h"
#include "src/agent/run/run_say.h"
#include "src/agent/transparent/front_words.h"
#include "src/base/check.h"
#include "src/base/text.h"

#define FRONT_VERB "erestart"
#define WHY_NAME   "ckpt-run.why"

enum {
    WORDS = 6, /* before the command */
    LIMIT_MS = 600000,
    ENDING_MS = 5000, /* from SIGTERM to SIGKILL */
    LOOK_MS = 20,
    WAIT_MS = 100,   /* while the job runs */
    QUIET_MS = 1000, /* after its first words: there are no more of them */
    WHY_BYTES = 200,
    FAILED = 1
};

/* ---- in ckpt-run ---- */

char *const *run_erestart_command(const struct run_options *options, const char *work_dir,
                                  const char *restore_dir)
{
    static char **line;
    const char *const own[] = {FRONT_VERB, options->echkpnt,
                               options->echkpnt_options == NULL ? "" : options->echkpnt_options,
                               options->allocation_id, restore_dir};

    _Static_assert(ARRAY_COUNT(own) + 1 == WORDS, "with its own name before");
    CHECK(restore_dir[0] == '/');
    lsf_group_drop(work_dir);
    return front_words_make(own, ARRAY_COUNT(own), options->command, &line);
}

bool run_erestart_runs(pid_t pid)
{
    static const char begin[] = FRONT_SELF "\0" FRONT_VERB;
    char path[32], text[sizeof(begin)];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, sizeof(text));
    close(fd);
    return got == (ssize_t)sizeof(text) && memcmp(text, begin, sizeof(begin)) == 0;
}

void run_erestart_why(const char *work_dir, pid_t pid, char *ret_why, size_t size)
{
    char number[16];

    snprintf(number, sizeof(number), "%d ", (int)pid);
    (void)why_note_take(&(struct why_note){work_dir, WHY_NAME}, number, ret_why, size);
}

/* ---- the front ---- */

static struct {
    struct lsf_settings settings;
    struct lsf_record record; /* of the checkpoint */
    char **command;
    const char *allocation_id, *folder, *work_dir;
    char program[PATH_MAX];
    pid_t child;
} front;

/* The failure is the job's end. */
__attribute__((noreturn, format(printf, 2, 3))) static void fail_with(int status,
                                                                      const char *format, ...)
{
    char text[WHY_BYTES], note[WHY_BYTES + 16];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    run_say_error("%s", text);
    snprintf(note, sizeof(note), "%d %s\n", (int)getpid(), text);
    why_note_leave(&(struct why_note){front.work_dir, WHY_NAME}, note);
    _exit(status);
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A method is bound to the checkpoint that it took. Its folder may lie elsewhere on this node. */
static void find_program(void)
{
    struct lsf_settings recorded = front.settings;
    struct err err = {0};

    if (lsf_record_read(front.folder, &front.record, &err) == 0) {
        text_copy(recorded.method, sizeof(recorded.method), front.record.method);
        text_copy(front.settings.method, sizeof(front.settings.method), front.record.method);
        text_copy(recorded.method_dir, sizeof(recorded.method_dir), front.record.method_dir);
        if (lsf_program_find(&recorded, LSF_ERESTART, front.program, &err) == 0) {
            front.settings = recorded;
            return;
        }
    } else if (err.code != ERR_EMPTY) {
        fail_with(FAILED, "%s", err.text);
    }
    if (lsf_program_find(&front.settings, LSF_ERESTART, front.program, &err) != 0)
        fail_with(FAILED, "%s", err.text);
}

static void set_id(const char *name, pid_t id)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", (int)id);
    if (id > 0)
        setenv(name, text, 1);
    else
        unsetenv(name);
}

static void set_environment(void)
{
    char *line = lsf_command_line(front.command), started_in[PATH_MAX];

    run_keeper_folder(started_in);
    lsf_environment(&front.settings, front.allocation_id, front.folder, started_in);
    setenv("LSB_RESTART", "Y", 1);
    setenv("LSB_ERESTART_USRCMD", line, 1);
    set_id("LSB_RESTART_PID", front.record.pid);
    set_id("LSB_RESTART_PGID", front.record.group);
    if (front.record.job[0] != '\0')
        setenv("LSB_OLD_JOBID", front.record.job, 1);
    lsf_output_follow(&front.settings, front.allocation_id, front.record.job);
    free(line);
}

__attribute__((noreturn)) static void execute_erestart(void)
{
    char name[LSF_NAME_BYTES];
    const char *line[LSF_OPTIONS_MAX];

    lsf_program_name(&front.settings, LSF_ERESTART, name);
    lsf_erestart_line(&front.settings, name, front.folder, line);
    lsf_execute(front.program, line);
    fprintf(stderr, "%s: %s\n", front.program, strerror(errno));
    _exit(127);
}

/* ---- a method's erestart ---- */

static struct lsf_call erestart_call(void)
{
    return (struct lsf_call){&front.settings, LSF_ERESTART, front.allocation_id, front.work_dir};
}

__attribute__((noreturn)) static void become_method(void)
{
    const struct lsf_call call = erestart_call();
    int fd = open("/dev/null", O_RDONLY);

    setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || lsf_output_open(&call) != 0)
        _exit(127);
    if (fd != STDIN_FILENO)
        close(fd);
    execute_erestart();
}

/* With all of its session. */
static void end_method(void)
{
    const uint64_t until_ms = monotonic_ms() + ENDING_MS;

    kill(-front.child, SIGTERM);
    while (waitpid(front.child, NULL, WNOHANG) == 0 && monotonic_ms() < until_ms)
        (void)poll(NULL, 0, LOOK_MS);
    kill(-front.child, SIGKILL);
    (void)waitpid(front.child, NULL, 0);
}

static void run_method(void)
{
    const uint64_t until_ms = monotonic_ms() + LIMIT_MS;
    const struct lsf_call call = erestart_call();
    char text[WHY_BYTES], name[LSF_NAME_BYTES];
    int wait_status;
    pid_t ended;

    fflush(NULL);
    front.child = fork();
    if (front.child < 0)
        fail_with(FAILED, "erestart cannot be started: %s", strerror(errno));
    if (front.child == 0)
        become_method();
    while ((ended = waitpid(front.child, &wait_status, WNOHANG)) == 0 && monotonic_ms() < until_ms)
        (void)poll(NULL, 0, LOOK_MS);
    if (ended == 0) {
        end_method();
        fail_with(FAILED, "%s did not end within %d min",
                  lsf_program_name(&front.settings, LSF_ERESTART, name), LIMIT_MS / 60000);
    }
    kill(-front.child, SIGKILL); /* its session may go on without it */
    if (ended < 0 || wait_status == 0)
        return;
    lsf_failure_text(&call, wait_status, text, sizeof(text));
    fail_with(WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : FAILED, "%s", text);
}

/* The process becomes the job. */
__attribute__((noreturn)) static void start_command(void)
{
    static char shell[] = "/bin/sh", option[] = "-c";
    char command[LSF_COMMAND_BYTES], *by_shell[] = {shell, option, command, NULL};
    char *const *line = by_shell;
    struct err err = {0};

    if (lsf_command_read(front.folder, command, &err) != 0) {
        if (err.code != ERR_EMPTY)
            fail_with(FAILED, "%s", err.text);
        line = front.command;
    }
    execvp(line[0], line);
    fail_with(errno == ENOENT ? 127 : 126, "%.100s: %s", line[0], strerror(errno));
}

/* ---- an erestart that is the job ---- */

static void on_end_signal(int number)
{
    (void)number;
}

/* Signals go to the whole job: erestart decides, and its end is this one's. */
static void hold_signals(void)
{
    static const int held[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
    const struct sigaction action = {.sa_handler = on_end_signal, .sa_flags = SA_RESTART};

    for (size_t i = 0; i < ARRAY_COUNT(held); i++) {
        struct sigaction before;
        CHECK(sigaction(held[i], NULL, &before) == 0);
        if (before.sa_handler != SIG_IGN)
            CHECK(sigaction(held[i], &action, NULL) == 0);
    }
}

__attribute__((noreturn)) static void become_job(const int words[2])
{
    char number[16];
    int stderr_kept = dup(STDERR_FILENO);

    snprintf(number, sizeof(number), "%d", stderr_kept);
    setenv("LSB_STDERR_FD", number, 1);
    if (stderr_kept < 0 || dup2(words[1], STDERR_FILENO) < 0)
        _exit(127);
    execute_erestart();
}

/* Bytes that have come by then, at most size; -1: none are there yet. */
static ssize_t read_words(int fd, char *text, size_t size, int wait_ms)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    ssize_t got;

    if (poll(&waiting, 1, wait_ms) <= 0)
        return -1;
    do {
        got = read(fd, text, size);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? 0 : got;
}

static enum lsf_answer hear_answer(int fd, char text[LSF_ANSWER_MAX_BYTES], pid_t *ret_pid,
                                   pid_t *ret_group)
{
    const uint64_t until_ms = monotonic_ms() + LIMIT_MS;
    enum lsf_answer answer = LSF_ANSWER_NONE;
    size_t length = 0;
    bool closed = false;

    text[0] = '\0';
    while (answer == LSF_ANSWER_NONE && monotonic_ms() < until_ms) {
        ssize_t got = read_words(fd, text + length, LSF_ANSWER_MAX_BYTES - 1 - length, QUIET_MS);
        for (ssize_t i = 0; i < got; i++)
            if (text[length + (size_t)i] == '\0')
                text[length + (size_t)i] = '?';
        length += got > 0 ? (size_t)got : 0;
        text[length] = '\0';
        closed = got == 0;
        answer = lsf_answer_read(text, closed || (got < 0 && length > 0), ret_pid, ret_group);
    }
    return answer;
}

/* A process that it has started may be about to make that process group. */
static bool group_appears(pid_t group)
{
    for (int i = 0; i < QUIET_MS / LOOK_MS && kill(-group, 0) != 0; i++)
        (void)poll(NULL, 0, LOOK_MS);
    return kill(-group, 0) == 0;
}

/* It is of this user: whatever else erestart says, nobody saves or waits for that. */
static bool is_own(pid_t pid)
{
    char path[32];
    struct stat stat_of;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return stat(path, &stat_of) == 0 && stat_of.st_uid == geteuid();
}

__attribute__((noreturn)) static void refuse_answer(enum lsf_answer answer, char *text)
{
    char line[128];
    int wait_status = 0;

    kill(front.child, SIGTERM);
    for (int i = 0; i < ENDING_MS / LOOK_MS && waitpid(front.child, &wait_status, WNOHANG) == 0;
         i++)
        (void)poll(NULL, 0, LOOK_MS);
    kill(front.child, SIGKILL);
    if (answer == LSF_ANSWER_NONE)
        fail_with(FAILED, "erestart said nothing for %d min", LIMIT_MS / 60000);
    fail_with(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0 ? WEXITSTATUS(wait_status)
                                                                      : FAILED,
              "erestart has failed: %s", lsf_last_line(text, line, sizeof(line)));
}

/* Until the job has ended: what erestart started is adopted, and its end is the job's where
 * erestart itself ends well before it. */
__attribute__((noreturn)) static void wait_for_job(int fd, pid_t job)
{
    char text[LSF_ANSWER_MAX_BYTES];
    int wait_status, last_status = 0;
    bool erestart_runs = true;
    pid_t ended;

    for (;;) {
        ssize_t got = fd < 0 ? -1 : read_words(fd, text, sizeof(text), WAIT_MS);
        if (got > 0 && write(STDERR_FILENO, text, (size_t)got) < 0 && errno == EPIPE)
            got = 0;
        if (got == 0) {
            close(fd);
            fd = -1;
        }
        if (fd < 0)
            (void)poll(NULL, 0, WAIT_MS);
        while ((ended = waitpid(-1, &wait_status, WNOHANG)) > 0) {
            if (ended == job || (ended == front.child && wait_status != 0))
                front_end_as(wait_status);
            if (ended == front.child)
                erestart_runs = false;
            last_status = ended == front.child ? wait_status : last_status;
        }
        if (!erestart_runs && !is_own(job))
            front_end_as(last_status);
    }
}

__attribute__((noreturn)) static void run_job(void)
{
    char text[LSF_ANSWER_MAX_BYTES];
    pid_t pid, group;
    enum lsf_answer answer;
    int words[2];

    hold_signals();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    fflush(NULL);
    if (pipe2(words, O_CLOEXEC) != 0 || (front.child = fork()) < 0)
        fail_with(FAILED, "erestart cannot be started: %s", strerror(errno));
    if (front.child == 0)
        become_job(words);
    close(words[1]);
    pid = front.child;
    group = getpgrp();
    answer = hear_answer(words[0], text, &pid, &group);
    if (answer == LSF_ANSWER_NONE || answer == LSF_ANSWER_FAILED)
        refuse_answer(answer, text);
    if (!is_own(pid) || !group_appears(group)) {
        snprintf(text, sizeof(text), "it says pid=%d pgid=%d, and these are not of this user",
                 (int)pid, (int)group);
        refuse_answer(LSF_ANSWER_FAILED, text);
    }
    lsf_group_write(front.work_dir, pid, group);
    wait_for_job(words[0], pid);
}

static bool is_front(int argc, char **argv)
{
    return argc > WORDS && front_words_are(argv, FRONT_VERB);
}

void run_erestart_front(int argc, char **argv)
{
    struct err err = {0};

    front.work_dir = getenv("CKPT_DIR");
    if (!is_front(argc, argv) || front.work_dir == NULL)
        return;
    front.allocation_id = argv[4];
    front.folder = argv[5];
    front.command = argv + WORDS;
    if (lsf_settings_parse(argv[2], argv[3], &front.settings, &err) != 0 ||
        lsf_settings_find(&front.settings, &err) != 0)
        fail_with(FAILED, "%s", err.text);
    find_program();
    set_environment();
    if (lsf_erestart_is_job(&front.settings))
        run_job();
    run_method();
    start_command();
}
