/* ckptctl whatif: what other rules would have cost, on a trace, a scenario, or what this cluster
 * went through. */
#include <errno.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/whatif_history.h"
#include "src/whatif/whatif.h"

/* ---- what to simulate ---- */

static enum cli_exit usage_error(struct cli *cli, const char *text)
{
    return cli_fail(cli, CLI_USAGE, "ckptctl help whatif", "%s", text);
}

static enum cli_exit list_numbers(struct cli *cli)
{
    static const struct output_column columns[] = {{"NUMBER", OUTPUT_LEFT},
                                                   {"USUAL", OUTPUT_RIGHT},
                                                   {"LOWEST", OUTPUT_RIGHT},
                                                   {"HIGHEST", OUTPUT_RIGHT},
                                                   {"WHAT", OUTPUT_LEFT}};
    struct output_table table;
    struct whatif_number number;
    json_t *items = json_array();

    for (size_t i = 0; cli_is_json(cli) && whatif_number_at(i, &number); i++)
        json_array_append_new(items, json_pack("{s:s, s:f, s:f, s:f, s:s}", "number", number.name,
                                               "usual", number.usual, "lowest", number.low,
                                               "highest", number.high, "what", number.unit));
    if (cli_is_json(cli)) {
        output_json_list(cli, "numbers", "number", items);
        return CLI_OK;
    }
    json_decref(items);
    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; whatif_number_at(i, &number); i++) {
        output_row(&table);
        output_cell(&table, "%s", number.name);
        output_cell(&table, "%g", number.usual);
        output_cell(&table, "%g", number.low);
        output_cell(&table, "%g", number.high);
        output_cell(&table, "%s", number.unit);
    }
    output_table_print(&table);
    return CLI_OK;
}

static enum cli_exit apply_sets(struct cli *cli, struct whatif_scenario *scenario)
{
    const struct option_value *sets = cli_option(cli, "set");
    struct err err;

    for (size_t i = 0; i < sets->item_count; i++) {
        if (whatif_scenario_set(scenario, sets->items[i], &err) != 0)
            return cli_fail(cli, CLI_USAGE, "ckptctl whatif --numbers", "%s", err.text);
    }
    return CLI_OK;
}

static enum cli_exit choose_scenario(struct cli *cli, struct whatif_scenario *scenario)
{
    const char *name = cli_text(cli, "scenario");
    bool from_trace = cli_text(cli, "trace") != NULL;

    whatif_scenario_init(scenario);
    if (name != NULL && !whatif_scenario_named(name, scenario)) {
        char text[400];
        size_t used = (size_t)snprintf(text, sizeof(text),
                                       "no scenario is called \"%.60s\"; there are", name);
        for (size_t i = 0; whatif_scenario_name(i) != NULL && used < sizeof(text); i++)
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, " %s", whatif_scenario_name(i));
        return usage_error(cli, text);
    }
    if (from_trace) { /* all of it, and nothing known in advance */
        scenario->days = 20000;
        scenario->learn = 1;
    }
    return apply_sets(cli, scenario);
}

/* ---- results ---- */

static json_t *row_json(const struct whatif_row *row)
{
    const struct whatif_account *l = &row->account;

    return json_pack("{s:s, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "rule", whatif_rule_name(row->rule), "waste", whatif_waste(l), "checkpoints",
                     (json_int_t)l->checkpoints, "yields", (json_int_t)l->yields, "held_gpu_s",
                     l->held_gpu_s, "useful_gpu_s", l->useful_gpu_s, "lost_failure_gpu_s",
                     l->lost_failure_gpu_s, "lost_preemption_gpu_s", l->lost_kill_gpu_s,
                     "lost_walltime_gpu_s", l->lost_walltime_gpu_s, "pause_gpu_s", l->pause_gpu_s,
                     "restart_gpu_s", l->restart_gpu_s, "written_bytes", l->bytes_written,
                     "yield_wait_s", l->yields > 0 ? l->yield_wait_s / (double)l->yields : 0.0,
                     "yield_wait_max_s", l->yield_wait_max_s);
}

static void print_rows(struct cli *cli, const struct whatif_row *rows, size_t count)
{
    json_t *items;

    for (size_t i = 0; cli->format == OUTPUT_NAME && i < count; i++)
        output_name(cli, whatif_rule_name(rows[i].rule));
    if (cli->format == OUTPUT_TABLE || cli->format == OUTPUT_WIDE)
        whatif_table(cli->out, rows, count);
    if (!cli_is_json(cli))
        return;
    items = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(items, row_json(&rows[i]));
    output_json_list(cli, "rules", "rule", items);
}

/* In words: a title is read far from the command that made it. */
static void describe_run(struct cli *cli, const struct whatif_run *run, char *text, size_t size)
{
    const struct whatif_scenario *scenario = run->scenario;
    const bool replayed = run->history != NULL;
    const char *trace = cli_text(cli, "trace"), *name = cli_text(cli, "scenario");
    const char *slash = trace != NULL ? strrchr(trace, '/') : NULL;
    const char *file = slash != NULL ? slash + 1 : trace;
    char since[HUMAN_BYTES];

    if (replayed && trace != NULL)
        snprintf(text, size, "What a cluster went through, replayed from %.200s", file);
    else if (replayed)
        snprintf(text, size, "What this cluster went through in the last %s",
                 human_duration(cli_number(cli, "since", 0), since));
    else if (trace != NULL)
        snprintf(text, size, "Failures recorded in %.200s; %.0f simulated jobs", file,
                 scenario->jobs);
    else
        snprintf(text, size, "Scenario \"%.100s\": %.0f simulated jobs, %g days", name,
                 scenario->jobs, scenario->days);
}

