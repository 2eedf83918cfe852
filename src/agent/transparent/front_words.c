/* The line and the end of a front. See front_words.h. */
#include "src/agent/transparent/front_words.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"

char *const *front_words_make(const char *const *own, size_t own_count, char *const *command,
                              char ***line)
{
    size_t count = 0;

    CHECK(own_count >= 1 && own_count < FRONT_WORDS_MAX);
    while (command[count] != NULL)
        count++;
    CHECK(count > 0);
    for (size_t i = 0; *line != NULL && i <= own_count; i++)
        free((*line)[i]);
    free(*line);
    *line = check_calloc(own_count + 1 + count + 1, sizeof(**line));
    (*line)[0] = check_strdup(FRONT_SELF);
    for (size_t i = 0; i < own_count; i++)
        (*line)[1 + i] = check_strdup(own[i]);
    memcpy(*line + 1 + own_count, command, count * sizeof(*command));
    return *line;
}

bool front_words_are(char *const *line, const char *verb)
{
    return line[0] != NULL && strcmp(line[0], FRONT_SELF) == 0 && line[1] != NULL &&
           strcmp(line[1], verb) == 0;
}

void front_end_as(int wait_status)
{
    const struct rlimit none = {0, 0};

    if (!WIFSIGNALED(wait_status))
        _exit(WEXITSTATUS(wait_status));
    (void)setrlimit(RLIMIT_CORE, &none); /* the program has left its own */
    (void)signal(WTERMSIG(wait_status), SIG_DFL);
    (void)raise(WTERMSIG(wait_status));
    _exit(128 + WTERMSIG(wait_status));
}
