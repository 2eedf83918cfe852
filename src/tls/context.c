/* Loading and swapping certificates. See context.h. */
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/tls/internal.h"
#include "src/tls/x509.h"

enum { FILE_CA, FILE_CERT, FILE_KEY, VERIFY_DEPTH = 4 };

/* What one load reads. */
struct material {
    STACK_OF(X509) * authorities;
    STACK_OF(X509) * chain; /* the first one is our own */
    EVP_PKEY *key;
    X509_STORE *store;
    struct tls_identity own;
    int64_t expiry_s, ca_expiry_s;
};

static void material_close(struct material *material)
{
    sk_X509_pop_free(material->authorities, X509_free);
    sk_X509_pop_free(material->chain, X509_free);
    EVP_PKEY_free(material->key);
    X509_STORE_free(material->store);
}

static void stamp_take(char *const paths[TLS_FILE_COUNT], struct tls_stamp stamps[TLS_FILE_COUNT])
{
    memset(stamps, 0, TLS_FILE_COUNT * sizeof(stamps[0]));
    for (size_t i = 0; i < TLS_FILE_COUNT; i++) {
        struct stat status;

        if (stat(paths[i], &status) != 0)
            continue; /* a missing file is a version, too */
        stamps[i].changed = status.st_ctim;
        stamps[i].inode = status.st_ino;
        stamps[i].size = status.st_size;
    }
}

static int check_dates(X509 *certificate, time_t now_s, const char *path, const char *next,
                       struct err *err)
{
    char text[X509_TIME_TEXT_BYTES];

    if (now_s >= x509_not_after(certificate))
        return err_set(err, ERR_INVALID, "%s: expired at %s; %s", path,
                       x509_time_text(x509_not_after(certificate), text), next);
    if (now_s < x509_not_before(certificate))
        return err_set(err, ERR_INVALID, "%s: not valid before %s; check the clock of this host",
                       path, x509_time_text(x509_not_before(certificate), text));
    return 0;
}

static int check_identity(const struct tls_context *context, struct material *material,
                          struct err *err)
{
    const struct tls_identity *expected = &context->expected;
    char is[TLS_IDENTITY_TEXT_BYTES];

    if (x509_identity(sk_X509_value(material->chain, 0), &material->own, err) != 0)
        return err_wrap(err, "%s", context->paths[FILE_CERT]);
    tls_identity_format(&material->own, is);
    if (material->own.kind == TLS_AUTHORITY)
        return err_set(err, ERR_INVALID, "%s: is the certificate of a CA; ckptctl tls issue",
                       context->paths[FILE_CERT]);
    if (expected->kind != TLS_NOBODY &&
        (expected->kind != material->own.kind || strcmp(expected->name, material->own.name) != 0))
        return err_set(err, ERR_MISMATCH, "%s: names %s, not %s %s; ckptctl tls issue %s %s",
                       context->paths[FILE_CERT], is, tls_kind_name(expected->kind), expected->name,
                       tls_kind_name(expected->kind), expected->name);
    if (expected->cluster[0] != '\0' && strcmp(expected->cluster, material->own.cluster) != 0)
        return err_set(err, ERR_MISMATCH, "%s: names %s, which is not of cluster %s",
                       context->paths[FILE_CERT], is, expected->cluster);
    return 0;
}

/* Whether the CA file vouches for our own certificate; what would our peers say? */
static int check_chain(const struct tls_context *context, struct material *material, time_t now_s,
                       struct err *err)
{
    X509 *own = sk_X509_value(material->chain, 0);
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    STACK_OF(X509) * built;
    int status = 0;

    CHECK(check != NULL && X509_STORE_CTX_init(check, material->store, own, material->chain) == 1);
    X509_STORE_CTX_set_time(check, 0, now_s);
    if (X509_verify_cert(check) != 1)
        status = err_set(err, ERR_INVALID, "%s: not vouched for by %s: %s; issue it with that CA",
                         context->paths[FILE_CERT], context->paths[FILE_CA],
                         X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    built = X509_STORE_CTX_get0_chain(check);
    material->expiry_s = x509_not_after(own);
    material->ca_expiry_s = INT64_MAX;
    for (int i = 1; status == 0 && i < sk_X509_num(built); i++) {
        int64_t expiry_s = x509_not_after(sk_X509_value(built, i));

        if (expiry_s < material->ca_expiry_s)
            material->ca_expiry_s = expiry_s;
    }
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return status;
}

static int material_load(const struct tls_context *context, struct material *material,
                         struct err *err)
{
    char *const *paths = context->paths;
    time_t now_s = time(NULL); /* one for all checks: which of them says it does not change */

