/* The application whose state is a folder. See run_import_files.h. */
#include "src/agent/run/run_import_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/run/run_options.h"
#include "src/agent/run/run_question.h"
#include "src/ask/sentinel.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/dest/folder_copy.h"

static volatile sig_atomic_t asked;

static void on_asked(int number)
{
    (void)number;
    asked = 1;
}

static const char *work_folder(void)
{
    const char *path = getenv("CKPT_DIR");

    return path == NULL ? "." : path;
}

static void answer_write(const struct sentinel *sentinel)
{
    if (question_answer(work_folder(), sentinel) != 0)
        fprintf(stderr, "ckpt-run: import: %s/done: %s\n", work_folder(), strerror(errno));
}

static unsigned environment_number(const char *name)
{
    const char *text = getenv(name);

    return text == NULL ? 0 : (unsigned)strtoul(text, NULL, 10);
}

void import_part_folder(const char *folder, unsigned part, unsigned parts, char ret_path[PATH_MAX])
{
    char name[PART_NAME_BYTES];

    if (parts > 1)
        snprintf(ret_path, PATH_MAX, "%.*s/%s", PATH_MAX - PART_NAME_BYTES - 1, folder,
                 part_name_format(part, name));
    else
        snprintf(ret_path, PATH_MAX, "%s", folder);
}

static void request_answer(const char *folder, const char *label)
{
    struct question request, after;
    struct sentinel sentinel = {.status = "0"};
    struct folder_sum sum = {0};
    struct err err = {0};

    if (!question_read(work_folder(), &request))
        return;
    text_copy(sentinel.hint, sizeof(sentinel.hint), request.hint);
    text_copy(sentinel.label, sizeof(sentinel.label), label);
    if (folder_copy(folder, request.directory, &sum, &err) != 0)
        text_shown(err.text, sentinel.status, sizeof(sentinel.status));
    if (!question_read(work_folder(), &after) || strcmp(after.hint, request.hint) != 0)
        return; /* its folder may have gone under the copy */
    sentinel.bytes = sum.size_bytes;
    answer_write(&sentinel);
}

static void sign_write(void)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", work_folder(), IMPORT_SIGN);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
}

int run_import_files(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_asked};
    sigset_t both, before;
    char folder[PATH_MAX];

    if (argc != 3) {
        fputs("ckpt-run: " IMPORT_FILES_VERB " is what ckpt-run import runs; use that\n", stderr);
        return RUN_EXIT_SELF;
    }
    import_part_folder(argv[1], environment_number("CKPT_PART"), environment_number("CKPT_PARTS"),
                       folder);
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &both, &before) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    sign_write(); /* from here on it can be asked */
    for (;;) {
        while (!asked)
            sigsuspend(&before);
        asked = 0;
        request_answer(folder, argv[2]);
    }
}
