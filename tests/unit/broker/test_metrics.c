/* The metrics text: names, syntax, aliases (U14, S1-070, P-080, F-014, T-004, T-006), and that
 * promtool and the rules agree. */
#include <ctype.h>
#include <jansson.h>
#include <unistd.h>

#include "src/broker/daemon/metrics.h"
#include "tests/unit/broker/fake_replica.h"

/* What dashboards and rules elsewhere may rely on: these names are promised and stay. */
static const char *const expected_names[] = {
    "lattice_checkpoint_storage_unavailable",
    "lattice_raft_leader",
    "lattice_raft_commit_latency_seconds",
    "lattice_raft_log_entries",
    "lattice_raft_snapshot_duration_seconds",
    "lattice_checkpoint_evaluations_total",
    "lattice_checkpoint_operations_total",
    "lattice_checkpoint_duration_seconds",
    "lattice_checkpoint_failures_total",
    "lattice_preemptions_total",
    "lattice_preemption_checkpoint_duration_seconds",
    "lattice_preemption_victim_requeue_total",
    "lattice_preemption_failed_checkpoint_total",
    "lattice_checkpoint_walltime_conflict_total",
    "ckpt_raft_is_leader",
    "ckpt_raft_founding",
    "ckpt_raft_term",
    "ckpt_raft_voters",
    "ckpt_raft_learners",
    "ckpt_raft_commit_index",
    "ckpt_raft_applied_index",
    "ckpt_raft_leader_changes_total",
    "ckpt_raft_proposals_pending",
    "ckpt_raft_commit_duration_seconds",
    "ckpt_raft_snapshot_duration_seconds",
    "ckpt_raft_snapshot_size_bytes",
    "ckpt_raft_peer_lag_entries",
    "ckpt_evaluations_total",
    "ckpt_evaluation_duration_seconds",
    "ckpt_hints_total",
    "ckpt_hint_ack_seconds",
    "ckpt_checkpoints",
    "ckpt_checkpoint_duration_seconds",
    "ckpt_checkpoint_size_bytes",
    "ckpt_paused_requests",
    "ckpt_destination_up",
    "ckpt_destination_write_bytes_per_second",
    "ckpt_destination_measured_write_bytes_per_second",
    "ckpt_bandwidth_granted_ratio",
    "ckpt_agent_connected",
    "ckpt_disk_free_bytes",
    "ckpt_disk_size_bytes",
    "ckpt_build_info",
};

/* Rendered with a cluster, an outage and a value in every kind of metric. The caller closes. */
static void render(struct buf *text)
{
    struct fake *fake = fake_new(NULL);
    struct metrics *metrics;

    fake->broker.metrics = metrics = broker_metrics_new(&fake->broker);
    fake_serve(fake);
    fake_set_available(fake, false);
    metrics_observe(metrics, METRIC_CHECKPOINT_SIZE, 4.1e13);
    metrics_add(metrics, METRIC_EVALUATIONS, "skip", "value_below_cost", 3);
    metrics_add(metrics, METRIC_L_PREEMPTIONS, "a\"b\\c\nd", "priority", 1);
    buf_init(text);
    metrics_render(metrics, text);
    buf_append(text, "", 1);
    metrics_free(metrics);
    fake_free(fake);
}

static bool has(const struct buf *text, const char *what)
{
    return strstr((const char *)text->bytes, what) != NULL;
}

static void every_promised_name_has_help_and_type(void **state)
{
    struct buf text;
    char line[256];

    (void)state;
    render(&text);
    for (size_t i = 0; i < ARRAY_COUNT(expected_names); i++) {
        snprintf(line, sizeof(line), "# HELP %s ", expected_names[i]);
        if (!has(&text, line))
            print_error("missing: %s\n", expected_names[i]);
        assert_true(has(&text, line));
        snprintf(line, sizeof(line), "# TYPE %s ", expected_names[i]);
        assert_true(has(&text, line));
    }
    buf_close(&text);
}

/* S1-070 */
static void an_outage_shows(void **state)
{
    struct buf text;

    (void)state;
    render(&text);
    assert_true(has(&text, "\nlattice_checkpoint_storage_unavailable 1\n"));
    assert_true(has(&text, "\nckpt_destination_up{destination=\"scratch\"} 0\n"));
    assert_true(has(&text, "\nckpt_raft_is_leader 1\n"));
    buf_close(&text);
}

