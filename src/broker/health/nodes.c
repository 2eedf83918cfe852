/* What the leader knows of nodes beside the replicated state. See nodes.h. In the order of the
 * file: the records, what an age means, the look that compares ages with the policy, what is heard,
 * and when it begins and ends. */
#include "src/broker/health/nodes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/level.h"
#include "fsm/names.h"
#include "fsm/node_life.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "src/broker/explain/translate.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/node_probe.h"

enum {
    NODES_LOOK_MAX_MS = 1000,
    NODES_LOOK_MIN_MS = 20,
    NODES_PAUSE_MS = 1000, /* a look that comes later than this was not the nodes' fault */
    NODES_BORROWED_EXTRA_MS = 30 * 1000,   /* F-006: their home may be about to take them back */
    NODES_SENSITIVE_EXTRA_MS = 300 * 1000, /* F-006: an operator should look first */
    NODES_ALLOCATIONS_LOOKED_AT = 64,
    NODES_HEARTBEATS = 3,         /* in node_degraded_after, as agents are told */
    NODES_BMC_WORD_MS = 60 * 1000 /* so long a BMC's word waits for a missed heartbeat */
};

struct node_record {
    uint64_t made; /* of whom all this is: the slot may be another node's later */
    bool known;    /* looked at by this leader: ages run from then at the latest */
    bool heard;    /* by this leader */
    bool proposing;
    uint64_t since_us;                    /* heard of last, or known since */
    uint64_t gone_us;                     /* since_us when this leader last gave it up */
    uint32_t gpus;                        /* as it said; 0: it did not */
    char probe[NODE_PROBE_ADDRESS_BYTES]; /* where it is to be probed, by its agent; "": not said */
    char tools[NODES_TOOLS_MAX][NODES_TOOL_BYTES]; /* likewise; "": no more */
};

struct nodes {
    struct broker *broker;
    struct clock_timer *timer;
    bool serving;
    uint64_t next_look_us; /* when the timer should fire */
    struct node_record *records;
    uint32_t count;
    struct node_health *health;
    uint32_t in_flight;             /* proposals */
    uint32_t in_flight_allocations; /* on the nodes of these that are given up */
    uint32_t next_slot;             /* the next look begins here */
    bool cut_short;                 /* the last look ended for lack of room in flight */
};

/* What one look proposed, for its log line. */
struct node_look {
    uint64_t now_us;
    uint32_t by_state[FSM_STATES_NODE];
    uint32_t proposed;
    const char *first_id;
};

/* One NodeSeen in flight. */
struct node_proposal {
    struct nodes *nodes;
    uint32_t slot;
};

static uint64_t monotonic_us(const struct nodes *nodes)
{
    return nodes->broker->clock.monotonic_us(nodes->broker->clock.context);
}

/* The record of a slot; the table grows with the slots of the state. */
static struct node_record *record_at(struct nodes *nodes, uint32_t slot)
{
    if (slot >= nodes->count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        nodes->records = check_realloc(nodes->records, count, sizeof(*nodes->records));
        memset(nodes->records + nodes->count, 0, (count - nodes->count) * sizeof(*nodes->records));
        nodes->count = count;
    }
    return &nodes->records[slot];
}

/* What was heard of another node in its slot is forgotten; a proposal's answer is still to come. */
static struct node_record *record_of(struct nodes *nodes, const struct fsm_node *node)
{
    struct node_record *record = record_at(nodes, node->slot);

    if (record->made != node->made)
        *record = (struct node_record){.made = node->made, .proposing = record->proposing};
    return record;
}

/* NULL: nothing was heard of the node that has the slot. */
static const struct node_record *record_find(const struct nodes *nodes, uint32_t slot)
{
    const struct fsm_node *node;

    if (nodes == NULL || slot >= nodes->count)
        return NULL;
    node = fsm_node_find_slot(replica_fsm(nodes->broker->replica), slot);
    return node != NULL && nodes->records[slot].made == node->made ? &nodes->records[slot] : NULL;
}

/* ---- health ---- */

/* How many intervals of silence make the agent's numbers old: it is degraded then. */
static void set_agent_fresh(struct nodes *nodes)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(nodes->broker->replica));

    node_health_set_source(nodes->health, 0, policy != NULL ? policy->node_degraded_after_ms : 1);
}

