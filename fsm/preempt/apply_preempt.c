/* Preemption: choose victims, checkpoint and stop them, all or none (P-001..P-070, I31, I32,
 * S1-065..S1-067).
 *
 * Flow     victims.c finds the set; take() asks each for a stopping checkpoint, lets an elastic one
 *          shrink, or terminates it: when less work is at stake than a checkpoint takes, or when
 *          none can be written and the request is forced. preemption.c has the rest of its life. No
 *          set: nothing changes (P-016).
 * Classes  a PRIORITY request acts with its own class; RECLAIM and SENSITIVE act with class 10, so
 *          that only class 10 and sensitive ones are safe from them (A-004, P-006, N-001).
 */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"
#include "fsm/preempt/preemption.h"

#include <malloc.h>

#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REASON(name) CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_##name
#define VICTIM(name) CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define WAY(name)    CKPT__V1__STOP_WAY__STOP_WAY_##name

/* ---- one victim ---- */

static bool slot_listed(const uint32_t *slots, uint32_t count, uint32_t slot)
{
    for (uint32_t i = 0; i < count; i++)
        if (slots[i] == slot)
            return true;
    return false;
}

/* The nodes that stay. Returns whether a checkpoint is written first; without one it is best effort
 * the nodes leave all the same, since somebody waits for them. */
static bool victim_keep(struct fsm *fsm, struct allocation *allocation, const uint32_t *leaving,
                        uint32_t count, struct fsm_outcome *asked)
{
    const struct fsm_allocation *view = &allocation->view;
    struct fsm_node_share *next = check_calloc(view->node_count, sizeof(*next));
    uint32_t kept = 0;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < view->node_count; i++)
        if (!slot_listed(leaving, count, view->nodes[i].node_slot))
            next[kept++] = view->nodes[i];
    CHECK(kept > 0 && kept < view->node_count);
    if (!view->unresponsive && !fsm_hung(view) &&
        fsm_scale_ask(fsm, allocation, next, kept, asked) == FSM_OK)
        return true;
    fsm_scale_set_next(fsm, allocation, next, kept);
    return false;
}

/* A scale-down that gives the same may be under way. In an outage its checkpoint is paused, and is
 * not waited for (S1-066). One that writes already is given an end from now on, by which its nodes
 * leave at the latest (L4). */
static void victim_shrink(struct fsm *fsm, struct allocation *allocation, const uint32_t *leaving,
                          uint32_t count, struct fsm_outcome *asked)
{
    struct checkpoint *active;
    bool first, saved = fsm_level(fsm) >= 2 && fsm_verify_held(fsm, allocation) != NULL;

    CHECK(allocation->view.id != NULL);
    if (allocation->view.next_count == 0)
        first = victim_keep(fsm, allocation, leaving, count, asked);
    else
        first = !allocation->view.unresponsive && !fsm_hung(&allocation->view) &&
                fsm_destination_available(fsm, &allocation->view);
    asked->checkpoint_id = first ? allocation->view.active_checkpoint_id : 0;
    active = first ? checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation)) : NULL;
    if (active != NULL && fsm_checkpoint_writes(active))
        fsm_checkpoint_begin_stop(fsm, active, active->view.deadline_ms);
    if (!first)
        fsm_scale_done(fsm, allocation,
                       saved ? CKPT__V1__REASON__REASON_NONE
                             : CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT);
}

/* The cheapest way that its state allows (fsm_victim_stop_way()). */
static void victim_stop(struct fsm *fsm, struct allocation *allocation, struct fsm_outcome *asked)
{
    struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_PREEMPT,
                                 .after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_STOP};
    struct fsm_plan without = {CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT, ENDS(FAILED),
                               CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT};
    struct fsm_plan back = {CKPT__V1__REASON__REASON_PREEMPTED, ENDS(SUSPENDED),
                            CKPT__V1__REASON__REASON_PREEMPTED};

    CHECK(allocation->view.id != NULL);
    switch (fsm_victim_stop_way(fsm, &allocation->view)) {
    case WAY(NOT_BEGUN):
    case WAY(LESS_AT_STAKE):
        fsm_terminate_begin(fsm, allocation, back);
        return;
    case WAY(UNRESPONSIVE):
    case WAY(PART_FINISHED):
        fsm_checkpoint_stop_without(fsm, allocation,
                                    CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT);
        return;
    case WAY(CHECKPOINT):
        if (fsm_checkpoint_ask(fsm, allocation, &ask, asked) == FSM_OK)
            return;
        break;
    default: /* nothing is written */
        break;
    }
    asked->checkpoint_id = 0;
    fsm_terminate_begin(fsm, allocation, without); /* S1-066, P-022 */
}

