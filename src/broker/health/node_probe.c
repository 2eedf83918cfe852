/* Whether the machines of nodes answer this member. See node_probe.h. In the order of the file: the
 * records, the tries, what they prove, the words between members, and addresses. */
#include "src/broker/health/node_probe.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/fsm.h"
#include "fsm/level.h"
#include "src/base/address.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/health/probe_area.h"

enum { BITMAP_BYTES = NODE_PROBE_WINDOW / 8, HOST_BYTES = NODE_PROBE_ADDRESS_BYTES };

_Static_assert((int)HOST_BYTES == (int)PROBE_HOST_BYTES, "an address's host");

_Static_assert((int)NODE_PROBE_WORDS_BYTES <= (int)REPLICA_WORDS_BYTES,
               "the words go along with Raft's messages");
_Static_assert(8 + BITMAP_BYTES == (int)NODE_PROBE_WORDS_BYTES, "a window, a digest, its nodes");

struct probe_flight;

struct probe_record {
    uint64_t made; /* of whom all this is: the slot may be another node's later */
    char address[NODE_PROBE_ADDRESS_BYTES], host[HOST_BYTES];
    struct probe_flight *flight;         /* NULL: none is on its way */
    uint64_t started_us;                 /* of the last try; 0: none yet */
    bool local;                          /* it is on this very host */
    bool answered;                       /* while its agent was well, and not refuted since */
    uint64_t answer_us;                  /* the last answer's try was started then; 0: none */
    uint32_t misses;                     /* in a row */
    uint64_t missed_since_us, missed_us; /* the first and the last of them */
    bool said;    /* the last words had it as silent: they are to be taken back */
    bool pending; /* the last miss: no neighbour has answered since */
    /* so many misses in a row were each followed by an answer of a neighbour, the last one then */
    uint32_t confirmed;
    uint64_t confirmed_us;
};

/* A member's words about a window. */
struct probe_testimony {
    uint64_t member_id;
    uint64_t heard_us;
    uint32_t window;
    uint32_t digest;
    uint8_t bitmap[BITMAP_BYTES];
};

enum { TESTIMONIES_MAX = 9 * 32 };

struct node_probe {
    struct broker *broker;
    struct probe_ops ops;
    struct clock_timer *timer;
    struct probe_record *records;
    uint32_t count;
    uint32_t in_flight;
    uint32_t next_slot;       /* the next look begins here */
    bool missing;             /* as of the last look: a doubtful one did not answer */
    uint32_t next_window;     /* the next words are of it, or of one after it */
    struct probe_areas areas; /* with the answers that misses are compared with: of each look */
    struct probe_testimony testimonies[TESTIMONIES_MAX];
};

/* One look at all nodes. */
struct look {
    uint64_t now_us;
    uint64_t silent_ms, control_ms; /* between two tries */
    uint32_t controls;              /* so many others may still be tried to compare with */
    bool missing;                   /* a doubtful one did not answer */
};

/* One connect on its way. */
struct probe_flight {
    struct node_probe *probe;
    struct probe_try *attempt;
    uint32_t slot;
    uint64_t made;
};

static uint64_t monotonic_us(const struct node_probe *probe)
{
    return probe->broker->clock.monotonic_us(probe->broker->clock.context);
}

static const struct fsm *state_of(const struct node_probe *probe)
{
    return replica_fsm(probe->broker->replica);
}

static bool is_fresh(uint64_t at_us, uint64_t now_us)
{
    return at_us != 0 && now_us - at_us <= NODE_PROBE_FRESH_MS * UINT64_C(1000);
}

/* ---- records ---- */

static struct probe_record *record_at(struct node_probe *probe, uint32_t slot)
{
    if (slot >= probe->count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        probe->records = check_realloc(probe->records, count, sizeof(*probe->records));
        memset(probe->records + probe->count, 0, (count - probe->count) * sizeof(*probe->records));
        probe->count = count;
    }
    return &probe->records[slot];
}

static void host_of(const char *address, char host[HOST_BYTES])
{
    uint64_t port;

    if (address_split(address, host, HOST_BYTES, &port) != 0)
        host[0] = '\0';
}

/* Of another node in the slot, or of another address, nothing is known. */
static struct probe_record *record_of(struct node_probe *probe, const struct fsm_node *node)
{
    struct probe_record *record = record_at(probe, node->slot);
    struct probe_flight *flight = record->flight;

