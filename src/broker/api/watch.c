/* BrokerService/Watch: events of the state as a stream. See watch.h. A call is confirmed first (a
 * read of the leader), or is stale from the beginning; then it is one of watch.calls, and each turn
 * of the loop sends it some of what is new, until its buffer is full. */
#include "src/broker/api/watch.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/broker/api/answer.h"
#include "src/broker/api/measures.h"
#include "src/broker/api/scope.h"
#include "src/broker/api/watch_current.h"

/* All open calls, and the timer that sends to them: woken by each applied entry. */
struct watch {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer; /* zero delay: the next turn of the loop */
    struct list calls;
};

struct watch_call {
    struct list node; /* in watch.calls once it may be sent to */
    struct watch *watch;
    struct rpc_call *call; /* NULL: the client gave up while the read was on its way */
    uint64_t after;
    bool follow;
    bool reading;        /* replica_read() will come back */
    bool blocked;        /* until on_writable */
    bool narrow;         /* its peer is of one tenant, and is told of a job of this alone */
    bool gap;            /* narrow: events are missing, and no event has said so yet */
    uint64_t registered; /* narrow: the event of the job's registration; 0: not kept any more */
    struct watch_current current;
    char allocation_id[FSM_ID_BYTES];
};

/* The number of open watches is limited (WATCH_CALLS_MAX), so that it is counted here. */
static void watch_call_free(struct watch_call *call)
{
    CHECK(call->watch->broker->counters.watchers > 0);
    call->watch->broker->counters.watchers--;
    list_remove(&call->node);
    free(call);
}

/* false: the buffer is full. */
static bool watch_send(struct watch_call *call, const Ckpt__V1__Event *event)
{
    uint8_t small[512];
    size_t size = ckpt__v1__event__get_packed_size(event);
    uint8_t *bytes = size <= sizeof(small) ? small : check_alloc(size);
    bool more;

    CHECK(ckpt__v1__event__pack(event, bytes) == size);
    more = rpc_call_send(call->call, bytes, size);
    if (bytes != small)
        free(bytes);
    call->watch->broker->counters.watch_events_total++;
    return more;
}

/* The same of what is current: the events follow it. */
static bool watch_pump_current(struct watch_call *call, const struct fsm *fsm)
{
    struct watch_told told;

    for (size_t i = 0; i < WATCH_TURN_EVENTS; i++) {
        if (!watch_current_next(&call->current, fsm, call->allocation_id, &told))
            continue;
        if (told.event.kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CURRENT_END)
            call->after = told.event.sequence;
        if (!watch_send(call, &told.event)) {
            call->blocked = true;
            return false;
        }
        if (!watch_current_left(&call->current))
            break;
    }
    return true;
}

/* An id may have been another tenant's earlier: what came before its registration is not told. */
static uint64_t watch_registered(const struct fsm *fsm, const char *allocation_id)
{
    const Ckpt__V1__Event *event;
    uint64_t found = 0;
    bool gap;

    for (uint64_t after = 0; (event = fsm_event_after(fsm, after, &gap)) != NULL;
         after = event->sequence)
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_REGISTERED &&
            strcmp(event->allocation_id, allocation_id) == 0)
            found = event->sequence;
    return found;
}

/* False: it has ended, since its job is not the tenant's (any more), and is freed. */
static bool watch_may_go_on(struct watch_call *call, const struct fsm *fsm)
{
    const struct rpc_peer *peer = rpc_call_peer(call->call);
    char text[ANSWER_TEXT_BYTES];

    if (!call->narrow || scope_sees(peer, fsm_allocation_find(fsm, call->allocation_id)))
        return true;
    scope_refusal(peer, call->allocation_id, text, sizeof(text));
    rpc_call_finish(call->call, RPC_NOT_FOUND, text);
    watch_call_free(call);
    return false;
}

/* Whether the call is told of this event. *gap: it is the first after some that are missing. A
 * narrow call gets this with an event of its own job, each other one with whichever is next. */
static bool watch_tells(struct watch_call *call, const Ckpt__V1__Event *event, bool *gap)
{
    const bool its =
        call->allocation_id[0] == '\0' || strcmp(call->allocation_id, event->allocation_id) == 0;

    if (!call->narrow)
        return its || *gap;
    *gap |= call->gap;
    call->gap = *gap;
    if (!its || event->sequence < call->registered)
        return false;
    call->gap = false;
    return true;
}

