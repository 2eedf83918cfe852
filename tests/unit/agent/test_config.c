/* The agent's configuration and ckpt-run's command line: what is wrong is named with its line,
 * value and limit. */
#include "src/agent/daemon/config.h"

#include <signal.h>
#include <stdlib.h>

#include "src/agent/daemon/config_htcondor.h"
#include "src/agent/run/run_options.h"
#include "src/base/check.h"
#include "tests/support/test.h"

static struct agent_config config;
static struct err err;

static int parse(const char *text)
{
    agent_config_close(&config);
    agent_config_init(&config, "agent.yaml");
    return settings_parse(&config.settings, text, strlen(text), &err);
}

static void known_keys_are_taken(void **state)
{
    (void)state;
    assert_int_equal(parse("brokers: \"127.0.0.1:7443,127.0.0.1:7444\"\n"
                           "state_dir: /var/lib/x\n# a remark\nsocket: /run/x.sock\n"
                           "http: \"127.0.0.1:9103\"\nheartbeat_ms: 500\nlog_level: debug\n"),
                     0);
    assert_string_equal(config.brokers, "127.0.0.1:7443,127.0.0.1:7444");
    assert_string_equal(config.state_dir, "/var/lib/x");
    assert_string_equal(config.socket, "/run/x.sock");
    assert_string_equal(config.http, "127.0.0.1:9103");
    assert_uint_equal(config.heartbeat_ms, 500);
    assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(agent_config_check(&config, &err), 0);
}

