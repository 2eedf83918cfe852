/* The rows of ckptd's configuration. See config_keys.h. */
#include "src/broker/daemon/config_keys.h"

#include <string.h>

#include "fsm/cluster/policy_fields.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/api/target_kinds.h"

/* ---- kinds of values that only ckptd has ---- */

/* Empty: what the form of the prefix says. */
static int set_target_kind(const struct settings_row *row, void *place, bool in_unit,
                           const char *value, struct err *err)
{
    Ckpt__V1__TargetKind *kind = place;

    (void)row;
    (void)in_unit;
    *kind = CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED;
    return value[0] == '\0' ? 0 : target_kind_parse(value, kind, err);
}

/* An enum of the messages by its words; its 0 is never said. words: for people. */
static int set_word(const ProtobufCEnumDescriptor *descriptor, const char *words, void *place,
                    const char *value, struct err *err)
{
    int number;

    if (!fsm_enum_parse(descriptor, value, &number) || number == 0)
        return err_set(err, ERR_INVALID, "is '%.300s', must be %s", value, words);
    memcpy(place, &number, sizeof(number));
    return 0;
}

static void show_word(const ProtobufCEnumDescriptor *descriptor, const void *place, char *text,
                      size_t size)
{
    char word[FSM_WORD_BYTES];
    int number;

    memcpy(&number, place, sizeof(number));
    snprintf(text, size, "%s", fsm_enum_word(descriptor, number, word));
}

#define WORD_KINDS(X)                                                                              \
    X(owner_rule, "registered or first")                                                           \
    X(orphan_rule, "list or remove")                                                               \
    X(domain_rule, "any, preferred or required")                                                   \
    X(transparent, "no or yes")                                                                    \
    X(read_back, "sampled, never or always")                                                       \
    X(staging, "local, direct or memory")                                                          \
    X(compression, "none or lz4")                                                                  \
    X(pool, "open or sensitive")                                                                   \
    X(assured, "no or yes")

