/* What the leader learns of the whole fleet. See learner.h. In the order of the file: the numbers
 * from the state and back, the time that passes and the events that were counted, and what came of
 * alarms. */
#include "src/broker/decide/learner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/node_life.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"

#define MICRO 1e-6

enum {
    QUIET_INTERVALS = 12, /* between two proposals when nothing happened */
    /* A node that is down is not heard of any more: who watched it lately would have seen its
     * signals. */
    WATCHED_LATELY_MS = 600000
};

_Static_assert((int)FSM_AGE_BINS == (int)EVAL_AGE_BINS, "the state counts by the model's bins");
_Static_assert((int)FSM_HAZARD_WORDS == (int)EVAL_HAZARD_WORDS, "the words fit");
_Static_assert((int)FSM_ALARM_WORDS == (int)EVAL_ALARM_WORDS, "the words fit");
_Static_assert((int)FSM_GROUPS == (int)EVAL_GROUPS, "the state counts by the model's groups");

/* A node, as this leader saw it last. */
struct looked_at {
    uint64_t made; /* of that node: the slot may be another one's later; 0: none yet */
    uint32_t failure_count;
    uint64_t watched_ms; /* 0: never */
    struct eval_episode episode;
};

struct learner {
    struct broker *broker;
    uint64_t at_ms; /* exposure up to here is inside */
    /* at_ms of the last proposal or of what was loaded; 0: nothing is in the state */
    uint64_t saved_ms;
    bool proposing;
    bool news; /* something happened since the last proposal */
    struct eval_fleet fleet;
    struct eval_fleet_rates told; /* as held */
    struct fsm_losses counted;    /* how many of the state's counts are inside */
    struct looked_at *nodes;      /* by slot */
    uint32_t node_count;
};

static const struct fsm *learner_fsm(const struct learner *learner)
{
    return replica_fsm(learner->broker->replica);
}

/* NULL: nobody hears of nodes. */
static struct node_health *health_of(const struct learner *learner)
{
    return nodes_health(learner->broker->nodes);
}

static struct eval_fleet_prior prior_of(const struct learner *learner)
{
    const Ckpt__V1__Policy *policy = fsm_policy(learner_fsm(learner));
    struct eval_fleet_prior prior = {
        .node_failures_per_s = policy->node_failures_per_1000_node_days_milli / 1e6 / 86400,
        .hazard_forget_s = (double)policy->hazard_forget_ms / 1e3,
        .demand_forget_s = (double)policy->demand_forget_ms / 1e3};

    if (health_of(learner) != NULL)
        node_health_alarm_prior(health_of(learner), &prior.alarms);
    return prior;
}

/* What alarms are like counts for the next rows. */
static void tell_alarms(struct learner *learner)
{
    struct eval_fleet_rates rates;

    eval_fleet_rates(&learner->fleet, &rates);
    eval_fleet_hold(&learner->told, &rates);
    if (health_of(learner) != NULL)
        node_health_set_alarms(health_of(learner), &learner->told.alarms);
}

/* ---- from and to the state ---- */

static void load_groups(struct eval_rate *rates, uint64_t *counted,
                        Ckpt__Log__V1__LearnedRate *const *from)
{
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        rates[i] = (struct eval_rate){.events = (double)from[i]->events_e6 * MICRO,
                                      .seconds = (double)from[i]->exposed_ms / 1e3};
        counted[i] = from[i]->counted;
    }
}

static void load_saved(struct learner *learner, const Ckpt__Log__V1__SetLearned *saved)
{
    int64_t words[EVAL_HAZARD_WORDS], alarms[EVAL_ALARM_WORDS];

    CHECK(saved->n_hazard == EVAL_HAZARD_WORDS); /* the state refuses others */
    CHECK(saved->n_alarms == EVAL_ALARM_WORDS);
    for (size_t i = 0; i < EVAL_HAZARD_WORDS; i++)
        words[i] = (int64_t)saved->hazard[i];
    for (size_t i = 0; i < EVAL_ALARM_WORDS; i++)
        alarms[i] = (int64_t)saved->alarms[i];
    CHECK(eval_hazard_load(&learner->fleet.hazard, words));
    CHECK(eval_alarms_load(&learner->fleet.alarms, alarms));
    memcpy(learner->counted.node_failures, saved->node_failures,
           sizeof(learner->counted.node_failures));
    load_groups(learner->fleet.kills, learner->counted.kills, saved->kills);
    load_groups(learner->fleet.demands, learner->counted.demands, saved->demands);
    learner->at_ms = learner->saved_ms = saved->at_ms;
}

