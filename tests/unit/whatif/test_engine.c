/* The simulated cluster: what one event does to one job by hand, what any run must satisfy, how
 * storage is shared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsm/cluster/policy_fields.h"
#include "src/base/check.h"
#include "src/whatif/storage.h"
#include "src/whatif/whatif.h"
#include "tests/support/test.h"

/* One node, one job: 100 s to write, 100 s to read, and failures at the given days. */
struct one_job {
    struct whatif_scenario scenario;
    char path[64];
};

static void one_job_open(struct one_job *one, const char *lines)
{
    FILE *file;
    int fd;

    snprintf(one->path, sizeof(one->path), "/tmp/whatif-trace-XXXXXX");
    fd = mkstemp(one->path);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    fprintf(file, "node,start_day,cause\n%s", lines);
    fclose(file);
    whatif_scenario_init(&one->scenario);
    one->scenario.cycle_s = 60;
    one->scenario.policy_bytes_per_s = one->scenario.policy_quiesce_s = 0;
    one->scenario.gpus_per_node = 1;
    one->scenario.bytes_per_gpu = 100;
    one->scenario.node_bytes_per_s = 1;
    one->scenario.fill_min = one->scenario.fill_max = 1;
}

static struct whatif_account one_job_run(struct one_job *one, enum whatif_rule rule)
{
    struct whatif_run run = {
        .scenario = &one->scenario, .trace = one->path, .seed = 1, .rule = rule};
    struct whatif_account account;
    struct err err;

    assert_int_equal(whatif_run(&run, &account, &err), 0);
    return account;
}

/* Hourly: written from 3600 to 3700 s, failure at 5000 s: 1300 s are lost, 300 + 180 + 100 s until
 * it computes again */
static void failure_takes_what_was_not_saved(void **state)
{
    struct one_job one;
    struct whatif_account account;
    char lines[100];

    (void)state;
    snprintf(lines, sizeof(lines), "0,%.9f,x\n0,%.9f,end\n", 5000 / 86400.0, 6000 / 86400.0);
    one_job_open(&one, lines);
    account = one_job_run(&one, WHATIF_HOURLY);
    assert_double_near(account.lost_failure_gpu_s, 1300, 0.01);
    assert_double_near(account.restart_gpu_s, 580, 0.01);
    assert_double_near(account.pause_gpu_s, 100, 0.01);
    assert_double_near(account.useful_gpu_s, 3600 + 1000 - 580, 0.01);
    assert_double_near(whatif_waste(&account), 1 - 4020 / 6000.0, 1e-6);
    assert_int_equal(account.checkpoints, 1);
    account = one_job_run(&one, WHATIF_NONE);
    assert_double_near(account.useful_gpu_s, 420, 0.01);
    account = one_job_run(&one, WHATIF_ORACLE); /* begins at 4860 s, the last cycle in time */
    assert_double_near(account.lost_failure_gpu_s, 40, 0.01);
    unlink(one.path);
}

/* A failure during the write: the write is nothing, and what was computed before it is lost with
 * it */
static void failure_during_a_write_leaves_the_checkpoint_before_it(void **state)
{
    struct one_job one;
    struct whatif_account account;
    char lines[100];

    (void)state;
    snprintf(lines, sizeof(lines), "0,%.9f,x\n0,%.9f,end\n", 3650 / 86400.0, 4000 / 86400.0);
    one_job_open(&one, lines);
    account = one_job_run(&one, WHATIF_HOURLY);
    assert_int_equal(account.checkpoints, 0);
    assert_int_equal(account.abandoned, 1);
    assert_double_near(account.lost_failure_gpu_s, 3600, 0.01);
    assert_true(account.useful_gpu_s == 0);
    unlink(one.path);
}

/* S1-094: walltimes of 2 h: the plain period loses what came after the first hour, the model
 * nothing but its margin */
