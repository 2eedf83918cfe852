/* Commands about the cluster: init, epoch, members, leader, policy, queues, time.
 *
 * Flow     cluster_init comes once in a cluster's life, new_epoch with each restore or recovery of
 *          it; what members say of themselves, who was elected, and Ticks come whenever a leader
 *          has something to say. Raft's own configuration is not here: Raft decides who votes, this
 *          only keeps it in mind.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* A second one is refused: two leaders may both have found the cluster blank. */
enum fsm_status fsm_apply_cluster_init(struct fsm *fsm, const fsm_command *command,
                                       struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__ClusterInit *init = command->cluster_init;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT);
    CHECK(outcome != NULL);
    if (fsm->initialised)
        return FSM_ALREADY_INITIALISED;
    fsm->initialised = true;
    fsm_copy_id(fsm->cluster_id, init->cluster_id);
    fsm->epoch = init->epoch;
    fsm_policy_founded(&fsm->policy, init->policy == NULL ? 0 : init->policy->feature_level);
    if (init->policy != NULL)
        fsm_policy_merge(&fsm->policy, init->policy);
    for (size_t i = 0; i < init->n_targets; i++) {
        enum fsm_status status = fsm_put_target(fsm, init->targets[i], outcome);

        CHECK(status == FSM_OK); /* at most FSM_TARGETS_MAX, all new: validated */
    }
    return FSM_OK;
}

/* ---- members ---- */

/* member_count when it is not there. There are few: no table is needed. */
static size_t member_place(const struct fsm *fsm, uint64_t member_id)
{
    size_t i = 0;

    while (i < fsm->member_count && fsm->members[i]->member_id != member_id)
        i++;
    return i;
}

/* The others keep the order in which they came. */
static void member_drop(struct fsm *fsm, size_t place)
{
    fsm_message_free(&fsm->members[place]->base);
    fsm->member_count--;
    for (size_t i = place; i < fsm->member_count; i++)
        fsm->members[i] = fsm->members[i + 1];
}

/* False: all are in use. The one that was removed first gives way; its id is below member_id_max,
 * so that it is still known as gone. */
static bool member_make_room(struct fsm *fsm)
{
    size_t oldest = FSM_MEMBERS_MAX;

    if (fsm->member_count < FSM_MEMBERS_MAX)
        return true;
    for (size_t i = 0; i < fsm->member_count; i++)
        if (fsm->members[i]->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED &&
            (oldest == FSM_MEMBERS_MAX ||
             fsm->members[i]->role_since_ms < fsm->members[oldest]->role_since_ms))
            oldest = i;
    if (oldest == FSM_MEMBERS_MAX)
        return false;
    member_drop(fsm, oldest);
    return true;
}

/* The text says which id was asked for, and above which a new one must be. */
static enum fsm_status member_gone(const struct fsm *fsm, uint64_t member_id,
                                   struct fsm_outcome *outcome)
{
    outcome->current = member_id;
    outcome->limit = fsm->member_id_max;
    return FSM_MEMBER_REMOVED;
}

static enum fsm_status members_full(struct fsm_outcome *outcome)
{
    outcome->current = FSM_MEMBERS_MAX;
    outcome->limit = FSM_MEMBERS_MAX;
    return FSM_TOO_LARGE;
}

/* Takes a copy; NULL when there is no room. What a member says of itself never changes its role,
 * which follows Raft's configuration (member_role). */
static Ckpt__Log__V1__MemberFacts *member_put(struct fsm *fsm,
                                              const Ckpt__Log__V1__MemberFacts *facts)
{
    size_t place = member_place(fsm, facts->member_id);
    Ckpt__Log__V1__MemberFacts *member;

    if (place == fsm->member_count && !member_make_room(fsm))
        return NULL;
    place = member_place(fsm, facts->member_id);
    member = (Ckpt__Log__V1__MemberFacts *)fsm_message_copy(fsm, &facts->base);
    member->role = CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_UNSPECIFIED;
    member->role_since_ms = 0;
    if (place < fsm->member_count) {
        member->role = fsm->members[place]->role;
        member->role_since_ms = fsm->members[place]->role_since_ms;
        fsm_message_free(&fsm->members[place]->base);
    } else {
        fsm->member_count++;
    }
    fsm->members[place] = member;
    if (member->member_id > fsm->member_id_max)
        fsm->member_id_max = member->member_id;
    fsm->members_index = fsm->index;
    return member;
}

/* One that was removed is not in the list any more, or says so itself. */
bool fsm_member_was_removed(const struct fsm *fsm, uint64_t member_id)
{
    size_t place = member_place(fsm, member_id);

    if (place == fsm->member_count)
        return member_id <= fsm->member_id_max;
    return fsm->members[place]->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED;
}

