/* The registry and its text exposition. See metrics.h.
 *
 * Flow     a row -> a metric with its series, found by label values -> text.
 * Shapes   struct metrics owns all series; METRICS_SERIES_MAX per metric, the last one is "other".
 */
#include "src/serve/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { METRICS_BOUNDS_MAX = 20 };

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

struct metric {
    const struct metric_row *row;
    struct series *series;
    size_t count;
    size_t capacity;
};

struct metrics {
    struct metrics_owner owner;
    struct metric *all;
    size_t count;
};

static bool is_histogram(const struct metric *metric)
{
    return metric->row->kind == METRIC_SECONDS || metric->row->kind == METRIC_BYTES ||
           metric->row->kind == METRIC_RATIO;
}

static const double *bounds_of(const struct metric *metric, size_t *ret_count)
{
    if (metric->row->kind == METRIC_RATIO) {
        *ret_count = ARRAY_COUNT(bounds_ratio);
        return bounds_ratio;
    }
    if (metric->row->kind == METRIC_BYTES) {
        *ret_count = ARRAY_COUNT(bounds_bytes);
        return bounds_bytes;
    }
    *ret_count = ARRAY_COUNT(bounds_seconds);
    return bounds_seconds;
}

/* The first bound that is not below the value; the last bucket is above all bounds. */
static size_t bucket_of(const struct metric *metric, double value)
{
    size_t bound_count, i = 0;
    const double *bounds = bounds_of(metric, &bound_count);

    while (i < bound_count && value > bounds[i])
        i++;
    return i;
}

/* ---- series ---- */

static bool series_matches(const struct series *series, const char *const labels[])
{
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (series->labels[i] != NULL && strcmp(series->labels[i], labels[i]) != 0)
            return false;
    }
    return true;
}

static struct series *series_find(const struct metric *metric, const char *const labels[])
{
    for (size_t i = 0; i < metric->count; i++) {
        if (series_matches(&metric->series[i], labels))
            return &metric->series[i];
    }
    return NULL;
}

static struct series *series_new(struct metric *metric, const char *const labels[])
{
    struct series *series;
    size_t bound_count;

    if (metric->count == metric->capacity) {
        metric->capacity = metric->capacity == 0 ? 4 : metric->capacity * 2;
        metric->series = check_realloc(metric->series, metric->capacity, sizeof(*metric->series));
    }
    series = &metric->series[metric->count++];
    memset(series, 0, sizeof(*series));
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (metric->row->labels[i] != NULL)
            series->labels[i] = check_strdup(labels[i]);
    }
    if (is_histogram(metric)) {
        bounds_of(metric, &bound_count);
        series->buckets = check_calloc(bound_count + 1, sizeof(*series->buckets));
    }
    return series;
}

/* The series of the labels; over the limit the one that is labelled "other". */
static struct series *series_get(struct metric *metric, const char *label0, const char *label1)
{
    const char *labels[METRICS_LABELS_MAX] = {label0, label1};
    struct series *series;

    for (int i = 0; i < METRICS_LABELS_MAX; i++)
        CHECK((labels[i] != NULL) == (metric->row->labels[i] != NULL));
    series = series_find(metric, labels);
    if (series != NULL)
        return series;
    if (metric->count < METRICS_SERIES_MAX - 1)
        return series_new(metric, labels);
    for (int i = 0; i < METRICS_LABELS_MAX; i++)
        labels[i] = "other";
    series = series_find(metric, labels);
    return series != NULL ? series : series_new(metric, labels);
}

static struct metric *metric_at(const struct metrics *metrics, size_t metric)
{
    CHECK(metric < metrics->count);
    return &metrics->all[metric];
}

static void forget_series(struct metric *metric)
{
    for (size_t i = 0; i < metric->count; i++) {
        for (int j = 0; j < METRICS_LABELS_MAX; j++)
            free(metric->series[i].labels[j]);
        free(metric->series[i].buckets);
    }
    metric->count = 0;
}

void metrics_clear(struct metrics *metrics, size_t metric)
{
    if (metrics != NULL)
        forget_series(metric_at(metrics, metric));
}

void metrics_add(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value)
{
    struct metric *added;

    if (metrics == NULL)
        return;
    added = metric_at(metrics, metric);
    CHECK(added->row->kind == METRIC_COUNTER);
    CHECK(value >= 0);
    series_get(added, label0, label1)->value += value;
}