static void last_safe_slot_saves_the_end_of_each_allocation(void **state)
{
    struct one_job one;
    struct whatif_account plain, slot, model;

    (void)state;
    one_job_open(&one, "0,2,end\n");
    one.scenario.walltime_min_s = one.scenario.walltime_max_s = 7200;
    plain = one_job_run(&one, WHATIF_HOURLY);
    slot = one_job_run(&one, WHATIF_YOUNG_DALY_PACED);
    model = one_job_run(&one, WHATIF_MODEL);
    assert_int_equal(model.walltimes, 24);
    assert_true(plain.lost_walltime_gpu_s > 24 * 3000.0);
    assert_true(slot.lost_walltime_gpu_s < 24 * 100.0);
    assert_true(model.lost_walltime_gpu_s < 24 * 100.0);
    assert_int_equal(model.checkpoints, 24); /* once for each */
    unlink(one.path);
}

static struct whatif_account run_small(const char *name, enum whatif_rule rule, uint64_t seed,
                                       const char *const sets[])
{
    struct whatif_scenario scenario;
    struct whatif_run run = {.scenario = &scenario, .seed = seed, .rule = rule};
    struct whatif_account account;
    struct err err;

    assert_true(whatif_scenario_named(name, &scenario));
    scenario.jobs = 60;
    scenario.days = 6;
    for (size_t i = 0; sets != NULL && sets[i] != NULL; i++)
        assert_int_equal(whatif_scenario_set(&scenario, sets[i], &err), 0);
    assert_int_equal(whatif_run(&run, &account, &err), 0);
    return account;
}

/* I37: the same inputs give the same bits, for every rule and scenario; the account balances or the
 * engine aborts */
/* A fifth of the pairs of scenario and rule, all of them in systems-long. */
static void runs_are_functions_of_their_arguments(void **state)
{
    uint64_t seed = test_seed();
    unsigned stride = test_often(5, 1);

    (void)state;
    for (size_t i = 0; whatif_scenario_name(i) != NULL; i++) {
        for (unsigned rule = (i + seed) % stride; rule < WHATIF_RULE_COUNT; rule += stride) {
            struct whatif_account a, b;
            memset(&a, 0, sizeof(a));
            memset(&b, 0, sizeof(b));
            a = run_small(whatif_scenario_name(i), (enum whatif_rule)rule, seed, NULL);
            b = run_small(whatif_scenario_name(i), (enum whatif_rule)rule, seed, NULL);
            assert_memory_equal(&a, &b, sizeof(a));
            assert_true(whatif_waste(&a) >= 0 && whatif_waste(&a) < 1);
        }
    }
}

/* A cluster's own policy counts in what is replayed: what a checkpoint costs beside its bytes, and
 * how rarely and often they are. */
static void the_policy_s_pause_and_intervals_count(void **state)
{
    static const char *const quiesce[] = {"quiesce_s=30", NULL};
    static const char *const rare[] = {"min_interval_s=43200", NULL};
    /* two jobs fail too rarely in six days for anybody to be sure of how often */
    static const char *const unsure[] = {"jobs=2", "max_interval_s=0", NULL};
    static const char *const often[] = {"jobs=2", "max_interval_s=1800", NULL};
    struct whatif_account plain = run_small("exponential", WHATIF_YOUNG_DALY, 4, NULL);
    struct whatif_account paused = run_small("exponential", WHATIF_HOURLY, 4, quiesce);
    struct whatif_account hourly = run_small("exponential", WHATIF_HOURLY, 4, NULL);
    struct whatif_account usual = run_small("exponential", WHATIF_MODEL, 4, NULL);
    struct whatif_account seldom = run_small("exponential", WHATIF_MODEL, 4, rare);
    struct whatif_account bold = run_small("exponential", WHATIF_MODEL, 4, unsure);
    struct whatif_account eager = run_small("exponential", WHATIF_MODEL, 4, often);

    (void)state;
    assert_true(paused.pause_gpu_s > hourly.pause_gpu_s);
    assert_true(run_small("exponential", WHATIF_YOUNG_DALY, 4, quiesce).checkpoints <
                plain.checkpoints);
    assert_true(run_small("exponential", WHATIF_MODEL, 4, quiesce).checkpoints < usual.checkpoints);
    assert_true(seldom.checkpoints < usual.checkpoints);
    assert_true(seldom.checkpoints <= 60 * 6 * 2);
    assert_true(eager.checkpoints > 2 * bold.checkpoints);
}

