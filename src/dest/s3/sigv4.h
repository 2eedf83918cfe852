/* AWS Signature Version 4 in the Authorization header: from a request and keys to the header's
 * value. Pure: no clock, no environment, no I/O.
 *
 * Flow     sigv4_encode() and sigv4_date() make the texts of a request, sigv4_authorize() signs
 *          them. The request is sent with exactly these texts.
 * Shapes   texts are the caller's and are read during a call only. What was derived from the secret
 *          key is wiped before the call returns.
 *          A sealed header is named among those that are signed and has no line: the signature does
 *          not fit a request that has it. For stores that take headers which nobody signed.
 * Absent   query signatures (presigned), streaming payloads, Version 4a.
 * Source   "Signature Version 4 signing process" and its worked examples in the S3 API reference;
 *          tests/unit/dest/test_sigv4.c has them as data.
 */
#ifndef CKPT_DEST_SIGV4_H
#define CKPT_DEST_SIGV4_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "src/base/buf.h"

enum { SIGV4_DATE_BYTES = 17 };

struct sigv4_keys {
    const char *access_key, *secret_key;
};

struct sigv4_header {
    const char *name;  /* lower case */
    const char *value; /* without blanks around it; NULL: sealed, it may not be in the request */
};

struct sigv4_request {
    const char *method;
    const char *path; /* as in the request line: encoded once, with its leading slash */
    const char
        *query; /* as in the request line: encoded, sorted by name, "name=" without a value */
    const struct sigv4_header *headers; /* all that are signed, host among them, sorted by name */
    size_t header_count;
    const char *payload_sha256; /* hex */
    const char *date;           /* sigv4_date() */
    const char *region, *service;
};

/* Appends the value of the Authorization header. */
/* As the store's administrator gave them; never written anywhere. */
/* Everything that a signature covers. Nothing of it may be changed on the way. */
void sigv4_authorize(const struct sigv4_keys *keys, const struct sigv4_request *request,
                     struct buf *authorization);
/* "20130524T000000Z", the value of x-amz-date. */
void sigv4_date(time_t seconds, char ret_date[SIGV4_DATE_BYTES]);
/* Appends the text percent-encoded: all but letters, digits and "-._~"; a slash stays one where
 * asked for, as in paths. */
void sigv4_encode(struct buf *to, const char *text, bool keep_slash);

#endif
