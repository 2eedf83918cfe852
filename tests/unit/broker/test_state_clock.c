/* The stamps of commands: steps of a wall clock and leaders whose clock is off move no timer; who
 * is off knows it. */
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/broker/replica/state_clock.h"
#include "tests/support/test.h"

#define S    UINT64_C(1000000)
#define BASE UINT64_C(1700000000000)
#define HOUR UINT64_C(3600000)

/* Members whose monotonic clocks are one, at 0 when the true time is BASE. */
struct site {
    struct state_clock clocks[5];
    int64_t ahead_ms[5]; /* of their wall clocks */
    uint64_t suspended_us[5];
    size_t count;
    unsigned leader; /* number of the one that leads; 5: none */
    uint64_t at_us, state_ms;
};

static uint64_t wall(const struct site *site, unsigned number)
{
    return BASE + site->at_us / 1000 + (uint64_t)site->ahead_ms[number];
}

static uint64_t monotonic(const struct site *site, unsigned number)
{
    return site->at_us - site->suspended_us[number];
}

static uint64_t now(struct site *site, unsigned number)
{
    return state_clock_now(&site->clocks[number], monotonic(site, number), wall(site, number),
                           site->state_ms);
}

static bool look(struct site *site, unsigned number)
{
    static const uint64_t ids[] = {1, 2, 3, 4, 5};
    struct state_clock_voters voters = {number + 1, ids, site->count, number == site->leader};

    return state_clock_look(&site->clocks[number], monotonic(site, number), wall(site, number),
                            &voters);
}

struct words {
    unsigned from;
    bool leads;
    uint8_t bytes[STATE_CLOCK_WORDS_BYTES];
};

static struct words said(struct site *site, unsigned from, unsigned to)
{
    struct words words = {.from = from, .leads = from == site->leader};

    state_clock_say(&site->clocks[from], to + 1, monotonic(site, from), wall(site, from),
                    now(site, from), words.bytes);
    return words;
}

static void hear(struct site *site, unsigned to, const struct words *words)
{
    state_clock_hear(&site->clocks[to], monotonic(site, to), words->from + 1, words->leads,
                     words->bytes, STATE_CLOCK_WORDS_BYTES);
}

static void tell(struct site *site, unsigned from, unsigned to)
{
    struct words words = said(site, from, to);

    hear(site, to, &words);
}

/* Half a second of the members that are there: followers answer the leader. */
static void pass(struct site *site, unsigned present, unsigned halves)
{
    for (unsigned n = 0; n < halves; n++) {
        site->at_us += S / 2;
        for (unsigned i = 0; i < site->count; i++) {
            if ((present >> i & 1) == 0)
                continue;
            look(site, i);
            if (i != site->leader && site->leader < 5) {
                tell(site, site->leader, i);
                tell(site, i, site->leader);
            }
        }
        if (site->leader < 5)
            site->state_ms = now(site, site->leader);
    }
}

static int64_t error_ms(struct site *site, unsigned number)
{
    return (int64_t)(now(site, number) - BASE - site->at_us / 1000);
}

static void elect(struct site *site, unsigned leader, unsigned voters)
{
    for (unsigned i = 0; i < site->count; i++)
        if ((voters >> i & 1) != 0 && i != leader) {
            tell(site, leader, i); /* it asks for the vote */
            tell(site, i, leader);
        }
    site->leader = leader;
    look(site, leader);
}

static struct site three(void)
{
    return (struct site){.count = 3, .leader = 5, .at_us = 5 * S};
}

static void alone_a_step_of_the_wall_clock_is_taken_up_slowly(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct site site = {.count = 1, .leader = 0};
        uint64_t previous_ms;

        look(&site, 0);
        assert_uint_equal(now(&site, 0), BASE);
        previous_ms = BASE;
        site.ahead_ms[0] = sign * (int64_t)HOUR;
        for (site.at_us = 0; site.at_us <= 600 * S; site.at_us += S / 20) {
            look(&site, 0);
            site.state_ms = now(&site, 0);
            assert_true(site.state_ms >= previous_ms);
            previous_ms = site.state_ms;
        }
        assert_in_range(previous_ms - BASE, 540000 - 1000, 660000 + 1000);
        assert_true(sign > 0 ? previous_ms - BASE > 650000 : previous_ms - BASE < 550000);
    }
}

