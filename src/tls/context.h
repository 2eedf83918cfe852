/* One program's certificate, key and CA: what new TLS connections are made with.
 *
 * Flow     tls_context_new() reads the three files and checks them together; tls_context_reload()
 *          does it again and swaps only when all is right. Connections keep what they were made
 *          with. tls_context_poll() says when the files changed.
 * Shapes   owned by the program, outlives every engine made from it. A context and its engines
 *          belong to one thread: nothing here is locked.
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

/* Reads the three files and checks what a peer would check: that the key is the certificate's, that
 * the certificate is in force by this host's clock, that the CA file vouches for it, and whom it
 * names. own: whom it must name; NULL or kind TLS_NOBODY: anybody but a CA; cluster "": of any
 * cluster. The files are read at once, at most 256 KiB each: a folder that can hang would hang the
 * caller.
 *
 * 0; the caller frees *ret_context. Or -1 with err: ERR_IO and ERR_INVALID name the file,
 * ERR_MISMATCH means that key and certificate, or certificate and `own`, do not belong together,
 * ERR_AUTH that others may read the key. Each text says what to do. */
int tls_context_new(const struct tls_files *files, const struct tls_identity *own,
                    struct tls_context **ret_context, struct err *err);
/* NULL allowed. Connections that were made from it keep OpenSSL's part of it and go on. */
void tls_context_free(struct tls_context *context);
/* The same again, with the same files and the same `own`. 0: connections from now on use what was
 * read, and the generation has grown by one; the owner of connections then asks
 * tls_engine_recheck() of those it has. -1: nothing has changed. */
int tls_context_reload(struct tls_context *context, struct err *err);
/* True once per change: the files are others than those last read, and as they were at the previous
 * call, so that nobody is still writing them. A file that is missing counts as a version of it.
 * A load that failed counts as one that read them, so broken files are reported once. */
bool tls_context_poll(struct tls_context *context);

/* Whom the own certificate names, of the last successful load; lives as long as the context, and
 * its contents change at a reload. */
const struct tls_identity *tls_context_identity(const struct tls_context *context);
/* When the own certificate ends, and the first of the CA's certificates above it. */
int64_t tls_context_expiry(const struct tls_context *context);
int64_t tls_context_ca_expiry(const struct tls_context *context);
/* Counts successful loads: 1 after tls_context_new(). */
uint64_t tls_context_generation(const struct tls_context *context);

#endif
