/* splitmix64 and what is drawn by it. See random.h.
 *
 * Shapes   seed, purpose and entity are mixed one after the other, each by an odd constant of its
 *          own, so that neighbouring numbers give unrelated streams.
 */
#include "src/whatif/random.h"

#include <math.h>

static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct random_stream random_stream(uint64_t seed, enum random_purpose purpose, uint64_t entity)
{
    uint64_t state = mix_bits(seed + UINT64_C(0x9e3779b97f4a7c15));

    state = mix_bits(state ^ ((uint64_t)purpose * UINT64_C(0xd1342543de82ef95)));
    return (struct random_stream){mix_bits(state ^ ((entity + 1) * UINT64_C(0xaf251af3b0f025b5)))};
}

/* 53 bits, and half a step: neither 0, of which there is no logarithm, nor 1. */
double random_uniform(struct random_stream *stream)
{
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    return ((double)(mix_bits(stream->state) >> 11) + 0.5) / 9007199254740992.0;
}

double random_between(struct random_stream *stream, double low, double high)
{
    return low + (high - low) * random_uniform(stream);
}

double random_exponential(struct random_stream *stream, double mean)
{
    return -mean * log(random_uniform(stream));
}

double random_weibull(struct random_stream *stream, double shape, double mean)
{
    return mean / tgamma(1 + 1 / shape) * pow(-log(random_uniform(stream)), 1 / shape);
}