/* Who knows the hazard writes when the model says so, not because six hours are over; who does not
 * know it yet is held to them. */
static void the_longest_interval_binds_while_the_hazard_is_unsure(void **state)
{
    static const char *const told[] = {"learn=0", "max_interval_s=1800", NULL};
    static const char *const unbound[] = {"learn=0", "max_interval_s=0", NULL};
    struct whatif_account bound = run_small("exponential", WHATIF_MODEL, 4, told);
    struct whatif_account free_to = run_small("exponential", WHATIF_MODEL, 4, unbound);

    (void)state;
    assert_memory_equal(&bound, &free_to, sizeof(bound));
}

/* What the broker does not know in advance the simulated one does not know either, and learns:
 * alarms are believed to announce nothing at first, demands not to come. */
static void what_is_learned_is_worth_nearly_what_is_told(void **state)
{
    static const char *const scenarios[] = {"alarms", "preemption", "exponential"};
    static const char *const told[] = {"days=20", "jobs=150", "learn=0", NULL};
    static const char *const learned[] = {"days=20", "jobs=150", NULL};
    static const char *const ignored[] = {
        "days=20",        "jobs=150", "demand_forget_s=60", "prior_precision=0.01",
        "prior_lead_s=1", NULL};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct whatif_account best = run_small(scenarios[i], WHATIF_MODEL, 5, told);
        struct whatif_account ours = run_small(scenarios[i], WHATIF_MODEL, 5, learned);

        assert_true(whatif_waste(&ours) < 1.03 * whatif_waste(&best));
        if (i < 2) {
            struct whatif_account blind = run_small(scenarios[i], WHATIF_MODEL, 5, ignored);

            assert_true(whatif_waste(&ours) < whatif_waste(&blind));
        }
    }
}

static double number_usual(const char *name)
{
    struct whatif_number at;

    for (size_t i = 0; whatif_number_at(i, &at); i++)
        if (strcmp(at.name, name) == 0)
            return at.usual;
    fail_msg("no number %s", name);
    return 0;
}