    if (record->made != node->made || strcmp(record->address, node->probe) != 0) {
        *record = (struct probe_record){.made = node->made, .flight = flight};
        snprintf(record->address, sizeof(record->address), "%s", node->probe);
        host_of(record->address, record->host);
    }
    return record;
}

static const struct probe_record *record_find(const struct node_probe *probe,
                                              const struct fsm_node *node)
{
    const struct probe_record *record;

    if (probe == NULL || node->slot >= probe->count || node->probe[0] == '\0')
        return NULL;
    record = &probe->records[node->slot];
    return record->made == node->made && strcmp(record->address, node->probe) == 0 ? record : NULL;
}

/* ---- tries ---- */

/* A miss while the agent is well may be the first sign of its end: what was known to answer is
 * forgotten only when the agent was still well long after. */
static void take_miss(struct node_probe *probe, struct probe_record *record,
                      const struct fsm_node *node, uint64_t now_us)
{
    const Ckpt__V1__Policy *policy = fsm_policy(state_of(probe));
    uint64_t doubt_us = policy != NULL ? 2000 * policy->node_degraded_after_ms : 0;

    if (record->misses == 0)
        record->missed_since_us = record->started_us;
    if (record->pending)
        record->confirmed = 0;
    record->pending = true;
    record->misses += record->misses < UINT32_MAX;
    record->missed_us = now_us;
    if (fsm_node_silent_since_ms(node) == 0 && record->misses >= NODE_PROBE_MISSES &&
        now_us - record->missed_since_us > doubt_us)
        record->answered = false;
}

static void take_answer(struct probe_record *record, const struct fsm_node *node)
{
    record->misses = record->confirmed = 0;
    record->pending = false;
    record->answer_us = record->started_us;
    record->answered |= fsm_node_silent_since_ms(node) == 0;
}

static void on_done(void *data, enum probe_result result)
{
    struct probe_flight flight = *(struct probe_flight *)data;
    struct node_probe *probe = flight.probe;
    struct probe_record *record = record_at(probe, flight.slot);
    const struct fsm_node *node = fsm_node_find_slot(state_of(probe), flight.slot);

    free(data);
    CHECK(probe->in_flight > 0);
    probe->in_flight--;
    record->flight = NULL;
    if (node == NULL || node->made != flight.made || record->made != flight.made ||
        record->started_us == 0)
        return; /* it was of another node, or of another address */
    record->local = result == PROBE_LOCAL;
    if (result == PROBE_ANSWER)
        take_answer(record, node);
    else if (result == PROBE_SILENCE)
        take_miss(probe, record, node, monotonic_us(probe));
}

static void try_node(struct node_probe *probe, const struct fsm_node *node,
                     struct probe_record *record, uint64_t now_us)
{
    struct probe_flight *flight = check_alloc(sizeof(*flight));

    *flight = (struct probe_flight){probe, NULL, node->slot, node->made};
    record->flight = flight;
    record->started_us = now_us;
    probe->in_flight++;
    flight->attempt = probe->ops.start(probe->ops.context, record->address, on_done, flight);
}

/* An answer of a neighbour that came from a try after the last miss: then neither this member is
 * cut off, nor its way to the node's part of the network. Each miss needs one of its own, before
 * the next miss: a member whose cut has just ended would else believe all that it saw in it. A node
 * without a neighbour that is known to answer is compared with any other one. */
static void confirm_miss(struct node_probe *probe, const struct fsm_node *node,
                         struct probe_record *record, uint64_t now_us)
{
    const struct probe_area *area =
        probe_areas_at(&probe->areas, probe_area_key(node->domain, record->host));

    if (!probe_area_has_other(area, record->host))
        area = &probe->areas.all;
    if (!record->pending || !probe_area_answered(area, record->host, record->missed_us))
        return;
    record->pending = false;
    record->confirmed += record->confirmed < UINT32_MAX;
    record->confirmed_us = now_us;
}

static uint64_t pace_ms(const struct node_probe *probe, uint64_t divisor, uint64_t most_ms)
{
    const Ckpt__V1__Policy *policy = fsm_policy(state_of(probe));
    uint64_t pause_ms = policy != NULL ? policy->node_degraded_after_ms / divisor : most_ms;

    if (pause_ms > most_ms)
        return most_ms;
    return pause_ms < NODE_PROBE_LEAST_MS ? NODE_PROBE_LEAST_MS : pause_ms;
}

