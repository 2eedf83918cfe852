/* The table of configuration keys and what each kind of value looks like. See config_keys.h. */
#include "src/broker/daemon/config_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/cluster/policy_fields.h"
#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/base/text.h"
#include "src/broker/api/target_kinds.h"

#define SECOND_MS FSM_SECOND_MS
#define HOUR_MS   FSM_HOUR_MS
#define DAY_MS    FSM_DAY_MS
#define YEAR_MS   FSM_YEAR_MS
#define RATE_MAX  UINT64_C(1000000000000000)

#define ROOT(kind, name, member, min, max, initial)                                                \
    {CONFIG_ROOT, kind, name, offsetof(struct config, member), min, max, initial},
#define TIMERS(name, member, min, max, initial)                                                    \
    {CONFIG_TIMERS, CONFIG_COUNT, name "_ms", offsetof(struct config, member), min, max, initial},
#define RAFT(name, member, min, max, initial)                                                      \
    {CONFIG_RAFT, CONFIG_COUNT, name, offsetof(struct config, member), min, max, initial},
#define TLS(name, member)                                                                          \
    {CONFIG_TLS, CONFIG_PATH, name, offsetof(struct config, member), 0, 1024, ""},
#define POLICY(kind, name, member, min, max, initial)                                              \
    {CONFIG_POLICY, kind, name, offsetof(struct config, policy.member), min, max, initial},