struct node_health *nodes_health(const struct nodes *nodes)
{
    return nodes != NULL ? nodes->health : NULL;
}

double nodes_hazard_factor(const struct nodes *nodes, uint32_t node_slot)
{
    return node_health_factor(nodes_health(nodes), node_slot);
}

/* ---- ages ---- */

/* A node that is DOWN does not become DEGRADED by aging less: only a word of its own makes it READY
 * again. Until level 2 a silence alone makes it DOWN. */
static Ckpt__Log__V1__NodeState first_state_for_age(Ckpt__Log__V1__NodeState now,
                                                    const struct node_age *age)
{
    if (age->age_ms >= age->down_after_ms)
        return CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN;
    if (now == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING)
        return now;
    if (age->age_ms >= age->degraded_after_ms)
        return now == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN
                   ? now
                   : CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED;
    return age->heard ? CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY : now;
}

/* A state that is gone stays for as long as the silence does, also when this leader counts from its
 * own begin. A lost agent whose machine is proven off later is DOWN then. */
Ckpt__Log__V1__NodeState nodes_state_for_age(Ckpt__Log__V1__NodeState now,
                                             const struct node_age *age)
{
    bool lost = now == CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST;
    bool down = now == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN;

    if (age->first)
        return first_state_for_age(now, age);
    if (age->powered_off && age->age_ms >= age->missed_after_ms)
        return CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN;
    if (down && age->age_ms >= age->degraded_after_ms)
        return now;
    if (age->age_ms >= age->down_after_ms || (lost && age->age_ms >= age->degraded_after_ms))
        return age->witnessed ? CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN
                              : CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST;
    if (age->age_ms >= age->degraded_after_ms)
        return CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED;
    return age->heard ? CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY : now;
}

/* ---- witnesses ---- */

/* A second witness, and what it has seen. */
struct witness {
    Ckpt__V1__NodeWitness who;
    bool powered_off; /* it counts from the first missed heartbeat on */
    char evidence[FSM_DETAIL_BYTES];
};

/* A BMC's word is of the moment: it does not wait for a silence of tomorrow. */
static bool take_word(const struct nodes *nodes, const struct fsm_node *node,
                      struct witness *witness)
{
    uint64_t now_ms = replica_state_ms(nodes->broker->replica);
    bool bmc = node->witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC;

    if (node->word_at_ms == 0 || (bmc && now_ms > node->word_at_ms + NODES_BMC_WORD_MS))
        return false;
    witness->who = node->witness;
    witness->powered_off = bmc;
    snprintf(witness->evidence, sizeof(witness->evidence), "%s", node->evidence);
    return true;
}

/* The surest first. UNSPECIFIED: nobody but the silence. */
static void find_witness(const struct nodes *nodes, const struct fsm_node *node,
                         struct witness *ret_witness)
{
    *ret_witness = (struct witness){.who = CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED};
    if (node_health_is_off(nodes->health, node->slot)) {
        ret_witness->who = CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC;
        ret_witness->powered_off = true;
        snprintf(ret_witness->evidence, sizeof(ret_witness->evidence),
                 "its power is off, by telemetry");
        return;
    }
    if (take_word(nodes, node, ret_witness))
        return;
    if (node_probe_is_off(nodes->broker->node_probe, node, ret_witness->evidence,
                          sizeof(ret_witness->evidence)))
        ret_witness->who = CKPT__V1__NODE_WITNESS__NODE_WITNESS_PROBE;
}

/* A drain counts too: an operator may drain a node before its agent ever reported. */
bool nodes_unreported(const struct fsm_node *node)
{
    return node->boot_id[0] == '\0' &&
           (node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED ||
            (fsm_node_refusal(node) != FSM_OK && !fsm_node_gone(node)));
}

