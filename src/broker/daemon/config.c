/* How the values of ckptd's configuration go together. See config.h; the keys are in config_keys.c,
 * the file is read by src/serve/settings.h.
 */
#include "src/broker/daemon/config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsm/cluster/policy_fields.h"
#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/broker/api/target_kinds.h"
#include "src/broker/daemon/config_htcondor.h"
#include "src/broker/daemon/config_keys.h"
#include "src/serve/tenant_table.h"

#define NO_TLS                                                                                     \
    "is not a loopback address, and without TLS everyone who reaches it is trusted; set tls, or "  \
    "'insecure: yes' (--insecure) to accept that"

static bool is_same_text(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

static bool same_host(const char *a, const char *b)
{
    size_t length = (size_t)(strrchr(a, ':') - a);

    return length == (size_t)(strrchr(b, ':') - b) && strncmp(a, b, length) == 0;
}

/* Addresses of one member and of all members differ: each port is bound once. Loopback is another
 * address on each host, and the members' Raft addresses tell whether they share one. */
static bool address_used_before(const struct config *config, size_t member, const char *address,
                                size_t kinds_before)
{
    for (size_t i = 0; i <= member; i++) {
        const struct config_member *other = &config->members[i];
        const char *const known[] = {other->raft, other->api, other->http, other->https};
        if (i != member && address_is_loopback(address) &&
            !same_host(other->raft, config->members[member].raft))
            continue;
        for (size_t k = 0; k < (i == member ? kinds_before : ARRAY_COUNT(known)); k++) {
            if (is_same_text(address, known[k]))
                return true;
        }
    }
    return false;
}

/* A host, as addresses have it in front of their port: IPv6 without brackets. Like an address it
 * is open to everyone who reaches it. */
static int check_listen(const struct config *config, size_t i, struct err *err)
{
    const char *listen = config->members[i].listen;
    bool is_v6 = strchr(listen, ':') != NULL;
    char address[272], host[256];
    struct in6_addr v6;
    uint64_t port;

    if (listen[0] == '\0')
        return 0;
    snprintf(address, sizeof(address), is_v6 ? "[%s]:1" : "%s:1", listen);
    if (address_split(address, host, sizeof(host), &port) != 0 ||
        (is_v6 && inet_pton(AF_INET6, listen, &v6) != 1))
        return settings_complain(&config->settings, CONFIG_MEMBERS, "listen", i, err,
                                 "must be an address of the host without a port, such as 10.0.0.1, "
                                 "0.0.0.0 or ::");
    if (config->insecure || config->tls_ca[0] != '\0' || address_is_loopback(address))
        return 0;
    return settings_complain(&config->settings, CONFIG_MEMBERS, "listen", i, err, NO_TLS);
}

static int check_member(const struct config *config, size_t i, struct err *err)
{
    static const char *const names[] = {"raft", "api", "http", "https"};
    const struct config_member *member = &config->members[i];
    const char *const addresses[] = {member->raft, member->api, member->http, member->https};

    for (size_t j = 0; j < i; j++) {
        if (config->members[j].id == member->id)
            return settings_complain(&config->settings, CONFIG_MEMBERS, "id", i, err,
                                     "is another member's too");
        if (strcmp(config->members[j].name, member->name) == 0)
            return settings_complain(&config->settings, CONFIG_MEMBERS, "name", i, err,
                                     "is another member's too");
    }
    for (size_t k = 0; k < ARRAY_COUNT(names); k++) {
        if (address_used_before(config, i, addresses[k], k))
            return settings_complain(&config->settings, CONFIG_MEMBERS, names[k], i, err,
                                     "is used for another listener too");
        if (addresses[k][0] == '\0' || config->insecure || address_is_loopback(addresses[k]))
            continue;
        if (config->tls_ca[0] == '\0')
            return settings_complain(&config->settings, CONFIG_MEMBERS, names[k], i, err, NO_TLS);
        if (addresses[k] == member->http && member->https[0] == '\0')
            return settings_complain(
                &config->settings, CONFIG_MEMBERS, names[k], i, err,
                "is not a loopback address, and this port has no TLS: everyone "
                "who reaches it reads the metrics; give https an address, for certificates alone, "
                "or set 'insecure: yes' to accept that");
    }
    if (member->https[0] != '\0' && (config->tls_ca[0] == '\0' || member->http[0] == '\0'))
        return settings_complain(&config->settings, CONFIG_MEMBERS, "https", i, err,
                                 "needs tls, and http, where the pages about health stay");
    return check_listen(config, i, err);
}

/* Whoever says how often wants backups: without a folder there would be none, and nobody would
 * notice. */
static int check_backups(const struct config *config, struct err *err)
{
    static const char *const names[] = {"interval",       "keep",         "keep_daily",
                                        "keep_weekly",    "keep_monthly", "keep_bytes",
                                        "verify_interval"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (config->backups.directory[0] == '\0' &&
            settings_given(&config->settings, CONFIG_BACKUPS, names[i]))
            return settings_complain(&config->settings, CONFIG_BACKUPS, "directory", 0, err,
                                     "is missing: no backup would be taken; name a folder that all "
                                     "members reach, or leave the section out");
    }
    return 0;
}

/* All three or none: half of TLS is none, and nobody wants to learn that late. */
static int check_tls(const struct config *config, struct err *err)
{
    static const char *const names[] = {"ca", "cert", "key"};
    const char *const paths[] = {config->tls_ca, config->tls_cert, config->tls_key};
    size_t set = 0;

    for (size_t i = 0; i < ARRAY_COUNT(paths); i++)
        set += paths[i][0] != '\0';
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        if (set > 0 && paths[i][0] == '\0')
            return settings_complain(&config->settings, CONFIG_TLS, names[i], 0, err,
                                     "is missing; tls takes ca, cert and key");
    }
    return 0;
}