#define POLICY_DURATION(name, min, max, initial)                                                   \
    POLICY(CONFIG_COUNT, #name "_ms", name##_ms, min, max, #initial)
#define POLICY_COUNT32(name, min, max, initial)                                                    \
    POLICY(CONFIG_COUNT32, #name, name, min, max, #initial)
#define POLICY_COUNT(name, min, max, initial) POLICY(CONFIG_COUNT, #name, name, min, max, #initial)
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
#define TELEMETRY(kind, name, member, min, max, initial)                                           \
    {CONFIG_TELEMETRY, kind, name, offsetof(struct source_config, member), min, max, initial},
#define SIGNAL_FACTOR(id, name, kind, factor, per_hour, hard)                                      \
    HEALTH(CONFIG_COUNT, "factor_" name "_milli", factor_milli[TELEMETRY_##id], 1000, 1000000,     \
           #factor)

/* clang-format off */
static const struct config_key config_keys[] = {
    ROOT(CONFIG_ID, "cluster_id", cluster_id, 1, ID_MAX_BYTES, NULL)
    ROOT(CONFIG_FOLDER, "data_dir", data_dir, 1, 1024, "/var/lib/ckpt")
    ROOT(CONFIG_PATH, "unix_socket", unix_socket, 0, 107, "")
    ROOT(CONFIG_PATH, "preferred_leader", preferred_leader, 0, ID_MAX_BYTES, "")
    ROOT(CONFIG_COUNT, "connections_max", connections_max, 16, 1000000, "12000")
    ROOT(CONFIG_COUNT, "explain_history_bytes", explain_history_bytes, UINT64_C(1) << 19, UINT64_C(1) << 36, "67108864")
    ROOT(CONFIG_YES_NO, "insecure", insecure, 0, 0, "no")
    ROOT(CONFIG_LEVEL, "log_level", log_level, 0, 0, "info")
    TLS("ca", tls_ca)
    TLS("cert", tls_cert)
    TLS("key", tls_key)
    MEMBER(CONFIG_COUNT, "id", id, 1, UINT32_MAX, NULL)
    MEMBER(CONFIG_ID, "name", name, 1, ID_MAX_BYTES, NULL)
    MEMBER(CONFIG_ADDRESS, "raft", raft, 1, 255, NULL)
    MEMBER(CONFIG_ADDRESS, "api", api, 1, 255, NULL)
    MEMBER(CONFIG_ADDRESS, "http", http, 0, 255, "")
    TIMERS("election", election_ms, 50, 60 * SECOND_MS, "1000")
    TIMERS("heartbeat", heartbeat_ms, 5, 10 * SECOND_MS, "100")
    RAFT("snapshot_after_entries", snapshot_after_entries, 100, UINT64_C(10000000), "100000")
    RAFT("snapshot_after_bytes", snapshot_after_bytes, UINT64_C(1) << 20, UINT64_C(1) << 32, "67108864")
    FSM_POLICY_FIELDS(POLICY_DURATION, POLICY_COUNT32, POLICY_COUNT)
    TARGET(CONFIG_ID, "id", target_id, 1, ID_MAX_BYTES, NULL)
    TARGET(CONFIG_TARGET_KIND, "kind", kind, 0, 0, "posix")
    TARGET(CONFIG_PATH, "prefix", prefix, 1, FSM_PREFIX_MAX_BYTES, NULL)
    TARGET(CONFIG_COUNT, "write_bytes_per_s", write_bytes_per_s, 1, RATE_MAX, NULL)
    TARGET(CONFIG_COUNT32, "staging_share_ppm", staging_share_ppm, 0, 1000000, "300000")
    TARGET(CONFIG_COUNT, "cost_micro_usd_per_gb_month", cost_micro_usd_per_gb_month, 0, UINT64_C(1000000000000), "0")
    TARGET(CONFIG_SWITCH, "default", is_default, 0, 0, "no")
    TARGET(CONFIG_PATH, "domain", domain, 0, ID_MAX_BYTES, "")
    WATCH(CONFIG_COUNT, "interval_ms", interval_ms, 50, HOUR_MS, "5s")
    WATCH(CONFIG_COUNT, "timeout_ms", timeout_ms, 50, HOUR_MS, "5s")
    WATCH(CONFIG_COUNT, "failures_down", failures_down, 1, 1000, "3")
    WATCH(CONFIG_COUNT, "successes_up", successes_up, 1, 1000, "2")
    BACKUPS(CONFIG_FOLDER, "directory", directory, 0, 1024, "")
    BACKUPS(CONFIG_COUNT, "interval_ms", interval_ms, SECOND_MS, 30 * DAY_MS, "1h")
    BACKUPS(CONFIG_COUNT, "keep", keep, 1, 100000, "48")
    BACKUPS(CONFIG_COUNT, "keep_bytes", keep_bytes, 0, UINT64_C(1) << 50, "0")
    TELEMETRY(CONFIG_ID, "name", name, 1, 64, NULL)
    TELEMETRY(CONFIG_SOURCE_KIND, "kind", kind, 0, 0, NULL)
    TELEMETRY(CONFIG_URL, "url", url, 1, 1024, NULL)
    TELEMETRY(CONFIG_PATH, "map", map, 0, 1024, "")
    TELEMETRY(CONFIG_PATH, "credentials", credentials, 0, 1024, "")
    TELEMETRY(CONFIG_PATH, "ca", ca, 0, 1024, "")
    TELEMETRY(CONFIG_PATH, "cert", cert, 0, 1024, "")
    TELEMETRY(CONFIG_PATH, "key", key, 0, 1024, "")
    TELEMETRY(CONFIG_YES_NO, "insecure", insecure, 0, 0, "no")
    TELEMETRY(CONFIG_COUNT, "interval_ms", interval_ms, 50, DAY_MS, "30s")
    TELEMETRY(CONFIG_COUNT, "timeout_ms", timeout_ms, 10, HOUR_MS, "5s")
    TELEMETRY(CONFIG_COUNT, "max_bytes", max_bytes, 1024, UINT64_C(256) << 20, "16777216")
    TELEMETRY(CONFIG_COUNT, "concurrency", concurrency, 1, 1024, "32")
    TELEMETRY(CONFIG_PATH, "targets", targets, 0, 4096, "")
    TELEMETRY(CONFIG_PATH, "cluster", cluster, 0, 128, "")
    TELEMETRY(CONFIG_COUNT, "write_limit_bytes_per_s", write_limit_bytes_per_s, 0, RATE_MAX, "0")
    HEALTH(CONFIG_COUNT, "follower_slowdown", follower_slowdown, 1, 100, "4")
    HEALTH(CONFIG_COUNT, "half_life_ms", half_life_ms, SECOND_MS, 30 * DAY_MS, "6h")
    HEALTH(CONFIG_COUNT, "factor_max_milli", factor_max_milli, 1000, 1000000, "300000")
    HEALTH(CONFIG_COUNT32, "alarm_precision_ppm", alarm_precision_ppm, 0, 1000000, "600000")
    HEALTH(CONFIG_COUNT, "alarm_lead_ms", alarm_lead_ms, SECOND_MS, 7 * DAY_MS, "45m")
    HEALTH(CONFIG_COUNT32, "alarm_recall_ppm", alarm_recall_ppm, 0, 999999, "0")
    HEALTH(CONFIG_YES_NO, "drain", drain, 0, 0, "no")
    HEALTH(CONFIG_COUNT, "drain_max_per_hour", drain_max_per_hour, 0, 100000, "4")
    TELEMETRY_SIGNALS(SIGNAL_FACTOR)
};
/* clang-format on */
_Static_assert(ARRAY_COUNT(config_keys) <= CONFIG_KEYS_MAX, "config_source_of() has room for all");

static const char *const config_sections[CONFIG_SECTION_COUNT] = {
    "",        "timers", "raft",    "policy",  "storage_watch", "tls",
    "backups", "health", "members", "targets", "telemetry"};

size_t config_key_count(void)
{
    return ARRAY_COUNT(config_keys);
}

const struct config_key *config_key_at(size_t i)
{
    CHECK(i < ARRAY_COUNT(config_keys));
    return &config_keys[i];
}

const char *config_section_name(enum config_section section)
{
    CHECK(section < CONFIG_SECTION_COUNT);
    return config_sections[section];
}

bool config_section_is_list(enum config_section section)
{
    return section == CONFIG_MEMBERS || section == CONFIG_TARGETS || section == CONFIG_TELEMETRY;
}

size_t config_key_find(enum config_section section, const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(config_keys); i++) {
        const struct config_key *key = &config_keys[i];
        size_t stem;

        number_named(key->name, &stem);
        if (key->section == section &&
            (strcmp(key->name, name) == 0 ||
             (strlen(name) == stem && memcmp(key->name, name, stem) == 0)))
            return i;
    }
    return SIZE_MAX;
}

const char *config_key_nearest(enum config_section section, const char *name)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < ARRAY_COUNT(config_keys); i++) {
        size_t distance = text_distance(name, config_keys[i].name);
        if (config_keys[i].section == section && (nearest == NULL || distance < best)) {
            best = distance;
            nearest = config_keys[i].name;
        }
    }
    for (size_t i = CONFIG_ROOT + 1; section == CONFIG_ROOT && i < CONFIG_SECTION_COUNT; i++) {
        size_t distance = text_distance(name, config_sections[i]);
        if (distance < best) {
            best = distance;
            nearest = config_sections[i];
        }
    }
    CHECK(nearest != NULL);
    return nearest;
}

struct config_source *config_source_of(const struct config *config, size_t key, size_t item)
{
    CHECK(key < CONFIG_KEYS_MAX && item < CONFIG_ITEMS_MAX);
    return &config->sources[key * CONFIG_ITEMS_MAX + item];
}

char *config_key_path(size_t key, size_t item, char *text, size_t size)
{
    const struct config_key *k = config_key_at(key);

    if (config_section_is_list(k->section))
        snprintf(text, size, "%s[%zu].%s", config_sections[k->section], item, k->name);
    else
        snprintf(text, size, "%s%s%s", config_sections[k->section],
                 k->section == CONFIG_ROOT ? "" : ".", k->name);
    return text;
}

/* ---- values ---- */

/* {host} stands for a name of the map. */
static bool url_valid(const char *url)
{
    const char *host = strncmp(url, "http://", 7) == 0    ? url + 7
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                                                          : NULL;
    size_t length;

    if (host == NULL)
        return false;
    length = strcspn(host, "/?#");
    for (const char *at = url; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || *at == '#')
            return false;
    }
    return length > 0 && memchr(host, '@', length) == NULL;
}

