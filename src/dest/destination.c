/* The kind of a destination. See destination.h.
 *
 * Shapes   forms of locations never overlap, so the order of the rows decides nothing.
 */
#include "src/dest/destination.h"

#include <string.h>

const struct destination_ops *destination_named(const char *kind)
{
    for (size_t i = 0; destinations[i] != NULL; i++) {
        if (strcmp(destinations[i]->kind, kind) == 0)
            return destinations[i];
    }
    return NULL;
}

const struct destination_ops *destination_of(const char *location, struct err *err)
{
    for (size_t i = 0; destinations[i] != NULL; i++) {
        if (destinations[i]->parse(location))
            return destinations[i];
    }
    err_set(err, ERR_INVALID,
            "no kind of destination has locations like \"%.200s\": they begin with / or s3://",
            location);
    return NULL;
}

int destination_validate(const char *location, struct err *err)
{
    const struct destination_ops *kind = destination_of(location, err);

    return kind == NULL ? -1 : kind->validate(location, err);
}

const struct destination_ops *destination_asked(const char *const *arguments)
{
    const char *location = NULL;

    for (size_t i = 1; arguments[i] != NULL && arguments[i + 1] != NULL; i += 2) {
        if (strcmp(arguments[i], "--prefix") == 0)
            location = arguments[i + 1];
        else if (strcmp(arguments[i], "--path") == 0 && location == NULL)
            location = arguments[i + 1];
    }
    return location != NULL ? destination_of(location, NULL) : NULL;
}