/* Demands are counted per group of jobs for the leader's rates: how often jobs of this class are
 * taken. */
static void victim_announce(struct fsm *fsm, const struct preemption *preemption,
                            const struct allocation *allocation)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION,
                              .allocation_id = allocation->view.id,
                              .subject = preemption->view.request->for_job,
                              .new_state =
                                  (uint32_t)fsm_preemption_reason(preemption->view.request),
                              .number = preemption->view.id};

    CHECK(preemption->view.id != 0);
    CHECK(allocation->view.id != NULL);
    fsm->preemptions_total++;
    fsm->losses
        .demands[fsm_group(&allocation->view, fsm_vcluster_busy(fsm, allocation->view.vcluster))]++;
    fsm_event_emit(fsm, &event);
}

/* What of its nodes helps; an elastic one gives no more than is missing. */
static void victim_fill(struct fsm *fsm, const struct victim_search *search,
                        const struct allocation *allocation, uint32_t missing,
                        struct fsm_preemption_victim *victim)
{
    uint32_t *slots = check_calloc(allocation->view.node_count, sizeof(*slots));

    CHECK(search->acting_class <= FSM_CLASS_MAX);
    CHECK(victim->allocation_id == NULL);
    CHECK(allocation->view.id != NULL);
    victim->allocation_id = fsm_intern_again(allocation->view.id);
    victim->node_count = fsm_victim_nodes(
        fsm, search, allocation, victim->state == VICTIM(SHRINKING), slots, &victim->gpu_count);
    victim->node_slots = slots;
    victim->since_ms = fsm->now_ms;
    if (victim->state == VICTIM(SHRINKING) && search->gpus == 0 && missing < victim->node_count &&
        allocation->view.next_count == 0) {
        victim->node_count = missing;
        victim->gpu_count = 0;
        for (uint32_t i = 0; i < allocation->view.node_count; i++)
            if (slot_listed(slots, missing, allocation->view.nodes[i].node_slot))
                victim->gpu_count += allocation->view.nodes[i].gpu_count;
    }
    for (uint32_t i = 0; i < victim->node_count; i++)
        fsm_node_refer(fsm, slots[i]);
}

/* The stop deadline of an active checkpoint was set for whoever waited for it before, and does not
 * bind this preemption. */
static void victim_take(struct fsm *fsm, struct preemption *preemption,
                        const struct victim_search *search, const struct victim_choice *choice,
                        uint32_t missing)
{
    struct fsm_preemption *view = &preemption->view;
    uint32_t place = view->victim_count;
    struct fsm_preemption_victim *victim = &view->victims[place];
    struct allocation *allocation = allocation_edit(fsm, allocation_at(fsm, choice->slot));
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    struct fsm_outcome asked = {.status = FSM_OK};

    CHECK(search->acting_class <= FSM_CLASS_MAX);
    CHECK(preemption->view.id != 0);
    CHECK(place < FSM_VICTIMS_MAX);
    CHECK(!allocation->view.sensitive);
    CHECK(allocation->view.preemption_class < view->acting_class);
    victim->state = choice->shrinks ? VICTIM(SHRINKING) : VICTIM(STOPPING);
    victim_fill(fsm, search, allocation, missing, victim);
    view->victim_count++;
    allocation->view.preemption_id = view->id;
    fsm_moved(fsm, FSM_RECORD_PREEMPTION, view->id);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, allocation->view.slot);
    if (active != NULL) /* whoever waited for it has lost it */
        active->stop_deadline_ms = 0;
    victim_announce(fsm, preemption, allocation);
    if (choice->shrinks) {
        victim_shrink(fsm, allocation, victim->node_slots, victim->node_count, &asked);
    } else {
        allocation->preemptor_class = view->acting_class;
        victim_stop(fsm, allocation, &asked);
    }
    victim->checkpoint_id = asked.checkpoint_id;
}

/* While victims are taken the preemption must not settle: a victim that is gone at once would
 * release it before the others are taken. A victim may have waited for another preemption, which
 * looks for one of its own at the next Tick. */
void fsm_preemption_take(struct fsm *fsm, struct preemption *preemption,
                         const struct victim_search *search, const struct victim_set *set)
{
    uint32_t first = preemption->view.victim_count;
    uint64_t missing = search->nodes;

    CHECK(search->acting_class <= FSM_CLASS_MAX);
    CHECK(preemption->view.id != 0);
    CHECK(set != NULL);
    preemption->taking = true;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct allocation *allocation = allocation_at(fsm, set->items[i].slot);
        uint64_t other = allocation->view.preemption_id; /* that waited for it as well */

        victim_take(fsm, preemption, search, &set->items[i], (uint32_t)missing);
        missing -= fsm_min(missing, preemption->view.victims[first + i].node_count);
        if (other != 0)
            fsm_preemption_lost(fsm, other, allocation, CKPT__V1__REASON__REASON_PREEMPTED);
    }
    preemption->taking = false;
    preemption->view.cost_gpu_ms = fsm_add(preemption->view.cost_gpu_ms, set->cost_gpu_ms);
    fsm_preemption_settle(fsm, preemption);
}

