/* Guards, their precedence, inputs that make no sense, and what must hold for any inputs. */
#include <math.h>

#include "src/base/check.h"
#include "src/eval/inputs.h"
#include "tests/support/test.h"
#include "tests/unit/eval/jobs.h"

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

/* A job that fires by value at once. */
static void make_worthwhile(struct job *job)
{
    job->view.age_s[0] = 86400;
    job->view.hazard_factor[0] = 100;
}

/* S1-001: cost equal to value is no checkpoint; one bit less is */
static void value_equal_to_cost_is_no_checkpoint(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(2.34);

    job->view.age_s[0] = 3600;
    job->view.bandwidth_bytes_per_s[0] = INFINITY; /* nothing is stalled but for quiesce_s */
    job_score(job, &policy);
    job->view.gpus[0] = 1;
    job_score(job, &policy);
    policy.quiesce_s = job_value(job);
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    assert_true(job_value(job) == job_cost(job));
    policy.quiesce_s = nextafter(policy.quiesce_s, 0);
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
}

/* S1-063 */
static void storage_down_never_fires_and_gives_no_nan(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.max_interval_s = 3600;
    make_worthwhile(job);
    job->view.period_s[0] = 60;
    job->view.walltime_left_s[0] = 100;
    for (int i = 0; i < 4; i++) {
        job->view.bandwidth_bytes_per_s[0] = i % 2 == 0 ? 0 : 1e11;
        job->view.flags[0] = i % 2 == 0 ? 0 : EVAL_FLAG_STORAGE_DOWN;
        job->view.gpus[0] = i < 2 ? 512 : 0;
        assert_int_equal(job_score(job, &policy), EVAL_SKIP_STORAGE_DOWN);
        assert_true(isinf(job->result.write_s[0]));
        assert_true(isinf(job_cost(job)) && job_cost(job) > 0);
        assert_true(isfinite(job_value(job)));
        assert_true(isinf(job->result.young_daly_s[0]));
    }
}

/* S1-063: the order after an outage needs the value while it lasts */
static void recompute_saved_is_known_during_an_outage(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    double up;

    job->view.age_s[0] = 7200;
    job_score(job, &policy);
    up = job->result.recompute_saved[0];
    job->view.flags[0] = EVAL_FLAG_STORAGE_DOWN;
    job_score(job, &policy);
    assert_double_near(job->result.recompute_saved[0], up, 1e-9);
}

static void guards_are_taken_in_their_order(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.max_interval_s = 43200;
    policy.min_interval_s = 100000;
    policy.near_completion_s = 600;
    make_worthwhile(job);
    job->view.period_s[0] = 3600;
    job->view.walltime_left_s[0] = 450; /* within the slot of w = 409.6 s */
    job->view.flags[0] = EVAL_FLAG_NOT_AUTO | EVAL_FLAG_ACTIVE | EVAL_FLAG_STORAGE_DOWN;
    job->view.nodes[0] = NAN;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_BAD_INPUT);
    job->view.nodes[0] = 64;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_STRATEGY);
    job->view.flags[0] = EVAL_FLAG_ACTIVE | EVAL_FLAG_STORAGE_DOWN;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_ACTIVE);
    job->view.flags[0] = EVAL_FLAG_STORAGE_DOWN;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_STORAGE_DOWN);
    job->view.flags[0] = 0;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
    job->view.flags[0] =
        EVAL_FLAG_ACTIVE | EVAL_FLAG_WAITING; /* its active one can still be hurried */
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
    job->view.flags[0] |= EVAL_FLAG_STORAGE_DOWN;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_ACTIVE);
    job->view.flags[0] = EVAL_FLAG_ACTIVE | EVAL_FLAG_WAITING | EVAL_FLAG_WALLTIME_DONE;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_ACTIVE);
    job->view.flags[0] = EVAL_FLAG_WALLTIME_DONE;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_NEAR_COMPLETION);
    job->view.walltime_left_s[0] = INFINITY;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_MIN_INTERVAL);
    policy.min_interval_s = 300;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    job->view.flags[0] = EVAL_FLAG_ACTIVE | EVAL_FLAG_WAITING; /* for a deadline only */
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_ACTIVE);
    job->view.flags[0] = 0;
    job->view.hazard_factor[0] = 0;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_PERIOD);
    job->view.period_s[0] = 0;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_MAX_INTERVAL);
    policy.max_interval_s = 0;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
}

