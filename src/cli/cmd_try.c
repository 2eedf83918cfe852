/* ckptctl try: the trial of a command, as ckpt-run does it. It needs no cluster. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/cli/commands.h"

#define TRY_PROGRAM "ckpt-run"

enum { WORDS_MAX = CLI_ARGUMENTS_MAX + 16 };

/* Beside this program, else as the PATH says. */
static const char *find_program(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof(TRY_PROGRAM));
    char *slash;

    path[length < 0 ? 0 : length] = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL) {
        memcpy(slash + 1, TRY_PROGRAM, sizeof(TRY_PROGRAM));
        if (access(path, X_OK) == 0)
            return path;
    }
    return TRY_PROGRAM;
}

static size_t add_option(const struct cli *cli, const char *name, const char *typed, char **words,
                         size_t count)
{
    char *value = cli_text(cli, name);

    if (value == NULL)
        return count;
    words[count++] = (char *)(uintptr_t)typed;
    words[count++] = value;
    return count;
}

enum cli_exit command_try(struct cli *cli)
{
    char path[PATH_MAX], *words[WORDS_MAX] = {NULL};
    const char *program = find_program(path);
    size_t count = 0;

    words[count++] = (char *)(uintptr_t)program;
    words[count++] = (char *)(uintptr_t) "try";
    count = add_option(cli, "profile", "--profile", words, count);
    count = add_option(cli, "after", "--after", words, count);
    count = add_option(cli, "within", "--within", words, count);
    count = add_option(cli, "compare", "--compare", words, count);
    words[count++] = (char *)(uintptr_t) "--";
    for (size_t i = 0; i < cli->argument_count; i++)
        words[count++] = cli_argument(cli, i);
    CHECK(count < WORDS_MAX);
    fflush(NULL);
    execvp(program, words);
    return cli_fail(cli, CLI_FAILED, NULL, "%s cannot be run: %m", program);
}