/* What takes over in an outage: none, or another one of the file. */
static bool failover_known(const struct config *config, size_t i)
{
    const char *named = config->targets[i].failover_target_id;

    if (named[0] == '\0')
        return true;
    for (size_t j = 0; j < config->target_count; j++) {
        if (j != i && strcmp(config->targets[j].target_id, named) == 0)
            return true;
    }
    return false;
}

static int check_targets(struct config *config, struct err *err)
{
    size_t defaults = 0;
    struct err problem;

    if (config->target_count == 1)
        config->targets[0].is_default = true;
    for (size_t i = 0; i < config->target_count; i++) {
        if (target_kind_check(&config->targets[i], &problem) != 0)
            return settings_complain(&config->settings, CONFIG_TARGETS, "prefix", i, err,
                                     problem.text);
        if (target_staging_check(&config->targets[i], &problem) != 0)
            return settings_complain(&config->settings, CONFIG_TARGETS, "staging", i, err,
                                     problem.text);
        if (target_compression_check(&config->targets[i], &problem) != 0)
            return settings_complain(&config->settings, CONFIG_TARGETS, "compression", i, err,
                                     problem.text);
        if (!failover_known(config, i))
            return settings_complain(&config->settings, CONFIG_TARGETS, "failover", i, err,
                                     "must be the id of another target of this file");
        for (size_t j = 0; j < i; j++) {
            if (strcmp(config->targets[j].target_id, config->targets[i].target_id) == 0)
                return settings_complain(&config->settings, CONFIG_TARGETS, "id", i, err,
                                         "is another target's too");
        }
        defaults += config->targets[i].is_default;
        if (config->targets[i].is_default && defaults > 1)
            return settings_complain(&config->settings, CONFIG_TARGETS, "default", i, err,
                                     "is set for another target already; one is the default");
    }
    if (config->target_count > 0 && defaults == 0)
        return settings_complain(
            &config->settings, CONFIG_TARGETS, "id", 0, err,
            "and the others lack 'default: yes'; one target must be the default");
    return 0;
}

static bool names_target(const struct source_config *source, const char *target)
{
    const char *at = source->targets;
    char name[ID_MAX_BYTES + 2];

    while (source_target_next(&at, name, sizeof(name))) {
        if (strcmp(name, target) == 0)
            return true;
    }
    return false;
}