/* S1-020: never more often than the minimum interval, and at the latest after the maximum */
static void intervals_stay_between_minimum_and_maximum(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.min_interval_s = 300;
    policy.max_interval_s = 21600;
    job->view.hazard_factor[0] = 1e6;
    assert_double_near(job_interval_s(job, &policy), 300, 0.02); /* the model alone: 39 s */
    job->view.hazard_factor[0] = 0;
    assert_double_near(job_interval_s(job, &policy), 21600, 0.02);
}

static void declared_period_fires_on_time(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(0);

    job->view.period_s[0] = 1800;
    job->view.age_s[0] = 1799;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    job->view.age_s[0] = 1800;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_PERIOD);
}

/* S3-068, init= of bsub -k: not even what is worth it comes before, but the walltime's. */
static void the_first_one_waits_for_its_period(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    make_worthwhile(job);
    job->view.age_s[0] = 1799;
    job->view.period_s[0] = 1800;
    job->view.hazard_factor[0] = 1000;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    job->view.flags[0] = EVAL_FLAG_FIRST;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_MIN_INTERVAL);
    job->view.walltime_left_s[0] = 450; /* within the slot of w = 409.6 s */
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
    job->view.walltime_left_s[0] = INFINITY;
    job->view.hazard_factor[0] = 0;
    job->view.age_s[0] = 1800;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_PERIOD);
    job->view.period_s[0] = 60; /* the policy's least interval holds all the same */
    policy.min_interval_s = 3600;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_MIN_INTERVAL);
}

/* S1-094, decision 3: once, with everything since the last checkpoint at stake, but not for less
 * than it costs */
static void walltime_checkpoint_is_asked_for_once_and_only_when_worth_it(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(2.34);

    job->view.age_s[0] = 3600;
    job->view.walltime_left_s[0] = 450;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
    assert_double_near(job->result.recompute_saved[0], 512 * 3600.0, 1e-6);
    job->view.flags[0] = EVAL_FLAG_WALLTIME_DONE;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    job->view.flags[0] = 0;
    job->view.age_s[0] = 400; /* less than the 409.6 s that a checkpoint costs */
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
}

/* Decision 3: a grace longer than the cycle is the margin */
static void walltime_slot_keeps_a_margin_of_the_grace(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(2.34);

    job->view.age_s[0] = 3600;
    job->view.write_quantile_s[0] = 435;
    job->view.grace_s[0] = 300;
    job->view.walltime_left_s[0] = 735;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
    job->view.walltime_left_s[0] = 736;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
}

/* S1-092: what cannot end before SIGKILL is not begun, by whatever rule */
static void checkpoint_that_would_be_killed_is_not_begun(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.max_interval_s = 3600;
    make_worthwhile(job);
    job->view.grace_s[0] = 30;
    job->view.walltime_left_s[0] = 379;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_NEAR_COMPLETION);
    job->view.walltime_left_s[0] = 380;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_WALLTIME);
}

static void horizon_ends_at_the_planned_walltime_checkpoint(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(2.34);

    job->view.age_s[0] = 7200;
    job->view.write_quantile_s[0] = 440;
    assert_double_near(eval_horizon_s(&policy, &job->view, 0), 3600, 1e-9);
    job->view.walltime_left_s[0] = 1500; /* slot at 440 + 60 */
    assert_double_near(eval_horizon_s(&policy, &job->view, 0), 1000, 1e-9);
    job->view.flags[0] = EVAL_FLAG_WALLTIME_DONE;
    assert_double_near(eval_horizon_s(&policy, &job->view, 0), 1500, 1e-9);
}

/* The sensitive policy: at least 10 min, at most 1 h, whatever holds for the others; never in an
 * outage */
static void sensitive_jobs_have_intervals_of_their_own(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.min_interval_s = 300;
    policy.max_interval_s = 21600;
    policy.sensitive_min_interval_s = 600;
    policy.sensitive_max_interval_s = 3600;
    job->view.flags[0] = EVAL_FLAG_SENSITIVE;
    job->view.hazard_factor[0] = 1e6;
    assert_double_near(job_interval_s(job, &policy), 600, 0.02);
    job->view.hazard_factor[0] = 0;
    assert_double_near(job_interval_s(job, &policy), 3600, 0.02);
    policy.sensitive_max_interval_s = 0; /* no backstop */
    job->view.age_s[0] = 1e6;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    job->view.flags[0] = EVAL_FLAG_SENSITIVE | EVAL_FLAG_STORAGE_DOWN;
    policy.sensitive_max_interval_s = 3600;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_STORAGE_DOWN);
}

