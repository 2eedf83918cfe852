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

/* What a stream is for; a new purpose is appended, so that worlds of old seeds stay what they
 * are. */
enum random_purpose {
    RANDOM_JOBS = 1,     /* one stream for all */
    RANDOM_FAILURES,     /* one per node */
    RANDOM_ALARMS,       /* one for all */
    RANDOM_FALSE_ALARMS, /* one for all */
    RANDOM_REGIMES,      /* one per queue */
    RANDOM_DEMANDS,      /* one per job and busy time */
    RANDOM_WALLTIMES,    /* one per job and allocation */
    RANDOM_OUTAGES       /* one for all */
};

/* A value; a copy draws the same numbers again. */
struct random_stream {
    uint64_t state;
};

/* The stream of an entity's number, from its beginning. The same three numbers give the same stream
 * in each run: two rules meet the same failures. */
struct random_stream random_stream(uint64_t seed, enum random_purpose purpose, uint64_t entity);
double random_uniform(struct random_stream *stream); /* in (0, 1) */
/* Uniform, exponential by its mean, Weibull by its shape (1: exponential) and mean. Units are the
 * caller's. */
double random_between(struct random_stream *stream, double low, double high);
double random_exponential(struct random_stream *stream, double mean);
/* shape below 1: what has run for long fails less often than what is new. */
double random_weibull(struct random_stream *stream, double shape, double mean);

#endif
