/* The configuration file: what is taken, and that each refusal names line, key and limit (U2). */
#include "tests/support/test.h"

#include "src/base/check.h"
#include "src/broker/daemon/config_keys.h"
#include "tests/unit/broker/config_text.h"

static void the_smallest_file_gets_defaults(void **state)
{
    struct config *config = take(HEAD ONE, &n1);

    (void)state;
    assert_string_equal(config->cluster_id, "demo");
    assert_ptr_equal(config->self, &config->members[0]);
    assert_uint_equal(config->member_count, 1);
    assert_uint_equal(config->election_ms, 1000);
    assert_uint_equal(config->heartbeat_ms, 100);
    assert_uint_equal(config->snapshot_after_entries, 100000);
    assert_uint_equal(config->connections_max, 12000);
    assert_uint_equal(config->snapshot_after_bytes, 64 << 20);
    assert_uint_equal(config->policy.evaluation_interval_ms, 30000);
    assert_uint_equal(config->policy.retention_ms, UINT64_C(604800000));
    assert_uint_equal(config->policy.session_ttl_ms, 86400000);
    assert_uint_equal(config->policy.sensitive_timeout_ms, 900000);
    assert_uint_equal(config->policy.hazard_forget_ms, UINT64_C(2592000000));
    assert_uint_equal(config->storage_watch.failures_down, 3);
    assert_false(config->insecure);
    assert_false(config->supervised);
    assert_string_equal(config->data_dir, "/var/lib/ckpt");
    assert_string_equal(config->unix_socket, "");
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_uint_equal(config->target_count, 0);
    config_free(config);
}

/* E-001, E-002, P-021, P-050, P-070, D-004, F-006, F-012, F-015, N-006: what the documents say, and
 * decision 4 where they differ (600 s for a checkpoint, 300 s of deferral) */
static void the_defaults_are_those_of_the_documents(void **state)
{
    struct config *config = take(HEAD ONE, &n1);
    const Ckpt__V1__Policy *policy = &config->policy;

    (void)state;
    assert_uint_equal(policy->evaluation_interval_ms, 30 * 1000);
    assert_uint_equal(policy->min_interval_ms, 300 * 1000);
    assert_uint_equal(policy->max_interval_ms, 21600 * 1000);
    assert_uint_equal(policy->checkpoint_timeout_ms, 600 * 1000);
    assert_uint_equal(policy->max_deferral_ms, 300 * 1000);
    assert_uint_equal(policy->grace_ms, 30 * 1000);
    assert_uint_equal(policy->max_victims, 3);
    assert_uint_equal(policy->near_completion_ms, 300 * 1000);
    assert_uint_equal(policy->retention_ms, UINT64_C(7) * 86400 * 1000);
    assert_uint_equal(policy->max_requeue, 3);
    assert_uint_equal(policy->node_degraded_after_ms, 30 * 1000);
    assert_uint_equal(policy->node_down_after_ms, 90 * 1000);
    assert_uint_equal(policy->sensitive_min_interval_ms, 600 * 1000);
    assert_uint_equal(policy->sensitive_max_interval_ms, 3600 * 1000);
    assert_uint_equal(policy->sensitive_timeout_ms, 900 * 1000);
    config_free(config);
}

/* A-003, P-060: 0.10 for ML where the documents differ (decision 12) */
static void the_weights_of_f8_are_by_kind_of_vcluster(void **state)
{
    struct config *config = take(HEAD ONE, &n1);
    const Ckpt__V1__Policy *policy = &config->policy;

    (void)state;
    assert_uint_equal(policy->f8_weight_hpc_ppm, 50000);
    assert_uint_equal(policy->f8_weight_ml_ppm, 100000);
    assert_uint_equal(policy->f8_weight_service_ppm, 100000);
    assert_uint_equal(policy->f8_weight_sensitive_ppm, 0);
    assert_uint_equal(policy->f8_weight_interactive_ppm, 0);
    assert_uint_equal(policy->zeros, UINT64_C(1) << 50 | UINT64_C(1) << 51);
    assert_int_equal(policy->owner_rule, CKPT__V1__OWNER_RULE__OWNER_RULE_REGISTERED);
    assert_uint_equal(policy->scale_cooldown_ms, 300000);
    config_free(config);
    config = take(HEAD ONE "policy: {owner_rule: first, scale_cooldown: 0s}\n", &n1);
    assert_int_equal(config->policy.owner_rule, CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST);
    assert_uint_equal(config->policy.zeros,
                      UINT64_C(1) << 50 | UINT64_C(1) << 51 | UINT64_C(1) << 53);
    config_free(config);
    config = take(HEAD ONE "policy: {f8_weight_hpc_ppm: 0, quiesce: 0s}\n", &n1);
    assert_uint_equal(config->policy.f8_weight_hpc_ppm, 0);
    assert_uint_equal(config->policy.zeros,
                      UINT64_C(1) << 47 | UINT64_C(1) << 50 | UINT64_C(1) << 51 | 1 << 16);
    config_free(config);
}

