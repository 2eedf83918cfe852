/* The row of the kind posix. See posix.h. */
#include "src/dest/posix/posix.h"

#include <string.h>

#include "src/dest/posix/place.h"

/* A path, relative ones included: those are refused by name, and a user who works by hand may give
 * one as a checkpoint's folder. */
static bool posix_parse(const char *location)
{
    return location[0] == '/' || strstr(location, "://") == NULL;
}

/* One text per folder: two spellings of a prefix would be two targets on the same files. What is
 * wrong with this one; NULL: nothing. */
static const char *broken_rule(const char *location)
{
    size_t length = strlen(location);

    if (location[0] != '/')
        return "must be an absolute folder, such as /scratch/checkpoints";
    if (length > 1 && location[length - 1] == '/')
        return "has a slash at its end, must be without it";
    for (const char *at = location; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~')
            return "has a byte that is no printable character of ASCII";
        if (strncmp(at, "//", 2) == 0)
            return "has an empty part: two slashes must not follow each other";
        if (strncmp(at, "/../", 4) == 0 || strcmp(at, "/..") == 0)
            return "has a part '..', must be the folder itself";
    }
    return NULL;
}

static int posix_validate(const char *location, struct err *err)
{
    const char *rule = broken_rule(location);

    return rule == NULL ? 0 : err_set(err, ERR_INVALID, "%s", rule);
}

const struct destination_ops destination_posix = {
    .kind = "posix",
    .parse = posix_parse,
    .validate = posix_validate,
    .probe = posix_probe,
    .hold = posix_hold,
    .claim = place_claim,
    .claimed = place_is_claimed,
    .prepare = posix_prepare,
    .put = posix_put,
    .stage = posix_stage,
    .publish = posix_publish,
    .verify = posix_verify,
    .check = posix_check,
    .restore = posix_restore,
    .collect = posix_collect,
    .owner = posix_owner,
    .tidy = posix_tidy,
    .abandon = posix_abandon,
    .compresses = true,
    .scan = posix_scan,
};
