/* A node's health from samples. See health.h.
 *
 * Flow     health_take() -> find_series -> take_counter, take_level or take_events -> raise_factor,
 *          raise_alarm. health_heard() -> count_poll. Nothing is done as time passes: factors and
 *          alarms are reckoned from their instants when somebody asks.
 */
#include "src/telemetry/health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

#define HOUR_US      3600e6
#define PART_BITS    56
#define SOURCE_SPICE UINT64_C(0x9e3779b97f4a7c15)

static const struct {
    double factor;
    double per_hour;
    uint8_t hard; /* level from which; COUNTER and EVENT: not 0 */
} rules[] = {
#define X(id, name, kind, factor_milli, per_hour, hard) {(factor_milli) / 1e3, per_hour, hard},
    TELEMETRY_SIGNALS(X)
#undef X
};

_Static_assert(HEALTH_SOURCES_MAX <= 16, "a signal has a bit per source");

void health_policy_default(struct health_policy *ret_policy)
{
    *ret_policy = (struct health_policy){.half_life_ms = 6 * 3600 * 1000,
                                         .factor_max = 300,
                                         .alarm_precision = 0.6,
                                         .alarm_lead_ms = 45 * 60 * 1000};
    for (int signal = 0; signal < TELEMETRY_SIGNAL_COUNT; signal++)
        ret_policy->factor[signal] = rules[signal].factor;
}

void health_init(struct health *health)
{
    memset(health, 0, sizeof(*health));
}

void health_close(struct health *health)
{
    free(health->series);
    health_init(health);
}

/* ---- factors ---- */

static double half_lives(uint64_t since_us, uint64_t now_us, double half_life_us)
{
    return now_us > since_us ? (double)(now_us - since_us) / half_life_us : 0;
}

double health_signal_factor(const struct health *health, const struct health_policy *policy,
                            enum telemetry_signal signal, uint64_t now_us)
{
    const struct health_signal *state = &health->signals[signal];
    double factor;

    if (!(state->factor > 1))
        return 1;
    factor = 1 + (state->factor - 1) *
                     exp2(-half_lives(state->seen_us, now_us, (double)policy->half_life_ms * 1e3));
    return factor >= HEALTH_WELL_BELOW ? factor : 1;
}

double health_factor(const struct health *health, const struct health_policy *policy,
                     uint64_t now_us)
{
    double product = 1;

    for (int signal = 0; signal < TELEMETRY_SIGNAL_COUNT; signal++)
        product *= health_signal_factor(health, policy, (enum telemetry_signal)signal, now_us);
    return fmax(1, fmin(product, policy->factor_max));
}

static void raise_factor(struct health *health, const struct health_policy *policy,
                         enum telemetry_signal signal, double factor, uint64_t now_us)
{
    struct health_signal *state = &health->signals[signal];

    state->factor = fmax(factor, health_signal_factor(health, policy, signal, now_us));
    state->seen_us = now_us;
}

/* ---- alarms ---- */

static bool long_ago(const struct health_policy *policy, uint64_t at_us, uint64_t now_us)
{
    return now_us > at_us && now_us - at_us > HEALTH_ALARM_LEADS * policy->alarm_lead_ms * 1000;
}

static bool alarm_holds(const struct health *health, const struct health_policy *policy,
                        enum telemetry_signal signal, uint64_t now_us)
{
    const struct health_signal *state = &health->signals[signal];

    return state->alarm && !long_ago(policy, state->alarm_us, now_us);
}

/* A BMC speaks while its node boots, and the agent tells of the boot afterwards. */
static bool is_of_boot(uint64_t booted_us, uint64_t at_us)
{
    return booted_us != 0 && at_us + HEALTH_BOOT_US > booted_us &&
           at_us < booted_us + HEALTH_BOOT_US;
}

/* It holds, enough polls told of it, and no boot explains it. */
static bool alarm_counts(const struct health *health, const struct health_policy *policy,
                         enum telemetry_signal signal, uint64_t now_us)
{
    const struct health_signal *state = &health->signals[signal];

    return state->confirmed && alarm_holds(health, policy, signal, now_us) &&
           !(is_of_boot(health->booted_us, state->began_us) &&
             is_of_boot(health->booted_us, now_us));
}

