/* Bandwidth grants: S1-045, D-001, D-002, S2-032. */
#include "src/broker/dispatch/dispatcher_grants.h"

#include "src/broker/dispatch/dispatcher_queue.h"
#include "src/eval/pace.h"
#include "tests/support/test.h"

#define GB UINT64_C(1000000000)

static struct grant_candidate candidate(uint64_t id, uint64_t wanted)
{
    return (struct grant_candidate){.checkpoint_id = id,
                                    .wanted_bytes_per_s = wanted,
                                    .size_bytes = 100 * GB,
                                    .parts = 1,
                                    .timeout_ms = 600000};
}

static void rate_is_what_the_nodes_write_or_what_is_left(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 4 * GB), candidate(2, 20 * GB)};
    struct grant_target target = {.budget_bytes_per_s = 7 * GB};
    struct grant grants[2];

    (void)state;
    assert_uint_equal(grants_pack(candidates, 2, &target, grants), 2);
    assert_uint_equal(grants[0].bytes_per_s, 4 * GB);
    assert_uint_equal(grants[1].bytes_per_s, 3 * GB);
    assert_uint_equal(target.granted_bytes_per_s, 7 * GB);
}

static void the_first_that_does_not_fit_holds_back_all_behind_it(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 6 * GB), candidate(2, 5 * GB),
                                           candidate(3, GB / 2)};
    struct grant_target target = {.budget_bytes_per_s = 7 * GB};
    struct grant grants[3];

    (void)state;
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 1);
    assert_uint_equal(grants[0].checkpoint_id, 1);
    assert_true(target.full);
}

static void a_deadline_is_never_held_back(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 7 * GB), candidate(2, 5 * GB),
                                           candidate(3, 2 * GB), candidate(4, GB)};
    struct grant_target target = {.budget_bytes_per_s = 7 * GB};
    struct grant grants[4];

    (void)state;
    candidates[2].bypass = true;
    assert_uint_equal(grants_pack(candidates, 4, &target, grants), 2);
    assert_uint_equal(grants[1].checkpoint_id, 3);
    assert_true(grants[1].bypass_budget);
    assert_true(grants[1].bytes_per_s > 0);
}

static void a_deadline_that_fits_stays_within_the_budget(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 2 * GB)};
    struct grant_target target = {.budget_bytes_per_s = 7 * GB};
    struct grant grants[1];

    (void)state;
    candidates[0].bypass = true;
    assert_uint_equal(grants_pack(candidates, 1, &target, grants), 1);
    assert_false(grants[0].bypass_budget);
}

static void a_full_target_does_not_hold_back_another(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 7 * GB), candidate(2, 7 * GB),
                                           candidate(3, 7 * GB)};
    struct grant_target targets[2] = {{.budget_bytes_per_s = 7 * GB},
                                      {.budget_bytes_per_s = 7 * GB}};
    struct grant grants[3];

    (void)state;
    candidates[2].target = 1;
    assert_uint_equal(grants_pack(candidates, 3, targets, grants), 2);
    assert_uint_equal(grants[1].checkpoint_id, 3);
}

/* S1-063: no division, no grant without bandwidth. */
static void an_unavailable_target_grants_nothing_not_even_to_a_deadline(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, GB)};
    struct grant_target target = {.budget_bytes_per_s = 0};
    struct grant grants[1];

    (void)state;
    candidates[0].bypass = true;
    assert_uint_equal(grants_pack(candidates, 1, &target, grants), 0);
}

static void timeout_is_at_least_twice_the_write_time(void **state)
{
    (void)state;
    assert_uint_equal(grant_timeout_ms(600000, 41000 * GB, 100 * GB), 820000);
    assert_uint_equal(grant_timeout_ms(600000, GB, GB), 600000);
    assert_true(grant_timeout_ms(1, UINT64_MAX, 1) > UINT64_C(1000000000000));
}

/* Nobody can tell before whether an application hangs; what it would hold until its timeout is not
 * all that there is. */
