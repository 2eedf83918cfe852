/* The keys of the agent's configuration, and how their values go together. See config.h. */
#include "src/agent/daemon/config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/daemon/config_htcondor.h"
#include "src/agent/node/platform.h"
#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/follow.h"
#include "src/serve/tenant_table.h"

enum {
    HEARTBEAT_MIN_MS = 100,
    HEARTBEAT_MAX_MS = 600000,
    WORKER_IDLE_MAX_MS = 3600000,
    PROBE_MAX_BYTES = 60
};

#define COPIES_MOST (UINT64_C(1) << 60)
#define TEXT(section, name, member, initial)                                                       \
    {                                                                                              \
        section, &settings_path, name, offsetof(struct agent_config, member), 0,                   \
            AGENT_TEXT_MAX_BYTES, initial                                                          \
    }

#define HTCONDOR(name) TEXT(AGENT_HTCONDOR, #name, htcondor.name, ""),
#define STORE(kind, name, member, min, max, initial)                                               \
    {AGENT_STORES, kind, name, offsetof(struct s3_store_item, member), min, max, initial},

/* clang-format off */
static const struct settings_row rows[] = {
    TEXT(AGENT_ROOT, "brokers", brokers, ""),
    TEXT(AGENT_ROOT, "state_dir", state_dir, "/var/lib/ckpt-agent"),
    TEXT(AGENT_ROOT, "socket", socket, "/run/ckpt/agent.sock"),
    TEXT(AGENT_ROOT, "http", http, ""),
    {AGENT_ROOT, &settings_count, "heartbeat_ms", offsetof(struct agent_config, heartbeat_ms), HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS, "10s"},
    {AGENT_ROOT, &settings_count, "worker_idle_ms", offsetof(struct agent_config, worker_idle_ms),
     0, WORKER_IDLE_MAX_MS, "30s"},
    {AGENT_ROOT, &settings_level, "log_level", offsetof(struct agent_config, log_level), 0, 0,
     "info"},
    {AGENT_ROOT, &settings_log_format, "log_format", offsetof(struct agent_config, log_format), 0,
     0, "logfmt"},
    TEXT(AGENT_TLS, "ca", tls_ca, ""),
    TEXT(AGENT_TLS, "cert", tls_cert, ""),
    TEXT(AGENT_TLS, "key", tls_key, ""),
    TEXT(AGENT_ROOT, "sysfs", sysfs, "/sys"),
    TEXT(AGENT_ROOT, "cgroup", cgroup, "auto"),
    TEXT(AGENT_ROOT, "machine", machine, ""),
    TEXT(AGENT_ROOT, "os", os, ""),
    TEXT(AGENT_ROOT, "domain", domain, ""),
    TEXT(AGENT_ROOT, "node_probe", node_probe, ""),
    TEXT(AGENT_ROOT, "owners_tenants", owners_tenants, ""),
    {AGENT_ROOT, &settings_yes_no, "insecure", offsetof(struct agent_config, insecure), 0, 0, "no"},
    {AGENT_COPIES, &settings_count, "max_bytes", offsetof(struct agent_config, copies_max_bytes), 0,
     COPIES_MOST, "68719476736"},
    {AGENT_COPIES, &settings_count, "keep_free_bytes",
     offsetof(struct agent_config, copies_keep_free_bytes), 0, COPIES_MOST, "1073741824"},
    TEXT(AGENT_MEMORY, "path", memory_path, ""),
    {AGENT_MEMORY, &settings_count, "max_bytes", offsetof(struct agent_config, memory_max_bytes), 0,
     COPIES_MOST, "0"},
    {AGENT_MEMORY, &settings_count, "user_max_bytes",
     offsetof(struct agent_config, memory_user_max_bytes), 0, COPIES_MOST, "0"},
    {AGENT_ROOT, &settings_yes_no, "owners_register", offsetof(struct agent_config, owners_register), 0, 0, "no"},
    S3_STORE_FIELDS(STORE)
    HTCONDOR_NAMES(HTCONDOR)
};
/* clang-format on */

static const struct settings_section sections[AGENT_SECTION_COUNT] = {
    [AGENT_ROOT] = {.name = ""},
    [AGENT_TLS] = {.name = "tls"},
    [AGENT_COPIES] = {.name = "local_copies"},
    [AGENT_MEMORY] = {.name = "memory"},
    [AGENT_HTCONDOR] = {.name = "htcondor"},
    [AGENT_STORES] = {.name = "s3",
                      .items_max = S3_STORES_MAX,
                      .item_bytes = sizeof(struct s3_store_item),
                      .items_offset = offsetof(struct agent_config, stores),
                      .count_offset = offsetof(struct agent_config, store_count)}};
static const struct settings_table table = {.sections = sections,
                                            .section_count = AGENT_SECTION_COUNT,
                                            .rows = rows,
                                            .row_count = ARRAY_COUNT(rows),
                                            .may_be_empty = true};

void agent_config_init(struct agent_config *config, const char *path)
{
    *config = (struct agent_config){.heartbeat_ms = 0};
    settings_init(&config->settings, &table, config, path);
}

void agent_config_close(struct agent_config *config)
{
    settings_close(&config->settings);
}

/* By the reader that will dial them; nothing is dialled here. */
static int check_brokers(const char *brokers, struct err *err)
{
    struct rpc_follow *follow;

    if (rpc_follow_new(NULL, brokers, NULL, &follow, err) != 0)
        return err_wrap(err, "brokers");
    rpc_follow_free(follow);
    return 0;
}

