/* See instant.h. */
#include "src/cli/instant.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/number.h"

enum { DAY_S = 86400, EPOCH_DIGITS = 13 };
#define AGO_MAX_MS UINT64_C(315360000000) /* ten years */

/* Of at most that many digits; none: false. */
static bool take_digits(const char **at, int digits, int *ret_number)
{
    int number = 0, count = 0;

    for (; count < digits && isdigit((unsigned char)**at); count++)
        number = number * 10 + (*(*at)++ - '0');
    *ret_number = number;
    return count == digits;
}

static bool take_character(const char **at, char expected)
{
    if (**at != expected)
        return false;
    (*at)++;
    return true;
}

/* "10:31" or "10:31:07" */
static bool take_clock(const char **at, struct tm *tm)
{
    tm->tm_sec = 0;
    if (!take_digits(at, 2, &tm->tm_hour) || !take_character(at, ':') ||
        !take_digits(at, 2, &tm->tm_min))
        return false;
    if (take_character(at, ':') && !take_digits(at, 2, &tm->tm_sec))
        return false;
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 60;
}

static bool take_fraction(const char **at, int *ret_ms)
{
    *ret_ms = 0;
    return !take_character(at, '.') || take_digits(at, 3, ret_ms);
}

/* "+0100"; nothing: local. */
static bool take_zone(const char **at, bool *ret_given, long *ret_east_s)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes;

    *ret_given = **at == '+' || **at == '-' || **at == 'Z';
    *ret_east_s = 0;
    if (!*ret_given || take_character(at, 'Z'))
        return true;
    (*at)++;
    if (!take_digits(at, 2, &hours) || !take_digits(at, 2, &minutes))
        return false;
    *ret_east_s = sign * (hours * 3600L + minutes * 60L);
    return true;
}

static bool parse_date(const char *text, uint64_t *ret_ms)
{
    struct tm tm = {.tm_isdst = -1};
    const char *at = text;
    int ms = 0;
    long east_s;
    bool zone;
    time_t seconds;

    if (!take_digits(&at, 4, &tm.tm_year) || !take_character(&at, '-') ||
        !take_digits(&at, 2, &tm.tm_mon) || !take_character(&at, '-') ||
        !take_digits(&at, 2, &tm.tm_mday) || (*at != 'T' && *at != ' ') || tm.tm_year < 1970 ||
        tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31)
        return false;
    at++;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    if (!take_clock(&at, &tm) || !take_fraction(&at, &ms) || !take_zone(&at, &zone, &east_s) ||
        *at != '\0')
        return false;
    seconds = zone ? timegm(&tm) - east_s : mktime(&tm);
    *ret_ms = (uint64_t)seconds * 1000 + (uint64_t)ms;
    return seconds >= 0;
}

static bool parse_clock(const char *text, uint64_t now_ms, uint64_t *ret_ms)
{
    time_t now_s = (time_t)(now_ms / 1000), seconds;
    const char *at = text;
    struct tm tm;

    if (localtime_r(&now_s, &tm) == NULL || !take_clock(&at, &tm) || *at != '\0')
        return false;
    tm.tm_isdst = -1;
    seconds = mktime(&tm);
    if (seconds > now_s)
        seconds -= DAY_S;
    *ret_ms = (uint64_t)seconds * 1000;
    return seconds >= 0;
}

int instant_parse(const char *text, uint64_t now_ms, uint64_t *ret_ms, struct err *err)
{
    struct err ignored;
    uint64_t ago_ms;

    if (strlen(text) == EPOCH_DIGITS && strspn(text, "0123456789") == EPOCH_DIGITS) {
        *ret_ms = strtoull(text, NULL, 10);
        return 0;
    }
    if (parse_date(text, ret_ms) || parse_clock(text, now_ms, ret_ms))
        return 0;
    if (number_parse(NUMBER_DURATION, text, (struct number_range){0, AGO_MAX_MS}, &ago_ms,
                     &ignored) == 0 &&
        ago_ms < now_ms) {
        *ret_ms = now_ms - ago_ms;
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "\"%s\" is no instant: 10m (ago), 10:31:07, 2026-11-20T10:31:07+0000, or 13 "
                   "digits of milliseconds since the epoch",
                   text);
}
