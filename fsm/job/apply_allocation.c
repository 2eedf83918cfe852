/* Commands about allocations: register, update, end. Rows S1-080, F-008, F-015, F-016,
 * R-002, P-001.
 *
 * Flow     each handler finds the job, asks everything that may refuse, and changes the job only
 *          then. A new set of nodes is the difficult part, here and in apply_restart.c:
 *          fsm_shares_check() asks for room, fsm_shares_fill() makes the nodes that are named for
 *          the first time.
 * Errors   outcome->current is the job's state where that is why it was refused; the status' text
 *          says so.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"
#include "fsm/profiles.h"

#include <malloc.h>

#define ENDS(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

/* One that a job already holds does not refuse it for its state. */
static enum fsm_status share_check(const struct fsm *fsm, const fsm_share_message *message,
                                   const struct holder *holder)
{
    const struct node *node = node_find(fsm, message->node_id);

    CHECK(message->node_id != NULL);
    if (holder->sensitive && message->borrowed)
        return FSM_NODE_BORROWED;
    if (node == NULL || (holder->job != NULL && holder->job->assigned &&
                         fsm_allocation_part(holder->job, node->view.slot) != NULL))
        return FSM_OK;
    if (fsm_node_refusal(&node->view) != FSM_OK)
        return fsm_node_refusal(&node->view);
    return fsm_node_is_shared(fsm, node, holder) ? FSM_NODE_SHARED : FSM_OK;
}

/* Room for the nodes that are named for the first time, and none of the others draining, but for
 * those that the job holds, or beside a sensitive job (N-001). L-001 */
enum fsm_status fsm_shares_check(struct fsm *fsm, size_t count, fsm_share_message **messages,
                                 const struct holder *holder, struct fsm_outcome *outcome)
{
    uint32_t unknown = 0;

    for (size_t i = 0; fsm_level(fsm) >= 2 && i < count; i++) {
        enum fsm_status status = share_check(fsm, messages[i], holder);

        outcome->subject = messages[i]->node_id;
        if (status != FSM_OK)
            return status;
    }
    outcome->subject = NULL;
    for (size_t i = 0; i < count; i++)
        unknown += node_find_any(fsm, messages[i]->node_id) == NULL;
    outcome->current = fsm->nodes.used;
    outcome->limit = FSM_NODES_MAX;
    if (unknown > FSM_NODES_MAX - fsm->nodes.used)
        return FSM_NODES_FULL;
    outcome->current = 0;
    outcome->limit = 0;
    return FSM_OK;
}

/* A node is known from the first job that names it, UNSPECIFIED until its agent says hello:
 * schedulers may place jobs before. A home that is not said leaves what is known of it. */
void fsm_shares_fill(struct fsm *fsm, struct fsm_node_share *shares, size_t count,
                     fsm_share_message **messages)
{
    CHECK(shares->node_slot < FSM_NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct node *node = node_edit(fsm, node_find(fsm, messages[i]->node_id));

        if (node == NULL)
            node = fsm_node_make(fsm, messages[i]->node_id);
        if (messages[i]->home_vcluster[0] != '\0')
            fsm_intern_set(fsm, &node->view.home_vcluster, messages[i]->home_vcluster);
        shares[i].node_slot = node->view.slot;
        RECORD_COPY(FSM_SHARE_SPEC, messages[i], &shares[i]);
    }
}

/* The nodes are named by the shares once these are filled: an unfilled one would name slot 0. */
void fsm_shares_take(struct fsm *fsm, struct allocation *allocation,
                     const struct fsm_node_share *shares, uint32_t count)
{
    CHECK(allocation->view.id != NULL);
    memcpy(fsm_allocation_set_shares(fsm, allocation, count), shares, count * sizeof(*shares));
    fsm_allocation_name_nodes(fsm, allocation);
    fsm_allocation_sum_shares(allocation);
}

/* The one to which a new job keeps, "" when its first target decides. A job that continues another
 * one keeps to that one's: the checkpoints lie there. */