/* S1-049: no site's programs are saved from outside unasked. */
static void nothing_is_transparent_unless_it_is_said(void **state)
{
    struct config *config = take(HEAD ONE, &n1);

    (void)state;
    assert_int_equal(config->policy.transparent, CKPT__V1__TRANSPARENT__TRANSPARENT_NO);
    config_free(config);
    config = take(HEAD ONE "policy: {transparent: yes}\n", &n1);
    assert_int_equal(config->policy.transparent, CKPT__V1__TRANSPARENT__TRANSPARENT_YES);
    config_free(config);
}

static void the_rule_for_domains_is_any_unless_it_is_said(void **state)
{
    struct config *config = take(HEAD ONE, &n1);

    (void)state;
    assert_int_equal(config->policy.domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY);
    config_free(config);
    config = take(HEAD ONE "policy: {domain_rule: required}\n", &n1);
    assert_int_equal(config->policy.domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED);
    config_free(config);
    config = take(HEAD ONE "policy: {domain_rule: preferred}\n", &n1);
    assert_int_equal(config->policy.domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED);
    config_free(config);
}

/* T-003, B-007: the ports of the documents, in the file that people begin with. Where these differ
 * Raft has 9000 (decision 12). */
static void the_example_file_is_taken_and_has_the_ports_of_the_documents(void **state)
{
    struct config *config = NULL;
    struct err err = {ERR_NONE, ""};

    (void)state;
    if (config_load("deploy/ckptd.yaml", &n1, &config, &err) != 0)
        fail_msg("refused: %s", err.text);
    assert_uint_equal(config->member_count, 3);
    for (size_t i = 0; i < config->member_count; i++) {
        assert_non_null(strstr(config->members[i].http, ":9104"));
        assert_non_null(strstr(config->members[i].raft, ":9000"));
        assert_non_null(strstr(config->members[i].api, ":7443"));
    }
    config_free(config);
}

static void every_section_is_taken(void **state)
{
    struct config *config = take(
        HEAD "data_dir: \"/d\"\n" THREE "timers: {election_ms: 500, heartbeat: 50ms}\n"
             "raft: {snapshot_after_entries: 500, snapshot_after_bytes: 2000000}\n"
             "policy:\n  evaluation_interval: 2s\n  grace_ms: 1500\n  max_victims: 5\n"
             "targets:\n"
             "  - {id: scratch, kind: posix, prefix: /scratch, write_bytes_per_s: 10000000000, "
             "staging_share_ppm: 250000, default: yes, domain: east,\n"
             "     read_back: never, generations: 0, staging: direct, compression: lz4}\n"
             "  - id: slow\n    prefix: \"/slow\"\n    write_bytes_per_s: 1\n"
             "storage_watch: {interval_ms: 200, timeout: 2s, failures_down: 2, successes_up: 1}\n"
             "unix_socket: \"/run/ckptd.sock\"\nlog_level: debug\n",
        &(struct config_flags){.name = "n3", .data_dir = "/other"});

    (void)state;
    assert_ptr_equal(config->self, &config->members[2]);
    assert_string_equal(config->data_dir, "/other");
    assert_uint_equal(config->election_ms, 500);
    assert_uint_equal(config->heartbeat_ms, 50);
    assert_uint_equal(config->snapshot_after_entries, 500);
    assert_uint_equal(config->snapshot_after_bytes, 2000000);
    assert_uint_equal(config->policy.evaluation_interval_ms, 2000);
    assert_uint_equal(config->policy.grace_ms, 1500);
    assert_uint_equal(config->policy.max_victims, 5);
    assert_uint_equal(config->target_count, 2);
    assert_true(config->targets[0].is_default);
    assert_uint_equal(config->targets[0].staging_share_ppm, 250000);
    assert_string_equal(config->targets[0].domain, "east");
    assert_uint_equal(config->targets[1].staging_share_ppm, 300000);
    assert_int_equal(config->targets[0].read_back, CKPT__V1__READ_BACK__READ_BACK_NEVER);
    assert_uint_equal(config->targets[0].generations, 0);
    assert_int_equal(config->targets[1].read_back, CKPT__V1__READ_BACK__READ_BACK_SAMPLED);
    assert_uint_equal(config->targets[1].generations, 8);
    assert_int_equal(config->targets[0].staging, CKPT__V1__STAGING__STAGING_DIRECT);
    assert_int_equal(config->targets[1].staging, CKPT__V1__STAGING__STAGING_LOCAL);
    assert_int_equal(config->targets[0].compression, CKPT__V1__COMPRESSION__COMPRESSION_LZ4);
    assert_int_equal(config->targets[1].compression, CKPT__V1__COMPRESSION__COMPRESSION_NONE);
    assert_int_equal(config->targets[1].kind, CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX);
    assert_uint_equal(config->storage_watch.timeout_ms, 2000);
    assert_int_equal(config->log_level, LOG_LEVEL_DEBUG);
    config_free(config);
}

