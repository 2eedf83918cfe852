/* What eval_flip_text says is true: with the change that it names the decision flips, and it is the
 * smallest such change. */
#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/eval/jobs.h"

static char text[512];

static int setup(void **state)
{
    struct job *job = calloc(1, sizeof(*job));

    job_init(job);
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    job_close(*state);
    free(*state);
    return 0;
}

static const char *flip(struct job *job, const struct eval_policy *policy)
{
    job_score(job, policy);
    eval_flip_text(policy, &job->view, 0, &job->result, text, sizeof(text));
    return text;
}

static void skipped_job_is_told_its_age_and_bandwidth(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5); /* 3.55 h at 100 GB/s */

    job->view.age_s[0] = 3 * 3600;
    assert_string_equal(flip(job, &policy),
                        "last-checkpoint age >= 3h33m (in 33m) | bandwidth >= 141 GB/s (now 100)");
    job->view.bandwidth_bytes_per_s[0] = 141e9;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    job->view.bandwidth_bytes_per_s[0] = 140e9;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    job->view.bandwidth_bytes_per_s[0] = 100e9;
    job->view.age_s[0] = 3 * 3600 + 33 * 60;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    job->view.age_s[0] = 3 * 3600 + 31 * 60;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
}

static void job_below_the_minimum_interval_is_told_when_it_ends(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.min_interval_s = 300;
    job->view.hazard_factor[0] = 1e5;
    job->view.age_s[0] = 100;
    assert_string_equal(flip(job, &policy), "last-checkpoint age >= 5m (in 4m)");
}

static void waiting_work_is_named_when_it_could_decide(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(2.34);

    job->view.age_s[0] = 3600;
    job->view.yield_probability[0] = 1;
    assert_non_null(strstr(flip(job, &policy), "gain of waiting higher-class work >= "));
    job->view.yield_probability[0] = 0;
    assert_null(strstr(flip(job, &policy), "waiting"));
}

static void firing_job_is_told_below_which_age_it_would_not(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    job->view.age_s[0] = 5 * 3600;
    assert_string_equal(flip(job, &policy), "last-checkpoint age < 3h33m");
}

static void guards_are_told_in_words(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    job->view.age_s[0] = 5 * 3600;
    job->view.flags[0] = EVAL_FLAG_ACTIVE;
    assert_string_equal(flip(job, &policy), "its active checkpoint ends");
    job->view.flags[0] = EVAL_FLAG_STORAGE_DOWN;
    assert_string_equal(flip(job, &policy), "its storage target takes writes again");
    job->view.flags[0] = EVAL_FLAG_NOT_AUTO;
    assert_string_equal(flip(job, &policy), "its strategy is auto, and it runs on all its nodes");
    job->view.flags[0] = EVAL_FLAG_ACTIVE; /* not the whole answer for a young one */
    job->view.age_s[0] = 3 * 3600;
    assert_non_null(strstr(flip(job, &policy),
                           "its active checkpoint ends; then last-checkpoint age >= 3h33m"));
    job->view.flags[0] = 0;
    job->view.gpus[0] = NAN;
    assert_string_equal(flip(job, &policy), "gpus is nan: it must be zero or more and below 1e30");
    job->view.gpus[0] = 512;
    policy.restart_s = -1;
    assert_string_equal(flip(job, &policy),
                        "every number of the policy is zero or more and below 1e30");
}

static void near_the_end_the_missing_walltime_is_told(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.near_completion_s = 300;
    job->view.flags[0] = EVAL_FLAG_WALLTIME_DONE;
    job->view.size_bytes[0] = 0;
    job->view.walltime_left_s[0] = 240;
    assert_non_null(strstr(flip(job, &policy), "walltime longer by 60s"));
    job->view.age_s[0] = 5 * 3600; /* then worth it */
    assert_string_equal(flip(job, &policy), "walltime longer by 60s");
    job->view.age_s[0] = 0; /* not the whole answer */
    policy.min_interval_s = 600;
    assert_non_null(strstr(flip(job, &policy), "walltime longer by 60s; then last-checkpoint age"));
}

static void hopeless_job_is_told_so(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(0);

    job->view.age_s[0] = 3600;
    assert_non_null(strstr(flip(job, &policy), "no last-checkpoint age alone"));
}

static void small_buffers_are_filled_and_ended(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    job->view.age_s[0] = 3 * 3600;
    job_score(job, &policy);
    for (size_t size = 1; size < 100; size++) {
        memset(text, 'x', sizeof(text));
        eval_flip_text(&policy, &job->view, 0, &job->result, text, size);
        assert_true(memchr(text, '\0', size) != NULL);
        assert_int_equal(text[size], 'x');
    }
}

/* Every verdict of random jobs can be explained, whatever the inputs. */
static void every_decision_has_words(void **state)
{
    static const double extremes[] = {0, 1e-9, 1, 100, 1e5, 1e12, INFINITY, -1, NAN};
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    uint64_t random = test_seed();

    policy.max_interval_s = 1e5;
    policy.near_completion_s = 300;
    for (int i = 0; i < 2000; i++) {
#define X(column)                                                                                  \
    if (test_random(&random) % 8 == 0)                                                             \
        job->view.column[0] = extremes[test_random(&random) % (i % 2 == 0 ? 9 : 6)];
        EVAL_VIEW_COLUMNS(X)
#undef X
        job->view.flags[0] =
            test_random(&random) % 4 == 0 ? (uint32_t)test_random(&random) % 512 : 0;
        assert_true(strlen(flip(job, &policy)) > 0);
        if (i % 20 == 0) {
            job_close(job);
            job_init(job);
        }
    }
}

