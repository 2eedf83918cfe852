/* Making and describing certificates. See authority.h. */
#include "src/tls/authority.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/tls/x509.h"

enum { SERIAL_BITS = 127, COMMON_NAME_MAX_BYTES = 64 };

/* ---- files ---- */

static int join_path(char path[4096], const char *dir, const char *name, struct err *err)
{
    int length = snprintf(path, 4096, "%s/%s", dir, name);

    return length > 0 && length < 4096
               ? 0
               : err_set(err, ERR_INVALID, "%.200s...: the path is too long", dir);
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);

        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return fsync(fd);
}

/* Under another name first, so that nobody ever reads half a file; link() does not overwrite,
 * rename() does. */
static int file_write(const char *path, const char *bytes, size_t length, mode_t mode, bool replace,
                      struct err *err)
{
    char temporary[4096 + 16];
    int fd, status;

    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: cannot be created: %s", path, strerror(errno));
    status = fchmod(fd, mode) == 0 ? write_all(fd, bytes, length) : -1;
    if (status == 0)
        status = replace ? rename(temporary, path) : link(temporary, path);
    if (status != 0 && errno == EEXIST)
        err_set(err, ERR_REFUSED, "%s exists and is not overwritten", path);
    else if (status != 0)
        err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    (void)unlink(temporary); /* gone already after a rename */
    return status == 0 ? 0 : -1;
}

static int write_bio(const char *path, BIO *bio, mode_t mode, bool replace, struct err *err)
{
    char *bytes;
    long length = BIO_get_mem_data(bio, &bytes);

    return file_write(path, bytes, (size_t)length, mode, replace, err);
}

static BIO *memory_new(void)
{
    BIO *bio = BIO_new(BIO_s_secmem());

    CHECK(bio != NULL);
    return bio;
}

static int must_not_exist(const char *path, const char *next, struct err *err)
{
    struct stat status;

    if (lstat(path, &status) != 0)
        return 0;
    return err_set(err, ERR_REFUSED, "%s exists and is not overwritten; %s", path, next);
}

/* The key first: a certificate without its key would be of no use, the other way round it is issued
 * again. */
static int write_pair(const char *dir, const char *stem, X509 *certificate, EVP_PKEY *key,
                      bool replace, struct err *err)
{
    char key_path[4096], certificate_path[4096], name[ID_MAX_BYTES + 32];
    BIO *key_bio = memory_new(), *certificate_bio = memory_new();
    int status = -1;

    CHECK(PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    CHECK(PEM_write_bio_X509(certificate_bio, certificate) == 1);
    snprintf(name, sizeof(name), "%s.key", stem);
    if (join_path(key_path, dir, name, err) != 0)
        goto fail;
    snprintf(name, sizeof(name), "%s.crt", stem);
    if (join_path(certificate_path, dir, name, err) != 0 ||
        (!replace && (must_not_exist(certificate_path, "--replace renews it", err) != 0 ||
                      must_not_exist(key_path, "--replace renews it", err) != 0)))
        goto fail;
    if (write_bio(key_path, key_bio, 0600, replace, err) == 0 &&
        write_bio(certificate_path, certificate_bio, 0644, replace, err) == 0)
        status = 0;
fail:
    BIO_free(key_bio);
    BIO_free(certificate_bio);
    return status;
}

/* ---- certificates ---- */

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    CHECK(key != NULL);
    return key;
}

static void set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();

    CHECK(number != NULL && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1);
    CHECK(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL);
    BN_free(number);
}

/* X.509 limits these to 64 characters; the whole name is in the URI. */
static void set_subject(X509 *certificate, const struct tls_identity *identity)
{
    X509_NAME *name = X509_get_subject_name(certificate);
    const uint8_t *serial = ASN1_STRING_get0_data(X509_get_serialNumber(certificate));
    char text[COMMON_NAME_MAX_BYTES + 1];

    snprintf(text, sizeof(text), "%.64s", identity->cluster);
    CHECK(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)text, -1, -1,
                                     0) == 1);
    /* while a CA is replaced two of them are trusted: their names must tell them apart */
    if (identity->kind == TLS_AUTHORITY)
        snprintf(text, sizeof(text), "authority %02x%02x%02x%02x", serial[0], serial[1], serial[2],
                 serial[3]);
    else
        snprintf(text, sizeof(text), "%.9s %.54s", tls_kind_name(identity->kind), identity->name);
    CHECK(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)text, -1, -1,
                                     0) == 1);
}