static void one_target_alone_is_the_default(void **state)
{
    struct config *config =
        take(HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1}\n", &n1);

    (void)state;
    assert_true(config->targets[0].is_default);
    config_free(config);
}

struct refusal {
    const char *text;
    const char *expected[5];
};

static const struct refusal mistakes[] = {
    {"", {"line 1", "empty"}},
    {"cluster_id: [demo", {"line 1", "single value"}},
    {"cluster_id: 'demo", {"line 1", "YAML"}},
    {"- a\n", {"line 1", "keys"}},
    {ONE, {"cluster_id is missing"}},
    {HEAD, {"members is missing"}},
    {HEAD ONE "log_levle: info\n", {"line 4", "log_levle", "'log_level'"}},
    {HEAD ONE "timer: {}\n", {"line 4", "'timer'", "'timers'"}},
    {HEAD ONE "policy:\n  grase: 5s\n", {"line 5", "grase", "in policy", "'grace_ms'"}},
    {HEAD ONE "timers: {election_mss: 5}\n", {"line 4", "election_mss", "'election_ms'"}},
    {HEAD ONE "timers: {election_ms: -5}\n", {"line 4", "timers.election_ms", "\"-5\"", "50ms"}},
    {HEAD ONE "timers: {election_ms: nan}\n", {"line 4", "timers.election_ms", "\"nan\""}},
    {HEAD ONE "timers: {election_ms: 99999999999999999999}\n",
     {"line 4", "timers.election_ms", "99999999999999999999", "1m"}},
    {HEAD ONE "timers: {election: 61s}\n", {"line 4", "\"61s\"", "50ms to 1m"}},
    {HEAD ONE "timers: {election: 1.5ms}\n", {"line 4", "\"1.5ms\""}},
    {HEAD ONE "timers: {election: 300}\n", {"line 4", "\"300\"", "a duration like", "50ms to 1m"}},
    {HEAD ONE "policy: {min_interval: 300}\n",
     {"line 4", "policy.min_interval_ms", "\"300\"", "like 250ms, 30s, 5m"}},
    {HEAD ONE "timers: {election: 5 s}\n", {"line 4", "\"5 s\""}},
    {HEAD ONE "timers: {heartbeat: 400ms}\n",
     {"line 4", "timers.heartbeat_ms '400'", "third", "1000 ms"}},
    {HEAD ONE "backups: {interval: 1h, keep: 3}\n", {"backups.directory", "missing", "no backup"}},
    {HEAD ONE "connections_max: 15\n", {"line 4", "connections_max", "\"15\"", "16"}},
    {HEAD ONE "raft: {snapshot_after_entries: 99}\n",
     {"line 4", "raft.snapshot_after_entries", "\"99\"", "100"}},
    {HEAD ONE "raft: {snapshot_after_bytes: 4294967297}\n",
     {"line 4", "raft.snapshot_after_bytes", "4GiB"}},
    {HEAD ONE "policy: {max_victims: 17}\n", {"line 4", "policy.max_victims", "\"17\"", "16"}},
    {HEAD ONE "policy: {max_victims: 0x3}\n", {"line 4", "policy.max_victims", "\"0x3\""}},
    {HEAD ONE "policy: {keep_complete: 33}\n", {"line 4", "policy.keep_complete", "32"}},
    {HEAD ONE "policy: {keep_complete: 1}\n", {"line 4", "policy.keep_complete", "\"1\"", "2"}},
    {HEAD ONE "policy:\n  sensitive_min_interval: 2h\n",
     {"policy.sensitive_max_interval_ms", "policy.sensitive_min_interval_ms"}},
    {HEAD ONE "policy: {retention: 99999999d}\n", {"line 4", "policy.retention_ms"}},
    {HEAD ONE "policy:\n  min_interval: 2h\n  max_interval: 1h\n",
     {"line 6", "policy.max_interval_ms", "min_interval"}},
    {HEAD ONE "policy: {node_down_after: 1s}\n", {"line 4", "node_down_after_ms", "degraded"}},
    {HEAD ONE "policy: [1]\n", {"line 4", "mapping"}},
    {HEAD ONE "policy: {grace: {a: 1}}\n", {"line 4", "policy.grace_ms", "single value"}},
    {HEAD ONE "policy: {grace: 1s, grace_ms: 5}\n", {"line 4", "policy.grace_ms", "twice"}},
    {HEAD ONE "policy: {}\npolicy: {}\n", {"line 5", "policy", "twice"}},
    {HEAD HEAD ONE, {"line 2", "cluster_id", "twice"}},
    {HEAD ONE "log_level: loud\n", {"line 4", "log_level", "loud", "debug, info"}},
    {HEAD ONE "supervised: perhaps\n", {"line 4", "supervised", "perhaps", "yes or no"}},
    {HEAD ONE "insecure: flase\n", {"line 4", "insecure", "flase", "yes or no"}},
    {HEAD ONE "data_dir: relative\n", {"line 4", "data_dir", "absolute"}},
    {HEAD ONE "data_dir: /a/../b\n", {"line 4", "data_dir", "'..'"}},
    {"cluster_id: a/b\n" ONE, {"line 1", "cluster_id", "a/b", "128"}},
    {"cluster_id: \"a\\0b\"\n" ONE, {"line 1", "NUL"}},
    {"cluster_id: &a demo\ndata_dir: *a\n" ONE, {"line 2", "aliases"}},
    {HEAD ONE "---\na: b\n", {"line 4", "another document"}},
    {HEAD "members: {id: 1}\n", {"line 2", "list"}},
    {HEAD "members: [1]\n", {"line 2", "mapping"}},
    {HEAD "members:\n  - {id: 1, name: n1, api: \"127.0.0.1:1\"}\n",
     {"line 3", "members[0].raft", "missing"}},
    {HEAD "members:\n  - {id: 0, name: n1, api: \"127.0.0.1:1\"}\n",
     {"line 3", "members[0].id", "\"0\"", "1 to"}},
    {HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1\"}\n",
     {"line 3", "members[0].raft", "host:port"}},
    {HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1:65536\"}\n",
     {"line 3", "members[0].raft", "65535"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1, failover: a}\n",
     {"line 5", "targets[0].failover", "another target"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1, default: yes}\n"
              "  - {id: b, prefix: /b, write_bytes_per_s: 1, failover: c}\n",
     {"line 6", "targets[1].failover", "another target"}},
    {HEAD ONE "targets:\n  - {id: a, kind: s3, prefix: /a, write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "/a", "s3://BUCKET"}},
    {HEAD ONE
     "targets:\n  - {id: a, prefix: \"s3://bucket\", write_bytes_per_s: 1, staging: direct}\n",
     {"line 5", "targets[0].staging 'direct'", "not for s3", "use local"}},
    {HEAD ONE
     "targets:\n  - {id: a, prefix: \"s3://bucket\", write_bytes_per_s: 1, compression: lz4}\n",
     {"line 5", "targets[0].compression 'lz4'", "not for s3", "use none"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1, staging: disk}\n",
     {"line 5", "targets[0].staging", "'disk'", "local, direct or memory"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: a, write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "absolute"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a/../b, write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "/a/../b", "'..'"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: \"tape://b\", write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "tape://b", "no kind of destination"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: \"s3://b\", write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "s3://b", "3 to 63"}},
    {HEAD ONE "targets:\n  - {id: a, kind: posix, prefix: \"s3://b\", write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].prefix", "s3://b", "absolute"}},
    {HEAD ONE "targets:\n  - {id: a, kind: tape, prefix: /a, write_bytes_per_s: 1}\n",
     {"line 5", "targets[0].kind", "tape", "must be posix or s3"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 0}\n",
     {"line 5", "targets[0].write_bytes_per_s", "1B/s to"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1, staging_share_ppm: "
              "1000001}\n",
     {"line 5", "staging_share_ppm", "100%"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1}\n"
              "  - {id: a, prefix: /b, write_bytes_per_s: 1, default: yes}\n",
     {"line 6", "targets[1].id", "another"}},
    {HEAD ONE "targets:\n  - {id: a, prefix: /a, write_bytes_per_s: 1}\n"
              "  - {id: b, prefix: /b, write_bytes_per_s: 1}\n",
     {"line 5", "default: yes"}},
    {HEAD ONE "tenant_admins: physics\n", {"line 4", "tenant_admins", "physics", "TENANT=USER"}},
    {HEAD ONE "tenant_admins: \"physics=@lab\"\n",
     {"line 4", "tenant_admins", "@lab", "a USER is"}},
    {HEAD ONE "restart_hook: mail\n", {"line 4", "restart_hook", "mail", "absolute path"}},
    {HEAD ONE "restart_hook: /no/such\n", {"line 4", "restart_hook", "/no/such", "can run"}},
    {HEAD ONE "policy: {owner_rule: nobody}\n",
     {"line 4", "policy.owner_rule", "nobody", "registered or first"}},
    {HEAD ONE "policy: {domain_rule: nobody}\n",
     {"line 4", "policy.domain_rule", "nobody", "any, preferred or required"}},
    {HEAD ONE "policy: {transparent: perhaps}\n",
     {"line 4", "policy.transparent", "perhaps", "no or yes"}},
    {HEAD ONE "storage_watch: {failures_down: 0}\n",
     {"line 4", "storage_watch.failures_down", "1 to 1000"}},
};

static void each_mistake_names_line_key_and_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
        refuse(mistakes[i].text, &n1, mistakes[i].expected);
}

/* B-008, K-010 */
static void members_must_differ_and_stay_on_loopback(void **state)
{
    static const struct refusal refusals[] = {
        {HEAD ONE "  - {id: 1, name: n2, raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\"}\n"
                  "  - {id: 3, name: n3, raft: \"127.0.0.1:3\", api: \"127.0.0.1:4\"}\n",
         {"line 4", "members[1].id", "another"}},
        {HEAD ONE "  - {id: 2, name: n1, raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\"}\n"
                  "  - {id: 3, name: n3, raft: \"127.0.0.1:3\", api: \"127.0.0.1:4\"}\n",
         {"line 4", "members[1].name", "another"}},
        {HEAD ONE "  - {id: 2, name: n2, raft: \"127.0.0.1:9000\", api: \"127.0.0.1:2\"}\n"
                  "  - {id: 3, name: n3, raft: \"127.0.0.1:3\", api: \"127.0.0.1:4\"}\n",
         {"line 4", "members[1].raft", "listener"}},
        {HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1:1\", api: \"0.0.0.0:2\"}\n",
         {"line 3", "members[0].api", "insecure: yes"}},
        {HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1:1\", api: \"127.0.0.1:1\"}\n",
         {"line 3", "members[0].api", "listener"}},
    };
    struct config *config;

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        refuse(refusals[i].text, &n1, refusals[i].expected);
    config = take(HEAD "insecure: yes\nmembers:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: "
                       "\"broker.example:2\"}\n",
                  &n1);
    assert_true(config->insecure);
    config_free(config);
}

static void tls_is_whole_or_not_at_all(void **state)
{
#define FAR "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\"}\n"
#define TLS "tls: {ca: /t/ca.crt, cert: \"/t/replica-{id}.crt\", key: \"/t/replica-{id}.key\"}\n"
    struct config *config = take(HEAD FAR TLS, &n1);

    (void)state;
    assert_string_equal(config->tls_ca, "/t/ca.crt");
    assert_string_equal(config->tls_key, "/t/replica-{id}.key");
    assert_false(config->insecure);
    config_free(config);
    config = take(HEAD ONE, &n1);
    assert_string_equal(config->tls_ca, "");
    config_free(config);
    refuse(HEAD ONE "tls: {ca: /t/ca.crt, cert: /t/a.crt}\n", &n1,
           (const char *const[]){"tls.key", "is missing", "ca, cert and key", NULL});
    refuse(HEAD ONE "tls: {cert: /t/a.crt, key: /t/a.key}\n", &n1,
           (const char *const[]){"tls.ca", "is missing", NULL});
    refuse(HEAD ONE "tls: {ca: /t/ca.crt, crt: /t/a.crt}\n", &n1,
           (const char *const[]){"unknown key 'crt'", "perhaps of a newer release",
                                 "nearest known key is 'cert'", NULL});
    refuse(HEAD FAR, &n1, (const char *const[]){"line 3", "set tls", "insecure: yes", NULL});
    /* loopback is another address on each host */
    config = take(
        HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\", http: "
             "\"127.0.0.1:3\"}\n  - {id: 2, name: n2, raft: \"10.0.0.2:1\", api: "
             "\"10.0.0.2:2\", http: \"127.0.0.1:3\"}\n  - {id: 3, name: n3, raft: "
             "\"10.0.0.3:1\", api: \"10.0.0.3:2\", http: \"127.0.0.1:3\"}\n" TLS,
        &n1);
    assert_string_equal(config->members[2].http, "127.0.0.1:3");
    config_free(config);
    refuse(HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\", http: "
                "\"127.0.0.1:3\"}\n  - {id: 2, name: n2, raft: \"10.0.0.1:4\", api: "
                "\"10.0.0.1:5\", http: \"127.0.0.1:3\"}\n  - {id: 3, name: n3, raft: "
                "\"10.0.0.3:1\", api: \"10.0.0.3:2\"}\n" TLS,
           &n1, (const char *const[]){"members[1].http", "listener", NULL});
    /* the metrics have no TLS: far addresses of them stay a decision of their own */
    refuse(HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\", http: "
                "\"10.0.0.1:3\"}\n" TLS,
           &n1, (const char *const[]){"members[0].http", "this port has no TLS", NULL});
    /* with https they are for certificates, and http may be anywhere; K-010 */
    config = take(HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\", "
                       "http: \"10.0.0.1:3\", https: \"10.0.0.1:4\"}\n" TLS,
                  &n1);
    assert_true(config_pages_guarded(config));
    config_free(config);
    refuse(HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: \"10.0.0.1:2\", "
                "https: \"10.0.0.1:4\"}\n" TLS,
           &n1, (const char *const[]){"members[0].https", "needs tls, and http", NULL});
    refuse(HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\", "
                "http: \"127.0.0.1:3\", https: \"127.0.0.1:4\"}\n",
           &n1, (const char *const[]){"members[0].https", "needs tls, and http", NULL});
    refuse(HEAD "members:\n  - {id: 1, name: n1, raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\", "
                "http: \"127.0.0.1:3\", https: \"127.0.0.1:3\"}\n" TLS,
           &n1, (const char *const[]){"members[0].https", "another listener", NULL});
#undef TLS
#undef FAR
}

static void telemetry_sources_and_health_are_taken(void **state)
{
    struct config *config = take(
        HEAD ONE "telemetry:\n"
                 "  - {name: smd, kind: smd, url: \"http://smd/hsm/v2/State/Components\"}\n"
                 "  - {name: bmc, kind: redfish, url: \"https://{host}\", map: /m, interval: 1m, "
                 "credentials: /c}\n"
                 "  - {name: v, kind: vast, url: \"https://vms\", targets: \"scratch, fast\", "
                 "write_limit_bytes_per_s: 9000000000}\n"
                 "health: {half_life: 1h, drain: yes, factor_xid_milli: 5000}\n",
        &n1);
    struct node_health_config expected;

    (void)state;
    node_health_config_default(&expected);
    assert_int_equal(config->telemetry_count, 3);
    assert_int_equal(config->telemetry[2].kind, SOURCE_VAST);
    assert_string_equal(config->telemetry[2].targets, "scratch, fast");
    assert_string_equal(config->telemetry[2].cluster, "");
    assert_uint_equal(config->telemetry[2].write_limit_bytes_per_s, 9000000000);
    assert_uint_equal(config->telemetry[2].interval_ms, 30000);
    assert_int_equal(config->telemetry[0].kind, SOURCE_SMD);
    assert_uint_equal(config->telemetry[0].interval_ms, 30000);
    assert_uint_equal(config->telemetry[0].concurrency, 32);
    assert_string_equal(config->telemetry[1].map, "/m");
    assert_uint_equal(config->telemetry[1].interval_ms, 60000);
    assert_true(config->health.drain);
    assert_uint_equal(config->health.half_life_ms, 3600000);
    assert_uint_equal(config->health.factor_milli[TELEMETRY_XID], 5000);
    /* the table's defaults are the model's */
    assert_uint_equal(config->health.alarm_lead_ms, expected.alarm_lead_ms);
    assert_uint_equal(config->health.factor_max_milli, expected.factor_max_milli);
    assert_uint_equal(config->health.alarm_precision_ppm, expected.alarm_precision_ppm);
    assert_uint_equal(config->health.drain_max_per_hour, expected.drain_max_per_hour);
    for (int signal = 0; signal < TELEMETRY_SIGNAL_COUNT; signal++) {
        if (signal != TELEMETRY_XID)
            assert_uint_equal(config->health.factor_milli[signal], expected.factor_milli[signal]);
    }
    config_free(config);
}

static void telemetry_mistakes_name_line_and_cure(void **state)
{
    static const struct {
        const char *lines;
        const char *expected[4];
    } cases[] = {
        {"  - {name: a, kind: snmp, url: \"http://h\"}\n", {"line 5", "kind", "smd, redfish"}},
        {"  - {name: a, kind: smd}\n", {"line 5", "telemetry[0].url is missing"}},
        {"  - {name: a, kind: smd, url: \"ftp://h\"}\n", {"line 5", "https://HOST"}},
        {"  - {name: a, kind: smd, url: \"https://me:secret@h/\"}\n", {"credentials"}},
        {"  - {name: agent, kind: smd, url: \"http://h\"}\n", {"line 5", "choose another"}},
        {"  - {name: a, kind: smd, url: \"http://h\"}\n  - {name: a, kind: smd, url: "
         "\"http://h\"}\n",
         {"line 6", "another source"}},
        {"  - {name: a, kind: redfish, url: \"https://bmc1\", map: /m}\n", {"{host}"}},
        {"  - {name: a, kind: prometheus, url: \"http://{host}/\"}\n", {"{host}", "map"}},
        {"  - {name: a, kind: smd, url: \"http://h\", credentials: /c}\n", {"in clear"}},
        {"  - {name: a, kind: smd, url: \"https://h\", cert: /c}\n", {"cert", "key"}},
        {"  - {name: a, kind: vast, url: \"https://h\"}\n", {"targets", "kind vast"}},
        {"  - {name: a, kind: smd, url: \"https://h\", targets: x}\n", {"targets", "kind vast"}},
        {"  - {name: a, kind: vast, url: \"https://h\", targets: \"x, y/z\"}\n",
         {"targets", "names of storage targets"}},
        {"  - {name: a, kind: vast, url: \"https://h\", targets: x, map: /m}\n", {"map", "VMS"}},
        {"  - {name: a, kind: vast, url: \"https://h\", targets: \"x,y\"}\n"
         "  - {name: b, kind: vast, url: \"https://h\", targets: \"z y\"}\n",
         {"line 6", "another source names"}},
        {"  - {name: a, kind: vast, url: \"http://h\", targets: x, credentials: /c}\n",
         {"in clear"}},
        {"  - {name: a, kind: smd, url: \"https://h\", max_bytes: 5}\n", {"max_bytes", "1KiB"}},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), HEAD ONE "telemetry:\n%s", cases[i].lines);
        refuse(text, &n1, cases[i].expected);
    }
}

