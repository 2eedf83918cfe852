/* Commands about storage targets: put, remove, availability. The outage rows: S1-060..S1-074, I24,
 * I35.
 *
 * Flow     an outage pauses every active checkpoint of the target in the command that says so, and
 *          its end resumes all of them: no checkpoint is paused at a target that is there, and none
 *          is asked for at one that is not. That takes time in proportion to the target's active
 *          checkpoints.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* Exactly the chosen one is: in one step there are never two. */
static void target_make_default(struct fsm *fsm, const struct target *chosen)
{
    CHECK(chosen->view.id != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        struct target *target = target_edit(fsm, target_find_slot(fsm, slot));

        if (target != NULL)
            target->view.is_default = target == chosen;
    }
}

/* A new one, or one that was removed and whose name records still have. What was measured of the
 * one before is not known of this one. */
static struct target *target_make(struct fsm *fsm, const char *id)
{
    const struct target *removed = target_find_any(fsm, id);
    struct target *target;

    if (removed == NULL)
        return fsm_target_create(fsm, fsm_pool_free_slot(&fsm->targets), id);
    target = target_edit(fsm, target_at(fsm, removed->view.slot));
    target->removed = false;
    target->view.made = fsm->command_count;
    target->view.draining = false;
    target->view.failed_over = false;
    target->view.available = true;
    target->view.reason = CKPT__V1__REASON__REASON_NONE;
    target->view.since_ms = fsm->now_ms;
    target->view.measured_bytes_per_s = 0;
    target->view.measured_at_ms = 0;
    return target;
}

/* Also of the targets that a new cluster is founded with, which are whole already. */
enum fsm_status fsm_put_target(struct fsm *fsm, const Ckpt__V1__TargetSpec *spec,
                               struct fsm_outcome *outcome)
{
    struct target *target = target_edit(fsm, target_find(fsm, spec->target_id));

    CHECK(outcome != NULL);
    if (target_find_any(fsm, spec->target_id) == NULL && fsm->targets.used >= FSM_TARGETS_MAX) {
        outcome->current = fsm->targets.used;
        outcome->limit = FSM_TARGETS_MAX;
        return FSM_TARGETS_FULL;
    }
    /* S2-009: folders are found below the prefix, so it stays while checkpoints name the target */
    if (target != NULL && target->checkpoint_count > 0 &&
        (strcmp(target->view.prefix, spec->prefix) != 0 || target->view.kind != spec->kind)) {
        outcome->current = target->checkpoint_count;
        return FSM_TARGET_IN_USE;
    }
    if (target == NULL)
        target = target_make(fsm, spec->target_id);
    RECORD_TAKE(FSM_TARGET_SPEC, fsm, spec, &target->view);
    if (spec->is_default) {
        target_make_default(fsm, target);
        target->view.draining = false;
    }
    fsm_target_budget(target);
    fsm_read_limits_changed(fsm, target);
    fsm_writes_excused(target, target->view.writing_count);
    fsm_destinations_changed(fsm);
    return FSM_OK;
}

/* The generated message wants texts that may change; nobody changes these. */
static char *target_text(const char *text)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {text};

    return pointer.changing;
}

/* Field numbers of a target's specification: bit n of zeros says that field n is meant to be
 * empty. */
enum {
    STAGING = 5,
    COST = 6,
    DOMAIN = 8,
    TIER = 9,
    READ = 10,
    FAILOVER = 11,
    GENERATIONS = 13,
    RESTORES = 15,
    WRITES = 18,
    JURISDICTION = 21,
    STAGING_PPM = 300000,
    GENERATIONS_DEFAULT = 8
};

/* A new target without a share leaves three tenths to staging. A sample is read back: reading all
 * takes as long again as writing, and a restore compares every byte anyway. Unchanged files are
 * taken over eight times, so that what one damaged file can spoil is bounded. */