/* Of an alarm that was not told in enough polls, or by the wrong ones. */
static void count_anew(struct health_signal *state)
{
    state->confirmed = false;
    state->up = state->low = 0;
    memset(state->told, 0, sizeof(state->told));
}

static void end_alarm(struct health_signal *state)
{
    state->alarm = state->drain_due = false;
    count_anew(state);
}

/* More evidence of an alarm that holds leaves its polls counted: news with each poll must not keep
 * it from being confirmed. */
static void raise_alarm(struct health *health, const struct health_policy *policy,
                        enum telemetry_signal signal, bool seen_to_happen, uint64_t now_us)
{
    struct health_signal *state = &health->signals[signal];

    if (is_of_boot(health->booted_us, now_us) && telemetry_signal_kind(signal) != TELEMETRY_LEVEL)
        return;
    if (!alarm_holds(health, policy, signal, now_us)) {
        end_alarm(state);
        state->began_us = now_us;
    }
    if (state->episode && long_ago(policy, state->evidence_us, now_us))
        state->episode = false;
    state->alarm = true;
    state->alarm_us = state->evidence_us = now_us;
    state->drain_due |= seen_to_happen && !state->episode;
}

/* A LEVEL may stay: it is counted from the boot on, and drains if its rise was seen. A second boot
 * in a row holds back what the first one held back, which began with that. */
void health_booted(struct health *health, uint64_t now_us)
{
    health->booted_us = now_us > 0 ? now_us : 1;
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        struct health_signal *state = &health->signals[i];

        if (!state->alarm || !is_of_boot(health->booted_us, state->began_us))
            continue;
        if (telemetry_signal_kind((enum telemetry_signal)i) != TELEMETRY_LEVEL) {
            end_alarm(state);
            continue;
        }
        count_anew(state);
        state->began_us = health->booted_us;
    }
}

size_t health_alarms(const struct health *health, const struct health_policy *policy,
                     uint64_t now_us, struct health_alarm *ret_alarms)
{
    size_t count = 0;

    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        const struct health_signal *state = &health->signals[i];

        if (!alarm_counts(health, policy, (enum telemetry_signal)i, now_us))
            continue;
        ret_alarms[count++] = (struct health_alarm){
            .signal = (enum telemetry_signal)i,
            .source = state->source,
            .since_us = now_us > state->alarm_us ? now_us - state->alarm_us : 0};
    }
    return count;
}

bool health_drain(const struct health *health, const struct health_policy *policy,
                  const uint64_t fresh_us[HEALTH_SOURCES_MAX], uint64_t now_us,
                  struct health_alarm *ret_alarm)
{
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    size_t count = health_alarms(health, policy, now_us, alarms);

    for (size_t i = 0; i < count; i++) {
        uint64_t heard_us = health->heard_us[alarms[i].source];

        if (!health->signals[alarms[i].signal].drain_due || heard_us == 0 ||
            (now_us > heard_us && now_us - heard_us > fresh_us[alarms[i].source]))
            continue;
        *ret_alarm = alarms[i];
        return true;
    }
    return false;
}

/* A LEVEL that did not count yet announced nothing, so it goes on being counted. */
void health_failed(struct health *health, const struct health_policy *policy, uint64_t now_us)
{
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        enum telemetry_signal signal = (enum telemetry_signal)i;
        struct health_signal *state = &health->signals[i];

        state->factor = state->counted = 0;
        state->raised = false;
        if (telemetry_signal_kind(signal) != TELEMETRY_LEVEL ||
            alarm_counts(health, policy, signal, now_us))
            end_alarm(state);
    }
}

void health_drained(struct health *health)
{
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        struct health_signal *state = &health->signals[i];

        state->episode |= state->alarm;
        state->drain_due = false;
    }
}

/* ---- series ---- */

static uint64_t series_key(unsigned source, const struct telemetry_sample *sample)
{
    uint64_t hash =
        samples_hash(sample->part ^ (source * SOURCE_SPICE), &sample->code, sizeof(sample->code));

    return ((uint64_t)sample->signal << PART_BITS) | (hash & ((UINT64_C(1) << PART_BITS) - 1));
}

