/* Starts stopped jobs again. See restarter.h. */
#include "src/broker/decide/restarter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/pause.h"
#include "fsm/restart.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/hook.h"
#include "src/broker/health/nodes.h"

enum { REASON_BYTES = FSM_DETAIL_BYTES };

/* A ckpt-run of a job on a node: it waits until the job is restarted, or it begins. */
struct caller {
    char id[ID_MAX_BYTES + 1];
    bool begins;
};

struct node_callers {
    bool heard;          /* by this leader, on the node's stream */
    uint64_t changed_ms; /* when the list was last another one */
    size_t count;
    struct caller *callers;
};

/* One of them, found by its job. */
struct wait {
    const char *id;
    uint32_t slot;
    bool begins;
};

/* A job whose choice the state has refused: it is not proposed again at once. */
struct refused {
    char id[ID_MAX_BYTES + 1], choice[REASON_BYTES];
    uint64_t at_ms, current, limit;
    enum fsm_status status;
};

struct restarter {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct node_callers *nodes; /* by slot */
    uint32_t node_count;
    size_t caller_count;
    uint32_t in_flight;
    struct refused refused[RESTARTER_REFUSED_MAX]; /* a ring: the newest ones */
    uint32_t refused_at;
};

/* A proposal in flight. */
struct choice {
    struct restarter *restarter;
    char id[ID_MAX_BYTES + 1], reason[REASON_BYTES];
    bool withdraws; /* ... an earlier one */
};

/* A node that may take the job; the lowest rank is taken first. */
struct candidate {
    const struct fsm_node *node;
    uint32_t rank;
};

enum { RANK_SPARE = 1, RANK_ELSEWHERE = 2, RANK_UNWELL = 4, RANK_FAILED = 8 };

static const struct fsm *state_of(const struct restarter *restarter)
{
    return replica_fsm(restarter->broker->replica);
}

static void look_in(struct restarter *restarter, uint64_t ms)
{
    if (restarter->serving && restarter->caller_count > 0 && restarter->in_flight == 0)
        restarter->broker->clock.timer_start(restarter->timer, ms * 1000);
}

/* ---- who waits where ---- */

static struct node_callers *callers_at(struct restarter *restarter, uint32_t slot)
{
    CHECK(slot < FSM_NODES_MAX);
    if (slot >= restarter->node_count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        restarter->nodes = check_realloc(restarter->nodes, count, sizeof(*restarter->nodes));
        memset(restarter->nodes + restarter->node_count, 0,
               (count - restarter->node_count) * sizeof(*restarter->nodes));
        restarter->node_count = count;
    }
    return &restarter->nodes[slot];
}

static void callers_drop(struct restarter *restarter, struct node_callers *node)
{
    CHECK(restarter->caller_count >= node->count);
    restarter->caller_count -= node->count;
    free(node->callers);
    *node = (struct node_callers){0};
}

/* ids may have the same job twice: it waits as well as it begins. The first counts. */
static size_t callers_add(struct caller *callers, size_t count, char *const *ids, size_t id_count,
                          bool begins)
{
    size_t before = count;

    for (size_t i = 0; i < id_count && count < RESTARTER_CALLERS_MAX; i++) {
        bool known = !id_valid(ids[i]);

        for (size_t j = 0; j < before && !known; j++)
            known = strcmp(callers[j].id, ids[i]) == 0;
        if (known)
            continue;
        memcpy(callers[count].id, ids[i], strlen(ids[i]) + 1);
        callers[count++].begins = begins;
    }
    return count;
}

static bool callers_equal(const struct node_callers *node, const struct caller *callers,
                          size_t count)
{
    bool equal = node->count == count;

    for (size_t i = 0; i < count && equal; i++)
        equal = node->callers[i].begins == callers[i].begins &&
                strcmp(node->callers[i].id, callers[i].id) == 0;
    return equal;
}

void restarter_heard(struct restarter *restarter, uint32_t node_slot,
                     const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    struct node_callers *node;
    struct caller *callers;
    size_t count;

    if (restarter == NULL)
        return;
    node = callers_at(restarter, node_slot);
    callers = check_calloc(heartbeat->n_waiting_allocation_ids +
                               heartbeat->n_beginning_allocation_ids + 1,
                           sizeof(*callers));
    count = callers_add(callers, 0, heartbeat->waiting_allocation_ids,
                        heartbeat->n_waiting_allocation_ids, false);
    count = callers_add(callers, count, heartbeat->beginning_allocation_ids,
                        heartbeat->n_beginning_allocation_ids, true);
    if (node->heard && callers_equal(node, callers, count)) {
        free(callers);
        return;
    }
    callers_drop(restarter, node);
    *node = (struct node_callers){.heard = true,
                                  .changed_ms = replica_state_ms(restarter->broker->replica),
                                  .count = count,
                                  .callers = callers};
    restarter->caller_count += count;
    look_in(restarter, 0);
}