/* An increase is seen from the first one on only where there was a 0 before. */
static void limits_are_counted_from_0(void **state)
{
    static const char *const names[] = {"ALLOCATIONS_FULL", "SESSIONS_FULL", "NODES_FULL",
                                        "TARGETS_FULL",     "QUEUES_FULL",   "PREEMPTIONS_FULL"};
    struct buf text;
    char line[128];

    (void)state;
    render(&text);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(line, sizeof(line), "\nckpt_mutation_outcomes_total{status=\"%s\"} 0\n", names[i]);
        assert_true(has(&text, line));
    }
    assert_false(has(&text, "ckpt_mutation_outcomes_total{status=\"OK\"}"));
    buf_close(&text);
}

static void histograms_are_cumulative(void **state)
{
    struct buf text;

    (void)state;
    render(&text);
    assert_true(has(&text, "ckpt_checkpoint_size_bytes_bucket{le=\"1e+13\"} 0\n"));
    assert_true(has(&text, "ckpt_checkpoint_size_bytes_bucket{le=\"1e+14\"} 1\n"));
    assert_true(has(&text, "ckpt_checkpoint_size_bytes_bucket{le=\"+Inf\"} 1\n"));
    assert_true(has(&text, "ckpt_checkpoint_size_bytes_count 1\n"));
    /* three commits below 2.048 ms */
    assert_true(has(&text, "ckpt_raft_commit_duration_seconds_bucket{le=\"0.001\"} 0\n"));
    assert_true(has(&text, "ckpt_raft_commit_duration_seconds_bucket{le=\"0.0025\"} 3\n"));
    buf_close(&text);
}

static void label_values_are_escaped(void **state)
{
    struct buf text;

    (void)state;
    render(&text);
    assert_true(has(
        &text, "lattice_preemptions_total{vcluster=\"a\\\"b\\\\c\\nd\",reason=\"priority\"} 1\n"));
    buf_close(&text);
}

static void series_are_bounded(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct metrics *metrics = broker_metrics_new(&fake->broker);
    char label[32];

    (void)state;
    for (int i = 0; i < 3 * METRICS_SERIES_MAX; i++) {
        snprintf(label, sizeof(label), "v%d", i);
        metrics_add(metrics, METRIC_L_FAILURES, label, NULL, 1);
    }
    assert_double_near(metrics_value(metrics, METRIC_L_FAILURES, "v0", NULL), 1, 0);
    assert_double_near(metrics_value(metrics, METRIC_L_FAILURES, "other", NULL),
                       2 * METRICS_SERIES_MAX + 1, 0);
    metrics_free(metrics);
    fake_free(fake);
}

static void a_missing_registry_is_no_error(void **state)
{
    (void)state;
    metrics_add(NULL, METRIC_GRANTS, NULL, NULL, 1);
    metrics_set(NULL, METRIC_PAUSED, NULL, NULL, 1);
    metrics_observe(NULL, METRIC_HINT_ACK, 1);
}

static void promtool_accepts_the_text(void **state)
{
    struct buf text;
    FILE *pipe;

    (void)state;
    render(&text);
    pipe = popen("promtool check metrics", "w");
    assert_non_null(pipe);
    assert_uint_equal(fwrite(text.bytes, 1, text.length - 1, pipe), text.length - 1);
    assert_int_equal(pclose(pipe), 0);
    buf_close(&text);
}

/* ---- the rules ---- */

static char *read_rules(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = check_calloc(1, 1 << 20);

    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The series' name without what a histogram adds to it. */
static void strip_suffix(char *name)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};

    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        size_t length = strlen(name), cut = strlen(suffixes[i]);

        if (length > cut && strcmp(name + length - cut, suffixes[i]) == 0)
            name[length - cut] = '\0';
    }
}

/* Returns how many names of metrics the file holds; each must be one that is emitted. */
static int check_names(const char *path)
{
    char *rules = read_rules(path);
    struct buf text;
    int checked = 0;

    render(&text);
    for (char *p = rules; (p = strpbrk(p, "cl")) != NULL; p++) {
        char name[128] = "", line[160];
        size_t length = 0;

        if ((strncmp(p, "ckpt_", 5) != 0 && strncmp(p, "lattice_", 8) != 0) ||
            (p > rules && (isalnum((unsigned char)p[-1]) || p[-1] == '_' || p[-1] == ':')))
            continue;
        while (isalnum((unsigned char)p[length]) || p[length] == '_')
            length++;
        if (p[length] == ':') /* a recording rule's own name */
            continue;
        assert_true(length < sizeof(name));
        memcpy(name, p, length);
        name[length] = '\0';
        strip_suffix(name);
        snprintf(line, sizeof(line), "# TYPE %s ", name);
        if (!has(&text, line))
            print_error("%s uses %s\n", path, name);
        assert_true(has(&text, line));
        checked++;
        p += length - 1;
    }
    buf_close(&text);
    free(rules);
    return checked;
}