static int check_text(const struct config_key *key, const char *value, struct err *err)
{
    char host[256];
    uint64_t port;
    size_t length = strlen(value);

    if (length < key->min || length > key->max)
        return err_set(err, ERR_INVALID, "has %zu characters, must have %" PRIu64 " to %" PRIu64,
                       length, key->min, key->max);
    if (length == 0)
        return 0;
    if (key->kind == CONFIG_ID && !id_valid(value))
        return err_set(err, ERR_INVALID, "is '%s', must be 1 to %d characters of A-Z a-z 0-9 . _ -",
                       value, ID_MAX_BYTES);
    if (key->kind == CONFIG_ADDRESS &&
        (address_split(value, host, sizeof(host), &port) != 0 || port < 1 || port > 65535))
        return err_set(err, ERR_INVALID, "is '%s', must be host:port with a port from 1 to 65535",
                       value);
    if (key->kind == CONFIG_URL && !url_valid(value)) /* not shown: it may hold a password */
        return err_set(err, ERR_INVALID,
                       "must be http://HOST or https://HOST with or without port and path, "
                       "and without user and password: those belong into credentials");
    if (key->kind == CONFIG_FOLDER && (value[0] != '/' || strstr(value, "/../") != NULL ||
                                       (length >= 3 && strcmp(value + length - 3, "/..") == 0)))
        return err_set(err, ERR_INVALID, "is '%s', must be an absolute path without '..'", value);
    return 0;
}

static int set_number(const struct config_key *key, void *place, bool in_unit, const char *value,
                      struct err *err)
{
    const struct number_range range = {key->min, key->max};
    size_t stem;
    enum number_kind kind = number_named(key->name, &stem);
    uint64_t number = 0;