static const char *register_jurisdiction(const struct fsm *fsm,
                                         const Ckpt__V1__AllocationSpec *spec)
{
    const struct allocation *old =
        spec->continues[0] != '\0' ? allocation_find(fsm, spec->continues) : NULL;

    CHECK(spec->jurisdiction != NULL);
    return spec->jurisdiction[0] == '\0' && old != NULL ? old->view.jurisdiction
                                                        : spec->jurisdiction;
}

/* The default one when the job names none, or of its pool the first that is in use; NULL: it is not
 * known, or there is no default. */
static const struct target *register_target(struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec,
                                            const char *jurisdiction)
{
    const struct target *target =
        spec->target_id[0] != '\0' ? target_find(fsm, spec->target_id) : fsm_target_default(fsm);
    const struct target *pool = fsm_target_sensitive(fsm, NULL, jurisdiction);

    CHECK(spec->target_id != NULL);
    if (fsm_spec_sensitive(spec) && spec->target_id[0] == '\0' && pool != NULL && target != NULL &&
        !fsm_pool_takes(target, jurisdiction))
        return pool;
    return target;
}

/* N-003: sensitive data lie in their pool and their jurisdiction, and nowhere else. */
static enum fsm_status target_refusal(const struct fsm *fsm, const struct target *target,
                                      bool sensitive, const char *jurisdiction)
{
    CHECK(target->view.id != NULL);
    if (!sensitive)
        return FSM_OK;
    if (fsm_target_sensitive(fsm, NULL, "") == NULL)
        return FSM_POOL_REFUSED;
    if (fsm_target_sensitive(fsm, NULL, jurisdiction) == NULL)
        return FSM_JURISDICTION_REFUSED;
    if (!fsm_pool_takes(target, ""))
        return FSM_POOL_REFUSED;
    if (fsm_level(fsm) >= 2 && !fsm_pool_assured(target->view.encrypted, target->view.hot_only))
        return FSM_POOL_UNFIT;
    if (!fsm_pool_takes(target, jurisdiction))
        return FSM_JURISDICTION_REFUSED;
    return FSM_OK;
}

/* What a registration leaves open is filled once, so that no reader of the record needs to know a
 * default. Work counts from the start of the job, also when it is registered late. */
static void register_defaults(struct fsm *fsm, struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    view->profile_named = view->profile[0] != '\0' && fsm_level(fsm) >= 2;
    if (view->profile[0] == '\0')
        fsm_intern_set(fsm, &view->profile, FSM_PROFILE_DEFAULT);
    if (view->strategy == CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED)
        view->strategy = CKPT__V1__STRATEGY__STRATEGY_AUTO;
    if (view->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED)
        view->restore = CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
    if (view->domain_rule == CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_UNSPECIFIED)
        view->domain_rule = fsm->policy.domain_rule;
    if (view->requeue_policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_UNSPECIFIED)
        view->requeue_policy = CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ON_NODE_FAILURE;
    if (view->submitted_at_ms == 0)
        view->submitted_at_ms = fsm->now_ms;
    if (view->started_at_ms == 0)
        view->started_at_ms = fsm->now_ms;
    view->last_complete_snapshot_ms = view->started_at_ms;
    view->registered_index = fsm->index;
}

/* point: NULL: it begins from nothing. Who wrote a part of it gets that again. */
static void register_shares(struct fsm *fsm, struct allocation *allocation,
                            const Ckpt__V1__AllocationSpec *spec,
                            const struct fsm_checkpoint *point)
{
    struct fsm_node_share *shares = check_calloc(spec->n_nodes, sizeof(*shares));

    CHECK(allocation->view.id != NULL);
    fsm_shares_fill(fsm, shares, spec->n_nodes, spec->nodes);
    if (point != NULL)
        fsm_parts_settle(fsm, shares, (uint32_t)spec->n_nodes, point);
    fsm_shares_take(fsm, allocation, shares, (uint32_t)spec->n_nodes);
    free(shares);
}