/* ---- the command ---- */

/* Victims are told by name: the outcome is remembered for retries when the jobs may have left. */
static void preempt_outcome(const struct preemption *preemption, struct fsm_outcome *outcome)
{
    CHECK(preemption->view.id != 0);
    outcome->preemption_id = preemption->view.id;
    outcome->checkpoint_id = 0;
    outcome->current = 0;
    outcome->limit = 0;
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        const struct fsm_preemption_victim *from = &preemption->view.victims[i];
        struct fsm_victim *to = &outcome->victims[outcome->victim_count++];

        fsm_copy_id(to->allocation_id, from->allocation_id);
        to->checkpoint_id = from->checkpoint_id;
        to->node_count = from->node_count;
    }
}

/* What one asks for helps the other as well: any nodes, or the same. */
static bool nodes_help(const Ckpt__V1__RequestPreemptionRequest *before,
                       const Ckpt__V1__RequestPreemptionRequest *request)
{
    bool same = before->n_useful_nodes == request->n_useful_nodes;

    for (size_t i = 0; i < request->n_useful_nodes && same; i++)
        same = strcmp(before->useful_nodes[i], request->useful_nodes[i]) == 0;
    return (request->n_useful_nodes == 0 || same) &&
           (request->home_vcluster[0] == '\0' ||
            strcmp(before->home_vcluster, request->home_vcluster) == 0);
}

/* What waits for the same job already and gives it all that is asked for: its victims are on their
 * way, and others would go for nothing (the broker's own claim and a scheduler's request may both
 * come). */
static const struct preemption *preemption_that_covers(
    const struct fsm *fsm, uint8_t acting_class, const Ckpt__V1__RequestPreemptionRequest *request)
{
    bool forced = fsm_preemption_search(fsm, request, acting_class).forced;
    const struct fsm_preemption *view = NULL;

    while (request->for_job[0] != '\0' &&
           (view = fsm_preemption_next(fsm, view == NULL ? 0 : view->id)) != NULL) {
        const Ckpt__V1__RequestPreemptionRequest *before = view->request;

        if (view->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING &&
            strcmp(before->for_job, request->for_job) == 0 && view->acting_class >= acting_class &&
            before->nodes_needed >= request->nodes_needed &&
            before->gpus_needed >= request->gpus_needed && nodes_help(before, request) &&
            fsm_preemption_search(fsm, before, view->acting_class).forced >= forced)
            return preemption_find(fsm, view->id);
    }
    return NULL;
}

/* Nothing is changed before a whole set is found (P-016). A reclaim and a sensitive claim act with
 * the highest class, whatever the request says. */
enum fsm_status fsm_apply_preemption(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__V1__RequestPreemptionRequest *request = command->request_preemption;
    uint8_t acting_class = fsm_preemption_reason(request) == REASON(PRIORITY)
                               ? (uint8_t)request->preemption_class
                               : FSM_CLASS_MAX;
    struct victim_search search = fsm_preemption_search(fsm, request, acting_class);
    struct victim_set set;
    const struct preemption *covers;
    struct preemption *preemption;
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION);
    CHECK(outcome != NULL);
    outcome->current = acting_class;
    if (acting_class == 0) /* nothing is lower */
        return FSM_CLASS_TOO_LOW;
    outcome->current = 0;
    covers = preemption_that_covers(fsm, acting_class, request);
    if (covers != NULL) {
        preempt_outcome(covers, outcome);
        return FSM_OK;
    }
    status = search.forced ? FSM_OK : fsm_pause_refusal(fsm, outcome);
    if (status == FSM_OK)
        status = fsm_preemption_make_room(fsm, outcome);
    if (status == FSM_OK)
        status = fsm_victims_choose(fsm, &search, &set, outcome);
    if (status != FSM_OK)
        return status;
    preemption = fsm_preemption_place(fsm, ++fsm->preemption_sequence);
    preemption->view.state = CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;
    preemption->view.request =
        (const Ckpt__V1__RequestPreemptionRequest *)fsm_message_copy(fsm, &request->base);
    preemption->view.acting_class = acting_class;
    preemption->view.asked_at_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_PREEMPTION, preemption->view.id);
    fsm_preemption_take(fsm, preemption, &search, &set);
    preempt_outcome(preemption, outcome);
    return FSM_OK;
}
