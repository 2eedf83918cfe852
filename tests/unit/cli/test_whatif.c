/* ckptctl whatif: what it takes, what it prints, and how the cluster's own history becomes a
 * simulation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/whatif_history.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static char trace_path[] = "/tmp/whatif-cli-XXXXXX";

static int make_trace(void **state)
{
    int fd = mkstemp(trace_path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    (void)state;
    if (file == NULL)
        return -1;
    fprintf(file, "node,start_day,end_day\n");
    for (int i = 0; i < 60; i++)
        fprintf(file, "%d,%.3f,\n", i * 7 % 40, i * 0.5);
    return fclose(file);
}

static int drop_trace(void **state)
{
    (void)state;
    return unlink(trace_path);
}

static int setup(void **state)
{
    struct harness *h = calloc(1, sizeof(*h));

    harness_init(h);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_close(*state);
    free(*state);
    return 0;
}

__attribute__((format(printf, 2, 3))) static int run(struct harness *h, const char *format, ...)
{
    char words[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    return harness_run(h, words);
}

/* Offline: no member is asked */
static void trace_is_replayed_for_every_rule_without_a_cluster(void **state)
{
    static const char *const rules[] = {
        "model", "young-daly", "young-daly-paced", "every-1h", "every-6h", "none", "oracle"};
    struct harness *h = *state;

    assert_int_equal(run(h, "whatif --trace %s --set cycle_s=600", trace_path), CLI_OK);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        assert_contains(h->out, rules[i]);
    assert_contains(h->out, "CHECKPOINTS");
    assert_int_equal(h->call_count, 0);
    assert_int_equal(run(h, "whatif --trace %s --set cycle_s=600 -o json", trace_path), CLI_OK);
    assert_contains(h->out, "\"lost_failure_gpu_s\"");
    assert_contains(h->out, "\"rule\"");
}

/* The plot that a command with --svg writes. */
static const char *plot_of(struct harness *h, const char *words)
{
    static char text[20000];
    char path[] = "/tmp/whatif-svg-XXXXXX";
    int fd = mkstemp(path);
    ssize_t length;

    assert_true(fd >= 0);
    assert_int_equal(run(h, "%s --svg %s", words, path), CLI_OK);
    length = read(fd, text, sizeof(text) - 1);
    assert_true(length > 0);
    text[length] = '\0';
    close(fd);
    unlink(path);
    assert_lacks(text, path);
    return text;
}

static void plot_is_written_where_it_was_asked_for(void **state)
{
    struct harness *h = *state;
    const char *text = plot_of(h, "whatif --scenario exponential --set jobs=5,days=1");

    assert_contains(text, "<svg xmlns=");
    assert_contains(text, "Scenario &quot;exponential&quot;: 5 simulated jobs, 1 days");
    assert_contains(text, "seed 1; decided every 30 s");
    assert_contains(text, "not as usual: jobs=5 days=1");
    assert_contains(text, "% of the GPU time that jobs held");
    assert_contains(
        text,
        " % (cut)"); /* without checkpoints nearly all is lost: that bar would hide the others */
    assert_contains(text, "6.5 failures per 1000 node-days, their rate learned");
    assert_int_equal(run(h, "whatif --scenario exponential --set jobs=5,days=1 --svg %s",
                         "/nonexistent/plot.svg"),
                     CLI_FAILED);
    assert_contains(h->error, "No such file");
}

/* A viewer refuses a whole plot for one byte that is not UTF-8. */
static void a_plot_is_readable_whatever_the_file_is_called(void **state)
{
    struct harness *h = *state;
    char link[80], words[160];
    const char *text;

    snprintf(link, sizeof(link), "%s.\xff<\x01&", trace_path);
    assert_int_equal(symlink(trace_path, link), 0);
    snprintf(words, sizeof(words), "whatif --set cycle_s=600 --trace %s", link);
    text = plot_of(h, words);
    unlink(link);
    assert_contains(text, ".?&lt;&amp;; 500 simulated jobs");
    assert_contains(text, "failures as recorded, their rate learned");
}

static void wrong_words_are_refused_by_name(void **state)
{
    struct harness *h = *state;

    assert_int_equal(harness_run(h, "whatif"), CLI_USAGE);
    assert_contains(h->error, "--trace FILE");
    assert_int_equal(harness_run(h, "whatif --scenario nonsense"), CLI_USAGE);
    assert_contains(h->error, "everything");
    assert_int_equal(harness_run(h, "whatif --scenario alarms --set recall=2"), CLI_USAGE);
    assert_contains(h->error, "from 0 to 1");
    assert_int_equal(harness_run(h, "whatif --since 24h --scenario alarms"), CLI_USAGE);
    assert_int_equal(harness_run(h, "whatif --trace /nonexistent/trace"), CLI_FAILED);
    assert_contains(h->error, "/nonexistent/trace: No such file");
}

