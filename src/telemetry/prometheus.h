/* The text exposition format of Prometheus, as dcgm-exporter and node_exporter write it.
 *
 * Flow     prometheus_parse(): one line after the other; lines of metrics that are not in the table
 *          are skipped. The subject is the label Hostname, else instance without its port, else
 *          nothing (the endpoint's own node).
 * Shapes   PROMETHEUS_LABELS_MAX labels are looked at, names and values of at most 128 bytes;
 *          longer ones cannot be what is asked for.
 * Units    counts; degrees Celsius become levels.
 * Errors   -1 with err when not one line has the form of the format; single lines that have not,
 *          and values that are no counts, are counted as refused. Samples whose own time stamp is
 *          older than asked are counted as old: they are no news.
 * Source   the exposition format 0.0.4; DCGM field ids; node_exporter's edac and hwmon collectors.
 */
#ifndef CKPT_TELEMETRY_PROMETHEUS_H
#define CKPT_TELEMETRY_PROMETHEUS_H

#include "src/base/err.h"
#include "src/telemetry/samples.h"

enum { PROMETHEUS_LABELS_MAX = 64 };

/* Appends samples of the whole document; may run on any thread, since it shares nothing. 0, or -1
 * with ERR_INVALID when it is no such text. Names are copied: the text may go afterwards.
 * oldest_ms: time stamps before it, in milliseconds since the epoch, are too old; a line without
 * one is never old. */
int prometheus_parse(const void *bytes, size_t length, uint64_t oldest_ms, struct samples *samples,
                     struct err *err);

#endif
