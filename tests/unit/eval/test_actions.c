/* The payoffs of actions and the order of those that want bandwidth. */
#include <math.h>
#include <stdlib.h>

#include "src/eval/actions.h"
#include "src/eval/pace.h"
#include "tests/support/test.h"

/* The seed's job at some age: 512 GPUs, c = 409.6 s, a claim for 256 GPUs that gains 4,000 s of
 * them. */
static struct eval_situation claimed(double age_s)
{
    return (struct eval_situation){.gpus = 512,
                                   .age_s = age_s,
                                   .cost_gpu_s = 512 * 409.6,
                                   .guards_allow = true,
                                   .yield_asked = true,
                                   .claim_gpu_s = 4e6,
                                   .stall_s = 409.6,
                                   .restart_s = 180};
}

static enum eval_action best(const struct eval_situation *situation)
{
    struct eval_payoffs payoffs;

    eval_payoffs(situation, &payoffs);
    return payoffs.best;
}

/* S1-021, second row of the seed: 15 min of progress are saved before the nodes are yielded, 5 min
 * (less than c) are not */
static void progress_is_saved_before_yielding_when_it_is_worth_more_than_the_pause(void **state)
{
    struct eval_situation old = claimed(15 * 60), young = claimed(5 * 60);

    (void)state;
    assert_int_equal(best(&old), EVAL_ACTION_CHECKPOINT_AND_YIELD);
    assert_int_equal(best(&young), EVAL_ACTION_KILL_AND_YIELD);
    old.claim_per_s = 512; /* the claimant's wait counts too */
    assert_int_equal(best(&old), EVAL_ACTION_CHECKPOINT_AND_YIELD);
    old.claim_per_s = 10 * 512;
    assert_int_equal(best(&old), EVAL_ACTION_KILL_AND_YIELD);
}

/* I35: what cannot be written is lost or kept, but never waited for */
static void in_an_outage_nothing_is_written(void **state)
{
    struct eval_situation situation = claimed(3600);

    (void)state;
    situation.cost_gpu_s = INFINITY;
    situation.claim_gpu_s = 1e6;
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
    situation.claim_gpu_s = 4e6;
    assert_int_equal(best(&situation), EVAL_ACTION_KILL_AND_YIELD);
    situation.guards_allow = false;
    situation.cost_gpu_s = 1;
    assert_int_equal(best(&situation), EVAL_ACTION_KILL_AND_YIELD);
}