void learner_load(struct learner *learner)
{
    const Ckpt__Log__V1__SetLearned *saved = fsm_learned(learner_fsm(learner));
    struct eval_fleet_prior prior = prior_of(learner);

    eval_fleet_init(&learner->fleet, &prior);
    learner->news = false;
    learner->proposing = false;
    memset(&learner->counted, 0, sizeof(learner->counted));
    for (uint32_t slot = 0; slot < learner->node_count; slot++)
        learner->nodes[slot].made = 0;
    if (saved != NULL) {
        load_saved(learner, saved);
    } else {
        learner->at_ms = replica_state_ms(learner->broker->replica);
        learner->saved_ms = 0;
    }
    tell_alarms(learner);
}

static void on_saved(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct learner *learner = data;

    learner->proposing = false;
    if (failed == NULL && outcome->status != FSM_OK)
        log_warning("learned_refused", "status=%s current=%" PRIu64 " limit=%" PRIu64,
                    fsm_status_name(outcome->status), outcome->current, outcome->limit);
}

static uint64_t to_integer(double number)
{
    return number > 0 ? (uint64_t)(number < 9e18 ? number + 0.5 : 9e18) : 0;
}

static void save_groups(const struct eval_rate *rates, const uint64_t *counted,
                        Ckpt__Log__V1__LearnedRate *messages, Ckpt__Log__V1__LearnedRate **pointers)
{
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        ckpt__log__v1__learned_rate__init(&messages[i]);
        messages[i].events_e6 = to_integer(rates[i].events / MICRO);
        messages[i].exposed_ms = to_integer(rates[i].seconds * 1e3);
        messages[i].counted = counted[i];
        pointers[i] = &messages[i];
    }
}

static void propose_learned(struct learner *learner)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetLearned set = CKPT__LOG__V1__SET_LEARNED__INIT;
    Ckpt__Log__V1__LearnedRate rates[2][FSM_GROUPS], *pointers[2][FSM_GROUPS];
    struct consensus_status status;
    int64_t words[EVAL_HAZARD_WORDS], alarm_words[EVAL_ALARM_WORDS];
    uint64_t hazard[EVAL_HAZARD_WORDS], alarms[EVAL_ALARM_WORDS];

    replica_get_status(learner->broker->replica, &status);
    eval_hazard_save(&learner->fleet.hazard, words);
    for (size_t i = 0; i < EVAL_HAZARD_WORDS; i++)
        hazard[i] = (uint64_t)words[i];
    eval_alarms_save(&learner->fleet.alarms, alarm_words);
    for (size_t i = 0; i < EVAL_ALARM_WORDS; i++)
        alarms[i] = (uint64_t)alarm_words[i];
    save_groups(learner->fleet.kills, learner->counted.kills, rates[0], pointers[0]);
    save_groups(learner->fleet.demands, learner->counted.demands, rates[1], pointers[1]);
    set.term = status.term;
    set.at_ms = learner->at_ms;
    set.n_hazard = EVAL_HAZARD_WORDS;
    set.hazard = hazard;
    set.n_alarms = EVAL_ALARM_WORDS;
    set.alarms = alarms;
    set.n_node_failures = FSM_AGE_BINS;
    set.node_failures = learner->counted.node_failures;
    set.n_kills = set.n_demands = FSM_GROUPS;
    set.kills = pointers[0];
    set.demands = pointers[1];
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_LEARNED;
    command.set_learned = &set;
    learner->saved_ms = learner->at_ms;
    learner->news = false;
    learner->proposing = true;
    replica_propose(learner->broker->replica, &command, on_saved, learner);
}

/* ---- time and events ---- */

static bool node_is_up(const struct fsm_node *node)
{
    return node != NULL && node->steady_since_ms != 0 && !fsm_node_gone(node);
}

static void count_nodes(const struct learner *learner, uint64_t now_ms,
                        double ret_nodes[EVAL_AGE_BINS])
{
    const struct fsm *fsm = learner_fsm(learner);

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node_is_up(node))
            ret_nodes[fsm_age_bin(now_ms > node->steady_since_ms ? now_ms - node->steady_since_ms
                                                                 : 0)]++;
    }
}

static void note_failures(struct learner *learner, const struct fsm_losses *losses)
{
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        double age_s = bin == 0 ? 0 : eval_hazard_bin_end_s(bin - 1);
        uint64_t *counted = &learner->counted.node_failures[bin];

        for (; *counted < losses->node_failures[bin]; ++*counted) {
            eval_hazard_note_failure(&learner->fleet.hazard, age_s);
            learner->news = true;
        }
    }
}