void restarter_unheard(struct restarter *restarter, uint32_t node_slot)
{
    if (restarter != NULL && node_slot < restarter->node_count)
        callers_drop(restarter, &restarter->nodes[node_slot]);
}

static const struct caller *caller_at(const struct restarter *restarter, uint32_t slot,
                                      const char *id)
{
    if (slot >= restarter->node_count)
        return NULL;
    for (size_t i = 0; i < restarter->nodes[slot].count; i++)
        if (strcmp(restarter->nodes[slot].callers[i].id, id) == 0)
            return &restarter->nodes[slot].callers[i];
    return NULL;
}

static bool node_waits_for(const struct restarter *restarter, uint32_t slot, const char *id)
{
    const struct caller *caller = caller_at(restarter, slot, id);

    return caller != NULL && !caller->begins;
}

static enum fsm_status status_of(const struct restarter *restarter,
                                 const struct fsm_allocation *job, uint32_t slot)
{
    const struct fsm_node *node = fsm_node_find_slot(state_of(restarter), slot);

    return node == NULL ? FSM_NODE_NOT_FOUND
                        : fsm_restart_node_status(state_of(restarter), job, node,
                                                  replica_state_ms(restarter->broker->replica));
}

static bool may_take(const struct restarter *restarter, const struct fsm_allocation *job,
                     uint32_t slot)
{
    return status_of(restarter, job, slot) == FSM_OK;
}

size_t restarter_waits(const struct restarter *restarter, const struct fsm_allocation *job,
                       struct restarter_wait *waits, size_t size)
{
    size_t count = 0;

    if (restarter == NULL || !restarter->serving)
        return 0;
    for (uint32_t slot = 0; slot < restarter->node_count && count < size; slot++)
        if (node_waits_for(restarter, slot, job->id))
            waits[count++] = (struct restarter_wait){slot, status_of(restarter, job, slot)};
    return count;
}

/* ---- the choice ---- */

static bool had_node(const struct fsm_allocation *job, const struct fsm_node *node)
{
    return fsm_restart_place(job, node) < job->node_count;
}

static uint32_t rank_of(const struct restarter *restarter, const struct fsm_allocation *job,
                        const struct fsm_node *node)
{
    uint32_t rank = had_node(job, node) ? 0 : RANK_SPARE;

    if (!fsm_domain_fits(state_of(restarter), job, node))
        rank += RANK_ELSEWHERE;
    if (nodes_hazard_factor(restarter->broker->nodes, node->slot) > 1)
        rank += RANK_UNWELL;
    if (fsm_restart_failed_on(job, node))
        rank += RANK_FAILED;
    return rank;
}

/* Slots keep the order where ranks are alike, so that the same look makes the same choice. */
static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->node->slot > b->node->slot) - (a->node->slot < b->node->slot);
}

/* An own node that is there and does not wait yet: its ckpt-run may still be on its way. */
static bool own_node_may_come(const struct restarter *restarter, const struct fsm_allocation *job)
{
    for (uint32_t i = 0; i < job->node_count; i++) {
        uint32_t slot = job->nodes[i].node_slot;

        if (!node_waits_for(restarter, slot, job->id) && may_take(restarter, job, slot))
            return true;
    }
    return false;
}

/* On a chosen node the agent ends what it finds before the new run begins. On one that is left out
 * nobody waits for that, and the job would run twice. */
static bool left_out_have_ended(const struct restarter *restarter, const struct fsm_allocation *job,
                                const struct candidate *chosen, uint32_t count)
{
    const struct fsm *fsm = state_of(restarter);

    for (uint32_t place = 0; place < fsm_allocation_places(fsm, job); place++) {
        uint32_t i = 0;

        while (i < count && chosen[i].node->slot != fsm_allocation_place(fsm, job, place).node_slot)
            i++;
        if (i == count && fsm_part_unheard(fsm, job, place))
            return false;
    }
    return true;
}