static void add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension != NULL && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static bool is_dns_name(const char *text)
{
    size_t length = strlen(text);

    return length >= 1 && length <= 253 && text[0] != '-' && text[0] != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*") ==
               length;
}

static GENERAL_NAME *name_new(int type, const void *bytes, size_t length)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = type == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();

    CHECK(name != NULL && value != NULL && ASN1_STRING_set(value, bytes, (int)length) == 1);
    GENERAL_NAME_set0_value(name, type, value);
    return name;
}

static int add_host(GENERAL_NAMES *names, const char *host, struct err *err)
{
    uint8_t address[sizeof(struct in6_addr)];
    GENERAL_NAME *name;

    if (inet_pton(AF_INET, host, address) == 1)
        name = name_new(GEN_IPADD, address, sizeof(struct in_addr));
    else if (inet_pton(AF_INET6, host, address) == 1)
        name = name_new(GEN_IPADD, address, sizeof(struct in6_addr));
    else if (is_dns_name(host))
        name = name_new(GEN_DNS, host, strlen(host));
    else
        return err_set(err, ERR_INVALID, "host '%.200s' is neither a DNS name nor an address",
                       host);
    CHECK(sk_GENERAL_NAME_push(names, name) > 0);
    return 0;
}

static int add_names(X509 *certificate, const struct tls_identity *identity,
                     const struct tls_order *order, struct err *err)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    char uri[TLS_IDENTITY_TEXT_BYTES];
    int status = 0;

    CHECK(names != NULL);
    tls_identity_format(identity, uri);
    CHECK(sk_GENERAL_NAME_push(names, name_new(GEN_URI, uri, strlen(uri))) > 0);
    /* A client of plain gRPC checks one host name for all members of its channel: the cluster's,
     * which each of them has. */
    if (identity->kind == TLS_REPLICA && is_dns_name(identity->cluster))
        CHECK(add_host(names, identity->cluster, err) == 0);
    for (size_t i = 0; order != NULL && status == 0 && i < order->host_count; i++)
        status = add_host(names, order->hosts[i], err);
    if (status == 0)
        CHECK(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND) ==
              1);
    GENERAL_NAMES_free(names);
    return status;
}

/* Everything but the signature and the kind's own extensions. */
static X509 *certificate_new(const struct tls_identity *identity, EVP_PKEY *key, int64_t until_s)
{
    X509 *certificate = X509_new();

    CHECK(certificate != NULL && X509_set_version(certificate, X509_VERSION_3) == 1);
    set_serial(certificate);
    set_subject(certificate, identity);
    CHECK(ASN1_TIME_adj(X509_getm_notBefore(certificate), time(NULL) - TLS_BACKDATE_S, 0, 0) !=
          NULL);
    CHECK(ASN1_TIME_adj(X509_getm_notAfter(certificate), (time_t)until_s, 0, 0) != NULL);
    CHECK(X509_set_pubkey(certificate, key) == 1);
    return certificate;
}

static int check_valid(int64_t valid_s, struct err *err)
{
    if (valid_s < 1 || valid_s > TLS_VALID_MAX_S)
        return err_set(err, ERR_INVALID, "validity must be from 1 second to %d years",
                       (int)(TLS_VALID_MAX_S / TLS_YEAR_S));
    return 0;
}

int tls_authority_create(const char *dir, const char *cluster, int64_t valid_s, struct err *err)
{
    struct tls_identity identity;
    char path[4096];
    EVP_PKEY *key;
    X509 *certificate;
    int status;

    if (check_valid(valid_s, err) != 0 ||
        tls_identity_make(cluster, TLS_AUTHORITY, cluster, &identity, err) != 0)
        return -1;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "%s: %s", dir, strerror(errno));
    if (join_path(path, dir, TLS_AUTHORITY_CERT, err) != 0 ||
        must_not_exist(path, "a new CA needs a folder of its own", err) != 0 ||
        join_path(path, dir, TLS_AUTHORITY_KEY, err) != 0 ||
        must_not_exist(path, "a new CA needs a folder of its own", err) != 0)
        return -1;
    key = make_key();
    certificate = certificate_new(&identity, key, (int64_t)time(NULL) + valid_s);
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1);
    add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
    CHECK(add_names(certificate, &identity, NULL, err) == 0);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    status = write_pair(dir, "ca", certificate, key, false, err);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return status;
}