/* Neither the job for which its own was stopped, if that is another tenant's, nor who asked. */
static void watch_narrow(const struct watch_call *call, const struct fsm *fsm,
                         Ckpt__V1__Event *copy)
{
    static char none[] = "";
    const struct rpc_peer *peer = rpc_call_peer(call->call);

    CHECK(copy->subject != NULL && copy->caller != NULL);
    if (copy->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION &&
        !scope_sees(peer, fsm_allocation_find(fsm, copy->subject)))
        copy->subject = none;
    if (strcmp(copy->caller, peer->identity) != 0)
        copy->caller = none;
}

/* Sends what there is and what the buffer takes. true: there is more for the next turn. May free
 * the call. */
static bool watch_pump(struct watch_call *call)
{
    const struct fsm *fsm = replica_fsm(call->watch->broker->replica);
    char path[WATCH_PATH_BYTES];

    if (!watch_may_go_on(call, fsm))
        return false;
    if (watch_current_left(&call->current))
        return watch_pump_current(call, fsm);
    for (size_t i = 0; i < WATCH_TURN_EVENTS; i++) {
        bool gap = false;
        const Ckpt__V1__Event *event = fsm_event_after(fsm, call->after, &gap);
        Ckpt__V1__Event copy;

        if (event == NULL) {
            if (!call->follow) {
                rpc_call_finish(call->call, RPC_OK, NULL);
                watch_call_free(call);
            }
            return false;
        }
        CHECK(event->sequence > call->after);
        call->after = event->sequence;
        if (!watch_tells(call, event, &gap))
            continue;
        copy = *event;
        copy.gap = gap;
        copy.path = watch_path(fsm, event->checkpoint_id, path);
        if (measures_hidden_from(call->call, fsm_allocation_find(fsm, event->allocation_id)))
            measures_clear_event(&copy);
        if (call->narrow)
            watch_narrow(call, fsm, &copy);
        if (!watch_send(call, &copy)) {
            call->blocked = true;
            return false;
        }
    }
    return true;
}

/* One turn for all calls, WATCH_TURN_EVENTS each: one that has far to catch up does not hold up the
 * others. */
static void watch_turn(void *data)
{
    struct watch *watch = data;
    struct list *node = watch->calls.next;
    bool more = false;

    while (node != &watch->calls) {
        struct watch_call *call = LIST_ITEM(node, struct watch_call, node);
        node = node->next;
        if (!call->blocked && watch_pump(call))
            more = true;
    }
    if (more)
        watch->broker->clock.timer_start(watch->timer, 0);
}

/* Sends in the next turn of the loop, never from inside a callback of the replica. */
static void watch_wake(struct watch *watch)
{
    if (!list_empty(&watch->calls))
        watch->broker->clock.timer_start(watch->timer, 0);
}

/* From the next turn on it is told of events. */
static void watch_join(struct watch_call *call)
{
    if (call->narrow)
        call->registered =
            watch_registered(replica_fsm(call->watch->broker->replica), call->allocation_id);
    list_push_back(&call->watch->calls, &call->node);
    watch_wake(call->watch);
}

/* What was acknowledged before the call is in the state now. */
static void watch_confirmed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct watch_call *call = data;
    struct watch *watch = call->watch;
    struct rpc_call *rpc = call->call;

    CHECK(outcome == NULL && call->reading);
    call->reading = false;
    if (rpc != NULL && failed == NULL && replica_serving(watch->broker->replica)) {
        watch_join(call);
        return;
    }
    watch_call_free(call);
    if (rpc == NULL)
        return;
    if (failed != NULL)
        answer_failed(watch->broker, rpc, failed);
    else
        answer_not_leader(watch->broker, rpc);
}

/* A watch counts from here on, whether it is confirmed or not. */
static void watch_begin(struct watch *watch, struct rpc_call *rpc,
                        const Ckpt__V1__WatchRequest *asked)
{
    struct broker *broker = watch->broker;
    struct watch_call *call = check_calloc(1, sizeof(*call));

    list_init(&call->node);
    call->watch = watch;
    call->call = rpc;
    call->after = asked->after_sequence;
    call->follow = asked->follow != 0;
    call->narrow = scope_asks(rpc_call_peer(rpc));
    if (asked->current)
        watch_current_begin(&call->current);
    memcpy(call->allocation_id, asked->allocation_id, strlen(asked->allocation_id) + 1);
    broker->counters.watchers++;
    rpc_call_set_data(rpc, call);
    if (asked->stale) {
        broker->counters.stale_reads_total++;
        watch_join(call);
        return;
    }
    call->reading = true;
    replica_read(broker->replica, watch_confirmed, call);
}