static void applications_that_may_hang_leave_half_to_the_others(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 9 * GB), candidate(2, 9 * GB),
                                           candidate(3, 9 * GB), candidate(4, 9 * GB)};
    struct grant_target target = {.budget_bytes_per_s = 8 * GB};
    struct grant grants[4];
    unsigned begun = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        candidates[i].unproven = true;
    candidates[1].size_bytes = 2 * GB * (candidates[1].timeout_ms / 1000 + 1);
    assert_uint_equal(grants_pack(candidates, 4, &target, grants), 3);
    assert_uint_equal(grants[0].bytes_per_s, 2 * GB);
    assert_uint_equal(grants[1].checkpoint_id,
                      3); /* the second would not write within its timeout */
    assert_uint_equal(grants[1].bytes_per_s, GB);
    assert_uint_equal(grants[2].checkpoint_id, 4); /* past the one that waits for its kind */
    assert_uint_equal(grants[2].bytes_per_s, 5 * GB);
    assert_false(target.full);
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB};
    candidates[0].size_bytes = GB;
    for (uint64_t i = 0; i < 8; i++) { /* one after the other asks, and hangs */
        candidates[0].checkpoint_id = i + 1;
        if (grants_pack(candidates, 1, &target, grants) == 0)
            break;
        begun++;
    }
    assert_uint_equal(begun, 5);
    assert_true(target.unproven_bytes_per_s < 4 * GB);
}

/* It is not passed over for ever by those that are known to answer. */
static void one_that_may_hang_waits_in_line_for_the_others(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, 9 * GB), candidate(2, GB)};
    struct grant_target target = {.budget_bytes_per_s = 8 * GB, .granted_bytes_per_s = 7 * GB};
    struct grant grants[2];

    (void)state;
    candidates[0].unproven = true;
    assert_uint_equal(grants_pack(candidates, 2, &target, grants), 0);
    assert_true(target.full);
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .granted_bytes_per_s = 6 * GB};
    assert_uint_equal(grants_pack(candidates, 2, &target, grants), 1);
    assert_uint_equal(grants[0].bytes_per_s, 2 * GB);
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB,
                                   .granted_bytes_per_s = 7 * GB,
                                   .unproven_bytes_per_s = 4 * GB};
    assert_uint_equal(grants_pack(candidates, 2, &target, grants), 1);
    assert_uint_equal(grants[0].checkpoint_id, 2);
    candidates[0].bypass = true; /* a deadline is not held back by any of this */
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .unproven_bytes_per_s = 4 * GB};
    assert_uint_equal(grants_pack(candidates, 1, &target, grants), 1);
    assert_uint_equal(grants[0].bytes_per_s, 8 * GB);
}

/* S2-032: a place for each part, all at once; who has more parts than there are places is not held
 * back for ever, and a deadline asks for none. */
static void parts_take_places(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, GB), candidate(2, GB), candidate(3, GB),
                                           candidate(4, GB)};
    struct grant_target target = {.budget_bytes_per_s = 8 * GB, .places = 4};
    struct grant grants[4];

    (void)state;
    candidates[0].parts = 3;
    candidates[1].parts = 2;
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 1); /* none goes past */
    assert_true(target.full);
    assert_uint_equal(target.writing, 3);
    candidates[1].parts = 1;
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .places = 4};
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 2);
    assert_uint_equal(target.writing, 4);
    candidates[3].bypass = true;
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .places = 4};
    assert_uint_equal(grants_pack(candidates, 4, &target, grants), 3);
    assert_uint_equal(grants[2].checkpoint_id, 4);
    assert_false(grants[2].bypass_budget);
    candidates[0].parts = 100;
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .places = 4, .writing = 1};
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 0);
    target = (struct grant_target){.budget_bytes_per_s = 8 * GB, .places = 4};
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 1);
    assert_uint_equal(grants[0].checkpoint_id, 1);
}

/* Those that may hang leave half of the places, and hold back nobody who waits behind them. */
static void those_that_may_hang_leave_half_of_the_places(void **state)
{
    struct grant_candidate candidates[] = {candidate(1, GB), candidate(2, GB), candidate(3, GB)};
    struct grant_target target = {.budget_bytes_per_s = 80 * GB, .places = 8};
    struct grant grants[3];

    (void)state;
    candidates[0].parts = candidates[1].parts = 4;
    candidates[0].unproven = candidates[1].unproven = true;
    assert_uint_equal(grants_pack(candidates, 3, &target, grants), 2);
    assert_uint_equal(grants[1].checkpoint_id, 3);
    assert_uint_equal(target.unproven_writing, 4);
    assert_false(target.full);
    target = (struct grant_target){
        .budget_bytes_per_s = 80 * GB, .places = 6, .writing = 4, .unproven_writing = 4};
    candidates[1].parts = 8; /* more than there are: it waits for its kind, not in front of all */
    assert_uint_equal(grants_pack(candidates + 1, 2, &target, grants), 1);
    assert_uint_equal(grants[0].checkpoint_id, 3);
    target = (struct grant_target){.budget_bytes_per_s = 80 * GB, .places = 1};
    candidates[0].parts = 1; /* a half of one is one */
    assert_uint_equal(grants_pack(candidates, 1, &target, grants), 1);
    candidates[0].bypass = true;
    target.unproven_writing = 1;
    assert_uint_equal(grants_pack(candidates, 1, &target, grants), 1);
}

