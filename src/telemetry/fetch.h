/* HTTP GET, or POST of a JSON document, over libcurl's multi interface on a libuv loop: never
 * blocks, no thread of ours (libcurl resolves names in one of its own).
 *
 * Flow     fetch_send() -> done() once with the body, unless fetch_cancel(). Connections are kept
 *          open for the next call.
 * Shapes   the caller bounds how many are under way. The body is the fetch's; done() may take its
 *          bytes and leave it empty.
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

struct fetch;
struct fetch_call;

struct fetch_options {
    uint64_t timeout_ms;
    uint64_t max_bytes;
    const char *ca, *cert, *key; /* PEM files; "": the system's CAs, no certificate of ours */
    bool insecure;               /* whose certificate it is does not matter */
    const char *user;            /* "name:password"; "": none */
    const char *bearer;          /* token; "": none */
    const char *api_token;       /* "Authorization: Api-Token ..."; "": none */
    const char *post;            /* this JSON; NULL: GET */
};
/* status: of the answer, 0 without one. With `failed` the body is that of the refusal, as far as it
 * was read. */
typedef void fetch_done_fn(void *data, const struct err *failed, long status, struct buf *body);

/* connections_max: kept open when idle. */
struct fetch *fetch_new(uv_loop_t *loop, long connections_max);
/* Cancels what is under way; its handles close on the loop. NULL allowed. */
void fetch_free(struct fetch *fetch);
/* NULL with err: the options cannot be used. Texts are copied. */
struct fetch_call *fetch_send(struct fetch *fetch, const char *url,
                              const struct fetch_options *options, fetch_done_fn *done, void *data,
                              struct err *err);
void fetch_cancel(struct fetch_call *call); /* NULL allowed */

#endif
