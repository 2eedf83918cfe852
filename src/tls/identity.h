/* Who a certificate speaks for: the one URI "ckpt://CLUSTER/KIND/NAME" among its subject
 * alternative names.
 *
 * Flow     parse what a peer's certificate holds; compare it with whom we expect; format what we
 *          issue.
 * Shapes   caller's storage, no heap. CLUSTER and NAME are id_valid(); NAME of a replica is its
 *          member id in decimal.
 * Errors   ERR_INVALID with the text and what it must look like.
 * Absent   DNS names and addresses: they are for clients that check host names, and name nobody
 *          here.
 */
#ifndef CKPT_TLS_IDENTITY_H
#define CKPT_TLS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/id.h"

enum tls_kind {
    TLS_NOBODY, /* no identity: of no kind, in no cluster */
    TLS_REPLICA,
    TLS_AGENT,
    TLS_SCHEDULER,
    TLS_OPERATOR,
    TLS_AUTHORITY, /* the cluster's own CA; speaks to nobody */
    TLS_KIND_COUNT
};

struct tls_identity {
    enum tls_kind kind;
    char cluster[ID_MAX_BYTES + 1];
    char name[ID_MAX_BYTES + 1];
    uint64_t member_id; /* of a replica, else 0 */
};

/* "ckpt://" cluster "/" kind "/" name */
enum { TLS_IDENTITY_TEXT_BYTES = 7 + ID_MAX_BYTES + 1 + 9 + 1 + ID_MAX_BYTES + 1 };

/* text need not end with NUL; one inside is refused. */
int tls_identity_parse(const char *text, size_t length, struct tls_identity *ret_identity,
                       struct err *err);
int tls_identity_make(const char *cluster, enum tls_kind kind, const char *name,
                      struct tls_identity *ret_identity, struct err *err);
/* "" for nobody. Returns text. */
char *tls_identity_format(const struct tls_identity *identity, char text[TLS_IDENTITY_TEXT_BYTES]);
bool tls_identity_equal(const struct tls_identity *a, const struct tls_identity *b);

const char *tls_kind_name(enum tls_kind kind);  /* "replica"; "nobody" */
enum tls_kind tls_kind_parse(const char *name); /* TLS_NOBODY: unknown */

#endif