/* ---- the cluster's own history ---- */

static Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT;
static Ckpt__V1__NodeShare *shares[] = {&share, &share};
static uint32_t weight_gpus; /* of jobs that are added; 0: the member does not say it */

static void add_job(struct whatif_history_copy *copy, char *name, uint64_t started_ms,
                    Ckpt__V1__AllocationState job_state, uint64_t since_ms)
{
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__Allocation job = CKPT__V1__ALLOCATION__INIT;

    share.gpu_count = 8;
    spec.allocation_id = name;
    spec.nodes = shares;
    spec.n_nodes = 2;
    spec.started_at_ms = started_ms;
    job.spec = &spec;
    job.state = job_state;
    job.state_since_ms = since_ms;
    job.size_estimate_bytes = 2000000;
    job.weight_gpus = weight_gpus;
    whatif_history_add_job(copy, &job, 1000);
}

static uint32_t find_index(const struct whatif_history_copy *copy, const char *name)
{
    for (size_t i = 0; i < copy->history.job_count; i++)
        if (strcmp(copy->names[i].name, name) == 0)
            return copy->names[i].job;
    fail_msg("no job %s", name);
    return 0;
}

static void add_event(struct whatif_history_copy *copy, uint64_t at_ms, Ckpt__V1__EventKind kind,
                      char *job, Ckpt__V1__Reason reason, uint32_t new_state)
{
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;

    event.at_ms = at_ms;
    event.kind = kind;
    event.allocation_id = job;
    event.reason = reason;
    event.new_state = new_state;
    whatif_history_add_event(copy, &event);
}

/* V-006 */
static void a_job_is_replayed_with_its_weight(void **state)
{
    static char one[] = "one", two[] = "two";
    struct whatif_history_copy copy = {.to_ms = 90000000, .history.seconds = 90000};

    (void)state;
    add_job(&copy, one, 500, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING, 600);
    weight_gpus = 20;
    add_job(&copy, two, 500, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING, 600);
    weight_gpus = 0;
    assert_true(copy.jobs[0].gpus == 16 && copy.jobs[1].gpus == 20);
    whatif_history_free(&copy);
}

#define RUNNING   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING
#define DOWN      3 /* NodeState of the log */
#define COMPLETED CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED
#define KIND(x)   CKPT__V1__EVENT_KIND__EVENT_KIND_##x
#define REASON(x) CKPT__V1__REASON__REASON_##x

