/* Reading certificates and keys. See x509.h. */
#include "src/tls/x509.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"

static bool is_ours(const GENERAL_NAME *name)
{
    static const char scheme[] = "ckpt://";

    return name->type == GEN_URI &&
           (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier) >= sizeof(scheme) - 1 &&
           memcmp(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), scheme,
                  sizeof(scheme) - 1) == 0;
}

int x509_identity(X509 *certificate, struct tls_identity *ret_identity, struct err *err)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const ASN1_IA5STRING *found = NULL;
    int count = 0;
    int status;

    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (!is_ours(name))
            continue;
        found = name->d.uniformResourceIdentifier;
        count++;
    }
    if (count == 1)
        status = tls_identity_parse((const char *)ASN1_STRING_get0_data(found),
                                    (size_t)ASN1_STRING_length(found), ret_identity, err);
    else
        status = err_set(err, ERR_INVALID,
                         "the certificate has %d URIs ckpt://CLUSTER/KIND/NAME among its subject "
                         "alternative names, it must have exactly one",
                         count);
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return status;
}

char *x509_name(X509 *certificate, char text[TLS_IDENTITY_TEXT_BYTES])
{
    struct tls_identity identity;

    if (x509_identity(certificate, &identity, NULL) == 0)
        return tls_identity_format(&identity, text);
    /* escapes what is not printable */
    X509_NAME_oneline(X509_get_subject_name(certificate), text, TLS_IDENTITY_TEXT_BYTES);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            *at = '\'';
    }
    return text;
}

static int64_t time_of(const ASN1_TIME *time)
{
    struct tm tm;

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

int64_t x509_not_before(X509 *certificate)
{
    return time_of(X509_get0_notBefore(certificate));
}

int64_t x509_not_after(X509 *certificate)
{
    return time_of(X509_get0_notAfter(certificate));
}

char *x509_time_text(int64_t time_s, char text[X509_TIME_TEXT_BYTES])
{
    time_t time = (time_t)time_s;
    struct tm tm;

    if (gmtime_r(&time, &tm) == NULL ||
        strftime(text, X509_TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(text, X509_TIME_TEXT_BYTES, "?");
    return text;
}

const char *x509_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);

    ERR_clear_error();
    return reason == NULL ? "no reason given" : reason;
}

static int read_all(int fd, const char *path, uint8_t *bytes, size_t *ret_length, struct err *err)
{
    size_t used = 0;
    ssize_t length;

    while (used <= X509_FILE_MAX_BYTES &&
           (length = read(fd, bytes + used, X509_FILE_MAX_BYTES + 1 - used)) != 0) {
        if (length > 0)
            used += (size_t)length;
        else if (errno != EINTR)
            return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (used > X509_FILE_MAX_BYTES)
        return err_set(err, ERR_INVALID, "%s: larger than %d bytes", path, X509_FILE_MAX_BYTES);
    *ret_length = used;
    return 0;
}

int x509_file_read(const char *path, bool secret, uint8_t **ret_bytes, size_t *ret_length,
                   struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang us */
    uint8_t *bytes;
    struct stat status;
    int result;

    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return err_set(err, ERR_INVALID, "%s: not a file", path);
    }
    if (secret && (status.st_mode & 077) != 0) {
        close(fd);
        return err_set(err, ERR_AUTH, "%s: mode %04o lets others read the key; chmod 600 %s", path,
                       (unsigned)status.st_mode & 07777, path);
    }
    bytes = check_alloc(X509_FILE_MAX_BYTES + 1);
    result = read_all(fd, path, bytes, ret_length, err);
    close(fd);
    if (result != 0) {
        OPENSSL_cleanse(bytes, X509_FILE_MAX_BYTES + 1);
        free(bytes);
        return -1;
    }
    *ret_bytes = bytes;
    return 0;
}

int x509_load_certificates(const char *path, STACK_OF(X509) * *ret_certificates, struct err *err)
{
    STACK_OF(X509) * certificates;
    X509 *certificate;
    uint8_t *bytes;
    size_t length;
    BIO *bio;

    if (x509_file_read(path, false, &bytes, &length, err) != 0)
        return -1;
    bio = BIO_new_mem_buf(bytes, (int)length);
    certificates = sk_X509_new_null();
    CHECK(bio != NULL && certificates != NULL);
    while ((certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
        CHECK(sk_X509_push(certificates, certificate) > 0);
    BIO_free(bio);
    free(bytes);
    /* the end of the file is an error to OpenSSL; any other one is to us */
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE ||
        sk_X509_num(certificates) == 0) {
        bool none = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;

        err_set(err, ERR_INVALID, "%s: %s", path,
                none ? "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)" : x509_reason());
        ERR_clear_error();
        sk_X509_pop_free(certificates, X509_free);
        return -1;
    }
    ERR_clear_error();
    *ret_certificates = certificates;
    return 0;
}

/* Nobody is there to type it. */
static int no_passphrase(char *text, int size, int writing, void *data)
{
    (void)text;
    (void)size;
    (void)writing;
    (void)data;
    return -1;
}

int x509_load_key(const char *path, EVP_PKEY **ret_key, struct err *err)
{
    uint8_t *bytes;
    size_t length;
    BIO *bio;
    EVP_PKEY *key;

    if (x509_file_read(path, true, &bytes, &length, err) != 0)
        return -1;
    bio = BIO_new_mem_buf(bytes, (int)length);
    CHECK(bio != NULL);
    key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    OPENSSL_cleanse(bytes, length);
    free(bytes);
    if (key == NULL)
        return err_set(err, ERR_INVALID, "%s: holds no private key in PEM without passphrase (%s)",
                       path, x509_reason());
    ERR_clear_error();
    *ret_key = key;
    return 0;
}
