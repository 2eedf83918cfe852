/* Signature Version 4 over OpenSSL's HMAC. See sigv4.h. */
#include "src/dest/s3/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/sha256.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

void sigv4_encode(struct buf *to, const char *text, bool keep_slash)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(plain, *c) != NULL || (keep_slash && *c == '/'))
            buf_append(to, c, 1);
        else
            buf_printf(to, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

void sigv4_date(time_t seconds, char ret_date[SIGV4_DATE_BYTES])
{
    struct tm parts;

    CHECK(gmtime_r(&seconds, &parts) != NULL);
    CHECK(strftime(ret_date, SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &parts) == SIGV4_DATE_BYTES - 1);
}

/* Of a text with its terminator left out. */
static void hmac_text(const void *key, size_t key_length, const char *text,
                      uint8_t ret_digest[SHA256_BYTES])
{
    unsigned length = 0;

    CHECK(HMAC(EVP_sha256(), key, (int)key_length, (const uint8_t *)text, strlen(text), ret_digest,
               &length) != NULL);
    CHECK(length == SHA256_BYTES);
}

/* In the order of the headers. */
static void append_signed_names(const struct sigv4_request *request, struct buf *text)
{
    for (size_t i = 0; i < request->header_count; i++)
        buf_printf(text, "%s%s", i == 0 ? "" : ";", request->headers[i].name);
}

/* Method, path, query, headers, their names, payload: each on its lines. */
static void hash_canonical(const struct sigv4_request *request, char ret_hex[SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    struct buf text;

    buf_init(&text);
    buf_printf(&text, "%s\n%s\n%s\n", request->method, request->path, request->query);
    for (size_t i = 0; i < request->header_count; i++) {
        CHECK(i == 0 || strcmp(request->headers[i - 1].name, request->headers[i].name) < 0);
        if (request->headers[i].value != NULL)
            buf_printf(&text, "%s:%s\n", request->headers[i].name, request->headers[i].value);
    }
    buf_printf(&text, "\n");
    append_signed_names(request, &text);
    buf_printf(&text, "\n%s", request->payload_sha256);
    sha256_of(text.bytes, text.length, digest);
    sha256_format(digest, ret_hex);
    buf_close(&text);
}

/* The key is good for one day, one region and one service. */
static void derive_key(const char *secret_key, const struct sigv4_request *request,
                       uint8_t ret_key[SHA256_BYTES])
{
    const char *const steps[] = {request->region, request->service, "aws4_request"};
    char day[9];
    struct buf first;

    memcpy(day, request->date, 8);
    day[8] = '\0';
    buf_init(&first);
    buf_printf(&first, "AWS4%s", secret_key);
    hmac_text(first.bytes, first.length, day, ret_key);
    OPENSSL_cleanse(first.bytes, first.length);
    buf_close(&first);
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        uint8_t next[SHA256_BYTES];
        hmac_text(ret_key, SHA256_BYTES, steps[i], next);
        memcpy(ret_key, next, SHA256_BYTES);
        OPENSSL_cleanse(next, sizeof(next));
    }
}

/* The string to sign names the algorithm, the moment and the scope, and the hash of the
 * canonical request; see the source that the header names. */
void sigv4_authorize(const struct sigv4_keys *keys, const struct sigv4_request *request,
                     struct buf *authorization)
{
    uint8_t key[SHA256_BYTES], signature[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    struct buf text;

    CHECK(strlen(request->date) == SIGV4_DATE_BYTES - 1);
    buf_init(&text);
    hash_canonical(request, hex);
    buf_printf(&text, ALGORITHM "\n%s\n%.8s/%s/%s/aws4_request\n%s", request->date, request->date,
               request->region, request->service, hex);
    buf_append(&text, "", 1);
    derive_key(keys->secret_key, request, key);
    hmac_text(key, sizeof(key), (const char *)text.bytes, signature);
    OPENSSL_cleanse(key, sizeof(key));
    buf_close(&text);
    buf_printf(authorization,
               ALGORITHM " Credential=%s/%.8s/%s/%s/aws4_request, SignedHeaders=", keys->access_key,
               request->date, request->region, request->service);
    append_signed_names(request, authorization);
    buf_printf(authorization, ", Signature=%s", sha256_format(signature, hex));
}