/* "its own a, b; the spare c" */
static void describe_choice(const struct fsm_allocation *job, const struct candidate *chosen,
                            uint32_t count, char text[REASON_BYTES])
{
    uint32_t own = 0;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t spares = 0; spares < 2; spares++) {
        for (uint32_t i = 0, told = 0; i < count; i++) {
            bool is_own = had_node(job, chosen[i].node);

            own += is_own && spares == 0;
            if (is_own == (spares != 0) || used >= REASON_BYTES)
                continue;
            used += (size_t)snprintf(text + used, REASON_BYTES - used, "%s%s",
                                     told++ > 0    ? ", "
                                     : spares == 0 ? "its own "
                                     : own > 0     ? "; the spare "
                                                   : "the spare ",
                                     chosen[i].node->id);
        }
    }
}

/* The site's command is for the owner: a choice that was taken back is no news for him. */
static void tell_hook(const struct restarter *restarter, const struct choice *choice,
                      uint64_t checkpoint_id)
{
    const struct fsm_allocation *job = fsm_allocation_find(state_of(restarter), choice->id);

    if (job == NULL || choice->withdraws)
        return;
    hook_call(restarter->broker->hook, &(struct hook_news){.event = "restart",
                                                           .allocation_id = job->id,
                                                           .owner = job->owner,
                                                           .tenant = job->tenant,
                                                           .text = choice->reason,
                                                           .checkpoint_id = checkpoint_id});
}

static void remember_refused(struct restarter *restarter, const struct choice *choice,
                             const struct fsm_outcome *outcome)
{
    struct refused *refused = &restarter->refused[restarter->refused_at];

    restarter->refused_at = (restarter->refused_at + 1) % RESTARTER_REFUSED_MAX;
    snprintf(refused->id, sizeof(refused->id), "%s", choice->id);
    snprintf(refused->choice, sizeof(refused->choice), "%s", choice->reason);
    refused->at_ms = replica_state_ms(restarter->broker->replica);
    refused->status = outcome->status;
    refused->current = outcome->current;
    refused->limit = outcome->limit;
}

/* The newest one since the job stopped; NULL: none is remembered. */
static const struct refused *last_refused(const struct restarter *restarter,
                                          const struct fsm_allocation *job)
{
    for (uint32_t back = 1; back <= RESTARTER_REFUSED_MAX; back++) {
        uint32_t at =
            (restarter->refused_at + RESTARTER_REFUSED_MAX - back) % RESTARTER_REFUSED_MAX;
        const struct refused *refused = &restarter->refused[at];

        if (strcmp(refused->id, job->id) == 0)
            return refused->at_ms >= job->state_since_ms ? refused : NULL;
    }
    return NULL;
}

static bool lately_refused(const struct restarter *restarter, const struct fsm_allocation *job)
{
    const struct refused *refused = last_refused(restarter, job);
    bool by_hand = refused != NULL && refused->status == FSM_NO_USABLE_CHECKPOINT &&
                   fsm_restart_point(state_of(restarter), job->id, 0) == NULL;

    return refused != NULL &&
           replica_state_ms(restarter->broker->replica) <
               refused->at_ms + (by_hand ? RESTARTER_BY_HAND_MS : RESTARTER_REFUSED_MS);
}

bool restarter_refused(const struct restarter *restarter, const struct fsm_allocation *job,
                       struct restarter_refusal *ret_refusal)
{
    const struct refused *refused =
        restarter == NULL || !restarter->serving ? NULL : last_refused(restarter, job);

    if (refused == NULL)
        return false;
    *ret_refusal = (struct restarter_refusal){refused->at_ms, refused->current, refused->limit,
                                              refused->status, refused->choice};
    return true;
}

static void on_chosen(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct choice *choice = data;
    struct restarter *restarter = choice->restarter;

    if (failed == NULL && outcome->status == FSM_OK) {
        log_info("restart_chosen", "allocation=%s checkpoint=%" PRIu64 " text=\"%s\"", choice->id,
                 outcome->checkpoint_id, choice->reason);
        tell_hook(restarter, choice, outcome->checkpoint_id);
    } else if (failed == NULL) {
        remember_refused(restarter, choice, outcome);
        log_info("restart_refused", "allocation=%s status=%s text=\"%s\"", choice->id,
                 fsm_status_name(outcome->status), choice->reason);
    }
    free(choice);
    CHECK(restarter->in_flight > 0);
    restarter->in_flight--;
    look_in(restarter, RESTARTER_LOOK_MS);
}

