/* HTCondor's names in ckptd.yaml: each is taken, and what has no effect is told. */
#include "src/broker/daemon/config_htcondor.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/daemon/config_reload.h"
#include "tests/unit/broker/config_text.h"

/* S2-013, S2-015, S2-017, S2-018, S2-023, S2-032, S2-007: what HTCondor calls otherwise. */
static void names_of_htcondor_become_settings(void **state)
{
    struct config *config =
        take(HEAD ONE "htcondor:\n  CKPT_SERVER_DIR: /var/ckpt\n  USE_CKPT_SERVER: True\n"
                      "  STARTER_CHOOSES_CKPT_SERVER: False\n  MAX_DISCARDED_RUN_TIME: 7200\n"
                      "  CKPT_SERVER_DEBUG: D_FULLDEBUG\n  MAX_RESTORE_PROCESSES: 40\n"
                      "  MAX_STORE_PROCESSES: 50\n"
                      "  CKPT_SERVER_STALE_CKPT_AGE_CUTOFF: 4320000\n"
                      "  CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL: 3600\n"
                      "  CKPT_SERVER_LOG: /var/log/ckpt\n  MAX_CKPT_SERVER_LOG: 70000\n",
             &n1);

    (void)state;
    assert_uint_equal(config->target_count, 1);
    assert_string_equal(config->targets[0].prefix, "/var/ckpt");
    assert_true(config->targets[0].is_default);
    assert_uint_equal(config->policy.node_chooses_target, 0);
    assert_uint_equal(config->policy.max_discarded_ms, 7200000);
    assert_uint_equal(config->policy.orphan_remove_age_ms, UINT64_C(4320000000));
    assert_int_equal(config->policy.orphan_rule, CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_LIST);
    assert_uint_equal(config->policy.orphan_scan_interval_ms, 3600000);
    assert_uint_equal(config->targets[0].max_restores, 40);
    assert_uint_equal(config->targets[0].max_writes, 50);
    assert_int_equal(config->log_level, LOG_LEVEL_DEBUG);
    assert_string_equal(config->htcondor.CKPT_SERVER_LOG, "/var/log/ckpt");
    assert_uint_equal(config->log_max_bytes, 70000);
    config_free(config);
}

static char warned[1 << 14];

static bool take_line(const char *line, size_t length)
{
    strncat(warned, line, length < sizeof(warned) - strlen(warned) - 1 ? length : 0);
    return true;
}

/* S2-020: each key that was changed since the start is taken, or told with what takes it. */
static void a_changed_key_that_no_reload_takes_is_told(void **state)
{
    struct config *started = take(HEAD ONE "htcondor: {CKPT_SERVER_DIR: /a}\n", &n1);
    struct config *read =
        take(HEAD ONE "htcondor: {CKPT_SERVER_DIR: /b, MAX_DISCARDED_RUN_TIME: 60, "
                      "CKPT_SERVER_DEBUG: D_FULLDEBUG}\n"
                      "health: {drain: yes}\n",
             &n1);

    (void)state;
    log_set_sink(take_line);
    assert_uint_equal(config_warn_untaken(started, started), 0);
    assert_in_range(config_warn_untaken(started, read), 2, 4);
    log_set_sink(NULL);
    assert_contains(warned, "key=htcondor.CKPT_SERVER_DIR ");
    assert_contains(warned, "key=htcondor.MAX_DISCARDED_RUN_TIME ");
    assert_contains(warned, "ckptctl policy set");
    assert_null(strstr(warned, "CKPT_SERVER_DEBUG"));
    assert_null(strstr(warned, "key=health"));
    config_free(started);
    config_free(read);
}

/* S2-013: what is not said of it is what a target is without being told. */
static void server_dir_of_htcondor_has_the_defaults_of_a_target(void **state)
{
    struct config *named = take(HEAD ONE "htcondor: {CKPT_SERVER_DIR: /x/scratch2}\n", &n1);
    struct config *listed = take(HEAD ONE "targets:\n  - {id: ckpt-server, prefix: /x/scratch2, "
                                          "write: 1GB/s}\n",
                                 &n1);
    uint8_t a[512], b[512];
    size_t bytes = ckpt__v1__target_spec__get_packed_size(&listed->targets[0]);

    (void)state;
    assert_int_equal(named->targets[0].read_back, CKPT__V1__READ_BACK__READ_BACK_SAMPLED);
    assert_uint_equal(named->targets[0].generations, 8);
    assert_in_range(bytes, 1, sizeof(a));
    assert_uint_equal(ckpt__v1__target_spec__get_packed_size(&named->targets[0]), bytes);
    ckpt__v1__target_spec__pack(&named->targets[0], a);
    ckpt__v1__target_spec__pack(&listed->targets[0], b);
    assert_memory_equal(a, b, bytes);
    config_free(named);
    config_free(listed);
}

