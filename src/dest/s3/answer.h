/* What an answer of a store, or the lack of one, means.
 *
 * Errors   ERR_UNAVAILABLE  nobody answers; no such bucket
 *          ERR_TIMEOUT      nothing moves
 *          ERR_AUTH         the store knows the keys not, or not for this; TLS
 *          ERR_FULL, ERR_QUOTA  no space; none for this user or bucket
 *          ERR_BUSY         it asks for fewer requests
 *          ERR_NOT_FOUND    no such object or upload
 *          ERR_REFUSED      a condition of the request does not hold (412)
 *          ERR_IO           all other ones
 */
#ifndef CKPT_DEST_S3_ANSWER_H
#define CKPT_DEST_S3_ANSWER_H

#include <stdbool.h>

#include "src/base/buf.h"
#include "src/base/err.h"

/* 0: it says yes. -1: err, and whether the same request may find another answer later. what: the
 * request, for people. */
int answer_judge(long status, const struct buf *body, const char *what, bool *ret_passing,
                 struct err *err);
/* Whether it asks for the same request with the MD5 of its body, as a bucket with Object Lock
 * does. */
bool answer_wants_md5(long status, const struct buf *body);
/* There is no answer: libcurl's number and its text. */
int answer_missing(int code, const char *text, const char *what, bool *ret_passing,
                   struct err *err);

#endif