static void draw(struct job *job, struct eval_policy *policy, uint64_t *random)
{
    struct eval_view *view = &job->view;
    double nodes = 1 << test_random(random) % 8;

    *policy = seed_policy(0.5 + (double)(test_random(random) % 100) / 10);
    policy->min_interval_s = (double)(test_random(random) % 600);
    policy->max_interval_s = test_random(random) % 2 == 0 ? 0 : 21600;
    policy->near_completion_s = 300;
    policy->certainty = (double)(test_random(random) % 5) / 4;
    policy->pressure = (double)(test_random(random) % 11) / 10;
    policy->backlog_urgency = 1 + (double)(test_random(random) % 3);
    view->nodes[0] = nodes;
    view->gpus[0] = nodes * 8;
    view->age_s[0] = (double)(test_random(random) % 40000);
    view->size_bytes[0] = nodes * 8 * 80e9 * (double)(30 + test_random(random) % 70) / 100;
    view->bandwidth_bytes_per_s[0] = nodes * 1.5625e9;
    view->hazard_factor[0] = (double)(1 + test_random(random) % 40) / 10;
    view->kill_per_s[0] = test_random(random) % 3 == 0 ? 1e-5 : 0;
    view->alarm_h[0] = test_random(random) % 4 == 0 ? 0.05 : 0;
    view->walltime_left_s[0] =
        test_random(random) % 2 == 0 ? INFINITY : (double)(test_random(random) % 90000);
    view->waiting_gain_gpu_s[0] = test_random(random) % 3 == 0 ? 1e5 * nodes : 0;
    view->yield_probability[0] = test_random(random) % 3 == 0 ? 0.2 : 0;
    view->period_s[0] = test_random(random) % 6 == 0 ? 7200 : 0;
    view->grace_s[0] = 30;
    view->flags[0] = test_random(random) % 3 == 0 ? 1u << test_random(random) % 10 : 0;
    if (test_random(random) % 2 == 0 && (view->flags[0] & EVAL_FLAG_ACTIVE) != 0)
        view->flags[0] |= EVAL_FLAG_WAITING;
}

/* The property: exactly the reported change flips the decision, and nothing a little
 * smaller of the same input does. */
static void reported_change_flips_the_decision_and_a_smaller_one_does_not(void **state)
{
    enum { CASES = 3000 };
    struct job *job = *state;
    struct eval_policy policy;
    uint64_t random = test_seed();
    size_t found = 0, by_flag = 0;

    for (int i = 0; i < CASES; i++) {
        struct eval_change change, less;
        bool fires;
        draw(job, &policy, &random);
        fires = eval_verdict_fires(job_score(job, &policy));
        if (!eval_smallest_change(&policy, &job->view, 0, &change))
            continue;
        found++;
        by_flag += change.input == EVAL_INPUT_FLAGS;
        eval_change_apply(&change, &job->view, 0);
        assert_int_equal(eval_verdict_fires(job_score(job, &policy)), !fires);
        if (change.input == EVAL_INPUT_FLAGS || change.relative < 1e-6)
            continue; /* anything above nothing flips */
        less = change;
        less.to = change.from + 0.999 * (change.to - change.from);
        eval_change_apply(&less, &job->view, 0);
        if (eval_verdict_fires(job_score(job, &policy)) != fires)
            print_error("%s from %.17g to %.17g\n", eval_input_name(change.input), change.from,
                        change.to);
        assert_int_equal(eval_verdict_fires(job_score(job, &policy)), fires);
    }
    print_message("%zu of %d flip by one change, %zu of them by a flag\n", found, CASES, by_flag);
    assert_true(found > CASES * 9 / 10 && by_flag > 50);
}

/* Not one of the other inputs, changed by less in relation, flips */
static void reported_change_is_the_smallest_of_all_inputs(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    struct eval_change change;

    job->view.age_s[0] = 3 * 3600; /* 3.55 h needed: 18 % */
    assert_true(eval_smallest_change(&policy, &job->view, 0, &change));
    assert_int_equal(change.input, EVAL_INPUT_age_s);
    assert_double_near(change.to / 3600, 3.55, 0.01);
    job->view.age_s[0] =
        5 * 3600; /* fires; at half the age the price of storage alone would not stop it */
    assert_true(eval_smallest_change(&policy, &job->view, 0, &change));
    assert_int_equal(change.input, EVAL_INPUT_age_s);
    assert_double_near(change.to / 3600, 3.55, 0.01);
    job->view.alarm_h[0] = 0.3; /* now less alarm is the nearest way, or less age */
    assert_true(eval_smallest_change(&policy, &job->view, 0, &change));
    eval_change_apply(&change, &job->view, 0);
    assert_false(eval_verdict_fires(job_score(job, &policy)));
    job->view.size_bytes[0] = NAN;
    assert_false(eval_smallest_change(&policy, &job->view, 0, &change));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(skipped_job_is_told_its_age_and_bandwidth),
        T(job_below_the_minimum_interval_is_told_when_it_ends),
        T(waiting_work_is_named_when_it_could_decide),
        T(firing_job_is_told_below_which_age_it_would_not),
        T(guards_are_told_in_words),
        T(near_the_end_the_missing_walltime_is_told),
        T(hopeless_job_is_told_so),
        T(small_buffers_are_filled_and_ended),
        T(every_decision_has_words),
        T(reported_change_flips_the_decision_and_a_smaller_one_does_not),
        T(reported_change_is_the_smallest_of_all_inputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