static void an_even_number_of_members_begins_no_cluster(void **state)
{
    struct config *config = take(
        HEAD THREE "  - {id: 4, name: n4, raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\"}\n", &n1);
    struct err err;

    (void)state;
    assert_int_equal(config_check_bootstrap(config, &err), -1);
    assert_non_null(strstr(err.text, "4 entries; begin a cluster with 1, 3 or 5"));
    config_free(config);
    config = take(HEAD THREE, &n1);
    assert_int_equal(config_check_bootstrap(config, &err), 0);
    config_free(config);
}

static void a_name_that_reads_as_an_id_begins_no_cluster(void **state)
{
    struct config *config =
        take(HEAD "members:\n"
                  "  - {id: 1, name: \"1\", raft: \"127.0.0.1:1\", api: \"127.0.0.1:2\"}\n",
             &(struct config_flags){.name = "1"});
    struct err err;

    (void)state;
    assert_int_equal(config_check_bootstrap(config, &err), -1);
    assert_non_null(strstr(err.text, "members has the name 1, which reads as a member's id"));
    config_free(config);
}

static void flags_are_checked_too(void **state)
{
    (void)state;
    refuse(HEAD ONE, &(struct config_flags){.name = "nobody"},
           (const char *const[]){"--name", "nobody", NULL});
    refuse(HEAD ONE, &(struct config_flags){.name = "n1", .data_dir = "here"},
           (const char *const[]){"--data-dir", "here", "absolute", NULL});
}

