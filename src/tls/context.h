/* One program's certificate, key and CA: what new TLS connections are made with.
 *
 * Flow     tls_context_new() reads the three files and checks them together; tls_context_reload()
 *          does it again and swaps only when all is right. Connections keep what they were made
 *          with. tls_context_poll() says when the files changed.
 * Shapes   owned by the program, outlives every engine made from it.
 * Units    seconds since the epoch.
 * Errors   names the file, what is wrong with it and what to do. A failed reload leaves everything
 *          as it was.
 * Absent   certificate revocation lists: certificates are short-lived, or the CA is replaced.
 *          Encrypted keys. TLS below 1.3, renegotiation, session tickets, early data.
 */
#ifndef CKPT_TLS_CONTEXT_H
#define CKPT_TLS_CONTEXT_H

#include "src/tls/identity.h"

struct tls_context;

/* Paths of PEM files; copied. */
struct tls_files {
    const char *ca;   /* certificates that are trusted; two of them while one CA replaces another */
    const char *cert; /* own certificate, intermediate ones after it */
    const char *key;  /* own key; refused when others may read it */
};

/* own: whom the certificate must name; NULL or kind TLS_NOBODY: anybody; cluster "": of any
 * cluster. */
int tls_context_new(const struct tls_files *files, const struct tls_identity *own,
                    struct tls_context **ret_context, struct err *err);
void tls_context_free(struct tls_context *context); /* NULL allowed */
int tls_context_reload(struct tls_context *context, struct err *err);
/* True once per change: the files are others than those last read, and as they were at the previous
 * call, so that nobody is still writing them. */
bool tls_context_poll(struct tls_context *context);

const struct tls_identity *tls_context_identity(const struct tls_context *context);
/* When the own certificate ends, and the first of the CA's certificates above it. */
int64_t tls_context_expiry(const struct tls_context *context);
int64_t tls_context_ca_expiry(const struct tls_context *context);
/* Counts successful loads: 1 after tls_context_new(). */
uint64_t tls_context_generation(const struct tls_context *context);

#endif
