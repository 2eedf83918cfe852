/* What schedulers ask about victims: the answer to RequestPreemption, ListPreemptions,
 * GetPlacementHints. See methods.h. */
#include <inttypes.h>
#include <string.h>

#include "fsm/restart.h"
#include "src/base/check.h"
#include "src/broker/api/methods.h"
#include "src/broker/decide/restarter.h"

enum { PPM = 1000000, PLACEMENT_WAITS_MAX = 256 };

/* ---- RequestPreemption ---- */

/* A preemption that was asked for again may have gone on since. */
static Ckpt__V1__VictimState outcome_state(const struct fsm_preemption *preemption, const char *id)
{
    for (uint32_t i = 0; preemption != NULL && i < preemption->victim_count; i++)
        if (strcmp(preemption->victims[i].allocation_id, id) == 0)
            return preemption->victims[i].state;
    return CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING;
}

/* A repeated request gets the first answer, with the states of today. */
void preemption_reply(struct request *request, const struct fsm_outcome *outcome)
{
    Ckpt__V1__RequestPreemptionReply reply = CKPT__V1__REQUEST_PREEMPTION_REPLY__INIT;
    const struct fsm_preemption *preemption =
        fsm_preemption_next(replica_fsm(request->broker->replica), outcome->preemption_id - 1);
    Ckpt__V1__Victim victims[FSM_VICTIMS_MAX];
    Ckpt__V1__Victim *places[FSM_VICTIMS_MAX];

    CHECK(outcome->victim_count <= FSM_VICTIMS_MAX);
    if (preemption != NULL && preemption->id != outcome->preemption_id)
        preemption = NULL; /* asked again when it is no longer kept */
    for (uint32_t i = 0; i < outcome->victim_count; i++) {
        ckpt__v1__victim__init(&victims[i]);
        victims[i].allocation_id = translate_text(outcome->victims[i].allocation_id);
        victims[i].checkpoint_id = outcome->victims[i].checkpoint_id;
        victims[i].node_count = outcome->victims[i].node_count;
        victims[i].state = outcome_state(preemption, outcome->victims[i].allocation_id);
        places[i] = &victims[i];
    }
    reply.index = outcome->index;
    reply.preemption_id = outcome->preemption_id;
    reply.n_victims = outcome->victim_count;
    reply.victims = places;
    reply.repeated = outcome->repeated;
    answer_reply(request->call, &reply.base);
}

/* ---- ListPreemptions ---- */

/* As the state has them; how many let go is counted for the caller. */
static void fill_victims(const struct fsm *fsm, const struct fsm_preemption *from,
                         struct scratch *scratch, Ckpt__V1__Preemption *to)
{
    Ckpt__V1__Victim *victims = scratch_take(scratch, from->victim_count, sizeof(*victims));

    to->victims = scratch_take(scratch, from->victim_count, sizeof(to->victims[0]));
    to->n_victims = from->victim_count;
    for (uint32_t i = 0; i < from->victim_count; i++) {
        const struct fsm_preemption_victim *victim = &from->victims[i];
        const struct fsm_allocation *job;
        const struct fsm_checkpoint *checkpoint;

        ckpt__v1__victim__init(&victims[i]);
        RECORD_COPY(FSM_VICTIM, victim, &victims[i]);
        victims[i].node_count = victim->node_count;
        job = fsm_allocation_find(fsm, victim->allocation_id);
        checkpoint = fsm_checkpoint_find(fsm, victim->checkpoint_id);
        if (checkpoint != NULL && victim->reason != CKPT__V1__REASON__REASON_NONE)
            victims[i].detail = translate_text(checkpoint->detail);
        if (job != NULL && job->preemption_id == from->id)
            victims[i].release_check = translate_release_check(fsm, job, scratch);
        to->victims[i] = &victims[i];
        to->victims_released += victim->state == CKPT__V1__VICTIM_STATE__VICTIM_STATE_RELEASED;
    }
}

/* P-024: not before all have let go. */
static void fill_released(const struct fsm *fsm, const struct fsm_preemption *from,
                          struct scratch *scratch, Ckpt__V1__Preemption *to)
{
    size_t count = 0;

    if (from->state != CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED)
        return;
    for (uint32_t i = 0; i < from->victim_count; i++)
        count += from->victims[i].node_count;
    to->released_node_ids = scratch_take(scratch, count, sizeof(to->released_node_ids[0]));
    for (uint32_t i = 0; i < from->victim_count; i++) {
        if (from->victims[i].state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_RELEASED)
            continue;
        for (uint32_t j = 0; j < from->victims[i].node_count; j++)
            to->released_node_ids[to->n_released_node_ids++] =
                translate_text(fsm_node_name(fsm, from->victims[i].node_slots[j]));
    }
}

/* A request without a reason was made for priority. */
static Ckpt__V1__Preemption *preemption_message(const struct fsm *fsm,
                                                const struct fsm_preemption *from,
                                                struct scratch *scratch)
{
    Ckpt__V1__Preemption *to = scratch_take(scratch, 1, sizeof(*to));