    if (x509_load_certificates(paths[FILE_CA], &material->authorities, err) != 0 ||
        x509_load_certificates(paths[FILE_CERT], &material->chain, err) != 0 ||
        x509_load_key(paths[FILE_KEY], &material->key, err) != 0)
        return -1;
    material->store = X509_STORE_new();
    CHECK(material->store != NULL);
    for (int i = 0; i < sk_X509_num(material->authorities); i++)
        CHECK(X509_STORE_add_cert(material->store, sk_X509_value(material->authorities, i)) == 1);
    if (X509_check_private_key(sk_X509_value(material->chain, 0), material->key) != 1) {
        ERR_clear_error();
        return err_set(err, ERR_MISMATCH, "%s: is not the key of %s", paths[FILE_KEY],
                       paths[FILE_CERT]);
    }
    if (check_identity(context, material, err) != 0 ||
        check_dates(sk_X509_value(material->chain, 0), now_s, paths[FILE_CERT],
                    "issue a new one: ckptctl tls issue --replace", err) != 0)
        return -1;
    return check_chain(context, material, now_s, err);
}

static SSL_CTX *make_ssl(const struct material *material, const char *cert_path, struct err *err)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    int good;

    CHECK(ssl != NULL);
    good = SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                         "TLS_CHACHA20_POLY1305_SHA256") &&
           SSL_CTX_set_num_tickets(ssl, 0);
    CHECK(good);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    /* thousands of idle agents; the root certificate is no news to anybody who trusts it */
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_quiet_shutdown(ssl, 1);
    SSL_CTX_set_max_cert_list(ssl, TLS_HANDSHAKE_MAX_BYTES);
    SSL_CTX_set_verify_depth(ssl, VERIFY_DEPTH);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_engine_verified);
    SSL_CTX_set_alpn_select_cb(ssl, tls_engine_choose_protocol, NULL);
    SSL_CTX_set1_cert_store(ssl, material->store);
    good = SSL_CTX_use_certificate(ssl, sk_X509_value(material->chain, 0)) &&
           SSL_CTX_use_PrivateKey(ssl, material->key);
    for (int i = 1; good && i < sk_X509_num(material->chain); i++)
        good = SSL_CTX_add1_chain_cert(ssl, sk_X509_value(material->chain, i)) == 1;
    if (!good) {
        err_set(err, ERR_INVALID, "%s: cannot be used: %s", cert_path, x509_reason());
        SSL_CTX_free(ssl);
        return NULL;
    }
    return ssl;
}

int tls_context_reload(struct tls_context *context, struct err *err)
{
    struct material material = {.key = NULL};
    SSL_CTX *ssl = NULL;

    stamp_take(context->paths, context->tried); /* before: what changes meanwhile is a change */
    if (material_load(context, &material, err) == 0)
        ssl = make_ssl(&material, context->paths[FILE_CERT], err);
    if (ssl != NULL) {
        SSL_CTX_free(context->ssl); /* connections hold on to theirs */
        context->ssl = ssl;
        context->own = material.own;
        context->expiry_s = material.expiry_s;
        context->ca_expiry_s = material.ca_expiry_s;
        context->generation++;
    }
    material_close(&material);
    return ssl == NULL ? -1 : 0;
}

int tls_context_new(const struct tls_files *files, const struct tls_identity *own,
                    struct tls_context **ret_context, struct err *err)
{
    struct tls_context *context = check_calloc(1, sizeof(*context));

    context->paths[FILE_CA] = check_strdup(files->ca);
    context->paths[FILE_CERT] = check_strdup(files->cert);
    context->paths[FILE_KEY] = check_strdup(files->key);
    if (own != NULL)
        context->expected = *own;
    if (tls_context_reload(context, err) != 0) {
        tls_context_free(context);
        return -1;
    }
    memcpy(context->seen, context->tried, sizeof(context->seen));
    *ret_context = context;
    return 0;
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ssl);
    free(context->revoked);
    for (size_t i = 0; i < TLS_FILE_COUNT; i++)
        free(context->paths[i]);
    free(context);
}

bool tls_context_poll(struct tls_context *context)
{
    struct tls_stamp now[TLS_FILE_COUNT];
    bool settled, changed;

    stamp_take(context->paths, now);
    settled = memcmp(now, context->seen, sizeof(now)) == 0;
    changed = memcmp(now, context->tried, sizeof(now)) != 0;
    memcpy(context->seen, now, sizeof(now));
    return settled && changed;
}

const struct tls_identity *tls_context_identity(const struct tls_context *context)
{
    return &context->own;
}

int64_t tls_context_expiry(const struct tls_context *context)
{
    return context->expiry_s;
}

int64_t tls_context_ca_expiry(const struct tls_context *context)
{
    return context->ca_expiry_s;
}

uint64_t tls_context_generation(const struct tls_context *context)
{
    return context->generation;
}
