/* Waste of the model beside other rules on the scenarios of src/whatif/README.md: common random numbers, many seeds, 95 % intervals.
 *
 * Flow     policy [SEEDS [TRACES [PART]]]: each scenario is run for each rule on the same seeds; ratios are taken seed by seed. TRACES
 *          is a folder with hbd_faults.csv, lanl_sys18.csv, ...; without it the replays are skipped by name. Ends with 1 when a
 *          ratio is above its target.
 * Units    waste in percent of held GPU time; ratios.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

enum { SEEDS_MAX = 64, FIRST_SEED = 101, SETS_MAX = 4, TARGETS_MAX = 2, OTHERS_SEEDS = 3 };

struct target {
    enum whatif_rule than;
    double at_most;
};

struct row {
    const char *name;
    const char *scenario;
    const char *sets[SETS_MAX];
    struct target targets[TARGETS_MAX];
    bool all_rules; /* print the others' waste too */
    bool bound;     /* compare with the bound of shared bandwidth */
};

static const struct row rows[] = {
    {"exponential", "exponential", {NULL}, {{WHATIF_YOUNG_DALY, 1.005}}, true, false},
    {"Weibull .6", "weibull", {NULL}, {{WHATIF_YOUNG_DALY, INFINITY}}, false, false},
    {"alarms .4/.6", "alarms", {NULL}, {{WHATIF_YOUNG_DALY, 0.88}}, true, false},
    {"alarms .6/.4", "alarms-more", {NULL}, {{WHATIF_YOUNG_DALY, 0.82}}, false, false},
    {"preemption", "preemption", {NULL}, {{WHATIF_YOUNG_DALY, 0.91}}, true, false},
    {"walltime",
     "walltime",
     {NULL},
     {{WHATIF_YOUNG_DALY, 0.36}, {WHATIF_YOUNG_DALY_PACED, 0.99}},
     true,
     false},
    {"contention", "contention", {NULL}, {{WHATIF_YOUNG_DALY, 0.22}}, true, true},
    {"saturated", "saturated", {NULL}, {{WHATIF_YOUNG_DALY, 0.14}}, true, true},
    {"outages", "outages", {NULL}, {{WHATIF_YOUNG_DALY, INFINITY}}, false, false},
    {"everything",
     "everything",
     {NULL},
     {{WHATIF_YOUNG_DALY, 0.54}, {WHATIF_YOUNG_DALY_PACED, 0.90}},
     true,
     false},
    {"hazard believed x2",
     "exponential",
     {"assumed_factor=2", NULL},
     {{WHATIF_YOUNG_DALY, 1.07}},
     false,
     false},
    {"hazard believed x1/2",
     "exponential",
     {"assumed_factor=0.5", NULL},
     {{WHATIF_YOUNG_DALY, 1.07}},
     false,
     false},
    {"hazard believed x4",
     "exponential",
     {"assumed_factor=4", NULL},
     {{WHATIF_YOUNG_DALY, INFINITY}},
     false,
     false},
};

static const struct {
    const char *file;
    const char *nodes;
    double at_most;
} traces[] = {{"hbd_faults.csv", "trace_nodes=400", 1.00},
              {"lanl_sys18.csv", "trace_nodes=1024", 1.00},
              {"lanl_sys20.csv", "trace_nodes=512", 0.94},
              {"lanl_sys19.csv", "trace_nodes=1024", INFINITY}};

/* What one more thing is worth to the model: with it beside without, waste and what claimants lose by waiting together. */
static const struct {
    const char *name;
    const char *scenario;
    const char *sets[SETS_MAX];
    const char *off, *on;
} options[] = {
    {"moving off alarmed nodes, .4/.6", "alarms", {NULL}, "migrate=0", "migrate=1"},
    {"moving off alarmed nodes, .4/.9", "alarms", {"precision=0.9"}, "migrate=0", "migrate=1"},
    {"told of demands, all polite", "yielding", {NULL}, "heed=0", "heed=1"},
    {"told of demands, urgent", "yielding", {"urgency=4"}, "heed=0", "heed=1"},
    {"told of demands, 45 % kill", "yielding", {"kill_share=0.45"}, "heed=0", "heed=1"},
    {"yield by the ledger, not always written",
     "yielding",
     {"heed=0"},
     "yield_how=1",
     "yield_how=0"},
};

static size_t seeds = 12;
static int missed;

