/* The registry behind metrics.h and its text exposition.
 *
 * Flow     a table row (METRICS) -> a metric with its series, found by label values -> text.
 * Shapes   struct metrics owns all series; METRICS_SERIES_MAX per metric, the last one is "other".
 * Errors   none.
 */
#include "src/broker/daemon/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics_state.h"

enum { METRICS_BOUNDS_MAX = 20 };

struct metric_info {
    enum metric_kind kind;
    const char *name;
    const char *labels[METRICS_LABELS_MAX];
    const char *help;
};

static const struct metric_info infos[METRIC_COUNT] = {
#define X(id, kind, name, label0, label1, help) {METRIC_##kind, name, {label0, label1}, help},
    METRICS(X)
#undef X
};

static const double bounds_seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                        0.1,    0.25,  0.5,    1,     2.5,  5,     10,
                                        30,     60,    120,    300,   600,  1800};
static const double bounds_bytes[] = {1e3, 1e4,  1e5,  1e6,  1e7,  1e8,
                                      1e9, 1e10, 1e11, 1e12, 1e13, 1e14};

_Static_assert(ARRAY_COUNT(bounds_seconds) <= METRICS_BOUNDS_MAX, "a series holds all bounds");
static const double bounds_ratio[] = {0.1,  0.25, 0.5, 0.7,  0.8, 0.9, 0.95, 0.99,
                                      1.01, 1.05, 1.1, 1.25, 1.5, 2,   4,    10};
_Static_assert(ARRAY_COUNT(bounds_ratio) <= METRICS_BOUNDS_MAX, "a series holds all bounds");
_Static_assert(ARRAY_COUNT(bounds_bytes) <= METRICS_BOUNDS_MAX, "a series holds all bounds");

struct series {
    char *labels[METRICS_LABELS_MAX]; /* NULL where the table has none */
    double value;                     /* sum of a histogram */
    uint64_t *buckets;                /* histograms: per bound, then those above all; else NULL */
};

struct metric_state {
    struct series *series;
    size_t count;
    size_t capacity;
};

struct metrics {
    struct broker *broker;
    struct replica_observer observer;
    uint64_t event_cursor;
    bool serving;
    struct metric_state states[METRIC_COUNT];
};

static bool is_histogram(enum metric metric)
{
    return infos[metric].kind == METRIC_SECONDS || infos[metric].kind == METRIC_BYTES ||
           infos[metric].kind == METRIC_RATIO;
}

static const double *bounds_of(enum metric metric, size_t *ret_count)
{
    if (infos[metric].kind == METRIC_RATIO) {
        *ret_count = ARRAY_COUNT(bounds_ratio);
        return bounds_ratio;
    }
    if (infos[metric].kind == METRIC_BYTES) {
        *ret_count = ARRAY_COUNT(bounds_bytes);
        return bounds_bytes;
    }
    *ret_count = ARRAY_COUNT(bounds_seconds);
    return bounds_seconds;
}

/* The first bound that is not below the value; the last bucket is above all bounds. */
static size_t bucket_of(enum metric metric, double value)
{
    size_t bound_count, i = 0;
    const double *bounds = bounds_of(metric, &bound_count);

    while (i < bound_count && value > bounds[i])
        i++;
    return i;
}

/* ---- series ----------------------------------------------------------------------------------------------------------- */

static bool series_matches(const struct series *series, const char *const labels[])
{
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (series->labels[i] != NULL && strcmp(series->labels[i], labels[i]) != 0)
            return false;
    }
    return true;
}

static struct series *series_find(const struct metric_state *state, const char *const labels[])
{
    for (size_t i = 0; i < state->count; i++) {
        if (series_matches(&state->series[i], labels))
            return &state->series[i];
    }
    return NULL;
}

static struct series *series_new(struct metric_state *state, enum metric metric,
                                 const char *const labels[])
{
    struct series *series;
    size_t bound_count;

    if (state->count == state->capacity) {
        state->capacity = state->capacity == 0 ? 4 : state->capacity * 2;
        state->series = check_realloc(state->series, state->capacity, sizeof(*state->series));
    }
    series = &state->series[state->count++];
    memset(series, 0, sizeof(*series));
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (infos[metric].labels[i] != NULL)
            series->labels[i] = check_strdup(labels[i]);
    }
    if (is_histogram(metric)) {
        bounds_of(metric, &bound_count);
        series->buckets = check_calloc(bound_count + 1, sizeof(*series->buckets));
    }
    return series;
}

