/* The agent's configuration. See config.h. */
#include "src/agent/daemon/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/text.h"
#include "src/rpc/follow.h"

enum { HEARTBEAT_MIN_MS = 100, HEARTBEAT_MAX_MS = 600000 };

enum key {
    KEY_BROKERS,
    KEY_STATE_DIR,
    KEY_SOCKET,
    KEY_HTTP,
    KEY_HEARTBEAT_MS,
    KEY_LOG_LEVEL,
    KEY_TLS_CA,
    KEY_TLS_CERT,
    KEY_TLS_KEY,
    KEY_SYSFS,
    KEY_INSECURE,
    KEY_OWNERS_REGISTER,
    KEY_COUNT
};
static const char *const key_names[KEY_COUNT] = {
    "brokers", "state_dir", "socket",  "http",  "heartbeat_ms", "log_level",
    "tls.ca",  "tls.cert",  "tls.key", "sysfs", "insecure",     "owners_register"};

void config_defaults(struct agent_config *ret_config)
{
    *ret_config = (struct agent_config){.state_dir = "/var/lib/ckpt-agent",
                                        .socket = "/run/ckpt/agent.sock",
                                        .sysfs = "/sys",
                                        .heartbeat_ms = 10000,
                                        .log_level = LOG_LEVEL_INFO};
}

static const char *nearest_key(const char *text)
{
    size_t best = 0;

    for (size_t i = 1; i < KEY_COUNT; i++) {
        if (text_distance(text, key_names[i]) < text_distance(text, key_names[best]))
            best = i;
    }
    return key_names[best];
}

static int set_text(char *ret_text, const char *key, const char *value, struct err *err)
{
    if (strlen(value) >= CONFIG_TEXT_BYTES)
        return err_set(err, ERR_INVALID, "%s is longer than %d bytes", key, CONFIG_TEXT_BYTES - 1);
    memcpy(ret_text, value, strlen(value) + 1);
    return 0;
}

static int set_heartbeat(struct agent_config *config, bool in_unit, const char *value,
                         struct err *err)
{
    const struct number_range range = {HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS};

    if ((in_unit ? number_parse_in_unit(NUMBER_DURATION, value, range, &config->heartbeat_ms, err)
                 : number_parse(NUMBER_DURATION, value, range, &config->heartbeat_ms, err)) != 0)
        return err_wrap(err, "heartbeat_ms is wrong");
    return 0;
}

static int set_choice(bool *ret_choice, const char *key, const char *value, struct err *err)
{
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
        return err_set(err, ERR_INVALID, "%s is %s, it must be yes or no", key, value);
    *ret_choice = strcmp(value, "yes") == 0;
    return 0;
}

static int set_key(struct agent_config *config, enum key key, bool in_unit, const char *value,
                   struct err *err)
{
    switch (key) {
    case KEY_BROKERS:
        return set_text(config->brokers, "brokers", value, err);
    case KEY_STATE_DIR:
        return set_text(config->state_dir, "state_dir", value, err);
    case KEY_SOCKET:
        return set_text(config->socket, "socket", value, err);
    case KEY_HTTP:
        return set_text(config->http, "http", value, err);
    case KEY_HEARTBEAT_MS:
        return set_heartbeat(config, in_unit, value, err);
    case KEY_LOG_LEVEL:
        if (log_parse_level(value, &config->log_level) != 0)
            return err_set(err, ERR_INVALID,
                           "log_level is %s, it must be debug, info, warning or error", value);
        return 0;
    case KEY_TLS_CA:
        return set_text(config->tls_ca, "tls.ca", value, err);
    case KEY_TLS_CERT:
        return set_text(config->tls_cert, "tls.cert", value, err);
    case KEY_TLS_KEY:
        return set_text(config->tls_key, "tls.key", value, err);
    case KEY_SYSFS:
        return set_text(config->sysfs, "sysfs", value, err);
    case KEY_INSECURE:
        return set_choice(&config->insecure, "insecure", value, err);
    case KEY_OWNERS_REGISTER:
        return set_choice(&config->owners_register, "owners_register", value, err);
    case KEY_COUNT:
        break;
    }
    CHECK_UNREACHABLE("key");
}

static int take_pair(struct agent_config *config, const char *key, const char *value,
                     unsigned *seen, struct err *err)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        bool whole = strcmp(key, key_names[i]) == 0;
        size_t stem;

        number_named(key_names[i], &stem);
        if (!whole && !(strlen(key) == stem && memcmp(key, key_names[i], stem) == 0))
            continue;
        if (*seen & 1u << i)
            return err_set(err, ERR_INVALID, "%s is given twice", key);
        *seen |= 1u << i;
        return set_key(config, (enum key)i, whole, value, err);
    }
    return err_set(err, ERR_INVALID, "unknown key \"%.64s\"; did you mean \"%s\"?", key,
                   nearest_key(key));
}

