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
    /* What stands for name in them, such as "{id}": so all members have the same configuration. */
    const char *place, *name;
};

struct certificates {
    struct tls_context *context;
    struct tls_watch watch;
    const char *whose, *renewal; /* for warnings: "n1", "issue replica ID --replace" */
    void (*changed)(void *data); /* they were read again, or could not be; NULL: nobody asks */
    void *data;
};

/* They must be of `own`. All but the context is the caller's to set. */
int certificates_load(struct certificates *certificates, const struct certificates_files *files,
                      const struct tls_identity *own, struct err *err);
void certificates_watch(struct certificates *certificates, const struct clock_ops *clock);
void certificates_reload(struct certificates *certificates);
/* No more looking; connections go on. */
void certificates_unwatch(struct certificates *certificates);
/* Connections are closed. Again: harmless. */
void certificates_close(struct certificates *certificates);

#endif