/* S2-032: of each target that does not say it itself. S2-018: False: not that folder. */
static void htcondor_s_limits_are_of_all_targets(void **state)
{
    struct config *config = take(
        HEAD ONE "targets:\n"
                 "  - {id: a, prefix: /a, write_bytes_per_s: 1GB/s, max_writes: 7, default: yes}\n"
                 "  - {id: b, prefix: /b, write_bytes_per_s: 1GB/s, max_restores: 8}\n"
                 "htcondor:\n  USE_CKPT_SERVER: false\n  CKPT_SERVER_DIR: /c\n"
                 "  MAX_STORE_PROCESSES: 50\n  MAX_RESTORE_PROCESSES: 40\n",
        &n1);

    (void)state;
    assert_uint_equal(config->target_count, 2);
    assert_uint_equal(config->targets[0].max_writes, 7);
    assert_uint_equal(config->targets[0].max_restores, 40);
    assert_uint_equal(config->targets[1].max_writes, 50);
    assert_uint_equal(config->targets[1].max_restores, 8);
    config_free(config);
}

/* S2-028, S2-029, S2-031. */
static void what_htcondor_appends_to_each_job_is_the_rule_of_all(void **state)
{
    static const char same[] =
        "((LastCkptServer == TARGET.CkptServer) || (LastCkptServer =?= UNDEFINED))";
    static const struct {
        const char *req, *rank;
        Ckpt__V1__DomainRule rule;
    } cases[] = {
        {"", "", CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY},
        {same, "", CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED},
        {"", same, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED},
        {same, same, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED},
        {"lastckptserver==target.ckptserver || lastckptserver =?= undefined", "",
         CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED},
    };
    char text[2048];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct config *config;

        snprintf(text, sizeof(text),
                 "%shtcondor:\n  CKPT_SERVER_DIR: /c\n  APPEND_REQ_STANDARD: \"%s\"\n"
                 "  APPEND_RANK_STANDARD: \"%s\"\n",
                 HEAD ONE, cases[i].req, cases[i].rank);
        config = take(text, &n1);
        assert_int_equal(config->policy.domain_rule, cases[i].rule);
        config_free(config);
    }
}

/* S2-014, S2-019, S2-027: one file of HTCondor's serves all machines, and the operator is
 * told what of it says nothing here. */