    ckpt__v1__preemption__init(to);
    to->preemption_id = from->id;
    to->reason = from->request->reason;
    if (to->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_UNSPECIFIED)
        to->reason = CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_PRIORITY;
    to->for_job = translate_text(from->request->for_job);
    to->preemption_class = from->acting_class;
    to->nodes_needed = from->request->nodes_needed;
    to->gpus_needed = from->request->gpus_needed;
    to->value_gpu_ms = from->request->value_gpu_ms;
    RECORD_COPY(FSM_PREEMPTION, from, to);
    fill_victims(fsm, from, scratch, to);
    fill_released(fsm, from, scratch, to);
    return to;
}

/* Oldest first; one by its id, or a page of those after an id. */
void preemptions_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListPreemptionsRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    uint64_t after =
        asked->preemption_id != 0 ? asked->preemption_id - 1 : asked->after_preemption_id;
    const struct fsm_preemption *at = fsm_preemption_next(fsm, after);
    Ckpt__V1__ListPreemptionsReply reply = CKPT__V1__LIST_PREEMPTIONS_REPLY__INIT;
    size_t bytes = 0;

    if (asked->preemption_id != 0 && (at == NULL || at->id != asked->preemption_id)) {
        request_refuse(request, FSM_PREEMPTION_NOT_FOUND, asked->preemption_id,
                       FSM_PREEMPTIONS_MAX);
        return;
    }
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    reply.preemptions = scratch_take(scratch, FSM_PREEMPTIONS_MAX, sizeof(reply.preemptions[0]));
    for (; at != NULL; at = fsm_preemption_next(fsm, at->id)) {
        if (bytes >= METHOD_PAGE_BYTES) {
            reply.next_after_preemption_id = after;
            break;
        }
        after = at->id;
        if (asked->only_waiting && at->ended_at_ms != 0)
            continue;
        reply.preemptions[reply.n_preemptions] = preemption_message(fsm, at, scratch);
        bytes += ckpt__v1__preemption__get_packed_size(reply.preemptions[reply.n_preemptions]);
        reply.n_preemptions++;
        if (asked->preemption_id != 0)
            break;
    }
    answer_reply(request->call, &reply.base);
}

/* ---- GetPlacementHints ---- */

/* A word for why stopping the job is not possible or not wise; "" when it is. */
static const char *placement_why(const struct fsm_allocation *allocation, enum fsm_status status)
{
    switch (status) {
    case FSM_OK:
        break;
    case FSM_SENSITIVE:
        return "sensitive";
    case FSM_CLASS_TOO_LOW:
        return "highest_class";
    case FSM_NOT_CHECKPOINTABLE:
        return "no_checkpoint";
    case FSM_NEAR_COMPLETION:
        return "near_completion";
    case FSM_JUST_RESUMED:
        return "just_resumed";
    case FSM_BORROWED_ONLY:
        return "own_nodes";
    case FSM_STORAGE_UNAVAILABLE:
        return "storage_unavailable";
    default:
        return "being_stopped";
    }
    if (allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return "no_checkpoint";
    return allocation->unresponsive ? "did_not_answer" : "";
}

/* S1-046..S1-048, N-001, A-004. What passes by itself (storage, near its end, just resumed) says
 * nothing about where to place it. */
static bool placement_avoids_borrowed(const struct fsm_allocation *allocation,
                                      enum fsm_status status)
{
    return fsm_checkpoints_nothing(allocation) || status == FSM_SENSITIVE ||
           status == FSM_CLASS_TOO_LOW || status == FSM_NOT_CHECKPOINTABLE;
}

/* A-003, P-060 */
static uint32_t placement_weight(const Ckpt__V1__Policy *policy, Ckpt__V1__VclusterKind kind)
{
    switch (kind) {
    case CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_ML:
        return policy->f8_weight_ml_ppm;
    case CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SERVICE:
        return policy->f8_weight_service_ppm;
    case CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE:
        return policy->f8_weight_sensitive_ppm;
    case CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_INTERACTIVE:
        return policy->f8_weight_interactive_ppm;
    default:
        return policy->f8_weight_hpc_ppm;
    }
}

/* S2-028: it is to be placed again, and its last checkpoint lies somewhere. */
static bool placement_waits(const struct fsm_allocation *allocation)
{
    return allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED ||
           allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED;
}

static void placement_copies(const struct fsm *fsm, const struct fsm_allocation *allocation,
                             struct scratch *scratch, Ckpt__V1__PlacementHint *placement)
{
    size_t count = fsm_copy_nodes(fsm, allocation, NULL, 0);
    const char **names = scratch_take(scratch, count, sizeof(*names));

    (void)fsm_copy_nodes(fsm, allocation, names, count);
    placement->copy_nodes = scratch_take(scratch, count, sizeof(*placement->copy_nodes));
    for (size_t i = 0; i < count; i++)
        placement->copy_nodes[i] = translate_text(names[i] == NULL ? "" : names[i]);
    placement->n_copy_nodes = count;
}

/* How many nodes it waits for, of what kind, and since when. */
static void placement_needs(const struct broker *broker, const struct fsm_allocation *allocation,
                            Ckpt__V1__PlacementHint *placement)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const struct fsm_checkpoint *point = fsm_restart_point(fsm, allocation->id, 0);
    const struct fsm_restart_nodes need = fsm_restart_nodes(fsm, allocation);
    struct restarter_wait waits[PLACEMENT_WAITS_MAX];
    size_t count = restarter_waits(broker->restarter, allocation, waits, PLACEMENT_WAITS_MAX);

    placement->nodes_wanted = need.most;
    placement->nodes_needed = need.fewest;
    for (size_t i = 0; i < count; i++)
        placement->nodes_waiting += waits[i].status == FSM_OK;
    placement->stopped_at_ms = allocation->state_since_ms;
    for (uint32_t i = 0; i < allocation->node_count; i++)
        if (allocation->nodes[i].gpu_count > placement->node_gpus)
            placement->node_gpus = allocation->nodes[i].gpu_count;
    placement->machine = translate_text(point == NULL ? "" : point->machine);
    placement->os = translate_text(point == NULL ? "" : point->os);
    if (replica_state_ms(broker->replica) < fsm_restart_excluded_until_ms(allocation))
        placement->excluded_node_id = translate_text(allocation->cause_node_id);
}

