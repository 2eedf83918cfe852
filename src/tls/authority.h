/* A small site's own CA: makes the CA, issues certificates with it, describes a certificate file.
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

/* Makes a key and a certificate that signs itself and may sign others, but no further CA. Writes
 * them into dir, which is created (0700) when it is missing. The certificate is valid for valid_s
 * from now on, 1 to TLS_VALID_MAX_S. Its name holds the beginning of its serial number: it tells
 * two CAs of one cluster apart while one replaces the other.
 *
 * 0; or -1 with err: ERR_INVALID when the cluster is no id or valid_s is out of range, ERR_REFUSED
 * when a CA lies there already, ERR_IO. The call blocks until both files are on disk. */
int tls_authority_create(const char *dir, const char *cluster, int64_t valid_s, struct err *err);

/* One certificate to be issued. All texts are the caller's and are read during the call only. */
struct tls_order {
    enum tls_kind kind; /* replica, agent, scheduler, operator, auditor or monitor */
    const char *name; /* of a replica its member id in decimal, else an id: a node's, a person's */
    /* DNS names and addresses for clients that check host names, beside a replica's cluster; at
     * most TLS_HOSTS_MAX */
    const char *const *hosts;
    size_t host_count;
    const char *tenant; /* of a scheduler; NULL: of all tenants */
    int64_t valid_s;    /* 1 to TLS_VALID_MAX_S; cut to the end of the CA */
    bool replace;       /* existing files are replaced by rename, key first */
};
/* Makes a new key and a certificate for it, signed by the CA in dir, and writes both into out_dir,
 * which must exist. A replica's certificate is good for both sides of a connection and also names
 * the cluster as a DNS name; every other kind is for clients only. A renewal takes a new key, too.
 *
 * 0; or -1 with err: ERR_INVALID when the order, the CA's certificate or its key is of no use (also
 * when the CA has expired), ERR_MISMATCH when the CA's key is of another certificate. ERR_AUTH:
 * others may read the key. ERR_REFUSED: one of the two files exists and `replace` is not set.
 * ERR_IO. When the key was written and the certificate was not, the same order with `replace` mends
 * it. */
int tls_authority_issue(const char *dir, const char *out_dir, const struct tls_order *order,
                        struct err *err);

/* The texts that `ckptctl tls show` prints. They are the file's claims; nothing was verified. */
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
/* Describes the first certificate of a PEM file. 0; or -1 with err when the file cannot be read, is
 * larger than 256 KiB or holds no certificate. A certificate that names nobody is described as
 * well: identity is empty and `problem` says why. */
int tls_certificate_describe(const char *path, struct tls_description *ret_description,
                             struct err *err);

#endif
