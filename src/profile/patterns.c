/* Patterns of file names. See patterns.h. */
#include "src/profile/patterns.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"

#define BLANKS " \t\n"

const char *patterns_next(const char *at, char ret_pattern[PATTERN_BYTES])
{
    size_t length;

    at += strspn(at, BLANKS);
    length = strcspn(at, BLANKS);
    CHECK(length < PATTERN_BYTES); /* patterns_check() */
    memcpy(ret_pattern, at, length);
    ret_pattern[length] = '\0';
    return at + length;
}

static bool leaves_folder(const char *pattern)
{
    size_t length = strlen(pattern);

    return pattern[0] == '/' || strncmp(pattern, "../", 3) == 0 || strcmp(pattern, "..") == 0 ||
           strstr(pattern, "/../") != NULL ||
           (length >= 3 && strcmp(pattern + length - 3, "/..") == 0);
}

int patterns_check(const char *patterns, struct err *err)
{
    char pattern[PATTERN_BYTES];
    size_t count = 0;

    for (const char *at = patterns; *at != '\0';) {
        at += strspn(at, BLANKS);
        if (strcspn(at, BLANKS) >= sizeof(pattern))
            return err_set(err, ERR_INVALID, "has a pattern of %zu bytes, at most %d are taken",
                           strcspn(at, BLANKS), PATTERN_BYTES - 1);
        at = patterns_next(at, pattern);
        if (pattern[0] != '\0' && leaves_folder(pattern))
            return err_set(err, ERR_INVALID,
                           "has \"%.128s\"; its patterns are relative to the folder where ckpt-run "
                           "is started, and stay below it",
                           pattern);
        count += pattern[0] != '\0';
    }
    return count > 0 ? 0
                     : err_set(err, ERR_INVALID,
                               "is empty; it names the files that the program saves, as 'CHGCAR "
                               "WAVECAR'");
}
