/* Which endpoint to talk to. See follow.h.
 *
 * Flow     result → redirect? take it : next in turn. After a whole turn without an answer the
 *          caller is told to wait a little longer each time: elections take hundreds of
 *          milliseconds, and clients must not make them harder.
 * Shapes   a channel is made when its endpoint's turn comes; one that is left and has no open calls
 *          is freed.
 */
#include "src/rpc/follow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/base/check.h"
#include "src/net/address.h"

enum {
    SLOT_REDIRECTED = RPC_FOLLOW_ENDPOINTS_MAX, /* the slot of a redirect outside the list */
    SLOT_COUNT,
    DELAY_MIN_MS = 20,
    DELAY_MAX_MS = 200,
    REDIRECTS_IN_A_ROW_MAX = 4 /* two members that name each other are left after so many moves */
};

struct slot {
    char *endpoint;
    struct rpc_channel *channel; /* NULL until its turn */
};

struct rpc_follow {
    uv_loop_t *loop;
    struct rpc_channel_config config;
    struct slot slots[SLOT_COUNT];
    size_t count; /* of the list; the slot of a redirect is apart */
    size_t current;
    size_t turn;      /* the list's next one when no redirect helps */
    size_t moves;     /* since the last answer */
    size_t redirects; /* in a row */
    uint64_t delay_ms;
    uint64_t dial_ms, dial_min_ms; /* the connect timeout of the next channel, and at first */
};

static int follow_add(struct rpc_follow *follow, const char *text, size_t length, struct err *err)
{
    struct network_address ignored;
    char *endpoint;

    if (follow->count == RPC_FOLLOW_ENDPOINTS_MAX)
        return err_set(err, ERR_FULL, "more than %d endpoints", RPC_FOLLOW_ENDPOINTS_MAX);
    endpoint = check_alloc(length + 1);
    memcpy(endpoint, text, length);
    endpoint[length] = '\0';
    if (network_address_parse(endpoint, &ignored, err) != 0) {
        free(endpoint);
        return -1;
    }
    follow->slots[follow->count++].endpoint = endpoint;
    return 0;
}

int rpc_follow_new(uv_loop_t *loop, const char *endpoints, const struct rpc_channel_config *config,
                   struct rpc_follow **ret_follow, struct err *err)
{
    struct rpc_follow *follow = check_calloc(1, sizeof(*follow));
    const char *at = endpoints;

    follow->loop = loop;
    follow->config = rpc_channel_config_filled(config);
    follow->dial_ms = follow->dial_min_ms = follow->config.connect_timeout_ms;
    for (bool more = true; more;) {
        size_t length = strcspn(at, ",");
        const char *end = at + length;

        more = *end == ',';
        while (length > 0 && *at == ' ')
            at++, length--;
        while (length > 0 && at[length - 1] == ' ')
            length--;
        if (follow_add(follow, at, length, err) != 0) {
            rpc_follow_free(follow);
            return -1;
        }
        at = end + 1;
    }
    *ret_follow = follow;
    return 0;
}

void rpc_follow_free(struct rpc_follow *follow)
{
    if (follow == NULL)
        return;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        struct rpc_channel *channel = follow->slots[i].channel;

        follow->slots[i].channel = NULL;
        rpc_channel_free(channel);
        free(follow->slots[i].endpoint);
    }
    free(follow);
}

struct rpc_channel *rpc_follow_channel(struct rpc_follow *follow)
{
    struct slot *slot = &follow->slots[follow->current];

    if (slot->channel == NULL) {
        follow->config.connect_timeout_ms = follow->dial_ms;
        slot->channel = rpc_channel_new(follow->loop, slot->endpoint, &follow->config);
    }
    rpc_channel_give_time(slot->channel, follow->dial_ms); /* the only one stays its channel */
    return slot->channel;
}

/* Channels without calls that are not current are not worth a connection at the server. */
static void follow_tidy(struct rpc_follow *follow)
{
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        struct slot *slot = &follow->slots[i];

        if (i == follow->current || slot->channel == NULL || rpc_channel_calls(slot->channel) > 0)
            continue;
        rpc_channel_free(slot->channel);
        slot->channel = NULL;
    }
}

