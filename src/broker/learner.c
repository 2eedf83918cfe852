/* See learner.h. */
#include "src/broker/learner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/eval/learn.h"

/* As the simulations in src/whatif use them. */
#define PRIOR_FAILURES     10.0
#define PRIOR_BIN_FAILURES 5.0
#define PRIOR_CALM_S                                                                               \
    86400.0 /* a kill or a demand is as if a job of its group had run so long without any before */
#define MICRO 1e-6

enum { QUIET_INTERVALS = 12 }; /* between two proposals when nothing happened */

_Static_assert((int)FSM_AGE_BINS == (int)EVAL_AGE_BINS, "the state counts by the model's bins");
_Static_assert((int)FSM_HAZARD_WORDS == (int)EVAL_HAZARD_WORDS, "the words fit");

/* Events of one group of jobs. */
struct group_rate {
    struct eval_rate rate;
    uint64_t counted; /* of the state's count */
};

struct learner {
    struct broker *broker;
    uint64_t at_ms; /* exposure up to here is inside */
    uint64_t
        saved_ms; /* at_ms of the last proposal or of what was loaded; 0: nothing is in the state */
    bool proposing;
    bool news; /* something happened since the last proposal */
    struct eval_hazard hazard;
    uint64_t node_failures[FSM_AGE_BINS]; /* counted */
    struct group_rate kills[FSM_GROUPS], demands[FSM_GROUPS];
};

static const struct fsm *state(const struct learner *learner)
{
    return replica_fsm(learner->broker->replica);
}

static const struct eval_rate calm = {.events = 0, .seconds = PRIOR_CALM_S};

static struct eval_hazard_prior prior_of(const Ckpt__V1__Policy *policy)
{
    return (struct eval_hazard_prior){
        .failures_per_s = policy->node_failures_per_1000_node_days_milli / 1e6 / 86400,
        .weight = PRIOR_FAILURES,
        .forget_s = (double)policy->hazard_forget_ms / 1e3,
        .bin_weight = PRIOR_BIN_FAILURES};
}

/* ---- from and to the state -------------------------------------------------------------------------------------------- */

static void load_groups(struct group_rate *groups, Ckpt__Log__V1__LearnedRate *const *from)
{
    for (size_t i = 0; i < FSM_GROUPS; i++)
        groups[i] = (struct group_rate){.rate = {.events = (double)from[i]->events_e6 * MICRO,
                                                 .seconds = (double)from[i]->exposed_ms / 1e3},
                                        .counted = from[i]->counted};
}

static void load_saved(struct learner *learner, const Ckpt__Log__V1__SetLearned *saved)
{
    int64_t words[EVAL_HAZARD_WORDS];

    CHECK(saved->n_hazard == EVAL_HAZARD_WORDS); /* the state refuses others */
    for (size_t i = 0; i < EVAL_HAZARD_WORDS; i++)
        words[i] = (int64_t)saved->hazard[i];
    CHECK(eval_hazard_load(&learner->hazard, words));
    memcpy(learner->node_failures, saved->node_failures, sizeof(learner->node_failures));
    load_groups(learner->kills, saved->kills);
    load_groups(learner->demands, saved->demands);
    learner->at_ms = learner->saved_ms = saved->at_ms;
}

void learner_load(struct learner *learner)
{
    const Ckpt__Log__V1__SetLearned *saved = fsm_learned(state(learner));
    struct eval_hazard_prior prior = prior_of(fsm_policy(state(learner)));

    eval_hazard_init(&learner->hazard, &prior);
    learner->news = false;
    learner->proposing = false;
    if (saved != NULL) {
        load_saved(learner, saved);
        return;
    }
    learner->at_ms = replica_state_ms(learner->broker->replica);
    learner->saved_ms = 0;
    memset(learner->node_failures, 0, sizeof(learner->node_failures));
    for (size_t i = 0; i < FSM_GROUPS; i++)
        learner->kills[i] = learner->demands[i] = (struct group_rate){.rate = calm};
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

static void save_groups(const struct group_rate *groups, Ckpt__Log__V1__LearnedRate *messages,
                        Ckpt__Log__V1__LearnedRate **pointers)
{
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        ckpt__log__v1__learned_rate__init(&messages[i]);
        messages[i].events_e6 = to_integer(groups[i].rate.events / MICRO);
        messages[i].exposed_ms = to_integer(groups[i].rate.seconds * 1e3);
        messages[i].counted = groups[i].counted;
        pointers[i] = &messages[i];
    }
}