static void target_defaults(const struct fsm *fsm, Ckpt__V1__TargetSpec *spec, uint64_t zeros)
{
    if (spec->read_back == CKPT__V1__READ_BACK__READ_BACK_UNSPECIFIED)
        spec->read_back = CKPT__V1__READ_BACK__READ_BACK_SAMPLED;
    if (spec->generations == 0 && (zeros >> GENERATIONS & 1) == 0)
        spec->generations = GENERATIONS_DEFAULT;
    if (spec->staging == CKPT__V1__STAGING__STAGING_UNSPECIFIED)
        spec->staging = CKPT__V1__STAGING__STAGING_LOCAL;
    if (spec->compression == CKPT__V1__COMPRESSION__COMPRESSION_UNSPECIFIED)
        spec->compression = CKPT__V1__COMPRESSION__COMPRESSION_NONE;
    if (spec->pool == CKPT__V1__POOL__POOL_UNSPECIFIED)
        spec->pool = CKPT__V1__POOL__POOL_OPEN;
    if (spec->encrypted == CKPT__V1__ASSURED__ASSURED_UNSPECIFIED && fsm_level(fsm) >= 2)
        spec->encrypted = CKPT__V1__ASSURED__ASSURED_NO;
    if (spec->hot_only == CKPT__V1__ASSURED__ASSURED_UNSPECIFIED && fsm_level(fsm) >= 2)
        spec->hot_only = CKPT__V1__ASSURED__ASSURED_NO;
    if (spec->staging_share_ppm == 0 && (zeros >> STAGING & 1) == 0)
        spec->staging_share_ppm = STAGING_PPM;
}

/* What is not said stays as it is. */
static void target_fill(Ckpt__V1__TargetSpec *spec, const struct target *target, uint64_t zeros)
{
    CHECK(target->view.id != NULL);
    if (spec->kind == CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED)
        spec->kind = target->view.kind;
    if (spec->prefix[0] == '\0')
        spec->prefix = target_text(target->view.prefix);
    if (spec->write_bytes_per_s == 0)
        spec->write_bytes_per_s = target->view.write_bytes_per_s;
    if (spec->read_back == CKPT__V1__READ_BACK__READ_BACK_UNSPECIFIED)
        spec->read_back = target->view.read_back;
    if (spec->staging == CKPT__V1__STAGING__STAGING_UNSPECIFIED)
        spec->staging = target->view.staging;
    if (spec->compression == CKPT__V1__COMPRESSION__COMPRESSION_UNSPECIFIED)
        spec->compression = target->view.compression;
    if (spec->generations == 0 && (zeros >> GENERATIONS & 1) == 0)
        spec->generations = target->view.generations;
    if (spec->staging_share_ppm == 0 && (zeros >> STAGING & 1) == 0)
        spec->staging_share_ppm = target->view.staging_share_ppm;
    if (spec->cost_micro_usd_per_gb_month == 0 && (zeros >> COST & 1) == 0)
        spec->cost_micro_usd_per_gb_month = target->view.cost_micro_usd_per_gb_month;
    if (spec->domain[0] == '\0' && (zeros >> DOMAIN & 1) == 0)
        spec->domain = target_text(target->view.domain);
    if (spec->tier[0] == '\0' && (zeros >> TIER & 1) == 0)
        spec->tier = target_text(target->view.tier);
    if (spec->read_bytes_per_s == 0 && (zeros >> READ & 1) == 0)
        spec->read_bytes_per_s = target->view.read_bytes_per_s;
    if (spec->failover_target_id[0] == '\0' && (zeros >> FAILOVER & 1) == 0)
        spec->failover_target_id = target_text(target->view.failover_target_id);
    if (spec->pool == CKPT__V1__POOL__POOL_UNSPECIFIED)
        spec->pool = target->view.pool;
    if (spec->encrypted == CKPT__V1__ASSURED__ASSURED_UNSPECIFIED)
        spec->encrypted = target->view.encrypted;
    if (spec->hot_only == CKPT__V1__ASSURED__ASSURED_UNSPECIFIED)
        spec->hot_only = target->view.hot_only;
    if (spec->jurisdiction[0] == '\0' && (zeros >> JURISDICTION & 1) == 0)
        spec->jurisdiction = target_text(target->view.jurisdiction);
    if (spec->max_restores == 0 && (zeros >> RESTORES & 1) == 0)
        spec->max_restores = target->view.max_restores;
    if (spec->max_writes == 0 && (zeros >> WRITES & 1) == 0)
        spec->max_writes = target->view.max_writes;
}

