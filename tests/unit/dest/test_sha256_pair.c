/* Two digests in turn are those of one after the other. */
#include <stdlib.h>
#include <string.h>

#include "src/dest/sha256_pair.h"
#include "tests/support/test.h"

enum { LONGEST = 1 << 20 };

static void check_both(const uint8_t *bytes, size_t one, size_t other, size_t offset)
{
    const struct sha256_piece pieces[2] = {{bytes, one}, {bytes + offset, other}};
    uint8_t digests[2][SHA256_BYTES], expected[SHA256_BYTES];

    sha256_pair(pieces, digests);
    for (size_t k = 0; k < 2; k++) {
        sha256_of(pieces[k].bytes, pieces[k].length, expected);
        assert_memory_equal(digests[k], expected, SHA256_BYTES);
    }
}

static void both_are_what_each_alone_would_be(void **state)
{
    uint8_t *bytes = malloc(2 * LONGEST);
    uint64_t seed = 1;

    (void)state;
    for (size_t i = 0; i < 2 * (size_t)LONGEST; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        bytes[i] = (uint8_t)(seed >> 56);
    }
    for (size_t one = 0; one <= 130; one++) {
        for (size_t other = 0; other <= 130; other++)
            check_both(bytes, one, other, 3);
    }
    check_both(bytes, LONGEST, LONGEST, LONGEST);
    check_both(bytes, LONGEST, LONGEST - 1, 1);
    check_both(bytes, 5, LONGEST, 64);
    check_both(bytes, LONGEST - 63, 0, 7);
    free(bytes);
}

/* FIPS 180-4's examples, so that not only two of ours agree. */
static void the_published_examples_come_out(void **state)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    const struct sha256_piece pieces[2] = {{(const uint8_t *)"abc", 3},
                                           {(const uint8_t *)two_blocks, strlen(two_blocks)}};
    uint8_t digests[2][SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    (void)state;
    sha256_pair(pieces, digests);
    assert_string_equal(sha256_format(digests[0], hex),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(sha256_format(digests[1], hex),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_are_what_each_alone_would_be),
        cmocka_unit_test(the_published_examples_come_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
