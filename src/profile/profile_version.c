/* The version of a program, by the place where it lies. See profile.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/profile/profile.h"

static const char digits[] = "0123456789", separators[] = "-_@+";

/* The length of a version at the text's begin: so many numbers at least, with dots between. 0: it
 * has none. */
static size_t version_length(const char *text, size_t numbers_min)
{
    size_t length = strspn(text, digits), numbers = length > 0;

    while (numbers > 0 && text[length] == '.' && strspn(text + length + 1, digits) > 0) {
        length += 1 + strspn(text + length + 1, digits);
        numbers++;
    }
    return numbers >= numbers_min ? length : 0;
}

/* At its begin, or behind a dash or the like: 6.4.2, vasp-6.4.2-gcc, OpenFOAM-v2312. */
static bool find_version(const char *name, char ret_version[PROFILE_VERSION_BYTES])
{
    for (const char *at = name; *at != '\0'; at += strcspn(at, separators)) {
        size_t length;
        bool named;

        at += strspn(at, separators);
        named = at[0] == 'v' || at[0] == 'V';
        at += named;
        length = version_length(at, named ? 1 : 2);
        if (length > 0 && length < PROFILE_VERSION_BYTES &&
            strchr(separators, at[length]) != NULL) {
            text_copy(ret_version, length + 1, at);
            return true;
        }
    }
    return false;
}

/* As a shell would find it. */
static bool find_program(const char *program, char ret_path[PATH_MAX])
{
    const char *at = getenv("PATH");
    char path[PATH_MAX];

    if (strchr(program, '/') != NULL)
        return realpath(program, ret_path) != NULL;
    for (; at != NULL && *at != '\0'; at += strcspn(at, ":")) {
        at += strspn(at, ":");
        if (snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(at, ":"), at, program) <
                (int)sizeof(path) &&
            access(path, X_OK) == 0)
            return realpath(path, ret_path) != NULL;
    }
    return false;
}

const char *profile_version(const char *program, char ret_version[PROFILE_VERSION_BYTES])
{
    char path[PATH_MAX], *slash;

    CHECK(program[0] != '\0');
    ret_version[0] = '\0';
    if (!find_program(program, path))
        return ret_version;
    while ((slash = strrchr(path, '/')) != NULL && !find_version(slash + 1, ret_version))
        *slash = '\0';
    return ret_version;
}