static void jobs_and_events_of_the_window_become_a_history(void **state)
{
    static char one[] = "one", two[] = "two", old[] = "old", other[] = "other";
    struct whatif_history_copy copy = {
        .from_ms = 1000000, .to_ms = 90000000, .history.seconds = 89000};
    struct whatif_scenario scenario;
    struct whatif_account account;
    struct err err;

    (void)state;
    add_job(&copy, two, 2000000, COMPLETED, 50000000);
    add_job(&copy, one, 500, RUNNING, 600);
    add_job(&copy, old, 500, COMPLETED, 900000); /* ended before the window */
    whatif_history_sort_names(&copy);
    assert_int_equal(copy.history.job_count, 2);
    assert_true(copy.jobs[0].from_s == 1000 && copy.jobs[0].to_s == 49000);
    assert_true(copy.jobs[1].from_s == 0 && copy.jobs[1].gpus == 16);
    assert_true(copy.jobs[1].bytes_per_s == 2000);

    add_event(&copy, 10000000, KIND(ALLOCATION_STATE), one, REASON(NODE_DOWN), 0);
    add_event(&copy, 20000000, KIND(ALLOCATION_STATE), two, REASON(PREEMPTED), 0);
    add_event(&copy, 20500000, KIND(ALLOCATION_STATE), two, REASON(ENDED_BY_SCHEDULER), 0);
    add_event(&copy, 30000000, KIND(TARGET_DOWN), other, REASON(NONE), 0);
    add_event(&copy, 31000000, KIND(TARGET_UP), other, REASON(NONE), 0);
    add_event(&copy, 32000000, KIND(RESTARTED), other, REASON(NONE), 0); /* nobody's */
    add_event(&copy, 40000000, KIND(CHECKPOINT_STATE), one, REASON(NONE),
              CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    add_event(&copy, 500, KIND(RESTARTED), one, REASON(NONE), 0); /* before the window */
    assert_int_equal(copy.history.event_count, 4);
    assert_int_equal(copy.checkpoints, 1);
    assert_true(copy.events[0].what == WHATIF_FAILURE && copy.events[0].job == 1);
    assert_true(copy.events[1].what == WHATIF_YIELD && copy.events[1].job == 0);
    assert_true(copy.events[0].at_s == 9000);

    whatif_scenario_init(&scenario);
    assert_int_equal(whatif_run(&(struct whatif_run){.scenario = &scenario,
                                                     .history = &copy.history,
                                                     .rule = WHATIF_MODEL},
                                &account, &err),
                     0);
    assert_int_equal(account.failures, 1);
    assert_int_equal(account.yields, 1);
    assert_true(account.held_gpu_s <= 16 * (89000.0 + 48000));
    assert_true(account.held_gpu_s >= 16 * (89000.0 + 48000 - 3600 - 1));
    whatif_history_free(&copy);
}

static void move(struct whatif_history_copy *copy, uint64_t at_ms, char *job, uint32_t old_state,
                 uint32_t new_state, Ckpt__V1__Reason reason)
{
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;

    event.at_ms = at_ms;
    event.kind = KIND(ALLOCATION_STATE);
    event.allocation_id = job;
    event.old_state = old_state;
    event.new_state = new_state;
    event.reason = reason;
    whatif_history_add_event(copy, &event);
}

/* Every part that goes on from a checkpoint says RESTARTED: a failure only where its application
 * died in place. */
static void only_what_failed_is_a_failure(void **state)
{
    enum { SUSPENDED = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED };
    static char wide[] = "wide", single[] = "single";
    struct whatif_history_copy copy = {
        .from_ms = 1000, .to_ms = 90000000, .history.seconds = 89999};

    (void)state;
    add_job(&copy, wide, 500, RUNNING, 600);
    add_job(&copy, single, 500, RUNNING, 600);
    whatif_history_sort_names(&copy);
    copy.jobs[find_index(&copy, single)].nodes = 1;
    move(&copy, 2000, wide, RUNNING, SUSPENDED, REASON(PREEMPTED));
    move(&copy, 3000, wide, SUSPENDED, RUNNING, REASON(NONE));
    add_event(&copy, 4000, KIND(RESTARTED), wide, REASON(NONE), 0); /* two parts of it */
    add_event(&copy, 5000, KIND(RESTARTED), wide, REASON(NONE), 0);
    assert_int_equal(copy.history.event_count, 1);
    assert_true(copy.events[0].what == WHATIF_YIELD);
    move(&copy, 900, single, SUSPENDED, RUNNING, REASON(NONE)); /* before the window */
    add_event(&copy, 6000, KIND(RESTARTED), single, REASON(NONE), 0);
    assert_int_equal(copy.history.event_count, 1);
    add_event(&copy, 7000, KIND(RESTARTED), single, REASON(NONE), 0); /* in place */
    assert_int_equal(copy.history.event_count, 2);
    assert_true(copy.events[1].what == WHATIF_FAILURE);
    whatif_history_free(&copy);
}

static void what_is_not_replayed_is_counted(void **state)
{
    static char one[] = "one", two[] = "two", node[] = "n1";
    struct whatif_history_copy copy = {
        .from_ms = 1000000, .to_ms = 90000000, .history.seconds = 89000};
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__Allocation job = CKPT__V1__ALLOCATION__INIT;

    (void)state;
    spec.nodes = shares;
    spec.n_nodes = 1;
    spec.allocation_id = one;
    spec.walltime_ms = 3600000;
    job.spec = &spec;
    job.state = RUNNING;
    whatif_history_add_job(&copy, &job, 1000);
    spec.allocation_id = two;
    spec.period_ms = 600000;
    whatif_history_add_job(&copy, &job, 1000);
    whatif_history_sort_names(&copy);
    add_event(&copy, 500, KIND(NODE_STATE), node, REASON(NONE), DOWN); /* before the window */
    add_event(&copy, 2000000, KIND(NODE_STATE), node, REASON(NONE), DOWN - 1);
    add_event(&copy, 3000000, KIND(NODE_STATE), node, REASON(NONE), DOWN);
    assert_int_equal(copy.walltimes, 2);
    assert_int_equal(copy.periods, 1);
    assert_int_equal(copy.nodes_down, 1);
    assert_int_equal(copy.history.event_count, 0);
    whatif_history_free(&copy);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
/* A job that was stopped and started again says only its last start; its events say the first. */
static void a_job_counts_from_its_first_start_in_the_window(void **state)
{
    static char one[] = "one", two[] = "two";
    struct whatif_history_copy copy = {
        .from_ms = 1000000, .to_ms = 90000000, .history.seconds = 89000};
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;

    (void)state;
    add_job(&copy, one, 80000000, RUNNING, 80000000);
    add_job(&copy, two, 80000000, RUNNING, 80000000);
    whatif_history_sort_names(&copy);
    add_event(&copy, 3000000, KIND(ALLOCATION_REGISTERED), one, REASON(NONE), RUNNING);
    event.at_ms = 5000000; /* it ran when the window began */
    event.kind = KIND(ALLOCATION_STATE);
    event.allocation_id = two;
    event.old_state = RUNNING;
    event.new_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED;
    whatif_history_add_event(&copy, &event);
    add_event(&copy, 80000000, KIND(ALLOCATION_STATE), two, REASON(NONE), RUNNING);
    whatif_history_cut(&copy);
    assert_true(copy.jobs[0].from_s == 2000);
    assert_true(copy.jobs[1].from_s == 0);
    whatif_history_free(&copy);
}

static void add_queue(struct whatif_history_copy *copy, uint64_t at_ms, char *queue,
                      uint64_t pressure_ppm, uint32_t gpus)
{
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;

    event.at_ms = at_ms;
    event.kind = KIND(QUEUE);
    event.subject = queue;
    event.number = pressure_ppm;
    event.new_state = gpus;
    whatif_history_add_event(copy, &event);
}

/* Demands per job-hour of busy queues, which is what the model is told while they are busy. */
static void recorded_queues_become_regimes_and_the_rate_of_demands(void **state)
{
    static char one[] = "one", empty[] = "", hpc[] = "hpc";
    struct whatif_history_copy copy = {
        .from_ms = 1000, .to_ms = 36001000, .history.seconds = 36000};
    struct whatif_scenario scenario;

    (void)state;
    add_job(&copy, one, 1000, RUNNING, 1000); /* of the vCluster without a name */
    whatif_history_sort_names(&copy);
    add_queue(&copy, 500, empty, 0, 0);
    add_queue(&copy, 900, empty, 600000, 0); /* busy when the window begins */
    add_queue(&copy, 950, hpc, 600000, 0);
    add_event(&copy, 1801000, KIND(ALLOCATION_STATE), one, REASON(PREEMPTED), 0);
    add_queue(&copy, 7201000, empty, 100000, 0);
    add_queue(&copy, 10801000, empty, 100000, 64);
    add_event(&copy, 11000000, KIND(ALLOCATION_STATE), one, REASON(PREEMPTED_WITHOUT_CHECKPOINT),
              0);
    add_queue(&copy, 18001000, empty, 100000, 0);
    whatif_history_cut(&copy);
    assert_int_equal(copy.history.event_count, 7);
    assert_true(copy.events[0].what == WHATIF_QUEUE_BUSY && copy.events[0].at_s == 0);
    whatif_scenario_init(&scenario);
    whatif_history_rates(&copy.history, &scenario);
    assert_true(scenario.demand_per_hour == 0.5); /* two in four busy hours */
    assert_true(scenario.kill_share == 0.5);
    whatif_history_free(&copy);
}

/* The events reach back to a moment within the window: it begins there. */
static void what_lies_before_the_first_kept_event_is_cut_off(void **state)
{
    static char one[] = "one", other[] = "other";
    struct whatif_history_copy copy = {
        .from_ms = 1000000, .to_ms = 90000000, .history.seconds = 89000};
    Ckpt__V1__Event first = CKPT__V1__EVENT__INIT;

    (void)state;
    add_job(&copy, one, 500, RUNNING, 600);
    whatif_history_sort_names(&copy);
    first.gap = true;
    first.at_ms = 11000000;
    first.kind = KIND(TARGET_DOWN);
    first.allocation_id = other;
    whatif_history_add_event(&copy, &first);
    add_event(&copy, 21000000, KIND(ALLOCATION_STATE), one, REASON(NODE_DOWN), 0);
    whatif_history_cut(&copy);
    assert_true(copy.gap);
    assert_int_equal(copy.reaches_ms, 11000000);
    assert_int_equal(copy.history.from_ms, 11000000);
    assert_true(copy.history.seconds == 79000);
    assert_true(copy.events[0].at_s == 0 && copy.events[1].at_s == 10000);
    assert_true(copy.jobs[0].from_s == 0 && copy.jobs[0].to_s == WHATIF_NEVER_S);
    whatif_history_free(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(trace_is_replayed_for_every_rule_without_a_cluster),
        T(plot_is_written_where_it_was_asked_for),
        T(a_plot_is_readable_whatever_the_file_is_called),
        T(wrong_words_are_refused_by_name),
        T(jobs_and_events_of_the_window_become_a_history),
        cmocka_unit_test(a_job_is_replayed_with_its_weight),
        cmocka_unit_test(only_what_failed_is_a_failure),
        cmocka_unit_test(what_is_not_replayed_is_counted),
        cmocka_unit_test(a_job_counts_from_its_first_start_in_the_window),
        cmocka_unit_test(recorded_queues_become_regimes_and_the_rate_of_demands),
        cmocka_unit_test(what_lies_before_the_first_kept_event_is_cut_off),
    };

    return cmocka_run_group_tests(tests, make_trace, drop_trace);
}
