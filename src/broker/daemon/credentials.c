/* TLS of a ckptd. See credentials.h. */
#include "src/broker/daemon/credentials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/revoked.h"
#include "src/base/check.h"
#include "src/broker/api/access.h"
#include "src/broker/api/service.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/keep/audit_key.h"
#include "src/broker/keep/denials.h"
#include "src/net/tls_network.h"
#include "src/serve/certificates.h"
#include "src/serve/keys.h"

/* The certificate in use by both ports, and how many lines may still be written about refusals. */
struct credentials {
    struct broker *broker;
    struct certificates certificates;
    struct tls_network network;
    struct tls_network pages; /* HTTPS; without a context: there are none */
    uint64_t log_tokens;      /* lines that may be written now */
    uint64_t log_filled_ms;
    uint64_t left_out;
    struct replica_observer observer;
    uint64_t revoked_hash; /* of the list that the context has */
};

_Static_assert((int)TLS_REVOKED_MAX == (int)FSM_REVOKED_MAX, "the whole list fits");
_Static_assert((int)TLS_SERIAL_BYTES > (int)FSM_SERIAL_MAX_BYTES, "each of them fits");

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

/* Every refusal is counted; not every one is logged. */
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

static void page_refused(void *data, const char *address, const char *text)
{
    report_refused(data, "http", address, text);
}

/* Asked before each call: the roles are those of the method's row. */
static bool client_allowed(void *data, const struct rpc_peer *peer, const char *path, char *text,
                           size_t size)
{
    struct credentials *credentials = data;
    const struct access_call called = {path, service_roles(path), service_beyond_tenant(path)};

    if (access_allowed(credentials->broker->config->cluster_id, peer, &called, text, size))
        return true;
    denials_note(credentials->broker->denials, peer, path, NULL);
    if (may_log(credentials)) {
        log_warning("access_denied", "peer=%s left_out=%" PRIu64 " text=\"%s\"", peer->address,
                    credentials->left_out, text);
        credentials->left_out = 0;
    }
    return false;
}

/* ---- certificates ---- */

/* Counters for Status, metrics for alert rules. */
static void publish_expiry(void *data)
{
    struct credentials *credentials = data;
    const struct tls_context *context = credentials->certificates.context;
    struct broker *broker = credentials->broker;
    struct broker_counters *counters = &broker->counters;

    counters->tls_expiry_s = tls_context_expiry(context);
    counters->tls_ca_expiry_s = tls_context_ca_expiry(context);
    counters->tls_reload_failed = credentials->certificates.watch.failing;
    metrics_set(broker->metrics, METRIC_TLS_EXPIRY, "own", NULL, (double)counters->tls_expiry_s);
    metrics_set(broker->metrics, METRIC_TLS_EXPIRY, "ca", NULL, (double)counters->tls_ca_expiry_s);
    metrics_set(broker->metrics, METRIC_TLS_RELOAD_FAILED, NULL, NULL, counters->tls_reload_failed);
}

static void recheck_all(struct credentials *credentials)
{
    network_tls_recheck(&credentials->network);
    if (credentials->pages.context != NULL)
        network_tls_recheck(&credentials->pages);
}

/* Connections that a new CA does not accept end now, not when they end by themselves. */
static void files_changed(void *data)
{
    struct credentials *credentials = data;

    publish_expiry(credentials);
    if (!credentials->certificates.watch.failing)
        recheck_all(credentials);
}

/* After each applied entry, and so at once where something was revoked: open connections with it
 * end. */
static void take_revoked(void *context)
{
    struct credentials *credentials = context;
    const struct fsm *fsm = replica_fsm(credentials->broker->replica);
    const char *serials[FSM_REVOKED_MAX];
    const struct fsm_revoked *revoked;
    size_t count = 0;

    if (fsm_revoked_hash(fsm) == credentials->revoked_hash)
        return;
    credentials->revoked_hash = fsm_revoked_hash(fsm);
    while ((revoked = fsm_revoked_at(fsm, count)) != NULL)
        serials[count++] = revoked->serial;
    tls_context_revoke(credentials->certificates.context, serials, count);
    recheck_all(credentials);
    log_info("revoked_taken", "certificates=%zu", count);
}