/* ---- from the server ---- */

/* A watch that follows must be the leader's: a follower's may stop being told anything without its
 * client noticing. */
static void watch_on_message(struct rpc_call *rpc, void *data, const uint8_t *bytes, size_t length)
{
    struct watch *watch = data;
    struct broker *broker = watch->broker;
    Ckpt__V1__WatchRequest *asked;

    if (rpc_call_data(rpc) != NULL) {
        /* The server takes one request for a call that does not stream requests. */
        return;
    }
    asked = ckpt__v1__watch_request__unpack(NULL, length, bytes);
    if (asked == NULL || strlen(asked->allocation_id) >= FSM_ID_BYTES) {
        rpc_call_finish(rpc, RPC_INVALID_ARGUMENT,
                        "UNDECODABLE: the request is no ckpt.v1.WatchRequest");
    } else if (asked->current && asked->after_sequence != 0) {
        rpc_call_finish(
            rpc, RPC_INVALID_ARGUMENT,
            "CURRENT_AFTER: what is current comes before all events; ask for one of the "
            "two, current or after_sequence");
    } else if (asked->stale && asked->follow) {
        rpc_call_finish(rpc, RPC_INVALID_ARGUMENT,
                        "STALE_FOLLOW: a watch that goes on is the leader's; ask for one of the "
                        "two, stale or follow");
    } else if (broker->counters.watchers >= WATCH_CALLS_MAX) {
        rpc_call_finish(rpc, RPC_RESOURCE_EXHAUSTED,
                        "FULL: too many watches are open on this member; end some");
    } else {
        watch_begin(watch, rpc, asked);
    }
    if (asked != NULL)
        ckpt__v1__watch_request__free_unpacked(asked, NULL);
}

static void watch_on_writable(struct rpc_call *rpc, void *data)
{
    struct watch_call *call = rpc_call_data(rpc);

    if (call == NULL)
        return;
    call->blocked = false;
    watch_wake(data);
}

/* While a read is on its way the replica holds the call; watch_confirmed() frees it then. */
static void watch_on_cancel(struct rpc_call *rpc, void *data)
{
    struct watch_call *call = rpc_call_data(rpc);

    (void)data;
    if (call != NULL && call->reading)
        call->call = NULL;
    else if (call != NULL)
        watch_call_free(call);
}

/* ---- from the replica ---- */

static void watch_applied(void *context)
{
    watch_wake(context);
}

static void watch_not_serving(void *context)
{
    struct watch *watch = context;

    while (!list_empty(&watch->calls)) {
        struct watch_call *call = LIST_ITEM(watch->calls.next, struct watch_call, node);
        struct rpc_call *rpc = call->call;
        watch_call_free(call);
        answer_not_leader(watch->broker, rpc);
    }
}

struct watch *watch_new(struct broker *broker)
{
    static const struct rpc_handlers handlers = {.on_message = watch_on_message,
                                                 .on_writable = watch_on_writable,
                                                 .on_cancel = watch_on_cancel};
    struct watch *watch = check_calloc(1, sizeof(*watch));

    CHECK(broker->rpc != NULL && broker->replica != NULL);
    watch->broker = broker;
    list_init(&watch->calls);
    watch->timer = broker->clock.timer_new(broker->clock.context, watch_turn, watch);
    watch->observer.context = watch;
    watch->observer.applied = watch_applied;
    watch->observer.not_serving = watch_not_serving;
    replica_observe(broker->replica, &watch->observer);
    rpc_server_add_method(broker->rpc, "/ckpt.v1.BrokerService/Watch", false, true, &handlers,
                          watch);
    return watch;
}

void watch_free(struct watch *watch)
{
    if (watch == NULL)
        return;
    CHECK(list_empty(&watch->calls));
    watch->broker->clock.timer_free(watch->timer);
    free(watch);
}
