/* A daemon's certificates. See certificates.h. */
#include "src/serve/certificates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"

static void tell_owner(const struct certificates *certificates)
{
    if (certificates->changed != NULL)
        certificates->changed(certificates->data);
}

static void on_reloaded(void *data)
{
    const struct certificates *certificates = data;

    log_info("tls_reloaded",
             "certificate_expires_s=%" PRId64 " ca_expires_s=%" PRId64
             " text=\"new connections use it\"",
             tls_context_expiry(certificates->context),
             tls_context_ca_expiry(certificates->context));
    tell_owner(certificates);
}

static void on_failed(void *data, const struct err *err)
{
    log_error("tls_reload_failed", "text=\"%s\" remark=\"the old certificates stay in use\"",
              err->text);
    tell_owner(data);
}

static void on_expiring(void *data, const char *what, int64_t left_s)
{
    const struct certificates *certificates = data;

    log_warning("tls_expiring",
                "what=%s days_left=%" PRId64 " text=\"the %s of %s %s; connections are refused "
                "from then on: ckptctl tls %s\"",
                what, left_s / 86400, what, certificates->whose,
                left_s < 0 ? "has ended" : "ends soon",
                strcmp(what, "CA") == 0 ? "init in a new folder" : certificates->renewal);
}

static char *expand_path(const struct certificates_files *files, const char *path)
{
    struct buf text;
    const char *at;
    size_t length;

    buf_init(&text);
    while ((at = strstr(path, files->place)) != NULL) {
        buf_append(&text, path, (size_t)(at - path));
        buf_append(&text, files->name, strlen(files->name));
        path = at + strlen(files->place);
    }
    buf_append(&text, path, strlen(path) + 1);
    return (char *)buf_take(&text, &length);
}

int certificates_load(struct certificates *certificates, const struct certificates_files *files,
                      const struct tls_identity *own, struct err *err)
{
    char *ca = expand_path(files, files->ca), *cert = expand_path(files, files->cert),
         *key = expand_path(files, files->key);
    const struct tls_files expanded = {.ca = ca, .cert = cert, .key = key};
    int status = 0;

    certificates->context = NULL;
    if (ca[0] != '\0')
        status = tls_context_new(&expanded, own, &certificates->context, err);
    free(ca);
    free(cert);
    free(key);
    return status == 0 ? 0 : err_wrap(err, "tls");
}

void certificates_watch(struct certificates *certificates, const struct clock_ops *clock)
{
    const struct tls_watch_events events = {.data = certificates,
                                            .reloaded = on_reloaded,
                                            .failed = on_failed,
                                            .expiring = on_expiring};

    if (certificates->context != NULL)
        tls_watch_start(&certificates->watch, certificates->context, clock, &events);
}

void certificates_reload(struct certificates *certificates)
{
    if (certificates->context != NULL)
        tls_watch_reload(&certificates->watch);
}

void certificates_unwatch(struct certificates *certificates)
{
    tls_watch_stop(&certificates->watch);
}

void certificates_close(struct certificates *certificates)
{
    certificates_unwatch(certificates);
    tls_context_free(certificates->context);
    certificates->context = NULL;
}