/* Two-sided 95 % of Student's distribution for n - 1 degrees of freedom. */
static double student(size_t n)
{
    static const double table[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
                                   2.20,  2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09};

    if (n < 2)
        return INFINITY;
    return n - 2 < ARRAY_COUNT(table) ? table[n - 2] : 2.05;
}

struct mean {
    double mean, half_width;
};

static struct mean mean_of(const double *values)
{
    struct mean result = {0, 0};
    double squares = 0;

    for (size_t i = 0; i < seeds; i++)
        result.mean += values[i] / (double)seeds;
    for (size_t i = 0; i < seeds; i++)
        squares += (values[i] - result.mean) * (values[i] - result.mean);
    result.half_width =
        seeds > 1 ? student(seeds) * sqrt(squares / (double)(seeds - 1) / (double)seeds) : INFINITY;
    return result;
}

static void run_rule(const struct whatif_scenario *scenario, const char *trace,
                     enum whatif_rule rule, struct whatif_ledger ret_ledgers[])
{
    for (size_t i = 0; i < seeds; i++) {
        struct whatif_run run = {
            .scenario = scenario, .trace = trace, .seed = FIRST_SEED + i, .rule = rule};
        struct err err;
        if (whatif_run(&run, &ret_ledgers[i], &err) != 0) {
            fprintf(stderr, "error: %s\n", err.text);
            exit(1);
        }
    }
}

static double print_ratio(const struct whatif_ledger *ours, const struct whatif_ledger *theirs,
                          enum whatif_rule than, double at_most)
{
    double ratios[SEEDS_MAX] = {0};
    struct mean ratio;
    bool met;

    for (size_t i = 0; i < seeds; i++)
        ratios[i] = whatif_waste(&ours[i]) / whatif_waste(&theirs[i]);
    ratio = mean_of(ratios);
    met = ratio.mean <= at_most;
    printf("  %6.4f +- %.4f of %s", ratio.mean, ratio.half_width, whatif_rule_name(than));
    if (isfinite(at_most))
        printf(" (target %.3f: %s)", at_most, met ? "met" : "MISSED");
    printf("\n");
    missed += met ? 0 : 1;
    return ratio.mean;
}

static void print_wastes(const struct whatif_ledger *ledgers, enum whatif_rule rule)
{
    double wastes[SEEDS_MAX] = {0};
    struct mean waste;

    for (size_t i = 0; i < seeds; i++)
        wastes[i] = 100 * whatif_waste(&ledgers[i]);
    waste = mean_of(wastes);
    printf("  %-17s %7.3f +- %.3f %%\n", whatif_rule_name(rule), waste.mean, waste.half_width);
}

/* Pauses and lost work beside the least possible for these jobs. */
static void print_bound(const struct whatif_scenario *scenario, const struct whatif_ledger *ours,
                        double at_most)
{
    double ratios[SEEDS_MAX] = {0};
    struct mean ratio;

    for (size_t i = 0; i < seeds; i++) {
        struct whatif_run run = {.scenario = scenario, .seed = FIRST_SEED + i};
        struct err err;
        double bound;
        CHECK(whatif_shared_bound(&run, &bound, &err) == 0);
        ratios[i] = (ours[i].pause_gpu_s + ours[i].lost_failure_gpu_s) / ours[i].held_gpu_s / bound;
    }
    ratio = mean_of(ratios);
    printf("  %6.4f +- %.4f of the KKT bound (pauses + lost work)", ratio.mean, ratio.half_width);
    if (isfinite(at_most))
        printf(" (target %.3f: %s)", at_most, ratio.mean <= at_most ? "met" : "MISSED");
    printf("\n");
    missed += ratio.mean <= at_most ? 0 : 1;
}

static void bench_row(const struct row *row)
{
    static struct whatif_ledger ledgers[WHATIF_RULE_COUNT][SEEDS_MAX];
    bool done[WHATIF_RULE_COUNT] = {false};
    struct whatif_scenario scenario;
    struct err err;

    CHECK(whatif_scenario_named(row->scenario, &scenario));
    for (size_t i = 0; row->sets[i] != NULL; i++)
        CHECK(whatif_scenario_set(&scenario, row->sets[i], &err) == 0);
    done[WHATIF_MODEL] = true;
    for (size_t i = 0; i < TARGETS_MAX && row->targets[i].at_most > 0; i++)
        done[row->targets[i].than] = true;
    printf("%s\n", row->name);
    for (int rule = 0; rule < WHATIF_RULE_COUNT; rule++) {
        size_t wanted = seeds;
        if (!done[rule] && !row->all_rules)
            continue;
        if (!done[rule] && seeds > OTHERS_SEEDS)
            seeds = OTHERS_SEEDS; /* for orientation only */
        run_rule(&scenario, NULL, (enum whatif_rule)rule, ledgers[rule]);
        print_wastes(ledgers[rule], (enum whatif_rule)rule);
        seeds = wanted;
        fflush(stdout);
    }
    for (size_t i = 0; i < TARGETS_MAX && row->targets[i].at_most > 0; i++)
        print_ratio(ledgers[WHATIF_MODEL], ledgers[row->targets[i].than], row->targets[i].than,
                    row->targets[i].at_most);
    if (row->bound)
        print_bound(&scenario, ledgers[WHATIF_MODEL],
                    strcmp(row->name, "contention") == 0 ? 1.06 : INFINITY);
    fflush(stdout);
}

