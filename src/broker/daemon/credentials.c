/* TLS of a ckptd. See credentials.h. */
#include "src/broker/daemon/credentials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/access.h"
#include "src/broker/daemon/metrics.h"
#include "src/net/tls_network.h"
#include "src/tls/watch.h"

struct credentials {
    struct broker *broker;
    struct tls_context *context;
    struct tls_network network;
    struct tls_watch watch;
    uint64_t log_tokens; /* lines that may be written now */
    uint64_t log_filled_ms;
    uint64_t left_out;
};

/* ---- what is logged ---- */

/* An attacker, or a thousand agents with a wrong certificate, must not fill the disk. */
static bool may_log(struct credentials *credentials)
{
    uint64_t now_ms = broker_monotonic_ms(credentials->broker);
    uint64_t fresh = (now_ms - credentials->log_filled_ms) / CREDENTIALS_LOG_MS;

    if (fresh > 0) {
        credentials->log_filled_ms += fresh * CREDENTIALS_LOG_MS;
        credentials->log_tokens += fresh;
        if (credentials->log_tokens > CREDENTIALS_LOG_BURST)
            credentials->log_tokens = CREDENTIALS_LOG_BURST;
    }
    if (credentials->log_tokens == 0) {
        credentials->left_out++;
        return false;
    }
    credentials->log_tokens--;
    return true;
}

static void report_refused(struct credentials *credentials, const char *port, const char *address,
                           const char *text)
{
    metrics_add(credentials->broker->metrics, METRIC_TLS_REFUSED, port, NULL, 1);
    if (!may_log(credentials))
        return;
    log_warning("tls_refused", "port=%s peer=%s left_out=%" PRIu64 " text=\"%s\"", port, address,
                credentials->left_out, text);
    credentials->left_out = 0;
}

static void client_refused(void *data, const char *address, const char *text)
{
    report_refused(data, "api", address, text);
}

static void member_refused(void *data, const char *address, const char *text)
{
    report_refused(data, "raft", address, text);
}

static bool client_allowed(void *data, const struct rpc_peer *peer, const char *path, char *text,
                           size_t size)
{
    struct credentials *credentials = data;

    if (access_allowed(credentials->broker->config->cluster_id, peer, path, text, size))
        return true;
    if (may_log(credentials)) {
        log_warning("access_denied", "peer=%s left_out=%" PRIu64 " text=\"%s\"", peer->address,
                    credentials->left_out, text);
        credentials->left_out = 0;
    }
    return false;
}

/* ---- certificates ---- */

static void publish(const struct credentials *credentials)
{
    struct broker *broker = credentials->broker;
    struct broker_counters *counters = &broker->counters;

    counters->tls_expiry_s = tls_context_expiry(credentials->context);
    counters->tls_ca_expiry_s = tls_context_ca_expiry(credentials->context);
    counters->tls_reload_failed = credentials->watch.failing;
    metrics_set(broker->metrics, METRIC_TLS_EXPIRY, "own", NULL, (double)counters->tls_expiry_s);
    metrics_set(broker->metrics, METRIC_TLS_EXPIRY, "ca", NULL, (double)counters->tls_ca_expiry_s);
    metrics_set(broker->metrics, METRIC_TLS_RELOAD_FAILED, NULL, NULL, credentials->watch.failing);
}

static void reloaded(void *data)
{
    struct credentials *credentials = data;

    publish(credentials);
    log_info("tls_reloaded",
             "certificate_expires_s=%" PRId64 " ca_expires_s=%" PRId64
             " text=\"new connections use it\"",
             tls_context_expiry(credentials->context), tls_context_ca_expiry(credentials->context));
    network_tls_recheck(&credentials->network);
}

static void failed(void *data, const struct err *err)
{
    publish(data);
    log_error("tls_reload_failed", "text=\"%s\" remark=\"the old certificates stay in use\"",
              err->text);
}

