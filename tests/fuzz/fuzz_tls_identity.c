/* Any text as an identity and any bytes as a certificate: what is taken is well-formed, survives
 * the way back, and is found whole in the certificate.
 */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "src/base/check.h"
#include "src/tls/x509.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void check_identity(const struct tls_identity *identity)
{
    char text[TLS_IDENTITY_TEXT_BYTES];
    struct tls_identity again;

    CHECK(identity->kind > TLS_NOBODY && identity->kind < TLS_KIND_COUNT);
    CHECK(id_valid(identity->cluster) && id_valid(identity->name));
    CHECK((identity->kind == TLS_REPLICA) == (identity->member_id != 0));
    tls_identity_format(identity, text);
    CHECK(tls_identity_parse(text, strlen(text), &again, NULL) == 0);
    CHECK(tls_identity_equal(identity, &again) && identity->member_id == again.member_id);
}

static void as_text(const char *text, size_t length)
{
    struct tls_identity identity;
    struct err err = {ERR_NONE, ""};

    if (tls_identity_parse(text, length, &identity, &err) == 0) {
        char back[TLS_IDENTITY_TEXT_BYTES];

        check_identity(&identity);
        tls_identity_format(&identity, back);
        CHECK(strlen(back) == length && memcmp(back, text, length) == 0); /* one spelling */
    } else {
        CHECK(err.code == ERR_INVALID && err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
}

static void as_certificate(const uint8_t *bytes, size_t length)
{
    const uint8_t *at = bytes;
    X509 *certificate = d2i_X509(NULL, &at, (long)length);
    char name[TLS_IDENTITY_TEXT_BYTES];
    struct tls_identity identity;
    struct err err = {ERR_NONE, ""};

    if (certificate != NULL) {
        if (x509_identity(certificate, &identity, &err) == 0)
            check_identity(&identity);
        else
            CHECK(err.code == ERR_INVALID);
        x509_name(certificate, name);
        CHECK(strchr(name, '\n') == NULL && strchr(name, '"') == NULL);
        (void)x509_not_after(certificate);
        X509_free(certificate);
    }
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    as_text((const char *)bytes, length);
    as_certificate(bytes, length);
    return 0;
}

/* A certificate with a URI, a DNS name and an address, unsigned: signatures are OpenSSL's
 * matter. */
static size_t certificate_seed(uint8_t *bytes, size_t size, const char *uri)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    uint8_t *der = NULL;
    int length;

    CHECK(key != NULL && certificate != NULL && names != NULL && name != NULL && text != NULL);
    CHECK(X509_set_version(certificate, X509_VERSION_3) == 1 && X509_set_pubkey(certificate, key));
    CHECK(X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != NULL);
    CHECK(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) != NULL);
    CHECK(ASN1_STRING_set(text, uri, -1) == 1);
    GENERAL_NAME_set0_value(name, GEN_URI, text);
    CHECK(sk_GENERAL_NAME_push(names, name) > 0);
    CHECK(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND) == 1);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    length = i2d_X509(certificate, &der);
    CHECK(length > 0 && (size_t)length <= size);
    memcpy(bytes, der, (size_t)length);
    OPENSSL_free(der);
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return (size_t)length;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const texts[] = {"ckpt://demo/replica/1", "ckpt://demo/agent/node-1",
                                        "ckpt://a.b/scheduler/slurm", "ckpt://d/operator/ann",
                                        "ckpt://demo/authority/demo"};
    const size_t count = sizeof(texts) / sizeof(texts[0]);

    if (i < count) {
        memcpy(bytes, texts[i], strlen(texts[i]));
        return strlen(texts[i]);
    }
    return i < 2 * count ? certificate_seed(bytes, size, texts[i - count]) : 0;
}
