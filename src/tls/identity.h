/* Who a certificate speaks for: the one URI "ckpt://CLUSTER/KIND/NAME" among its subject
 * alternative names.
 *
 * A name in a certificate is the only thing that this project asks of a peer: not its address, not
 * its host name. The kind says what it may do (broker/api/access.h), the name for which node or as
 * which member it speaks.
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
    TLS_NOBODY,    /* no identity: of no kind, in no cluster */
    TLS_REPLICA,   /* a member of the cluster: ckptd */
    TLS_AGENT,     /* ckpt-agentd; the name is its node's */
    TLS_SCHEDULER, /* registers jobs and asks for nodes */
    TLS_OPERATOR,  /* a person or a tool that may do everything */
    TLS_AUTHORITY, /* the cluster's own CA; speaks to nobody */
    TLS_KIND_COUNT
};

/* A value: may be copied. Of TLS_NOBODY all else is empty. */
struct tls_identity {
    enum tls_kind kind;
    char cluster[ID_MAX_BYTES + 1];
    char name[ID_MAX_BYTES + 1];
    uint64_t member_id; /* of a replica, else 0 */
};

/* "ckpt://" cluster "/" kind "/" name */
enum { TLS_IDENTITY_TEXT_BYTES = 7 + ID_MAX_BYTES + 1 + 9 + 1 + ID_MAX_BYTES + 1 };

/* text need not end with NUL; one inside is refused. Bytes of a stranger are replaced by '?' in the
 * error's text where they could not be shown. 0, or -1 with ERR_INVALID. */
int tls_identity_parse(const char *text, size_t length, struct tls_identity *ret_identity,
                       struct err *err);
/* The identity of these parts, each checked; kind must be a known one and not TLS_NOBODY. -1 with
 * ERR_INVALID names the part and what it may hold. */
int tls_identity_make(const char *cluster, enum tls_kind kind, const char *name,
                      struct tls_identity *ret_identity, struct err *err);
/* "" for nobody. Returns text. */
char *tls_identity_format(const struct tls_identity *identity, char text[TLS_IDENTITY_TEXT_BYTES]);
/* Of one kind, cluster and name: the same party. */
bool tls_identity_equal(const struct tls_identity *a, const struct tls_identity *b);

const char *tls_kind_name(enum tls_kind kind);  /* "replica"; "nobody" */
enum tls_kind tls_kind_parse(const char *name); /* TLS_NOBODY: unknown */

#endif
