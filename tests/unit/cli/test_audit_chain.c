/* A trail that was edited, cut or put together of two is found, in files of any members: each byte,
 * each link, each order. The places are drawn by a seed. F-018, V-016, I41 */
#include "src/cli/audit_chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/audit_record.h"
#include "tests/support/test.h"

enum { LINKS = 40, ROUNDS = 400 };

struct trail {
    struct buf bytes;
    size_t at[LINKS + 1]; /* where each begins; the last: the end */
    uint8_t hash[BLAKE2B_BYTES];
};

static char told[1024];

static void take_finding(void *context, const char *text)
{
    (void)context;
    if (told[0] == '\0')
        snprintf(told, sizeof(told), "%s", text);
}

static void trail_make(struct trail *trail)
{
    *trail = (struct trail){.hash = {0}};
    buf_init(&trail->bytes);
    for (size_t i = 0; i < LINKS; i++) {
        trail->at[i] = trail->bytes.length;
        test_audit_chained(&trail->bytes, 1, i + 1, trail->hash);
    }
    trail->at[LINKS] = trail->bytes.length;
}

/* Of the pieces, which may be empty. Returns how many findings there are. */
static size_t verify(const struct trail *first, const struct trail *second, const char *head)
{
    struct audit_chain chain = {.found = take_finding};
    size_t found;

    told[0] = '\0';
    audit_chain_add(&chain, first->bytes.bytes, first->bytes.length, "a");
    if (second != NULL)
        audit_chain_add(&chain, second->bytes.bytes, second->bytes.length, "b");
    found = audit_chain_verify(&chain, head);
    audit_chain_close(&chain);
    return found;
}

static void files_of_several_members_are_one_trail(void **unused)
{
    struct trail trail, part;
    char head[BLAKE2B_TEXT_BYTES];

    (void)unused;
    trail_make(&trail);
    trail_make(&part);
    blake2b_text(trail.hash, head);
    part.bytes.length = part.at[25];
    assert_int_equal(verify(&trail, &part, head), 0);
    buf_consume(&trail.bytes, trail.at[20]);
    assert_int_equal(verify(&trail, &part, head), 0); /* 1 to 25, and 21 to 40 */
    buf_close(&trail.bytes);
    buf_close(&part.bytes);
}

static void each_changed_byte_is_found(void **unused)
{
    uint64_t seed = test_seed(), state = seed;
    char head[BLAKE2B_TEXT_BYTES];
    struct trail trail;

    (void)unused;
    trail_make(&trail);
    blake2b_text(trail.hash, head);
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t byte = test_random(&state) % trail.bytes.length;

        trail.bytes.bytes[byte] ^= (uint8_t)(1 + test_random(&state) % 255);
        if (verify(&trail, NULL, head) == 0)
            fail_msg("byte %zu of seed %llu", byte, (unsigned long long)seed);
        buf_close(&trail.bytes);
        trail_make(&trail);
    }
    buf_close(&trail.bytes);
}

static void each_missing_link_is_found(void **unused)
{
    char head[BLAKE2B_TEXT_BYTES], text[64];
    struct trail trail;

    (void)unused;
    for (size_t i = 0; i < LINKS; i++) {
        trail_make(&trail);
        blake2b_text(trail.hash, head);
        memmove(trail.bytes.bytes + trail.at[i], trail.bytes.bytes + trail.at[i + 1],
                trail.at[LINKS] - trail.at[i + 1]);
        trail.bytes.length -= trail.at[i + 1] - trail.at[i];
        if (i > 0) { /* nothing tells of a first one that is gone */
            assert_int_equal(verify(&trail, NULL, head), 1);
            snprintf(text, sizeof(text),
                     i + 1 < LINKS ? "records %zu to %zu are missing" : "no link has the hash",
                     i + 1, i + 1);
            assert_contains(told, text);
        }
        buf_close(&trail.bytes);
    }
}

/* The records of another time, in another epoch or under other numbers, continue nothing. */
static void a_replayed_piece_is_found(void **unused)
{
    struct trail trail, again;
    uint8_t hash[BLAKE2B_BYTES] = {0};

    (void)unused;
    trail_make(&trail);
    again = (struct trail){.hash = {0}};
    buf_init(&again.bytes);
    test_audit_chained(&again.bytes, 1, 7, hash); /* number 7 with another past */
    assert_int_not_equal(verify(&trail, &again, NULL), 0);
    assert_contains(told, "both have record 7 of epoch 1");
    buf_clear(&again.bytes);
    test_audit_chained(&again.bytes, 2, 41, hash); /* an epoch that follows nothing */
    assert_int_equal(verify(&trail, &again, NULL), 1);
    assert_contains(told, "follows none of an earlier epoch");
    buf_clear(&again.bytes);
    memcpy(hash, trail.hash, sizeof(hash));
    test_audit_chained(&again.bytes, 2, 41, hash); /* one that does */
    assert_int_equal(verify(&trail, &again, NULL), 0);
    buf_close(&again.bytes);
    buf_close(&trail.bytes);
}

static void what_is_no_link_is_told_with_its_place(void **unused)
{
    struct trail trail;

    (void)unused;
    trail_make(&trail);
    buf_append(&trail.bytes, "a note", 6);
    assert_int_equal(verify(&trail, NULL, NULL), 1);
    assert_string_equal(told, "a:41: this is no link of the audit trail");
    trail.bytes.length = trail.at[1] - 1;
    assert_int_equal(verify(&trail, NULL, NULL), 1);
    assert_string_equal(told, "a:1: this is no link of the audit trail");
    buf_close(&trail.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_several_members_are_one_trail),
        cmocka_unit_test(each_changed_byte_is_found),
        cmocka_unit_test(each_missing_link_is_found),
        cmocka_unit_test(a_replayed_piece_is_found),
        cmocka_unit_test(what_is_no_link_is_told_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
