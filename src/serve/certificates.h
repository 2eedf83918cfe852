/* A daemon's certificates: loaded at its start, watched, read again, warned about.
 *
 * Flow     certificates_load(); certificates_watch() when the loop's clock is there;
 *          certificates_reload() when somebody asks.
 * Shapes   context NULL: no TLS; every function accepts it. The owner's struct does not move, and
 *          outlives its connections.
 * Errors   at the start a text names the file and the fault. Later errors are logged, and the old
 *          certificates stay in use.
 */
#ifndef CKPT_SERVE_CERTIFICATES_H
#define CKPT_SERVE_CERTIFICATES_H

#include "src/tls/watch.h"

/* As the configuration names them. */
struct certificates_files {
    const char *ca, *cert, *key; /* PEM; ca "": no TLS */
    /* `place` in each path, such as "{id}", is replaced by `name`: so all members have the same
     * configuration. */
    const char *place, *name;
};

struct certificates {
    struct tls_context *context; /* for new connections; NULL: no TLS */
    struct tls_watch watch;
    const char *whose, *renewal; /* for warnings: "n1", "issue replica ID --replace" */
    void (*changed)(void *data); /* a reload has succeeded or failed; NULL allowed */
    void *data;
};

/* Reads the files once, at the start: they must be of `own` (tls_context_new() has the other
 * checks). The caller sets all fields but the context, before certificates_watch(). 0, with the
 * context NULL when the configuration names no CA. Or -1 with err, which begins with "tls: ": the
 * daemon should not start. */
int certificates_load(struct certificates *certificates, const struct certificates_files *files,
                      const struct tls_identity *own, struct err *err);
/* Looks at the files once a second from now on, on the clock's loop. It logs tls_reloaded,
 * tls_reload_failed and tls_expiring, and calls changed(). Without TLS it does nothing. */
void certificates_watch(struct certificates *certificates, const struct clock_ops *clock);
/* Reads the files now, for a SIGHUP, after certificates_watch(); open connections keep the old
 * certificates. */
void certificates_reload(struct certificates *certificates);
/* No more looking; connections go on. */
void certificates_unwatch(struct certificates *certificates);
/* Call it when all connections are closed. A second call does nothing. */
void certificates_close(struct certificates *certificates);

#endif