/* What a scheduler needs to place a job where it can be stopped cheaply, and where its last
 * checkpoint is near. */
static Ckpt__V1__PlacementHint *placement_message(const struct broker *broker,
                                                  const struct fsm_allocation *allocation,
                                                  struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    Ckpt__V1__PlacementHint *placement = scratch_take(scratch, 1, sizeof(*placement));
    uint64_t cost_gpu_ms;
    enum fsm_status status;

    ckpt__v1__placement_hint__init(placement);
    placement->allocation_id = translate_text(allocation->id);
    placement->domain_rule = allocation->domain_rule;
    placement->domain = translate_text(fsm_bound_domain(fsm, allocation));
    placement->waits = placement_waits(allocation);
    if (placement->waits) {
        placement_copies(fsm, allocation, scratch, placement);
        placement_needs(broker, allocation, placement);
        return placement;
    }
    status = fsm_victim_outlook(fsm, allocation, &cost_gpu_ms);
    placement->checkpoint_efficiency_ppm =
        translate_checkpoint_efficiency(fsm_policy(fsm), allocation);
    placement->checkpoint_weight_ppm = placement_weight(fsm_policy(fsm), allocation->vcluster_kind);
    placement->why = translate_text(placement_why(allocation, status));
    placement->non_preemptible = status != FSM_OK;
    placement->avoid_borrowed_nodes = placement_avoids_borrowed(allocation, status);
    placement->preemption_cost_gpu_ms = cost_gpu_ms;
    placement->borrowed_nodes = allocation->borrowed_count;
    placement->borrowed_penalty_ppm =
        placement->avoid_borrowed_nodes ? PPM : PPM - placement->checkpoint_efficiency_ppm;
    return placement;
}

/* Of jobs that run or are about to, by slots: a page may be empty and not the last. */
void placement_hints_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetPlacementHintsRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const uint32_t slots = fsm_allocation_slots(fsm);
    Ckpt__V1__GetPlacementHintsReply reply = CKPT__V1__GET_PLACEMENT_HINTS_REPLY__INIT;
    size_t bytes = 0;
    uint32_t size;
    uint32_t slot;
    uint32_t scanned = 0;

    if (!request_page_size(request, asked->page_size, &size) ||
        !request_slot_token(request, asked->page_token, &slot))
        return;
    reply.hints = scratch_take(scratch, size, sizeof(reply.hints[0]));
    for (; slot < slots && reply.n_hints < size && scanned < METHOD_SCAN_MAX &&
           bytes < METHOD_PAGE_BYTES;
         slot++, scanned++) {
        const struct fsm_allocation *allocation = fsm_allocation_find_slot(fsm, slot);

        if (allocation == NULL ||
            (!placement_waits(allocation) &&
             allocation->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING &&
             allocation->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING) ||
            (asked->vcluster[0] != '\0' && strcmp(asked->vcluster, allocation->vcluster) != 0))
            continue;
        reply.hints[reply.n_hints] = placement_message(request->broker, allocation, scratch);
        bytes += ckpt__v1__placement_hint__get_packed_size(reply.hints[reply.n_hints]);
        reply.n_hints++;
    }
    if (slot < slots)
        reply.next_page_token = scratch_printf(scratch, "%" PRIu32, slot);
    answer_reply(request->call, &reply.base);
}
