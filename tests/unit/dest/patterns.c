/* The contents of large files. See patterns.h. */
#include "tests/unit/dest/patterns.h"

static uint64_t random_next(uint64_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

enum { LINE_BYTES = 24 };
static const uint64_t random_first = UINT64_C(88172645463325252);

void pattern_numbers(uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16 ^ i >> 24);
}

void pattern_noise(uint8_t *bytes, size_t length, size_t from)
{
    uint64_t random = random_first + from;

    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)random_next(&random);
}

void pattern_zeros(uint8_t *bytes, size_t length)
{
    uint64_t random = random_first;

    for (size_t i = 0; i < length; i++)
        bytes[i] = random_next(&random) % 8 > 0 ? '0' : (uint8_t)random;
}

void pattern_text(uint8_t *bytes, size_t length, size_t from)
{
    static const char line[LINE_BYTES + 1] = "0.125 0.250 0.125 0.000 ";

    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(line[(from + i) % LINE_BYTES] ^ (from + i) >> 16);
}
