/* The MD5 of a body as the header Content-MD5 has it: what buckets with Object Lock ask for. The
 * SHA-256 that signs a request is the check of its bytes all the same. */
#ifndef CKPT_DEST_S3_BODY_MD5_H
#define CKPT_DEST_S3_BODY_MD5_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

enum { BODY_MD5_BYTES = 25 }; /* base64 of 16 bytes, and its terminator */

/* ERR_UNFIT: this system's libcrypto has no MD5, as in FIPS mode. */
int body_md5(const uint8_t *bytes, size_t length, char ret_text[BODY_MD5_BYTES], struct err *err);

#endif
