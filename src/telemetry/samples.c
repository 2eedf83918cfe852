/* See samples.h. */
#include "src/telemetry/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

static const struct {
    const char *name;
    enum telemetry_kind_of_signal kind;
} signals[] = {
#define X(id, name, kind, factor, per_hour, hard) {name, TELEMETRY_##kind},
    TELEMETRY_SIGNALS(X)
#undef X
};

const char *telemetry_signal_name(enum telemetry_signal signal)
{
    CHECK((unsigned)signal < TELEMETRY_SIGNAL_COUNT);
    return signals[signal].name;
}

enum telemetry_kind_of_signal telemetry_signal_kind(enum telemetry_signal signal)
{
    CHECK((unsigned)signal < TELEMETRY_SIGNAL_COUNT);
    return signals[signal].kind;
}

void samples_init(struct samples *samples)
{
    memset(samples, 0, sizeof(*samples));
    buf_init(&samples->text);
}

void samples_close(struct samples *samples)
{
    free(samples->items);
    buf_close(&samples->text);
    samples_init(samples);
}

static bool name_possible(const char *name, size_t length)
{
    if (length == 0 || length > SAMPLES_SUBJECT_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    }
    return true;
}

uint32_t samples_add_subject(struct samples *samples, const char *name, size_t length)
{
    size_t place = samples->text.length;
    const char *last;

    if (!name_possible(name, length) || place + length + 1 > SAMPLES_TEXT_MAX)
        return SAMPLES_NO_SUBJECT - 1;
    if (samples->count > 0 && samples->items[samples->count - 1].subject < place) {
        uint32_t subject = samples->items[samples->count - 1].subject;

        last = samples_subject(samples, subject);
        if (strlen(last) == length && memcmp(last, name, length) == 0)
            return subject;
    }
    buf_append(&samples->text, name, length);
    buf_append(&samples->text, "", 1);
    return (uint32_t)place;
}

const char *samples_subject(const struct samples *samples, uint32_t subject)
{
    CHECK(subject < samples->text.length);
    return (const char *)samples->text.bytes + subject;
}

void samples_add(struct samples *samples, const struct telemetry_sample *sample)
{
    CHECK((unsigned)sample->signal < TELEMETRY_SIGNAL_COUNT);
    if (!(sample->value >= 0 && sample->value < SAMPLES_VALUE_END) ||
        sample->subject == SAMPLES_NO_SUBJECT - 1) {
        samples->refused++;
        return;
    }
    if (samples->count == SAMPLES_MAX) {
        samples->dropped++;
        return;
    }
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 64 : samples->capacity * 2;
        samples->items = check_realloc(samples->items, samples->capacity, sizeof(*samples->items));
    }
    samples->items[samples->count++] = *sample;
}

uint64_t samples_hash(uint64_t hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t samples_mix(uint64_t hash)
{
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

double samples_thermal_level(double celsius, const struct samples_limits *limits)
{
    struct samples_limits used = *limits;

    if (isnan(celsius))
        return 0;
    if (isnan(used.caution_c) && isnan(used.critical_c) && isnan(used.fatal_c))
        used = (struct samples_limits){SAMPLES_HOT_C, SAMPLES_CRITICAL_C, SAMPLES_FATAL_C};
    if (celsius >= used.fatal_c)
        return 3; /* comparing with a limit that is NaN is false */
    if (celsius >= used.critical_c)
        return 2;
    return celsius >= used.caution_c ? 1 : 0;
}