static void with_number(struct eval_situation *situation, const char *name, double value)
{
#define X(type, number)                                                                            \
    if (strcmp(name, #number) == 0)                                                                \
        situation->number = (type)value;
    EVAL_SITUATION_NUMBERS(X)
#undef X
}

/* What explain reports turns the choice round when it is applied, and a hair less of it does
 * not. */
static void the_smallest_change_turns_the_choice_round(void **state)
{
    enum { CASES = 5000 };
    uint64_t random = test_seed();
    size_t found = 0, chosen[EVAL_ACTION_COUNT] = {0};

    (void)state;
    for (int i = 0; i < CASES; i++) {
        double gpus = 8 * (1 + (double)(test_random(&random) % 64));
        struct eval_situation situation = {
            .gpus = gpus,
            .age_s = (double)(test_random(&random) % 20000),
            .value_gpu_s = gpus * (double)(test_random(&random) % 600),
            .cost_gpu_s = gpus * (double)(test_random(&random) % 600),
            .guards_allow = test_random(&random) % 5 > 0,
            .yield_asked = test_random(&random) % 3 == 0,
            .claim_gpu_s = (double)(test_random(&random) % 2000000),
            .stall_s = (double)(test_random(&random) % 600),
            .restart_s = (double)(test_random(&random) % 600),
            .spare = test_random(&random) % 2 == 0,
            .alarm_p = (double)(test_random(&random) % 100) / 100,
            .down_s = 90,
            .lost_s = (double)(test_random(&random) % 20000)};
        struct eval_situation changed = situation;
        struct eval_payoff_change change;

        chosen[best(&situation)]++;
        if (!eval_payoffs_smallest_change(&situation, &change))
            continue;
        found++;
        with_number(&changed, change.number, change.to);
        assert_int_not_equal(best(&changed), best(&situation));
        if (change.relative < 1e-9) /* it was a tie */
            continue;
        with_number(&changed, change.number, change.from + (change.to - change.from) * 0.999);
        assert_int_equal(best(&changed), best(&situation));
    }
    print_message("%zu of %d have one\n", found, CASES);
    assert_true(found > CASES / 2);
    for (int action = 0; action < EVAL_ACTION_COUNT; action++)
        assert_true(chosen[action] > 10);
}

static void nobody_yields_who_is_not_asked_or_for_too_little(void **state)
{
    struct eval_situation situation = claimed(3600);

    (void)state;
    situation.claim_gpu_s = 512 * 180; /* a restart's worth */
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
    situation.claim_gpu_s = 1e9;
    situation.yield_asked = false;
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
    situation.value_gpu_s = situation.cost_gpu_s; /* S1-001: equality is no reason */
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
    situation.value_gpu_s = situation.cost_gpu_s + 1;
    assert_int_equal(best(&situation), EVAL_ACTION_CHECKPOINT);
}

/* S1-022: right after the checkpoint the move costs its restart only; p (D + R + lost) > R, and
 * only to a spare */
static void job_moves_off_a_failing_node_when_the_failure_costs_more_than_the_move(void **state)
{
    struct eval_situation situation = {.gpus = 512,
                                       .guards_allow = true,
                                       .restart_s = 180,
                                       .down_s = 300,
                                       .lost_s = 120,
                                       .spare = true};

    (void)state;
    situation.alarm_p = 0.29;
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
    situation.alarm_p = 0.31; /* 180 / 600 = 0.3 */
    assert_int_equal(best(&situation), EVAL_ACTION_MIGRATE);
    situation.spare = false;
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
}

/* I38 */
static void not_a_number_never_decides_an_action(void **state)
{
    double *fields[7];
    struct eval_situation situation = claimed(3600);
    struct eval_payoffs payoffs;

    (void)state;
    situation.spare = true;
    fields[0] = &situation.gpus;
    fields[1] = &situation.age_s;
    fields[2] = &situation.cost_gpu_s;
    fields[3] = &situation.claim_gpu_s;
    fields[4] = &situation.restart_s;
    fields[5] = &situation.value_gpu_s;
    fields[6] = &situation.alarm_p;
    for (size_t i = 0; i < 7; i++) {
        double given = *fields[i];
        *fields[i] = NAN;
        eval_payoffs(&situation, &payoffs);
        for (int action = 0; action < EVAL_ACTION_COUNT; action++)
            assert_false(isnan(payoffs.net_gpu_s[action]));
        *fields[i] = given;
    }
    situation.gpus = NAN;
    assert_int_equal(best(&situation), EVAL_ACTION_CONTINUE);
}

/* ---- pacing ---- */

static struct eval_candidate candidate(uint32_t job, double index, double injection)
{
    return (struct eval_candidate){
        .job = job, .index = index, .size_bytes = 1e12, .injection_bytes_per_s = injection};
}

/* S1-064, I36, D-002 */
static void most_worth_per_byte_is_admitted_first_until_three_quarters_are_taken(void **state)
{
    struct eval_candidate candidates[] = {candidate(1, 1e-9, 30e9), candidate(2, 5e-9, 30e9),
                                          candidate(3, 3e-9, 30e9), candidate(4, 4e-9, 30e9),
                                          candidate(5, 2e-9, 1e9)};
    struct eval_window window = {.budget_bytes_per_s = 100e9};
    double phi;

    (void)state;
    assert_int_equal(eval_pace(&window, candidates, 5, &phi), 3);
    assert_int_equal(candidates[0].job, 2);
    assert_int_equal(candidates[1].job, 4);
    assert_int_equal(candidates[2].job, 3); /* at 60 of 100: not yet over 75 */
    assert_int_equal(candidates[3].job, 5); /* small, but its turn comes in order */
    assert_true(candidates[2].admitted && !candidates[3].admitted);
    assert_int_equal(candidates[3].wave, 1);
    assert_double_near(phi, 3e-9, 1e-18);
    assert_double_near(window.running_bytes_per_s, 90e9, 1);
}

static void bandwidth_without_a_queue_is_free(void **state)
{
    struct eval_candidate candidates[] = {candidate(1, 1e-9, 30e9)};
    struct eval_window window = {.budget_bytes_per_s = 100e9};
    double phi = 1;

    (void)state;
    assert_int_equal(eval_pace(&window, candidates, 1, &phi), 1);
    assert_true(phi == 0);
    assert_int_equal(eval_pace(&window, candidates, 0, &phi), 0);
}

/* S1-094: what would be too late afterwards does not wait for others, but for the end of an
 * outage */
static void deadlines_pass_the_limit_but_not_an_outage(void **state)
{
    struct eval_candidate candidates[] = {candidate(1, 9e-9, 30e9), candidate(2, 1e-9, 30e9)};
    struct eval_window window = {.budget_bytes_per_s = 100e9, .running_bytes_per_s = 90e9};
    double phi;

    (void)state;
    candidates[1].deadline = true;
    assert_int_equal(eval_pace(&window, candidates, 2, &phi), 1);
    assert_int_equal(candidates[0].job, 2);
    window = (struct eval_window){0};
    assert_int_equal(eval_pace(&window, candidates, 2, &phi), 0);
    assert_true(phi == 0);
    assert_int_equal(candidates[0].wave, UINT32_MAX);
}

/* L3: after an outage the same order holds, whatever the order of arrival */
static void order_is_the_same_for_every_arrival(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct eval_candidate candidates[20];
        struct eval_window window = {.budget_bytes_per_s = 1e9};
        double phi;

        for (uint32_t i = 0; i < 20; i++)
            candidates[i] = candidate(i, (double)(test_random(&random) % 7), 1e6);
        for (uint32_t i = 19; i > 0; i--) {
            uint32_t k = (uint32_t)(test_random(&random) % (i + 1));
            struct eval_candidate other = candidates[i];
            candidates[i] = candidates[k];
            candidates[k] = other;
        }
        assert_int_equal(eval_pace(&window, candidates, 20, &phi), 20);
        for (uint32_t i = 1; i < 20; i++)
            assert_true(candidates[i - 1].index > candidates[i].index ||
                        (candidates[i - 1].index == candidates[i].index &&
                         candidates[i - 1].job < candidates[i].job));
    }
}

static void senseless_candidates_are_not_admitted_and_block_nobody(void **state)
{
    struct eval_candidate candidates[] = {candidate(1, 9e-9, NAN), candidate(2, NAN, 1e9),
                                          candidate(3, 1e-9, 1e9), candidate(4, INFINITY, 0)};
    struct eval_window window = {.budget_bytes_per_s = 100e9};
    double phi;

    (void)state;
    candidates[0].size_bytes = 1;
    assert_int_equal(eval_pace(&window, candidates, 4, &phi), 2);
    assert_int_equal(candidates[0].job, 3);
    assert_int_equal(candidates[1].job, 2);
    assert_true(isfinite(window.running_bytes_per_s) && phi == 0);
    assert_true(eval_pace_index(NAN, 1, 1, 1) == 0);
    assert_true(isfinite(eval_pace_index(5, 1, 1, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_saved_before_yielding_when_it_is_worth_more_than_the_pause),
        cmocka_unit_test(in_an_outage_nothing_is_written),
        cmocka_unit_test(the_smallest_change_turns_the_choice_round),
        cmocka_unit_test(nobody_yields_who_is_not_asked_or_for_too_little),
        cmocka_unit_test(job_moves_off_a_failing_node_when_the_failure_costs_more_than_the_move),
        cmocka_unit_test(not_a_number_never_decides_an_action),
        cmocka_unit_test(most_worth_per_byte_is_admitted_first_until_three_quarters_are_taken),
        cmocka_unit_test(bandwidth_without_a_queue_is_free),
        cmocka_unit_test(deadlines_pass_the_limit_but_not_an_outage),
        cmocka_unit_test(order_is_the_same_for_every_arrival),
        cmocka_unit_test(senseless_candidates_are_not_admitted_and_block_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