static void rules_use_only_names_that_exist(void **state)
{
    (void)state;
    assert_true(check_names("deploy/prometheus/ckpt.rules.yml") > 15);
}

/* ---- the dashboard ---- */

/* The labels of a metric, as the table has them. */
static bool label_exists(const char *metric, const char *label)
{
    static const struct {
        const char *name, *labels[2];
    } rows[] = {
#define X(id, kind, name, first, second, help) {name, {first, second}},
        METRICS(X)
#undef X
    };

    if (strcmp(label, "job") == 0 || strcmp(label, "instance") == 0 || strcmp(label, "le") == 0)
        return true; /* of Prometheus itself, and of histograms */
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        for (size_t j = 0; strcmp(rows[i].name, metric) == 0 && j < 2; j++)
            if (rows[i].labels[j] != NULL && strcmp(rows[i].labels[j], label) == 0)
                return true;
    return false;
}

/* The first metric of a query, without what a histogram adds; "": a recording rule's name. */
static void metric_of(const char *query, char name[128])
{
    const char *at = strstr(query, "ckpt_");
    size_t length = at == NULL ? 0 : strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");

    name[0] = '\0';
    if (at == NULL || (at > query && at[-1] == ':'))
        return;
    assert_true(length < 128);
    memcpy(name, at, length);
    name[length] = '\0';
    strip_suffix(name);
}

/* Words between by ( and ): the series of a panel. */
static void check_by(const char *query)
{
    char metric[128], labels[128], *rest = NULL;
    const char *by = strstr(query, " by (");

    metric_of(query, metric);
    if (by == NULL)
        return;
    snprintf(labels, sizeof(labels), "%.*s", (int)strcspn(by + 5, ")"), by + 5);
    for (char *label = strtok_r(labels, ", ", &rest); label != NULL;
         label = strtok_r(NULL, ", ", &rest))
        if (!label_exists(metric, label))
            fail_msg("%s: %s has no label %s", query, metric, label);
}

/* {{label}} of a legend: grouped by, or the series' own. */
static void check_legend(const char *query, const char *legend)
{
    char metric[128];

    metric_of(query, metric);
    for (const char *at = legend; (at = strstr(at, "{{")) != NULL; at += 2) {
        char label[64];

        snprintf(label, sizeof(label), "%.*s", (int)strcspn(at + 2, "}"), at + 2);
        if (!label_exists(metric, label))
            fail_msg("%s: its legend names %s", query, label);
        if (strstr(query, " by (") != NULL)
            assert_non_null(strstr(strstr(query, " by ("), label));
    }
}

/* U15: every query of every panel; recording rules are those of the rules' file. */
static void the_dashboard_asks_only_for_what_is_emitted(void **state)
{
    json_t *dashboard = json_load_file("deploy/grafana/ckpt.json", JSON_REJECT_DUPLICATES, NULL);
    char *rules = read_rules("deploy/prometheus/ckpt.rules.yml");
    size_t i, j, queries = 0;
    json_t *panel, *target;

    (void)state;
    assert_non_null(dashboard);
    assert_true(check_names("deploy/grafana/ckpt.json") > 40);
    json_array_foreach(json_object_get(dashboard, "panels"), i, panel)
    {
        assert_non_null(json_string_value(json_object_get(panel, "title")));
        json_array_foreach(json_object_get(panel, "targets"), j, target)
        {
            const char *query = json_string_value(json_object_get(target, "expr"));
            const char *recorded = strstr(query, "cluster:");

            assert_non_null(query);
            queries++;
            check_by(query);
            check_legend(query, json_string_value(json_object_get(target, "legendFormat")));
            if (recorded != NULL && strstr(rules, recorded) == NULL)
                fail_msg("no rule records %s", recorded);
        }
    }
    assert_true(queries > 40);
    json_decref(dashboard);
    free(rules);
}

/* T-005: which alerts, from when on, how grave: the rules' own tests have the bounds */
static void promtool_accepts_the_rules_and_their_tests_pass(void **state)
{
    (void)state;
    assert_int_equal(system("cd deploy/prometheus && promtool check rules ckpt.rules.yml && "
                            "promtool test rules *.test.yml"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promised_name_has_help_and_type),
        cmocka_unit_test(an_outage_shows),
        cmocka_unit_test(limits_are_counted_from_0),
        cmocka_unit_test(histograms_are_cumulative),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(series_are_bounded),
        cmocka_unit_test(a_missing_registry_is_no_error),
        cmocka_unit_test(promtool_accepts_the_text),
        cmocka_unit_test(rules_use_only_names_that_exist),
        cmocka_unit_test(the_dashboard_asks_only_for_what_is_emitted),
        cmocka_unit_test(promtool_accepts_the_rules_and_their_tests_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
