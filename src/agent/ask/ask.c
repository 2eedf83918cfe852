/* The profiles that there are. See ask.h. */
#include "src/agent/ask/ask.h"

#include <string.h>

#include "src/base/check.h"

static const struct ask_ops *const ask_table[] = {&ask_signal_usr1, &ask_signal_usr2, &ask_grpc};

const struct ask_ops *ask_find(const char *profile)
{
    if (profile[0] == '\0')
        return ask_table[0];
    for (size_t i = 0; i < ARRAY_COUNT(ask_table); i++) {
        if (strcmp(ask_table[i]->profile, profile) == 0)
            return ask_table[i];
    }
    return NULL;
}

const char *ask_profile_at(size_t i)
{
    return i < ARRAY_COUNT(ask_table) ? ask_table[i]->profile : NULL;
}

const char *ask_profiles(void)
{
    return "signal (SIGUSR1), signal-usr2 (SIGUSR2), grpc (a call to what the application "
           "registered); shm, exec, criu and dmtcp are UNIMPLEMENTED in this version";
}
