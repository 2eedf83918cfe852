/* A checkpoint by a tool, in a process beside the application. See save.h. */
#include "src/agent/transparent/save.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"

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
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/" WHY_NAME, work_dir);
    (void)unlink(path);
    if (text[0] == '\0')
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (write(fd, text, strlen(text)) < 0)
        (void)unlink(path);
    close(fd);
}

void save_why(const char *work_dir, char ret_why[SAVE_WHY_BYTES])
{
    char path[PATH_MAX], text[SAVE_WHY_BYTES];
    ssize_t got;
    int fd;

    ret_why[0] = '\0';
    snprintf(path, sizeof(path), "%s/" WHY_NAME, work_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    (void)unlink(path);
    text[got < 0 ? 0 : got] = '\0';
    (void)text_shown(text, ret_why, SAVE_WHY_BYTES);
}