static bool is_due(const struct probe_record *record, uint64_t pause_ms, uint64_t now_us)
{
    return record->flight == NULL &&
           (record->started_us == 0 || now_us - record->started_us >= pause_ms * 1000);
}

/* For a while after its silence, or after its first miss: a node that stays so is not asked for
 * ever. Of one that is off already, or that never answered, there is nothing to learn. */
static bool is_doubtful(const struct node_probe *probe, const struct fsm_node *node,
                        const struct probe_record *record, uint64_t now_us)
{
    uint64_t silent_ms = fsm_node_silent_since_ms(node);

    if (node->off_at_ms != 0 || !record->answered)
        return false;
    if (record->misses > 0)
        return now_us - record->missed_since_us <= NODE_PROBE_DOUBT_MS * UINT64_C(1000);
    return silent_ms != 0 &&
           replica_state_ms(probe->broker->replica) <= silent_ms + NODE_PROBE_DOUBT_MS;
}

/* A node that has not answered yet is soon tried again, some times: the first try may have met a
 * network that was just coming up. */
static bool is_young(const struct probe_record *record)
{
    return !record->answered && record->misses < NODE_PROBE_YOUNG_MISSES;
}

/* One to compare with, of the part of the network where something is missing or of any. */
static bool is_compared(const struct probe_record *record, struct probe_area *area,
                        struct look *look)
{
    uint32_t *allowed = area->missing && area->allowed > 0 ? &area->allowed : &look->controls;

    if (*allowed == 0 || !record->answered || record->local || record->misses > 0)
        return false;
    --*allowed;
    return true;
}

/* Doubtful ones, and while there is a miss some others to compare with, are tried often. */
static void look_at(struct node_probe *probe, const struct fsm_node *node, struct look *look)
{
    struct probe_record *record = record_of(probe, node);
    struct probe_area *area =
        probe_areas_at(&probe->areas, probe_area_key(node->domain, record->host));
    bool doubtful = is_doubtful(probe, node, record, look->now_us);
    bool compared = !doubtful && is_compared(record, area, look);

    if (record->misses > 0)
        confirm_miss(probe, node, record, look->now_us);
    look->missing |= doubtful && record->misses > 0;
    if (node->probe[0] != '\0' && probe->in_flight < NODE_PROBE_IN_FLIGHT_MAX &&
        is_due(record,
               doubtful           ? look->silent_ms * (record->pending ? 2 : 1)
               : compared         ? look->control_ms
               : is_young(record) ? look->silent_ms * 6
                                  : NODE_PROBE_WELL_MS,
               look->now_us))
        try_node(probe, node, record, look->now_us);
}

/* The answers so far, and where something is missing, as of this look. A node that ever answered is
 * a neighbour for good, until it is off: one that is cut off for long would else be forgotten with
 * all of its rack. */
static void survey_areas(struct node_probe *probe, uint64_t now_us)
{
    const struct fsm *fsm = state_of(probe);
    uint32_t slots = fsm_node_slots(fsm);

    probe_areas_begin(&probe->areas, slots, NODE_PROBE_CONTROLS);
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);
        const struct probe_record *record = node == NULL ? NULL : record_of(probe, node);
        struct probe_area *area;

        if (record == NULL || record->host[0] == '\0' || record->answer_us == 0)
            continue;
        area = probe_areas_at(&probe->areas, probe_area_key(node->domain, record->host));
        area->missing |= record->misses > 0 && is_doubtful(probe, node, record, now_us);
        if (record->local || node->off_at_ms != 0)
            continue;
        probe_area_add(area, record->host, record->answer_us);
        probe_area_add(&probe->areas.all, record->host, record->answer_us);
    }
}

static void on_timer(void *data)
{
    struct node_probe *probe = data;
    const struct fsm *fsm = state_of(probe);
    struct look look = {.now_us = monotonic_us(probe),
                        .silent_ms = pace_ms(probe, 6, NODE_PROBE_SILENT_MS),
                        .control_ms = pace_ms(probe, 15, NODE_PROBE_CONTROL_MS),
                        .controls = probe->missing ? NODE_PROBE_CONTROLS : 0};
    uint32_t slots = fsm_node_slots(fsm);
    uint32_t slot = probe->next_slot < slots ? probe->next_slot : 0;

    probe->broker->clock.timer_start(
        probe->timer,
        1000 * (look.control_ms < NODE_PROBE_LOOK_MS ? look.control_ms : NODE_PROBE_LOOK_MS));
    if (fsm_level(fsm) < 2)
        return;
    survey_areas(probe, look.now_us);
    for (uint32_t i = 0; i < slots; i++, slot = slot + 1 < slots ? slot + 1 : 0) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node != NULL)
            look_at(probe, node, &look);
        if (probe->in_flight >= NODE_PROBE_IN_FLIGHT_MAX)
            probe->next_slot = slot;
    }
    probe->missing = look.missing;
}