/* One that was removed may still run and speak: it is told, and stays removed. */
enum fsm_status fsm_apply_member_facts(struct fsm *fsm, const fsm_command *command,
                                       struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__MemberFacts *facts = command->member_facts;
    size_t place = member_place(fsm, facts->member_id);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS);
    CHECK(outcome != NULL);
    if (place < fsm->member_count &&
        fsm->members[place]->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED)
        return member_gone(fsm, facts->member_id, outcome);
    return member_put(fsm, facts) == NULL ? members_full(outcome) : FSM_OK;
}

/* The leader says this when Raft's committed configuration and the state differ, so it may come
 * twice. A role may be known before the member has said anything of itself. */
enum fsm_status fsm_apply_member_role(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__MemberRoleChange *change = command->member_role;
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT, *member;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_MEMBER,
                              .new_state = (uint32_t)change->role,
                              .number = change->member_id};
    size_t place = member_place(fsm, change->member_id);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_MEMBER_ROLE);
    CHECK(outcome != NULL);
    facts.member_id = change->member_id;
    facts.name = change->name;
    member = place < fsm->member_count ? fsm->members[place] : member_put(fsm, &facts);
    if (member == NULL)
        return members_full(outcome);
    if (member->role == change->role)
        return FSM_OK;
    if (member->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED)
        return member_gone(fsm, change->member_id, outcome);
    event.old_state = (uint32_t)member->role;
    event.subject = member->name;
    member->role = change->role;
    member->role_since_ms = fsm->now_ms;
    fsm->members_index = fsm->index;
    /* Those who founded the cluster are no news. */
    if (event.old_state != CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_UNSPECIFIED ||
        change->role != CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER)
        fsm_event_emit(fsm, &event);
    return FSM_OK;
}

/* A new history: what was removed from the old one says nothing about the members of this one. */
static void members_forget_removed(struct fsm *fsm)
{
    fsm->member_id_max = 0;
    for (size_t i = fsm->member_count; i-- > 0;)
        if (fsm->members[i]->role == CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED)
            member_drop(fsm, i);
    for (size_t i = 0; i < fsm->member_count; i++)
        if (fsm->members[i]->member_id > fsm->member_id_max)
            fsm->member_id_max = fsm->members[i]->member_id;
    fsm->members_index = fsm->index;
}

/* ---- epochs, leaders, policy, queues, time ---- */

/* Work in proportion to the state, once in a cluster's life. */
static uint64_t epoch_renew_checkpoints(struct fsm *fsm)
{
    uint64_t count = 0;

    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        struct allocation *allocation = allocation_edit(fsm, allocation_find_slot(fsm, slot));
        struct checkpoint *active =
            allocation == NULL ? NULL
                               : checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

        if (active == NULL)
            continue;
        fsm_checkpoint_renew(fsm, active);
        count++;
    }
    return count;
}

/* After a restore or a recovery, before anything else is proposed: agents may hold attempts of a
 * history that this state does not have, and everything that begins from now on must be above it.
 * An epoch that is not higher was taken already. */
enum fsm_status fsm_apply_new_epoch(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NewEpoch *asked = command->new_epoch;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_EPOCH,
                              .new_state = (uint32_t)asked->epoch,
                              .subject = asked->cluster_id};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NEW_EPOCH);
    CHECK(outcome != NULL);
    if (asked->epoch <= fsm->epoch)
        return FSM_ALREADY_INITIALISED;
    fsm->epoch = asked->epoch;
    if (fsm->learned != NULL)
        fsm->learned->term = 0; /* terms begin again in a new history */
    members_forget_removed(fsm);
    fsm_copy_id(fsm->cluster_id, asked->cluster_id);
    while (fsm->member_count > 0) /* they are others, or say it again */
        fsm_message_free(&fsm->members[--fsm->member_count]->base);
    event.number = epoch_renew_checkpoints(fsm);
    outcome->current = event.number;
    fsm_event_emit(fsm, &event);
    fsm_drill_abort(fsm, "a new epoch");
    return FSM_OK;
}

uint64_t fsm_member_id_max(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->member_id_max;
}

uint64_t fsm_members_index(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->members_index;
}

const Ckpt__Log__V1__MemberFacts *fsm_member_at(const struct fsm *fsm, size_t i)
{
    CHECK(fsm != NULL);
    return i < fsm->member_count ? fsm->members[i] : NULL;
}