/* N-003: what is sensitive stays in its pool and its jurisdiction, and a pool is what somebody
 * assures it to be. target: NULL: a new one. */
static enum fsm_status target_pool_check(const struct fsm *fsm, const struct target *target,
                                         const Ckpt__V1__TargetSpec *spec,
                                         struct fsm_outcome *outcome)
{
    bool of_pool = spec->pool == CKPT__V1__POOL__POOL_SENSITIVE;

    CHECK(spec->target_id != NULL);
    /* of a target that named none only jobs that keep to none have taken anything */
    if (target != NULL &&
        (!of_pool || (target->view.jurisdiction[0] != '\0' &&
                      strcmp(spec->jurisdiction, target->view.jurisdiction) != 0))) {
        outcome->current = fsm_pool_users(fsm, target, true);
        if (outcome->current > 0)
            return FSM_POOL_NEEDED;
    }
    if (of_pool && fsm_level(fsm) >= 2 && !fsm_pool_assured(spec->encrypted, spec->hot_only))
        return FSM_POOL_UNFIT;
    return FSM_OK;
}

/* A change says only what is different. It is made whole here, where the old one is known, and is
 * then judged like a new one. */
enum fsm_status fsm_apply_put_target(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__PutTarget *put = command->put_target;
    const struct target *target = target_find(fsm, put->spec->target_id);
    Ckpt__V1__TargetSpec spec = *put->spec;
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET);
    CHECK(outcome != NULL);
    if (target != NULL && spec.prefix[0] == '\0' && spec.kind != target->view.kind &&
        spec.kind != CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED) {
        outcome->subject = "kind"; /* the prefix that stays is of the other one */
        outcome->current = spec.kind;
        outcome->limit = target->view.kind;
        return FSM_INVALID_ARGUMENT;
    }
    if (target != NULL)
        target_fill(&spec, target, put->zeros);
    else
        target_defaults(fsm, &spec, put->zeros);
    if (fsm_level(fsm) < 2 && (put->zeros >> JURISDICTION & 1) != 0) {
        outcome->subject = "zeros"; /* unknown to members of the release before */
        return FSM_INVALID_ARGUMENT;
    }
    status = target_pool_check(fsm, target, &spec, outcome);
    if (status != FSM_OK)
        return status;
    if (spec.prefix[0] == '\0') {
        outcome->subject = "a new target needs a prefix (ckptctl: --prefix)";
        outcome->limit = FSM_PREFIX_MAX_BYTES;
        return FSM_PREFIX_INVALID;
    }
    if (spec.write_bytes_per_s == 0) {
        outcome->subject = "a new target needs write_bytes_per_s (ckptctl: --write)";
        outcome->limit = 1;
        return FSM_INVALID_ARGUMENT;
    }
    if (spec.failover_target_id[0] != '\0' &&
        (strcmp(spec.failover_target_id, spec.target_id) == 0 ||
         target_find(fsm, spec.failover_target_id) == NULL))
        return FSM_FAILOVER_UNKNOWN;
    if (spec.staging == CKPT__V1__STAGING__STAGING_DIRECT &&
        (put->direct_kinds >> spec.kind & 1) == 0)
        return FSM_STAGING_UNFIT;
    if (spec.compression == CKPT__V1__COMPRESSION__COMPRESSION_LZ4 &&
        (put->compressing_kinds >> spec.kind & 1) == 0)
        return FSM_COMPRESSION_UNFIT;
    status = fsm_put_target(fsm, &spec, outcome);
    if (status == FSM_OK)
        fsm_failover_arm(fsm, target_edit(fsm, target_find(fsm, spec.target_id)));
    return status;
}

