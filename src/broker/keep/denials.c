/* Denied calls. See denials.h. */
#include "src/broker/keep/denials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/caller.h"
#include "src/broker/daemon/metrics.h"

#define HOUR_MS UINT64_C(3600000)
enum { METHOD_BYTES = 128 };

struct denial {
    struct caller caller;
    char address[64]; /* of the first */
    char method[METHOD_BYTES];
    char node_id[ID_MAX_BYTES + 1]; /* spoofed; "": none was */
    uint64_t count;
};

struct denials {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct denial noted[DENIALS_MAX];
    size_t noted_count;
    uint64_t others;       /* calls beyond these */
    uint64_t hour_ms;      /* when the hour began */
    uint64_t hour_records; /* in it */
};

static struct denial *find_noted(struct denials *denials, const struct denial *like)
{
    for (size_t i = 0; i < denials->noted_count; i++) {
        struct denial *denial = &denials->noted[i];

        if (strcmp(denial->caller.identity, like->caller.identity) == 0 &&
            strcmp(denial->method, like->method) == 0 &&
            strcmp(denial->node_id, like->node_id) == 0)
            return denial;
    }
    return NULL;
}

static bool has_room(struct denials *denials)
{
    uint64_t now_ms = broker_monotonic_ms(denials->broker);

    if (now_ms - denials->hour_ms >= HOUR_MS) {
        denials->hour_ms = now_ms;
        denials->hour_records = 0;
    }
    return denials->noted_count < DENIALS_MAX && denials->hour_records < DENIALS_NAMED_PER_HOUR;
}

void denials_note(struct denials *denials, const struct rpc_peer *peer, const char *path,
                  const char *spoofed_node_id)
{
    struct denial like = {.count = 1}, *known;

    CHECK(peer != NULL && path != NULL);
    if (denials == NULL)
        return;
    metrics_add(denials->broker->metrics, METRIC_DENIED,
                spoofed_node_id != NULL ? "spoofed_node" : "role", NULL, 1);
    if (!denials->serving)
        return;
    caller_of_peer(peer, path, &like.caller);
    snprintf(like.address, sizeof(like.address), "%s", like.caller.message.address);
    snprintf(like.method, sizeof(like.method), "%s", like.caller.message.method);
    snprintf(like.node_id, sizeof(like.node_id), "%s",
             spoofed_node_id == NULL ? "" : spoofed_node_id);
    known = find_noted(denials, &like);
    if (known != NULL) {
        known->count++;
    } else if (has_room(denials)) {
        denials->noted[denials->noted_count++] = like;
        denials->hour_records++;
    } else {
        denials->others++;
    }
}

static void fill_call(struct denial *denial, Ckpt__Log__V1__AuditCall *call)
{
    Ckpt__Log__V1__Caller *caller = &denial->caller.message;

    ckpt__log__v1__audit_call__init(call);
    ckpt__log__v1__caller__init(caller);
    caller->identity = denial->caller.identity;
    caller->address = denial->address;
    caller->method = denial->method;
    call->caller = caller;
    call->denied = true;
    call->count = denial->count;
    call->spoofed_node_id = denial->node_id;
}

/* Calls that are not proposed for want of a leader are told in its log alone. */
static void propose_noted(struct denials *denials)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__AuditCalls calls = CKPT__LOG__V1__AUDIT_CALLS__INIT;
    Ckpt__Log__V1__AuditCall items[FSM_AUDIT_CALLS_MAX], *pointers[FSM_AUDIT_CALLS_MAX];
    struct denial others = {.caller = {.identity = "others"}, .count = denials->others};

    for (size_t i = 0; i < denials->noted_count; i++)
        fill_call(&denials->noted[i], &items[calls.n_calls++]);
    if (denials->others > 0)
        fill_call(&others, &items[calls.n_calls++]);
    for (size_t i = 0; i < calls.n_calls; i++)
        pointers[i] = &items[i];
    calls.calls = pointers;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_AUDIT_CALLS;
    command.audit_calls = &calls;
    if (calls.n_calls > 0 && fsm_level(replica_fsm(denials->broker->replica)) >= 2)
        replica_propose(denials->broker->replica, &command, NULL, NULL);
    denials->noted_count = 0;
    denials->others = 0;
}

static void on_timer(void *data)
{
    struct denials *denials = data;

    propose_noted(denials);
    denials->broker->clock.timer_start(denials->timer, DENIALS_EVERY_MS * UINT64_C(1000));
}

static void on_serving(void *context)
{
    struct denials *denials = context;

    denials->serving = true;
    denials->broker->clock.timer_start(denials->timer, DENIALS_EVERY_MS * UINT64_C(1000));
}

static void on_not_serving(void *context)
{
    struct denials *denials = context;

    denials->serving = false;
    denials->noted_count = 0;
    denials->others = 0;
    denials->broker->clock.timer_stop(denials->timer);
}

struct denials *denials_new(struct broker *broker)
{
    struct denials *denials = check_calloc(1, sizeof(*denials));

    CHECK(broker->replica != NULL);
    denials->broker = broker;
    denials->hour_ms = broker_monotonic_ms(broker);
    denials->timer = broker->clock.timer_new(broker->clock.context, on_timer, denials);
    denials->observer = (struct replica_observer){
        .context = denials, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &denials->observer);
    return denials;
}

void denials_free(struct denials *denials)
{
    if (denials == NULL)
        return;
    denials->broker->clock.timer_free(denials->timer);
    free(denials);
}
