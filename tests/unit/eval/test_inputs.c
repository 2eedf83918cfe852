/* Inputs kept as bits give the same verdict and the same terms, bit for bit. */
#include <math.h>

#include "src/eval/breakdown.h"
#include "src/eval/inputs.h"
#include "tests/support/test.h"
#include "tests/unit/eval/jobs.h"

/* Of 4,096 fixed jobs under fixed policies. When this fails and nothing but the model was changed:
 * raise EVAL_MODEL_REVISION, so that older decisions are not compared with the new model, and put
 * the printed number here. */
#define MODEL_DIGEST UINT64_C(0xb58da9d757cd092c)

static double draw(uint64_t *random, double least, double most)
{
    return least + (most - least) * (double)(test_random(random) % 1000001) / 1e6;
}

static void draw_policy(uint64_t *random, struct eval_policy *policy)
{
    *policy = seed_policy(draw(random, 0.5, 10));
    policy->min_interval_s = draw(random, 0, 600);
    policy->max_interval_s = draw(random, 0, 1) < 0.5 ? 0 : 21600;
    policy->sensitive_min_interval_s = 600;
    policy->sensitive_max_interval_s = 3600;
    policy->certainty = draw(random, 0, 1);
    policy->near_completion_s = 300;
    policy->quiesce_s = draw(random, 0, 30);
    policy->stall_fraction = draw(random, 0.1, 1);
    policy->phi_gpu_s_per_byte = draw(random, 0, 1) < 0.5 ? 0 : draw(random, 0, 1e-8);
    policy->pressure = draw(random, 0, 1);
    policy->backlog_urgency = draw(random, 0, 4);
}

/* Whatever columns there are: each within a range in which most numbers make sense. */
static void draw_row(uint64_t *random, struct eval_view *view, size_t i)
{
#define X(column) view->column[i] = draw(random, 0, 1);
    EVAL_VIEW_COLUMNS(X)
#undef X
    view->age_s[i] *= 60000;
    view->nodes[i] = floor(view->nodes[i] * 200) + 1;
    view->gpus[i] = view->nodes[i] * 8;
    view->size_bytes[i] *= view->gpus[i] * 80e9;
    view->bandwidth_bytes_per_s[i] *= 400e9;
    view->hazard_factor[i] *= 5;
    view->kill_per_s[i] *= 1e-5;
    view->alarm_h[i] *= 0.2;
    view->walltime_left_s[i] = test_random(random) % 2 == 0 ? INFINITY : draw(random, 0, 90000);
    view->write_quantile_s[i] *= 900;
    view->period_s[i] = test_random(random) % 4 == 0 ? 7200 : 0;
    view->waiting_gain_gpu_s[i] *= 1e7;
    view->grace_s[i] *= 120;
    view->stall_factor[i] *= 2;
    view->flags[i] = (uint32_t)test_random(random) % 1024;
}

/* What is logged of a decision is enough to reproduce it. */
static void bits_give_the_same_verdict_and_terms_back(void **state)
{
    enum { ROWS = 300 };
    struct eval_policy policy, again;
    struct eval_view view, one;
    struct eval_result result, one_result;
    uint64_t random = test_seed(), row[EVAL_COLUMN_COUNT], numbers[EVAL_POLICY_COUNT];

    (void)state;
    eval_view_alloc(&view, ROWS);
    eval_view_alloc(&one, 1);
    eval_result_alloc(&result, ROWS);
    eval_result_alloc(&one_result, 1);
    view.count = ROWS;
    one.count = 1;
    for (int round = 0; round < 20; round++) {
        draw_policy(&random, &policy);
        for (size_t i = 0; i < ROWS; i++)
            draw_row(&random, &view, i);
        eval_score(&policy, &view, &result);
        eval_policy_take(&policy, numbers);
        eval_policy_give(numbers, &again);
        for (size_t i = 0; i < ROWS; i++) {
            eval_row_take(&view, i, row);
            eval_row_give(row, &one, 0);
            one.flags[0] = view.flags[i];
            eval_score(&again, &one, &one_result); /* alone: another place in the block */
            assert_uint_equal(eval_result_digest(&one_result, 0), eval_result_digest(&result, i));
        }
    }
    eval_view_free(&view);
    eval_view_free(&one);
    eval_result_free(&result);
    eval_result_free(&one_result);
}

static double part_sum(const struct eval_part *parts, size_t count, const char *term)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].term, term) == 0 && parts[i].raw != 0 && parts[i].weight != 0)
            sum += parts[i].raw * parts[i].weight;
    return sum;
}