static void expiring(void *data, const char *what, int64_t left_s)
{
    const struct config *config = ((const struct credentials *)data)->broker->config;

    log_warning("tls_expiring",
                "what=%s days_left=%" PRId64 " text=\"the %s of %s %s; connections are refused "
                "from then on: ckptctl tls %s\"",
                what, left_s / 86400, what, config->self->name,
                left_s < 0 ? "has ended" : "ends soon",
                strcmp(what, "CA") == 0 ? "init in a new folder" : "issue replica ID --replace");
}

/* "{id}" stands for the member's id, so that all members have the same configuration. */
static char *expand(const struct config *config, const char *path)
{
    static const char place[] = "{id}";
    struct buf text;
    const char *at;
    size_t length;

    buf_init(&text);
    while ((at = strstr(path, place)) != NULL) {
        buf_append(&text, path, (size_t)(at - path));
        buf_printf(&text, "%" PRIu64, config->self->id);
        path = at + sizeof(place) - 1;
    }
    buf_append(&text, path, strlen(path) + 1);
    return (char *)buf_take(&text, &length);
}

static int load(const struct config *config, struct tls_context **ret_context, struct err *err)
{
    char *ca = expand(config, config->tls_ca), *cert = expand(config, config->tls_cert),
         *key = expand(config, config->tls_key);
    const struct tls_files files = {.ca = ca, .cert = cert, .key = key};
    struct tls_identity own;
    char id[24];
    int status;

    snprintf(id, sizeof(id), "%" PRIu64, config->self->id);
    status = tls_identity_make(config->cluster_id, TLS_REPLICA, id, &own, err);
    if (status == 0)
        status = tls_context_new(&files, &own, ret_context, err);
    free(ca);
    free(cert);
    free(key);
    return status == 0 ? 0 : err_wrap(err, "tls");
}

/* ---- life ---- */

int credentials_check(const struct config *config, struct err *err)
{
    struct tls_context *context = NULL;
    int status = config->tls_ca[0] == '\0' ? 0 : load(config, &context, err);

    tls_context_free(context);
    return status;
}

int credentials_new(struct broker *broker, struct credentials **ret_credentials, struct err *err)
{
    struct credentials *credentials;

    *ret_credentials = NULL;
    if (broker->config->tls_ca[0] == '\0')
        return 0;
    credentials = check_calloc(1, sizeof(*credentials));
    credentials->broker = broker;
    credentials->log_tokens = CREDENTIALS_LOG_BURST;
    credentials->log_filled_ms = broker_monotonic_ms(broker);
    if (load(broker->config, &credentials->context, err) != 0) {
        free(credentials);
        return -1;
    }
    *ret_credentials = credentials;
    return 0;
}

void credentials_wrap(struct credentials *credentials, struct network_ops *network)
{
    if (credentials == NULL)
        return;
    credentials->network = (struct tls_network){.below = *network,
                                                .clock = &credentials->broker->clock,
                                                .context = credentials->context,
                                                .refused = member_refused,
                                                .data = credentials};
    network_tls_ops(&credentials->network, network);
}

void credentials_configure(struct credentials *credentials, struct rpc_server_config *config)
{
    if (credentials == NULL)
        return;
    config->tls = credentials->context;
    config->allowed = client_allowed;
    config->refused = client_refused;
    config->data = credentials;
}

void credentials_watch(struct credentials *credentials)
{
    const struct tls_watch_events events = {
        .data = credentials, .reloaded = reloaded, .failed = failed, .expiring = expiring};

    if (credentials == NULL)
        return;
    tls_watch_start(&credentials->watch, credentials->context, &credentials->broker->clock,
                    &events);
    publish(credentials);
}

void credentials_reload(struct credentials *credentials)
{
    if (credentials != NULL)
        tls_watch_reload(&credentials->watch);
}

void credentials_free(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    tls_watch_stop(&credentials->watch);
    tls_context_free(credentials->context);
    free(credentials);
}