static enum cli_exit write_plot(struct cli *cli, const struct whatif_run *run,
                                const struct whatif_row *rows, size_t count)
{
    const char *path = cli_text(cli, "svg");
    char what[300];
    struct whatif_plot plot = {.what = what, .rows = rows, .count = count};
    FILE *file;

    if (path == NULL)
        return CLI_OK;
    file = fopen(path, "w");
    if (file == NULL)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot write the plot: %s: %s", path,
                        strerror(errno));
    describe_run(cli, run, what, sizeof(what));
    whatif_plot_assume(&plot, run);
    whatif_svg(file, &plot);
    if (fclose(file) != 0)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot write the plot: %s: %s", path,
                        strerror(errno));
    return CLI_OK;
}

static enum cli_exit simulate_rules(struct cli *cli, const struct whatif_scenario *scenario,
                                    const struct whatif_history *history)
{
    struct whatif_row rows[WHATIF_RULE_COUNT];
    struct whatif_run run = {.scenario = scenario,
                             .trace = cli_text(cli, "trace"),
                             .history = history,
                             .seed = cli_number(cli, "seed", 1)};
    struct err err;

    for (int rule = 0; rule < WHATIF_RULE_COUNT; rule++) {
        run.rule = rows[rule].rule = (enum whatif_rule)rule;
        if (whatif_run(&run, &rows[rule].account, &err) != 0)
            return cli_fail(cli, CLI_FAILED, NULL, "%s", err.text);
    }
    print_rows(cli, rows, WHATIF_RULE_COUNT);
    return write_plot(cli, &run, rows, WHATIF_RULE_COUNT);
}

static void note_reach(struct cli *cli, const struct whatif_history_copy *copy)
{
    char text[HUMAN_BYTES];

    if (copy->gap)
        cli_note(
            cli,
            "remark: older events are no longer kept: the window begins at %s, not at the time "
            "that was asked for",
            human_instant(copy->reaches_ms, text));
}

/* What the replay does not know of what is kept. */
static void note_limits(struct cli *cli, const struct whatif_history_copy *copy)
{
    if (copy->periods + copy->walltimes + copy->nodes_down == 0)
        return;
    cli_note(cli,
             "remark: not replayed: declared periods (%zu jobs); walltimes (%zu jobs: no rule sees "
             "one come, an end at one is a kill); nodes that went down idle (of %zu that went "
             "down)",
             copy->periods, copy->walltimes, copy->nodes_down);
}

/* A history that was written before: its jobs, what happened to them, its cluster's policy. */
static enum cli_exit simulate_file(struct cli *cli, struct whatif_scenario *scenario)
{
    struct whatif_history history;
    struct err err;
    enum cli_exit code;
    int rc = whatif_history_load(cli_text(cli, "trace"), scenario, &history, &err);

    if (rc < 0)
        return cli_fail(cli, CLI_FAILED, NULL, "%s", err.text);
    if (rc > 0)
        return simulate_rules(cli, scenario, NULL);
    code = apply_sets(cli, scenario);
    if (code == CLI_OK)
        code = simulate_rules(cli, scenario, &history);
    whatif_history_close(&history);
    return code;
}

enum cli_exit command_history(struct cli *cli)
{
    struct whatif_scenario scenario;
    struct whatif_history_copy copy;
    enum cli_exit code;

    if (!cli_option(cli, "since")->set)
        return cli_fail(cli, CLI_USAGE, "ckptctl history --since 24h", "history needs --since");
    whatif_scenario_init(&scenario);
    code = whatif_history_read(cli, cli_number(cli, "since", 0), &scenario, &copy);
    if (code == CLI_OK) {
        note_reach(cli, &copy);
        note_limits(cli, &copy);
        whatif_history_write(cli->out, &scenario, &copy.history);
    }
    whatif_history_free(&copy);
    return code;
}

static enum cli_exit simulate_cluster(struct cli *cli, struct whatif_scenario *scenario)
{
    struct whatif_history_copy copy;
    enum cli_exit code = whatif_history_read(cli, cli_number(cli, "since", 0), scenario, &copy);

    if (code == CLI_OK) /* what was set by hand stands above the cluster's policy */
        code = apply_sets(cli, scenario);
    if (code != CLI_OK) {
        whatif_history_free(&copy);
        return code;
    }
    note_reach(cli, &copy);
    note_limits(cli, &copy);
    if (copy.history.job_count == 0)
        code = cli_fail(cli, CLI_NOT_FOUND, "ckptctl jobs", "no job held nodes in that time");
    else
        code = simulate_rules(cli, scenario, &copy.history);
    if (code == CLI_OK && !cli_is_json(cli))
        cli_note(cli, "what really happened in that time: %zu checkpoints completed",
                 copy.checkpoints);
    whatif_history_free(&copy);
    return code;
}

enum cli_exit command_whatif(struct cli *cli)
{
    struct whatif_scenario scenario;
    bool trace = cli_text(cli, "trace") != NULL, named = cli_text(cli, "scenario") != NULL;
    bool since = cli_option(cli, "since")->set;
    enum cli_exit code;

    if (cli_flag(cli, "numbers"))
        return list_numbers(cli);
    if (since ? trace || named : !trace && !named)
        return usage_error(
            cli, "whatif takes --trace FILE or --scenario NAME or both, or --since DURATION");
    code = choose_scenario(cli, &scenario);
    if (code != CLI_OK)
        return code;
    if (since)
        return simulate_cluster(cli, &scenario);
    return trace ? simulate_file(cli, &scenario) : simulate_rules(cli, &scenario, NULL);
}