/* S1-018: each raw amount times its weight, summed, is the term. */
static void raw_amounts_times_their_weights_are_the_terms(void **state)
{
    enum { ROWS = 2000 };
    struct eval_part parts[EVAL_PARTS_MAX];
    struct eval_policy policy;
    struct eval_view view;
    struct eval_result result;
    uint64_t random = test_seed();
    size_t told = 0;

    (void)state;
    eval_view_alloc(&view, ROWS);
    eval_result_alloc(&result, ROWS);
    view.count = ROWS;
    draw_policy(&random, &policy);
    policy.pressure = 0.9;
    policy.backlog_urgency = 2;
    policy.phi_gpu_s_per_byte = 1e-9;
    for (size_t i = 0; i < ROWS; i++)
        draw_row(&random, &view, i);
    view.age_s[7] = NAN;
    eval_score(&policy, &view, &result);
    for (size_t i = 0; i < ROWS; i++) {
        size_t count = eval_breakdown(&policy, &view, i, parts);
        double sum;

        assert_int_equal(count, result.verdict[i] == EVAL_SKIP_BAD_INPUT ? 0 : EVAL_PARTS_MAX);
        if (count == 0)
            continue;
        told++;
#define X(column)                                                                                  \
    sum = part_sum(parts, count, #column);                                                         \
    assert_true(isinf(result.column[i]) ? isinf(sum)                                               \
                                        : fabs(sum - result.column[i]) <= 1e-9 * fabs(sum));
        X(recompute_saved)
        X(preemptability)
        X(backlog_relief)
        X(write_time)
        X(compute_waste)
        X(storage_cost)
#undef X
    }
    assert_true(told > ROWS / 2 && told < ROWS);
    eval_view_free(&view);
    eval_result_free(&result);
}

static void payoffs_are_given_back_from_their_bits(void **state)
{
    struct eval_situation situation = {.gpus = 512,
                                       .age_s = 3000.001,
                                       .value_gpu_s = 1e5,
                                       .cost_gpu_s = INFINITY,
                                       .guards_allow = true,
                                       .restart_s = 180,
                                       .spare = true,
                                       .alarm_p = 0.3,
                                       .down_s = 90,
                                       .lost_s = 4000};
    struct eval_situation again;
    struct eval_payoffs payoffs, again_payoffs;
    uint64_t bits[EVAL_SITUATION_COUNT];

    (void)state;
    for (int i = 0; i < 2; i++, situation.cost_gpu_s = 2e4) {
        eval_situation_take(&situation, bits);
        eval_situation_give(bits, &again);
        eval_payoffs(&situation, &payoffs);
        eval_payoffs(&again, &again_payoffs);
        assert_uint_equal(eval_payoffs_digest(1, &payoffs), eval_payoffs_digest(1, &again_payoffs));
        assert_true(eval_payoffs_digest(1, &payoffs) != eval_payoffs_digest(2, &payoffs));
    }
    assert_int_equal(payoffs.best, EVAL_ACTION_MIGRATE);
}

static void digest_sees_every_column_and_the_verdict(void **state)
{
    struct eval_result result;
    uint64_t before;

    (void)state;
    eval_result_alloc(&result, 1);
    before = eval_result_digest(&result, 0);
#define X(column)                                                                                  \
    result.column[0] = nextafter(0, 1); /* the lowest bit */                                       \
    assert_true(eval_result_digest(&result, 0) != before);                                         \
    result.column[0] = 0;                                                                          \
    assert_uint_equal(eval_result_digest(&result, 0), before);
    EVAL_RESULT_COLUMNS(X)
#undef X
    result.verdict[0] = 1;
    assert_true(eval_result_digest(&result, 0) != before);
    eval_result_free(&result);
}

static void names_tell_every_number(void **state)
{
    const char *names = eval_input_names();
    int spaces = 0;

    (void)state;
    for (const char *at = names; *at != '\0'; at++)
        spaces += *at == ' ';
    assert_int_equal(spaces, EVAL_COLUMN_COUNT + EVAL_POLICY_COUNT + EVAL_SITUATION_COUNT + 1);
    assert_true(strncmp(names, "age_s gpus ", 11) == 0);
    assert_non_null(strstr(names, " | cycle_s "));
    assert_non_null(strstr(names, " | gpus age_s value_gpu_s "));
    assert_true(strlen(names) <= 1024); /* what one text of the log may have */
}

static void a_changed_model_has_a_new_revision(void **state)
{
    enum { ROWS = 4096 };
    struct eval_policy policy;
    struct eval_view view;
    struct eval_result result;
    uint64_t random = 1, digest = 0;

    (void)state;
    eval_view_alloc(&view, ROWS);
    eval_result_alloc(&result, ROWS);
    view.count = ROWS;
    draw_policy(&random, &policy);
    policy.pressure = 0.9;
    policy.backlog_urgency = 2;
    policy.phi_gpu_s_per_byte = 1e-9;
    for (size_t i = 0; i < ROWS; i++)
        draw_row(&random, &view, i);
    eval_score(&policy, &view, &result);
    for (size_t i = 0; i < ROWS; i++)
        digest = digest * 31 + eval_result_digest(&result, i);
    if (digest != MODEL_DIGEST)
        print_error("model digest 0x%016" PRIx64 ", revision %d\n", digest, EVAL_MODEL_REVISION);
    assert_uint_equal(digest, MODEL_DIGEST);
    eval_view_free(&view);
    eval_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_give_the_same_verdict_and_terms_back),
        cmocka_unit_test(raw_amounts_times_their_weights_are_the_terms),
        cmocka_unit_test(payoffs_are_given_back_from_their_bits),
        cmocka_unit_test(digest_sees_every_column_and_the_verdict),
        cmocka_unit_test(names_tell_every_number),
        cmocka_unit_test(a_changed_model_has_a_new_revision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