#define X(name, words)                                                                             \
    static int set_##name(const struct settings_row *row, void *place, bool in_unit,               \
                          const char *value, struct err *err)                                      \
    {                                                                                              \
        (void)row;                                                                                 \
        (void)in_unit;                                                                             \
        return set_word(&ckpt__v1__##name##__descriptor, words, place, value, err);                \
    }                                                                                              \
    static void show_##name(const void *place, char *text, size_t size)                            \
    {                                                                                              \
        show_word(&ckpt__v1__##name##__descriptor, place, text, size);                             \
    }                                                                                              \
    static const struct settings_kind name##_kind = {set_##name, show_##name, false, NULL};
WORD_KINDS(X)
#undef X

static void show_target_kind(const void *place, char *text, size_t size)
{
    show_word(&ckpt__v1__target_kind__descriptor, place, text, size);
}

static int set_source_kind(const struct settings_row *row, void *place, bool in_unit,
                           const char *value, struct err *err)
{
    (void)row;
    (void)in_unit;
    if (source_kind_parse(value, place) != 0)
        return err_set(err, ERR_INVALID, "is '%.300s', must be smd, redfish, prometheus or vast",
                       value);
    return 0;
}

static void show_source_kind(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%s", source_kind_name(*(const enum source_kind *)place));
}

static const struct settings_kind target_kind = {set_target_kind, show_target_kind, false, NULL};
static const struct settings_kind source_kind = {set_source_kind, show_source_kind, false, NULL};

/* ---- rows ---- */

#define SECOND_MS FSM_SECOND_MS
#define HOUR_MS   FSM_HOUR_MS
#define DAY_MS    FSM_DAY_MS
#define YEAR_MS   FSM_YEAR_MS
#define RATE_MAX  UINT64_C(1000000000000000)

#define ROOT(kind, name, member, min, max, initial)                                                \
    {CONFIG_ROOT, kind, name, offsetof(struct config, member), min, max, initial},
#define TIMERS(name, member, min, max, initial)                                                    \
    {CONFIG_TIMERS, &settings_count, name "_ms", offsetof(struct config, member), min,             \
     max,           initial},
#define RAFT(name, member, min, max, initial)                                                      \
    {CONFIG_RAFT, &settings_count, name, offsetof(struct config, member), min, max, initial},
#define TLS(name, member)                                                                          \
    {CONFIG_TLS, &settings_path, name, offsetof(struct config, member), 0, 1024, ""},
#define POLICY(kind, name, member, min, max, initial)                                              \
    {CONFIG_POLICY, kind, name, offsetof(struct config, policy.member), min, max, initial},
#define POLICY_DURATION(name, min, max, initial)                                                   \
    POLICY(&settings_count, #name "_ms", name##_ms, min, max, #initial)
#define POLICY_COUNT32(name, min, max, initial)                                                    \
    POLICY(&settings_count32, #name, name, min, max, #initial)
#define POLICY_COUNT(name, min, max, initial)                                                      \
    POLICY(&settings_count, #name, name, min, max, #initial)
#define POLICY_CHOICE(name, min, max, initial)                                                     \
    POLICY(&name##_kind, #name, name, min, max, POLICY_USUAL_##name)
#define POLICY_USUAL_owner_rule  "registered"
#define POLICY_USUAL_domain_rule "any"
#define POLICY_USUAL_orphan_rule "list"
#define POLICY_USUAL_transparent "no"
#define BACKUPS(kind, name, member, min, max, initial)                                             \
    {CONFIG_BACKUPS, kind, name, offsetof(struct config, backups.member), min, max, initial},
#define WATCH(kind, name, member, min, max, initial)                                               \
    {CONFIG_STORAGE_WATCH,                                                                         \
     kind,                                                                                         \
     name,                                                                                         \
     offsetof(struct config, storage_watch.member),                                                \
     min,                                                                                          \
     max,                                                                                          \
     initial},
#define MEMBER(kind, name, member, min, max, initial)                                              \
    {CONFIG_MEMBERS, kind, name, offsetof(struct config_member, member), min, max, initial},
#define TARGET(kind, name, member, min, max, initial)                                              \
    {CONFIG_TARGETS, kind, name, offsetof(Ckpt__V1__TargetSpec, member), min, max, initial},
#define HEALTH(kind, name, member, min, max, initial)                                              \
    {CONFIG_HEALTH, kind, name, offsetof(struct config, health.member), min, max, initial},
#define HTCONDOR(name)                                                                             \
    {CONFIG_HTCONDOR, &settings_path, #name, offsetof(struct config, htcondor.name), 0, 1024, ""},
#define TELEMETRY(kind, name, member, min, max, initial)                                           \
    {CONFIG_TELEMETRY, kind, name, offsetof(struct source_config, member), min, max, initial},
#define STORE(kind, name, member, min, max, initial)                                               \
    {CONFIG_STORES, kind, name, offsetof(struct s3_store_item, member), min, max, initial},
#define SIGNAL_FACTOR(id, name, kind, factor, per_hour, hard)                                      \
    HEALTH(&settings_count, "factor_" name "_milli", factor_milli[TELEMETRY_##id], 1000, 1000000,  \
           #factor)

/* clang-format off */
static const struct settings_row rows[] = {
    ROOT(&settings_id, "cluster_id", cluster_id, 1, ID_MAX_BYTES, NULL)
    ROOT(&settings_folder, "data_dir", data_dir, 1, 1024, "/var/lib/ckpt")
    ROOT(&settings_path, "unix_socket", unix_socket, 0, 107, "")
    ROOT(&settings_path, "preferred_leader", preferred_leader, 0, ID_MAX_BYTES, "")
    ROOT(&settings_path, "restart_hook", restart_hook, 0, 1024, "")
    ROOT(&settings_path, "tenant_admins", tenant_admins, 0, 4096, "")
    ROOT(&settings_count, "connections_max", connections_max, 16, 1000000, "12000")
    ROOT(&settings_yes_no, "supervised", supervised, 0, 0, "no")
    ROOT(&settings_count, "user_requests_per_minute", user_requests_per_minute, 0, 1000000, "600")
    ROOT(&settings_yes_no, "insecure", insecure, 0, 0, "no")
    ROOT(&settings_level, "log_level", log_level, 0, 0, "info")
    ROOT(&settings_log_format, "log_format", log_format, 0, 0, "logfmt")
    TLS("ca", tls_ca)
    TLS("cert", tls_cert)
    TLS("key", tls_key)
    {CONFIG_AUDIT, &settings_path, "key", offsetof(struct config, audit_key), 0, 1024, ""},
    MEMBER(&settings_count, "id", id, 1, UINT32_MAX, NULL)
    MEMBER(&settings_id, "name", name, 1, ID_MAX_BYTES, NULL)
    MEMBER(&settings_address, "raft", raft, 1, 255, NULL)
    MEMBER(&settings_address, "api", api, 1, 255, NULL)
    MEMBER(&settings_address, "http", http, 0, 255, "")
    MEMBER(&settings_address, "https", https, 0, 255, "")
    MEMBER(&settings_path, "listen", listen, 0, 255, "")
    TIMERS("election", election_ms, 50, 60 * SECOND_MS, "1000")
    TIMERS("heartbeat", heartbeat_ms, 5, 10 * SECOND_MS, "100")
    RAFT("snapshot_after_entries", snapshot_after_entries, 100, UINT64_C(10000000), "100000")
    RAFT("snapshot_after_bytes", snapshot_after_bytes, UINT64_C(1) << 20, UINT64_C(1) << 32,
         "67108864")
    FSM_POLICY_FIELDS(POLICY_DURATION, POLICY_COUNT32, POLICY_COUNT, POLICY_CHOICE)
    TARGET(&settings_id, "id", target_id, 1, ID_MAX_BYTES, NULL)
    TARGET(&target_kind, "kind", kind, 0, 0, "")
    TARGET(&settings_path, "prefix", prefix, 1, FSM_PREFIX_MAX_BYTES, NULL)
    TARGET(&settings_count, "write_bytes_per_s", write_bytes_per_s, 1, RATE_MAX, NULL)
    TARGET(&settings_count32, "staging_share_ppm", staging_share_ppm, 0, 1000000, "300000")
    TARGET(&settings_count, "cost_micro_usd_per_gb_month", cost_micro_usd_per_gb_month, 0,
           UINT64_C(1000000000000), "0")
    TARGET(&settings_switch, "default", is_default, 0, 0, "no")
    TARGET(&read_back_kind, "read_back", read_back, 0, 0, "sampled")
    TARGET(&settings_count32, "generations", generations, 0, FSM_GENERATIONS_MAX, "8")
    TARGET(&staging_kind, "staging", staging, 0, 0, "local")
    TARGET(&compression_kind, "compression", compression, 0, 0, "none")
    TARGET(&pool_kind, "pool", pool, 0, 0, "open")
    TARGET(&assured_kind, "encrypted", encrypted, 0, 0, "no")
    TARGET(&assured_kind, "hot_only", hot_only, 0, 0, "no")
    TARGET(&settings_path, "jurisdiction", jurisdiction, 0, ID_MAX_BYTES, "")
    TARGET(&settings_path, "domain", domain, 0, ID_MAX_BYTES, "")
    TARGET(&settings_path, "tier", tier, 0, ID_MAX_BYTES, "")
    TARGET(&settings_path, "failover", failover_target_id, 0, ID_MAX_BYTES, "")
    TARGET(&settings_count, "read_bytes_per_s", read_bytes_per_s, 0, RATE_MAX, "0")
    TARGET(&settings_count32, "max_restores", max_restores, 0, FSM_RESTORES_MAX, "0")
    TARGET(&settings_count32, "max_writes", max_writes, 0, FSM_WRITES_MAX, "0")
    WATCH(&settings_count, "interval_ms", interval_ms, 50, HOUR_MS, "5s")
    WATCH(&settings_count, "timeout_ms", timeout_ms, 50, HOUR_MS, "5s")
    WATCH(&settings_count, "failures_down", failures_down, 1, 1000, "3")
    WATCH(&settings_count, "successes_up", successes_up, 1, 1000, "2")
    BACKUPS(&settings_folder, "directory", directory, 0, 1024, "")
    BACKUPS(&settings_count, "interval_ms", interval_ms, SECOND_MS, 30 * DAY_MS, "1h")
    BACKUPS(&settings_count, "keep", keep, 1, 100000, "168")
    BACKUPS(&settings_count, "keep_daily", keep_daily, 0, 10000, "30")
    BACKUPS(&settings_count, "keep_weekly", keep_weekly, 0, 10000, "13")
    BACKUPS(&settings_count, "keep_monthly", keep_monthly, 0, 10000, "0")
    BACKUPS(&settings_count, "keep_bytes", keep_bytes, 0, UINT64_C(1) << 50, "0")
    BACKUPS(&settings_count, "verify_interval_ms", verify_interval_ms, 0, 400 * DAY_MS, "7d")
    TELEMETRY(&settings_id, "name", name, 1, 64, NULL)
    TELEMETRY(&source_kind, "kind", kind, 0, 0, NULL)
    TELEMETRY(&settings_url, "url", url, 1, 1024, NULL)
    TELEMETRY(&settings_path, "map", map, 0, 1024, "")
    TELEMETRY(&settings_path, "credentials", credentials, 0, 1024, "")
    TELEMETRY(&settings_path, "ca", ca, 0, 1024, "")
    TELEMETRY(&settings_path, "cert", cert, 0, 1024, "")
    TELEMETRY(&settings_path, "key", key, 0, 1024, "")
    TELEMETRY(&settings_yes_no, "insecure", insecure, 0, 0, "no")
    TELEMETRY(&settings_count, "interval_ms", interval_ms, 50, DAY_MS, "30s")
    TELEMETRY(&settings_count, "timeout_ms", timeout_ms, 10, HOUR_MS, "5s")
    TELEMETRY(&settings_count, "max_bytes", max_bytes, 1024, UINT64_C(256) << 20, "16777216")
    TELEMETRY(&settings_count, "concurrency", concurrency, 1, 1024, "32")
    TELEMETRY(&settings_path, "targets", targets, 0, 4096, "")
    TELEMETRY(&settings_path, "cluster", cluster, 0, 128, "")
    TELEMETRY(&settings_count, "write_limit_bytes_per_s", write_limit_bytes_per_s, 0, RATE_MAX, "0")
    HEALTH(&settings_count, "follower_slowdown", follower_slowdown, 1, 100, "4")
    HEALTH(&settings_count, "half_life_ms", half_life_ms, SECOND_MS, 30 * DAY_MS, "6h")
    HEALTH(&settings_count, "factor_max_milli", factor_max_milli, 1000, 1000000, "300000")
    HEALTH(&settings_count32, "alarm_precision_ppm", alarm_precision_ppm, 0, 1000000, "600000")
    HEALTH(&settings_count, "alarm_lead_ms", alarm_lead_ms, SECOND_MS, 7 * DAY_MS, "45m")
    HEALTH(&settings_count32, "alarm_recall_ppm", alarm_recall_ppm, 0, 999999, "0")
    HEALTH(&settings_yes_no, "drain", drain, 0, 0, "no")
    HEALTH(&settings_count, "drain_max_per_hour", drain_max_per_hour, 0, 100000, "4")
    TELEMETRY_SIGNALS(SIGNAL_FACTOR)
    S3_STORE_FIELDS(STORE)
    HTCONDOR_NAMES(HTCONDOR)
};
/* clang-format on */

/* Its texts are ours from here on. */
static void init_target(void *item)
{
    Ckpt__V1__TargetSpec *spec = item;

    ckpt__v1__target_spec__init(spec);
    spec->target_id = spec->prefix = spec->domain = spec->tier = NULL;
    spec->failover_target_id = spec->jurisdiction = NULL;
}

static void init_policy(void *config)
{
    ckpt__v1__policy__init(&((struct config *)config)->policy);
}

#define LIST(most, item, items, count, init_item, is_secret)                                       \
    .items_max = (most), .item_bytes = sizeof(item),                                               \
    .items_offset = offsetof(struct config, items),                                                \
    .count_offset = offsetof(struct config, count), .init = (init_item), .secret = (is_secret)

static const struct settings_section sections[CONFIG_SECTION_COUNT] = {
    [CONFIG_ROOT] = {.name = ""},
    [CONFIG_TIMERS] = {.name = "timers"},
    [CONFIG_RAFT] = {.name = "raft"},
    [CONFIG_POLICY] = {.name = "policy", .init = init_policy},
    [CONFIG_STORAGE_WATCH] = {.name = "storage_watch"},
    [CONFIG_TLS] = {.name = "tls"},
    [CONFIG_BACKUPS] = {.name = "backups"},
    [CONFIG_HEALTH] = {.name = "health"},
    [CONFIG_HTCONDOR] = {.name = "htcondor"},
    [CONFIG_AUDIT] = {.name = "audit"},
    [CONFIG_MEMBERS] = {.name = "members",
                        LIST(CONFIG_MEMBERS_MAX, struct config_member, members, member_count, NULL,
                             false)},
    [CONFIG_TARGETS] = {.name = "targets",
                        LIST(CONFIG_TARGETS_MAX, Ckpt__V1__TargetSpec, targets, target_count,
                             init_target, false)},
    [CONFIG_TELEMETRY] = {.name = "telemetry",
                          LIST(SOURCES_MAX, struct source_config, telemetry, telemetry_count, NULL,
                               true)},
    [CONFIG_STORES] = {.name = "s3",
                       LIST(S3_STORES_MAX, struct s3_store_item, stores, store_count, NULL, false)},
};

const struct settings_table config_table = {.sections = sections,
                                            .section_count = CONFIG_SECTION_COUNT,
                                            .rows = rows,
                                            .row_count = ARRAY_COUNT(rows)};
