/* Which of the names are given. See htcondor.h. */
#include "src/serve/htcondor.h"

#include <string.h>

bool htcondor_given(const struct htcondor_names *names)
{
    bool given = false;

#define X(name) given |= names->name[0] != '\0';
    HTCONDOR_NAMES(X)
#undef X
    return given;
}

static const char *text_of(const struct htcondor_names *names, const char *name)
{
#define X(one)                                                                                     \
    if (strcmp(name, #one) == 0)                                                                   \
        return names->one;
    HTCONDOR_NAMES(X)
#undef X
    return "";
}

const struct htcondor_refusal *htcondor_refused(const struct htcondor_names *names,
                                                const struct htcondor_refusal *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text_of(names, table[i].name)[0] != '\0')
            return &table[i];
    return NULL;
}
