/* How often a user may ask. K-007. */
#include "src/broker/api/rate.h"
#include "tests/support/test.h"

/* K-007: a burst of ten seconds, then one call per step, and the refusal says when. */
static void a_user_has_a_burst_and_then_the_pace(void **state)
{
    struct rate *rate = rate_new(60); /* one each second */
    uint64_t now_ms = 5000000, wait_ms = 0;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_true(rate_allow(rate, "ann", now_ms, &wait_ms));
    assert_false(rate_allow(rate, "ann", now_ms, &wait_ms));
    assert_uint_equal(wait_ms, 1000);
    assert_false(rate_allow(rate, "ann", now_ms + 999, &wait_ms));
    assert_uint_equal(wait_ms, 1);
    assert_true(rate_allow(rate, "ann", now_ms + 1000, &wait_ms));
    assert_false(rate_allow(rate, "ann", now_ms + 1000, &wait_ms));
    /* another user is not held up, and quiet time fills the burst, no more */
    assert_true(rate_allow(rate, "bob", now_ms + 1000, &wait_ms));
    now_ms += 3600000;
    for (int i = 0; i < 10; i++)
        assert_true(rate_allow(rate, "ann", now_ms, &wait_ms));
    assert_false(rate_allow(rate, "ann", now_ms, &wait_ms));
    rate_free(rate);
}

static void a_pace_slower_than_the_burst_takes_one_at_a_time(void **state)
{
    struct rate *rate = rate_new(1);
    uint64_t wait_ms = 0;

    (void)state;
    assert_true(rate_allow(rate, "ann", 1000, &wait_ms));
    assert_false(rate_allow(rate, "ann", 1000, &wait_ms));
    assert_uint_equal(wait_ms, 60000);
    assert_true(rate_allow(rate, "ann", 61000, &wait_ms));
    rate_free(rate);
}

static void many_users_have_a_place_and_the_oldest_gives_way(void **state)
{
    struct rate *rate = rate_new(60);
    uint64_t wait_ms;
    char name[16];

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_true(rate_allow(rate, "ann", 1000000, &wait_ms));
    for (int i = 0; i < RATE_USERS_MAX + 100; i++) {
        snprintf(name, sizeof(name), "user%d", i);
        assert_true(rate_allow(rate, name, 1000000, &wait_ms));
    }
    assert_false(rate_allow(rate, "ann", 1000000, &wait_ms)); /* hers is ahead of all others' */
    rate_free(rate);
    assert_null(rate_new(0));
    assert_true(rate_allow(NULL, "ann", 0, &wait_ms));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_has_a_burst_and_then_the_pace),
        cmocka_unit_test(a_pace_slower_than_the_burst_takes_one_at_a_time),
        cmocka_unit_test(many_users_have_a_place_and_the_oldest_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