/* Who waits for a place is told so: a wave is as many parts as are written at a time. */
static void places_make_waves_and_take_time(void **state)
{
    struct grant_candidate candidates[10];
    struct grant_target target = {.budget_bytes_per_s = 10 * GB, .places = 2};
    struct grant_queue queue = {0};
    struct grant grants[10];

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        candidates[i] = candidate(i + 1, GB / 2);
    assert_uint_equal(grants_pack(candidates, 10, &target, grants), 2);
    queue_note(&queue, candidates, 10, grants, 2, &target);
    assert_uint_equal(queue.targets[0].waiting_count, 8);
    assert_uint_equal(queue.targets[0].wave_count, 4);
    assert_uint_equal(queue_find(&queue, 10)->wave, 4);
    assert_uint_equal(queue_find(&queue, 10)->bytes_ahead, 700 * GB);
    assert_uint_equal(queue_find(&queue, 10)->bytes_per_s, GB); /* not 10 */
    target.places = 0;
    queue_note(&queue, candidates, 10, grants, 2, &target);
    assert_uint_equal(queue.targets[0].wave_count, 1);
    assert_uint_equal(queue_find(&queue, 10)->bytes_per_s, 10 * GB);
    queue_close(&queue);
}

/* Random candidates: the sum without bypass stays within each budget, order is kept, nobody
 * overtakes. */
static void grants_never_exceed_the_budget_and_keep_the_order(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 20000; round++) {
        enum { CANDIDATES = 12, TARGETS = 3 };
        struct grant_candidate candidates[CANDIDATES];
        struct grant_target targets[TARGETS], before[TARGETS];
        struct grant grants[CANDIDATES];
        uint64_t sums[TARGETS] = {0};
        bool held_back[TARGETS] = {false};
        size_t count, next = 0;

        for (int i = 0; i < TARGETS; i++) {
            targets[i] = (struct grant_target){.budget_bytes_per_s = test_random(&seed) % 20};
            targets[i].granted_bytes_per_s = test_random(&seed) % 25;
            before[i] = targets[i];
        }
        for (int i = 0; i < CANDIDATES; i++) {
            candidates[i] = candidate((uint64_t)i + 1, 1 + test_random(&seed) % 12);
            candidates[i].target = test_random(&seed) % TARGETS;
            candidates[i].bypass = test_random(&seed) % 6 == 0;
        }
        count = grants_pack(candidates, CANDIDATES, targets, grants);
        for (int i = 0; i < CANDIDATES; i++) {
            const struct grant_candidate *c = &candidates[i];
            bool granted = next < count && grants[next].checkpoint_id == c->checkpoint_id;

            if (!granted) {
                held_back[c->target] = true;
                continue;
            }
            assert_true(grants[next].bytes_per_s > 0);
            assert_true(grants[next].bytes_per_s <= c->wanted_bytes_per_s);
            assert_true(c->bypass || !held_back[c->target]);
            assert_true(c->bypass || !grants[next].bypass_budget);
            sums[c->target] += grants[next].bytes_per_s;
            if (!grants[next].bypass_budget)
                assert_true(before[c->target].granted_bytes_per_s + sums[c->target] <=
                            before[c->target].budget_bytes_per_s);
            next++;
        }
        assert_uint_equal(next, count); /* in the order of the candidates */
    }
}

/* The model's rule in integers: strictly by index, while what writes is at most three quarters of
 * the budget, deadlines first and past the limit. Writers that want less than a quarter may also
 * fill the last one: their rates are enforced, so nobody is slowed. */
