/* The front of a program that is saved from outside. See front.h. */
#include "src/agent/transparent/front.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/transparent/front_words.h"
#include "src/agent/transparent/save.h"
#include "src/base/check.h"

#define FRONT_VERB "transparent"

enum { WORDS = 4, NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* self, verb, tool, restore folder */

char *const *front_line(const struct tool *tool, const struct tool_start *start)
{
    static char **line;
    const char *const own[] = {FRONT_VERB, tool->name, start->restore_dir};

    _Static_assert(ARRAY_COUNT(own) + 1 == WORDS, "with its own name before");
    return front_words_make(own, ARRAY_COUNT(own), start->command, &line);
}

static bool is_front(char *const *line)
{
    return front_words_are(line, FRONT_VERB) && line[2] != NULL && tool_find(line[2]) != NULL &&
           line[3] != NULL && line[WORDS] != NULL;
}

const char *front_program(char *const *line)
{
    return is_front(line) ? line[WORDS] : line[0];
}

/* ---- its process ---- */

static bool held[NSIG];

/* The program hears them itself. A handler here would look as if the job could be asked by that
 * signal. */
static void hold_signals(void)
{
    static const int own[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU,
                              SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGABRT};

    for (int number = 1; number < NSIG; number++) {
        struct sigaction before;
        bool holds = sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN;

        for (size_t i = 0; i < ARRAY_COUNT(own); i++)
            holds = holds && own[i] != number;
        held[number] = holds;
        if (holds)
            (void)signal(number, SIG_IGN);
    }
}

/* An ignored signal would stay so in the program. */
static void give_signals_back(void)
{
    for (int number = 1; number < NSIG; number++)
        if (held[number])
            (void)signal(number, SIG_DFL);
}

__attribute__((noreturn)) static void wait_for(pid_t root)
{
    for (;;) {
        int wait_status;
        pid_t ended = waitpid(-1, &wait_status, 0);

        if (ended == root)
            front_end_as(wait_status);
        CHECK(ended > 0 || errno == EINTR);
    }
}

static pid_t start_program(const struct tool *tool, const struct tool_start *start)
{
    pid_t pid = fork();
    int failure;

    if (pid != 0)
        return pid;
    give_signals_back();
    tool->become(start);
    failure = errno;
    fprintf(stderr, "ckpt-run: %s: %s\n", start->command[0], strerror(failure));
    _exit(failure == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

__attribute__((noreturn)) static void fail_with(const char *work_dir, const struct err *err)
{
    char text[SAVE_WHY_BYTES];

    snprintf(text, sizeof(text), FRONT_WHY "%.300s", err->text);
    fprintf(stderr, "ckpt-run: %s\n", text);
    save_leave_why(work_dir, text);
    _exit(FRONT_FAILED);
}

void front_run(int argc, char **argv)
{
    struct tool_start start = {.work_dir = getenv("CKPT_DIR")};
    struct err err = {0};
    const struct tool *tool;
    pid_t root = -1;

    if (argc <= WORDS || !is_front(argv) || start.work_dir == NULL)
        return;
    tool = tool_find(argv[2]);
    start.restore_dir = argv[3];
    start.command = argv + WORDS;
    (void)prctl(PR_SET_NAME, FRONT_NAME);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    hold_signals();
    if (start.restore_dir[0] == '\0' || tool->restore == NULL)
        root = start_program(tool, &start);
    else if (tool->restore(&start, &root, &err) != 0)
        fail_with(start.work_dir, &err);
    if (root < 0)
        fail_with(start.work_dir, &(struct err){.text = "no process can be made"});
    wait_for(root);
}