static void the_flag_insecure_is_the_same_as_in_the_file(void **state)
{
    static const char far[] = HEAD "members:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", "
                                   "api: \"10.0.0.1:2\"}\n";
    struct config *config;

    (void)state;
    refuse(far, &n1, (const char *const[]){"10.0.0.1:1", "loopback", "--insecure", NULL});
    config = take(far, &(struct config_flags){.name = "n1", .insecure = true});
    assert_true(config->insecure);
    config_free(config);
}

/* One reader serves the file, ckptctl and the policy: a number with its unit, or a whole number
 * where the key names the unit. */
static void a_value_takes_its_unit_or_its_keys(void **state)
{
    struct config *config = take(HEAD ONE "raft: {snapshot_after: 64MiB}\n"
                                          "policy: {min_interval: 1.5s, max_interval: 1h30m, "
                                          "grace_ms: 1500, default_write_bytes_per_s: 2GB/s, "
                                          "quiesce: 0, f8_weight_hpc: 5%}\n"
                                          "targets: [{id: a, prefix: /a, write: 10GB/s, "
                                          "staging_share: 0.25}]\n",
                                 &n1);

    (void)state;
    assert_uint_equal(config->snapshot_after_bytes, 64 << 20);
    assert_uint_equal(config->policy.min_interval_ms, 1500);
    assert_uint_equal(config->policy.max_interval_ms, 5400000);
    assert_uint_equal(config->policy.grace_ms, 1500);
    assert_uint_equal(config->policy.default_write_bytes_per_s, UINT64_C(2000000000));
    assert_uint_equal(config->policy.quiesce_ms, 0);
    assert_uint_equal(config->policy.f8_weight_hpc_ppm, 50000);
    assert_uint_equal(config->targets[0].write_bytes_per_s, UINT64_C(10000000000));
    assert_uint_equal(config->targets[0].staging_share_ppm, 250000);
    config_free(config);
}

