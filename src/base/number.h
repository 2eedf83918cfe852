/* The one reader and writer of values with units: command lines, configuration files and policies
 * take the same words.
 *
 * Flow     number_named() finds the kind of a value by the unit at the end of its key's name;
 *          number_parse() reads the text; number_format() writes a value so that number_parse()
 *          reads the same one again.
 * Units    milliseconds, bytes, bytes per second, parts per million.
 * Errors   one line that names the value and the limits. Nothing is guessed: no sign, no blank, no
 *          NaN, no exponent, no trailing text, no silent saturation. A duration without a unit is
 *          refused, since seconds and milliseconds are both expected.
 * Absent   rounded values for people (src/cli/human.h).
 */
#ifndef CKPT_BASE_NUMBER_H
#define CKPT_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

enum number_kind {
    NUMBER_PLAIN,    /* 42 */
    NUMBER_DURATION, /* 0, 250ms, 30s, 5m, 2h, 7d, 1h30m */
    NUMBER_SIZE,     /* 512, 4KB (10^3), 4KiB (2^10), ... up to PB and PiB; 1.5GiB */
    NUMBER_RATE,     /* a size per second, "/s" optional: 10GB/s */
    NUMBER_SHARE     /* 0.3 or 30% : parts per million */
};

/* Both ends belong to it. */
struct number_range {
    uint64_t min;
    uint64_t max;
};

enum { NUMBER_TEXT_BYTES = 32 };

/* The kind of number that the unit at the end of a name promises ("_ms", "_bytes_per_s", "_bytes",
 * "_ppm"); NUMBER_PLAIN without one. *ret_stem is the length of the name without the unit. */
enum number_kind number_named(const char *name, size_t *ret_stem);

/* 0, or -1 with *err set and *ret_number left as it was. */
int number_parse(enum number_kind kind, const char *text, struct number_range range,
                 uint64_t *ret_number, struct err *err);

/* The same for a key that was written with its unit in the name: a whole number is taken in that
 * unit as well. */
int number_parse_in_unit(enum number_kind kind, const char *text, struct number_range range,
                         uint64_t *ret_number, struct err *err);

/* Exactly, in the largest unit that divides the value: "5m", "64MiB", "10GB/s", "30%". Returns
 * text. */
const char *number_format(enum number_kind kind, uint64_t value, char text[NUMBER_TEXT_BYTES]);

#endif