/* The longest interval stands for a hazard that may be higher than it is believed to be: it ends an
 * interval where a checkpoint would be worth it at 1 / certainty times the value, at once when
 * nothing is certain, and never when all is. */
static void longest_interval_binds_only_as_far_as_the_hazard_is_unsure(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(0.2);
    double by_value_s = job_interval_s(job, &policy), bound_s;

    policy.max_interval_s = by_value_s / 4;
    assert_double_near(job_interval_s(job, &policy), by_value_s / 4, 0.02);
    policy.certainty = 1;
    assert_double_near(job_interval_s(job, &policy), by_value_s, 0.02);
    policy.certainty = 0.25; /* value grows with the square of the age */
    bound_s = job_interval_s(job, &policy);
    assert_double_near(bound_s / by_value_s, 0.5, 0.01);
    job->view.age_s[0] = bound_s + 1;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_MAX_INTERVAL);
    assert_true(job_value(job) >= 0.25 * job_cost(job) && job_value(job) < job_cost(job));
    job->view.age_s[0] = by_value_s + 1;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    policy.certainty = 1;
    job->view.flags[0] = EVAL_FLAG_DOUBTED; /* it died by itself: nobody knows its hazard */
    assert_double_near(job_interval_s(job, &policy), by_value_s / 4, 0.02);
    policy.sensitive_max_interval_s = by_value_s / 8;
    job->view.flags[0] = EVAL_FLAG_SENSITIVE; /* its own limit holds whatever is known */
    assert_double_near(job_interval_s(job, &policy), by_value_s / 8, 0.02);
}

/* What will not complete is worth less: half as likely, half the value; never, nothing but the
 * backstop fires */
static void value_counts_only_checkpoints_that_complete(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    double sure;

    job->view.age_s[0] = 3600;
    job->view.kill_per_s[0] = 1e-5;
    job->view.waiting_gain_gpu_s[0] = 1e6;
    job->view.yield_probability[0] = 0.1;
    job_score(job, &policy);
    sure = job_value(job);
    job->view.success_probability[0] = 0.5;
    job_score(job, &policy);
    assert_double_near(job_value(job), sure / 2, 1e-6);
    job->view.success_probability[0] = 0;
    make_worthwhile(job);
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    policy.max_interval_s = 3600;
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_MAX_INTERVAL);
}

/* A measured pause replaces the policy's */
static void measured_stall_changes_the_cost_of_one_job(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    policy.stall_fraction = 0.5;
    policy.quiesce_s = 1;
    job->view.stall_factor[0] = 0.2;
    job_score(job, &policy);
    assert_double_near(job->result.compute_waste[0], 512 * (0.1 * 409.6 + 1), 1e-6);
}

