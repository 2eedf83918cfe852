/* Values with units. See number.h.
 *
 * Flow     digits, an optional decimal fraction, a unit from a table; all in integers, so that
 *          0.1GB is exactly 100,000,000.
 */
#include "src/base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {{"ms", 1},      {"s", 1000},    {"m", 60000},
                                             {"min", 60000}, {"h", 3600000}, {"d", 86400000},
                                             {NULL, 0}};
static const struct unit size_units[] = {{"", 1},
                                         {"B", 1},
                                         {"KB", 1000},
                                         {"kB", 1000},
                                         {"MB", 1000000},
                                         {"GB", 1000000000},
                                         {"TB", 1000000000000},
                                         {"PB", 1000000000000000},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GiB", UINT64_C(1) << 30},
                                         {"TiB", UINT64_C(1) << 40},
                                         {"PiB", UINT64_C(1) << 50},
                                         {NULL, 0}};
static const struct unit share_units[] = {{"", 1000000}, {"%", 10000}, {NULL, 0}};

static const char *expected_form(enum number_kind kind)
{
    switch (kind) {
    case NUMBER_PLAIN:
        return "a whole number";
    case NUMBER_DURATION:
        return "a duration like 250ms, 30s, 5m, 2h, 7d or 1h30m";
    case NUMBER_SIZE:
        return "a size like 512, 40GB or 1.5GiB";
    case NUMBER_RATE:
        return "a rate like 500MB/s or 10GB/s";
    case NUMBER_SHARE:
        return "a share like 0.3 or 30%";
    }
    CHECK_UNREACHABLE("number kind");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t length)
{
    for (const struct unit *unit = units; unit->name != NULL; unit++)
        if (strlen(unit->name) == length && memcmp(unit->name, name, length) == 0)
            return unit;
    return NULL;
}

/* One "digits[.digits]unit" at *text, which is moved behind it. A fraction of the smallest unit is
 * no value. */
static int parse_part(const struct unit *units, const char **text, uint64_t *ret_value)
{
    const char *p = *text;
    unsigned __int128 mantissa = 0;
    unsigned __int128 divisor = 1;
    const struct unit *unit;
    bool fraction = false;

    if (!is_digit(*p))
        return -1;
    for (; is_digit(*p) || (*p == '.' && !fraction && is_digit(p[1])); p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        mantissa = mantissa * 10 + (unsigned)(*p - '0');
        divisor *= fraction ? 10 : 1;
        if (mantissa > UINT64_MAX || divisor > UINT64_C(1000000000000))
            return -1;
    }
    const char *name = p;
    while (*p != '\0' && !is_digit(*p) && *p != '.')
        p++;
    unit = find_unit(units, name, (size_t)(p - name));
    if (unit == NULL || (fraction && unit->factor == 1))
        return -1;
    mantissa = mantissa * unit->factor / divisor;
    if (mantissa > UINT64_MAX)
        return -1;
    *text = p;
    *ret_value = (uint64_t)mantissa;
    return 0;
}

