/* The identity in a certificate: the one URI "ckpt://CLUSTER/KIND/NAME" among its subject
 * alternative names. A scheduler's may end with "/TENANT": it is for the jobs of this tenant alone.
 * A member of a build that knows no tenants there takes it for nobody.
 *
 * The project knows a peer only by its certificate, never by its address or host name. The kind
 * decides what the peer may do (broker/api/access.h). The name is the node or the member.
 *
 * Flow     parse the peer's identity; compare it with the expected one; format the identity of a
 *          new certificate.
 * Shapes   caller's storage, no heap. CLUSTER and NAME are id_valid(); NAME of a replica is its
 *          member id in decimal.
 * Errors   ERR_INVALID with the text and the form that it must have.
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
    TLS_AUDITOR,   /* reads everything, and changes nothing */
    TLS_MONITOR,   /* scrapes metrics, and calls nothing */
    TLS_KIND_COUNT
};

/* A value: may be copied. With TLS_NOBODY the other fields are empty. */
struct tls_identity {
    enum tls_kind kind;
    char cluster[ID_MAX_BYTES + 1];
    char name[ID_MAX_BYTES + 1];
    char tenant[ID_MAX_BYTES + 1]; /* of a scheduler; "": of all tenants */
    uint64_t member_id;            /* of a replica, else 0 */
};

/* "ckpt://" cluster "/" kind "/" name "/" tenant */
enum { TLS_IDENTITY_TEXT_BYTES = 7 + 9 + 3 * (ID_MAX_BYTES + 1) + 1 };

/* text need not end with NUL; a NUL inside is refused. The error's text shows unprintable bytes as
 * '?'. 0, or -1 with ERR_INVALID. */
int tls_identity_parse(const char *text, size_t length, struct tls_identity *ret_identity,
                       struct err *err);
/* Makes an identity of checked parts; kind must be known and not TLS_NOBODY. -1 with ERR_INVALID:
 * the text names the wrong part and its form. */
int tls_identity_make(const char *cluster, enum tls_kind kind, const char *name,
                      struct tls_identity *ret_identity, struct err *err);
/* Narrows a scheduler's identity to a tenant. -1 with ERR_INVALID: it is of another kind, or the
 * tenant is no id. */
int tls_identity_narrow(struct tls_identity *identity, const char *tenant, struct err *err);
/* "" for nobody. Returns text. */
char *tls_identity_format(const struct tls_identity *identity, char text[TLS_IDENTITY_TEXT_BYTES]);
/* True: kind, cluster, name and tenant are the same. */
bool tls_identity_equal(const struct tls_identity *a, const struct tls_identity *b);

const char *tls_kind_name(enum tls_kind kind);  /* "replica"; "nobody" */
enum tls_kind tls_kind_parse(const char *name); /* TLS_NOBODY: unknown */

#endif
