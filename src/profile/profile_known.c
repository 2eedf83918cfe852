/* The profile that knows the program of a command. See profile.h. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/profile/patterns.h"
#include "src/profile/profile.h"

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static bool is_launcher(const char *word)
{
    static const char *const names[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(name_of(word), names[i]) == 0)
            return true;
    return false;
}

static bool programs_have(const char *programs, const char *name)
{
    char pattern[PATTERN_BYTES];

    for (const char *at = patterns_next(programs, pattern); pattern[0] != '\0';
         at = patterns_next(at, pattern))
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

/* Words behind the program are its own. */
static const char *program_of(char *const *command, const char *programs)
{
    if (command[0] == NULL)
        return NULL;
    if (programs_have(programs, name_of(command[0])))
        return command[0];
    for (size_t i = 1; is_launcher(command[0]) && command[i] != NULL; i++)
        if (programs_have(programs, name_of(command[i])))
            return command[i];
    return NULL;
}

bool profile_of_command(char *const *command, struct profile *profile,
                        char ret_name[ID_MAX_BYTES + 1], const char **ret_program)
{
    static struct profile_name names[PROFILES_MAX];
    size_t count = profile_names(names);
    struct err err;

    for (size_t i = 0; i < count; i++) {
        const char *program = NULL;

        if (profile_open(profile, names[i].name, &err) == 0)
            program = program_of(command, profile->programs);
        if (program != NULL) {
            text_copy(ret_name, ID_MAX_BYTES + 1, names[i].name);
            *ret_program = program;
            return true;
        }
        profile_close(profile);
    }
    return false;
}