/* ---- issuing ---- */

struct authority {
    STACK_OF(X509) * certificates;
    X509 *certificate; /* the first of them */
    EVP_PKEY *key;
    struct tls_identity identity;
};

static int authority_open(const char *dir, struct authority *authority, struct err *err)
{
    char path[4096];

    if (join_path(path, dir, TLS_AUTHORITY_CERT, err) != 0 ||
        x509_load_certificates(path, &authority->certificates, err) != 0)
        return -1;
    authority->certificate = sk_X509_value(authority->certificates, 0);
    if (x509_identity(authority->certificate, &authority->identity, err) != 0)
        return err_wrap(err, "%s", path);
    if (authority->identity.kind != TLS_AUTHORITY || X509_check_ca(authority->certificate) != 1)
        return err_set(err, ERR_INVALID, "%s: is not a CA made by ckptctl tls init", path);
    if (x509_not_after(authority->certificate) <= (int64_t)time(NULL))
        return err_set(err, ERR_INVALID, "%s: the CA has expired; make a new one: ckptctl tls init",
                       path);
    if (join_path(path, dir, TLS_AUTHORITY_KEY, err) != 0 ||
        x509_load_key(path, &authority->key, err) != 0)
        return -1;
    if (X509_check_private_key(authority->certificate, authority->key) != 1) {
        ERR_clear_error();
        return err_set(err, ERR_MISMATCH, "%s: is not the key of %s", path, TLS_AUTHORITY_CERT);
    }
    return 0;
}

static void authority_close(struct authority *authority)
{
    sk_X509_pop_free(authority->certificates, X509_free);
    EVP_PKEY_free(authority->key);
}

static int64_t order_end(const struct authority *authority, const struct tls_order *order)
{
    int64_t until_s = (int64_t)time(NULL) + order->valid_s;
    int64_t authority_s = x509_not_after(authority->certificate);

    return until_s < authority_s ? until_s : authority_s;
}

static int order_check(const struct tls_order *order, struct err *err)
{
    if (order->kind == TLS_NOBODY || order->kind == TLS_AUTHORITY)
        return err_set(err, ERR_INVALID,
                       "certificates are for replica, agent, scheduler, operator, auditor, "
                       "monitor");
    if (order->host_count > TLS_HOSTS_MAX)
        return err_set(err, ERR_INVALID, "%zu hosts, at most %d", order->host_count, TLS_HOSTS_MAX);
    return check_valid(order->valid_s, err);
}

static int issue_certificate(const struct authority *authority, const struct tls_identity *identity,
                             const char *out_dir, const struct tls_order *order, struct err *err)
{
    char stem[ID_MAX_BYTES + 16];
    EVP_PKEY *key = make_key();
    X509 *certificate = certificate_new(identity, key, order_end(authority, order));
    X509 *issuer = authority->certificate;
    int status = -1;

    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
    add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature");
    add_extension(certificate, issuer, NID_ext_key_usage,
                  identity->kind == TLS_REPLICA ? "serverAuth,clientAuth" : "clientAuth");
    add_extension(certificate, issuer, NID_subject_key_identifier, "hash");
    add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always");
    snprintf(stem, sizeof(stem), "%s-%s", tls_kind_name(identity->kind), identity->name);
    if (add_names(certificate, identity, order, err) == 0) {
        CHECK(X509_sign(certificate, authority->key, EVP_sha256()) > 0);
        status = write_pair(out_dir, stem, certificate, key, order->replace, err);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
    return status;
}

int tls_authority_issue(const char *dir, const char *out_dir, const struct tls_order *order,
                        struct err *err)
{
    struct authority authority = {.key = NULL};
    struct tls_identity identity;
    int status = -1;

    if (order_check(order, err) == 0 && authority_open(dir, &authority, err) == 0 &&
        tls_identity_make(authority.identity.cluster, order->kind, order->name, &identity, err) ==
            0 &&
        (order->tenant == NULL || tls_identity_narrow(&identity, order->tenant, err) == 0))
        status = issue_certificate(&authority, &identity, out_dir, order, err);
    authority_close(&authority);
    ERR_clear_error();
    return status;
}
