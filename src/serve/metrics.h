/* Prometheus metrics: a registry of counters, gauges and histograms over a table of rows, and its
 * text exposition.
 *
 * Flow     parts of a daemon call metrics_add / _set / _observe with the number of a row;
 *          metrics_render() first lets the owner set what is read only then, and writes the text.
 * Shapes   a series exists from its first value on, one without labels from the start; at most
 *          METRICS_SERIES_MAX per metric, further label values are counted under "other". Label
 *          values come from fixed sets (states, reasons, targets), never from jobs. The rows
 *          outlive the registry.
 * Units    base units as in the names: seconds, bytes, ratios 0..1.
 * Errors   none; every function accepts a NULL registry and does nothing.
 * Absent   timestamps, exemplars.
 * Source   U14, T-004.
 */
#ifndef CKPT_SERVE_METRICS_H
#define CKPT_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

enum { METRICS_SERIES_MAX = 512, METRICS_LABELS_MAX = 2, METRICS_LABEL_VALUE_BYTES = 129 };

/* SECONDS, BYTES and RATIO are histograms with fixed bounds. */
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_SECONDS, METRIC_BYTES, METRIC_RATIO };

struct metric_row {
    enum metric_kind kind;
    const char *name;
    const char *labels[METRICS_LABELS_MAX];
    const char *help;
};
/* A table METRICS(X) of X(id, kind, name, label names (up to two), help) becomes an enum and its
 * rows by these. */
#define METRIC_ID(id, kind, name, label0, label1, help) METRIC_##id,
#define METRIC_ROW(id, kind, name, label0, label1, help)                                           \
    {METRIC_##kind, name, {label0, label1}, help},

struct metrics;

/* Who sets values when they are asked for; both functions may be NULL. */
struct metrics_owner {
    void *data;
    void (*read)(void *data, struct metrics *metrics);
    void (*free)(void *data);
};

struct metrics *metrics_new(const struct metric_row *rows, size_t count,
                            const struct metrics_owner *owner);
void metrics_free(struct metrics *metrics);

/* Labels in the order of the table; NULL where the table has none. */
void metrics_add(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value);
/* Forgets all series: what they name may be gone. */
void metrics_clear(struct metrics *metrics, size_t metric);
void metrics_set(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value);
void metrics_observe(struct metrics *metrics, size_t metric, double value);
void metrics_observe_of(struct metrics *metrics, size_t metric, const char *label0, double value);
/* Replaces a whole histogram by counts[i] values of at most uppers[i], rising. */
void metrics_replace(struct metrics *metrics, size_t metric, const double *uppers,
                     const uint64_t *counts, size_t count, double sum);
/* 0 for a series that does not exist. */
double metrics_value(const struct metrics *metrics, size_t metric, const char *label0,
                     const char *label1);
/* The text exposition format, version 0.0.4. */
void metrics_render(struct metrics *metrics, struct buf *text);

#endif
