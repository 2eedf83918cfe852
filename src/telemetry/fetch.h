/* HTTP GET, or POST of a JSON document, over libcurl's multi interface on a libuv loop: never
 * blocks, no thread of ours (libcurl resolves names in one of its own).
 *
 * Flow     fetch_send() -> done() once with the body, unless fetch_cancel(). Connections are kept
 *          open for the next call.
 * Shapes   the caller bounds how many are under way. The body is the fetch's; done() may take its
 *          bytes and leave it empty.
 * Threads  the loop's, for functions and done() alike.
 * Units    milliseconds, bytes.
 * Errors   ERR_TIMEOUT, ERR_UNAVAILABLE (no connection, no such name), ERR_AUTH (401, 403, TLS),
 *          ERR_NOT_FOUND (404), ERR_FULL (longer than max_bytes), ERR_INVALID (any other answer but
 *          200, and 201 to a POST). Texts name the host and never what was sent.
 * Absent   redirects (refused: credentials would go where nobody configured), proxies, cookies,
 *          compression.
 */
#ifndef CKPT_TELEMETRY_FETCH_H
#define CKPT_TELEMETRY_FETCH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "src/base/buf.h"
#include "src/base/err.h"

struct fetch;      /* connections and what is under way */
struct fetch_call; /* one question; gone when its done() returns or it is cancelled */

/* How to ask. Texts may go when fetch_send() has returned; none of them is NULL, but for `post`. */
struct fetch_options {
    uint64_t timeout_ms;         /* of the whole call: name, connection, answer */
    uint64_t max_bytes;          /* of the answer's body */
    const char *ca, *cert, *key; /* PEM files; "": the system's CAs, no certificate of ours */
    bool insecure;               /* whose certificate it is does not matter */
    const char *user;            /* "name:password"; "": none */
    const char *bearer;          /* token; "": none */
    const char *api_token;       /* "Authorization: Api-Token ..."; "": none */
    const char *post;            /* this JSON; NULL: GET */
};
/* failed NULL: the body is the answer. status: of the answer, 0 without one. With `failed` the body
 * is that of the refusal, as far as it was read. May send further calls; must neither cancel its
 * own nor free the fetch. */
typedef void fetch_done_fn(void *data, const struct err *failed, long status, struct buf *body);

/* connections_max: kept open when idle. */
struct fetch *fetch_new(uv_loop_t *loop, long connections_max);
/* Cancels what is under way; its handles close on the loop. NULL allowed. */
void fetch_free(struct fetch *fetch);
/* NULL with err: the options cannot be used (an url that is none, a missing file of a certificate
 * is found out later). Texts are copied. done() never comes before this returns. */
struct fetch_call *fetch_send(struct fetch *fetch, const char *url,
                              const struct fetch_options *options, fetch_done_fn *done, void *data,
                              struct err *err);
/* No done() any more; an answer that is under way is dropped. NULL allowed. */
void fetch_cancel(struct fetch_call *call);

#endif