static enum fsm_status register_check(struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec,
                                      const struct target *target, const char *jurisdiction,
                                      struct fsm_outcome *outcome)
{
    struct holder holder = {fsm_spec_sensitive(spec), NULL, allocation_find(fsm, spec->continues)};
    enum fsm_status status;

    CHECK(spec->allocation_id != NULL);
    if (allocation_find(fsm, spec->allocation_id) != NULL)
        return FSM_ALLOCATION_EXISTS;
    if (target == NULL)
        return FSM_TARGET_NOT_FOUND;
    status = target_refusal(fsm, target, fsm_spec_sensitive(spec), jurisdiction);
    if (status != FSM_OK)
        return status;
    if (spec->jurisdiction[0] != '\0' && !fsm_spec_sensitive(spec)) {
        outcome->subject = "jurisdiction (of sensitive jobs alone)";
        return FSM_INVALID_ARGUMENT;
    }
    if (fsm->allocations.used >= FSM_ALLOCATIONS_MAX) {
        outcome->current = fsm->allocations.used;
        outcome->limit = FSM_ALLOCATIONS_MAX;
        return FSM_ALLOCATIONS_FULL;
    }
    return fsm_shares_check(fsm, spec->n_nodes, spec->nodes, &holder, outcome);
}

/* The job has its nodes from now on, and its parts are to start. */
static void register_begin(struct fsm *fsm, struct allocation *allocation,
                           const struct fsm_checkpoint *point)
{
    CHECK(allocation->view.id != NULL);
    fsm_allocation_begin_runs(fsm, allocation, true);
    fsm_allocation_parts_start(fsm, allocation, point == NULL ? 0 : point->id);
    fsm_allocation_go_on(fsm, allocation, CKPT__V1__REASON__REASON_NONE);
    fsm_allocation_assign(fsm, allocation);
}

/* V-014: its nodes are names until its ckpt-run waits there. Nothing of theirs changes before, and
 * the broker starts it as a job that was requeued. No part of it can run on unheard. */
static void register_wait(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(!allocation->assigned);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        allocation->assignments[i].exited = true;
    allocation->exited_count = allocation->view.node_count;
    fsm_allocation_move(fsm, allocation, ENDS(REQUEUED), CKPT__V1__REASON__REASON_NOT_ATTACHED);
    fsm_restart_awaits(fsm, allocation);
}

/* Runs begin before the nodes learn of the job, and the account opens when the nodes are held: its
 * rate is that of the job's GPUs from this instant. What comes from another job comes last: its
 * bytes are counted for the tenant that the account has. */
enum fsm_status fsm_apply_register(struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *outcome)
{
    const Ckpt__V1__AllocationSpec *spec = command->register_allocation->spec;
    const char *jurisdiction = register_jurisdiction(fsm, spec);
    const struct target *target = register_target(fsm, spec, jurisdiction);
    const struct fsm_checkpoint *point = NULL;
    struct allocation *allocation;
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION);
    CHECK(outcome != NULL);
    status = fsm_continue_ask(fsm, spec);
    if (status == FSM_OK)
        status = register_check(fsm, spec, target, jurisdiction, outcome);
    if (status == FSM_OK)
        status = fsm_continue_check(fsm, spec, &point, outcome);
    if (status != FSM_OK)
        return status;
    allocation =
        fsm_allocation_create(fsm, fsm_pool_free_slot(&fsm->allocations), spec->allocation_id);
    allocation->view.target_slot = target->view.slot;
    fsm_spec_from_message(fsm, spec, &allocation->view);
    if (command->register_allocation->waits)
        allocation->view.started_at_ms = 0; /* it has held nothing yet, whatever was said */
    allocation->view.sensitive = fsm_spec_sensitive(spec);
    if (allocation->view.sensitive && jurisdiction[0] == '\0' && spec->continues[0] == '\0')
        jurisdiction = target->view.jurisdiction; /* it is bound from its first target on */
    fsm_intern_set(fsm, &allocation->view.jurisdiction, jurisdiction);
    register_defaults(fsm, &allocation->view);
    register_shares(fsm, allocation, spec, point);
    fsm_allocation_estimate(allocation, 0);
    if (command->register_allocation->waits)
        register_wait(fsm, allocation);
    else
        register_begin(fsm, allocation, point);
    fsm_account_open(fsm, allocation);
    if (point != NULL)
        fsm_continue_take(fsm, allocation);
    outcome->checkpoint_id = allocation->view.restart_id;
    fsm_allocation_arm(fsm, allocation);
    return FSM_OK;
}