/* How much longer than the policy says a silent node is kept for the sake of what runs on it. */
static uint64_t extra_patience_ms(const struct fsm *fsm, uint32_t node_slot)
{
    uint32_t slots[NODES_ALLOCATIONS_LOOKED_AT];
    size_t count = fsm_allocations_on_node(fsm, node_slot, slots, NODES_ALLOCATIONS_LOOKED_AT);
    uint64_t extra_ms = 0;

    if (count > NODES_ALLOCATIONS_LOOKED_AT)
        count = NODES_ALLOCATIONS_LOOKED_AT;
    for (size_t i = 0; i < count; i++) {
        const struct fsm_allocation *allocation = fsm_allocation_at(fsm, slots[i]);

        if (allocation->sensitive)
            return NODES_SENSITIVE_EXTRA_MS;
        for (uint32_t j = 0; j < allocation->node_count; j++) {
            if (allocation->nodes[j].node_slot == node_slot && allocation->nodes[j].borrowed)
                extra_ms = NODES_BORROWED_EXTRA_MS;
        }
    }
    return extra_ms;
}

/* When the look is due is kept beside the timer: a look that comes much later tells that this
 * process did not run. */
static void arm_timer(struct nodes *nodes, uint64_t delay_ms)
{
    nodes->next_look_us = monotonic_us(nodes) + delay_ms * 1000;
    nodes->broker->clock.timer_start(nodes->timer, delay_ms * 1000);
}

/* The last of those in flight has come back: a look that stopped for lack of room goes on at
 * once. */
static void on_seen(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct node_proposal *proposal = data;
    struct nodes *nodes = proposal->nodes;

    (void)failed; /* a later look repeats what still differs */
    (void)outcome;
    record_at(nodes, proposal->slot)->proposing = false;
    free(proposal);
    CHECK(nodes->in_flight > 0);
    if (--nodes->in_flight == 0)
        nodes->in_flight_allocations = 0;
    if (failed == NULL && nodes->in_flight == 0 && nodes->cut_short && nodes->serving)
        arm_timer(nodes, 0);
}

/* One NodeSeen in flight for each node. What ends with a node that is given up is counted, so that
 * one turn of the loop does not apply too much at once. */
static void propose_state(struct nodes *nodes, const struct fsm_node *node,
                          Ckpt__Log__V1__NodeState state, const struct node_age *age,
                          struct witness *witness)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    struct node_proposal *proposal = check_alloc(sizeof(*proposal));
    struct node_record *record = record_of(nodes, node);
    uint64_t now_ms = replica_state_ms(nodes->broker->replica);

    *proposal = (struct node_proposal){.nodes = nodes, .slot = node->slot};
    record->proposing = true;
    nodes->in_flight++;
    if (state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN ||
        state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST) {
        record->gone_us = record->since_us;
        nodes->in_flight_allocations += node->allocation_count;
    }
    /* What was heard, or was not: of boots only the node's own hello tells, which may be under way
     * with a new one. */
    seen.node_id = translate_text(node->id);
    seen.state = state;
    if (!age->first) {
        if (state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
            seen.heard_ms = now_ms > age->age_ms ? now_ms - age->age_ms : 1;
        if (state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN) {
            seen.witness = witness->who;
            seen.evidence = witness->evidence;
        }
        seen.probe = record->probe;
    }
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    replica_propose(nodes->broker->replica, &command, on_seen, proposal);
}

/* The first missed heartbeat: agents send NODES_HEARTBEATS of them before a node is degraded, and
 * half an interval is left for its way. */
static uint64_t missed_after_ms(const Ckpt__V1__Policy *policy)
{
    return policy->node_degraded_after_ms / NODES_HEARTBEATS * 3 / 2;
}

/* Whether the state is to be told: a node that is withheld keeps its state whatever is heard, so
 * its silence is told beside it. */
static bool state_differs(const struct fsm_node *node, const struct node_record *record,
                          const struct node_age *age, Ckpt__Log__V1__NodeState state)
{
    bool silent = state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY && node->boot_id[0] != '\0';

    if (age->first)
        return state != node->state;
    if (age->heard && state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
        (node->silent_since_ms != 0 || fsm_node_gone(node) ||
         (record->probe[0] != '\0' && strcmp(record->probe, node->probe) != 0 &&
          !(record->probe[0] == '-' && node->probe[0] == '\0'))))
        return true;
    if (fsm_node_refusal(node) != FSM_OK && !fsm_node_gone(node) &&
        state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST &&
        state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN)
        return state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED && silent &&
               node->silent_since_ms == 0;
    return state != node->state;
}

/* Compares one node's age with the policy. A node that this leader has not looked at before begins
 * its age here, so that a failover kills nobody. */