/* For people, and for a drill under way: nothing else in the state depends on who leads. */
enum fsm_status fsm_apply_leader_elected(struct fsm *fsm, const fsm_command *command,
                                         struct fsm_outcome *outcome)
{
    struct fsm_event event = {
        .kind = CKPT__V1__EVENT_KIND__EVENT_KIND_LEADER,
        .new_state = (uint32_t)command->leader_elected->member_id,
        .number = fsm->checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED]};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_LEADER_ELECTED);
    CHECK(outcome != NULL);
    (void)outcome;
    for (size_t i = 0; i < fsm->member_count; i++)
        if (fsm->members[i]->member_id == command->leader_elected->member_id)
            event.subject = fsm->members[i]->name;
    fsm_event_emit(fsm, &event);
    fsm_drill_leader(fsm, command->leader_elected->member_id, command->leader_elected->term);
    return FSM_OK;
}

/* Level 1 leaves targets that no record names any more, and lets be written of leaving nodes. */
void fsm_level_2_begins(struct fsm *fsm)
{
    CHECK(fsm_level(fsm) >= 2);
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++)
        if (allocation_find_slot(fsm, slot) != NULL)
            fsm_scale_level_raised(fsm, allocation_edit(fsm, allocation_at(fsm, slot)));
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++)
        if (target_find_slot(fsm, slot) != NULL)
            fsm_target_leave(fsm, target_edit(fsm, target_at(fsm, slot)));
}

/* Retention and the age of past requests reach records at their next review (retention.c), so the
 * cost does not grow with the state. Values were checked before; their order needs the policy that
 * is there. */
enum fsm_status fsm_apply_set_policy(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_POLICY};
    Ckpt__V1__Policy policy = fsm->policy;
    enum fsm_status status;
    const uint32_t level = fsm_level(fsm);
    bool retention_changed;

    CHECK(command != NULL);
    CHECK(outcome != NULL);
    status = fsm_policy_check_level(command->set_policy->policy, fsm_level(fsm), outcome);
    if (status != FSM_OK)
        return status;
    fsm_policy_merge(&policy, command->set_policy->policy);
    status = fsm_policy_check_order(&policy, outcome);
    if (status != FSM_OK)
        return status;
    if (policy.node_chooses_target != fsm->policy.node_chooses_target)
        fsm_destinations_changed(fsm);
    retention_changed = policy.retention_ms != fsm->policy.retention_ms;
    fsm->policy = policy;
    if (level < 2 && fsm_level(fsm) >= 2)
        fsm_level_2_begins(fsm);
    if (retention_changed)
        fsm_retention_changed(fsm);
    fsm_read_review(fsm);
    fsm_event_emit(fsm, &event);
    return FSM_OK;
}

/* 1 when something is queued and nothing runs. */
static uint32_t queue_pressure_ppm(const Ckpt__V1__ReportQueueRequest *report)
{
    if (report->running_gpu_ms == 0)
        return report->queued_gpu_ms > 0 ? FSM_PPM : 0;
    return (uint32_t)fsm_min(
        (uint64_t)((__uint128_t)fsm_min(report->queued_gpu_ms, report->running_gpu_ms) * FSM_PPM /
                   report->running_gpu_ms),
        FSM_PPM);
}

/* What the jobs that wait by name would take. */
static uint32_t queue_gpus(const Ckpt__V1__ReportQueueRequest *report)
{
    uint64_t gpus = 0;

    for (size_t i = 0; i < report->n_waiting; i++)
        gpus += report->waiting[i]->gpu_count;
    return (uint32_t)fsm_min(gpus, UINT32_MAX);
}

static uint32_t queue_difference(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* The history that whatif replays: by a tenth of the pressure, by a quarter of the GPUs, and
 * whether there is anything at all. An event for each report would push all others out of the
 * ring. */
static void queue_tell(struct fsm *fsm, struct queue *queue)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_QUEUE,
                              .subject = queue->report->vcluster,
                              .old_state = queue->told_gpus,
                              .new_state = queue_gpus(queue->report),
                              .number = queue_pressure_ppm(queue->report)};
    uint32_t pressure = queue_difference((uint32_t)event.number, queue->told_pressure_ppm);
    uint32_t gpus = queue_difference(event.new_state, event.old_state);
    bool other_end = (event.number == 0) != (queue->told_pressure_ppm == 0) ||
                     (event.number == FSM_PPM) != (queue->told_pressure_ppm == FSM_PPM);

    if (pressure < FSM_PPM / 10 && !other_end && (gpus == 0 || gpus < event.old_state / 4))
        return;
    queue->told_pressure_ppm = (uint32_t)event.number;
    queue->told_gpus = event.new_state;
    fsm_event_emit(fsm, &event);
}

/* The others keep their order. A snapshot at work knows them by their places: it takes those that
 * move now. */