/* What `make bench-policy` simulates is what a new cluster has. */
static void usual_numbers_are_the_shipped_policy(void **state)
{
    static const struct {
        const char *policy, *number;
        double unit;
    } same[] = {
        {"evaluation_interval", "cycle_s", 1e3},
        {"min_interval", "min_interval_s", 1e3},
        {"max_interval", "max_interval_s", 1e3},
        {"near_completion", "near_completion_s", 1e3},
        {"grace", "grace_s", 1e3},
        {"quiesce", "policy_quiesce_s", 1e3},
        {"default_write_bytes_per_s", "policy_bytes_per_s", 1},
        {"node_failures_per_1000_node_days_milli", "prior_per_1000_node_days", 1e3},
        {"stall_fraction_ppm", "stall_fraction", 1e6},
        {"restart_cost", "restart_s", 1e3},
        {"hazard_forget", "hazard_forget_s", 1e3},
        {"demand_forget", "demand_forget_s", 1e3},
    };
    static const struct {
        const char *name;
        double usual;
    } fields[] = {
#define X(name, low, high, usual) {#name, (double)(usual)},
        FSM_POLICY_FIELDS(X, X, X, X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        double policy = -1;

        for (size_t k = 0; k < ARRAY_COUNT(fields); k++)
            policy = strcmp(fields[k].name, same[i].policy) == 0 ? fields[k].usual : policy;
        assert_double_near(number_usual(same[i].number) * same[i].unit, policy, 1e-9);
    }
    assert_double_near(number_usual("prior_recall"), 0, 0);
    assert_double_near(number_usual("learn"), 1, 0);
}

static void other_seeds_give_other_runs(void **state)
{
    struct whatif_account a = run_small("exponential", WHATIF_MODEL, 1, NULL);
    struct whatif_account b = run_small("exponential", WHATIF_MODEL, 2, NULL);

    (void)state;
    assert_true(a.lost_failure_gpu_s != b.lost_failure_gpu_s);
}

/* Common random numbers: what happens does not depend on who decides */
static void every_rule_meets_the_same_events(void **state)
{
    struct whatif_account model = run_small("exponential", WHATIF_MODEL, 3, NULL);

    (void)state;
    for (int rule = 0; rule < WHATIF_RULE_COUNT; rule++) {
        struct whatif_account other = run_small("exponential", (enum whatif_rule)rule, 3, NULL);
        assert_int_equal(other.failures, model.failures);
        assert_double_near(other.held_gpu_s / model.held_gpu_s, 1, 1e-12);
        assert_double_near(other.restart_gpu_s / model.restart_gpu_s, 1, 1e-6);
    }
}

/* At a constant hazard the model is Young/Daly; with alarms, busy queues and shared storage it is
 * better, and never beats the oracle. The numbers themselves are make bench-policy's. */
static void model_wins_where_it_knows_more(void **state)
{
    static const char *const scenarios[] = {"alarms-more", "preemption", "walltime", "contention"};
    static const char *const told[] = {"learn=0", NULL};
    struct whatif_account model = run_small("exponential", WHATIF_MODEL, 1, told);
    struct whatif_account daly = run_small("exponential", WHATIF_YOUNG_DALY, 1, NULL);

    (void)state;
    assert_double_near(whatif_waste(&model) / whatif_waste(&daly), 1, 0.01);
    for (size_t i = 0; i < 4; i++) {
        static const char *const shared[] = {"bandwidth_bytes_per_s=40e9", NULL};
        const char *const *sets = i == 3 ? shared : NULL;
        struct whatif_account ours = run_small(scenarios[i], WHATIF_MODEL, 1, sets);
        struct whatif_account theirs = run_small(scenarios[i], WHATIF_YOUNG_DALY, 1, sets);
        struct whatif_account best = run_small(scenarios[i], WHATIF_ORACLE, 1, sets);
        assert_true(whatif_waste(&ours) < whatif_waste(&theirs));
        assert_true(whatif_waste(&best) < whatif_waste(&ours));
    }
}

/* ---- storage ---- */

static double rate_of(const struct storage *storage, uint32_t job)
{
    for (size_t i = 0; i < storage->count; i++) {
        if (storage->writers[i].job == job)
            return storage->writers[i].rate_bytes_per_s;
    }
    return -1;
}

static void bandwidth_is_shared_fairly_up_to_each_limit(void **state)
{
    struct storage storage;
    uint32_t first = 99;

    (void)state;
    storage_init(&storage, 100);
    storage_begin(&storage, 1, 1000, 10);
    storage_begin(&storage, 2, 9000, 90);
    assert_true(rate_of(&storage, 2) == 90);
    storage_begin(&storage, 3, 9000, 80);
    assert_true(rate_of(&storage, 1) == 10);
    assert_double_near(rate_of(&storage, 2), 45, 1e-9);
    assert_double_near(rate_of(&storage, 3), 45, 1e-9);
    assert_double_near(storage_next_s(&storage, &first), 100, 1e-9);
    assert_int_equal(first, 1);
    storage_advance(&storage, 100);
    storage_end(&storage, 1);
    assert_double_near(rate_of(&storage, 2), 50, 1e-9);
    storage_set_down(&storage, true);
    assert_true(isinf(storage_next_s(&storage, &first)));
    storage_free(&storage);
}

/* ---- inputs ---- */

static void traces_that_are_none_are_refused_with_file_and_line(void **state)
{
    static const char *const wrong[] = {"x,1,\n",       "0,-1,\n", "0,nan,\n", "-1,1,\n",
                                        "1000000,1,\n", "0 1\n",   "0,1;\n"};
    struct one_job one;
    struct whatif_account account;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct whatif_run run = {.scenario = &one.scenario, .trace = one.path, .seed = 1};
        char lines[100];
        snprintf(lines, sizeof(lines), "0,1,fine\n%s", wrong[i]);
        one_job_open(&one, lines);
        run.trace = one.path;
        assert_int_equal(whatif_run(&run, &account, &err), -1);
        assert_non_null(strstr(err.text, ":3:"));
        unlink(one.path);
        assert_int_equal(whatif_run(&run, &account, &err), -1);
        assert_non_null(strstr(err.text, "No such file"));
    }
    one_job_open(&one, "");
    assert_int_equal(whatif_run(&(struct whatif_run){.scenario = &one.scenario, .trace = one.path},
                                &account, &err),
                     -1);
    assert_non_null(strstr(err.text, "no failure"));
    unlink(one.path);
}

