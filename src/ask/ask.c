/* The profiles that there are. See ask.h. */
#include "src/ask/ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fsm/profiles.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

static const struct {
    const char *profile;
    const struct ask_ops *ops;
} rows[] = {
#define X(row, profile, level) {profile, &ask_##row},
    FSM_PROFILES(X)
#undef X
};

static size_t row_of(const char *profile)
{
    if (profile[0] == '\0')
        return 0;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (strcmp(rows[i].profile, profile) == 0)
            return i;
    }
    return ARRAY_COUNT(rows);
}

const struct ask_ops *ask_find(const char *profile)
{
    size_t i = row_of(profile);

    return i < ARRAY_COUNT(rows) ? rows[i].ops : NULL;
}

const char *ask_name(const char *profile)
{
    size_t i = row_of(profile);

    return i < ARRAY_COUNT(rows) ? rows[i].profile : NULL;
}

const char *ask_profile_at(size_t i, const struct ask_ops **ret_ops)
{
    if (i >= ARRAY_COUNT(rows))
        return NULL;
    *ret_ops = rows[i].ops;
    return rows[i].profile;
}

const char *ask_shown(const struct ask_target *target)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (rows[i].ops->shown != NULL && rows[i].ops->shown(target))
            return rows[i].profile;
    return rows[0].profile;
}

/* Texts are rows' own and short: what does not fit is cut. */
__attribute__((format(printf, 2, 3))) static void add(char text[ASK_PROFILES_BYTES],
                                                      const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + length, ASK_PROFILES_BYTES - length, format, arguments);
    va_end(arguments);
}

const char *ask_profiles(char text[ASK_PROFILES_BYTES])
{
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        add(text, "%s%s (%s)", i == 0 ? "" : ", ", rows[i].profile, rows[i].ops->about);
    return text;
}

const char *ask_profiles_registering(char text[ASK_PROFILES_BYTES])
{
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].ops->registers)
            add(text, "%s%s", text[0] == '\0' ? "" : " or ", rows[i].profile);
    }
    return text;
}