static void queue_forget(struct fsm *fsm, size_t i)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_QUEUE,
                              .subject = fsm->queues[i].report->vcluster,
                              .old_state = fsm->queues[i].told_gpus};

    for (size_t j = i; j < fsm->queue_count && !list_empty(fsm->snapshots); j++)
        fsm_save_queue(fsm, j);
    if (fsm->queues[i].told_gpus != 0 || fsm->queues[i].told_pressure_ppm != 0)
        fsm_event_emit(fsm, &event);
    fsm_intern_release(fsm, fsm->queues[i].vcluster);
    fsm_message_free(&fsm->queues[i].report->base);
    fsm->queue_count--;
    memmove(&fsm->queues[i], &fsm->queues[i + 1], (fsm->queue_count - i) * sizeof(fsm->queues[0]));
    memset(&fsm->queues[fsm->queue_count], 0, sizeof(fsm->queues[0]));
}

/* The whole queue each time: a scheduler that restarts needs to know nothing of what it said. The
 * latest report alone is kept. */
enum fsm_status fsm_apply_report_queue(struct fsm *fsm, const fsm_command *command,
                                       struct fsm_outcome *outcome)
{
    const Ckpt__V1__ReportQueueRequest *report = command->report_queue;
    size_t i = 0;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE);
    CHECK(outcome != NULL);
    while (i < fsm->queue_count && strcmp(fsm->queues[i].report->vcluster, report->vcluster) != 0)
        i++;
    if (report->withdrawn) {
        if (i < fsm->queue_count)
            queue_forget(fsm, i);
        return FSM_OK;
    }
    if (i == FSM_QUEUES_MAX) {
        outcome->current = FSM_QUEUES_MAX;
        outcome->limit = FSM_QUEUES_MAX;
        return FSM_QUEUES_FULL;
    }
    if (!list_empty(fsm->snapshots))
        fsm_save_queue(fsm, i);
    if (i < fsm->queue_count)
        fsm_message_free(&fsm->queues[i].report->base);
    else
        fsm->queues[fsm->queue_count++].vcluster = fsm_intern(fsm, report->vcluster);
    fsm->queues[i].report = (Ckpt__V1__ReportQueueRequest *)fsm_message_copy(fsm, &report->base);
    fsm->queues[i].reported_at_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_QUEUE, i);
    queue_tell(fsm, &fsm->queues[i]);
    return FSM_OK;
}

/* Fires what is due, the earliest first. What is left of a long list is due at the next Tick.
 * outcome: current fired. A million deadlines of one instant would hold the loop for seconds: both
 * bounds leave the rest to the next Tick. Each handler disarms or moves its timer, so the first one
 * is another one next. */
enum fsm_status fsm_apply_tick(struct fsm *fsm, const fsm_command *command,
                               struct fsm_outcome *outcome)
{
    CHECK(command != NULL);
    CHECK(outcome != NULL);
    (void)command;
    fsm->victims_looked = 0;
    fsm_retention_pass(fsm);
    for (uint32_t i = 0;
         i < FSM_TIMERS_PER_TICK_MAX && fsm->victims_looked < FSM_VICTIMS_LOOKED_PER_TICK_MAX;
         i++) {
        struct timer *timer = fsm_timer_first(&fsm->timers);

        if (timer == NULL || timer->at_ms > fsm->now_ms)
            return FSM_OK;
        outcome->current++;
        if (timer->kind == TIMER_CHECKPOINT) {
            struct checkpoint *checkpoint = LIST_ITEM(timer, struct checkpoint, timer);

            fsm_hold_checkpoint(fsm, checkpoint);
            fsm_checkpoint_due(fsm, checkpoint);
        } else if (timer->kind == TIMER_VERIFICATION) {
            fsm_verify_due_now(fsm, LIST_ITEM(timer, struct verification, timer));
        } else if (timer->kind == TIMER_TARGET) {
            fsm_failover_due(fsm, LIST_ITEM(timer, struct target, timer));
        } else if (timer->kind == TIMER_DRILL) {
            fsm_drill_due(fsm);
        } else if (timer->kind == TIMER_NODE) {
            fsm_drain_due(fsm, LIST_ITEM(timer, struct node, timer));
        } else if (timer->kind == TIMER_PAUSE) {
            fsm_pause_due(fsm);
        } else if (timer->kind == TIMER_PREEMPTION) {
            fsm_preemption_due(
                fsm, preemption_edit(
                         fsm, preemption_find(
                                  fsm, LIST_ITEM(timer, struct preemption, timer)->view.id)));
        } else {
            struct allocation *allocation = LIST_ITEM(timer, struct allocation, timer);

            fsm_hold_allocation(fsm, allocation);
            if (!fsm_begin_discard(fsm, allocation))
                fsm_terminate_due(fsm, allocation);
        }
    }
    return FSM_OK;
}