static void a_clock_that_is_right_is_followed_exactly(void **state)
{
    struct site site = {.count = 1, .leader = 0};

    (void)state;
    for (site.at_us = S; site.at_us < 100 * S; site.at_us += 7777) {
        look(&site, 0);
        assert_in_range(error_ms(&site, 0) + 1, 0, 2);
    }
}

/* A leader was an hour ahead. Its successor goes on from there: nothing is late by the hour. */
static void a_state_that_is_ahead_goes_on_at_once(void **state)
{
    struct site site = {.count = 1, .leader = 0, .state_ms = BASE + HOUR};

    (void)state;
    look(&site, 0);
    assert_uint_equal(now(&site, 0), BASE + HOUR);
    site.at_us += 60 * S;
    look(&site, 0);
    assert_in_range(now(&site, 0), BASE + HOUR + 54000, BASE + HOUR + 60000);
}

/* The cluster is idle: no entry says the time, heartbeats do. */
static void a_follower_learns_the_time_of_an_idle_leader(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct site site = three();

        site.ahead_ms[2] = sign * 3 * (int64_t)HOUR;
        elect(&site, 0, 3);
        pass(&site, 3, 20);
        pass(&site, 7, 20);
        assert_in_range(error_ms(&site, 2) + 100, 0, 200);
        elect(&site, 2, 7); /* it leads, and nothing jumps */
        assert_in_range(error_ms(&site, 2) + 100, 0, 200);
        pass(&site, 7, 2000);
        assert_in_range(error_ms(&site, 2) + 100, 0, 200);
        pass(&site, 6, 2000); /* nor with one other clock beside its own */
        assert_in_range(error_ms(&site, 2) + 100, 0, 200);
    }
}

static void a_step_of_the_leaders_clock_moves_nothing_where_others_are_right(void **state)
{
    struct site site = three();

    (void)state;
    elect(&site, 0, 7);
    pass(&site, 7, 20);
    site.ahead_ms[0] = (int64_t)HOUR;
    pass(&site, 7, 1200);
    assert_in_range(error_ms(&site, 0) + 100, 0, 200);
    assert_true(site.clocks[0].off);
}

/* All were down, and who is ahead leads before it has heard a leader. */
static void a_first_leader_takes_the_time_of_its_voters(void **state)
{
    (void)state;
    for (unsigned voters = 3; voters <= 7; voters += 4) {
        struct site site = three();

        site.ahead_ms[0] = 3 * (int64_t)HOUR;
        site.state_ms = BASE - HOUR;
        elect(&site, 0, voters);
        assert_in_range(error_ms(&site, 0) + 100, 0, 200);
        pass(&site, voters, 100);
        assert_in_range(error_ms(&site, 0) + 100, 0, 200);
    }
}

/* Of two clocks the earlier one counts; with the third it is known which one was right. */
static void a_first_leader_that_is_behind_is_set_forward_when_a_majority_agrees(void **state)
{
    struct site site = three();

    (void)state;
    site.ahead_ms[0] = -3 * (int64_t)HOUR;
    site.state_ms = BASE - HOUR;
    elect(&site, 0, 3);
    assert_uint_equal(now(&site, 0), BASE - HOUR);
    pass(&site, 3, 20);
    assert_true(error_ms(&site, 0) < -(int64_t)HOUR + 10000);
    pass(&site, 7, 4);
    assert_in_range(error_ms(&site, 0) + 100, 0, 200);
    site.ahead_ms[1] = site.ahead_ms[2] = (int64_t)HOUR; /* but once only */
    pass(&site, 7, 20);
    assert_true(error_ms(&site, 0) <= 1100);
}

static void what_had_waited_says_nothing_about_the_time(void **state)
{
    struct site site = three();
    struct words words[20];

    (void)state;
    elect(&site, 0, 7);
    pass(&site, 7, 20);
    for (unsigned i = 0; i < 20; i++) { /* it stands still, and reads all at once afterwards */
        site.at_us += S;
        words[i] = said(&site, 0, 1);
    }
    for (unsigned i = 0; i < 20; i++) {
        hear(&site, 1, &words[i]);
        assert_in_range(error_ms(&site, 1) + 100, 0, 200);
    }
}

