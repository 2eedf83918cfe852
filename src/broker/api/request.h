/* One call of a client on its way through the table of methods.
 *
 * Flow     service.c makes a request when its message is decoded and hands it to the method's
 *          function. The functions of all service_*.c end it through this file: what a page is,
 *          how old a stale answer is, and how a read is refused are the same for every method.
 * Shapes   `call` is NULL once the client gave up; what was proposed goes on all the same. The
 *          message belongs to the request until request_end(). A mutation's message is given up
 *          when it is proposed: `message` is NULL from then on.
 * Units    milliseconds; pages in items and bytes.
 * Errors   a refusal ends the call with a status of the catalogue (fsm/core/status.h) and leaves
 *          the request itself to the caller, who calls request_end() in any case.
 */
#ifndef CKPT_BROKER_REQUEST_H
#define CKPT_BROKER_REQUEST_H

#include "src/base/spare.h"
#include "src/broker/api/answer.h"
#include "src/broker/broker.h"

struct method;
struct service_method;

/* One page looks at no more than METHOD_SCAN_MAX items and packs no more than METHOD_PAGE_BYTES, so
 * that the loop goes on; the next page continues there. */
enum { METHOD_PAGE_DEFAULT = 500, METHOD_PAGE_MAX = 1000 };
enum { METHOD_SCAN_MAX = 16384, METHOD_PAGE_BYTES = 512 << 10 };

enum request_state {
    REQUEST_BEGUN,  /* or waits for what was proposed, or for a majority */
    REQUEST_HELD,   /* until what it asks for is taken (hold.h) */
    REQUEST_IN_LINE /* for its turn to be answered: nobody but its call knows it */
};

struct request {
    struct broker *broker;
    struct spare *spare; /* where its memory is from */
    const struct method *method;
    struct service_method *of; /* service.c's */
    enum request_state state;
    struct rpc_call *call;     /* NULL: the client gave up */
    ProtobufCMessage *message; /* NULL once a mutation is proposed */
    bool stale;                /* a read that the request allowed to be stale */
};

/* Frees the message, if the request still has it, and the request. The call must be ended, or gone,
 * by then. */
void request_end(struct request *request);

/* The index of the last entry that the state has applied: replies carry it beside the age. */
uint64_t request_applied_index(const struct request *request);
/* How old a stale answer may be, 0 for a linearizable one. A leader that was deposed without
 * knowing it is no exception. UINT64_MAX: no leader's commits were ever all applied here. */
uint64_t request_data_age_ms(const struct request *request);
/* The age for a refusal of a read, whose answer has no fields for it: "" for a linearizable read,
 * else a text as "stale answer, up to 42000 ms old, applied index 17". The same numbers go with the
 * call as the trailers ckpt-data-age-ms and ckpt-applied-index. Returns text. */
enum { REQUEST_AGE_BYTES = 128 };
const char *request_age(struct request *request, char text[REQUEST_AGE_BYTES]);
/* Ends the call with the status, its two numbers (0: none) and the age of what was looked at. */
void request_refuse(struct request *request, enum fsm_status status, uint64_t current,
                    uint64_t limit);

/* ... an id of it that is none. */
void request_refuse_id(struct request *request, const char *field, const char *text);

/* How many items a page may have: `asked` as in the request, 0 for METHOD_PAGE_DEFAULT. False: the
 * number is over METHOD_PAGE_MAX, and the call is refused and ended. */
bool request_page_size(struct request *request, uint32_t asked, uint32_t *ret_size);
/* Reads a page token, which is the slot to go on with, in decimal; "" is slot 0. False: it is no
 * token of ours, and the call is refused and ended. */
bool request_slot_token(struct request *request, const char *token, uint32_t *ret_slot);

#endif
