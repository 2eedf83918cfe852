/* SHA-256 over OpenSSL's libcrypto (EVP): uses the processor's SHA instructions, 1.4 GB/s per core
 * where they exist.
 *
 * Shapes   caller's storage holding one libcrypto context; may be started again after finish.
 * Errors   none: a digest that libcrypto cannot set up is out of memory or a broken installation
 *          and stops the program.
 */
#ifndef CKPT_DEST_SHA256_H
#define CKPT_DEST_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 };

/* sha256_init() once, then start, update as often as needed, finish: again and again;
 * sha256_close() at the end. */
struct sha256 {
    struct evp_md_ctx_st *context;
};

void sha256_init(struct sha256 *sha256);  /* takes memory of libcrypto's */
void sha256_close(struct sha256 *sha256); /* gives it back */
/* A new digest; what an unfinished one had taken is forgotten. */
void sha256_start(struct sha256 *sha256);
void sha256_update(struct sha256 *sha256, const void *bytes, size_t length);
void sha256_finish(struct sha256 *sha256, uint8_t ret_digest[SHA256_BYTES]);

/* All at once. */
void sha256_of(const void *bytes, size_t length, uint8_t ret_digest[SHA256_BYTES]);
/* Lower case; writes the terminator and returns text. */
char *sha256_format(const uint8_t digest[SHA256_BYTES], char text[SHA256_HEX_BYTES]);
/* Reads 64 lower-case digits that need no terminator; -1 for anything else. */
int sha256_parse(const char *text, uint8_t ret_digest[SHA256_BYTES]);

#endif
