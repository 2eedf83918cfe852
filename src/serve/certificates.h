/* A daemon's certificates: loaded at its start, watched, read again, warned about.
 *
 * Flow     certificates_load(); certificates_watch() when the loop's clock is there;
 *          certificates_reload() when somebody asks.
 * Shapes   context NULL: without TLS; everything accepts that. The owner's struct does not move,
 *          and outlives its connections.
 * Errors   start: the file and what is wrong with it. Later: logged, the old certificates stay in
 *          use.
 */
#ifndef CKPT_SERVE_CERTIFICATES_H
#define CKPT_SERVE_CERTIFICATES_H

#include "src/tls/watch.h"

/* As the configuration names them. */
struct certificates_files {
    const char *ca, *cert, *key; /* PEM; ca "": no TLS */
    /* What stands for name in them, such as "{id}": so all members have the same configuration.
     * Each place in each path is replaced. */
    const char *place, *name;
};

struct certificates {
    struct tls_context *context; /* what connections are made with; NULL without TLS */
    struct tls_watch watch;
    const char *whose, *renewal; /* for warnings: "n1", "issue replica ID --replace" */
    void (*changed)(void *data); /* they were read again, or could not be; NULL: nobody asks */
    void *data;
};

/* Reads the files once, at the start: they must be of `own` (tls_context_new() says what else is
 * checked). All but the context is the caller's to set, before certificates_watch(). 0, with the
 * context NULL when the configuration names no CA; or -1 with err, which begins with "tls: ": the
 * daemon should not start. */
int certificates_load(struct certificates *certificates, const struct certificates_files *files,
                      const struct tls_identity *own, struct err *err);
/* Looks at the files once a second from now on, on the clock's loop. What it finds is logged
 * (tls_reloaded, tls_reload_failed, tls_expiring) and told by changed(). Without TLS nothing
 * happens. */
void certificates_watch(struct certificates *certificates, const struct clock_ops *clock);
/* Reads them now, as a SIGHUP asks for, after certificates_watch(); connections that are open keep
 * the old ones. */
void certificates_reload(struct certificates *certificates);
/* No more looking; connections go on. */
void certificates_unwatch(struct certificates *certificates);
/* Connections are closed. Again: harmless. */
void certificates_close(struct certificates *certificates);

#endif
