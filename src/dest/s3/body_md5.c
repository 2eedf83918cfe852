/* MD5 by libcrypto, in base64. See body_md5.h. */
#include "src/dest/s3/body_md5.h"

#include <openssl/evp.h>
#include <string.h>

#include "src/base/check.h"

int body_md5(const uint8_t *bytes, size_t length, char ret_text[BODY_MD5_BYTES], struct err *err)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    CHECK(bytes != NULL || length == 0);
    if (EVP_Digest(bytes == NULL ? (const uint8_t *)"" : bytes, length, digest, &size, EVP_md5(),
                   NULL) != 1 ||
        size != 16)
        return err_set(err, ERR_UNFIT,
                       "the bucket asks for Content-MD5 (Object Lock), and libcrypto has no MD5 "
                       "here; leave FIPS mode, or give a bucket without Object Lock");
    CHECK(EVP_EncodeBlock((unsigned char *)ret_text, digest, (int)size) == BODY_MD5_BYTES - 1);
    return 0;
}
