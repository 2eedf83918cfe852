/* Names of signals. See signal_name.h. */
#include "src/base/signal_name.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/check.h"
#include "src/base/number.h"

/* Of two signals that the C library keeps for itself nobody else may send one: SIGRTMIN is beyond
 * them. */
static bool may_be_sent(int signal)
{
    return signal > 0 && signal <= SIGRTMAX && signal != SIGKILL && signal != SIGSTOP &&
           (signal < 32 || signal >= SIGRTMIN);
}

/* -1: it is no such name. */
static int real_time_number(const char *name)
{
    const bool from_first = strncasecmp(name, "RTMIN", 5) == 0;
    const int span = SIGRTMAX - SIGRTMIN;
    const struct number_range range = {.min = 0, .max = (uint64_t)span};
    uint64_t more = 0;

    if (!from_first && strncasecmp(name, "RTMAX", 5) != 0)
        return -1;
    if (name[5] != '\0' && (name[5] != (from_first ? '+' : '-') ||
                            number_parse(NUMBER_PLAIN, name + 6, range, &more, NULL) != 0))
        return -1;
    return from_first ? SIGRTMIN + (int)more : SIGRTMAX - (int)more;
}

static int named_number(const char *name)
{
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        const char *known = sigabbrev_np(signal);

        if (known != NULL && strcasecmp(name, known) == 0)
            return signal;
    }
    return -1;
}

int signal_name_parse(const char *text, struct err *err)
{
    const struct number_range range = {.min = 1, .max = (uint64_t)SIGRTMAX};
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    uint64_t number;
    int signal = -1;

    if (text[0] >= '0' && text[0] <= '9')
        signal = number_parse(NUMBER_PLAIN, text, range, &number, NULL) == 0 ? (int)number : -1;
    else if ((signal = real_time_number(name)) < 0)
        signal = named_number(name);
    if (may_be_sent(signal))
        return signal;
    return err_set(err, ERR_INVALID,
                   "\"%.32s\" is no signal that a program can take: name one as TERM, USR1 or "
                   "RTMIN+3, or by its number, 1 to %d; not KILL and STOP",
                   text, SIGRTMAX);
}

const char *signal_name_format(int signal, char text[SIGNAL_NAME_BYTES])
{
    CHECK(signal > 0);
    if (signal >= SIGRTMIN)
        snprintf(text, SIGNAL_NAME_BYTES, "RTMIN+%d", signal - SIGRTMIN);
    else if (sigabbrev_np(signal) != NULL)
        snprintf(text, SIGNAL_NAME_BYTES, "%s", sigabbrev_np(signal));
    else
        snprintf(text, SIGNAL_NAME_BYTES, "%d", signal);
    return text;
}