/* NULL: no room. A new one has its sample's value and *ret_new. */
static struct health_series *find_series(struct health *health, uint64_t key, double value,
                                         bool *ret_new)
{
    *ret_new = false;
    for (uint32_t i = 0; i < health->series_count; i++) {
        if (health->series[i].key == key)
            return &health->series[i];
    }
    if (health->series_count == HEALTH_SERIES_MAX) {
        health->dropped++;
        return NULL;
    }
    if (health->series_count == health->series_capacity) {
        health->series_capacity = health->series_capacity == 0 ? 8 : health->series_capacity * 2;
        health->series =
            check_realloc(health->series, health->series_capacity, sizeof(*health->series));
    }
    *ret_new = true;
    health->series[health->series_count] = (struct health_series){.key = key, .value = value};
    return &health->series[health->series_count++];
}

/* ---- evidence ---- */

/* Raised from the limit on until the rate is half of it: one that wavers about the limit does not
 * come and go with each sample. Single rises age with a half-life of an hour. */
static void take_rise(struct health *health, const struct health_policy *policy,
                      enum telemetry_signal signal, double rise, uint64_t now_us)
{
    struct health_signal *state = &health->signals[signal];

    state->counted = rise + state->counted * exp2(-half_lives(state->counted_us, now_us, HOUR_US));
    state->counted_us = now_us;
    if (state->counted >= rules[signal].per_hour)
        state->raised = true;
    else if (state->counted < rules[signal].per_hour / 2)
        state->raised = false;
    if (!state->raised || rise <= 0)
        return;
    raise_factor(health, policy, signal, policy->factor[signal], now_us);
    if (rules[signal].hard > 0)
        raise_alarm(health, policy, signal, true, now_us);
}

/* A count that fell began again at zero when its source was restarted. */
static double rise_of(double before, double now)
{
    return now >= before ? now - before : now;
}

/* What a part counted before it was seen first says nothing of when. */
static void take_counter(struct health *health, const struct health_policy *policy,
                         const struct telemetry_sample *sample, struct health_series *series,
                         bool is_new, uint64_t now_us)
{
    double rise = is_new ? 0 : rise_of(series->value, sample->value);

    series->value = sample->value;
    take_rise(health, policy, sample->signal, rise, now_us);
}

/* Of what was said within a half-life: a source that died while it said "critical" must not hold
 * that up for ever. */
static uint8_t highest_level(const struct health *health, const struct health_policy *policy,
                             enum telemetry_signal signal, uint64_t now_us)
{
    double highest = 0;

    for (uint32_t i = 0; i < health->series_count; i++) {
        const struct health_series *series = &health->series[i];

        if (series->key >> PART_BITS == (uint64_t)signal &&
            half_lives(series->seen_us, now_us, (double)policy->half_life_ms * 1e3) <= 1)
            highest = fmax(highest, series->value);
    }
    return (uint8_t)fmin(highest, 3);
}

static double level_factor(const struct health_policy *policy, enum telemetry_signal signal,
                           uint8_t level)
{
    if (level == 0)
        return 1;
    return level == 1 ? fmin(HEALTH_WARNING_FACTOR, policy->factor[signal])
                      : policy->factor[signal];
}

/* The level of all parts together changed, or holds. */
static void set_level(struct health *health, const struct health_policy *policy,
                      enum telemetry_signal signal, uint8_t level, bool seen_to_happen,
                      uint64_t now_us)
{
    struct health_signal *state = &health->signals[signal];
    uint8_t hard = rules[signal].hard;

    if (level >= hard && state->level < hard)
        raise_alarm(health, policy, signal, seen_to_happen, now_us);
    else if (level < hard)
        end_alarm(state);
    if (level >= hard)
        state->evidence_us = now_us;
    state->level = level;
    state->factor = level_factor(policy, signal, level);
    state->seen_us = now_us;
}