/* Whether the allocation holds nodes that the new set does not name. A stamp on each node of the
 * set stands for a comparison of pairs: sets have up to 4,096 nodes. */
static bool update_nodes_leave(struct fsm *fsm, const struct allocation *allocation,
                               const Ckpt__V1__UpdateAllocationRequest *request)
{
    uint64_t stamp = ++fsm->stamp;

    CHECK(allocation->view.id != NULL);
    for (size_t i = 0; i < request->n_nodes; i++) {
        struct node *node = node_edit(fsm, node_find(fsm, request->nodes[i]->node_id));

        if (node != NULL)
            node->stamp = stamp;
    }
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        if (node_at(fsm, allocation->view.nodes[i].node_slot)->stamp != stamp)
            return true;
    return false;
}

/* The same set again, while it waits for its checkpoint. A scheduler that repeats itself under
 * another request id is told that all is well. */
static bool update_nodes_pending(const struct fsm *fsm, const struct allocation *allocation,
                                 const Ckpt__V1__UpdateAllocationRequest *request)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->view.next_count != request->n_nodes)
        return false;
    for (size_t i = 0; i < request->n_nodes; i++) {
        const struct node *node = node_find(fsm, request->nodes[i]->node_id);

        if (node == NULL || allocation->view.next[i].node_slot != node->view.slot)
            return false;
    }
    return true;
}

/* The node set changes at once while nothing is written: what waits is for the new set (S1-080). */
static enum fsm_status update_nodes_now(struct fsm *fsm, struct allocation *allocation,
                                        const Ckpt__V1__UpdateAllocationRequest *request,
                                        bool leave)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    struct fsm_node_share *next;

    CHECK(allocation->view.id != NULL);
    if (active != NULL && fsm_checkpoint_writes(active)) {
        if (!request->force)
            return FSM_CHECKPOINTING;
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_CANCELLED,
                           CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST);
    }
    next = check_calloc(request->n_nodes, sizeof(*next));
    fsm_shares_fill(fsm, next, request->n_nodes, request->nodes);
    fsm_scale_clear(fsm, allocation);
    fsm_scale_now(fsm, allocation, next, (uint32_t)request->n_nodes,
                  leave ? CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT
                        : CKPT__V1__REASON__REASON_NONE);
    free(next);
    return FSM_OK;
}

/* S1-081: what leaves is saved first. */
static enum fsm_status update_nodes_later(struct fsm *fsm, struct allocation *allocation,
                                          const Ckpt__V1__UpdateAllocationRequest *request,
                                          struct fsm_outcome *outcome)
{
    struct fsm_node_share *next = check_calloc(request->n_nodes, sizeof(*next));
    enum fsm_status status;

    CHECK(allocation->view.id != NULL);
    fsm_shares_fill(fsm, next, request->n_nodes, request->nodes);
    if (allocation->view.state == ENDS(STARTING) && allocation->view.active_checkpoint_id == 0) {
        fsm_scale_set_next(fsm, allocation, next, (uint32_t)request->n_nodes);
        outcome->checkpoint_id = 0; /* nothing is there to be saved */
        fsm_scale_done(fsm, allocation, CKPT__V1__REASON__REASON_NONE);
        return FSM_OK;
    }
    status = fsm_pause_refusal(fsm, outcome);
    if (status == FSM_OK)
        status = fsm_scale_ask(fsm, allocation, next, (uint32_t)request->n_nodes, outcome);
    if (status != FSM_OK)
        free(next);
    return status;
}

