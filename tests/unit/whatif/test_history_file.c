/* Histories as files: what is written is read back and wastes the same; what makes no sense is
 * refused by line. */
#include <stdio.h>
#include <string.h>

#include "src/whatif/whatif.h"
#include "tests/support/test.h"

static struct whatif_history example(void)
{
    static const struct whatif_history_job jobs[] = {{0, WHATIF_NEVER_S, 2, 16, 2e12, 3e9, 0},
                                                     {1000.5, 50000, 4, 32, 1e13 / 3, 6e9, 63}};
    static const struct whatif_history_event events[] = {
        {0, WHATIF_QUEUE_BUSY, 63},      {9000.25, WHATIF_FAILURE, 0},  {20000, WHATIF_YIELD, 1},
        {30000, WHATIF_STORAGE_DOWN, 0}, {31000, WHATIF_STORAGE_UP, 0}, {40000, WHATIF_KILL, 1},
        {41000, WHATIF_QUEUE_CALM, 63}};

    return (struct whatif_history){.seconds = 86400,
                                   .from_ms = 1700000000123,
                                   .job_count = 2,
                                   .jobs = jobs,
                                   .event_count = sizeof(events) / sizeof(events[0]),
                                   .events = events};
}

static int parse(const char *text, struct whatif_scenario *scenario, struct whatif_history *history,
                 struct err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int rc;

    assert_non_null(in);
    rc = whatif_history_parse(in, "file", scenario, history, err);
    fclose(in);
    return rc;
}

static void what_is_written_is_read_back_and_wastes_the_same(void **state)
{
    struct whatif_history history = example(), again;
    struct whatif_scenario scenario, other;
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    struct err err;

    (void)state;
    whatif_scenario_init(&scenario);
    whatif_scenario_init(&other);
    scenario.cycle_s = 30;
    scenario.stall_fraction = 0.1;
    scenario.restart_s = 99.5;
    scenario.demand_per_hour = 1.0 / 3;
    whatif_history_write(out, &scenario, &history);
    fclose(out);
    assert_int_equal(parse(text, &other, &again, &err), 0);
    assert_true(memcmp(&scenario, &other, sizeof(scenario)) == 0);
    assert_int_equal(again.job_count, history.job_count);
    assert_int_equal(again.event_count, history.event_count);
    assert_int_equal(again.from_ms, history.from_ms);
    for (int rule = 0; rule < WHATIF_RULE_COUNT; rule++) {
        struct whatif_run run = {
            .scenario = &scenario, .history = &history, .rule = (enum whatif_rule)rule};
        struct whatif_account a, b;

        assert_int_equal(whatif_run(&run, &a, &err), 0);
        run.history = &again;
        run.scenario = &other;
        assert_int_equal(whatif_run(&run, &b, &err), 0);
        assert_true(memcmp(&a, &b, sizeof(a)) == 0);
        assert_true(a.held_gpu_s > 0);
    }
    whatif_history_close(&again);
}

static void another_file_is_not_taken_for_a_history(void **state)
{
    struct whatif_history history;
    struct whatif_scenario scenario;
    struct err err;

    (void)state;
    whatif_scenario_init(&scenario);
    assert_int_equal(parse("node,start_day\n1,2\n", &scenario, &history, &err), 1);
    assert_int_equal(parse("ckpt-history 2\n", &scenario, &history, &err), 1);
    assert_int_equal(whatif_history_load("/nonexistent", &scenario, &history, &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent: No such file"));
}

static void what_makes_no_sense_is_refused_by_line(void **state)
{
    static const struct {
        const char *lines;
        const char *why;
    } cases[] = {
        {"", "holds no window"},
        {"window 10 0\n", "holds no job"},
        {"window 10\n", "file:2: not \"window"},
        {"window 10 0\nwindow 10 0\n", "file:3: not \"window"},
        {"window nan 0\n", "file:2: not \"window"},
        {"window -1 0\n", "file:2: not \"window"},
        {"set cycle_s 0\n", "file:2: "},
        {"set nonsense 1\n", "file:2: "},
        {"set cycle_s\n", "not \"set"},
        {"job 0 - 1 8 1e9 1e9 64\n", "not \"job"},
        {"job 5 4 1 8 1e9 1e9 0\n", "not \"job"},
        {"job 0 - 0 8 1e9 1e9 0\n", "not \"job"},
        {"job 0 - 1.5 8 1e9 1e9 0\n", "not \"job"},
        {"job 0 - 1 8 inf 1e9 0\n", "not \"job"},
        {"job 0 - 1 8 1e9 0 0\n", "not \"job"},
        {"job 0 - 1 8 1e9 1e9 0 9\n", "not \"job"},
        {"event 1 failure 0\n", "no such job"},
        {"event 1 queue-busy 64\n", "no such job or queue"},
        {"event 1 storage-down 0\n", "one job or queue by number"},
        {"event 1 failure\n", "one job or queue by number"},
        {"event 1 miracle 0\n", "not a happening: \"miracle\""},
        {"event x failure 0\n", "not \"event"},
        {"event 1\n", "not \"event"},
        {"jobs 1\n", "not window, set, job or event: \"jobs\""},
    };
    char text[1024];
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct whatif_history history;
        struct whatif_scenario scenario, before;

        whatif_scenario_init(&scenario);
        before = scenario;
        snprintf(text, sizeof(text), "ckpt-history 1\n%s", cases[i].lines);
        assert_int_equal(parse(text, &scenario, &history, &err), -1);
        if (strstr(err.text, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].lines, err.text);
        assert_true(memcmp(&scenario, &before, sizeof(before)) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back_and_wastes_the_same),
        cmocka_unit_test(another_file_is_not_taken_for_a_history),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
