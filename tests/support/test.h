/* The one place that includes cmocka, after the four headers it wants. Also what cmocka 1.1.5
 * lacks. */
#ifndef CKPT_TESTS_SUPPORT_TEST_H
#define CKPT_TESTS_SUPPORT_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_uint_equal(a, b) assert_int_equal((uintmax_t)(a), (uintmax_t)(b))

#define assert_double_near(a, b, tolerance)                                                        \
    do {                                                                                           \
        double test_a = (a), test_b = (b);                                                         \
        if (!(test_a - test_b <= (tolerance) && test_b - test_a <= (tolerance))) {                 \
            print_error("%s = %.9g, expected %.9g +- %.3g\n", #a, test_a, test_b,                  \
                        (double)(tolerance));                                                      \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

#define assert_contains(haystack, needle)                                                          \
    do {                                                                                           \
        if (strstr((haystack), (needle)) == NULL) {                                                \
            print_error("\"%s\" is not in:\n%s\n", (needle), (haystack));                          \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

/* The seed of a random test: from the environment (SEED=n) or a fixed one; always printed. */
static inline uint64_t test_seed(void)
{
    const char *text = getenv("SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : UINT64_C(0x9e3779b97f4a7c15);

    print_message("SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* How often a test repeats something: `many` times in systems-long, which sets LONG. */
static inline unsigned test_often(unsigned rounds, unsigned many)
{
    return getenv("LONG") != NULL ? many : rounds;
}

/* splitmix64 */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