static void choice_propose(struct restarter *restarter, const struct fsm_allocation *job,
                           Ckpt__Log__V1__RestartChoice *message, struct choice *choice)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;

    choice->restarter = restarter;
    snprintf(choice->id, sizeof(choice->id), "%s", job->id);
    message->allocation_id = choice->id;
    message->reason = choice->reason;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_RESTART_CHOICE;
    command.restart_choice = message;
    restarter->in_flight++;
    replica_propose(restarter->broker->replica, &command, on_chosen, choice);
}

static void propose_nodes(struct restarter *restarter, const struct fsm_allocation *job,
                          const struct candidate *chosen, uint32_t count)
{
    Ckpt__Log__V1__RestartChoice message = CKPT__LOG__V1__RESTART_CHOICE__INIT;
    struct choice *choice = check_calloc(1, sizeof(*choice));
    Ckpt__V1__NodeShare *shares = check_calloc(count, sizeof(*shares));
    Ckpt__V1__NodeShare **list = check_calloc(count, sizeof(*list));

    for (uint32_t i = 0; i < count; i++) {
        ckpt__v1__node_share__init(&shares[i]);
        shares[i].node_id = text_message(chosen[i].node->id);
        list[i] = &shares[i];
    }
    describe_choice(job, chosen, count, choice->reason);
    message.n_nodes = count;
    message.nodes = list;
    choice_propose(restarter, job, &message, choice);
    free(list);
    free(shares);
}

/* ---- a chosen node on which nobody is left ---- */

static void propose_absence(struct restarter *restarter, const struct fsm_allocation *job,
                            const struct fsm_node *node)
{
    Ckpt__Log__V1__RestartChoice message = CKPT__LOG__V1__RESTART_CHOICE__INIT;
    struct choice *choice = check_calloc(1, sizeof(*choice));

    snprintf(choice->reason, sizeof(choice->reason), "nobody is left on %s to begin", node->id);
    choice->withdraws = true;
    message.absent_node_id = text_message(node->id);
    choice_propose(restarter, job, &message, choice);
}

/* Its node has said for long enough that no ckpt-run of the job is there, neither one that waits
 * nor one that begins. A silent node says nothing. */
static bool part_is_absent(const struct restarter *restarter, const struct fsm_allocation *job,
                           uint32_t slot)
{
    uint64_t now_ms = replica_state_ms(restarter->broker->replica), since_ms;

    if (slot >= restarter->node_count || !restarter->nodes[slot].heard ||
        caller_at(restarter, slot, job->id) != NULL || !fsm_part_awaits(job, slot, UINT64_MAX))
        return false;
    since_ms = restarter->nodes[slot].changed_ms;
    if (since_ms < job->state_since_ms)
        since_ms = job->state_since_ms;
    return now_ms >= since_ms && now_ms - since_ms >= RESTARTER_ABSENT_MS;
}

static void consider_chosen(struct restarter *restarter, const struct fsm_allocation *job)
{
    const struct fsm *fsm = state_of(restarter);

    for (uint32_t i = 0; i < job->node_count; i++) {
        if (!part_is_absent(restarter, job, job->nodes[i].node_slot))
            continue;
        propose_absence(restarter, job, fsm_node_find_slot(fsm, job->nodes[i].node_slot));
        return;
    }
}

/* ---- looks ---- */

/* The best ones, in place; returns how many: 0 when they are too few. A job that moved takes at
 * least one node that it did not have. */
static uint32_t choose_best(const struct fsm_allocation *job, const struct fsm_restart_nodes *need,
                            struct candidate *candidates, uint32_t found)
{
    uint32_t taken = found < need->most ? found : need->most, others = 0, next;

    if (found < need->fewest)
        return 0;
    qsort(candidates, found, sizeof(*candidates), compare_candidates);
    for (uint32_t i = 0; i < taken; i++)
        others += !had_node(job, candidates[i].node);
    if (others >= need->others)
        return taken;
    for (next = taken; next < found && had_node(job, candidates[next].node);)
        next++;
    if (next == found)
        return 0;
    candidates[taken - 1] = candidates[next];
    return taken;
}