/* It was elected a moment ago, and knows of no right time yet. */
static void a_leader_that_has_not_looked_says_no_time(void **state)
{
    struct site site = three();

    (void)state;
    elect(&site, 1, 7);
    pass(&site, 7, 20);
    site.clocks[0] = (struct state_clock){0};
    site.ahead_ms[0] = 3 * (int64_t)HOUR;
    site.leader = 0;
    tell(&site, 2, 0);
    tell(&site, 0, 2);
    assert_in_range(error_ms(&site, 2) + 100, 0, 200);
    for (unsigned i = 0; i < 20; i++) {
        site.at_us += S / 2;
        look(&site, 2);
        assert_false(site.clocks[2].off);
    }
}

/* Nothing new comes for some seconds after what had waited: its leader has given up meanwhile. */
static void nobody_is_off_by_words_that_had_waited(void **state)
{
    (void)state;
    for (unsigned elected = 0; elected <= 1; elected++)
        for (unsigned still_s = 7; still_s < 60; still_s += 8) {
            struct site site = three();
            struct words words[3], others;

            elect(&site, 0, 7);
            pass(&site, 7, 20);
            for (unsigned i = 0; i < 3; i++) {
                site.at_us += S / 2;
                words[i] = said(&site, 0, 1);
            }
            others = said(&site, 2, 1);
            site.at_us += still_s * S;
            site.leader = 5;
            for (unsigned i = 0; i < 3; i++)
                hear(&site, 1, &words[i]);
            hear(&site, 1, &others);
            if (elected != 0)
                site.leader = 1;
            for (unsigned i = 0; i < 20; i++) {
                look(&site, 1);
                assert_false(site.clocks[1].off);
                assert_in_range(error_ms(&site, 1) + 200, 0, 400);
                site.at_us += S / 2;
            }
        }
}

/* Its machine was suspended: its monotonic clock stood still, its wall clock was set when it went
 * on. */
static void who_was_suspended_is_right_when_its_wall_clock_is(void **state)
{
    (void)state;
    for (unsigned set = 0; set <= 1; set++) {
        struct site site = three();

        elect(&site, 0, 7);
        pass(&site, 7, 20);
        site.ahead_ms[1] = set != 0 ? 0 : -(int64_t)HOUR;
        site.suspended_us[1] = HOUR * 1000;
        site.at_us += HOUR * 1000;
        pass(&site, 5, 1);
        for (unsigned i = 0; i < 40; i++) {
            pass(&site, 7, 1);
            assert_false(site.clocks[0].off || site.clocks[2].off);
            assert_true(!site.clocks[1].off || set == 0);
        }
        assert_int_equal(site.clocks[1].off, set == 0);
        assert_in_range(error_ms(&site, 1) + 200, 0, 400);
    }
}

static void who_is_off_says_so_after_some_looks_and_when_it_is_over(void **state)
{
    struct site site = three();
    unsigned changes = 0;
    int64_t offset_ms;

    (void)state;
    elect(&site, 0, 7);
    pass(&site, 7, 20);
    assert_false(site.clocks[2].off);
    site.ahead_ms[2] = -7000;
    for (unsigned i = 0; i < 3; i++) { /* a look a second */
        pass(&site, 7, 1);
        assert_false(site.clocks[2].off);
    }
    pass(&site, 7, 4);
    assert_true(site.clocks[2].off);
    assert_in_range(site.clocks[2].offset_ms + 7100, 0, 200);
    assert_true(state_clock_offset(&site.clocks[0], site.at_us, 3, &offset_ms));
    assert_in_range(offset_ms + 7100, 0, 200);
    assert_true(state_clock_offset(&site.clocks[0], site.at_us, 2, &offset_ms));
    assert_in_range(offset_ms + 100, 0, 200);
    assert_false(site.clocks[0].off || site.clocks[1].off);
    site.ahead_ms[2] = -3000; /* not enough */
    pass(&site, 7, 20);
    assert_true(site.clocks[2].off);
    site.ahead_ms[2] = 0;
    for (unsigned i = 0; i < 20; i++) {
        site.at_us += S / 2;
        tell(&site, 2, 0);
        tell(&site, 0, 2);
        changes += look(&site, 2);
    }
    assert_uint_equal(changes, 1);
    assert_false(site.clocks[2].off);
}

