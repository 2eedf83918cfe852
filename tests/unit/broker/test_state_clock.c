/* The stamps of commands: steps of a wall clock and leaders whose clock is off move no timer; who is off knows it. */
#include "src/base/check.h"
#include "src/broker/state_clock.h"
#include "tests/support/test.h"

#define S    UINT64_C(1000000)
#define BASE UINT64_C(1700000000000)
#define HOUR UINT64_C(3600000)

/* Members whose monotonic clocks are one, at 0 when the true time is BASE. */
struct site {
    struct state_clock clocks[5];
    int64_t ahead_ms[5]; /* of their wall clocks */
    size_t count;
    unsigned leader; /* number of the one that leads; 5: none */
    uint64_t at_us, state_ms;
};

static uint64_t wall(const struct site *site, unsigned number)
{
    return BASE + site->at_us / 1000 + (uint64_t)site->ahead_ms[number];
}

static uint64_t now(struct site *site, unsigned number)
{
    return state_clock_now(&site->clocks[number], site->at_us, wall(site, number), site->state_ms);
}

static bool look(struct site *site, unsigned number)
{
    static const uint64_t ids[] = {1, 2, 3, 4, 5};
    struct state_clock_voters voters = {number + 1, ids, site->count, number == site->leader};

    return state_clock_look(&site->clocks[number], site->at_us, wall(site, number), &voters);
}

static void tell(struct site *site, unsigned from, unsigned to)
{
    uint8_t words[STATE_CLOCK_WORDS_BYTES];
    size_t length =
        state_clock_say(&site->clocks[from], site->at_us, wall(site, from), now(site, from), words);

    state_clock_hear(&site->clocks[to], site->at_us, from + 1, from == site->leader, words, length);
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
        if ((voters >> i & 1) != 0 && i != leader)
            tell(site, i, leader);
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
    uint8_t words[20][STATE_CLOCK_WORDS_BYTES];
    struct state_clock *clock = &site.clocks[1];

    (void)state;
    elect(&site, 0, 7);
    pass(&site, 7, 20);
    for (unsigned i = 0; i < 20; i++) { /* it stands still, and reads all at once afterwards */
        site.at_us += S;
        state_clock_say(&site.clocks[0], site.at_us, wall(&site, 0), now(&site, 0), words[i]);
    }
    for (unsigned i = 0; i < 20; i++) {
        state_clock_hear(clock, site.at_us, 1, true, words[i], STATE_CLOCK_WORDS_BYTES);
        assert_in_range(error_ms(&site, 1) + 100, 0, 200);
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
        state_clock_say(&site.clocks[1], site.at_us, BASE, BASE, words);
        state_clock_hear(&site.clocks[0], site.at_us, id, false, words, sizeof(words));
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
        cmocka_unit_test(who_is_off_says_so_after_some_looks_and_when_it_is_over),
        cmocka_unit_test(of_two_clocks_the_followers_is_off),
        cmocka_unit_test(words_that_make_no_sense_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