/* Everything learned online from the prior of 6.5 per 1000 node-days, against the trace's own mean rate. */
static void bench_trace(const char *folder, size_t i)
{
    static struct whatif_ledger ours[SEEDS_MAX], theirs[SEEDS_MAX];
    struct whatif_scenario scenario;
    struct err err;
    char path[4096];

    whatif_scenario_init(&scenario);
    CHECK(whatif_scenario_set(&scenario, traces[i].nodes, &err) == 0);
    CHECK(whatif_scenario_set(&scenario, "learn=1", &err) == 0);
    CHECK(whatif_scenario_set(&scenario, "days=20000", &err) == 0);
    snprintf(path, sizeof(path), "%s/%s", folder, traces[i].file);
    printf("%s, learned online\n", traces[i].file);
    run_rule(&scenario, path, WHATIF_MODEL, ours);
    run_rule(&scenario, path, WHATIF_YOUNG_DALY, theirs);
    print_wastes(ours, WHATIF_MODEL);
    print_wastes(theirs, WHATIF_YOUNG_DALY);
    print_ratio(ours, theirs, WHATIF_YOUNG_DALY, traces[i].at_most);
    fflush(stdout);
}

static void bench_option(size_t i)
{
    static struct whatif_ledger with[SEEDS_MAX], without[SEEDS_MAX];
    struct whatif_scenario scenario;
    double ratios[SEEDS_MAX] = {0};
    struct mean ratio;
    struct err err;

    CHECK(whatif_scenario_named(options[i].scenario, &scenario));
    for (size_t k = 0; k < SETS_MAX && options[i].sets[k] != NULL; k++)
        CHECK(whatif_scenario_set(&scenario, options[i].sets[k], &err) == 0);
    CHECK(whatif_scenario_set(&scenario, options[i].off, &err) == 0);
    run_rule(&scenario, NULL, WHATIF_MODEL, without);
    CHECK(whatif_scenario_set(&scenario, options[i].on, &err) == 0);
    run_rule(&scenario, NULL, WHATIF_MODEL, with);
    for (size_t k = 0; k < seeds; k++)
        ratios[k] =
            (whatif_waste(&with[k]) + with[k].claim_cost_gpu_s / with[k].held_gpu_s) /
            (whatif_waste(&without[k]) + without[k].claim_cost_gpu_s / without[k].held_gpu_s);
    ratio = mean_of(ratios);
    printf("option: %s\n  %6.4f +- %.4f of the same without\n", options[i].name, ratio.mean,
           ratio.half_width);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 2 ? argv[2] : "";
    const char *only = argc > 3 ? argv[3] : "";

    if (argc > 1)
        seeds = strtoul(argv[1], NULL, 10);
    if (seeds < 1 || seeds > SEEDS_MAX) {
        fprintf(stderr, "usage: policy [SEEDS 1..%d [TRACES-FOLDER [PART]]]\n", SEEDS_MAX);
        return 2;
    }
    printf("waste of GPU time; %zu seeds from %d on, the same events for every rule, 95 %% "
           "intervals\n",
           seeds, FIRST_SEED);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (strstr(rows[i].name, only) != NULL)
            bench_row(&rows[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        if (strstr("option", only) != NULL || strstr(options[i].name, only) != NULL)
            bench_option(i);
    }
    for (size_t i = 0; i < ARRAY_COUNT(traces); i++) {
        if (folder[0] == '\0')
            printf("%s: skipped, no folder of traces was given (TRACES=...)\n", traces[i].file);
        else if (strstr(traces[i].file, only) != NULL)
            bench_trace(folder, i);
    }
    printf("%d above target\n", missed);
    return missed > 0 ? 1 : 0;
}