static void take_level(struct health *health, const struct health_policy *policy,
                       const struct telemetry_sample *sample, struct health_series *series,
                       bool is_new, uint64_t now_us)
{
    struct health_signal *state = &health->signals[sample->signal];
    bool fell = false;
    uint8_t held;

    if (is_new)
        series->value = 0;
    held = highest_level(health, policy, sample->signal, now_us);
    if (held < state->level) /* the part that said so went away: the next one is news */
        set_level(health, policy, sample->signal, held, false, now_us);
    if (sample->value >= series->value) {
        series->value = sample->value;
        series->falls = 0;
    } else if (++series->falls >= HEALTH_FALL_SAMPLES) {
        series->value = sample->value;
        series->falls = 0;
        fell = true;
    }
    if (fell || series->value > state->level)
        set_level(health, policy, sample->signal,
                  fell ? highest_level(health, policy, sample->signal, now_us)
                       : (uint8_t)fmin(series->value, 3),
                  !is_new, now_us);
    else if (state->level > 0 && series->value >= state->level) /* it holds */
        set_level(health, policy, sample->signal, state->level, false, now_us);
}

static void take_event(struct health *health, const struct health_policy *policy,
                       enum telemetry_signal signal, uint32_t code, bool seen_to_happen,
                       uint64_t now_us)
{
    enum health_xid_class class = health_xid(code);

    if (class == HEALTH_XID_APPLICATION)
        return;
    raise_factor(health, policy, signal,
                 class == HEALTH_XID_HARD ? policy->factor[signal]
                                          : fmin(HEALTH_WARNING_FACTOR, policy->factor[signal]),
                 now_us);
    if (class == HEALTH_XID_HARD)
        raise_alarm(health, policy, signal, seen_to_happen, now_us);
}

/* One sample of events and what was known of its series. */
struct event_sample {
    const struct telemetry_sample *sample;
    struct health_series *series;
    uint64_t now_us;
    bool is_new;  /* the series was never seen before */
    bool watched; /* its source had answered before: what is new happened since */
    bool missed;  /* the series was not in the source's last poll */
};

/* How many events of one kind there were lately: dcgm-exporter counts over a sliding window, so
 * that a lower count is no new beginning, and a series that was not there in the last poll was
 * 0. */
static void take_recent_events(struct health *health, const struct health_policy *policy,
                               const struct event_sample *event)
{
    const struct telemetry_sample *sample = event->sample;
    double before = event->is_new || event->missed ? 0 : event->series->value;

    if (sample->value > before && (event->watched || !event->is_new))
        take_event(health, policy, sample->signal, sample->code, true, event->now_us);
}

/* The kind of the last event: it is there for as long as the driver is loaded, so that at first
 * sight it is a suspicion only. */
static void take_last_event(struct health *health, const struct health_policy *policy,
                            const struct event_sample *event)
{
    const struct telemetry_sample *sample = event->sample;
    uint32_t code = (uint32_t)fmin(sample->value, 1e6);

    if (code == 0 || (!event->is_new && sample->value == event->series->value))
        return;
    if (!event->is_new || event->watched)
        take_event(health, policy, sample->signal, code, true, event->now_us);
    else if (health_xid(code) != HEALTH_XID_APPLICATION)
        raise_factor(health, policy, sample->signal, HEALTH_WARNING_FACTOR, event->now_us);
}

static void take_events(struct health *health, const struct health_policy *policy,
                        const struct event_sample *event)
{
    if (event->sample->code != 0)
        take_recent_events(health, policy, event);
    else
        take_last_event(health, policy, event);
    event->series->value = event->sample->value;
}

/* For health_heard(). */
static void note_told(struct health_signal *state, const struct telemetry_sample *sample,
                      unsigned source, bool evidence)
{
    uint16_t bit = (uint16_t)(1u << source);

    if (telemetry_signal_kind(sample->signal) == TELEMETRY_LEVEL) {
        if (sample->value >= rules[sample->signal].hard)
            state->up |= bit;
        else
            state->low |= bit;
    } else if (evidence) {
        state->up |= bit;
    }
    if (evidence)
        state->source = (uint8_t)source;
}