/* ---- what they prove ---- */

bool node_probe_witnesses(const struct node_probe *probe, const struct fsm_node *node)
{
    const struct probe_record *record = record_find(probe, node);

    return record != NULL && fsm_node_silent_since_ms(node) != 0 && record->answered &&
           !record->local && record->confirmed >= NODE_PROBE_MISSES &&
           is_fresh(record->confirmed_us, monotonic_us(probe));
}

const char *node_probe_word(const struct node_probe *probe, const struct fsm_node *node)
{
    const struct probe_record *record = record_find(probe, node);

    if (record == NULL || record->started_us == 0)
        return "";
    if (record->local)
        return "on this host";
    if (record->misses > 0)
        return record->answered ? "no answer" : "never answered";
    return record->answer_us != 0 ? "answers" : "";
}

/* Of the nodes of a window that are named: who they are, and where they were tried. */
static uint32_t digest_of(const struct node_probe *probe, uint32_t window,
                          const uint8_t bitmap[BITMAP_BYTES])
{
    uint32_t crc = 0;

    for (uint32_t i = 0; i < NODE_PROBE_WINDOW; i++) {
        const struct fsm_node *node =
            (bitmap[i / 8] >> (i % 8) & 1) == 0
                ? NULL
                : fsm_node_find_slot(state_of(probe), window * NODE_PROBE_WINDOW + i);

        if (node == NULL)
            continue;
        crc = crc32c(crc, &node->made, sizeof(node->made));
        crc = crc32c(crc, node->probe, strlen(node->probe));
    }
    return crc;
}

static bool member_witnesses(const struct node_probe *probe, uint64_t member_id,
                             const struct fsm_node *node)
{
    uint32_t place = node->slot % NODE_PROBE_WINDOW;

    if (member_id == probe->broker->config->self->id)
        return node_probe_witnesses(probe, node);
    for (size_t i = 0; i < TESTIMONIES_MAX; i++) {
        const struct probe_testimony *at = &probe->testimonies[i];

        if (at->member_id == member_id && at->window == node->slot / NODE_PROBE_WINDOW &&
            monotonic_us(probe) - at->heard_us <= NODE_PROBE_WORDS_MS * UINT64_C(1000) &&
            (at->bitmap[place / 8] >> (place % 8) & 1) != 0)
            return at->digest == digest_of(probe, at->window, at->bitmap);
    }
    return false;
}

/* Two members on one host see with the same eyes. */
bool node_probe_is_off(const struct node_probe *probe, const struct fsm_node *node, char *text,
                       size_t size)
{
    char hosts[9][HOST_BYTES];
    const Ckpt__Log__V1__MemberFacts *facts;
    size_t count = 0, used;

    if (probe == NULL || node->probe[0] == '\0' || fsm_node_silent_since_ms(node) == 0)
        return false;
    used = (size_t)snprintf(text, size, "no answer at %s from", node->probe);
    for (size_t i = 0; count < 9 && (facts = fsm_member_at(state_of(probe), i)) != NULL; i++) {
        size_t same = 0;

        if (facts->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED ||
            !member_witnesses(probe, facts->member_id, node))
            continue;
        host_of(facts->raft_address, hosts[count]);
        while (same < count && strcmp(hosts[same], hosts[count]) != 0)
            same++;
        if (same < count)
            continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s %s", count == 0 ? "" : ",",
                                     facts->name);
        count++;
    }
    return count >= 2;
}

/* ---- words ---- */

