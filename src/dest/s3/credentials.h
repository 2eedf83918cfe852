/* Keys of an object store from a file or from the environment.
 *
 * Shapes   a file is of AWS's own form, `[profile]` and lines `name = value`, of which
 *          aws_access_key_id, aws_secret_access_key and aws_session_token count; or the same
 *          without a section: access_key=, secret_key=, session_token=. Lines that begin with # or
 *          ; are comments. It is read at once, in the caller's turn of the loop: it lies on a local
 *          disk.
 * Errors   ERR_NOT_FOUND, ERR_IO; ERR_REFUSED: it is another user's, or others may read it;
 *          ERR_INVALID with the line. No text has a value of the file.
 */
#ifndef CKPT_DEST_S3_CREDENTIALS_H
#define CKPT_DEST_S3_CREDENTIALS_H

#include <sys/stat.h>

#include "src/base/err.h"

enum { CREDENTIAL_BYTES = 4096 };

struct credentials {
    char access_key[256];
    char secret_key[256];
    char token[CREDENTIAL_BYTES]; /* "": none */
};

/* path "": of the environment, as AWS's own tools take it. ret_stat is of what was read, zeros of
 * the environment; it is set whenever the file could be opened. */
int credentials_read(const char *path, const char *profile, struct credentials *ret_credentials,
                     struct stat *ret_stat, struct err *err);
void credentials_wipe(struct credentials *credentials);

#endif