/* eval_decide() leaves out what is only shown and decides the same, for any inputs */
static void verdicts_alone_are_those_of_the_whole_score(void **state)
{
    enum { JOBS = 1000 };
    static const double extremes[] = {0, 1e-9, 1, 100, 1e5, 1e12, INFINITY, -1, NAN};
    struct eval_policy policy = seed_policy(6.5);
    struct eval_view view;
    struct eval_result result;
    uint8_t verdicts[JOBS];
    uint64_t random = test_seed();
    size_t fires = 0;

    (void)state;
    policy.max_interval_s = 2e4;
    policy.certainty = 0.5;
    policy.min_interval_s = 300;
    policy.near_completion_s = 300;
    eval_view_alloc(&view, JOBS);
    eval_result_alloc(&result, JOBS);
    view.count = JOBS;
    for (size_t i = 0; i < JOBS; i++) {
        view.age_s[i] = (double)(test_random(&random) % 40000);
        view.nodes[i] = 64;
        view.gpus[i] = 512;
        view.size_bytes[i] = 4e13;
        view.bandwidth_bytes_per_s[i] = 1e11;
        view.flags[i] = test_random(&random) % 4 == 0 ? (uint32_t)test_random(&random) % 1024 : 0;
#define X(column)                                                                                  \
    if (test_random(&random) % 40 == 0)                                                            \
        view.column[i] = extremes[test_random(&random) % 9];
        EVAL_VIEW_COLUMNS(X)
#undef X
    }
    eval_score(&policy, &view, &result);
    eval_decide(&policy, &view, verdicts);
    assert_memory_equal(verdicts, result.verdict, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        fires += eval_verdict_fires(verdicts[i]);
    assert_true(fires > 10 && fires < JOBS - 10);
    policy.cycle_s = NAN;
    eval_decide(&policy, &view, verdicts);
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(verdicts[i], EVAL_SKIP_BAD_INPUT);
    eval_view_free(&view);
    eval_result_free(&result);
}

/* One loop for all where every input makes sense, with and without flags that change numbers; the
 * passes where one does not. */
static void a_single_odd_input_among_good_ones_changes_one_verdict(void **state)
{
    enum { JOBS = 300 };
    static const double odd[] = {0,    -0.0, 1e-300, 1,         1.5,      6e29,
                                 1e30, 1e31, -1,     -INFINITY, INFINITY, NAN};
    struct eval_policy policy = seed_policy(6.5);
    struct eval_view view;
    struct eval_result result;
    uint8_t verdicts[JOBS];
    uint64_t random = test_seed();
    size_t seen[EVAL_VERDICT_COUNT] = {0};

    (void)state;
    policy.max_interval_s = 20000;
    policy.certainty = 0.5;
    policy.min_interval_s = 300;
    policy.near_completion_s = 300;
    policy.phi_gpu_s_per_byte = 1e-10;
    eval_view_alloc(&view, JOBS);
    eval_result_alloc(&result, JOBS);
    view.count = JOBS;
    for (int column = 0; column < EVAL_COLUMN_COUNT; column++) {
        for (size_t k = 0; k < ARRAY_COUNT(odd) * 2; k++) {
            double *const columns[] = {
#define X(name) view.name,
                EVAL_VIEW_COLUMNS(X)
#undef X
            };
            for (size_t i = 0; i < JOBS; i++) {
                view.age_s[i] = (double)(test_random(&random) % 40000);
                view.nodes[i] = 1 + (double)(test_random(&random) % 64);
                view.gpus[i] = view.nodes[i] * 8;
                view.size_bytes[i] = (double)(test_random(&random) % 1000) * 1e9;
                view.bandwidth_bytes_per_s[i] = 1e9 * view.nodes[i];
                view.hazard_factor[i] = 1 + (double)(test_random(&random) % 3);
                view.kill_per_s[i] = (double)(test_random(&random) % 3) * 1e-6;
                view.alarm_h[i] = test_random(&random) % 9 == 0 ? 0.1 : 0;
                view.walltime_left_s[i] = (double)(test_random(&random) % 3000);
                view.write_quantile_s[i] = test_random(&random) % 3 == 0 ? 200 : 0;
                view.period_s[i] = test_random(&random) % 4 == 0 ? 3600 : 0;
                view.usd_per_gb_month[i] = 0.02;
                view.waiting_gain_gpu_s[i] = (double)(test_random(&random) % 3) * 1e5;
                view.yield_probability[i] = (double)(test_random(&random) % 3) / 2;
                view.grace_s[i] = 30;
                view.success_probability[i] = 0.98;
                view.stall_factor[i] = 1;
                view.flags[i] = k % 2 == 0 || i < 128 ? 0 : (uint32_t)test_random(&random) % 1024;
            }
            columns[column][test_random(&random) % JOBS] = odd[k / 2];
            eval_score(&policy, &view, &result);
            eval_decide(&policy, &view, verdicts);
            assert_memory_equal(verdicts, result.verdict, JOBS);
            for (size_t i = 0; i < JOBS; i++)
                seen[verdicts[i]]++;
        }
    }
    for (int verdict = 0; verdict < EVAL_SKIP_PACED; verdict++)
        assert_true(seen[verdict] > 0);
    eval_view_free(&view);
    eval_result_free(&result);
}

/* ---- inputs that make no sense ---- */

static void check_result_clean(const struct job *job)
{
#define X(column) assert_true(job->result.column[0] == 0);
    EVAL_RESULT_COLUMNS(X)
#undef X
}

static void senseless_input_never_decides_and_leaves_zeros(void **state)
{
    static const double senseless[] = {NAN, -1, -INFINITY, 1e30, 1e308};
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    double *columns[] = {job->view.age_s,
                         job->view.gpus,
                         job->view.nodes,
                         job->view.size_bytes,
                         job->view.hazard_factor,
                         job->view.kill_per_s,
                         job->view.write_quantile_s,
                         job->view.period_s,
                         job->view.usd_per_gb_month,
                         job->view.waiting_gain_gpu_s,
                         job->view.grace_s,
                         job->view.stall_factor};

    policy.max_interval_s = 3600;
    make_worthwhile(job);
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        double given = columns[i][0];
        for (size_t k = 0; k < sizeof(senseless) / sizeof(senseless[0]); k++) {
            columns[i][0] = senseless[k];
            assert_int_equal(job_score(job, &policy), EVAL_SKIP_BAD_INPUT);
            check_result_clean(job);
        }
        columns[i][0] = INFINITY;
        assert_int_equal(job_score(job, &policy), EVAL_SKIP_BAD_INPUT);
        columns[i][0] = given;
    }
}

