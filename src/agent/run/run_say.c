/* The lines of ckpt-run on standard error. See run_say.h. */
#include "src/agent/run/run_say.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/agent/run/run_output.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/cli/owner.h"

enum { LINE_BYTES = 4096, CAUSE_BYTES = 512 };

static struct {
    bool quiet;
    uint64_t said_ms; /* the cause was, last; 0: not in this wait */
    char cause[CAUSE_BYTES];
} said;

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* At once: others write there too. Texts of members and agents name ckptctl, which an owner may
 * have no key for. */
static void say_line(const char *format, va_list arguments)
{
    char text[LINE_BYTES], at[WORDS_BYTES], *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);

    CHECK(out != NULL);
    vsnprintf(text, sizeof(text), format, arguments);
    fprintf(out, "%s ckpt-run: ", words_now(at));
    owner_words(out, text);
    fputc('\n', out);
    fclose(out);
    run_output_line(line);
    free(line);
}

void run_say_quiet(bool quiet)
{
    said.quiet = quiet;
}

void run_say_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
}

void run_say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (!said.quiet)
        say_line(format, arguments);
    va_end(arguments);
}

void run_say_waiting(const char *format, ...)
{
    char cause[CAUSE_BYTES];
    uint64_t now_ms = monotonic_ms();
    va_list arguments;
    bool same;

    va_start(arguments, format);
    vsnprintf(cause, sizeof(cause), format, arguments);
    va_end(arguments);
    same = said.said_ms != 0 && strncmp(cause, said.cause, strlen(cause)) == 0;
    if (same && now_ms - said.said_ms < RUN_SAY_AGAIN_MS)
        return;
    said.said_ms = now_ms;
    if (!same)
        memcpy(said.cause, cause, sizeof(said.cause));
    run_say("%s", said.cause);
}

void run_say_over(void)
{
    said.said_ms = 0;
}

const char *run_say_cause(void)
{
    return said.said_ms == 0 ? "" : said.cause;
}
