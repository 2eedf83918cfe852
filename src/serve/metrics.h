/* Prometheus metrics: a registry of counters, gauges and histograms over a table of rows, and its
 * text exposition.
 *
 * Flow     parts of a daemon call metrics_add / _set / _observe with the number of a row;
 *          metrics_render() first lets the owner set the values that are read at this moment, and
 *          then writes the text.
 * Shapes   a series exists from its first value on, one without labels from the start; at most
 *          METRICS_SERIES_MAX per metric, further label values are counted under "other". Label
 *          values come from fixed sets (states, reasons, targets), never from jobs. The rows
 *          outlive the registry.
 * Units    base units as in the names: seconds, bytes, ratios 0..1.
 * Threads  the loop's only. A scrape renders all series in one turn of it.
 * Errors   none. Every function that changes or renders accepts a NULL registry and does nothing,
 *          so tests and tools run the same code without one. A row of another kind, a missing label
 *          or a value that is not finite is a bug (CHECK).
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

/* A metric as its table declares it. */
struct metric_row {
    enum metric_kind kind;
    const char *name;                       /* with the prefix and the unit: "ckpt_..._seconds" */
    const char *labels[METRICS_LABELS_MAX]; /* names; NULL: none, and none after it */
    const char *help;                       /* one line, as # HELP shows it */
};
/* A table METRICS(X) of X(id, kind, name, label names (up to two), help) becomes an enum and its
 * rows by these. */
#define METRIC_ID(id, kind, name, label0, label1, help) METRIC_##id,
#define METRIC_ROW(id, kind, name, label0, label1, help)                                           \
    {METRIC_##kind, name, {label0, label1}, help},

struct metrics;

/* The owner of values that are set at a rendering; both functions may be NULL. */
struct metrics_owner {
    void *data;
    void (*read)(void *data, struct metrics *metrics); /* at each rendering, before the text */
    void (*free)(void *data);                          /* once, by metrics_free() */
};

/* One registry per process. `count` rows; a metric is known by its position among them. The owner
 * is copied, the rows are not. */
struct metrics *metrics_new(const struct metric_row *rows, size_t count,
                            const struct metrics_owner *owner);
void metrics_free(struct metrics *metrics); /* NULL allowed */

/* The functions below take the number of a row (METRIC_x) and label values in the order of the
 * table, NULL where the table has none; a value is copied when its series begins.
 *
 * Adds to a counter; value is not negative. */
void metrics_add(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value);
/* Forgets all series, for labels that may be gone. */
void metrics_clear(struct metrics *metrics, size_t metric);
/* Sets a gauge, or a counter that is counted elsewhere and must not fall. */
void metrics_set(struct metrics *metrics, size_t metric, const char *label0, const char *label1,
                 double value);
/* Counts one value in a histogram, in the base unit of its name. */
void metrics_observe(struct metrics *metrics, size_t metric, double value);
void metrics_observe_of(struct metrics *metrics, size_t metric, const char *label0, double value);
/* Replaces a whole histogram without labels by counts[i] values of at most uppers[i], rising, for
 * counts that the replicated state keeps. A count goes into the first bucket whose bound is not
 * below its upper, so uppers between two bounds are rounded up; INFINITY is the last one. */
void metrics_replace(struct metrics *metrics, size_t metric, const double *uppers,
                     const uint64_t *counts, size_t count, double sum);
/* The present value of a counter or gauge, the sum of a histogram; 0 for a series that does not
 * exist. The registry must not be NULL. For tests and for texts beside the metrics. */
double metrics_value(const struct metrics *metrics, size_t metric, const char *label0,
                     const char *label1);
/* Calls the owner's read(), then appends all metrics in the order of their rows, in the text
 * exposition format, version 0.0.4. Numbers read back as the same doubles. */
void metrics_render(struct metrics *metrics, struct buf *text);

#endif