static void memory_needs_a_path_and_a_bound(void **state)
{
    (void)state;
    assert_int_equal(
        parse("brokers: \"a:1\"\nmemory: {path: /run/ckpt-memory, max_bytes: 64GiB}\n"), 0);
    assert_string_equal(config.memory_path, "/run/ckpt-memory");
    assert_uint_equal(config.memory_max_bytes, UINT64_C(64) << 30);
    assert_int_equal(agent_config_check(&config, &err), 0);
    assert_int_equal(parse("brokers: \"a:1\"\nmemory: {path: /run/ckpt-memory}\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_contains(err.text, "memory.max_bytes is 0");
    assert_int_equal(parse("brokers: \"a:1\"\nmemory: {path: shm/, max_bytes: 1}\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_contains(err.text, "memory.path is \"shm/\", it must be an absolute path");
}

static void the_side_port_beyond_loopback_must_be_said_to_be_insecure(void **state)
{
    static const char *const beyond[] = {"0.0.0.0:9103", "10.0.0.1:9103", "[::]:9103"};
    char text[128];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "brokers: \"a:1\"\nhttp: \"%s\"\n", beyond[i]);
        assert_int_equal(parse(text), 0);
        assert_int_equal(agent_config_check(&config, &err), -1);
        assert_non_null(strstr(err.text, beyond[i]));
        assert_non_null(strstr(err.text, "set 'insecure: yes' (--insecure)"));
        config.insecure = true;
        assert_int_equal(agent_config_check(&config, &err), 0);
    }
    assert_int_equal(parse("insecure: yes\nbrokers: \"a:1\"\nhttp: \"0.0.0.0:9103\"\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), 0);
    assert_int_equal(parse("insecure: maybe\n"), -1);
    assert_string_equal(err.text, "agent.yaml, line 1: insecure is 'maybe', must be yes or no");
    assert_int_equal(parse("brokers: \"a:1\"\n"), 0);
    assert_false(config.owners_register);
    assert_int_equal(parse("owners_register: yes\n"), 0);
    assert_true(config.owners_register);
    assert_int_equal(parse("owners_register: 1\n"), -1);
    assert_string_equal(err.text, "agent.yaml, line 1: owners_register is '1', must be yes or no");
}

/* S3-045: a site may call nodes alike that their systems tell apart. */
static void what_a_node_is_called_is_checked(void **state)
{
    (void)state;
    assert_int_equal(parse("brokers: \"a:1\"\nmachine: x86_64-v4\nos: \"el 9\"\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), 0);
    assert_string_equal(config.machine, "x86_64-v4");
    assert_string_equal(config.os, "el 9");
    assert_int_equal(parse("brokers: \"a:1\"\nos: \"0123456789012345678901234567890123456789"
                           "0123456789012345678901234\"\n"),
                     0);
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_non_null(strstr(err.text, "os is \"01234"));
    assert_non_null(strstr(err.text, "65 bytes; it must be at most 64 printable"));
    assert_int_equal(parse("brokers: \"a:1\"\n"), 0);
    assert_string_equal(config.machine, "");
}

/* S2-019, S2-023, S2-027: the machines that use one server are its domain. */
static void htcondor_s_server_is_the_node_s_domain(void **state)
{
    static const char *const texts[] = {
        "htcondor: {CKPT_SERVER_HOST: ckpt-a.example.org}\n",
        "htcondor: {CkptServer: ckpt-a.example.org, USE_CKPT_SERVER: True}\n",
        "htcondor:\n  CKPT_SERVER_HOST: ckpt-a.example.org\n"
        "  CkptServer: $(CKPT_SERVER_HOST)\n  STARTD_ATTRS: $(STARTD_ATTRS), CkptServer\n"};
    char text[512];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "brokers: \"a:1\"\n%s", texts[i]);
        assert_int_equal(parse(text), 0);
        if (agent_config_check(&config, &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(config.domain, "ckpt-a.example.org");
    }
}

/* What a machine's file of HTCondor's says beside that is taken, and the operator is told of it. */
static char *told_of_htcondor(const char *lines)
{
    char text[512], *told = NULL;
    size_t bytes;
    FILE *to = open_memstream(&told, &bytes);

    snprintf(text, sizeof(text), "brokers: \"a:1\"\nhtcondor:\n  %s\n", lines);
    assert_int_equal(parse(text), 0);
    if (agent_config_check(&config, &err) != 0)
        fail_msg("%s", err.text);
    agent_config_warn_htcondor(&config, to);
    assert_int_equal(fclose(to), 0);
    return told;
}

/* S2-013, S2-014, S2-015, S2-018, S2-021, S2-031: each by its own name, with the place that ours
 * has. */
static void names_without_effect_are_taken_and_told(void **state)
{
    static const struct {
        const char *line, *told[2];
    } cases[] = {
        {"CKPT_SERVER_DIR: /ckpt", {"htcondor.CKPT_SERVER_DIR", "ckptd.yaml"}},
        {"STARTER_CHOOSES_CKPT_SERVER: True", {"STARTER_CHOOSES", "ckptd.yaml"}},
        {"MAX_DISCARDED_RUN_TIME: 3600", {"MAX_DISCARDED_RUN_TIME", "ckptd.yaml"}},
        {"CKPT_SERVER_DEBUG: D_ALWAYS", {"CKPT_SERVER_DEBUG", "`log_level`"}},
        {"CKPT_SERVER_LOG: /log", {"CKPT_SERVER_LOG", "journal"}},
        {"MAX_CKPT_SERVER_LOG: 1", {"MAX_CKPT_SERVER_LOG", "journal"}},
        {"DAEMON_LIST: MASTER, STARTD", {"DAEMON_LIST", "systemd"}},
        {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF: 1", {"AGE_CUTOFF", "ckptd.yaml"}},
        {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL: 1", {"INTERVAL", "ckptd.yaml"}},
        {"APPEND_REQ_STANDARD: x", {"APPEND_REQ_STANDARD", "ckptd.yaml"}},
        {"APPEND_RANK_STANDARD: x", {"APPEND_RANK_STANDARD", "ckptd.yaml"}},
        {"MAX_STORE_PROCESSES: 3", {"MAX_STORE_PROCESSES", "ckptd.yaml"}},
        {"MAX_RESTORE_PROCESSES: 3", {"MAX_RESTORE_PROCESSES", "ckptd.yaml"}},
        {"STARTD_ATTRS: CkptServer, Rack", {"STARTD_ATTRS", "CkptServer alone"}},
        {"USE_CKPT_SERVER: False\n  CKPT_SERVER_HOST: a", {"CKPT_SERVER_HOST", "is False"}},
        {"USE_CKPT_SERVER: False\n  CkptServer: a", {"htcondor.CkptServer", "is False"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *told = told_of_htcondor(cases[i].line);

        assert_contains(told, cases[i].told[0]);
        assert_contains(told, cases[i].told[1]);
        assert_string_equal(config.domain, "");
        free(told);
    }
    for (size_t i = 0; i < 2; i++) {
        char *told = told_of_htcondor(i == 0 ? "CKPT_SERVER_HOST: a\n  USE_CKPT_SERVER: true"
                                             : "CkptServer: a\n  STARTD_ATTRS: CkptServer");

        assert_string_equal(told, "");
        assert_string_equal(config.domain, "a");
        free(told);
    }
}

static void wrong_values_of_htcondor_s_names_are_refused(void **state)
{
    static const struct {
        const char *line, *expected[2];
    } cases[] = {
        {"USE_CKPT_SERVER: maybe", {"USE_CKPT_SERVER '\"maybe\"'", "True or False"}},
        {"CKPT_SERVER_HOST: a b", {"CKPT_SERVER_HOST '\"a b\"'", "the name of a host"}},
        {"CkptServer: b\n  CKPT_SERVER_HOST: a", {"CkptServer '\"b\"'", "not CKPT_SERVER_HOST"}},
        {"CKPT_SERVER_HOST: a\ndomain: b", {"CKPT_SERVER_HOST '\"a\"'", "and `domain` are given"}},
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "brokers: \"a:1\"\nhtcondor:\n  %s\n", cases[i].line);
        assert_int_equal(parse(text), 0);
        assert_int_equal(agent_config_check(&config, &err), -1);
        assert_contains(err.text, "line ");
        assert_contains(err.text, cases[i].expected[0]);
        assert_contains(err.text, cases[i].expected[1]);
    }
}

/* S3-060: numbers alone, since a name server that is away would speak against the node. */
static void a_probe_is_a_port_or_an_address_in_numbers(void **state)
{
    static const struct {
        const char *probe;
        bool taken;
    } cases[] = {
        {"", true},          {"off", true},          {"22", true},        {"65535", true},
        {"0", false},        {"65536", false},       {"ssh", false},      {"10.0.0.7:22", true},
        {"10.0.0.7", false}, {"[fd00::7]:22", true}, {"node7:22", false}, {"10.0.0.7:0", false},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "brokers: \"a:1\"\nnode_probe: \"%s\"\n", cases[i].probe);
        assert_int_equal(parse(text), 0);
        assert_int_equal(agent_config_check(&config, &err), cases[i].taken ? 0 : -1);
        if (!cases[i].taken)
            assert_contains(err.text, "it must be off, a port from 1 to 65535");
    }
}

/* T-003 */
static void the_example_file_is_taken_and_has_the_port_of_the_documents(void **state)
{
    (void)state;
    agent_config_close(&config);
    agent_config_init(&config, "deploy/ckpt-agentd.yaml");
    if (settings_load(&config.settings, &err) != 0)
        fail_msg("refused: %s", err.text);
    assert_non_null(strstr(config.http, ":9103"));
}

static void tls_has_keys_below_it(void **state)
{
    (void)state;
    assert_int_equal(parse("brokers: \"a:1\"\ntls:\n  ca: /t/ca.crt\n  cert: /t/agent-{name}.crt\n"
                           "  key: /t/agent-{name}.key\nlog_level: info\n"),
                     0);
    assert_string_equal(config.tls_ca, "/t/ca.crt");
    assert_string_equal(config.tls_cert, "/t/agent-{name}.crt");
    assert_string_equal(config.tls_key, "/t/agent-{name}.key");
    assert_int_equal(agent_config_check(&config, &err), 0);
    assert_int_equal(parse("brokers: \"a:1\"\ntls: {ca: /t/ca.crt}\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_non_null(strstr(err.text, "all of ca, cert and key"));
    assert_int_equal(parse("brokers: \"a:1\"\ntls:\n  ca: /a\n  crt: /b\n"), -1);
    assert_string_equal(
        err.text,
        "agent.yaml, line 4: unknown key 'crt' in tls, perhaps of a newer release; the nearest "
        "known key is 'cert'");
    assert_int_equal(parse("tls: {ca: /a}\ntls: {ca: /b}\n"), -1);
    assert_non_null(strstr(err.text, "tls is given twice"));
    assert_int_equal(parse("tls: yes\n"), -1);
    assert_int_equal(parse("tls: {ca: {x: y}}\n"), -1);
    assert_int_equal(parse("tls: [a]\n"), -1);
}

static void empty_file_leaves_defaults_and_lacks_brokers(void **state)
{
    (void)state;
    assert_int_equal(parse(""), 0);
    assert_uint_equal(config.heartbeat_ms, 10000);
    assert_uint_equal(config.worker_idle_ms, 30000);
    assert_string_equal(config.cgroup, "auto");
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_non_null(strstr(err.text, "brokers is missing"));
}

/* What would end the agent at its start is told by --check-config. */
static void addresses_are_checked_with_the_configuration(void **state)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"brokers: garbage\n", "brokers: "},
        {"brokers: \"a:1,b:70000\"\n", "brokers: "},
        {"brokers: \"a:1,\"\n", "brokers: "},
        {"brokers: \"a:1\"\nhttp: \"127.0.0.1:99999\"\n", "http is \"127.0.0.1:99999\""},
        {"brokers: \"a:1\"\nhttp: \"127.0.0.1:0\"\n", "http is \"127.0.0.1:0\""},
        {"brokers: \"a:1\"\nhttp: x\n", "http is \"x\""},
        {"brokers: \"a:1\"\ncgroup: jobs\n", "cgroup is \"jobs\", it must be auto, off or"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(parse(wrong[i].text), 0);
        assert_int_equal(agent_config_check(&config, &err), -1);
        assert_non_null(strstr(err.text, wrong[i].error));
    }
    assert_int_equal(parse("brokers: \"a:1, [::1]:65535\"\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), 0);
}

static void unknown_key_is_refused_with_line_and_nearest_key(void **state)
{
    (void)state;
    assert_int_equal(parse("brokers: \"a:1\"\n\nheartbeats: 500\n"), -1);
    assert_string_equal(err.text, "agent.yaml, line 3: unknown key 'heartbeats', perhaps of a "
                                  "newer release; the nearest known "
                                  "key is 'heartbeat_ms'");
    assert_int_equal(parse("broker: x\n"), -1);
    assert_non_null(strstr(err.text, "nearest known key is 'brokers'"));
}

/* A bare number could be seconds as well as milliseconds: only the key that names the unit takes
 * one. */
static void a_duration_takes_its_unit(void **state)
{
    (void)state;
    assert_int_equal(parse("heartbeat: 5s\n"), 0);
    assert_uint_equal(config.heartbeat_ms, 5000);
    assert_int_equal(parse("heartbeat_ms: 5s\n"), 0);
    assert_uint_equal(config.heartbeat_ms, 5000);
    assert_int_equal(parse("heartbeat: 500\n"), -1);
    assert_non_null(
        strstr(err.text, "agent.yaml, line 1: heartbeat_ms is wrong: \"500\" is not a duration"));
    assert_int_equal(parse("heartbeat: 5s\nheartbeat_ms: 5000\n"), -1);
    assert_non_null(strstr(err.text, "given twice"));
}

static void wrong_values_are_refused_with_line_and_limit(void **state)
{
    static const char *const wrong[] = {"heartbeat_ms: 99\n",       "heartbeat_ms: -1\n",
                                        "heartbeat_ms: nan\n",      "heartbeat_ms: 600001\n",
                                        "heartbeat_ms: 1e3\n",      "log_level: loud\n",
                                        "brokers: [a, b]\n",        "brokers: {a: b}\n",
                                        "socket: /a\nsocket: /b\n", "- brokers\n",
                                        "brokers: \"unclosed\n",    "{"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(parse(wrong[i]), -1);
        assert_memory_equal(err.text, "agent.yaml, line ", 17);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_int_equal(parse("brokers: a\nheartbeat_ms: 99\n"), -1);
    assert_non_null(
        strstr(err.text,
               "agent.yaml, line 2: heartbeat_ms is wrong: \"99\" is out of range; 100ms to 10m"));
}

static void paths_must_be_absolute_and_fit_a_socket(void **state)
{
    (void)state;
    assert_int_equal(parse("brokers: \"a:1\"\nstate_dir: here\n"), 0);
    assert_int_equal(agent_config_check(&config, &err), -1);
    assert_int_equal(parse("brokers: \"a:1\"\n"), 0);
    free(config.socket);
    config.socket = check_calloc(1, 103);
    memset(config.socket, 'x', 102);
    config.socket[0] = '/';
    assert_int_equal(agent_config_check(&config, &err), -1);
    config.socket[101] = '\0';
    assert_int_equal(agent_config_check(&config, &err), 0);
}

/* ---- ckpt-run ---- */

#include <getopt.h>

static struct run_options options;
static char **made; /* the stand-in's line of the options */

static int run(int count, const char *const *arguments)
{
    static char texts[16][64];
    static char *argv[17];
    int result;

    for (int i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s", arguments[i]);
        argv[i] = texts[i];
    }
    argv[count] = NULL;
    optind = 0; /* start over */
    opterr = 0;
    free(made);
    result = run_options_parse(count, argv, &options, &err);
    made = options.command != NULL && stand_in_wanted(&options.stand_in) && result == 0
               ? options.command
               : NULL;
    return result;
}
#define RUN(...)                                                                                   \
    run((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),                             \
        (const char *[]){__VA_ARGS__})

static void command_behind_the_options_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--max-restarts", "0", "--restart-on",
                         "signal", "--", "app", "--alloc", "x"),
                     0);
    assert_string_equal(options.allocation_id, "job-1");
    assert_uint_equal(options.restarts_max, 0);
    assert_int_equal(options.restart_on, RUN_RESTART_SIGNAL);
    assert_string_equal(options.command[0], "app");
    assert_string_equal(options.command[2], "x");
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--ranks", "4", "--restore", "all", "app"),
                     0);
    assert_uint_equal(options.ranks, 4);
    assert_false(options.asks_group);
    assert_string_equal(options.profile, ""); /* as registered */
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--ask", "group", "app"), 0);
    assert_true(options.asks_group);
    assert_int_equal(
        RUN("ckpt-run", "--alloc", "job-1", "--ask", "each", "--restore", "all", "app"), 0);
    assert_false(options.asks_group);
    assert_false(options.asks_started);
    assert_int_equal(
        RUN("ckpt-run", "--alloc", "job-1", "--ask", "started", "--restore", "all", "app"), 0);
    assert_true(options.asks_started);
    assert_int_equal(
        RUN("ckpt-run", "--alloc", "job-1", "--ask-signal", "TSTP", "--restore", "all", "app"), 0);
    assert_int_equal(options.ask_signal, SIGTSTP);
    assert_string_equal(options.profile, ""); /* it says `done` itself */
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--checkpoint-exit", "85", "--ask-signal",
                         "SIGTERM", "--ask", "group", "app"),
                     0);
    assert_int_equal(options.ask_signal, 0);
    assert_false(options.asks_group); /* the stand-in sends it */
    assert_string_equal(options.profile, "file");
    assert_int_equal(options.stand_in.status, 85);
    assert_int_equal(options.stand_in.tell.whom, TELL_GROUP);
    assert_string_equal(stand_in_program(options.command), "app");
    assert_int_equal(
        RUN("ckpt-run", "--alloc", "job-1", "--ask", "started", "--restore", "all", "app"), 0);
    assert_int_equal(options.restore, CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "app", "--max-restarts", "9"), 0);
    assert_uint_equal(options.restarts_max, 3);
    assert_string_equal(options.command[1], "--max-restarts");
}

static void wrong_command_lines_are_refused(void **state)
{
    (void)state;
    assert_int_equal(RUN("ckpt-run", "--", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "a/b", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "j", "--checkpoint-exit", "256", "app"), -1);
    assert_contains(err.text, "--checkpoint-exit is \"256\", it must be a status, 0 to 255, or");
    assert_int_equal(RUN("ckpt-run", "--alloc", "j", "--checkpoint-exit", "KILL", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "j", "--checkpoint-exit", "0", "app"), -1);
    assert_contains(err.text, "the job would never end");
    assert_int_equal(RUN("ckpt-run", "--alloc", "j", "--ask-signal", "STOP", "app"), -1);
    assert_contains(err.text, "--ask-signal: \"STOP\" is no signal that a program can take");
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1"), -1);
    assert_non_null(strstr(err.text, "command is missing"));
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--ranks", "0", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--ranks", "257", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--restore", "some", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--ask", "all", "app"), -1);
    assert_non_null(strstr(err.text, "each, group or started"));
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--max-restarts", "-1", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--max-restarts", "1001", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--alloc", "job-1", "--restart-on", "often", "app"), -1);
    assert_int_equal(RUN("ckpt-run", "--bogus", "--alloc", "job-1", "app"), -1);
}

static void restarts_follow_the_options(void **state)
{
    const int crashed = 9;
    const int failed = 3 << 8;
    struct run_options any = {.restarts_max = 2, .restart_on = RUN_RESTART_ANY};
    struct run_options by_signal = {.restarts_max = 2, .restart_on = RUN_RESTART_SIGNAL};
    struct run_options never = {.restarts_max = 2, .restart_on = RUN_RESTART_NEVER};

    (void)state;
    assert_false(run_restarts(&any, 0, 0));
    assert_true(run_restarts(&any, failed, 0));
    assert_true(run_restarts(&any, crashed, 1));
    assert_false(run_restarts(&any, crashed, 2));
    assert_false(run_restarts(&by_signal, failed, 0));
    assert_true(run_restarts(&by_signal, crashed, 0));
    assert_false(run_restarts(&never, crashed, 0));
    assert_int_equal(run_exit_code(crashed), 137);
    assert_int_equal(run_exit_code(failed), 3);
    assert_int_equal(run_exit_code(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_needs_a_path_and_a_bound),
        cmocka_unit_test(known_keys_are_taken),
        cmocka_unit_test(the_side_port_beyond_loopback_must_be_said_to_be_insecure),
        cmocka_unit_test(what_a_node_is_called_is_checked),
        cmocka_unit_test(htcondor_s_server_is_the_node_s_domain),
        cmocka_unit_test(a_probe_is_a_port_or_an_address_in_numbers),
        cmocka_unit_test(names_without_effect_are_taken_and_told),
        cmocka_unit_test(wrong_values_of_htcondor_s_names_are_refused),
        cmocka_unit_test(the_example_file_is_taken_and_has_the_port_of_the_documents),
        cmocka_unit_test(tls_has_keys_below_it),
        cmocka_unit_test(empty_file_leaves_defaults_and_lacks_brokers),
        cmocka_unit_test(addresses_are_checked_with_the_configuration),
        cmocka_unit_test(unknown_key_is_refused_with_line_and_nearest_key),
        cmocka_unit_test(a_duration_takes_its_unit),
        cmocka_unit_test(wrong_values_are_refused_with_line_and_limit),
        cmocka_unit_test(paths_must_be_absolute_and_fit_a_socket),
        cmocka_unit_test(command_behind_the_options_is_left_alone),
        cmocka_unit_test(wrong_command_lines_are_refused),
        cmocka_unit_test(restarts_follow_the_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
