/* Lines on stderr. See log.h. */
#include "src/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "src/base/log_json.h"
#include "src/base/log_values.h"

static enum log_level log_minimum = LOG_LEVEL_INFO;
static enum log_format log_format;
static char log_identity[160];
static log_sink_fn *log_sink;
static bool log_priorities;

/* The flight recorder: the last lines, cut, as a ring. */
static struct log_kept {
    uint16_t length;
    char text[LOG_KEPT_BYTES];
} log_kept[LOG_KEPT_LINES];
static unsigned log_kept_next;

static const char *const log_format_names[] = {"logfmt", "json"};
static const char *const log_level_names[] = {"debug", "info", "warning", "error"};
static const char *const log_level_priorities[] = {"<7>", "<6>", "<4>", "<3>"};

void log_set_level(enum log_level level)
{
    log_minimum = level;
}

int log_parse_level(const char *text, enum log_level *ret_level)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, log_level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

void log_set_format(enum log_format format)
{
    log_format = format;
}

int log_parse_format(const char *text, enum log_format *ret_format)
{
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, log_format_names[i]) == 0) {
            *ret_format = (enum log_format)i;
            return 0;
        }
    }
    return -1;
}

const char *log_format_name(enum log_format format)
{
    return log_format_names[format];
}

void log_set_identity(const char *program, const char *name)
{
    snprintf(log_identity, sizeof(log_identity), "program=%s name=%s ", program, name);
}

void log_set_priorities(bool wanted)
{
    log_priorities = wanted;
}

void log_plain(enum log_level level, const char *format, ...)
{
    va_list arguments;

    fputs(log_priorities ? log_level_priorities[level] : "", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

void log_set_sink(log_sink_fn *sink)
{
    log_sink = sink;
}

/* Down to the second; most lines are of the same as the one before. */
static const char *log_second(time_t second)
{
    static char text[32];
    static time_t written = -1;
    struct tm utc;

    if (second != written) {
        gmtime_r(&second, &utc);
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
        written = second;
    }
    return text;
}

static size_t log_head(char *line, size_t size, enum log_level level, const char *event)
{
    struct timespec now;
    int used;

    clock_gettime(CLOCK_REALTIME, &now);
    used = snprintf(line, size, "time=%s.%03ldZ level=%s %sevent=%s ", log_second(now.tv_sec),
                    now.tv_nsec / 1000000, log_level_names[level], log_identity, event);
    return used < 0 ? 0 : (size_t)used;
}

/* Control bytes in values that came from outside must not forge a second line; log_values() keeps
 * them from forging a second value. */
static void log_flatten(char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    }
}

static void log_write(const char *bytes, size_t length)
{
    ssize_t written;

    do {
        written = write(STDERR_FILENO, bytes, length);
    } while (written < 0 && errno == EINTR);
}

static void log_keep(const char *line, size_t length)
{
    struct log_kept *kept = &log_kept[log_kept_next++ % LOG_KEPT_LINES];

    kept->length = (uint16_t)(length < LOG_KEPT_BYTES ? length : LOG_KEPT_BYTES);
    memcpy(kept->text, line, kept->length);
    kept->text[kept->length - 1] = '\n';
}

void log_dump(void)
{
    for (unsigned i = 0; i < LOG_KEPT_LINES; i++) {
        const struct log_kept *kept = &log_kept[(log_kept_next + i) % LOG_KEPT_LINES];

        if (kept->length > 0) {
            log_write("kept ", 5);
            log_write(kept->text, kept->length);
        }
    }
}

static size_t line_of(char line[LOG_LINE_BYTES], enum log_level level, const char *event,
                      const char *format, va_list arguments)
{
    size_t used = log_head(line, LOG_LINE_BYTES - 1, level, event);

    used += log_values(line + used, LOG_LINE_BYTES - 1 - used, format, arguments);
    log_flatten(line, used);
    line[used++] = '\n';
    return used;
}

size_t log_line(char ret_line[LOG_LINE_BYTES], enum log_level level, const char *event,
                const char *format, ...)
{
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    length = line_of(ret_line, level, event, format, arguments);
    va_end(arguments);
    return length;
}

/* One call of the system: lines of several processes do not mix. */
static void log_write_after(const char *priority, const char *line, size_t length)
{
    struct iovec parts[] = {{(void *)priority, strlen(priority)}, {(void *)line, length}};
    ssize_t written;

    do {
        written = writev(STDERR_FILENO, parts, 2);
    } while (written < 0 && errno == EINTR);
}

/* To the sink or stderr, in the format that was set. */
static void log_out(enum log_level level, const char *line, size_t length)
{
    char json[LOG_JSON_BYTES];

    if (log_format == LOG_FORMAT_JSON) {
        length = log_json(line, length, json);
        line = json;
    }
    if (log_sink != NULL && log_sink(line, length))
        return;
    if (log_priorities)
        log_write_after(log_level_priorities[level], line, length);
    else
        log_write(line, length);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char line[LOG_LINE_BYTES];
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    length = line_of(line, level, event, format, arguments);
    va_end(arguments);
    log_keep(line, length);
    if (level >= log_minimum)
        log_out(level, line, length);
}
