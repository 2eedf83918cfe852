/* Strict parsing of what an operator types: numbers, durations, sizes, rates and shares.
 *
 * Errors   one line that names the value and the limits. Nothing is guessed: no sign, no blank, no NaN, no exponent, no trailing
 *          text, no silent saturation.
 * Units    milliseconds, bytes, bytes per second, parts per million.
 */
#ifndef CKPT_CLI_NUMBER_H
#define CKPT_CLI_NUMBER_H

#include <stdint.h>

#include "src/base/err.h"

enum number_kind {
    NUMBER_PLAIN,    /* 42 */
    NUMBER_DURATION, /* 0, 250ms, 30s, 5m, 2h, 7d, 1h30m */
    NUMBER_SIZE,     /* 512, 4KB (10^3), 4KiB (2^10), ... up to PB and PiB; 1.5GiB */
    NUMBER_RATE,     /* a size per second, "/s" optional: 10GB/s */
    NUMBER_SHARE     /* 0.3 or 30% : parts per million */
};

struct number_range {
    uint64_t min;
    uint64_t max;
};

int number_parse(enum number_kind kind, const char *text, struct number_range range,
                 uint64_t *ret_number, struct err *err);

#endif
