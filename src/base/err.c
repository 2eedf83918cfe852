/* One line of error text with a code. See err.h. */
#include "src/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_mark_cut(char *text, int wanted)
{
    if (wanted >= ERR_TEXT_BYTES)
        memcpy(text + ERR_TEXT_BYTES - 4, "...", 4);
}

int err_set(struct err *err, enum err_code code, const char *format, ...)
{
    va_list arguments;

    if (err == NULL)
        return -1;
    err->code = code;
    va_start(arguments, format);
    err_mark_cut(err->text, vsnprintf(err->text, sizeof(err->text), format, arguments));
    va_end(arguments);
    return -1;
}

int err_wrap(struct err *err, const char *format, ...)
{
    char inner[ERR_TEXT_BYTES];
    va_list arguments;
    int used;

    if (err == NULL)
        return -1;
    memcpy(inner, err->text, sizeof(inner));
    va_start(arguments, format);
    used = vsnprintf(err->text, sizeof(err->text), format, arguments);
    va_end(arguments);
    if (used >= 0 && used < ERR_TEXT_BYTES)
        err_mark_cut(err->text, used + snprintf(err->text + used, sizeof(err->text) - (size_t)used,
                                                ": %s", inner));
    return -1;
}

const char *err_code_name(enum err_code code)
{
    static const char *const names[] = {
        [ERR_NONE] = "NONE",           [ERR_IO] = "IO",           [ERR_CORRUPT] = "CORRUPT",
        [ERR_INVALID] = "INVALID",     [ERR_LOCKED] = "LOCKED",   [ERR_FULL] = "FULL",
        [ERR_NOT_FOUND] = "NOT_FOUND", [ERR_TIMEOUT] = "TIMEOUT", [ERR_UNAVAILABLE] = "UNAVAILABLE",
        [ERR_MISMATCH] = "MISMATCH",   [ERR_REFUSED] = "REFUSED", [ERR_AUTH] = "AUTH",
        [ERR_EMPTY] = "EMPTY",         [ERR_REMOVED] = "REMOVED", [ERR_DISK] = "DISK",
        [ERR_QUOTA] = "QUOTA",         [ERR_BUSY] = "BUSY",       [ERR_NEWER] = "NEWER",
        [ERR_UNFIT] = "UNFIT",         [ERR_NO_ROOM] = "NO_ROOM", [ERR_NOBODY] = "NOBODY",
    };
    return (size_t)code < sizeof(names) / sizeof(names[0]) ? names[code] : "UNKNOWN";
}