size_t node_probe_say(struct node_probe *probe, uint8_t bytes[NODE_PROBE_WORDS_BYTES])
{
    uint32_t slots = fsm_node_slots(state_of(probe));
    uint32_t windows = (slots + NODE_PROBE_WINDOW - 1) / NODE_PROBE_WINDOW;

    for (uint32_t n = 0; fsm_level(state_of(probe)) >= 2 && n < windows; n++) {
        uint32_t window = (probe->next_window + n) % windows;
        bool any = false;

        memset(bytes, 0, NODE_PROBE_WORDS_BYTES);
        for (uint32_t i = 0; i < NODE_PROBE_WINDOW; i++) {
            const struct fsm_node *node =
                fsm_node_find_slot(state_of(probe), window * NODE_PROBE_WINDOW + i);
            struct probe_record *record;

            if (node == NULL || record_find(probe, node) == NULL)
                continue;
            record = record_at(probe, node->slot);
            any |= record->said;
            record->said = node_probe_witnesses(probe, node);
            any |= record->said;
            if (record->said)
                bytes[8 + i / 8] |= (uint8_t)(1u << (i % 8));
        }
        if (!any)
            continue;
        bytes_put(bytes, window, 4);
        bytes_put(bytes + 4, digest_of(probe, window, bytes + 8), 4);
        probe->next_window = window + 1;
        return NODE_PROBE_WORDS_BYTES;
    }
    return 0;
}

/* The place of the member's words about the window: their last ones, or the oldest of all. */
void node_probe_hear(struct node_probe *probe, uint64_t member_id, const uint8_t *bytes,
                     size_t length)
{
    struct probe_testimony *place = &probe->testimonies[0];
    uint32_t window;

    if (length != NODE_PROBE_WORDS_BYTES || member_id == 0)
        return;
    window = (uint32_t)bytes_get(bytes, 4);
    for (size_t i = 0; i < TESTIMONIES_MAX; i++) {
        struct probe_testimony *at = &probe->testimonies[i];

        if (at->member_id == member_id && at->window == window) {
            place = at;
            break;
        }
        if (at->heard_us < place->heard_us)
            place = at;
    }
    *place = (struct probe_testimony){.member_id = member_id,
                                      .heard_us = monotonic_us(probe),
                                      .window = window,
                                      .digest = (uint32_t)bytes_get(bytes + 4, 4)};
    memcpy(place->bitmap, bytes + 8, BITMAP_BYTES);
}

/* ---- addresses ---- */

static bool is_numeric(const char *host)
{
    struct in6_addr any;

    return inet_pton(strchr(host, ':') != NULL ? AF_INET6 : AF_INET, host, &any) == 1;
}

void node_probe_address(const char *setting, const char *peer, char text[NODE_PROBE_ADDRESS_BYTES])
{
    char host[HOST_BYTES], *end;
    uint64_t port = NODE_PROBE_PORT;
    unsigned long told = strtoul(setting, &end, 10);
    const char *from = setting[0] != '\0' && *end != '\0' ? setting : peer;
    uint64_t of_stream;

    snprintf(text, NODE_PROBE_ADDRESS_BYTES, "-");
    if (address_split(from, host, sizeof(host), from == setting ? &port : &of_stream) != 0)
        return;
    if (setting[0] != '\0' && from == peer)
        port = told;
    if (port == 0 || port > UINT16_MAX || !is_numeric(host))
        return;
    snprintf(text, NODE_PROBE_ADDRESS_BYTES, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
             (unsigned)port);
}

/* ---- life ---- */

static size_t say_words(void *context, uint8_t bytes[REPLICA_WORDS_BYTES])
{
    return node_probe_say(context, bytes);
}

static void hear_words(void *context, uint64_t member_id, const uint8_t *bytes, size_t length)
{
    node_probe_hear(context, member_id, bytes, length);
}

struct node_probe *node_probe_new(struct broker *broker, const struct probe_ops *ops)
{
    struct node_probe *probe = check_calloc(1, sizeof(*probe));

    probe->broker = broker;
    probe->ops = *ops;
    replica_set_words(broker->replica, &(struct replica_words){probe, say_words, hear_words});
    probe->timer = broker->clock.timer_new(broker->clock.context, on_timer, probe);
    broker->clock.timer_start(probe->timer, NODE_PROBE_LOOK_MS * UINT64_C(1000));
    return probe;
}

void node_probe_free(struct node_probe *probe)
{
    if (probe == NULL)
        return;
    for (uint32_t slot = 0; slot < probe->count; slot++) {
        if (probe->records[slot].flight == NULL)
            continue;
        probe->ops.cancel(probe->records[slot].flight->attempt);
        free(probe->records[slot].flight);
    }
    probe->broker->clock.timer_free(probe->timer);
    probe_areas_free(&probe->areas);
    free(probe->records);
    free(probe);
}
