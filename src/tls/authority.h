/* A small site's own CA: makes it, issues certificates with it, says what a certificate file holds.
 *
 * Flow     tls_authority_create() once: ca.crt, ca.key. tls_authority_issue() per host or person:
 *          KIND-NAME.crt and .key. tls_certificate_describe() reads one file.
 * Shapes   EC P-256, SHA-256; keys without passphrase, mode 0600; certificates begin TLS_BACKDATE_S
 *          before now, because clocks differ, and end with the CA at the latest.
 * Units    seconds.
 * Errors   ERR_REFUSED when a file exists that would be overwritten; ERR_INVALID for wrong names;
 *          ERR_IO.
 * Absent   revocation, intermediate CAs: bigger sites bring certificates of their own CA with the
 *          same URIs.
 * Source   RFC 5280.
 */
#ifndef CKPT_TLS_AUTHORITY_H
#define CKPT_TLS_AUTHORITY_H

#include "src/tls/identity.h"

enum { TLS_HOSTS_MAX = 64, TLS_BACKDATE_S = 300, TLS_HOSTS_TEXT_BYTES = 1024 };
#define TLS_YEAR_S         INT64_C(31536000)
#define TLS_VALID_MAX_S    (30 * TLS_YEAR_S)
#define TLS_AUTHORITY_CERT "ca.crt"
#define TLS_AUTHORITY_KEY  "ca.key"

/* dir is created (0700) when it is missing. valid_s from now on. */
int tls_authority_create(const char *dir, const char *cluster, int64_t valid_s, struct err *err);

struct tls_order {
    enum tls_kind kind;
    const char *name;
    /* DNS names and addresses for clients that check host names, beside a replica's cluster; at
     * most TLS_HOSTS_MAX */
    const char *const *hosts;
    size_t host_count;
    int64_t valid_s;
    bool replace; /* existing files are replaced by rename, key first */
};
/* dir holds the CA; the files go to out_dir. */
int tls_authority_issue(const char *dir, const char *out_dir, const struct tls_order *order,
                        struct err *err);

struct tls_description {
    char identity[TLS_IDENTITY_TEXT_BYTES]; /* ""; then problem says why */
    char problem[ERR_TEXT_BYTES];
    char subject[256];
    char issuer[256];
    char hosts[TLS_HOSTS_TEXT_BYTES]; /* "n1, 10.0.0.1"; cut with "..." */
    char key[64];                     /* "EC prime256v1, 256 bits" */
    char fingerprint[96];             /* SHA-256, as openssl x509 prints it */
    char serial[64];                  /* hexadecimal */
    int64_t not_before_s, not_after_s;
    bool authority; /* may sign others */
};
/* The first certificate of a PEM file. */
int tls_certificate_describe(const char *path, struct tls_description *ret_description,
                             struct err *err);

#endif