static void senseless_bandwidth_walltime_alarm_or_probability_never_decides(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);
    const struct {
        double *column;
        double senseless;
    } rows[] = {{job->view.bandwidth_bytes_per_s, NAN},
                {job->view.bandwidth_bytes_per_s, -1},
                {job->view.walltime_left_s, NAN},
                {job->view.alarm_h, NAN},
                {job->view.alarm_h, -0.1},
                {job->view.yield_probability, NAN},
                {job->view.yield_probability, 1.01},
                {job->view.yield_probability, -0.01},
                {job->view.success_probability, NAN},
                {job->view.success_probability, 1.01},
                {job->view.success_probability, -0.01}};

    make_worthwhile(job);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double given = rows[i].column[0];
        rows[i].column[0] = rows[i].senseless;
        assert_int_equal(job_score(job, &policy), EVAL_SKIP_BAD_INPUT);
        check_result_clean(job);
        rows[i].column[0] = given;
    }
}

static void senseless_policy_decides_nothing(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    make_worthwhile(job);
    policy.cycle_s = NAN;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_BAD_INPUT);
    check_result_clean(job);
    policy = seed_policy(6.5);
    policy.horizon_clamp = NAN; /* has a default */
    assert_int_equal(job_score(job, &policy), EVAL_CHECKPOINT_VALUE);
    policy.usd_per_gpu_hour = 0; /* money is not weighed */
    job->view.usd_per_gb_month[0] = 1000;
    job_score(job, &policy);
    assert_true(job->result.storage_cost[0] == 0);
}

static void empty_job_costs_nothing_and_is_never_worth_anything(void **state)
{
    struct job *job = *state;
    struct eval_policy policy = seed_policy(6.5);

    make_worthwhile(job);
    job->view.gpus[0] = job->view.nodes[0] = job->view.size_bytes[0] = 0;
    assert_int_equal(job_score(job, &policy), EVAL_SKIP_VALUE);
    assert_true(job_value(job) == 0 && job_cost(job) == 0);
    assert_true(isinf(job->result.young_daly_s[0]));
}

/* ---- for any inputs ---- */

static double uniform(uint64_t *state)
{
    return (double)(test_random(state) >> 11) / 9007199254740992.0;
}

static double spread(uint64_t *state, double low, double high)
{
    return low * pow(high / low, uniform(state));
}

static void draw_job(struct job *job, uint64_t *random)
{
    struct eval_view *view = &job->view;

    view->age_s[0] = spread(random, 1, 1e6);
    view->nodes[0] = floor(spread(random, 1, 4096));
    view->gpus[0] = view->nodes[0] * 8;
    view->size_bytes[0] = spread(random, 1e6, 1e15);
    view->bandwidth_bytes_per_s[0] = spread(random, 1e6, 1e13);
    view->hazard_factor[0] = spread(random, 0.1, 100);
    view->kill_per_s[0] = spread(random, 1e-9, 1e-4);
    view->alarm_h[0] = uniform(random) < 0.5 ? 0 : spread(random, 1e-4, 3);
    view->walltime_left_s[0] = uniform(random) < 0.5 ? INFINITY : spread(random, 1, 1e6);
    view->write_quantile_s[0] = uniform(random) < 0.5 ? 0 : spread(random, 1, 1e4);
    view->usd_per_gb_month[0] = uniform(random) / 10;
    view->waiting_gain_gpu_s[0] = uniform(random) < 0.5 ? 0 : spread(random, 1, 1e9);
    view->yield_probability[0] = uniform(random) < 0.5 ? 0 : uniform(random);
    view->grace_s[0] = spread(random, 1, 1000);
    view->flags[0] = 0;
}