/* what was just stopped or shrunk would be stopped or shrunk again. */
static enum fsm_status update_growth_check(const struct fsm *fsm, const struct fsm_allocation *view,
                                           const Ckpt__V1__UpdateAllocationRequest *request,
                                           struct fsm_outcome *outcome)
{
    uint64_t since_ms = fsm_since(fsm, view->scaled_at_ms);

    CHECK(view->id != NULL);
    if (view->reactive_min_nodes == 0 || view->scaled_at_ms == 0 ||
        request->n_nodes <= view->node_count || since_ms >= fsm->policy.scale_cooldown_ms)
        return FSM_OK;
    outcome->current = since_ms;
    outcome->limit = fsm->policy.scale_cooldown_ms;
    return FSM_SCALE_COOLDOWN;
}

/* First what is asked already, then what must not be mixed (R-002: a stop wins, and a scale-down
 * that is under way is not changed without `force`), then whether it can be done at all. Nodes
 * leave after a checkpoint unless there is nothing to be written or nobody wants it. */
static enum fsm_status update_nodes(struct fsm *fsm, struct allocation *allocation,
                                    const Ckpt__V1__UpdateAllocationRequest *request,
                                    struct fsm_outcome *outcome)
{
    const struct fsm_allocation *view = &allocation->view;
    struct holder holder = {view->sensitive, allocation, NULL};
    bool leave;
    enum fsm_status status;

    CHECK(allocation->view.id != NULL);
    outcome->checkpoint_id = view->active_checkpoint_id;
    outcome->current = view->state;
    if (view->next_count > 0 && update_nodes_pending(fsm, allocation, request) && !request->force)
        return FSM_OK;
    if (view->terminating || view->state == ENDS(CHECKPOINTING_TO_STOP) ||
        (view->next_count > 0 && (!request->force || view->leaving || view->preemption_id != 0)))
        return FSM_CHECKPOINTING; /* */
    status = fsm_shares_check(fsm, request->n_nodes, request->nodes, &holder, outcome);
    if (status != FSM_OK)
        return status;
    status = update_growth_check(fsm, view, request, outcome);
    if (status != FSM_OK)
        return status;
    leave = update_nodes_leave(fsm, allocation, request);
    if (leave && !request->force && view->strategy != CKPT__V1__STRATEGY__STRATEGY_NONE &&
        !fsm_part_finished(fsm, view))
        return update_nodes_later(fsm, allocation, request, outcome);
    outcome->checkpoint_id = 0;
    outcome->current = view->state;
    outcome->limit = leave;
    return update_nodes_now(fsm, allocation, request, leave);
}

/* Field numbers of the request. */
enum { UPDATE_WALLTIME = 4, UPDATE_PERIOD = 5 };

/* The field is meant to be 0, not to stay as it is. */
static bool update_zero(const Ckpt__V1__UpdateAllocationRequest *request, unsigned field)
{
    return (request->zeros >> field & 1) != 0;
}

/* From the next checkpoint on. Those that are there stay where they are, and are found there. */
static void update_target(struct fsm *fsm, struct allocation *allocation,
                          const struct target *target)
{
    struct target *before = target_edit(fsm, target_at(fsm, allocation->view.target_slot));

    CHECK(allocation->view.id != NULL);
    fsm_allocation_forget(fsm, allocation);
    allocation->view.target_slot = target->view.slot;
    fsm_allocation_adopt(fsm, allocation);
    fsm_target_leave(fsm, before);
}

/* One that is stopped has nothing to change but where it goes on writing. */
static bool update_of_stopped(const struct allocation *allocation,
                              const Ckpt__V1__UpdateAllocationRequest *request)
{
    return !allocation->expired && fsm_allocation_restartable(allocation) &&
           request->target_id[0] != '\0' && request->n_nodes == 0 && request->walltime_ms == 0 &&
           request->period_ms == 0 && request->zeros == 0 &&
           request->strategy == CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED;
}

/* The nodes come first: when they are refused, nothing else of the request is done. Who stays may
 * have finished already; that is asked at the very end, when the record is whole again. */
