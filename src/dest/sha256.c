/* SHA-256 over OpenSSL's libcrypto. See sha256.h. */
#include "src/dest/sha256.h"

#include <openssl/evp.h>

#include "src/base/check.h"

void sha256_init(struct sha256 *sha256)
{
    sha256->context = EVP_MD_CTX_new();
    CHECK(sha256->context != NULL);
}

void sha256_close(struct sha256 *sha256)
{
    EVP_MD_CTX_free(sha256->context);
    sha256->context = NULL;
}

void sha256_start(struct sha256 *sha256)
{
    CHECK(EVP_DigestInit_ex(sha256->context, EVP_sha256(), NULL) == 1);
}

void sha256_update(struct sha256 *sha256, const void *bytes, size_t length)
{
    CHECK(EVP_DigestUpdate(sha256->context, bytes, length) == 1);
}

void sha256_finish(struct sha256 *sha256, uint8_t ret_digest[SHA256_BYTES])
{
    unsigned length = 0;

    CHECK(EVP_DigestFinal_ex(sha256->context, ret_digest, &length) == 1);
    CHECK(length == SHA256_BYTES);
}

void sha256_of(const void *bytes, size_t length, uint8_t ret_digest[SHA256_BYTES])
{
    struct sha256 sha256;

    sha256_init(&sha256);
    sha256_start(&sha256);
    sha256_update(&sha256, bytes, length);
    sha256_finish(&sha256, ret_digest);
    sha256_close(&sha256);
}

char *sha256_format(const uint8_t digest[SHA256_BYTES], char text[SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[2 * SHA256_BYTES] = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int sha256_parse(const char *text, uint8_t ret_digest[SHA256_BYTES])
{
    uint8_t digest[SHA256_BYTES];

    for (size_t i = 0; i < SHA256_BYTES; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0)
            return -1;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    for (size_t i = 0; i < SHA256_BYTES; i++)
        ret_digest[i] = digest[i];
    return 0;
}