/* One file for all members, as with the paths of tls. */
static void a_data_folder_may_have_the_members_id_and_name(void **state)
{
    static const char *const braces[] = {"{host}", "a brace", "{id} and {name}", NULL};
    struct config *config = take(HEAD "data_dir: \"/x/data-{name}/{id}\"\n" ONE, &n1);

    (void)state;
    assert_string_equal(config->data_dir, "/x/data-n1/1");
    config_free(config);
    config = take(HEAD "data_dir: \"/x/data-{name}\"\n" ONE, &(struct config_flags){0});
    assert_string_equal(config->data_dir, "/x/data-{name}");
    config_free(config);
    refuse(HEAD "data_dir: \"/x/{host}\"\n" ONE, &n1, braces);
}

static void a_prefix_in_another_ones_is_told(void **state)
{
    struct config *config = take(HEAD ONE "targets:\n"
                                          "  - {id: a, prefix: /x/a, write: 1, default: yes}\n"
                                          "  - {id: b, prefix: /x/ab, write: 1}\n"
                                          "  - {id: c, prefix: /x/ab/c, write: 1}\n"
                                          "  - {id: d, prefix: /x, write: 1}\n"
                                          "  - {id: e, prefix: \"s3://one/x\", write: 1}\n"
                                          "  - {id: f, prefix: \"s3://one/x\", write: 1}\n",
                                 &n1);
    size_t other = 9;

    (void)state;
    assert_false(config_overlap(config, 0, &other));
    assert_false(config_overlap(config, 1, &other));
    assert_true(config_overlap(config, 2, &other));
    assert_uint_equal(other, 1);
    assert_true(config_overlap(config, 3, &other));
    assert_uint_equal(other, 0);
    assert_false(config_overlap(config, 4, &other));
    assert_true(config_overlap(config, 5, &other));
    assert_uint_equal(other, 4);
    config_free(config);
}