    if ((in_unit ? number_parse_in_unit(kind, value, range, &number, err)
                 : number_parse(kind, value, range, &number, err)) != 0)
        return err_wrap(err, "is wrong");
    if (key->kind == CONFIG_COUNT32)
        *(uint32_t *)place = (uint32_t)number;
    else
        *(uint64_t *)place = number;
    return 0;
}

static int parse_yes_no(const char *value, bool *ret_yes)
{
    if (strcmp(value, "yes") == 0 || strcmp(value, "true") == 0)
        *ret_yes = true;
    else if (strcmp(value, "no") == 0 || strcmp(value, "false") == 0)
        *ret_yes = false;
    else
        return -1;
    return 0;
}

static int set_choice(const struct config_key *key, void *place, const char *value, struct err *err)
{
    enum log_level level;
    bool yes;

    if (key->kind == CONFIG_LEVEL) {
        if (log_parse_level(value, &level) != 0)
            return err_set(err, ERR_INVALID, "is '%s', must be debug, info, warning or error",
                           value);
        *(enum log_level *)place = level;
        return 0;
    }
    if (key->kind == CONFIG_TARGET_KIND) {
        return target_kind_parse(value, place, err);
    }
    if (key->kind == CONFIG_SOURCE_KIND) {
        if (source_kind_parse(value, place) != 0)
            return err_set(err, ERR_INVALID, "is '%s', must be smd, redfish, prometheus or vast",
                           value);
        return 0;
    }
    if (parse_yes_no(value, &yes) != 0)
        return err_set(err, ERR_INVALID, "is '%s', must be yes or no", value);
    if (key->kind == CONFIG_YES_NO)
        *(bool *)place = yes;
    else
        *(protobuf_c_boolean *)place = yes;
    return 0;
}

static void *key_place(const struct config *config, const struct config_key *key, size_t item)
{
    const char *base = (const char *)config;

    if (key->section == CONFIG_MEMBERS)
        base = (const char *)&config->members[item];
    else if (key->section == CONFIG_TARGETS)
        base = (const char *)&config->targets[item];
    else if (key->section == CONFIG_TELEMETRY)
        base = (const char *)&config->telemetry[item];
    return (void *)(uintptr_t)(base + key->offset);
}

int config_key_set(struct config *config, size_t key, size_t item, bool in_unit, const char *value,
                   struct err *err)
{
    const struct config_key *k = config_key_at(key);
    void *place = key_place(config, k, item);

    switch (k->kind) {
    case CONFIG_ID:
    case CONFIG_ADDRESS:
    case CONFIG_FOLDER:
    case CONFIG_PATH:
    case CONFIG_URL:
        if (check_text(k, value, err) != 0)
            return -1;
        if (*(char **)place != protobuf_c_empty_string)
            free(*(char **)place);
        *(char **)place = check_strdup(value);
        return 0;
    case CONFIG_COUNT:
    case CONFIG_COUNT32:
        return set_number(k, place, in_unit, value, err);
    case CONFIG_YES_NO:
    case CONFIG_SWITCH:
    case CONFIG_LEVEL:
    case CONFIG_TARGET_KIND:
    case CONFIG_SOURCE_KIND:
        return set_choice(k, place, value, err);
    }
    CHECK_UNREACHABLE("kind of configuration key");
}

void config_key_show(const struct config *config, size_t key, size_t item, char *text, size_t size)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    const struct config_key *k = config_key_at(key);
    const void *place = key_place(config, k, item);
    char word[FSM_WORD_BYTES];

    switch (k->kind) {
    case CONFIG_ID:
    case CONFIG_ADDRESS:
    case CONFIG_FOLDER:
    case CONFIG_PATH:
    case CONFIG_URL:
        snprintf(text, size, "\"%s\"", *(char *const *)place);
        return;
    case CONFIG_COUNT:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)place);
        return;
    case CONFIG_COUNT32:
        snprintf(text, size, "%" PRIu32, *(const uint32_t *)place);
        return;
    case CONFIG_YES_NO:
        snprintf(text, size, "%s", *(const bool *)place ? "yes" : "no");
        return;
    case CONFIG_SWITCH:
        snprintf(text, size, "%s", *(const protobuf_c_boolean *)place ? "yes" : "no");
        return;
    case CONFIG_LEVEL:
        snprintf(text, size, "%s", levels[*(const enum log_level *)place]);
        return;
    case CONFIG_TARGET_KIND:
        snprintf(text, size, "%s",
                 fsm_enum_word(&ckpt__v1__target_kind__descriptor, *(const int *)place, word));
        return;
    case CONFIG_SOURCE_KIND:
        snprintf(text, size, "%s", source_kind_name(*(const enum source_kind *)place));
        return;
    }
    CHECK_UNREACHABLE("kind of configuration key");
}