static void consider_stopped(struct restarter *restarter, const struct fsm_allocation *job,
                             const struct wait *waits, size_t count)
{
    const struct fsm *fsm = state_of(restarter);
    uint64_t now_ms = replica_state_ms(restarter->broker->replica);
    struct candidate *candidates;
    struct fsm_restart_nodes need;
    uint32_t found = 0;
    bool settled;

    if (job->restart_at_ms > now_ms || fsm_allocation_silent(fsm, job) != NULL ||
        fsm_pause_holds(fsm, job))
        return;
    need = fsm_restart_nodes(fsm, job);
    settled =
        now_ms - job->state_since_ms >= RESTARTER_SETTLE_MS || !own_node_may_come(restarter, job);
    candidates = check_calloc(count, sizeof(*candidates));
    for (size_t i = 0; i < count; i++) {
        if (waits[i].begins || !may_take(restarter, job, waits[i].slot))
            continue;
        candidates[found].node = fsm_node_find_slot(fsm, waits[i].slot);
        candidates[found].rank = rank_of(restarter, job, candidates[found].node);
        found++;
    }
    found = settled ? choose_best(job, &need, candidates, found) : 0;
    if (found > 0 && left_out_have_ended(restarter, job, candidates, found))
        propose_nodes(restarter, job, candidates, found);
    free(candidates);
}

/* Of a job: all its callers on all nodes. */
static void consider_job(struct restarter *restarter, const struct wait *waits, size_t count)
{
    const struct fsm *fsm = state_of(restarter);
    const struct fsm_allocation *job = fsm_allocation_find(fsm, waits[0].id);

    if (job == NULL)
        return;
    if (lately_refused(restarter, job))
        return;
    if (fsm_restart_awaited(fsm, job))
        consider_stopped(restarter, job, waits, count);
    else if (job->restart_choice[0] != '\0')
        consider_chosen(restarter, job);
}

static int compare_waits(const void *left, const void *right)
{
    const struct wait *a = left, *b = right;
    int order = strcmp(a->id, b->id);

    return order != 0 ? order : (a->slot > b->slot) - (a->slot < b->slot);
}

static struct wait *collect_waits(const struct restarter *restarter)
{
    struct wait *waits = check_calloc(restarter->caller_count + 1, sizeof(*waits));
    size_t count = 0;

    for (uint32_t slot = 0; slot < restarter->node_count; slot++)
        for (size_t i = 0; i < restarter->nodes[slot].count; i++)
            waits[count++] = (struct wait){restarter->nodes[slot].callers[i].id, slot,
                                           restarter->nodes[slot].callers[i].begins};
    CHECK(count == restarter->caller_count);
    qsort(waits, count, sizeof(*waits), compare_waits);
    return waits;
}

/* Each wait is looked at each time: a job may have stopped, or its pause may be over. */
static void on_timer(void *data)
{
    struct restarter *restarter = data;
    size_t count = restarter->caller_count;
    struct wait *waits;

    if (!restarter->serving || restarter->in_flight > 0 || count == 0)
        return;
    waits = collect_waits(restarter);
    restarter->in_flight++; /* a proposal that fails at once must not look again from within */
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && strcmp(waits[to].id, waits[from].id) == 0;)
            to++;
        if (restarter->in_flight <= RESTARTER_IN_FLIGHT_MAX)
            consider_job(restarter, waits + from, to - from);
    }
    restarter->in_flight--;
    free(waits);
    look_in(restarter, RESTARTER_LOOK_MS);
}

static void forget_waits(struct restarter *restarter)
{
    for (uint32_t slot = 0; slot < restarter->node_count; slot++)
        callers_drop(restarter, &restarter->nodes[slot]);
}

static void on_serving(void *context)
{
    struct restarter *restarter = context;

    restarter->serving = true;
    look_in(restarter, 0);
}

static void on_not_serving(void *context)
{
    struct restarter *restarter = context;

    restarter->serving = false;
    restarter->broker->clock.timer_stop(restarter->timer);
    forget_waits(restarter);
}

struct restarter *restarter_new(struct broker *broker)
{
    struct restarter *restarter = check_calloc(1, sizeof(*restarter));

    restarter->broker = broker;
    restarter->timer = broker->clock.timer_new(broker->clock.context, on_timer, restarter);
    restarter->observer = (struct replica_observer){
        .context = restarter, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &restarter->observer);
    return restarter;
}

void restarter_free(struct restarter *restarter)
{
    if (restarter == NULL)
        return;
    forget_waits(restarter);
    free(restarter->nodes);
    restarter->broker->clock.timer_free(restarter->timer);
    free(restarter);
}
