/* What src/tls reads from and writes into X.509 certificates, in OpenSSL's types. For the files of
 * this folder only.
 *
 * Shapes   ret_ objects are the caller's to free with OpenSSL's function.
 * Errors   ERR_INVALID for what a file or certificate holds, ERR_IO for what the system refused,
 *          ERR_AUTH for a key that others may read. Texts end with what to do.
 */
#ifndef CKPT_TLS_X509_H
#define CKPT_TLS_X509_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "src/tls/identity.h"

enum { X509_FILE_MAX_BYTES = 1 << 18, X509_NAME_TEXT_BYTES = 256, X509_TIME_TEXT_BYTES = 32 };

/* The certificate's only URI that begins with "ckpt://". None, or more than one, is an error. */
int x509_identity(X509 *certificate, struct tls_identity *ret_identity, struct err *err);
/* Its identity, else its subject: for messages. Returns text. */
char *x509_name(X509 *certificate, char text[TLS_IDENTITY_TEXT_BYTES]);
/* Seconds since the epoch. */
int64_t x509_not_before(X509 *certificate);
int64_t x509_not_after(X509 *certificate);
/* "2027-01-31T12:00:00Z". Returns text. */
char *x509_time_text(int64_t time_s, char text[X509_TIME_TEXT_BYTES]);

/* All of a file, at most X509_FILE_MAX_BYTES. A pipe or a device is refused, without waiting for
 * it. secret: refused when others may read it. The caller clears (OPENSSL_cleanse) and frees the
 * bytes. */
int x509_file_read(const char *path, bool secret, uint8_t **ret_bytes, size_t *ret_length,
                   struct err *err);
/* The certificates of a PEM file in their order, at least one; what stands between them is skipped.
 * One that is broken spoils the file. */
int x509_load_certificates(const char *path, STACK_OF(X509) * *ret_certificates, struct err *err);
/* The private key of a PEM file that only its owner may read. One with a passphrase is refused:
 * nobody is there to type it. */
int x509_load_key(const char *path, EVP_PKEY **ret_key, struct err *err);
/* OpenSSL's newest reason; its queue is empty afterwards. */
const char *x509_reason(void);

#endif