static void look_at(struct nodes *nodes, const struct fsm_node *node, struct node_look *look)
{
    const struct fsm *fsm = replica_fsm(nodes->broker->replica);
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);
    struct node_record *record = record_of(nodes, node);
    struct node_age age = {.heard = record->heard &&
                                    !(fsm_node_gone(node) && record->since_us == record->gone_us),
                           .first = fsm_level(fsm) < 2,
                           .missed_after_ms = missed_after_ms(policy),
                           .degraded_after_ms = policy->node_degraded_after_ms,
                           .down_after_ms = policy->node_down_after_ms};
    struct witness witness = {.evidence = ""};
    Ckpt__Log__V1__NodeState state;

    if (!record->known) {
        record->known = true;
        record->since_us = look->now_us;
    }
    if (record->proposing || (!record->heard && nodes_unreported(node)))
        return;
    age.age_ms = (look->now_us - record->since_us) / 1000;
    if (age.age_ms >= age.down_after_ms && !fsm_node_gone(node))
        age.down_after_ms += extra_patience_ms(fsm, node->slot);
    if (!age.first && age.age_ms >= age.missed_after_ms) {
        find_witness(nodes, node, &witness);
        age.witnessed = witness.who != CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED;
        age.powered_off = witness.powered_off;
    }
    state = nodes_state_for_age(node->state, &age);
    if (!state_differs(node, record, &age, state))
        return;
    log_debug("node_state", "node=%s from=%s to=%s heartbeat_age_ms=%" PRIu64, node->id,
              fsm_enum_name(&ckpt__log__v1__node_state__descriptor, (int)node->state),
              fsm_enum_name(&ckpt__log__v1__node_state__descriptor, (int)state), age.age_ms);
    if (look->proposed++ == 0)
        look->first_id = node->id;
    look->by_state[state]++;
    propose_state(nodes, node, state, &age, &witness);
}

/* One line for a look: thousands of nodes may change in one, as when a switch fails. */
static void log_look(const struct nodes *nodes, const struct node_look *look)
{
    if (look->proposed > 0)
        log_info("node_states", "ready=%u degraded=%u agent_lost=%u down=%u first=%s more=%d",
                 look->by_state[CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY],
                 look->by_state[CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED],
                 look->by_state[CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST],
                 look->by_state[CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN], look->first_id,
                 nodes->cut_short);
}

/* A tenth of the time after which a silent node is degraded, within limits. */
static uint64_t look_delay_ms(const struct nodes *nodes)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(nodes->broker->replica));
    uint64_t delay_ms = policy != NULL ? policy->node_degraded_after_ms / 10 : NODES_LOOK_MAX_MS;

    if (delay_ms > NODES_LOOK_MAX_MS)
        return NODES_LOOK_MAX_MS;
    return delay_ms < NODES_LOOK_MIN_MS ? NODES_LOOK_MIN_MS : delay_ms;
}

/* This process did not run (stopped, starved): heartbeats of that time still wait in sockets, so it
 * ages nobody. */
static void forgive_own_pause(struct nodes *nodes, uint64_t now_us)
{
    uint64_t late_us = now_us > nodes->next_look_us ? now_us - nodes->next_look_us : 0;

    if (late_us < NODES_PAUSE_MS * 1000)
        return;
    log_warning("node_ages_held", "paused_ms=%llu", (unsigned long long)(late_us / 1000));
    for (uint32_t slot = 0; slot < nodes->count; slot++) {
        struct node_record *record = &nodes->records[slot];

        record->since_us =
            now_us - record->since_us > late_us ? record->since_us + late_us : now_us;
    }
}

/* Looks at every node once, from where the last look stopped. Proposing may end this leadership. */
static void look_around(struct nodes *nodes, struct node_look *look)
{
    const struct fsm *fsm = replica_fsm(nodes->broker->replica);
    uint32_t slots = fsm_node_slots(fsm);
    uint32_t slot = nodes->next_slot < slots ? nodes->next_slot : 0;

    nodes->cut_short = false;
    for (uint32_t i = 0; i < slots && nodes->serving; i++, slot = slot + 1 < slots ? slot + 1 : 0) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node == NULL)
            continue;
        if (nodes->in_flight < NODES_IN_FLIGHT_MAX &&
            nodes->in_flight_allocations < NODES_ALLOCATIONS_IN_FLIGHT_MAX) {
            look_at(nodes, node, look);
            nodes->next_slot = slot + 1;
        } else {
            nodes->cut_short = true;
        }
    }
}