static void grants_are_those_of_the_models_pacing(void **state)
{
    enum { CANDIDATES = 10 };
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct grant_target target = {.budget_bytes_per_s = 4 * (test_random(&seed) % 12)};
        struct grant_candidate candidates[CANDIDATES];
        struct eval_candidate model[CANDIDATES];
        struct grant grants[CANDIDATES];
        uint64_t quarter = target.budget_bytes_per_s / 4;
        size_t deadlines = test_random(&seed) % 3, granted, admitted;
        bool small = test_random(&seed) % 4 == 0;
        struct eval_window window;
        double phi;

        target.granted_bytes_per_s = test_random(&seed) % (target.budget_bytes_per_s + 2);
        window = (struct eval_window){.budget_bytes_per_s = (double)target.budget_bytes_per_s,
                                      .running_bytes_per_s = (double)target.granted_bytes_per_s};
        for (size_t i = 0; i < CANDIDATES; i++) { /* in falling index, deadlines first */
            candidates[i] =
                candidate(i + 1, 1 + (small ? 0 : quarter) + test_random(&seed) % (quarter + 1));
            candidates[i].bypass = i < deadlines;
            model[i] = (struct eval_candidate){.job = (uint32_t)i,
                                               .deadline = i < deadlines,
                                               .index = (double)(CANDIDATES - i),
                                               .size_bytes = 1,
                                               .injection_bytes_per_s =
                                                   (double)candidates[i].wanted_bytes_per_s};
        }
        granted = grants_pack(candidates, CANDIDATES, &target, grants);
        admitted = eval_pace(&window, model, CANDIDATES, &phi);
        assert_true(small ? granted >= admitted : granted == admitted);
        for (size_t i = 0; i < granted; i++)
            assert_uint_equal(grants[i].checkpoint_id, i + 1);
    }
}

/* S1-045: what waits, where, in which wave, behind how many bytes; each target has an order of its
 * own. */
static void those_that_wait_have_places_and_waves(void **state)
{
    struct grant_candidate candidates[] = {candidate(9, 7 * GB), candidate(4, 6 * GB),
                                           candidate(7, 20 * GB), candidate(2, 6 * GB),
                                           candidate(3, 9 * GB)};
    double gains[] = {9, 0, 7, 8, 5}; /* the first that waits was asked for: it has no index */
    struct grant_target targets[2] = {{.budget_bytes_per_s = 8 * GB}};
    struct grant_queue queue = {.places = NULL};
    const struct queue_place *place;
    struct grant grants[5];
    size_t granted;

    (void)state;
    candidates[4].target = 1; /* in an outage */
    for (size_t i = 0; i < 5; i++)
        candidates[i].gain_gpu_s_per_byte = gains[i];
    granted = grants_pack(candidates, 5, targets, grants);
    assert_uint_equal(granted, 1);
    queue_note(&queue, candidates, 5, grants, granted, targets);
    assert_null(queue_find(&queue, 9)); /* granted */
    assert_null(queue_find(&queue, 5)); /* unknown */
    place = queue_find(&queue, 4);
    assert_int_equal(place->position, 1);
    assert_int_equal(place->wave, 1);
    assert_uint_equal(place->bytes_ahead, 0);
    place = queue_find(&queue, 7);
    assert_int_equal(place->position, 2);
    assert_int_equal(place->wave, 2); /* six of six are taken in front of it */
    place = queue_find(&queue, 2);
    assert_int_equal(place->position, 3);
    assert_int_equal(place->wave, 3); /* a large writer is one wave, and the next one follows it */
    assert_uint_equal(place->bytes_ahead, 200 * GB);
    assert_int_equal(queue_find(&queue, 3)->position, 1);
    assert_int_equal(queue.targets[0].waiting_count, 3);
    assert_int_equal(queue.targets[0].wave_count, 3);
    assert_true(queue.targets[0].price_gpu_s_per_byte == 8);
    queue_clear(&queue);
    assert_null(queue_find(&queue, 4));
    assert_int_equal(queue.targets[0].waiting_count, 0);
    queue_close(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_is_what_the_nodes_write_or_what_is_left),
        cmocka_unit_test(the_first_that_does_not_fit_holds_back_all_behind_it),
        cmocka_unit_test(a_deadline_is_never_held_back),
        cmocka_unit_test(a_deadline_that_fits_stays_within_the_budget),
        cmocka_unit_test(a_full_target_does_not_hold_back_another),
        cmocka_unit_test(an_unavailable_target_grants_nothing_not_even_to_a_deadline),
        cmocka_unit_test(timeout_is_at_least_twice_the_write_time),
        cmocka_unit_test(grants_are_those_of_the_models_pacing),
        cmocka_unit_test(those_that_wait_have_places_and_waves),
        cmocka_unit_test(applications_that_may_hang_leave_half_to_the_others),
        cmocka_unit_test(one_that_may_hang_waits_in_line_for_the_others),
        cmocka_unit_test(parts_take_places),
        cmocka_unit_test(those_that_may_hang_leave_half_of_the_places),
        cmocka_unit_test(places_make_waves_and_take_time),
        cmocka_unit_test(grants_never_exceed_the_budget_and_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
