/* The key=value pairs of a log line, with values that nobody can break out of.
 *
 * Flow     log.c has a format and its arguments; here each argument is written. A value that came
 *          from outside stays one value. In quotes of the format its quotes and backslashes get a
 *          backslash. A value without quotes gets them where it has a blank, a quote, an equals
 *          sign or a control byte.
 * Shapes   a value begins behind an equals sign of the format and ends before its next blank. The
 *          format's own letters are taken as they are.
 * Errors   none: what does not fit is left out.
 * Absent   conversions that no log line of this project has (%n, %ls): a failed CHECK.
 */
#ifndef CKPT_BASE_LOG_VALUES_H
#define CKPT_BASE_LOG_VALUES_H

#include <stdarg.h>
#include <stddef.h>

/* Writes at most size - 1 bytes and a NUL; returns how many without it. */
__attribute__((format(printf, 3, 0))) size_t log_values(char *ret_text, size_t size,
                                                        const char *format, va_list arguments);

#endif
