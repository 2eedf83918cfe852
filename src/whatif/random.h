/* Numbers that look random and are a function of a seed, a purpose and a position: every rule sees
 * the same ones.
 *
 * Shapes   a stream is one word; streams of different purposes or entities are independent of each
 *          other and of the order in which they are drawn.
 * Source   splitmix64 (Steele, Lea, Flood 2014).
 */
#ifndef CKPT_WHATIF_RANDOM_H
#define CKPT_WHATIF_RANDOM_H

#include <stdint.h>

enum random_purpose {
    RANDOM_JOBS = 1,
    RANDOM_FAILURES,
    RANDOM_ALARMS,
    RANDOM_FALSE_ALARMS,
    RANDOM_REGIMES,
    RANDOM_DEMANDS,
    RANDOM_WALLTIMES,
    RANDOM_OUTAGES
};

struct random_stream {
    uint64_t state;
};

struct random_stream random_stream(uint64_t seed, enum random_purpose purpose, uint64_t entity);
double random_uniform(struct random_stream *stream); /* in (0, 1) */
double random_between(struct random_stream *stream, double low, double high);
double random_exponential(struct random_stream *stream, double mean);
double random_weibull(struct random_stream *stream, double shape, double mean);

#endif
