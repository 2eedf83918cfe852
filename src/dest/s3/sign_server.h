/* The daemon's side of signer.h: answers the workers of object stores, each within the scope of its
 * task, with the keys of the store that has its bucket.
 *
 * Shapes   a function of the request, the scope, the stores and the clock; nothing blocks but the
 *          reading of a small local file when keys have changed.
 * Errors   refused=TEXT, for whatever is not a request, not in the scope, or of no store.
 */
#ifndef CKPT_DEST_S3_SIGN_SERVER_H
#define CKPT_DEST_S3_SIGN_SERVER_H

#include "src/dest/serve.h"

extern const struct destination_serve s3_sign_server;

#endif
