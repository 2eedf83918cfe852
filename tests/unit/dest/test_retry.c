/* How long a store is asked again and again. */
#include "src/dest/s3/retry.h"

#include "tests/support/test.h"

enum { SECOND = 1000000, PATIENCE = 60 * SECOND };

/* A call that begins at 10 s and is refused at once each time. Returns when it is given up; others
 * succeed each second where `others`. `dice` 0: the shortest pauses. */
static uint64_t given_up_after(uint64_t success_us, bool others, uint64_t patience_us,
                               uint64_t dice, unsigned *ret_tries)
{
    uint64_t begin = 10 * SECOND, now = begin;
    struct retry retry = {0};

    for (;;) {
        retry_failed(&retry, now, now, true);
        if (others)
            success_us = now / SECOND * SECOND;
        if (retry_is_over(&retry, now, success_us, patience_us))
            break;
        now += retry_pause_us(&retry, dice);
        assert_true(retry.tries < 1000);
    }
    *ret_tries = retry.tries;
    return now - begin;
}

/* Twelve tries alone were over in half a minute. */
static void slow_down_is_borne_for_the_whole_minute(void **unused)
{
    static const uint64_t dices[] = {0, UINT64_MAX, 123456789};
    unsigned tries;

    (void)unused;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned others = 0; others < 2; others++) {
            uint64_t took_us = given_up_after(10 * SECOND, others == 1, PATIENCE, dices[i], &tries);

            assert_true(took_us >= PATIENCE);
            assert_true(took_us <= PATIENCE + 5 * SECOND);
            assert_true(tries >= RETRY_TRIES_MAX);
        }
    }
}

/* The minute begins with the first refusal, although nothing was asked for a while, as when a large
 * file was read. */
static void a_client_that_was_quiet_has_its_minute(void **unused)
{
    unsigned tries;

    (void)unused;
    assert_true(given_up_after(0, false, PATIENCE, 0, &tries) >= PATIENCE);
}

/* One that hangs has used up what it stood. */
static void tries_without_an_answer_count_from_their_begin(void **unused)
{
    struct retry retry = {0};

    (void)unused;
    retry_failed(&retry, 0, 15 * SECOND, false);
    assert_true(retry_is_over(&retry, 15 * SECOND, 0, 10 * SECOND));
    assert_false(retry_is_over(&retry, 15 * SECOND, 0, 20 * SECOND));
}

static void without_patience_there_is_one_try(void **unused)
{
    unsigned tries;

    (void)unused;
    assert_int_equal(given_up_after(10 * SECOND, false, 0, 0, &tries), 0);
    assert_int_equal(tries, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_down_is_borne_for_the_whole_minute),
        cmocka_unit_test(a_client_that_was_quiet_has_its_minute),
        cmocka_unit_test(tries_without_an_answer_count_from_their_begin),
        cmocka_unit_test(without_patience_there_is_one_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