struct reading {
    yaml_document_t *document;
    struct agent_config *config;
    unsigned seen; /* bits of enum key */
    size_t line;
    struct err *err;
};

static int read_pair(struct reading *reading, const yaml_node_pair_t *pair, const char *section)
{
    const yaml_node_t *key = yaml_document_get_node(reading->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(reading->document, pair->value);
    char name[128];

    reading->line = key->start_mark.line + 1;
    if (key->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE)
        return err_set(reading->err, ERR_INVALID, "a plain key and a plain value are expected");
    snprintf(name, sizeof(name), "%s%.100s", section, (const char *)key->data.scalar.value);
    return take_pair(reading->config, name, (const char *)value->data.scalar.value, &reading->seen,
                     reading->err);
}

/* The mapping below "tls", or NULL. */
static const yaml_node_t *tls_mapping(const struct reading *reading, const yaml_node_pair_t *pair)
{
    const yaml_node_t *key = yaml_document_get_node(reading->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(reading->document, pair->value);

    return key->type == YAML_SCALAR_NODE && value->type == YAML_MAPPING_NODE &&
                   strcmp((const char *)key->data.scalar.value, "tls") == 0
               ? value
               : NULL;
}

static int read_root(struct reading *reading)
{
    const yaml_node_t *root = yaml_document_get_root_node(reading->document);

    if (root == NULL)
        return 0; /* an empty file: the defaults */
    reading->line = root->start_mark.line + 1;
    if (root->type != YAML_MAPPING_NODE)
        return err_set(reading->err, ERR_INVALID, "key: value lines are expected");
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *tls = tls_mapping(reading, pair);
        const yaml_node_pair_t *at = tls != NULL ? tls->data.mapping.pairs.start : pair;
        const yaml_node_pair_t *end = tls != NULL ? tls->data.mapping.pairs.top : pair + 1;

        for (; at < end; at++) {
            if (read_pair(reading, at, tls != NULL ? "tls." : "") != 0)
                return -1;
        }
    }
    return 0;
}

int config_parse(const char *name, const char *text, size_t length, struct agent_config *config,
                 struct err *err)
{
    yaml_parser_t parser;
    yaml_document_t document;
    struct reading reading = {.document = &document, .config = config, .err = err};
    int result;

    CHECK(yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    if (!yaml_parser_load(&parser, &document)) {
        result = err_set(err, ERR_INVALID, "%s:%zu: %s", name, parser.problem_mark.line + 1,
                         parser.problem == NULL ? "not YAML" : parser.problem);
    } else {
        result = read_root(&reading);
        if (result != 0)
            err_wrap(err, "%s:%zu", name, reading.line);
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return result;
}

int config_load(const char *path, struct agent_config *config, struct err *err)
{
    char text[CONFIG_FILE_MAX_BYTES];
    FILE *file = fopen(path, "re");
    size_t length;
    bool failed;

    if (file == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    length = fread(text, 1, sizeof(text), file);
    failed = ferror(file) != 0;
    fclose(file);
    if (failed || length == sizeof(text))
        return err_set(err, ERR_INVALID, "%s: not readable, or over %d bytes", path,
                       CONFIG_FILE_MAX_BYTES);
    return config_parse(path, text, length, config, err);
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
    char host[CONFIG_TEXT_BYTES];
    uint64_t port;

    if (config->http[0] == '\0')
        return 0;
    if (address_split(config->http, host, sizeof(host), &port) != 0 || port < 1 ||
        port > UINT16_MAX)
        return err_set(err, ERR_INVALID,
                       "http is \"%.64s\", it must be an IPv4 address and a port from 1 to %d",
                       config->http, UINT16_MAX);
    if (config->insecure || address_is_loopback(config->http))
        return 0;
    return err_set(err, ERR_INVALID,
                   "http is \"%s\", not a loopback address, and this port has no TLS: everyone "
                   "who reaches it reads the metrics; set 'insecure: yes' (--insecure) to "
                   "accept that",
                   config->http);
}

int config_check(const struct agent_config *config, struct err *err)
{
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
    if (config->socket[0] != '/' || strlen(config->socket) > CONFIG_SOCKET_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "socket is \"%s\", it must be an absolute path of at most %d bytes",
                       config->socket, CONFIG_SOCKET_MAX_BYTES);
    return check_http(config, err);
}