/* Of kind vast: whose system it is. A target that two systems speak of would be measured by
 * turns. */
static int check_source_targets(const struct config *config, size_t i, struct err *err)
{
    const struct source_config *source = &config->telemetry[i];
    const char *at = source->targets;
    char name[ID_MAX_BYTES + 2]; /* one that is too long stays too long */

    if ((source->kind == SOURCE_VAST) != (source->targets[0] != '\0'))
        return settings_complain(
            &config->settings, CONFIG_TELEMETRY, "targets", i, err,
            "belongs to kind vast: it names the storage targets on that system");
    while (source_target_next(&at, name, sizeof(name))) {
        if (!id_valid(name))
            return settings_complain(&config->settings, CONFIG_TELEMETRY, "targets", i, err,
                                     "must be names of storage targets, with commas between them");
        for (size_t before = 0; before < i; before++) {
            if (names_target(&config->telemetry[before], name))
                return settings_complain(&config->settings, CONFIG_TELEMETRY, "targets", i, err,
                                         "has a target that another source names too");
        }
    }
    return 0;
}

static int check_source(const struct config *config, size_t i, struct err *err)
{
    const struct source_config *source = &config->telemetry[i];
    bool by_host = strstr(source->url, "{host}") != NULL;

    for (size_t before = 0; before < i; before++) {
        if (strcmp(config->telemetry[before].name, source->name) == 0)
            return settings_complain(&config->settings, CONFIG_TELEMETRY, "name", i, err,
                                     "is the name of another source");
    }
    if (strcmp(source->name, "agent") == 0)
        return settings_complain(&config->settings, CONFIG_TELEMETRY, "name", i, err,
                                 "is what the nodes' own agents are called; choose another");
    if (by_host && source->map[0] == '\0')
        return settings_complain(&config->settings, CONFIG_TELEMETRY, "url", i, err,
                                 "has {host}: map must name the file with lines \"NODE HOST\"");
    if (check_source_targets(config, i, err) != 0)
        return -1;
    if (source->kind == SOURCE_VAST && source->map[0] != '\0')
        return settings_complain(&config->settings, CONFIG_TELEMETRY, "map", i, err,
                                 "is of nodes: a VMS speaks of a storage system");
    if (source->kind == SOURCE_REDFISH && !by_host)
        return settings_complain(&config->settings, CONFIG_TELEMETRY, "url", i, err,
                                 "must have {host}, such as https://{host}: each BMC is asked");
    if (source->credentials[0] != '\0' && strncmp(source->url, "https://", 8) != 0 &&
        !source->insecure)
        return settings_complain(
            &config->settings, CONFIG_TELEMETRY, "url", i, err,
            "would carry the credentials in clear; use https, or insecure: yes");
    if ((source->cert[0] == '\0') != (source->key[0] == '\0'))
        return settings_complain(&config->settings, CONFIG_TELEMETRY, "cert", i, err,
                                 "and key belong together; give both or none");
    return 0;
}

static int check_telemetry(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->telemetry_count; i++) {
        if (check_source(config, i, err) != 0)
            return -1;
    }
    return 0;
}

static int check_stores(const struct config *config, struct err *err)
{
    struct s3_mistake mistake;
    struct err problem;

    if (s3_stores_check(config->stores, config->store_count, &mistake, &problem) == 0)
        return 0;
    return settings_complain(&config->settings, CONFIG_STORES, mistake.key, mistake.item, err,
                             problem.text);
}

/* A member knows names of users, from agents, and not their groups. */
static int check_tenant_admins(const struct config *config, struct err *err)
{
    struct err why = {0};

    if (tenant_table_check("tenant_admins", config->tenant_admins, &why) == 0 &&
        strchr(config->tenant_admins, '@') == NULL)
        return 0;
    return settings_complain(&config->settings, CONFIG_ROOT, "tenant_admins", 0, err,
                             "must be TENANT=USER,USER... with blanks between; a USER is a name, "
                             "or * for all");
}

