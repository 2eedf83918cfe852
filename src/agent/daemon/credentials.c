/* The agent's certificate. See credentials.h. */
#include "src/agent/daemon/credentials.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/text.h"

static void reloaded(void *data)
{
    const struct credentials *credentials = data;

    log_info("tls_reloaded",
             "certificate_expires_s=%" PRId64 " ca_expires_s=%" PRId64
             " text=\"new connections use it\"",
             tls_context_expiry(credentials->context), tls_context_ca_expiry(credentials->context));
}

static void failed(void *data, const struct err *err)
{
    (void)data;
    log_error("tls_reload_failed", "text=\"%s\" remark=\"the old certificate stays in use\"",
              err->text);
}

static void expiring(void *data, const char *what, int64_t left_s)
{
    (void)data;
    log_warning("tls_expiring",
                "what=%s days_left=%" PRId64
                " text=\"the control nodes refuse this agent from then on: ckptctl tls issue\"",
                what, left_s / 86400);
}

/* "{name}" stands for the node's name, so that all nodes have the same configuration. */
static int expand(const char *path, const char *node, char ret_path[CONFIG_TEXT_BYTES],
                  struct err *err)
{
    static const char place[] = "{name}";
    const char *at = strstr(path, place);
    int length;

    if (at == NULL)
        length = snprintf(ret_path, CONFIG_TEXT_BYTES, "%s", path);
    else
        length = snprintf(ret_path, CONFIG_TEXT_BYTES, "%.*s%s%s", (int)(at - path), path, node,
                          at + sizeof(place) - 1);
    return length < CONFIG_TEXT_BYTES
               ? 0
               : err_set(err, ERR_INVALID, "tls: a path is longer than %d bytes",
                         CONFIG_TEXT_BYTES - 1);
}

/* "127.0.0.1:7443,localhost:7444": on this host only. */
static bool stays_on_host(const char *brokers)
{
    char all[CONFIG_TEXT_BYTES];
    char *rest = all;

    text_copy(all, sizeof(all), brokers);
    for (char *one; (one = strsep(&rest, ", ")) != NULL;) {
        if (one[0] != '\0' && strncmp(one, "unix:", 5) != 0 && !address_is_loopback(one))
            return false;
    }
    return true;
}

/* The node's own certificate, as the configuration names it; NULL without tls. */
static int load_context(const struct agent_config *config, const char *node,
                        struct tls_context **ret_context, struct err *err)
{
    char cert[CONFIG_TEXT_BYTES], key[CONFIG_TEXT_BYTES];
    const struct tls_files files = {.ca = config->tls_ca, .cert = cert, .key = key};
    struct tls_identity own = {.kind = TLS_AGENT};

    *ret_context = NULL;
    if (config->tls_ca[0] == '\0')
        return 0;
    snprintf(own.name, sizeof(own.name), "%s", node);
    if (expand(config->tls_cert, node, cert, err) != 0 ||
        expand(config->tls_key, node, key, err) != 0)
        return -1;
    return tls_context_new(&files, &own, ret_context, err) == 0 ? 0 : err_wrap(err, "tls");
}

int credentials_check(const struct agent_config *config, const char *node, struct err *err)
{
    struct tls_context *context;

    if (load_context(config, node, &context, err) != 0)
        return -1;
    tls_context_free(context);
    return 0;
}

int credentials_open(struct credentials *credentials, const struct agent_config *config,
                     const char *node, const struct clock_ops *clock, struct err *err)
{
    const struct tls_watch_events events = {
        .data = credentials, .reloaded = reloaded, .failed = failed, .expiring = expiring};

    if (load_context(config, node, &credentials->context, err) != 0)
        return -1;
    if (credentials->context == NULL) {
        if (!stays_on_host(config->brokers))
            log_warning("insecure",
                        "text=\"TLS IS OFF: whoever answers at %s can end the jobs of this node; "
                        "set tls, or restrict the network\"",
                        config->brokers);
        return 0;
    }
    tls_watch_start(&credentials->watch, credentials->context, clock, &events);
    return 0;
}

void credentials_reload(struct credentials *credentials)
{
    if (credentials->context != NULL)
        tls_watch_reload(&credentials->watch);
}

void credentials_close(struct credentials *credentials)
{
    if (credentials->context == NULL)
        return;
    tls_watch_stop(&credentials->watch);
    tls_context_free(credentials->context);
    credentials->context = NULL;
}
