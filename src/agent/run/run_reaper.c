/* The process between ckpt-run and a command of the job's owner. See run_reaper.h. */
#include "src/agent/run/run_reaper.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/base/check.h"
#include "src/base/id.h"

enum {
    STATUS_BYTES = 8192,
    LOOK_AGAIN_MS = 10,
    LOOKS_MAX = 1000 /* a process may be in a call that does not end */
};

/* ---- the application ---- */

struct run_application run_application_look(pid_t pid)
{
    struct run_application application = {.pid = pid};
    struct proc_stat stat;

    if (pid > 0 && proc_read_stat(pid, &stat) == 0) {
        application.start_ticks = stat.start_ticks;
        application.stood_still = stat.state == 'T';
    }
    return application;
}

/* A process that runs on another processor comes to a stop a moment after the signal. */
static bool stop_pending(pid_t pid)
{
    static const char name[] = "\nShdPnd:";
    const uint64_t stops = UINT64_C(1) << (SIGSTOP - 1) | UINT64_C(1) << (SIGTSTP - 1);
    size_t length = 0;
    int result = 0;
    char *text = proc_read_bytes(pid, "status", STATUS_BYTES, &length, &result);
    const char *line = text == NULL ? NULL : memmem(text, length, name, sizeof(name) - 1);
    char digits[20] = "";

    if (line != NULL && (size_t)(text + length - line) > sizeof(name) + 17)
        memcpy(digits, line + sizeof(name) - 1, sizeof(digits) - 2); /* a tab, and 16 digits */
    free(text);
    return (strtoull(digits, NULL, 16) & stops) != 0;
}

void run_application_goes_on(const struct run_application *application)
{
    struct proc_stat stat;

    if (application->pid > 0 && !application->stood_still &&
        proc_read_stat(application->pid, &stat) == 0 &&
        stat.start_ticks == application->start_ticks &&
        (stat.state == 'T' || stop_pending(application->pid)))
        (void)kill(-application->pid, SIGCONT);
}

/* ---- all below the reaper ---- */

/* Each process that lost its parent has this one for it. How many there were. */
static size_t kill_children(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    struct proc_stat stat;
    size_t count = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!id_is_number(entry->d_name) ||
            proc_read_stat((pid_t)strtol(entry->d_name, NULL, 10), &stat) != 0 ||
            stat.parent != getpid())
            continue;
        count++;
        (void)kill(stat.pid, SIGKILL);
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void end_all(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * 1000000L};

    for (int i = 0; i < LOOKS_MAX && kill_children() > 0; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        nanosleep(&pause, NULL);
    }
}

/* ---- its life ---- */

__attribute__((noreturn)) static void end_as(int wait_status)
{
    const struct rlimit none = {0, 0};
    sigset_t signals;

    if (!WIFSIGNALED(wait_status))
        _exit(WEXITSTATUS(wait_status));
    (void)setrlimit(RLIMIT_CORE, &none); /* the command has left its own */
    sigemptyset(&signals);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    (void)raise(WTERMSIG(wait_status));
    _exit(128 + WTERMSIG(wait_status));
}

/* It may not have its session yet. */
static void tell_group(pid_t command, int signal)
{
    if (kill(-command, signal) != 0)
        (void)kill(command, signal);
}

/* One that was told to end leaves nothing, in whatever session. */
static void take_ends(pid_t command, bool told)
{
    int wait_status;
    pid_t ended;

    while ((ended = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (ended != command)
            continue;
        (void)kill(-command, SIGKILL); /* its session may go on without it */
        if (told)
            end_all();
        end_as(wait_status);
    }
}

static pid_t start_command(run_reaper_command_fn *become, void *data)
{
    const pid_t reaper = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == reaper)
        become(data);
    _exit(RUN_REAPER_FAILED);
}

void run_reaper(pid_t parent, const struct run_application *application,
                run_reaper_command_fn *become, void *data)
{
    sigset_t wanted;
    bool told = false;
    int number;
    pid_t command;

    for (number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, RUN_REAPER_TELL);
    sigaddset(&wanted, RUN_REAPER_END);
    (void)setsid(); /* a terminal's keys are for the application */
    (void)prctl(PR_SET_PDEATHSIG, RUN_REAPER_END);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (getppid() != parent)
        _exit(RUN_REAPER_FAILED);
    (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* ckpt-run's: its end is to be seen */
    command = start_command(become, data);
    if (command < 0)
        _exit(RUN_REAPER_FAILED);
    while ((number = sigwaitinfo(&wanted, NULL)) != RUN_REAPER_END) {
        told = told || number == RUN_REAPER_TELL;
        if (number == RUN_REAPER_TELL)
            tell_group(command, SIGTERM);
        else if (number == SIGCHLD)
            take_ends(command, told);
    }
    end_all();
    run_application_goes_on(application);
    end_as(SIGKILL);
}