/* Those below its prefix that could not be deleted. */
static uint64_t target_undeleted(const struct fsm *fsm, const struct target *target)
{
    const struct fsm_undeleted *view;
    uint64_t count = 0;

    CHECK(target->view.id != NULL);
    for (uint32_t place = 0; (view = fsm_undeleted_next(fsm, place)) != NULL;
         place = view->place + 1)
        count += view->target_slot == target->view.slot && view->attempts > 0;
    return count;
}

/* What lies there or is about to: a job's checkpoint may be bound for another target than the job
 * itself. */
static uint64_t target_checkpoints(const struct target *target)
{
    uint64_t count = target->folder_count;

    CHECK(target->view.id != NULL);
    for (const struct list *at = target->active.next; at != &target->active; at = at->next)
        count += !fsm_checkpoint_has_folder(LIST_ITEM(at, struct checkpoint, queue));
    return count;
}

/* The refusal names what has to go first, and how many of it. */
static enum fsm_status target_needed(const struct fsm *fsm, const struct target *target,
                                     struct fsm_outcome *outcome)
{
    CHECK(target->view.id != NULL);
    if (target->view.is_default)
        return FSM_TARGET_IS_DEFAULT;
    outcome->current = fsm_pool_users(fsm, target, false);
    if (outcome->current > 0)
        return FSM_POOL_NEEDED;
    outcome->current = target->going_count;
    if (target->going_count > 0 && !target->view.draining)
        return FSM_TARGET_HAS_JOBS;
    outcome->current = target_checkpoints(target);
    if (outcome->current == 0)
        return FSM_OK;
    outcome->limit = target_undeleted(fsm, target);
    return FSM_TARGET_HAS_FOLDERS;
}

/* Nothing is written there any more. Records of what ended keep its name, and with it its slot. */
enum fsm_status fsm_apply_remove_target(struct fsm *fsm, const fsm_command *command,
                                        struct fsm_outcome *outcome)
{
    struct target *target = target_edit(fsm, target_find(fsm, command->remove_target->target_id));
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_REMOVED};
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REMOVE_TARGET);
    CHECK(outcome != NULL);
    if (target == NULL)
        return FSM_TARGET_NOT_FOUND;
    status = target_needed(fsm, target, outcome);
    if (status != FSM_OK)
        return status;
    CHECK(list_empty(&target->active));
    event.subject = target->view.id;
    fsm_event_emit(fsm, &event);
    target->removed = true;
    fsm_read_target_gone(fsm, target);
    fsm_failover_arm(fsm, target);
    fsm_destinations_changed(fsm);
    fsm_target_leave(fsm, target);
    return FSM_OK;
}

/* What is being written there goes on; new ones go elsewhere, which there must be. */
enum fsm_status fsm_apply_drain_target(struct fsm *fsm, const fsm_command *command,
                                       struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__DrainTarget *drain = command->drain_target;
    struct target *target = target_edit(fsm, target_find(fsm, drain->target_id));
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DRAINED,
                              .old_state = drain->undo,
                              .new_state = !drain->undo};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_DRAIN_TARGET);
    CHECK(outcome != NULL);
    if (target == NULL)
        return FSM_TARGET_NOT_FOUND;
    if (!drain->undo && (target->view.is_default || fsm_target_default(fsm) == NULL))
        return FSM_TARGET_IS_DEFAULT;
    if (target->view.draining == !drain->undo)
        return FSM_OK;
    outcome->current = drain->undo ? 0 : fsm_pool_users(fsm, target, false);
    if (outcome->current > 0)
        return FSM_POOL_NEEDED;
    target->view.draining = !drain->undo;
    fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
    event.subject = target->view.id;
    fsm_event_emit(fsm, &event);
    fsm_destinations_changed(fsm);
    return FSM_OK;
}