static void print_shows_value_and_source(void **state)
{
    struct config *config = take(HEAD ONE "policy: {grace: 7s}\n",
                                 &(struct config_flags){.name = "n1", .data_dir = "/x"});
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    (void)state;
    config_print(config, stream);
    fclose(stream);
    assert_non_null(strstr(text, "cluster_id = \"demo\" (file)\n"));
    assert_non_null(strstr(text, "data_dir = \"/x\" (flag)\n"));
    assert_non_null(strstr(text, "policy.grace_ms = 7000 (file)\n"));
    assert_non_null(strstr(text, "policy.max_victims = 3 (default)\n"));
    assert_non_null(strstr(text, "members[0].api = \"127.0.0.1:7443\" (file)\n"));
    free(text);
    config_free(config);
}

static void an_absent_file_is_an_error(void **state)
{
    struct config *config = NULL;
    struct err err;

    (void)state;
    assert_int_equal(config_load("/nonexistent/f.yaml", &n1, &config, &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent/f.yaml"));
}

/* Whatever stands in the file: refused with a text or taken, never a crash. */
static void random_changes_never_crash(void **state)
{
    static const char text[] = HEAD THREE "timers: {election_ms: 500, heartbeat: 50ms}\n"
                                          "policy: {grace: 7s, max_victims: 3}\n";
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char changed[sizeof(text)];
        struct config *config = NULL;
        struct err err = {ERR_NONE, ""};

        memcpy(changed, text, sizeof(text));
        for (uint64_t i = 0; i < 1 + test_random(&seed) % 4; i++)
            changed[test_random(&seed) % (sizeof(text) - 1)] = (char)(test_random(&seed) & 0xff);
        if (config_parse("f.yaml", changed, sizeof(text) - 1, &n1, &config, &err) == 0)
            config_free(config);
        else
            assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_file_gets_defaults),
        cmocka_unit_test(the_defaults_are_those_of_the_documents),
        cmocka_unit_test(the_weights_of_f8_are_by_kind_of_vcluster),
        cmocka_unit_test(nothing_is_transparent_unless_it_is_said),
        cmocka_unit_test(the_rule_for_domains_is_any_unless_it_is_said),
        cmocka_unit_test(the_example_file_is_taken_and_has_the_ports_of_the_documents),
        cmocka_unit_test(every_section_is_taken),
        cmocka_unit_test(one_target_alone_is_the_default),
        cmocka_unit_test(each_mistake_names_line_key_and_limit),
        cmocka_unit_test(members_must_differ_and_stay_on_loopback),
        cmocka_unit_test(tls_is_whole_or_not_at_all),
        cmocka_unit_test(telemetry_sources_and_health_are_taken),
        cmocka_unit_test(telemetry_mistakes_name_line_and_cure),
        cmocka_unit_test(an_even_number_of_members_begins_no_cluster),
        cmocka_unit_test(a_name_that_reads_as_an_id_begins_no_cluster),
        cmocka_unit_test(flags_are_checked_too),
        cmocka_unit_test(the_flag_insecure_is_the_same_as_in_the_file),
        cmocka_unit_test(a_value_takes_its_unit_or_its_keys),
        cmocka_unit_test(a_data_folder_may_have_the_members_id_and_name),
        cmocka_unit_test(a_prefix_in_another_ones_is_told),
        cmocka_unit_test(print_shows_value_and_source),
        cmocka_unit_test(an_absent_file_is_an_error),
        cmocka_unit_test(random_changes_never_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