static int check_together(struct config *config, struct err *err)
{
    char limit[96];

    if (!settings_given(&config->settings, CONFIG_ROOT, "cluster_id"))
        return err_set(err, ERR_INVALID, "%s: cluster_id is missing", config->path);
    if (config->member_count == 0)
        return err_set(err, ERR_INVALID, "%s: members is missing; list at least one", config->path);
    if (config->restart_hook[0] != '\0' &&
        (config->restart_hook[0] != '/' || access(config->restart_hook, X_OK) != 0))
        return settings_complain(&config->settings, CONFIG_ROOT, "restart_hook", 0, err,
                                 "must be the absolute path of a program that ckptd's user can "
                                 "run");
    if (check_tenant_admins(config, err) != 0)
        return -1;
    if (check_tls(config, err) != 0 || check_backups(config, err) != 0)
        return -1;
    for (size_t i = 0; i < config->member_count; i++) {
        if (check_member(config, i, err) != 0)
            return -1;
    }
    snprintf(limit, sizeof(limit), "must be at most a third of timers.election_ms, %" PRIu64 " ms",
             config->election_ms);
    if (config->heartbeat_ms * 3 > config->election_ms)
        return settings_complain(&config->settings, CONFIG_TIMERS, "heartbeat", 0, err, limit);
#define X(least, most)                                                                             \
    if (config->policy.most < config->policy.least)                                                \
        return settings_complain(&config->settings, CONFIG_POLICY, #most, 0, err,                  \
                                 "must not be below policy." #least);
    FSM_POLICY_ORDERED(X)
#undef X
    if (config_take_htcondor(config, err) != 0 || check_targets(config, err) != 0 ||
        check_telemetry(config, err) != 0)
        return -1;
    return check_stores(config, err);
}

bool config_overlap(const struct config *config, size_t i, size_t *ret_other)
{
    for (size_t j = 0; j < i; j++) {
        if (text_is_below(config->targets[j].prefix, config->targets[i].prefix) ||
            text_is_below(config->targets[i].prefix, config->targets[j].prefix)) {
            *ret_other = j;
            return true;
        }
    }
    return false;
}

int config_check_bootstrap(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->member_count; i++)
        if (id_is_number(config->members[i].name))
            return err_set(err, ERR_INVALID,
                           "%s: members has the name %s, which reads as a member's id where either "
                           "can be given: give it a letter as well, as in n%s",
                           config->path, config->members[i].name, config->members[i].name);
    if (config->member_count % 2 == 1)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "%s: members has %zu entries; begin a cluster with 1, 3 or 5: an even number only "
        "lowers availability",
        config->path, config->member_count);
}

/* ---- flags ---- */

static int apply_values(struct config *config, const struct config_flags *flags, struct err *err)
{
    if (settings_set_flag(&config->settings, "data_dir", "--data-dir", flags->data_dir, err) != 0)
        return -1;
    return settings_set_flag(&config->settings, "insecure", "--insecure",
                             flags->insecure ? "yes" : NULL, err);
}

static int find_self(struct config *config, const struct config_flags *flags, struct err *err)
{
    char host[256] = "";
    const char *name = flags->name;

    if (name == NULL && gethostname(host, sizeof(host) - 1) == 0)
        name = host;
    for (size_t i = 0; name != NULL && i < config->member_count; i++) {
        if (strcmp(config->members[i].name, name) == 0)
            config->self = &config->members[i];
    }
    if (config->self == NULL && flags->name != NULL)
        return err_set(err, ERR_INVALID,
                       "--name %s is not among the %zu members of %s (%s%s): give the name of one",
                       flags->name, config->member_count, config->path, config->members[0].name,
                       config->member_count > 1 ? ", ..." : "");
    return 0;
}

/* The file is the same on all members: "{id}" and "{name}" are this one's, as "{id}" is in the
 * paths of tls. Any other brace is a mistake that would become the name of a folder. Without a
 * member the text stays: it is only checked and shown then. */