/* "{id}" stands for the member's id, so that all members have the same configuration. */
static int load_files(const struct config *config, struct certificates *certificates,
                      struct err *err)
{
    char id[24];
    const struct certificates_files files = {config->tls_ca, config->tls_cert, config->tls_key,
                                             "{id}", id};
    struct tls_identity own;

    snprintf(id, sizeof(id), "%" PRIu64, config->self->id);
    if (tls_identity_make(config->cluster_id, TLS_REPLICA, id, &own, err) != 0)
        return err_wrap(err, "tls");
    return certificates_load(certificates, &files, &own, err);
}

/* ---- life ---- */

int credentials_open_stores(const struct config *config, struct err *err)
{
    return s3_stores_open(config->stores, config->store_count, keys_told, err);
}

int credentials_check(const struct config *config, struct err *err)
{
    struct certificates certificates = {.context = NULL};
    struct sign_key *key;
    int status = config->tls_ca[0] == '\0' ? 0 : load_files(config, &certificates, err);

    tls_context_free(certificates.context);
    if (status != 0)
        return -1;
    status = credentials_open_stores(config, err);
    s3_stores_close();
    if (status == 0)
        status = audit_key_load(config, &key, err);
    if (status == 0)
        sign_key_free(key);
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
    credentials->certificates.whose = broker->config->self->name;
    credentials->certificates.renewal = "issue replica ID --replace";
    credentials->certificates.changed = files_changed;
    credentials->certificates.data = credentials;
    credentials->log_tokens = CREDENTIALS_LOG_BURST;
    credentials->log_filled_ms = broker_monotonic_ms(broker);
    if (load_files(broker->config, &credentials->certificates, err) != 0) {
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
                                                .context = credentials->certificates.context,
                                                .protocol = TLS_NETWORK_MEMBERS,
                                                .handshake_ms = TLS_NETWORK_MEMBERS_MS,
                                                .replicas_only = true,
                                                .refused = member_refused,
                                                .data = credentials};
    network_tls_ops(&credentials->network, network);
}

void credentials_wrap_pages(struct credentials *credentials, void (*wake)(void *data), void *data,
                            struct network_ops *network)
{
    credentials->pages = (struct tls_network){.below = *network,
                                              .clock = &credentials->broker->clock,
                                              .context = credentials->certificates.context,
                                              .protocol = "http/1.1",
                                              .handshake_ms = CREDENTIALS_PAGES_MS,
                                              .dates = true,
                                              .wake = wake,
                                              .wake_data = data,
                                              .refused = page_refused,
                                              .data = credentials};
    network_tls_ops(&credentials->pages, network);
}

bool credentials_pages_turn(struct credentials *credentials)
{
    network_tls_run(&credentials->pages);
    return network_tls_has_work(&credentials->pages);
}

void credentials_configure(struct credentials *credentials, struct rpc_server_config *config)
{
    if (credentials == NULL)
        return;
    config->tls = credentials->certificates.context;
    config->allowed = client_allowed;
    config->refused = client_refused;
    config->data = credentials;
}

void credentials_watch(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    certificates_watch(&credentials->certificates, &credentials->broker->clock);
    credentials->observer =
        (struct replica_observer){.context = credentials, .applied = take_revoked};
    replica_observe(credentials->broker->replica, &credentials->observer);
    take_revoked(credentials); /* of the snapshot that this member began with */
    publish_expiry(credentials);
}

void credentials_reload(struct credentials *credentials)
{
    if (credentials != NULL)
        certificates_reload(&credentials->certificates);
}

const struct tls_context *credentials_context(const struct credentials *credentials)
{
    return credentials == NULL ? NULL : credentials->certificates.context;
}

void credentials_free(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    if (credentials->pages.context != NULL)
        network_tls_close(&credentials->pages);
    certificates_close(&credentials->certificates);
    free(credentials);
}
