/* What one document of a telemetry source says, as a list of samples.
 *
 * Flow     a parser (smd.h, redfish.h, prometheus.h) appends; the broker finds the node of each
 *          subject and gives the sample to the node's health (health.h).
 * Shapes   at most SAMPLES_MAX samples and SAMPLES_TEXT_MAX bytes of names per document; what is
 *          more is counted in `dropped`. Subjects live in the list.
 * Units    counts since whenever the source began; levels 0 (well) to 3 (about to stop); degrees
 *          Celsius become levels.
 * Errors   values that are NaN, negative, or SAMPLES_VALUE_END and more are not appended but
 *          counted in `refused`.
 * Absent   locks: a list is filled by one thread and read by another afterwards.
 */
#ifndef CKPT_TELEMETRY_SAMPLES_H
#define CKPT_TELEMETRY_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

/* Append only. id, name, kind, factor that the hazard is multiplied by at full evidence in
 * thousandths, count per hour from which a COUNTER is evidence, level from which it is a hard
 * signal (a COUNTER or EVENT is hard or not: 3 or 0). */
#define TELEMETRY_SIGNALS(X)                                                                       \
    X(ECC_CORRECTABLE, "ecc_correctable", COUNTER, 10000, 1, 0)                                    \
    X(ECC_UNCORRECTABLE, "ecc_uncorrectable", COUNTER, 100000, 1, 3)                               \
    X(GPU_ECC_CORRECTABLE, "gpu_ecc_correctable", COUNTER, 3000, 10, 0)                            \
    X(GPU_ECC_UNCORRECTABLE, "gpu_ecc_uncorrectable", COUNTER, 100000, 1, 3)                       \
    X(ROW_REMAP, "row_remap", COUNTER, 10000, 1, 0)                                                \
    X(ROW_REMAP_FAILURE, "row_remap_failure", LEVEL, 100000, 0, 3)                                 \
    X(PCIE_REPLAY, "pcie_replay", COUNTER, 2000, 100, 0)                                           \
    X(XID, "xid", EVENT, 20000, 0, 3)                                                              \
    X(THERMAL, "thermal", LEVEL, 20000, 0, 3)                                                      \
    X(STATUS, "status", LEVEL, 20000, 0, 2)                                                        \
    X(POWER, "power", LEVEL, 20000, 0, 3)

enum telemetry_signal {
#define X(id, name, kind, factor, per_hour, hard) TELEMETRY_##id,
    TELEMETRY_SIGNALS(X)
#undef X
        TELEMETRY_SIGNAL_COUNT
};
/* How a signal's values are read; health.h says what is evidence of each. */
enum telemetry_kind_of_signal { TELEMETRY_COUNTER, TELEMETRY_LEVEL, TELEMETRY_EVENT };

/* "ecc_correctable", as metrics and configuration have it; static. */
const char *telemetry_signal_name(enum telemetry_signal signal);
enum telemetry_kind_of_signal telemetry_signal_kind(enum telemetry_signal signal);

enum { SAMPLES_MAX = 200000, SAMPLES_TEXT_MAX = 8 << 20, SAMPLES_SUBJECT_MAX = 128 };

/* One value of one part of a node. */
struct telemetry_sample {
    enum telemetry_signal signal;
    /* EVENT: of this kind of event `value` is a count; 0: `value` is the last event's kind */
    uint32_t code;
    uint32_t subject; /* of samples_subject(); SAMPLES_NO_SUBJECT: the document is about one node */
    uint64_t part;    /* hash of what was measured: a DIMM, a GPU, a sensor */
    double value;
};
#define SAMPLES_NO_SUBJECT UINT32_MAX
#define SAMPLES_VALUE_END  1e14 /* DCGM's "no value" is above it, no count is */

/* All that one document says. */
struct samples {
    struct telemetry_sample *items; /* in the document's order */
    size_t count, capacity;
    struct buf text;  /* of subjects, each with its NUL */
    uint64_t dropped; /* no room */
    uint64_t refused; /* not a number that a sample can have */
    uint64_t old;     /* their own time stamp says so */
};

void samples_init(struct samples *samples);
void samples_close(struct samples *samples); /* empty again */
/* Index of a copy of the subject; the last one is found again. Names that no node can have are
 * SAMPLES_NO_SUBJECT - 1: a sample with it is counted as refused. */
uint32_t samples_add_subject(struct samples *samples, const char *name, size_t length);
/* The text of an index that samples_add_subject() gave; lives until the next subject is added. */
const char *samples_subject(const struct samples *samples, uint32_t subject);
/* Appends a copy, or counts it as refused or dropped. */
void samples_add(struct samples *samples, const struct telemetry_sample *sample);

/* FNV-1a, to be continued with the last result; begins with SAMPLES_HASH. */
#define SAMPLES_HASH UINT64_C(1469598103934665603)
uint64_t samples_hash(uint64_t hash, const void *bytes, size_t length);
/* Of hashes that are added up: sums of plain ones collide, as their last bytes enter almost
 * linearly. */
uint64_t samples_mix(uint64_t hash);

/* Level of a temperature beside its limits in degrees Celsius; a limit that is NaN is not known.
 * Without any limit: the limits of a GPU (SAMPLES_HOT_C and so on). */
#define SAMPLES_HOT_C      85.0
#define SAMPLES_CRITICAL_C 95.0
#define SAMPLES_FATAL_C    105.0
struct samples_limits {
    double caution_c, critical_c, fatal_c;
};
double samples_thermal_level(double celsius, const struct samples_limits *limits);

#endif
