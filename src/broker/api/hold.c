/* Requests that wait until a job's last run has ended. See hold.h. */
#include "src/broker/api/hold.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/list.h"
#include "src/base/text.h"
#include "src/broker/api/methods.h"

struct held {
    struct list node;
    struct request *request;
    uint64_t until_us;
    bool ready; /* of a look that is under way: it goes on */
    size_t length;
    uint8_t *bytes;
};

/* So long a request id has waited, in one attempt or several. */
struct waited {
    char request_id[ID_MAX_BYTES + 1];
    uint64_t until_us;
};

struct hold {
    struct broker *broker;
    hold_go_on_fn *go_on;
    struct clock_timer *timer;
    struct list held; /* the first ends first */
    uint32_t count;
    struct waited waited[HOLD_MAX]; /* a ring: the newest ones */
    uint32_t waited_at;
};

static uint64_t now_us(const struct hold *hold)
{
    return hold->broker->clock.monotonic_us(hold->broker->clock.context);
}

static uint64_t wait_until_us(struct hold *hold, const char *request_id)
{
    struct waited *place = &hold->waited[hold->waited_at];

    for (uint32_t i = 0; i < HOLD_MAX; i++)
        if (strcmp(hold->waited[i].request_id, request_id) == 0)
            return hold->waited[i].until_us;
    hold->waited_at = (hold->waited_at + 1) % HOLD_MAX;
    text_copy(place->request_id, sizeof(place->request_id), request_id);
    place->until_us = now_us(hold) + HOLD_MS * UINT64_C(1000);
    return place->until_us;
}

static void arm_timer(struct hold *hold)
{
    const struct held *first = LIST_ITEM_CONST(hold->held.next, struct held, node);
    uint64_t at_us = now_us(hold);

    if (!list_empty(&hold->held))
        hold->broker->clock.timer_start(hold->timer,
                                        first->until_us > at_us ? first->until_us - at_us : 0);
}

static void held_free(struct hold *hold, struct held *held)
{
    CHECK(hold->count > 0);
    list_remove(&held->node);
    hold->count--;
    free(held->bytes);
    free(held);
}

bool hold_take(struct hold *hold, struct request *request, const char *request_id,
               const uint8_t *bytes, size_t length)
{
    uint64_t until_us;
    struct list *at = &hold->held;
    struct held *held;

    CHECK(request->call != NULL);
    if (hold->count >= HOLD_MAX || !id_valid(request_id))
        return false;
    until_us = wait_until_us(hold, request_id);
    if (until_us <= now_us(hold))
        return false;
    held = check_calloc(1, sizeof(*held));
    *held = (struct held){.request = request, .until_us = until_us, .length = length};
    held->bytes = memcpy(check_alloc(length + 1), bytes, length);
    while (at->previous != &hold->held &&
           LIST_ITEM(at->previous, struct held, node)->until_us > until_us)
        at = at->previous;
    list_push_back(at, &held->node); /* before it */
    hold->count++;
    request->state = REQUEST_HELD;
    arm_timer(hold);
    return true;
}

void hold_drop(struct hold *hold, const struct request *request)
{
    for (struct list *at = hold->held.next; at != &hold->held; at = at->next) {
        struct held *held = LIST_ITEM(at, struct held, node);

        if (held->request != request)
            continue;
        held_free(hold, held);
        return;
    }
    CHECK_UNREACHABLE("a request that is held");
}

static bool still_waits(const struct hold *hold, const struct held *held, uint64_t at_us)
{
    const struct method *method = held->request->method;
    ProtobufCMessage *message;
    bool waits;

    if (held->until_us <= at_us)
        return false;
    message = protobuf_c_message_unpack(method->type, NULL, held->length, held->bytes);
    CHECK(message != NULL);
    waits = method->waits(replica_fsm(hold->broker->replica), message);
    protobuf_c_message_free_unpacked(message, NULL);
    return waits;
}

/* NULL: there is none (any more). */
static struct held *find_ready(const struct hold *hold)
{
    for (struct list *at = hold->held.next; at != &hold->held; at = at->next)
        if (LIST_ITEM(at, struct held, node)->ready)
            return LIST_ITEM(at, struct held, node);
    return NULL;
}

/* One that goes on may change the list, by a proposal that fails at once. */
static void go_on(struct hold *hold, bool all)
{
    uint64_t at_us = now_us(hold);
    struct held *held;

    for (struct list *at = hold->held.next; at != &hold->held; at = at->next) {
        held = LIST_ITEM(at, struct held, node);
        held->ready = all || !still_waits(hold, held, at_us);
    }
    while ((held = find_ready(hold)) != NULL) {
        uint8_t *bytes = held->bytes;
        size_t length = held->length;
        struct request *request = held->request;

        held->bytes = NULL;
        held_free(hold, held);
        request->state = REQUEST_BEGUN;
        hold->go_on(request, bytes, length);
        free(bytes);
    }
    arm_timer(hold);
}

void hold_look(struct hold *hold)
{
    if (hold->count > 0)
        go_on(hold, false);
}

void hold_end(struct hold *hold)
{
    if (hold->count > 0)
        go_on(hold, true);
    hold->broker->clock.timer_stop(hold->timer);
}

static void on_timer(void *data)
{
    hold_look(data);
}

struct hold *hold_new(struct broker *broker, hold_go_on_fn *function)
{
    struct hold *hold = check_calloc(1, sizeof(*hold));

    hold->broker = broker;
    hold->go_on = function;
    list_init(&hold->held);
    hold->timer = broker->clock.timer_new(broker->clock.context, on_timer, hold);
    return hold;
}

void hold_free(struct hold *hold)
{
    if (hold == NULL)
        return;
    while (!list_empty(&hold->held))
        held_free(hold, LIST_ITEM(hold->held.next, struct held, node));
    hold->broker->clock.timer_free(hold->timer);
    free(hold);
}