static void numbers_out_of_range_are_refused_by_name(void **state)
{
    static const char *const wrong[] = {"recall=1.1", "jobs=0",  "jobs=",       "recall",
                                        "recall=nan", "jobs=1x", "nonsense=1",  "=1",
                                        "jobs=0x10",  "jobs= 5", "recall=+0.5", "jobs=infinity"};
    struct whatif_scenario scenario;
    struct err err;

    (void)state;
    whatif_scenario_init(&scenario);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(whatif_scenario_set(&scenario, wrong[i], &err), -1);
    assert_int_equal(whatif_scenario_set(&scenario, "bandwidth_bytes_per_s=200GB/s", &err), 0);
    assert_true(scenario.bandwidth_bytes_per_s == 200e9);
    assert_int_equal(whatif_scenario_set(&scenario, "cycle_s=1m", &err), 0);
    assert_true(scenario.cycle_s == 60);
    assert_int_equal(whatif_scenario_set(&scenario, "bytes_per_gpu=40GB", &err), 0);
    assert_true(scenario.bytes_per_gpu == 40e9);
    assert_int_equal(whatif_scenario_set(&scenario, "walltime_max_s=2d", &err), 0);
    assert_true(scenario.walltime_max_s == 172800);
    assert_int_equal(whatif_scenario_set(&scenario, "fill_min=30%", &err), 0);
    assert_true(scenario.fill_min == 0.3);
    assert_int_equal(whatif_scenario_set(&scenario, "jobs=5s", &err), -1);
    assert_int_equal(whatif_scenario_set(&scenario, "recall=0.5", &err), 0);
    assert_true(scenario.recall == 0.5);
    scenario.fill_min = 0.9;
    scenario.fill_max = 0.1;
    assert_int_equal(
        whatif_run(&(struct whatif_run){.scenario = &scenario}, &(struct whatif_account){0}, &err),
        -1);
    assert_false(whatif_scenario_named("nonsense", &scenario));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_takes_what_was_not_saved),
        cmocka_unit_test(failure_during_a_write_leaves_the_checkpoint_before_it),
        cmocka_unit_test(last_safe_slot_saves_the_end_of_each_allocation),
        cmocka_unit_test(runs_are_functions_of_their_arguments),
        cmocka_unit_test(the_policy_s_pause_and_intervals_count),
        cmocka_unit_test(the_longest_interval_binds_while_the_hazard_is_unsure),
        cmocka_unit_test(what_is_learned_is_worth_nearly_what_is_told),
        cmocka_unit_test(usual_numbers_are_the_shipped_policy),
        cmocka_unit_test(other_seeds_give_other_runs),
        cmocka_unit_test(every_rule_meets_the_same_events),
        cmocka_unit_test(model_wins_where_it_knows_more),
        cmocka_unit_test(bandwidth_is_shared_fairly_up_to_each_limit),
        cmocka_unit_test(traces_that_are_none_are_refused_with_file_and_line),
        cmocka_unit_test(numbers_out_of_range_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