void metrics_set(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value)
{
    struct metric *changed;

    if (metrics == NULL)
        return;
    changed = metric_at(metrics, metric);
    CHECK(!is_histogram(changed));
    series_get(changed, label0, label1)->value = value;
}

void metrics_observe(struct metrics *metrics, size_t metric, double value)
{
    metrics_observe_of(metrics, metric, NULL, value);
}

void metrics_observe_of(struct metrics *metrics, size_t metric, const char *label0, double value)
{
    struct metric *observed;
    struct series *series;

    if (metrics == NULL)
        return;
    observed = metric_at(metrics, metric);
    CHECK(is_histogram(observed));
    CHECK(isfinite(value));
    series = series_get(observed, label0, NULL);
    series->buckets[bucket_of(observed, value)]++;
    series->value += value;
}

void metrics_replace(struct metrics *metrics, size_t metric, const double *uppers,
                     const uint64_t *counts, size_t count, double sum)
{
    struct metric *replaced;
    struct series *series;
    size_t bound_count;

    if (metrics == NULL)
        return;
    replaced = metric_at(metrics, metric);
    CHECK(is_histogram(replaced));
    series = series_get(replaced, NULL, NULL);
    bounds_of(replaced, &bound_count);
    memset(series->buckets, 0, (bound_count + 1) * sizeof(*series->buckets));
    for (size_t i = 0; i < count; i++)
        series->buckets[bucket_of(replaced, uppers[i])] += counts[i];
    series->value = sum;
}

double metrics_value(const struct metrics *metrics, size_t metric, const char *label0,
                     const char *label1)
{
    const char *labels[METRICS_LABELS_MAX] = {label0, label1};
    const struct series *series = series_find(metric_at(metrics, metric), labels);

    return series != NULL ? series->value : 0;
}

/* ---- text ---- */

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

static void render_name(struct buf *text, const struct metric *metric, const struct series *series,
                        const char *suffix, const char *bound)
{
    const char *separator = "{";

    buf_printf(text, "%s%s", metric->row->name, suffix);
    for (int i = 0; i < METRICS_LABELS_MAX; i++) {
        if (series->labels[i] == NULL)
            continue;
        buf_printf(text, "%s%s=\"", separator, metric->row->labels[i]);
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

static void render_histogram(struct buf *text, const struct metric *metric,
                             const struct series *series)
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

static void render_metric(struct buf *text, const struct metric *metric)
{
    static const char *const types[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_SECONDS] = "histogram",
                                        [METRIC_BYTES] = "histogram",
                                        [METRIC_RATIO] = "histogram"};

    buf_printf(text, "# HELP %s ", metric->row->name);
    render_escaped(text, metric->row->help, false);
    buf_printf(text, "\n# TYPE %s %s\n", metric->row->name, types[metric->row->kind]);
    for (size_t i = 0; i < metric->count; i++) {
        if (is_histogram(metric)) {
            render_histogram(text, metric, &metric->series[i]);
        } else {
            render_name(text, metric, &metric->series[i], "", NULL);
            render_number(text, metric->series[i].value);
        }
    }
}

void metrics_render(struct metrics *metrics, struct buf *text)
{
    if (metrics == NULL)
        return;
    if (metrics->owner.read != NULL)
        metrics->owner.read(metrics->owner.data, metrics);
    for (size_t i = 0; i < metrics->count; i++)
        render_metric(text, &metrics->all[i]);
}

/* ---- life ---- */

/* Series without labels exist from the start, so that a rate is known before the first event. */
struct metrics *metrics_new(const struct metric_row *rows, size_t count,
                            const struct metrics_owner *owner)
{
    struct metrics *metrics = check_calloc(1, sizeof(*metrics));

    metrics->owner = *owner;
    metrics->all = check_calloc(count, sizeof(*metrics->all));
    metrics->count = count;
    for (size_t i = 0; i < count; i++) {
        metrics->all[i].row = &rows[i];
        if (rows[i].labels[0] == NULL)
            series_get(&metrics->all[i], NULL, NULL);
    }
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (size_t i = 0; i < metrics->count; i++) {
        forget_series(&metrics->all[i]);
        free(metrics->all[i].series);
    }
    if (metrics->owner.free != NULL)
        metrics->owner.free(metrics->owner.data);
    free(metrics->all);
    free(metrics);
}
