/* Values of a log line. See log_values.h. */
#include "src/base/log_values.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"

enum { SPEC_BYTES = 32 };

struct line {
    char *text;
    size_t size;
    size_t length;
    bool quoted;     /* inside quotes of the format */
    size_t value_at; /* where the value without quotes begins; 0: there is none */
};

struct arguments {
    va_list list;
};

static void append_byte(struct line *line, char byte)
{
    if (line->length + 1 < line->size)
        line->text[line->length++] = byte;
}

static void append_escaped(struct line *line, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        /* both bytes or none: a backslash alone would take the quote that ends the value */
        if (line->length + 2 >= line->size)
            return;
        if (text[i] == '"' || text[i] == '\\')
            append_byte(line, '\\');
        append_byte(line, text[i]);
    }
}

static bool is_open(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == '"' || text[i] == '=' || text[i] == 0x7f)
            return true;
    return false;
}

/* The value without quotes is whole: it gets them where it would be read as more than one. */
static void end_value(struct line *line)
{
    char value[LOG_LINE_BYTES];
    size_t length = line->length - line->value_at;

    if (line->value_at != 0 && is_open(line->text + line->value_at, length)) {
        CHECK(length <= sizeof(value));
        memcpy(value, line->text + line->value_at, length);
        line->length = line->value_at;
        append_byte(line, '"');
        append_escaped(line, value, length);
        append_byte(line, '"');
    }
    line->value_at = 0;
}

static void append_literal(struct line *line, char byte)
{
    if (byte == ' ' && !line->quoted)
        end_value(line);
    if (byte == '"') {
        line->quoted = !line->quoted;
        line->value_at = 0;
    }
    append_byte(line, byte);
    if (byte == '=' && !line->quoted && line->value_at == 0)
        line->value_at = line->length;
}

static void append_argument(struct line *line, const char *text, size_t length)
{
    if (line->quoted) {
        append_escaped(line, text, length);
        return;
    }
    for (size_t i = 0; i < length; i++)
        append_byte(line, text[i]);
}

/* ---- conversions ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* The widths of a conversion's argument, as its letters say. */
static int write_number(const char *spec, size_t spec_length, struct arguments *arguments,
                        char *ret_text, size_t size)
{
    const char kind = spec[spec_length - 1];
    const char before = spec_length > 2 ? spec[spec_length - 2] : '\0';

    if (strchr("eEfFgGaA", kind) != NULL)
        return snprintf(ret_text, size, spec, va_arg(arguments->list, double));
    if (kind == 'p')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, void *));
    if (before == 'l' && spec_length > 3 && spec[spec_length - 3] == 'l')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, long long));
    if (before == 'l')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, long));
    if (before == 'z' || before == 't')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, size_t));
    if (before == 'j')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, intmax_t));
    CHECK(strchr("diuxXoc", kind) != NULL);
    return snprintf(ret_text, size, spec, va_arg(arguments->list, int));
}

static int write_argument(const char *spec, size_t spec_length, struct arguments *arguments,
                          char *ret_text, size_t size)
{
    if (spec[spec_length - 1] == 's')
        return snprintf(ret_text, size, spec, va_arg(arguments->list, const char *));
    return write_number(spec, spec_length, arguments, ret_text, size);
}

#pragma GCC diagnostic pop

/* Copies one conversion, with the number in the place of each star. Returns what follows it. */
static const char *take_spec(const char *format, struct arguments *arguments,
                             char ret_spec[SPEC_BYTES], size_t *ret_length)
{
    size_t length = 0;

    CHECK(*format == '%');
    do {
        CHECK(length + 12 < SPEC_BYTES);
        if (*format == '*')
            length += (size_t)snprintf(ret_spec + length, SPEC_BYTES - length, "%d",
                                       va_arg(arguments->list, int));
        else
            ret_spec[length++] = *format;
        format++;
    } while (strchr("-+ #0123456789.*hlzjt", format[-1]) != NULL || length == 1);
    ret_spec[length] = '\0';
    *ret_length = length;
    return format;
}

size_t log_values(char *ret_text, size_t size, const char *format, va_list list)
{
    struct line line = {.text = ret_text, .size = size};
    char spec[SPEC_BYTES], text[LOG_LINE_BYTES];
    struct arguments arguments;
    size_t spec_length;

    CHECK(size > 0);
    CHECK(size <= sizeof(text));
    va_copy(arguments.list, list);
    while (*format != '\0') {
        int length;

        if (*format != '%') {
            append_literal(&line, *format++);
            continue;
        }
        format = take_spec(format, &arguments, spec, &spec_length);
        if (strcmp(spec, "%%") == 0) {
            append_literal(&line, '%');
            continue;
        }
        length = write_argument(spec, spec_length, &arguments, text, sizeof(text));
        CHECK(length >= 0);
        append_argument(&line, text,
                        (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
    }
    va_end(arguments.list);
    if (!line.quoted)
        end_value(&line);
    ret_text[line.length] = '\0';
    return line.length;
}