static void note_groups(struct learner *learner, struct eval_rate *rates, uint64_t *counted,
                        const uint64_t *counts)
{
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        for (; counted[i] < counts[i]; counted[i]++) {
            eval_rate_note(&rates[i]);
            learner->news = true;
        }
    }
}

static void reach_nodes(struct learner *learner, uint32_t count)
{
    if (count <= learner->node_count)
        return;
    learner->nodes = check_realloc(learner->nodes, count, sizeof(*learner->nodes));
    memset(learner->nodes + learner->node_count, 0,
           (count - learner->node_count) * sizeof(*learner->nodes));
    learner->node_count = count;
}

/* What came of the node's alarm, if it has one. Alarms are what this member hears; what a leader
 * saw begin and did not see end is unknown. */
static void look_at_node(struct learner *learner, struct node_health *health,
                         const struct fsm_node *node, uint64_t now_ms)
{
    struct looked_at *before = &learner->nodes[node->slot];
    struct eval_sight sight = {.now_s = (double)now_ms / 1e3};

    if (before->made != node->made)
        *before = (struct looked_at){.made = node->made, .failure_count = node->failure_count};
    if (node_health_watched(health, node->slot))
        before->watched_ms = now_ms;
    sight.failed = node->failure_count > before->failure_count;
    sight.watched = before->watched_ms != 0 && now_ms - before->watched_ms <= WATCHED_LATELY_MS;
    sight.alarm = node_health_alarm(health, node->slot, &sight.alarm_age_s);
    sight.emptied = fsm_node_refusal(node) != FSM_OK || fsm_node_gone(node);
    eval_episode_see(&before->episode, &sight, &learner->fleet.alarms);
    if (sight.failed)
        node_health_failed(health, node->slot);
    before->failure_count = node->failure_count;
}

static void look_at_alarms(struct learner *learner, uint64_t now_ms)
{
    const struct fsm *fsm = learner_fsm(learner);
    struct node_health *health = health_of(learner);
    uint32_t slots = fsm_node_slots(fsm);

    if (health == NULL)
        return;
    reach_nodes(learner, slots);
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node == NULL)
            learner->nodes[slot].made = 0;
        else
            look_at_node(learner, health, node, now_ms);
    }
}

static bool is_time_to_save(const struct learner *learner)
{
    uint64_t interval_ms = fsm_policy(learner_fsm(learner))->learned_interval_ms;

    if (learner->proposing)
        return false;
    if (learner->saved_ms == 0)
        return true;
    if (!learner->news)
        interval_ms *= QUIET_INTERVALS;
    return learner->at_ms >= learner->saved_ms + interval_ms;
}

void learner_advance(struct learner *learner, const uint32_t running[FSM_GROUPS])
{
    const struct fsm *fsm = learner_fsm(learner);
    uint64_t now_ms = replica_state_ms(learner->broker->replica);
    double passed_s = now_ms > learner->at_ms ? (double)(now_ms - learner->at_ms) / 1e3 : 0;
    struct eval_fleet_prior prior = prior_of(learner);
    struct fsm_losses losses;
    double nodes[EVAL_AGE_BINS] = {0};
    double before_s = learner->fleet.hazard.node_s;
    bool anything = false;

    eval_fleet_set_prior(&learner->fleet, &prior); /* the policy may have changed */
    fsm_get_losses(fsm, &losses);
    count_nodes(learner, now_ms, nodes);
    eval_fleet_advance(&learner->fleet, nodes, running, passed_s);
    note_failures(learner, &losses);
    note_groups(learner, learner->fleet.kills, learner->counted.kills, losses.kills);
    note_groups(learner, learner->fleet.demands, learner->counted.demands, losses.demands);
    look_at_alarms(learner, now_ms);
    tell_alarms(learner);
    if (now_ms > learner->at_ms)
        learner->at_ms = now_ms;
    for (size_t i = 0; i < FSM_GROUPS; i++)
        anything |= running[i] > 0;
    /* an idle cluster writes nothing */
    if ((learner->news || anything || learner->fleet.hazard.node_s > before_s) &&
        is_time_to_save(learner))
        propose_learned(learner);
}

/* ---- what it comes to ---- */

void learner_rates(const struct learner *learner, struct eval_fleet_rates *ret_rates)
{
    eval_fleet_rates(&learner->fleet, ret_rates);
}

struct learner *learner_new(struct broker *broker)
{
    struct learner *learner = check_calloc(1, sizeof(*learner));
    struct eval_fleet_prior none = {0};

    learner->broker = broker;
    eval_fleet_init(&learner->fleet, &none);
    return learner;
}

void learner_free(struct learner *learner)
{
    if (learner == NULL)
        return;
    free(learner->nodes);
    free(learner);
}
