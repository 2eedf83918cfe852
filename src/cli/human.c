/* Values as people read them. */
#include "src/cli/human.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/base/text.h"

const char *human_count(uint64_t value, char text[HUMAN_BYTES])
{
    snprintf(text, HUMAN_BYTES, "%" PRIu64, value);
    return text;
}

const char *human_grouped(int64_t value, char text[HUMAN_BYTES])
{
    char digits[HUMAN_BYTES];
    size_t length, out = 0;

    snprintf(digits, sizeof(digits), "%" PRId64, value);
    length = strlen(digits);
    for (size_t i = 0; i < length; i++) {
        text[out++] = digits[i];
        if (isdigit((unsigned char)digits[i]) && i + 1 < length && (length - i - 1) % 3 == 0)
            text[out++] = ' ';
    }
    text[out] = '\0';
    CHECK(out < HUMAN_BYTES);
    return text;
}

const char *human_duration(uint64_t ms, char text[HUMAN_BYTES])
{
    uint64_t s = ms / 1000;

    if (ms >= UINT64_C(9200000000000000000)) /* also what was saturated */
        snprintf(text, HUMAN_BYTES, "never");
    else if (ms < 1000)
        snprintf(text, HUMAN_BYTES, "%" PRIu64 "ms", ms);
    else if (s < 10)
        snprintf(text, HUMAN_BYTES, "%" PRIu64 ".%" PRIu64 "s", s, ms % 1000 / 100);
    else if (s < 60)
        snprintf(text, HUMAN_BYTES, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(text, HUMAN_BYTES, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, HUMAN_BYTES, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s % 3600 / 60);
    else
        snprintf(text, HUMAN_BYTES, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s % 86400 / 3600);
    return text;
}

static const char *scale_units(uint64_t value, unsigned base, const char *const *units,
                               const char *suffix, char text[HUMAN_BYTES])
{
    double scaled_value = (double)value;
    size_t unit = 0;

    while (units[unit + 1] != NULL && scaled_value >= base) {
        scaled_value /= base;
        unit++;
    }
    snprintf(text, HUMAN_BYTES, unit == 0 || scaled_value >= 1000 ? "%.0f %s%s" : "%.1f %s%s",
             scaled_value, units[unit], suffix);
    return text;
}

static const char *const binary_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};
static const char *const decimal_units[] = {"B", "kB", "MB", "GB", "TB", "PB", NULL};

enum exactness { SHOWN_ROUNDED, SHOWN_IN_TENTHS, SHOWN_WHOLE };

/* Of a thousand at least: nobody gives fewer bytes in a unit. */
static enum exactness exactness_in(uint64_t value, unsigned base)
{
    uint64_t unit = base;

    if (value < 1000 || value > UINT64_MAX / 10)
        return SHOWN_ROUNDED;
    while (unit <= value / base)
        unit *= base;
    if (value % unit == 0)
        return SHOWN_WHOLE;
    return value * 10 % unit == 0 ? SHOWN_IN_TENTHS : SHOWN_ROUNDED;
}

/* 500GB is read as 500 GB again, and 500GiB as 500 GiB: the one of the two that shows a number more
 * exactly is how it was given. A measured size is exact in neither. */
const char *human_size(uint64_t bytes, char text[HUMAN_BYTES])
{
    if (exactness_in(bytes, 1000) > exactness_in(bytes, 1024))
        return scale_units(bytes, 1000, decimal_units, "", text);
    return scale_units(bytes, 1024, binary_units, "", text);
}

const char *human_rate(uint64_t bytes_per_s, char text[HUMAN_BYTES])
{
    if (exactness_in(bytes_per_s, 1024) > exactness_in(bytes_per_s, 1000))
        return scale_units(bytes_per_s, 1024, binary_units, "/s", text);
    return scale_units(bytes_per_s, 1000, decimal_units, "/s", text);
}

