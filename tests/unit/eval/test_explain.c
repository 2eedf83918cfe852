/* What eval_flip_text says is true: with the change that it names the decision flips, and it is the smallest such change. */
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

    job->view.flags[0] = EVAL_FLAG_ACTIVE;
    assert_string_equal(flip(job, &policy), "its active checkpoint ends");
    job->view.flags[0] = EVAL_FLAG_STORAGE_DOWN;
    assert_string_equal(flip(job, &policy), "its storage target takes writes again");
    job->view.flags[0] = EVAL_FLAG_NOT_AUTO;
    assert_string_equal(flip(job, &policy), "its strategy is auto");
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
    assert_string_equal(flip(job, &policy), "walltime longer by 60s");
}

static void hopeless_job_is_told_so(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(0);

    job->view.age_s[0] = 3600;
    assert_string_equal(flip(job, &policy), "no last-checkpoint age alone");
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
            test_random(&random) % 4 == 0 ? (uint32_t)test_random(&random) % 64 : 0;
        assert_true(strlen(flip(job, &policy)) > 0);
        if (i % 20 == 0) {
            job_close(job);
            job_init(job);
        }
    }
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
