/* One program's certificate, key and CA, for its new TLS connections.
 *
 * Flow     tls_context_new() reads the three files and checks them together; tls_context_reload()
 *          does it again and swaps only when all is right. Connections keep the files that they
 *          began with. tls_context_poll() says when the files have changed.
 * Shapes   owned by the program, outlives every engine made from it. A context and its engines
 *          belong to one thread: nothing here is locked.
 * Units    seconds since the epoch.
 * Errors   a text names the file, the fault and the next step. A failed reload changes nothing.
 * Absent   revocation lists of a CA: whoever owns the context says which serial numbers are
 *          revoked. Encrypted keys. TLS below 1.3, renegotiation, session tickets, early data.
 */
#ifndef CKPT_TLS_CONTEXT_H
#define CKPT_TLS_CONTEXT_H

#include "src/tls/identity.h"

struct tls_context;

enum { TLS_REVOKED_MAX = 1024, TLS_SERIAL_BYTES = 48 };

/* Paths of PEM files; copied. */
struct tls_files {
    const char *ca;   /* trusted certificates; two of them while one CA replaces another */
    const char *cert; /* own certificate, intermediate ones after it */
    const char *key;  /* own key; refused when others may read it */
};

/* Reads the three files and checks them as a peer would. The key must be the certificate's. The
 * certificate must be in force by this host's clock, be signed by the CA, and name the right
 * identity. own: the identity; NULL or kind TLS_NOBODY: anybody but a CA; cluster "": of any
 * cluster. The call reads the files, at most 256 KiB each: a folder that hangs would hang the
 * caller.
 *
 * 0; the caller frees *ret_context. Or -1 with err: ERR_IO and ERR_INVALID name the file,
 * ERR_MISMATCH means that key and certificate, or certificate and `own`, do not belong together,
 * ERR_AUTH that others may read the key. Each text says what to do. */
int tls_context_new(const struct tls_files *files, const struct tls_identity *own,
                    struct tls_context **ret_context, struct err *err);
/* NULL allowed. Connections of the context keep OpenSSL's part of it and go on. */
void tls_context_free(struct tls_context *context);
/* The same again, with the same files and the same `own`. 0: connections from now on use the new
 * files, and the generation has grown by one; the owner of connections then calls
 * tls_engine_recheck() for each. -1: nothing has changed. */
int tls_context_reload(struct tls_context *context, struct err *err);
/* True once per change: the files differ from the last load, and are the same as at the previous
 * call, so nobody is still writing them. A missing file counts as a version. A failed load counts
 * as a load, so broken files are reported once. */
bool tls_context_poll(struct tls_context *context);

/* The identity in the own certificate of the last successful load; lives as long as the context,
 * and changes at a reload. */
const struct tls_identity *tls_context_identity(const struct tls_context *context);
/* The end of the own certificate, and of the first of the CA's certificates above it. */
int64_t tls_context_expiry(const struct tls_context *context);
int64_t tls_context_ca_expiry(const struct tls_context *context);
/* Certificates with one of these serial numbers (hexadecimal, a-f, two digits a byte) are not taken
 * from now on, in place of those said before; copied. The generation grows: the owner of
 * connections calls tls_engine_recheck() for each. At most TLS_REVOKED_MAX. */
void tls_context_revoke(struct tls_context *context, const char *const *serials, size_t count);
/* Counts successful loads, and lists of revoked ones: 1 after tls_context_new(). */
uint64_t tls_context_generation(const struct tls_context *context);

#endif