const char *human_share(uint64_t ppm, char text[HUMAN_BYTES])
{
    snprintf(text, HUMAN_BYTES, "%.4g%%", (double)ppm / 10000);
    return text;
}

static bool same_day(const struct tm *a, const struct tm *b)
{
    return a->tm_year == b->tm_year && a->tm_yday == b->tm_yday;
}

const char *human_clock(uint64_t at_ms, char text[HUMAN_BYTES])
{
    time_t at_s = (time_t)(at_ms / 1000);
    time_t now_s = time(NULL);
    struct tm at, now;

    if (at_ms == 0 || localtime_r(&at_s, &at) == NULL || localtime_r(&now_s, &now) == NULL) {
        snprintf(text, HUMAN_BYTES, "-");
        return text;
    }
    strftime(text, HUMAN_BYTES, same_day(&at, &now) ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &at);
    return text;
}

const char *human_instant(uint64_t at_ms, char text[HUMAN_BYTES])
{
    time_t at_s = (time_t)(at_ms / 1000);
    char date[40], zone[8];
    struct tm at;

    if (at_ms == 0 || localtime_r(&at_s, &at) == NULL) {
        snprintf(text, HUMAN_BYTES, "-");
        return text;
    }
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &at);
    strftime(zone, sizeof(zone), "%z", &at);
    snprintf(text, HUMAN_BYTES, "%s.%03u%s", date, (unsigned)(at_ms % 1000), zone);
    return text;
}

const char *human_checkpoint(uint64_t checkpoint_id, char text[HUMAN_BYTES])
{
    if (checkpoint_id == 0) {
        snprintf(text, HUMAN_BYTES, "-");
        return text;
    }
    return checkpoint_id_format(checkpoint_id, text);
}

bool human_is_instant(const char *field)
{
    const char *end = strstr(field, "_at_ms");

    return end != NULL && strcmp(end, "_at_ms") == 0;
}

const char *human_named(const char *field, uint64_t value, char text[HUMAN_BYTES])
{
    size_t stem;

    switch (number_named(field, &stem)) {
    case NUMBER_RATE:
        return human_rate(value, text);
    case NUMBER_DURATION:
        return human_is_instant(field) ? human_clock(value, text) : human_duration(value, text);
    case NUMBER_SHARE:
        return human_share(value, text);
    case NUMBER_SIZE:
        return human_size(value, text);
    case NUMBER_PLAIN:
        return human_count(value, text);
    }
    CHECK_UNREACHABLE("kind of number");
}

const char *human_gpu_s(int64_t gpu_ms, char text[HUMAN_BYTES])
{
    if (gpu_ms >= INT64_C(9200000000000000000)) {
        snprintf(text, HUMAN_BYTES, "> 9.2e15");
        return text;
    }
    if (gpu_ms > -10000 && gpu_ms < 10000 && gpu_ms != 0) { /* 0.017: small, and not nothing */
        snprintf(text, HUMAN_BYTES, "%.3g", (double)gpu_ms / 1e3);
        return text;
    }
    return human_grouped(gpu_ms / 1000, text);
}

const char *human_enum(const ProtobufCEnumDescriptor *type, int value, char text[HUMAN_BYTES])
{
    if (protobuf_c_enum_descriptor_get_value(type, value) == NULL)
        snprintf(text, HUMAN_BYTES, "UNKNOWN(%d)", value);
    else
        snprintf(text, HUMAN_BYTES, "%s", fsm_enum_name(type, value));
    return text;
}

const char *human_enum_words(const ProtobufCEnumDescriptor *type, int value, char text[HUMAN_BYTES])
{
    human_enum(type, value, text);
    for (char *p = text; *p != '\0'; p++)
        *p = *p == '_' ? ' ' : (char)tolower((unsigned char)*p);
    return text;
}

const char *human_safe(const char *from, char *text, size_t size)
{
    return text_shown(from == NULL ? "" : from, text, size);
}