/* Paused ones stay in the list of active ones, so that this may walk it while it changes them. */
static void target_pause_all(struct fsm *fsm, struct target *target)
{
    for (struct list *at = target->active.next; at != &target->active; at = at->next) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, queue);

        fsm_hold_checkpoint(fsm, checkpoint);
        fsm_checkpoint_pause(fsm, checkpoint);
    }
    CHECK(target->view.granted_bytes_per_s == 0);
}

/* What would be lost now decides the order, not what would have been lost when it was paused
 * (S1-069, L3). They are sorted once, so the order of events and of ties is alike on every
 * member. */
static void target_resume_all(struct fsm *fsm, struct target *target)
{
    uint32_t count = 0;
    struct sort_item *items =
        fsm_arena_take(&fsm->arena, (target->view.paused_count + 1) * sizeof(*items));

    for (struct list *at = target->active.next; at != &target->active; at = at->next) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, queue);

        CHECK(count < target->view.paused_count);
        fsm_hold_checkpoint(fsm, checkpoint);
        checkpoint->view.recompute_saved_gpu_ms =
            fsm_allocation_age_gpu_ms(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
        items[count].high = checkpoint->view.recompute_saved_gpu_ms;
        items[count].low = checkpoint->view.id;
        items[count].item = checkpoint;
        count++;
    }
    fsm_sort(items, count);
    for (uint32_t i = 0; i < count; i++)
        fsm_checkpoint_resume(fsm, items[i].item);
    CHECK(target->view.paused_count == 0);
}

/* S1-005. Grants that are there stay: a lower budget takes nothing back. They end soon by
 * themselves, and the next grants see the lower one. */
static void target_measured(struct fsm *fsm, struct target *target,
                            const Ckpt__Log__V1__TargetAvailability *change)
{
    CHECK(target->view.id != NULL);
    if (change->write_bytes_per_s == 0 && !change->forget_measured)
        return;
    target->view.measured_bytes_per_s = change->forget_measured ? 0 : change->write_bytes_per_s;
    target->view.measured_at_ms = fsm->now_ms;
    fsm_target_budget(target);
}

/* What is measured may come without a change of the availability. The budget follows last: an
 * outage leaves none, whatever was measured. */
enum fsm_status fsm_apply_target_availability(struct fsm *fsm, const fsm_command *command,
                                              struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__TargetAvailability *change = command->target_availability;
    struct target *target = target_edit(fsm, target_find(fsm, change->target_id));
    struct fsm_event event = {.kind = change->available
                                          ? CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP
                                          : CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DOWN,
                              .reason = change->reason};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY);
    CHECK(outcome != NULL);
    (void)outcome;
    if (target == NULL)
        return FSM_TARGET_NOT_FOUND;
    target_measured(fsm, target, change);
    if (target->view.available == change->available) {
        if (target->view.reason != change->reason && !change->available) {
            fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
            /* The outage goes on for another reason. What is paused keeps the one that paused it,
             * and no event is made: nothing has come or gone. */
            target->view.reason = change->reason;
        }
        return FSM_OK;
    }
    target->view.available = change->available;
    fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
    target->view.reason = change->reason;
    target->view.since_ms = fsm->now_ms;
    event.subject = target->view.id;
    event.old_state = !change->available;
    event.new_state = change->available;
    event.number = target->view.paused_count;
    fsm_event_emit(fsm, &event);
    if (change->available)
        target_resume_all(fsm, target);
    else
        target_pause_all(fsm, target);
    fsm_target_budget(target);
    fsm_failover_arm(fsm, target);
    fsm_read_review(fsm);
    fsm_drill_target(fsm, target->view.id, change->available);
    return FSM_OK;
}