static int check_http(const struct agent_config *config, struct err *err)
{
    char host[AGENT_TEXT_MAX_BYTES];
    uint64_t port;

    if (config->http[0] == '\0')
        return 0;
    if (address_split(config->http, host, sizeof(host), &port) != 0 || port < 1 ||
        port > UINT16_MAX)
        return err_set(err, ERR_INVALID,
                       "http is \"%.64s\", it must be an IP address and a port from 1 to %d",
                       config->http, UINT16_MAX);
    if (config->insecure || address_is_loopback(config->http))
        return 0;
    return err_set(err, ERR_INVALID,
                   "http is \"%s\", not a loopback address, and this port has no TLS: everyone "
                   "who reaches it reads the metrics; set 'insecure: yes' (--insecure) to "
                   "accept that",
                   config->http);
}

static int check_stores(const struct agent_config *config, struct err *err)
{
    struct s3_mistake mistake;
    struct err problem;

    if (s3_stores_check(config->stores, config->store_count, &mistake, &problem) == 0)
        return 0;
    return settings_complain(&config->settings, AGENT_STORES, mistake.key, mistake.item, err,
                             problem.text);
}

static int check_platform(const char *key, const char *text, struct err *err)
{
    if (platform_text_valid(text))
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s is \"%.80s\", %zu bytes; it must be at most %d printable characters of "
                   "ASCII, the same on all nodes that restore each other's checkpoints",
                   key, text, strlen(text), PLATFORM_TEXT_MAX);
}

static int check_domain(const char *domain, struct err *err)
{
    if (domain[0] == '\0' || id_valid(domain))
        return 0;
    return err_set(err, ERR_INVALID,
                   "domain is \"%.140s\", it must be " ID_FORM ", the domain of a storage target "
                   "(ckptctl targets -o wide)",
                   domain);
}

/* A name would be looked up while the node is silent, and a name server that is away would speak
 * against the node. */
static int check_probe(const char *probe, struct err *err)
{
    char host[AGENT_TEXT_MAX_BYTES], *end;
    struct in6_addr any;
    uint64_t port = strtoul(probe, &end, 10);
    bool numeric = true;

    if (probe[0] == '\0' || strcmp(probe, "off") == 0)
        return 0;
    if (*end != '\0')
        numeric = strlen(probe) < PROBE_MAX_BYTES &&
                  address_split(probe, host, sizeof(host), &port) == 0 &&
                  inet_pton(strchr(host, ':') != NULL ? AF_INET6 : AF_INET, host, &any) == 1;
    if (numeric && port >= 1 && port <= UINT16_MAX)
        return 0;
    return err_set(err, ERR_INVALID,
                   "node_probe is \"%.80s\", it must be off, a port from 1 to %d that answers "
                   "while the node is up, as 22, or an IP address and a port, as 10.0.0.7:22",
                   probe, UINT16_MAX);
}

static int check_memory(const struct agent_config *config, struct err *err)
{
    const char *path = config->memory_path;
    size_t length = strlen(path);

    if (length == 0 && config->memory_max_bytes == 0)
        return 0;
    if (length < 2 || path[0] != '/' || path[length - 1] == '/' ||
        length > AGENT_MEMORY_PATH_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "memory.path is \"%.300s\", it must be an absolute path of at most %d bytes "
                       "on a tmpfs, without a slash at its end",
                       path, AGENT_MEMORY_PATH_MAX_BYTES);
    if (config->memory_max_bytes == 0)
        return err_set(err, ERR_INVALID,
                       "memory.max_bytes is 0, it must be how many bytes of the node's memory "
                       "checkpoints may take at %s, as 64GiB",
                       path);
    return 0;
}

int agent_config_check(struct agent_config *config, struct err *err)
{
    if (agent_config_take_htcondor(config, err) != 0)
        return -1;
    if (config->brokers[0] == '\0')
        return err_set(err, ERR_INVALID,
                       "brokers is missing: \"host:port,host:port,...\" of the control nodes");
    if (check_brokers(config->brokers, err) != 0)
        return -1;
    if ((config->tls_ca[0] != '\0') != (config->tls_cert[0] != '\0') ||
        (config->tls_ca[0] != '\0') != (config->tls_key[0] != '\0'))
        return err_set(err, ERR_INVALID, "tls takes all of ca, cert and key");
    if (config->state_dir[0] != '/')
        return err_set(err, ERR_INVALID, "state_dir is \"%s\", it must be an absolute path",
                       config->state_dir);
    if (config->socket[0] != '/' || strlen(config->socket) > AGENT_SOCKET_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "socket is \"%s\", it must be an absolute path of at most %d bytes",
                       config->socket, AGENT_SOCKET_MAX_BYTES);
    if (strcmp(config->cgroup, "auto") != 0 && strcmp(config->cgroup, "off") != 0 &&
        config->cgroup[0] != '/')
        return err_set(err, ERR_INVALID,
                       "cgroup is \"%s\", it must be auto, off or the absolute path of a control "
                       "group that the agent may write to",
                       config->cgroup);
    if (check_platform("machine", config->machine, err) != 0 ||
        check_platform("os", config->os, err) != 0 || check_domain(config->domain, err) != 0 ||
        check_probe(config->node_probe, err) != 0 ||
        tenant_table_check("owners_tenants", config->owners_tenants, err) != 0 ||
        check_memory(config, err) != 0 || check_stores(config, err) != 0)
        return -1;
    return check_http(config, err);
}