/* The series of the labels; over the limit the one that is labelled "other". */
static struct series *series_get(struct metrics *metrics, enum metric metric, const char *label0,
                                 const char *label1)
{
    struct metric_state *state;
    const char *labels[METRICS_LABELS_MAX] = {label0, label1};
    struct series *series;

    CHECK(metric < METRIC_COUNT);
    state = &metrics->states[metric];
    for (int i = 0; i < METRICS_LABELS_MAX; i++)
        CHECK((labels[i] != NULL) == (infos[metric].labels[i] != NULL));
    series = series_find(state, labels);
    if (series != NULL)
        return series;
    if (state->count < METRICS_SERIES_MAX - 1)
        return series_new(state, metric, labels);
    for (int i = 0; i < METRICS_LABELS_MAX; i++)
        labels[i] = "other";
    series = series_find(state, labels);
    return series != NULL ? series : series_new(state, metric, labels);
}

void metrics_clear(struct metrics *metrics, enum metric metric)
{
    struct metric_state *state = &metrics->states[metric];

    CHECK(metric < METRIC_COUNT && !is_histogram(metric));
    for (size_t i = 0; i < state->count; i++) {
        for (int j = 0; j < METRICS_LABELS_MAX; j++)
            free(state->series[i].labels[j]);
    }
    state->count = 0;
}

void metrics_add(struct metrics *metrics, enum metric metric, const char *label0,
                 const char *label1, double value)
{
    if (metrics == NULL)
        return;
    CHECK(infos[metric].kind == METRIC_COUNTER);
    CHECK(value >= 0);
    series_get(metrics, metric, label0, label1)->value += value;
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *label0,
                 const char *label1, double value)
{
    if (metrics == NULL)
        return;
    CHECK(!is_histogram(metric));
    series_get(metrics, metric, label0, label1)->value = value;
}

void metrics_observe(struct metrics *metrics, enum metric metric, double value)
{
    metrics_observe_of(metrics, metric, NULL, value);
}

void metrics_observe_of(struct metrics *metrics, enum metric metric, const char *label0,
                        double value)
{
    struct series *series;

    if (metrics == NULL)
        return;
    CHECK(is_histogram(metric));
    CHECK(isfinite(value));
    series = series_get(metrics, metric, label0, NULL);
    series->buckets[bucket_of(metric, value)]++;
    series->value += value;
}

void metrics_replace(struct metrics *metrics, enum metric metric, const double *uppers,
                     const uint64_t *counts, size_t count, double sum)
{
    struct series *series;
    size_t bound_count;

    if (metrics == NULL)
        return;
    CHECK(is_histogram(metric));
    series = series_get(metrics, metric, NULL, NULL);
    bounds_of(metric, &bound_count);
    memset(series->buckets, 0, (bound_count + 1) * sizeof(*series->buckets));
    for (size_t i = 0; i < count; i++)
        series->buckets[bucket_of(metric, uppers[i])] += counts[i];
    series->value = sum;
}

double metrics_value(const struct metrics *metrics, enum metric metric, const char *label0,
                     const char *label1)
{
    const char *labels[METRICS_LABELS_MAX] = {label0, label1};
    const struct series *series;

    CHECK(metric < METRIC_COUNT);
    series = series_find(&metrics->states[metric], labels);
    return series != NULL ? series->value : 0;
}

/* ---- text ------------------------------------------------------------------------------------------------------------- */

static void render_escaped(struct buf *text, const char *value, bool label)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\')
            buf_append(text, "\\\\", 2);
        else if (*value == '\n')
            buf_append(text, "\\n", 2);
        else if (*value == '"' && label)
            buf_append(text, "\\\"", 2);
        else
            buf_append(text, value, 1);
    }
}