static void names_without_effect_are_taken_and_told(void **state)
{
    static const struct {
        const char *line, *told[3];
    } cases[] = {
        {"CKPT_SERVER_HOST: host", {"htcondor.CKPT_SERVER_HOST", "ckpt-agentd.yaml"}},
        {"CkptServer: host", {"htcondor.CkptServer", "ckpt-agentd.yaml"}},
        {"STARTD_ATTRS: CkptServer, Rack", {"htcondor.STARTD_ATTRS", "domain"}},
        {"CKPT_SERVER_LOG: /log", {""}},
        {"MAX_CKPT_SERVER_LOG: 1000000", {"htcondor.MAX_CKPT_SERVER_LOG", "names no file"}},
        {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF: 60",
         {"htcondor.CKPT_SERVER_STALE_CKPT_AGE_CUTOFF", "orphan_rule is list"}},
        {"DAEMON_LIST: MASTER, CKPT_SERVER", {"htcondor.DAEMON_LIST", "systemd"}},
        {"CKPT_SERVER_DIR: /c\n  USE_CKPT_SERVER: False",
         {"htcondor.CKPT_SERVER_DIR", "USE_CKPT_SERVER is False"}},
        {"MAX_STORE_PROCESSES: 3", {""}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[1024], *told = NULL;
        size_t bytes;
        FILE *to = open_memstream(&told, &bytes);
        struct config *config;

        snprintf(text, sizeof(text), "%shtcondor:\n  %s\n%s\n", HEAD ONE, cases[i].line,
                 "targets: [{id: a, prefix: /a, write_bytes_per_s: 1GB/s}]");
        config = take(text, &n1);
        config_warn_htcondor(config, to);
        assert_int_equal(fclose(to), 0);
        for (const char *const *wanted = cases[i].told; *wanted != NULL; wanted++)
            assert_non_null(strstr(told, *wanted));
        assert_int_equal(told[0] == '\0', cases[i].told[0][0] == '\0');
        free(told);
        config_free(config);
    }
}

/* S2-013, S2-018, S2-031: each by its own name. */
static void wrong_values_of_htcondor_s_names_are_refused(void **state)
{
    static const struct {
        const char *line;
        const char *expected[4];
    } cases[] = {
        {"CKPT_SERVER_DEBUG: D_ALWAYS", {"CKPT_SERVER_DIR", "targets"}},
        {"CKPT_SERVER_DIR: relative", {"line 5", "CKPT_SERVER_DIR", "absolute"}},
        {"USE_CKPT_SERVER: False", {"USE_CKPT_SERVER", "--strategy NONE"}},
        {"USE_CKPT_SERVER: maybe", {"USE_CKPT_SERVER", "maybe", "True or False"}},
        {"STARTER_CHOOSES_CKPT_SERVER: 1", {"STARTER_CHOOSES", "True or False"}},
        {"MAX_DISCARDED_RUN_TIME: 1h", {"MAX_DISCARDED_RUN_TIME", "1h", "seconds"}},
        {"CKPT_SERVER_DEBUG: D_NETWORK", {"CKPT_SERVER_DEBUG", "log_level"}},
        {"CKPT_SERVER_LOG: log", {"CKPT_SERVER_LOG", "absolute path"}},
        {"MAX_CKPT_SERVER_LOG: 1 Mb", {"MAX_CKPT_SERVER_LOG", "1 Mb", "65536 to"}},
        {"MAX_CKPT_SERVER_LOG: 65535", {"MAX_CKPT_SERVER_LOG", "65535", "65536 to"}},
        {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF: 60d", {"AGE_CUTOFF", "60d", "seconds"}},
        {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL: 0", {"STALE_CKPT_INTERVAL", "1 to"}},
        {"APPEND_REQ_STANDARD: Memory > 1", {"APPEND_REQ_STANDARD", "LastCkptServer ==", "out"}},
        {"APPEND_RANK_STANDARD: LastCkptServer", {"APPEND_RANK_STANDARD", "domain_rule"}},
        {"CKPT_SERVER_DIR: /c\n  MAX_STORE_PROCESSES: 0", {"MAX_STORE_PROCESSES", "1 to 1048576"}},
        {"CKPT_SERVER_DIR: /c\n  MAX_RESTORE_PROCESSES: many",
         {"MAX_RESTORE_PROCESSES", "many", "1 to 1048576"}},
        {"MAX_RESTORE_PROCESSES: 3", {"CKPT_SERVER_DIR", "need a folder"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[1024];

        snprintf(text, sizeof(text), "%shtcondor:\n  %s\n", HEAD ONE, cases[i].line);
        refuse(text, &n1, cases[i].expected);
    }
    refuse(HEAD ONE "targets: [{id: a, prefix: /a, write_bytes_per_s: 1GB/s}]\n"
                    "htcondor: {CKPT_SERVER_DIR: /b}\n",
           &n1, (const char *const[]){"CKPT_SERVER_DIR", "prefix", NULL});
}

/* Whichever came first would be lost without a word. */
static void what_is_said_twice_is_refused(void **state)
{
    static const struct {
        const char *policy, *line;
        const char *expected[4];
    } cases[] = {
        {"max_discarded: 5h",
         "MAX_DISCARDED_RUN_TIME: 60",
         {"MAX_DISCARDED_RUN_TIME", "policy.max_discarded_ms", "leave one"}},
        {"orphan_remove_age: 1d",
         "CKPT_SERVER_STALE_CKPT_AGE_CUTOFF: 60",
         {"policy.orphan_remove_age_ms"}},
        {"orphan_scan_interval: 1d",
         "CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL: 60",
         {"policy.orphan_scan_interval_ms"}},
        {"node_chooses_target: 1",
         "STARTER_CHOOSES_CKPT_SERVER: False",
         {"policy.node_chooses_target"}},
        {"domain_rule: any",
         "APPEND_REQ_STANDARD: LastCkptServer == TARGET.CkptServer || LastCkptServer =?= UNDEFINED",
         {"policy.domain_rule"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[1024];

        snprintf(text, sizeof(text), "%spolicy: {%s}\nhtcondor:\n  CKPT_SERVER_DIR: /c\n  %s\n",
                 HEAD ONE, cases[i].policy, cases[i].line);
        refuse(text, &n1, cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_htcondor_become_settings),
        cmocka_unit_test(a_changed_key_that_no_reload_takes_is_told),
        cmocka_unit_test(server_dir_of_htcondor_has_the_defaults_of_a_target),
        cmocka_unit_test(htcondor_s_limits_are_of_all_targets),
        cmocka_unit_test(what_htcondor_appends_to_each_job_is_the_rule_of_all),
        cmocka_unit_test(names_without_effect_are_taken_and_told),
        cmocka_unit_test(wrong_values_of_htcondor_s_names_are_refused),
        cmocka_unit_test(what_is_said_twice_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