static int parse_plain(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (*text == '\0')
        return -1;
    for (; *text != '\0'; text++)
        if (!is_digit(*text) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -1;
    *ret_value = value;
    return 0;
}

static int parse_duration(const char *text, uint64_t *ret_value)
{
    uint64_t total = 0;

    if (strcmp(text, "0") == 0) {
        *ret_value = 0;
        return 0;
    }
    do {
        uint64_t part;

        if (parse_part(duration_units, &text, &part) != 0 ||
            __builtin_add_overflow(total, part, &total))
            return -1;
    } while (*text != '\0');
    *ret_value = total;
    return 0;
}

static int parse_scaled(const struct unit *units, const char *text, const char *suffix,
                        uint64_t *ret_value)
{
    char copy[64];
    size_t length = strlen(text);
    const char *p = copy;

    if (length >= sizeof(copy))
        return -1;
    memcpy(copy, text, length + 1);
    if (suffix != NULL && length > strlen(suffix) &&
        strcmp(copy + length - strlen(suffix), suffix) == 0)
        copy[length - strlen(suffix)] = '\0';
    return parse_part(units, &p, ret_value) == 0 && *p == '\0' ? 0 : -1;
}

static int parse_kind(enum number_kind kind, const char *text, uint64_t *ret_value)
{
    switch (kind) {
    case NUMBER_PLAIN:
        return parse_plain(text, ret_value);
    case NUMBER_DURATION:
        return parse_duration(text, ret_value);
    case NUMBER_SIZE:
        return parse_scaled(size_units, text, NULL, ret_value);
    case NUMBER_RATE:
        return parse_scaled(size_units, text, "/s", ret_value);
    case NUMBER_SHARE:
        return parse_scaled(share_units, text, NULL, ret_value);
    }
    CHECK_UNREACHABLE("number kind");
}

/* "5 to 10 are taken"; what has no upper limit has none in words either. */
static const char *range_text(enum number_kind kind, struct number_range range, char *text,
                              size_t size)
{
    char low[NUMBER_TEXT_BYTES], high[NUMBER_TEXT_BYTES];

    if (range.max == UINT64_MAX)
        snprintf(text, size, "%s and more are taken", number_format(kind, range.min, low));
    else
        snprintf(text, size, "%s to %s are taken", number_format(kind, range.min, low),
                 number_format(kind, range.max, high));
    return text;
}

static int number_refuse(enum number_kind kind, const char *text, struct number_range range,
                         bool bare, struct err *err)
{
    static const char *const units[] = {"", " or a whole number of milliseconds", "", "",
                                        " or a whole number of parts per million"};
    char limits[2 * NUMBER_TEXT_BYTES + 32], shown[64];

    return err_set(err, ERR_INVALID, "\"%s\" is not %s%s; %s",
                   text_shown(text, shown, sizeof(shown)), expected_form(kind),
                   bare ? units[kind] : "", range_text(kind, range, limits, sizeof(limits)));
}

static int number_in_range(enum number_kind kind, const char *text, uint64_t value,
                           struct number_range range, struct err *err)
{
    char limits[2 * NUMBER_TEXT_BYTES + 32], shown[64];

    if (value >= range.min && value <= range.max)
        return 0;
    return err_set(err, ERR_INVALID, "\"%s\" is out of range; %s",
                   text_shown(text, shown, sizeof(shown)),
                   range_text(kind, range, limits, sizeof(limits)));
}

static int number_take(enum number_kind kind, const char *text, struct number_range range,
                       bool bare, uint64_t *ret_number, struct err *err)
{
    uint64_t value;

    CHECK(range.min <= range.max);
    if (!(bare && parse_plain(text, &value) == 0) && parse_kind(kind, text, &value) != 0)
        return number_refuse(kind, text, range, bare, err);
    if (number_in_range(kind, text, value, range, err) != 0)
        return -1;
    *ret_number = value;
    return 0;
}

int number_parse(enum number_kind kind, const char *text, struct number_range range,
                 uint64_t *ret_number, struct err *err)
{
    return number_take(kind, text, range, false, ret_number, err);
}

int number_parse_in_unit(enum number_kind kind, const char *text, struct number_range range,
                         uint64_t *ret_number, struct err *err)
{
    return number_take(kind, text, range, true, ret_number, err);
}

enum number_kind number_named(const char *name, size_t *ret_stem)
{
    static const struct {
        const char *unit;
        enum number_kind kind;
    } units[] = {{"_bytes_per_s", NUMBER_RATE},
                 {"_ms", NUMBER_DURATION},
                 {"_bytes", NUMBER_SIZE},
                 {"_ppm", NUMBER_SHARE}};
    size_t length = strlen(name);

    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        size_t unit = strlen(units[i].unit);
        if (length > unit && strcmp(name + length - unit, units[i].unit) == 0) {
            *ret_stem = length - unit;
            return units[i].kind;
        }
    }
    *ret_stem = length;
    return NUMBER_PLAIN;
}

/* The largest unit of the table that divides the value; the factor 1 divides everything. */
static const char *format_units(const struct unit *units, uint64_t value, const char *suffix,
                                char text[NUMBER_TEXT_BYTES])
{
    const struct unit *best = NULL;

    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (value % unit->factor == 0 &&
            (best == NULL || (value > 0 && unit->factor > best->factor)))
            best = unit;
    }
    CHECK(best != NULL);
    snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu64 "%s%s", value / best->factor, best->name, suffix);
    return text;
}

/* Parts per million as a percentage without trailing zeros: they are ten-thousandths of a
 * percent. */
static const char *format_share(uint64_t ppm, char text[NUMBER_TEXT_BYTES])
{
    unsigned digits = 4;
    uint64_t fraction = ppm % 10000;

    while (digits > 0 && fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    if (digits == 0)
        snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu64 "%%", ppm / 10000);
    else
        snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu64 ".%0*" PRIu64 "%%", ppm / 10000, (int)digits,
                 fraction);
    return text;
}

const char *number_format(enum number_kind kind, uint64_t value, char text[NUMBER_TEXT_BYTES])
{
    static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

    switch (kind) {
    case NUMBER_PLAIN:
        return format_units(plain_units, value, "", text);
    case NUMBER_DURATION:
        return format_units(duration_units, value, "", text);
    case NUMBER_SIZE:
        return format_units(size_units + 1, value, "", text); /* from "B" on */
    case NUMBER_RATE:
        return format_units(size_units + 1, value, "/s", text);
    case NUMBER_SHARE:
        return format_share(value, text);
    }
    CHECK_UNREACHABLE("number kind");
}