/* Nobody knows which of two is right: it is said of the one that follows. */
static void of_two_clocks_the_followers_is_off(void **state)
{
    struct site site = {.count = 2, .leader = 5, .at_us = S};

    (void)state;
    site.ahead_ms[1] = 10000;
    elect(&site, 0, 3);
    pass(&site, 3, 20);
    assert_false(site.clocks[0].off);
    assert_true(site.clocks[1].off);
}

static void words_that_make_no_sense_are_passed_over(void **state)
{
    struct site site = three();
    uint8_t words[STATE_CLOCK_WORDS_BYTES];
    int64_t offset_ms;

    (void)state;
    elect(&site, 0, 1);
    memset(words, 0xff, sizeof(words));
    state_clock_hear(&site.clocks[0], site.at_us, 2, true, words, sizeof(words));
    state_clock_hear(&site.clocks[0], site.at_us, 2, true, words, 5);
    assert_false(state_clock_offset(&site.clocks[0], site.at_us, 2, &offset_ms));
    for (uint64_t id = 10; id < 30; id++) { /* more members than there are places */
        tell(&site, 1, 0);
        state_clock_say(&site.clocks[1], 1, site.at_us, BASE, BASE, words);
        state_clock_hear(&site.clocks[0], site.at_us, id, false, words, sizeof(words));
    }
}

/* It is no leader: extremes, words of before and words twice move neither the time nor what the
 * others are told of their clocks. */
static void one_member_that_says_anything_moves_no_time(void **state)
{
    static const uint64_t extremes[] = {
        0, 1, BASE, UINT64_C(1) << 48, UINT64_MAX >> 1, UINT64_MAX - 1, UINT64_MAX};
    struct site site = three();
    struct words words = {0};
    uint64_t drawn = 1, before_ms = 0;

    (void)state;
    elect(&site, 0, 7);
    pass(&site, 7, 20);
    for (unsigned n = 0; n < 20000; n++) {
        if (n % 7 == 0)
            words = said(&site, 2, n % 2); /* also words that were for the other one */
        for (size_t place = 1; n % 3 != 0 && place < STATE_CLOCK_WORDS_BYTES; place += 8) {
            drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407U;
            if (drawn >> 63 != 0) /* what answers may be right: the words count */
                bytes_put(words.bytes + place, extremes[(drawn >> 33) % 7], 8);
        }
        words.from = 2;
        hear(&site, n / 2 % 2, &words);
        pass(&site, 3, n % 2);
        assert_true(site.state_ms >= before_ms);
        before_ms = site.state_ms;
        assert_in_range(error_ms(&site, 0) + 100, 0, 200);
        assert_false(site.clocks[0].off || site.clocks[1].off);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_a_step_of_the_wall_clock_is_taken_up_slowly),
        cmocka_unit_test(a_clock_that_is_right_is_followed_exactly),
        cmocka_unit_test(a_state_that_is_ahead_goes_on_at_once),
        cmocka_unit_test(a_follower_learns_the_time_of_an_idle_leader),
        cmocka_unit_test(a_step_of_the_leaders_clock_moves_nothing_where_others_are_right),
        cmocka_unit_test(a_first_leader_takes_the_time_of_its_voters),
        cmocka_unit_test(a_first_leader_that_is_behind_is_set_forward_when_a_majority_agrees),
        cmocka_unit_test(what_had_waited_says_nothing_about_the_time),
        cmocka_unit_test(a_leader_that_has_not_looked_says_no_time),
        cmocka_unit_test(nobody_is_off_by_words_that_had_waited),
        cmocka_unit_test(who_was_suspended_is_right_when_its_wall_clock_is),
        cmocka_unit_test(who_is_off_says_so_after_some_looks_and_when_it_is_over),
        cmocka_unit_test(of_two_clocks_the_followers_is_off),
        cmocka_unit_test(one_member_that_says_anything_moves_no_time),
        cmocka_unit_test(words_that_make_no_sense_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