static struct eval_policy draw_policy(uint64_t *random)
{
    struct eval_policy policy = seed_policy(spread(random, 0.1, 100));

    policy.stall_fraction = uniform(random);
    policy.quiesce_s = uniform(random) * 30;
    policy.pressure = uniform(random);
    policy.backlog_urgency = 1 + uniform(random);
    policy.min_interval_s = uniform(random) * 600;
    return policy;
}

/* Seconds counted as k-ths of a second, and hazards with them: value and cost grow by k, the
 * decision stays. */
static void scale_time(struct job *job, struct eval_policy *policy, double k)
{
    struct eval_view *view = &job->view;

    view->age_s[0] *= k;
    view->bandwidth_bytes_per_s[0] /= k;
    view->kill_per_s[0] /= k;
    view->walltime_left_s[0] *= k;
    view->write_quantile_s[0] *= k;
    view->waiting_gain_gpu_s[0] *= k;
    view->grace_s[0] *= k;
    view->usd_per_gb_month[0] *= k;
    policy->cycle_s *= k;
    policy->min_interval_s *= k;
    policy->lambda_node_per_s /= k;
    policy->quiesce_s *= k;
    policy->restart_s *= k;
}

/* Beside the backlog's wait, which is bounded in real seconds. The factor is a power of two, so
 * that nothing is rounded. */
static void units_of_time_cancel(void **state)
{
    struct job *job = *state;
    uint64_t random = test_seed();

    for (int i = 0; i < 2000; i++) {
        struct eval_policy policy;
        enum eval_verdict verdict;
        double value, cost;
        draw_job(job, &random);
        policy = draw_policy(&random);
        policy.pressure = 0;
        verdict = job_score(job, &policy);
        value = job_value(job);
        cost = job_cost(job);
        scale_time(job, &policy, 1024);
        assert_int_equal(job_score(job, &policy), verdict);
        assert_true(job_value(job) == 1024 * value);
        assert_true(job_cost(job) == 1024 * cost);
    }
}

static void units_of_gpus_and_bytes_cancel(void **state)
{
    struct job *job = *state;
    uint64_t random = test_seed();

    for (int i = 0; i < 2000; i++) {
        struct eval_policy policy;
        enum eval_verdict verdict;
        draw_job(job, &random);
        policy = draw_policy(&random);
        verdict = job_score(job, &policy);
        job->view.gpus[0] *= 8;
        job->view.waiting_gain_gpu_s[0] *= 8;
        job->view.usd_per_gb_month[0] *= 8;
        assert_int_equal(job_score(job, &policy), verdict);
        job->view.size_bytes[0] *= 1024;
        job->view.bandwidth_bytes_per_s[0] *= 1024;
        job->view.usd_per_gb_month[0] /= 1024;
        assert_int_equal(job_score(job, &policy), verdict);
    }
}

/* S1-011, S1-012: longer unsaved progress and worse health never lower the failure probability or
 * the value */
static void failure_probability_grows_with_age_and_with_bad_health(void **state)
{
    struct job *job = *state;
    uint64_t random = test_seed();

    for (int i = 0; i < 2000; i++) {
        struct eval_policy policy;
        double probability, saved, older;
        draw_job(job, &random);
        policy = draw_policy(&random);
        job->view.walltime_left_s[0] = INFINITY;
        job_score(job, &policy);
        probability = job->result.failure_probability[0];
        saved = job->result.recompute_saved[0];
        job->view.age_s[0] *= 1 + uniform(&random);
        job_score(job, &policy);
        older = job->result.failure_probability[0];
        assert_true(older >= probability * (1 - 1e-12));
        assert_true(job->result.recompute_saved[0] >= saved * (1 - 1e-12));
        job->view.hazard_factor[0] *= 1 + uniform(&random);
        job_score(job, &policy);
        assert_true(job->result.failure_probability[0] >= older * (1 - 1e-12));
        assert_true(older >= 0.5 || job->result.failure_probability[0] > older);
    }
}

