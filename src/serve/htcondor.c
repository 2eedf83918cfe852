/* Which of the names are given. See htcondor.h. */
#include "src/serve/htcondor.h"

#include <string.h>
#include <strings.h>

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

bool htcondor_boolean(const char *value, bool *ret_value)
{
    *ret_value = strcasecmp(value, "True") == 0;
    return *ret_value || strcasecmp(value, "False") == 0;
}

void htcondor_warn(const struct htcondor_names *names, const struct htcondor_idle *table,
                   size_t count, FILE *to)
{
    for (size_t i = 0; i < count; i++)
        if (text_of(names, table[i].name)[0] != '\0')
            fprintf(to, "warning: htcondor.%s has no effect here: %s\n", table[i].name,
                    table[i].ours);
}