/* The slot of a redirect; a redirect that is no address is none. */
static size_t follow_redirected(struct rpc_follow *follow, const char *redirect)
{
    struct slot *slot = &follow->slots[SLOT_REDIRECTED];
    struct network_address ignored;

    for (size_t i = 0; i < SLOT_COUNT; i++)
        if (follow->slots[i].endpoint != NULL && strcmp(follow->slots[i].endpoint, redirect) == 0)
            return i;
    /* the slot is in use by calls of an earlier redirect: they come first */
    if (network_address_parse(redirect, &ignored, NULL) != 0 ||
        follow->current == SLOT_REDIRECTED ||
        (slot->channel != NULL && rpc_channel_calls(slot->channel) > 0))
        return SLOT_COUNT;
    rpc_channel_free(slot->channel);
    slot->channel = NULL;
    free(slot->endpoint);
    slot->endpoint = check_strdup(redirect);
    return SLOT_REDIRECTED;
}

void rpc_follow_move(struct rpc_follow *follow, const char *redirect)
{
    size_t target = SLOT_COUNT;

    if (redirect != NULL && redirect[0] != '\0' && follow->redirects < REDIRECTS_IN_A_ROW_MAX)
        target = follow_redirected(follow, redirect);
    follow->moves++;
    if (target != SLOT_COUNT && target != follow->current) {
        follow->redirects++;
        follow->current = target;
        rpc_channel_hurry(rpc_follow_channel(follow)); /* somebody says it is there */
    } else {
        follow->redirects = 0;
        if (follow->current < follow->count)
            follow->turn = follow->current + 1;
        follow->current = follow->turn++ % follow->count;
    }
    follow_tidy(follow);
}

/* Nothing for the first turn, then longer and longer, not the same for all clients. */
static uint64_t follow_delay(struct rpc_follow *follow)
{
    uint32_t draw = 0;

    if (follow->moves < follow->count)
        return 0;
    follow->moves = 0;
    follow->delay_ms = follow->delay_ms == 0 ? DELAY_MIN_MS : follow->delay_ms * 2;
    if (follow->delay_ms > DELAY_MAX_MS)
        follow->delay_ms = DELAY_MAX_MS;
    if (getrandom(&draw, sizeof(draw), GRND_NONBLOCK) < 0)
        draw = 0; /* no spread then */
    return follow->delay_ms - (uint64_t)draw % (follow->delay_ms / 2);
}

/* Up to a quarter more than twice as long: those who gave up together do not do so again. */
static void follow_wait_longer(struct rpc_follow *follow)
{
    uint32_t draw = 0;

    if (follow->dial_ms >= follow->config.connect_timeout_max_ms)
        return;
    if (getrandom(&draw, sizeof(draw), GRND_NONBLOCK) < 0)
        draw = 0; /* no spread then */
    follow->dial_ms = 2 * follow->dial_ms + (uint64_t)draw % (follow->dial_ms / 2 + 1);
    if (follow->dial_ms > follow->config.connect_timeout_max_ms)
        follow->dial_ms = follow->config.connect_timeout_max_ms;
}

/* Whatever it says, the current one lives: the next trouble begins without a delay. */
static void follow_answered(struct rpc_follow *follow)
{
    follow->moves = 0;
    follow->redirects = 0;
    follow->delay_ms = 0;
}

bool rpc_follow_result(struct rpc_follow *follow, const struct rpc_end *end, uint64_t *ret_delay_ms)
{
    bool current = end->channel == NULL || end->channel == follow->slots[follow->current].channel;
    bool leader_elsewhere = end->status == RPC_UNAVAILABLE && end->redirect != NULL;

    *ret_delay_ms = 0;
    if (end->status == RPC_RESOURCE_EXHAUSTED && end->pushback) {
        *ret_delay_ms = end->pushback_ms;
        return true;
    }
    if (end->status != RPC_UNAVAILABLE && end->status != RPC_DEADLINE_EXCEEDED) {
        if (current)
            follow_answered(follow);
        return false;
    }
    if (current) {
        if (follow->slots[follow->current].channel != NULL &&
            rpc_channel_late(follow->slots[follow->current].channel))
            follow_wait_longer(follow);
        rpc_follow_move(follow, leader_elsewhere ? end->redirect : NULL);
        *ret_delay_ms = follow_delay(follow);
    }
    return true;
}

uint64_t rpc_follow_dial_ms(const struct rpc_follow *follow)
{
    return follow->dial_ms;
}

void rpc_follow_reached(struct rpc_follow *follow)
{
    follow->dial_ms = follow->dial_min_ms;
}

size_t rpc_follow_count(const struct rpc_follow *follow)
{
    return follow->count;
}

const char *rpc_follow_endpoint(const struct rpc_follow *follow, size_t i)
{
    CHECK(i < follow->count);
    return follow->slots[i].endpoint;
}

void rpc_follow_recheck(struct rpc_follow *follow)
{
    for (size_t i = 0; i < SLOT_COUNT; i++)
        if (follow->slots[i].channel != NULL)
            rpc_channel_recheck(follow->slots[i].channel);
}