static void propose(struct learner *learner)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetLearned set = CKPT__LOG__V1__SET_LEARNED__INIT;
    Ckpt__Log__V1__LearnedRate rates[2][FSM_GROUPS], *pointers[2][FSM_GROUPS];
    struct consensus_status status;
    int64_t words[EVAL_HAZARD_WORDS];
    uint64_t hazard[EVAL_HAZARD_WORDS];

    replica_get_status(learner->broker->replica, &status);
    eval_hazard_save(&learner->hazard, words);
    for (size_t i = 0; i < EVAL_HAZARD_WORDS; i++)
        hazard[i] = (uint64_t)words[i];
    save_groups(learner->kills, rates[0], pointers[0]);
    save_groups(learner->demands, rates[1], pointers[1]);
    set.term = status.term;
    set.at_ms = learner->at_ms;
    set.n_hazard = EVAL_HAZARD_WORDS;
    set.hazard = hazard;
    set.n_node_failures = FSM_AGE_BINS;
    set.node_failures = learner->node_failures;
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

/* ---- time and events -------------------------------------------------------------------------------------------------- */

static bool node_is_up(const struct fsm_node *node)
{
    return node != NULL && node->steady_since_ms != 0 &&
           node->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN;
}

static void advance_hazard(struct learner *learner, uint64_t now_ms, double passed_s)
{
    const struct fsm *fsm = state(learner);
    double nodes[EVAL_AGE_BINS] = {0};

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_at(fsm, slot);

        if (node_is_up(node))
            nodes[fsm_age_bin(now_ms > node->steady_since_ms ? now_ms - node->steady_since_ms
                                                             : 0)]++;
    }
    eval_hazard_advance(&learner->hazard, nodes, passed_s);
}

static void note_failures(struct learner *learner, const struct fsm_losses *losses)
{
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        double age_s = bin == 0 ? 0 : eval_hazard_bin_end_s(bin - 1);

        for (; learner->node_failures[bin] < losses->node_failures[bin];
             learner->node_failures[bin]++) {
            eval_hazard_note_failure(&learner->hazard, age_s);
            learner->news = true;
        }
    }
}

/* Events are forgotten with the time that passes, not with how many jobs it passes for. */
static void advance_groups(struct learner *learner, struct group_rate *groups,
                           const uint64_t *counts, const uint32_t *running, double passed_s)
{
    double forget_s = (double)fsm_policy(state(learner))->demand_forget_ms / 1e3;

    for (size_t i = 0; i < FSM_GROUPS; i++) {
        if (running[i] > 0)
            eval_rate_advance(&groups[i].rate, &calm, running[i] * passed_s, running[i] * forget_s);
        for (; groups[i].counted < counts[i]; groups[i].counted++) {
            eval_rate_note(&groups[i].rate);
            learner->news = true;
        }
    }
}

static bool is_time_to_save(const struct learner *learner)
{
    uint64_t interval_ms = fsm_policy(state(learner))->learned_interval_ms;

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
    const struct fsm *fsm = state(learner);
    uint64_t now_ms = replica_state_ms(learner->broker->replica);
    double passed_s = now_ms > learner->at_ms ? (double)(now_ms - learner->at_ms) / 1e3 : 0;
    struct fsm_losses losses;
    double before_s = learner->hazard.node_s;
    bool anything = false;

    learner->hazard.prior = prior_of(fsm_policy(fsm)); /* the policy may have changed */
    fsm_get_losses(fsm, &losses);
    advance_hazard(learner, now_ms, passed_s);
    note_failures(learner, &losses);
    advance_groups(learner, learner->kills, losses.kills, running, passed_s);
    advance_groups(learner, learner->demands, losses.demands, running, passed_s);
    if (now_ms > learner->at_ms)
        learner->at_ms = now_ms;
    for (size_t i = 0; i < FSM_GROUPS; i++)
        anything |= running[i] > 0;
    /* an idle cluster writes nothing */
    if ((learner->news || anything || learner->hazard.node_s > before_s) &&
        is_time_to_save(learner))
        propose(learner);
}

/* ---- what it comes to ------------------------------------------------------------------------------------------------- */

void learner_rates(const struct learner *learner, struct learned_rates *ret_rates)
{
    ret_rates->node_failures_per_s = eval_hazard_fleet_per_s(&learner->hazard);
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        ret_rates->age_factors[bin] = eval_hazard_bin_factor(&learner->hazard, bin);
    for (size_t i = 0; i < FSM_GROUPS; i++) {
        ret_rates->kills_per_s[i] = eval_rate_per_s(&learner->kills[i].rate);
        ret_rates->demands_per_s[i] = eval_rate_per_s(&learner->demands[i].rate);
    }
}

struct learner *learner_new(struct broker *broker)
{
    struct learner *learner = check_calloc(1, sizeof(*learner));
    struct eval_hazard_prior none = {0};

    learner->broker = broker;
    eval_hazard_init(&learner->hazard, &none);
    return learner;
}

void learner_free(struct learner *learner)
{
    free(learner);
}
