/* HTTP requests to one store, many at a time, over libcurl's multi interface: signed, paced, tried
 * again.
 *
 * Flow     client_open() asks the signer for the store; call_new() makes a request, call_start()
 *          lets it begin, client_step() moves all that run and calls `done` of those that ended;
 *          call_run() does one alone while the others go on.
 *          Each try is signed anew. What may pass (nobody answers, 5xx, "slow down", a conflict
 *          with another request, a stalled transfer, bytes damaged on the way) is tried again after
 *          a growing pause, until nothing at all has succeeded for `patience_ms`, and no transfer
 *          has moved another 16 MiB (retry.h). A try whose outcome is not known is repeated too, so
 *          that callers make only requests that may be: the same bytes to the same key.
 *          A PUT that a bucket with Object Lock refuses gets the Content-MD5 that the bucket asks
 *          for, and so do all later ones.
 *          A transfer has a timer of its own, which progress in either direction sets back.
 * Shapes   one thread. Bodies and targets of answers are the caller's until the call has ended.
 * Units    milliseconds; bytes per second of bodies in either direction, all calls together; after
 *          a stall the pace does not catch up more than a second's worth.
 * Errors   answer.h says which answer is which.
 */
#ifndef CKPT_DEST_S3_CALL_H
#define CKPT_DEST_S3_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/dest/s3/signer.h"

enum {
    CALL_ETAG_BYTES = 72,
    CALL_ANSWER_MAX_BYTES = 256 << 20,
    CALL_STALL_MS = 15000,
    CALL_HEADERS_MAX = 2
};

struct client;
struct call;

/* Once for each call that was started, also when it failed. It may free the call and start another,
 * and may not step. */
typedef void call_done_fn(void *data, struct call *call);

struct client_how {
    uint64_t rate_bytes_per_s; /* 0: unlimited */
    uint64_t patience_ms;      /* 0: one try */
};

/* Of the signer's store, with connections that are kept open between calls. NULL with err. With a
 * patience of 0 a call fails at its first try, which is what a probe wants: the next probe is the
 * next try. */
struct client *client_open(const struct client_how *how, struct err *err);
/* Calls that run are ended without a word; they are freed with it. */
void client_close(struct client *client);
/* Moves what can be moved now. */
void client_move(struct client *client);
/* The same, and then waits until something more can be moved or the client is woken, at most for a
 * moment. Returns at once when a call has ended, so that the next one can be started. */
void client_step(struct client *client);
/* Ends the wait of this step, or of the next one. The one function that any thread may call. */
void client_wake(struct client *client);

struct call_request {
    const char *method, *bucket;
    const char *key;   /* decoded; "" for the bucket itself */
    const char *query; /* as sigv4.h has it */
    /* more to be signed and sent, by name; the first without one ends them */
    struct sigv4_header headers[CALL_HEADERS_MAX];
    const uint8_t *body;
    size_t body_bytes;
    const char *body_sha256; /* hex; NULL: taken here */
    /* Where an answer of exactly so many bytes goes. NULL: call_answer() has it. */
    uint8_t *into;
    size_t into_bytes;
    uint64_t stall_ms; /* 0: CALL_STALL_MS */
};

struct call_result {
    int outcome;                /* 0: an answer that says yes; -1: err */
    long status;                /* of HTTP; 0: no answer */
    char etag[CALL_ETAG_BYTES]; /* with its quotes; "" without one */
    uint64_t length;            /* Content-Length, also of HEAD */
    /* of one that failed: a try had no answer that says no, and may be carried out yet */
    bool may_come;
    bool passing; /* of one that failed: the same request may find another answer later */
    struct err err;
};

/* The texts are copied; the body and the memory for an answer stay the caller's and have to be good
 * until the call has ended, since a try that failed begins with the first byte again. */
struct call *call_new(struct client *client, const struct call_request *request);
/* Of one that runs: it is ended without a word to its `done`. NULL is allowed. */
void call_free(struct call *call);
/* The call begins with the next step. Each call is started once. */
void call_start(struct call *call, call_done_fn *done, void *data);
/* What came of the last try. It is whole when `done` is called, and good until the call is
 * freed. */
const struct call_result *call_result(const struct call *call);
/* The answer's body, where it did not go into the caller's memory. */
const struct buf *call_answer(const struct call *call);
/* Starts it and steps until it has ended: its outcome. Others may run, whose `done` is then called
 * from inside. err may be NULL. */
int call_run(struct client *client, struct call *call, struct err *err);

#endif
