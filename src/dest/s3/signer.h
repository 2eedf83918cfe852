/* The signing of a worker's requests to S3. The worker runs as the job's user and never sees a key.
 * So an attacker who takes the worker over, or traces it, gets no key (README.md, Who may trace
 * what).
 *
 * Flow     the daemon that starts a worker hands it one end of a SOCK_SEQPACKET socket, whose
 *          number is in SIGNER_ENVIRONMENT. One message asks, one answers, in order:
 *
 *              worker                                    daemon
 *              store\n                                   endpoint=https://s3.example:9000\n
 *                                                        region=us-east-1\n
 *                                                        style=path\n     or host
 *                                                        ca_file=/etc/ssl/site.pem\n   or empty
 *              sign\n                                    date=20130524T000000Z\n
 *              METHOD\n                                  authorization=AWS4-HMAC-SHA256 ...\n
 *              bucket\n           may be empty           token=...\n      empty without one
 *              key\n              may be empty
 *              query\n            may be empty
 *              payload sha256\n
 *              name:value\n       as many as there are
 *
 *          or, to both, refused=TEXT\n. Key and query are percent-encoded as in the request line
 *          (sigv4_encode()), since names of files hold any byte. The headers are those signed
 *          beside host, x-amz-content-sha256, x-amz-date and x-amz-security-token: lower case,
 *          sorted by name. Without the variable a worker was started by hand: it reads
 *          AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ENDPOINT_URL_S3 or
 *          AWS_ENDPOINT_URL, AWS_REGION and AWS_CA_BUNDLE, as AWS's own tools do, and signs for
 *          itself.
 * Shapes   parse functions cut the text that they are given and point into it.
 * Errors   ERR_INVALID from parse; ERR_AUTH with the text of a refusal; ERR_UNAVAILABLE when the
 *          daemon has gone.
 * Absent   the rules for a task's requests: the daemon's side has them.
 */
#ifndef CKPT_DEST_S3_SIGNER_H
#define CKPT_DEST_S3_SIGNER_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/dest/s3/sigv4.h"

#define SIGNER_ENVIRONMENT "CKPT_WORKER_SIGNER"
/* By hand, beside the variables of AWS's tools, which have none for it: path or host. */
#define SIGNER_STYLE_ENVIRONMENT "CKPT_S3_STYLE"
enum { SIGNER_MESSAGE_MAX_BYTES = 8192, SIGNER_HEADERS_MAX = 12 };

/* Where a store is and how it is spoken to. */
struct signer_store {
    const char *endpoint; /* http[s]://host[:port], nothing behind it */
    const char *region;
    bool by_host;        /* the bucket is part of the host's name; else of the path */
    const char *ca_file; /* "": the system's */
    bool sealed;         /* who signs seals the headers that would change what is done */
};

/* What is to be signed. */
struct signer_request {
    const char *method;
    const char *bucket, *key, *query;
    const char *payload_sha256;
    struct sigv4_header headers[SIGNER_HEADERS_MAX];
    size_t header_count;
};

/* The secret part stays with the daemon, or with a worker that was started by hand. */
struct signer_keys {
    struct sigv4_keys keys;
    const char *token; /* of a session; "" without one */
};

/* What the worker adds to its request. */
struct signer_answer {
    const char *date, *authorization, *token;
};

/* ---- texts, for both sides ---- */

/* Each appends a whole message, without a terminator. A value never holds a line's end: that of
 * a refusal is made a blank. */
void signer_format_store(const struct signer_store *store, struct buf *message);
/* The text ends in a terminator. */
int signer_parse_store(char *message, struct signer_store *ret_store, struct err *err);
void signer_format_request(const struct signer_request *request, struct buf *message);
/* What is asked for is in the form that signing needs, and not yet judged. */
int signer_parse_request(char *message, struct signer_request *ret_request, struct err *err);
void signer_format_answer(const struct signer_answer *answer, struct buf *message);
int signer_parse_answer(char *message, struct signer_answer *ret_answer, struct err *err);
void signer_format_refusal(const char *why, struct buf *message);

/* http[s]://host[:port] with nothing behind it? */
int signer_check_endpoint(const char *endpoint, struct err *err);
/* The host's name with its port, as the Host header has it, and the path of the request line. */
void signer_locate(const struct signer_store *store, const char *bucket, const char *key,
                   struct buf *host, struct buf *path);
/* Appends the value of the Authorization header. date is that of x-amz-date. */
void signer_authorize(const struct signer_store *store, const struct signer_keys *keys,
                      const struct signer_request *request, const char *date,
                      struct buf *authorization);
/* Encoded as sigv4_encode() does, and no part of it is empty, "." or "..": what a server or a proxy
 * could take for another key is none. */
bool signer_key_plain(const char *key);

/* ---- the worker's side ---- */

struct signer;

/* From the environment. NULL with ERR_UNAVAILABLE, or with ERR_INVALID that names the missing
 * variable. */
struct signer *signer_open(struct err *err);
/* NULL is allowed. The daemon's socket stays open: it is the process' own. */
void signer_close(struct signer *signer);
/* Good until signer_close(). */
const struct signer_store *signer_store(const struct signer *signer);
/* The answer is good until the next call. Blocks until the daemon answers. */
int signer_sign(struct signer *signer, const struct signer_request *request,
                struct signer_answer *ret_answer, struct err *err);

#endif
