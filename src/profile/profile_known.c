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

static bool words_have(const char *words, const char *name)
{
    char pattern[PATTERN_BYTES];

    for (const char *at = patterns_next(words, pattern); pattern[0] != '\0';
         at = patterns_next(at, pattern))
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

/* The place of the program, whose words follow; -1: the profile knows none of the command. Where it
 * has the signal sent to who is started, that is no launcher. */
static int program_place(const struct profile *profile, char *const *command)
{
    bool behind =
        command[0] != NULL && is_launcher(command[0]) && strcmp(profile->whom, "started") != 0;

    if (command[0] == NULL)
        return -1;
    if (words_have(profile->programs, name_of(command[0])))
        return 0;
    for (int i = 1; behind && command[i] != NULL; i++)
        if (words_have(profile->programs, name_of(command[i])))
            return i;
    return -1;
}

static bool is_subcommand(const struct profile *profile, char *const *program)
{
    return profile->subcommands[0] == '\0' ||
           words_have(profile->subcommands, name_of(program[0])) ||
           (program[1] != NULL && words_have(profile->subcommands, program[1]));
}

const char *profile_unfit(const struct profile *profile, char *const *command)
{
    for (size_t i = 1; command[0] != NULL && command[i] != NULL; i++)
        if (words_have(profile->unless, command[i]))
            return command[i];
    return NULL;
}

/* Of the profile; false: it knows none of the command, or not in that version. */
static bool knows_command(const struct profile *profile, char *const *command, bool by_version,
                          struct profile_known *known)
{
    int place = program_place(profile, command);

    if ((profile->versions[0] != '\0') != by_version || place < 0 ||
        !is_subcommand(profile, command + place))
        return false;
    known->program = command[place];
    (void)profile_version(known->program, known->version);
    return !by_version || words_have(profile->versions, known->version);
}

static bool find_known(char *const *command, bool by_version, struct profile *profile,
                       struct profile_known *ret_known)
{
    static struct profile_name names[PROFILES_MAX];
    size_t count = profile_names(names);
    struct err err;

    for (size_t i = 0; i < count; i++) {
        if (profile_open(profile, names[i].name, &err) == 0 &&
            knows_command(profile, command, by_version, ret_known)) {
            text_copy(ret_known->name, sizeof(ret_known->name), names[i].name);
            return true;
        }
        profile_close(profile);
    }
    return false;
}

bool profile_of_command(char *const *command, struct profile *profile,
                        struct profile_known *ret_known)
{
    return find_known(command, true, profile, ret_known) ||
           find_known(command, false, profile, ret_known);
}
