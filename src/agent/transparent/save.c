/* A checkpoint by a tool, in a process beside the application. See save.h. */
#include "src/agent/transparent/save.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/agent/durable/why_note.h"
#include "src/base/check.h"

#define WHY_NAME "ckpt-run.why-not"

/* ---- its process ---- */

static volatile sig_atomic_t dropped;
static pid_t ckpt_run;

static void drop_save(int number)
{
    (void)number;
    dropped = 1;
}

static bool is_unwanted(void)
{
    return dropped != 0 || getppid() != ckpt_run;
}

__attribute__((noreturn)) static void save_main(const struct tool *tool,
                                                const struct tool_save *asked)
{
    const struct sigaction action = {.sa_handler = drop_save};
    struct tool_save save = *asked;
    struct err err = {0};
    sigset_t none;
    int result;

    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    CHECK(sigaction(SAVE_DROP, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();                               /* a terminal's keys are for the application */
    (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* ckpt-run's: its end is to be seen */
    (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    save.unwanted = is_unwanted;
    result = tool->save(&save, &err);
    if (result != 0)
        save_leave_why(save.work_dir, err.text);
    _exit(result == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* A handler of this program that ran in the child would tell the loop of both. */
pid_t save_start(const struct tool *tool, const struct tool_save *save)
{
    sigset_t all, before;
    pid_t pid;

    CHECK(save->folder[0] == '/' && save->front > 1);
    save_leave_why(save->work_dir, "");
    ckpt_run = getpid();
    fflush(NULL);
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    pid = fork();
    if (pid == 0)
        save_main(tool, save);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    return pid;
}

/* ---- its reason ---- */

void save_leave_why(const char *work_dir, const char *text)
{
    why_note_leave(&(struct why_note){work_dir, WHY_NAME}, text);
}

void save_why(const char *work_dir, char ret_why[SAVE_WHY_BYTES])
{
    (void)why_note_take(&(struct why_note){work_dir, WHY_NAME}, "", ret_why, SAVE_WHY_BYTES);
}
