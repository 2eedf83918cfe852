/* Requests that begin a job elsewhere while its last run is still being ended.
 *
 * Flow     A scheduler ends a job and restarts it at once. Its nodes need a moment to say that
 *          nothing of it is left, and the state refuses a second copy until then (RUN_NOT_ENDED,
 *          fsm/job/silent.c). So the leader keeps such a request back, and looks again after each
 *          entry that is applied. The request goes on when it would not be refused for that any
 *          more, or after HOLD_MS: then the state gives the answer.
 * Shapes   HOLD_MAX requests, of each its bytes; one more goes on at once. A client that gives an
 *          attempt up and repeats it goes on waiting from where it was: the time is kept by the
 *          request id, of the last HOLD_MAX.
 * Units    milliseconds.
 * Errors   when leadership ends, the clients are redirected, and the next leader holds anew.
 * Source   I61, S3-045.
 */
#ifndef CKPT_BROKER_HOLD_H
#define CKPT_BROKER_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct broker;
struct hold;
struct request;

enum {
    HOLD_MS = 3000, /* clients wait for 5 s by default */
    HOLD_MAX = 256
};

/* Goes on with what was held: the bytes are the request's message, whose method waits no more. */
typedef void hold_go_on_fn(struct request *request, const uint8_t *bytes, size_t length);

struct hold *hold_new(struct broker *broker, hold_go_on_fn *go_on);
void hold_free(struct hold *hold); /* NULL allowed; nothing is held any more */
/* True: the request waits, and the bytes were copied. False: it is not to wait (any longer). */
bool hold_take(struct hold *hold, struct request *request, const char *request_id,
               const uint8_t *bytes, size_t length);
/* Its client gave up. */
void hold_drop(struct hold *hold, const struct request *request);
/* After an entry: who waits no more goes on. */
void hold_look(struct hold *hold);
/* This member leads no more: all go on, and are redirected. */
void hold_end(struct hold *hold);

#endif