static int name_path(struct config *config, unsigned section, const char *key, char **path,
                     struct err *err)
{
    static const char *const marks[] = {"{id}", "{name}"};
    struct buf named = {0};
    char id[24] = "";

    if (config->self != NULL)
        snprintf(id, sizeof(id), "%" PRIu64, config->self->id);
    for (const char *at = *path; *at != '\0';) {
        const char *value = config->self == NULL ? NULL : id;
        size_t known = 0;

        if (strncmp(at, marks[0], strlen(marks[0])) == 0) {
            known = strlen(marks[0]);
        } else if (strncmp(at, marks[1], strlen(marks[1])) == 0) {
            known = strlen(marks[1]);
            value = config->self == NULL ? NULL : config->self->name;
        } else if (*at == '{' || *at == '}') {
            buf_close(&named);
            return settings_complain(&config->settings, section, key, 0, err,
                                     "has a brace: {id} and {name} stand for the member's id and "
                                     "name, and nothing else does");
        }
        if (known > 0 && value != NULL)
            buf_append(&named, value, strlen(value));
        else
            buf_append(&named, at, known > 0 ? known : 1);
        at += known > 0 ? known : 1;
    }
    buf_append(&named, "", 1);
    free(*path);
    *path = check_strdup((const char *)named.bytes);
    buf_close(&named);
    return 0;
}

static int name_paths(struct config *config, struct err *err)
{
    if (name_path(config, CONFIG_ROOT, "data_dir", &config->data_dir, err) != 0)
        return -1;
    return name_path(config, CONFIG_AUDIT, "key", &config->audit_key, err);
}

/* ---- life ---- */

static struct config *config_new(const char *path)
{
    struct config *config = check_calloc(1, sizeof(*config));

    settings_init(&config->settings, &config_table, config, path);
    config->path = config->settings.path;
    return config;
}

/* What was read is checked; it is freed when something is wrong. */
static int config_finish(struct config *config, int status, const struct config_flags *flags,
                         struct config **ret_config, struct err *err)
{
    if (status != 0 || apply_values(config, flags, err) != 0 || check_together(config, err) != 0 ||
        find_self(config, flags, err) != 0 || name_paths(config, err) != 0) {
        config_free(config);
        return -1;
    }
    config->policy.zeros = fsm_policy_zeros(&config->policy);
    *ret_config = config;
    return 0;
}

int config_parse(const char *path, const char *text, size_t length,
                 const struct config_flags *flags, struct config **ret_config, struct err *err)
{
    struct config *config = config_new(path);

    return config_finish(config, settings_parse(&config->settings, text, length, err), flags,
                         ret_config, err);
}

int config_load(const char *path, const struct config_flags *flags, struct config **ret_config,
                struct err *err)
{
    struct config *config = config_new(path);

    return config_finish(config, settings_load(&config->settings, err), flags, ret_config, err);
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    settings_close(&config->settings);
    free(config);
}

void config_print(const struct config *config, FILE *stream)
{
    settings_print(&config->settings, stream);
}

void config_fill_initial(const struct config *config, Ckpt__Log__V1__ClusterInit *ret_initial,
                         Ckpt__V1__TargetSpec **ret_targets, Ckpt__Log__V1__MemberFacts *ret_facts)
{
    ckpt__log__v1__cluster_init__init(ret_initial);
    ret_initial->cluster_id = config->cluster_id;
    ret_initial->epoch = 1;
    ret_initial->policy = (Ckpt__V1__Policy *)(uintptr_t)&config->policy;
    ret_initial->n_targets = config->target_count;
    ret_initial->targets = ret_targets;
    for (size_t i = 0; i < config->target_count; i++)
        ret_targets[i] = (Ckpt__V1__TargetSpec *)(uintptr_t)&config->targets[i];
    ckpt__log__v1__member_facts__init(ret_facts);
    ret_facts->member_id = config->self->id;
    ret_facts->name = config->self->name;
    ret_facts->api_address = config->self->api;
    ret_facts->raft_address = config->self->raft;
    ret_facts->version = (char *)(uintptr_t)build_text;
}