enum fsm_status fsm_apply_update(struct fsm *fsm, const fsm_command *command,
                                 struct fsm_outcome *outcome)
{
    const Ckpt__V1__UpdateAllocationRequest *request = command->update_allocation;
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, request->allocation_id));
    const struct target *target = target_find(fsm, request->target_id);
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_UPDATED};
    enum fsm_status status = FSM_OK;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    outcome->current = allocation->view.state;
    if (!fsm_allocation_runs(allocation) && !update_of_stopped(allocation, request))
        return FSM_ALLOCATION_ENDED;
    if (request->target_id[0] != '\0' && target == NULL)
        return FSM_TARGET_NOT_FOUND;
    if (target != NULL)
        status =
            target_refusal(fsm, target, allocation->view.sensitive, allocation->view.jurisdiction);
    if (status != FSM_OK)
        return status;
    if (request->n_nodes > 0) {
        status = update_nodes(fsm, allocation, request, outcome);
        if (status != FSM_OK)
            return status;
    }
    if (request->walltime_ms != 0 || update_zero(request, UPDATE_WALLTIME)) {
        allocation->view.walltime_ms = request->walltime_ms;
        allocation->view.walltime_asked = false;
        allocation->view.walltime_warned = false;
        fsm_allocation_changed(fsm, allocation);
    }
    if (request->period_ms != 0 || update_zero(request, UPDATE_PERIOD))
        allocation->view.period_ms = request->period_ms;
    if (request->strategy != CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED) {
        allocation->view.strategy = request->strategy;
        allocation->view.unresponsive = false; /* what it is to answer has changed */
    }
    if (target != NULL)
        update_target(fsm, allocation, target);
    fsm_allocation_arm(fsm, allocation);
    if (outcome->limit != 0) /* nodes left without a checkpoint */
        event.reason = CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT;
    event.allocation_id = allocation->view.id;
    event.number = allocation->view.node_count;
    fsm_event_emit(fsm, &event);
    if (request->n_nodes > 0)
        fsm_scale_ended(fsm, allocation);
    outcome->current = 0;
    outcome->limit = 0;
    return FSM_OK;
}

/* F-015: the broker saw the failure first, or had stopped the job before it. The job waits for its
 * next run already, as it would if the scheduler had told of the failure first. */
static bool end_was_seen(const struct allocation *allocation,
                         const Ckpt__V1__EndAllocationRequest *request)
{
    Ckpt__V1__AllocationState state = allocation->view.state;

    CHECK(allocation->view.id != NULL);
    return (state == ENDS(REQUEUED) || state == ENDS(SUSPENDED)) &&
           fsm_requeue_wanted(allocation, request->node_failure);
}

/* The scheduler's word ends the job at once on all its nodes, without waiting for them: the nodes
 * are the scheduler's to give. What still runs there the agents end, by an order that stands until
 * they have said so (unended.c). */
enum fsm_status fsm_apply_end(struct fsm *fsm, const fsm_command *command,
                              struct fsm_outcome *outcome)
{
    const Ckpt__V1__EndAllocationRequest *request = command->end_allocation;
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, request->allocation_id));
    struct fsm_plan plan = {0, ENDS(COMPLETED), CKPT__V1__REASON__REASON_NONE};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    outcome->current = allocation->view.state;
    if (request->failed) {
        Ckpt__V1__Reason reason = request->reason != CKPT__V1__REASON__REASON_NONE
                                      ? request->reason
                                      : CKPT__V1__REASON__REASON_ENDED_BY_SCHEDULER;

        plan = fsm_plan_failure(fsm, allocation, reason, request->node_failure);
    }
    if (request->failed && end_was_seen(allocation, request)) {
        outcome->current = 0;
        return FSM_OK;
    }
    if (!fsm_allocation_move_allowed(allocation->view.state, plan.state))
        return FSM_ALLOCATION_ENDED;
    outcome->current = 0;
    fsm_allocation_end(fsm, allocation, plan.state, plan.reason);
    return FSM_OK;
}