void health_take(struct health *health, const struct health_policy *policy, unsigned source,
                 const struct telemetry_sample *sample, uint64_t now_us)
{
    struct health_series *series;
    uint64_t evidence_us;
    bool is_new;

    CHECK(source < HEALTH_SOURCES_MAX && (unsigned)sample->signal < TELEMETRY_SIGNAL_COUNT);
    series = find_series(health, series_key(source, sample), sample->value, &is_new);
    if (series == NULL)
        return;
    evidence_us = health->signals[sample->signal].evidence_us;
    series->seen_us = now_us;
    switch (telemetry_signal_kind(sample->signal)) {
    case TELEMETRY_COUNTER:
        take_counter(health, policy, sample, series, is_new, now_us);
        break;
    case TELEMETRY_LEVEL:
        take_level(health, policy, sample, series, is_new, now_us);
        break;
    case TELEMETRY_EVENT:
        take_events(health, policy,
                    &(struct event_sample){.sample = sample,
                                           .series = series,
                                           .now_us = now_us,
                                           .is_new = is_new,
                                           .watched = health->heard_us[source] != 0,
                                           .missed = series->poll + 1 < health->polls[source]});
        break;
    }
    series->poll = health->polls[source];
    note_told(&health->signals[sample->signal], sample, source,
              health->signals[sample->signal].evidence_us != evidence_us);
}

void health_remember(struct health *health, const struct health_policy *policy, unsigned source,
                     enum telemetry_signal signal, uint64_t ago_us, uint64_t now_us)
{
    struct health_signal *state = &health->signals[signal];
    uint64_t at_us = now_us > ago_us ? now_us - ago_us : 1;

    CHECK(source < HEALTH_SOURCES_MAX && (unsigned)signal < TELEMETRY_SIGNAL_COUNT);
    if (at_us > state->seen_us) {
        raise_factor(health, policy, signal, policy->factor[signal], at_us);
        if (rules[signal].hard > 0) {
            raise_alarm(health, policy, signal, !long_ago(policy, at_us, now_us), at_us);
            state->source = (uint8_t)source;
        }
    }
    if (state->alarm) /* also one that this process saw: it may have forgotten the source since */
        state->up |= (uint16_t)(1u << source);
}

/* A poll in which a LEVEL was not spoken of neither counts nor begins the count again: one sensor
 * of many was not read. */
static void count_poll(struct health_signal *state, enum telemetry_kind_of_signal kind,
                       unsigned source)
{
    uint16_t bit = (uint16_t)(1u << source);

    if ((state->up & bit) != 0)
        state->told[source] += state->told[source] < HEALTH_CONFIRM_POLLS;
    else if ((state->low & bit) != 0)
        state->told[source] = 0;
    state->confirmed |= state->alarm && state->told[source] == HEALTH_CONFIRM_POLLS;
    state->low &= (uint16_t)~bit;
    if (kind == TELEMETRY_LEVEL)
        state->up &= (uint16_t)~bit;
}

void health_heard(struct health *health, unsigned source, uint64_t poll_us, uint64_t now_us)
{
    bool counted;

    CHECK(source < HEALTH_SOURCES_MAX && poll_us <= now_us);
    counted = health->heard_us[source] != 0 && health->poll_us[source] == poll_us;
    health->heard_us[source] = now_us > 0 ? now_us : 1;
    if (counted)
        return;
    health->poll_us[source] = poll_us;
    health->polls[source]++;
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++)
        count_poll(&health->signals[i], telemetry_signal_kind((enum telemetry_signal)i), source);
}

void health_forget_source(struct health *health, unsigned source)
{
    CHECK(source < HEALTH_SOURCES_MAX);
    health->heard_us[source] = 0;
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        health->signals[i].up &= (uint16_t) ~(1u << source);
        health->signals[i].low &= (uint16_t) ~(1u << source);
        health->signals[i].told[source] = 0;
    }
}

/* NVIDIA's XID catalogue: what the application does wrong says nothing of the hardware. */
enum health_xid_class health_xid(uint32_t xid)
{
    static const uint8_t application[] = {13, 31, 32, 43, 45, 68, 69, 109};
    static const uint8_t hard[] = {46, 48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143};

    for (size_t i = 0; i < sizeof(application); i++) {
        if (application[i] == xid)
            return HEALTH_XID_APPLICATION;
    }
    for (size_t i = 0; i < sizeof(hard); i++) {
        if (hard[i] == xid)
            return HEALTH_XID_HARD;
    }
    return xid == 0 ? HEALTH_XID_APPLICATION : HEALTH_XID_SUSPECT;
}