/* Health is looked at after the ages: a node that was just given up is not drained as well. */
static void on_timer(void *data)
{
    struct nodes *nodes = data;
    struct node_look look = {.now_us = monotonic_us(nodes)};

    if (!nodes->serving)
        return;
    forgive_own_pause(nodes, look.now_us);
    look_around(nodes, &look);
    log_look(nodes, &look);
    if (nodes->serving) {
        set_agent_fresh(nodes);
        node_health_look(nodes->health);
    }
    if (nodes->serving)
        arm_timer(nodes, look_delay_ms(nodes));
}

void nodes_reached(struct nodes *nodes, uint32_t node_slot, const char *setting, const char *peer)
{
    const struct fsm_node *node =
        fsm_node_find_slot(replica_fsm(nodes->broker->replica), node_slot);

    if (node != NULL)
        node_probe_address(setting, peer, record_of(nodes, node)->probe);
}

/* Any word counts as a sign of life; only a heartbeat has numbers. */
void nodes_heard(struct nodes *nodes, uint32_t node_slot, const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    const struct fsm_node *node =
        fsm_node_find_slot(replica_fsm(nodes->broker->replica), node_slot);
    struct node_record *record;

    if (node == NULL)
        return;
    record = record_of(nodes, node);
    record->known = record->heard = true;
    record->since_us = monotonic_us(nodes);
    if (heartbeat == NULL)
        return;
    if (heartbeat->gpu_count > 0 && heartbeat->gpu_count <= FSM_GPUS_PER_NODE_MAX)
        record->gpus = heartbeat->gpu_count;
    for (size_t i = 0; i < NODES_TOOLS_MAX; i++)
        (void)text_shown(i < heartbeat->n_tools ? heartbeat->tools[i] : "", record->tools[i],
                         NODES_TOOL_BYTES);
    node_health_heartbeat(nodes->health, node_slot, heartbeat);
}

const char *nodes_tool(const struct nodes *nodes, uint32_t node_slot, size_t i)
{
    const struct node_record *record = record_find(nodes, node_slot);

    return record != NULL && i < NODES_TOOLS_MAX && record->tools[i][0] != '\0' ? record->tools[i]
                                                                                : NULL;
}

uint32_t nodes_gpus(const struct nodes *nodes, uint32_t node_slot)
{
    const struct node_record *record = record_find(nodes, node_slot);

    return record != NULL ? record->gpus : 0;
}

uint64_t nodes_heartbeat_age_ms(const struct nodes *nodes, uint32_t node_slot)
{
    const struct node_record *record = record_find(nodes, node_slot);

    if (record == NULL || !record->heard)
        return UINT64_MAX;
    return (monotonic_us(nodes) - record->since_us) / 1000;
}

/* ---- life ---- */

/* Everything that was heard is forgotten: it was heard by another leadership. Proposals whose
 * answer is still to come are not. */
void nodes_start(struct nodes *nodes)
{
    for (uint32_t slot = 0; slot < nodes->count; slot++) {
        bool proposing = nodes->records[slot].proposing; /* its answer is still to come */

        nodes->records[slot] = (struct node_record){.proposing = proposing};
    }
    nodes->cut_short = false;
    nodes->serving = true;
    set_agent_fresh(nodes);
    node_health_begin(nodes->health);
    arm_timer(nodes, look_delay_ms(nodes));
}

void nodes_stop(struct nodes *nodes)
{
    nodes->serving = false;
    nodes->broker->clock.timer_stop(nodes->timer);
}

struct nodes *nodes_new(struct broker *broker)
{
    struct nodes *nodes = check_calloc(1, sizeof(*nodes));

    nodes->broker = broker;
    nodes->health = node_health_new(broker);
    nodes->timer = broker->clock.timer_new(broker->clock.context, on_timer, nodes);
    return nodes;
}

void nodes_free(struct nodes *nodes)
{
    if (nodes == NULL)
        return;
    nodes->broker->clock.timer_free(nodes->timer);
    node_health_free(nodes->health);
    free(nodes->records);
    free(nodes);
}