static void no_result_is_ever_nan_or_negative(void **state)
{
    struct job *job = *state;
    uint64_t random = test_seed();

    for (int i = 0; i < 20000; i++) {
        struct eval_policy policy;
        static const double extremes[] = {0, 1e-300, 1e-9, 1, 1e9, 9e29, INFINITY, -1, NAN};
        draw_job(job, &random);
        policy = draw_policy(&random);
#define X(column)                                                                                  \
    if (test_random(&random) % 4 == 0)                                                             \
        job->view.column[0] = extremes[test_random(&random) % 9];
        EVAL_VIEW_COLUMNS(X)
#undef X
        if (test_random(&random) % 4 == 0)
            policy.usd_per_gpu_hour = extremes[test_random(&random) % 6];
        job->view.flags[0] = (uint32_t)test_random(&random) % 32;
        job_score(job, &policy);
        assert_true(job->result.verdict[0] < EVAL_VERDICT_COUNT);
#define X(column) assert_true(job->result.column[0] >= 0);
        EVAL_RESULT_COLUMNS(X)
#undef X
    }
}

/* Every job of a large view is scored as it is alone: blocks, their rests and neighbours do not
 * matter. */
static void jobs_do_not_influence_each_other(void **state)
{
    enum { JOBS = 777 };
    struct job *job = *state;
    uint64_t random = test_seed();
    struct eval_policy policy = draw_policy(&random);
    struct eval_view view;
    struct eval_result result;

    eval_view_alloc(&view, JOBS);
    eval_result_alloc(&result, JOBS);
    view.count = JOBS;
    for (size_t i = 0; i < JOBS; i++) {
        draw_job(job, &random);
        if (i % 10 == 0)
            job->view.age_s[0] = NAN;
#define X(column) view.column[i] = job->view.column[0];
        EVAL_VIEW_COLUMNS(X)
#undef X
        view.flags[i] = i % 7 == 0 ? EVAL_FLAG_STORAGE_DOWN : 0;
    }
    eval_score(&policy, &view, &result);
    for (size_t i = 0; i < JOBS; i++) {
#define X(column) job->view.column[0] = view.column[i];
        EVAL_VIEW_COLUMNS(X)
#undef X
        job->view.flags[0] = view.flags[i];
        assert_int_equal(job_score(job, &policy), result.verdict[i]);
#define X(column) assert_memory_equal(&job->result.column[0], &result.column[i], sizeof(double));
        EVAL_RESULT_COLUMNS(X)
#undef X
    }
    eval_view_free(&view);
    eval_result_free(&result);
}

static void verdicts_have_distinct_names(void **state)
{
    (void)state;
    for (int i = 0; i < EVAL_VERDICT_COUNT; i++) {
        for (int k = 0; k < i; k++)
            assert_string_not_equal(eval_verdict_name(i), eval_verdict_name(k));
    }
    assert_string_equal(eval_verdict_name(EVAL_VERDICT_COUNT), "unknown");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(sensitive_jobs_have_intervals_of_their_own),
        T(longest_interval_binds_only_as_far_as_the_hazard_is_unsure),
        T(value_counts_only_checkpoints_that_complete),
        T(measured_stall_changes_the_cost_of_one_job),
        T(verdicts_alone_are_those_of_the_whole_score),
        T(a_single_odd_input_among_good_ones_changes_one_verdict),
        T(value_equal_to_cost_is_no_checkpoint),
        T(storage_down_never_fires_and_gives_no_nan),
        T(recompute_saved_is_known_during_an_outage),
        T(guards_are_taken_in_their_order),
        T(intervals_stay_between_minimum_and_maximum),
        T(declared_period_fires_on_time),
        T(the_first_one_waits_for_its_period),
        T(walltime_checkpoint_is_asked_for_once_and_only_when_worth_it),
        T(walltime_slot_keeps_a_margin_of_the_grace),
        T(checkpoint_that_would_be_killed_is_not_begun),
        T(horizon_ends_at_the_planned_walltime_checkpoint),
        T(senseless_input_never_decides_and_leaves_zeros),
        T(senseless_bandwidth_walltime_alarm_or_probability_never_decides),
        T(senseless_policy_decides_nothing),
        T(empty_job_costs_nothing_and_is_never_worth_anything),
        T(units_of_time_cancel),
        T(units_of_gpus_and_bytes_cancel),
        T(failure_probability_grows_with_age_and_with_bad_health),
        T(no_result_is_ever_nan_or_negative),
        T(jobs_do_not_influence_each_other),
        T(verdicts_have_distinct_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