static void render_name(struct buf *text, enum metric metric, const struct series *series,
                        const char *suffix, const char *bound)
{
    const char *separator = "{";

    buf_printf(text, "%s%s", infos[metric].name, suffix);
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (series->labels[i] == NULL)
            continue;
        buf_printf(text, "%s%s=\"", separator, infos[metric].labels[i]);
        render_escaped(text, series->labels[i], true);
        buf_append(text, "\"", 1);
        separator = ",";
    }
    if (bound != NULL) {
        buf_printf(text, "%sle=\"%s\"", separator, bound);
        separator = ",";
    }
    buf_printf(text, "%s ", *separator == ',' ? "}" : "");
}

/* The shortest of two texts that reads back as the same number. */
static void render_number(struct buf *text, double value)
{
    char digits[32];

    snprintf(digits, sizeof(digits), "%.15g", value);
    buf_printf(text, strtod(digits, NULL) == value ? "%.15g\n" : "%.17g\n", value);
}

static void render_histogram(struct buf *text, enum metric metric, const struct series *series)
{
    size_t bound_count;
    const double *bounds = bounds_of(metric, &bound_count);
    uint64_t below = 0;
    char bound[32];

    for (size_t i = 0; i <= bound_count; i++) {
        below += series->buckets[i];
        if (i < bound_count)
            snprintf(bound, sizeof(bound), "%g", bounds[i]);
        render_name(text, metric, series, "_bucket", i < bound_count ? bound : "+Inf");
        buf_printf(text, "%llu\n", (unsigned long long)below);
    }
    render_name(text, metric, series, "_sum", NULL);
    render_number(text, series->value);
    render_name(text, metric, series, "_count", NULL);
    buf_printf(text, "%llu\n", (unsigned long long)below);
}

static void render_metric(struct buf *text, enum metric metric, const struct metric_state *state)
{
    static const char *const types[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_SECONDS] = "histogram",
                                        [METRIC_BYTES] = "histogram",
                                        [METRIC_RATIO] = "histogram"};

    buf_printf(text, "# HELP %s ", infos[metric].name);
    render_escaped(text, infos[metric].help, false);
    buf_printf(text, "\n# TYPE %s %s\n", infos[metric].name, types[infos[metric].kind]);
    for (size_t i = 0; i < state->count; i++) {
        if (is_histogram(metric)) {
            render_histogram(text, metric, &state->series[i]);
        } else {
            render_name(text, metric, &state->series[i], "", NULL);
            render_number(text, state->series[i].value);
        }
    }
}

void metrics_render(struct metrics *metrics, struct buf *text)
{
    if (metrics == NULL)
        return;
    metrics_state_read(metrics, metrics->broker);
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        render_metric(text, (enum metric)metric, &metrics->states[metric]);
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

static void on_serving(void *context)
{
    struct metrics *metrics = context;
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(metrics->broker->replica), &summary);
    metrics->event_cursor = summary.next_event_sequence > 0 ? summary.next_event_sequence - 1 : 0;
    metrics->serving = true;
}

static void on_not_serving(void *context)
{
    struct metrics *metrics = context;

    metrics->serving = false;
}

static void on_applied(void *context)
{
    struct metrics *metrics = context;

    if (metrics->serving)
        metrics_state_events(metrics, metrics->broker, &metrics->event_cursor);
}

/* Series without labels exist from the start, so that a rate is known before the first event. */
static void create_plain_series(struct metrics *metrics)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        if (infos[metric].labels[0] == NULL)
            series_get(metrics, (enum metric)metric, NULL, NULL);
    }
}

struct metrics *metrics_new(struct broker *broker)
{
    struct metrics *metrics = check_calloc(1, sizeof(*metrics));

    CHECK(broker != NULL);
    metrics->broker = broker;
    metrics->observer = (struct replica_observer){.context = metrics,
                                                  .serving = on_serving,
                                                  .not_serving = on_not_serving,
                                                  .applied = on_applied};
    create_plain_series(metrics);
    if (broker->replica != NULL)
        replica_observe(broker->replica, &metrics->observer);
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        struct metric_state *state = &metrics->states[metric];

        for (size_t i = 0; i < state->count; i++) {
            for (int j = 0; j < METRICS_LABELS_MAX; j++)
                free(state->series[i].labels[j]);
            free(state->series[i].buckets);
        }
        free(state->series);
    }
    free(metrics);
}
