/* The life of a drill: ARMED, FAULT, SETTLING, and how it ended. See fsm/drill.h.
 *
 * Flow     the timer moves it on (fsm_drill_due). Other commands tell what it waits for: a leader
 *          that was elected, a target that went or came back. Nothing here fails anything.
 */
#include "fsm/drill.h"

#include <stdlib.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name
#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum { READ_LOOKED_MAX = 4096 }; /* records on the way to a checkpoint that can be read */

static const struct fsm_drill_kind kinds[] = {
#define X(upper, name, duration, longest, settle, hits)                                            \
    {KIND(upper), name, duration, longest, settle, FSM_DRILL_HITS_##hits},
    FSM_DRILL_KINDS(X)
#undef X
};

const struct fsm_drill_kind *fsm_drill_kind(Ckpt__V1__DrillKind kind)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (kinds[i].kind == kind)
            return &kinds[i];
    return NULL;
}

const struct fsm_drill_kind *fsm_drill_kind_named(const char *name)
{
    CHECK(name != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* ---- the records ---- */

struct drills *fsm_drills_new(void)
{
    struct drills *drills = check_calloc(1, sizeof(*drills));

    drills->timer.kind = TIMER_DRILL;
    return drills;
}

void fsm_drills_free(struct drills *drills)
{
    CHECK(drills != NULL);
    CHECK(drills->timer.position == 0); /* out of the heap, which other timers move in */
    for (uint32_t i = 0; i < drills->count; i++)
        fsm_message_free(&drills->items[i]->base);
    free(drills);
}

const Ckpt__V1__Drill *fsm_drill_at(const struct fsm *fsm, size_t i)
{
    CHECK(fsm != NULL);
    return i < fsm->drills->count ? fsm->drills->items[i] : NULL;
}

const Ckpt__V1__Drill *fsm_drill_find(const struct fsm *fsm, uint64_t drill_id)
{
    CHECK(fsm != NULL);
    for (size_t i = 0; i < fsm->drills->count; i++)
        if (fsm->drills->items[i]->drill_id == drill_id)
            return fsm->drills->items[i];
    return NULL;
}

bool fsm_drill_over(Ckpt__V1__DrillState state)
{
    return state == STATE(PASSED) || state == STATE(FAILED) || state == STATE(ABORTED);
}

static Ckpt__V1__Drill *drill_last(const struct fsm *fsm)
{
    return fsm->drills->count == 0 ? NULL : fsm->drills->items[fsm->drills->count - 1];
}

static Ckpt__V1__Drill *drill_open(const struct fsm *fsm)
{
    Ckpt__V1__Drill *drill = drill_last(fsm);

    CHECK(drill == NULL || drill->drill_id != 0);
    return drill == NULL || fsm_drill_over(drill->state) ? NULL : drill;
}

const Ckpt__V1__Drill *fsm_drill_open(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return drill_open(fsm);
}

uint64_t fsm_drill_passed_ms(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    for (size_t i = fsm->drills->count; i-- > 0;)
        if (fsm->drills->items[i]->state == STATE(PASSED))
            return fsm->drills->items[i]->ended_ms;
    return 0;
}

Ckpt__V1__Drill *fsm_drill_add(struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    struct drills *drills = fsm->drills;

    CHECK(drill_open(fsm) == NULL);
    if (drills->count == FSM_DRILLS_MAX) {
        fsm_message_free(&drills->items[0]->base);
        drills->count--;
        memmove(&drills->items[0], &drills->items[1], drills->count * sizeof(drills->items[0]));
    }
    drills->items[drills->count] = (Ckpt__V1__Drill *)fsm_message_copy(fsm, &drill->base);
    fsm_timer_set(&fsm->timers, &drills->timer, drill->look_ms);
    return drills->items[drills->count++];
}

/* A record has what its state says: nothing of the fault before it came. */
static bool contents_fit(const struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    bool armed = drill->state == STATE(ARMED), fault = drill->fault_ms != 0;

    CHECK(drill->state != STATE(UNSPECIFIED));
    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->member_id == 0)
            return false;
    if (!fault && (drill->checkpoint_id != 0 || drill->left_paused != 0))
        return false;
    if ((armed && fault) || (!armed && !fault && drill->state != STATE(ABORTED)) ||
        (drill->checkpoint_complete && drill->checkpoint_id == 0))
        return false;
    return drill->duration_ms >= FSM_DRILL_MIN_MS && drill->duration_ms <= FSM_DRILL_MAX_MS &&
           drill->paused <= fsm->paused_total && drill->resumed <= fsm->resumed_total &&
           drill->paused_before <= fsm->paused_total && drill->resumed_before <= fsm->resumed_total;
}

/* Of a snapshot: the ids grow, and a drill that is over waits for nothing. */
bool fsm_drill_valid(const struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    const Ckpt__V1__Drill *last = drill_last(fsm);
    bool over = fsm_drill_over(drill->state);

    CHECK(fsm->drills->count <= FSM_DRILLS_MAX);
    if (fsm->drills->count == FSM_DRILLS_MAX || drill_open(fsm) != NULL ||
        drill->drill_id <= (last == NULL ? 0 : last->drill_id) ||
        fsm_drill_kind(drill->kind) == NULL || drill->state == STATE(UNSPECIFIED) ||
        drill->n_members > FSM_MEMBERS_MAX)
        return false;
    if (over != (drill->due_ms == 0) || over != (drill->look_ms == 0) ||
        over != (drill->ended_ms != 0))
        return false;
    return contents_fit(fsm, drill) && drill->look_ms <= drill->due_ms &&
           drill->begun_ms <= fsm->now_ms && drill->fault_ms <= fsm->now_ms &&
           drill->ended_ms <= fsm->now_ms && drill->due_ms <= FSM_TIME_MAX_MS &&
           drill->look_ms <= FSM_TIME_MAX_MS;
}

bool fsm_drills_kept(const struct fsm *fsm)
{
    const Ckpt__V1__Drill *last = drill_last(fsm);

    CHECK(fsm->drills->timer.kind == TIMER_DRILL);
    if (last == NULL)
        return fsm->drills->timer.position == 0;
    return (fsm->drills->timer.position != 0) == !fsm_drill_over(last->state) &&
           fsm->drills->timer.at_ms == last->look_ms && last->look_ms <= last->due_ms;
}

/* ---- moves ---- */

void fsm_drill_state(struct fsm *fsm, Ckpt__V1__Drill *drill, Ckpt__V1__DrillState state,
                     const char *subject)
{
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_DRILL,
                                    .subject = subject,
                                    .old_state = (uint32_t)drill->kind,
                                    .new_state = (uint32_t)state,
                                    .number = drill->drill_id};

    CHECK(!fsm_drill_over(drill->state));
    CHECK(drill == drill_last(fsm));
    drill->state = state;
    if (fsm_drill_over(state)) {
        drill->ended_ms = fsm->now_ms;
        drill->due_ms = drill->look_ms = 0;
    }
    fsm_timer_set(&fsm->timers, &fsm->drills->timer, drill->look_ms);
    fsm_event_emit(fsm, &event);
}

void fsm_drill_abort(struct fsm *fsm, const char *why)
{
    Ckpt__V1__Drill *drill = drill_open(fsm);

    CHECK(why != NULL);
    if (drill != NULL)
        fsm_drill_state(fsm, drill, STATE(ABORTED), why);
}

/* 1 stands for no time at all, since 0 says that it did not happen. */
static uint64_t time_since_fault(const struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    CHECK(drill->fault_ms != 0);
    return fsm_max(1, fsm_since(fsm, drill->fault_ms));
}

/* The job's checkpoint is asked for at the instant of the fault, so that it is under way. One that
 * is under way already is as good. A job that takes none now fails the drill. */
static void checkpoint_begin(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, drill->allocation_id));
    const struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_MANUAL,
                                       .after =
                                           CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
    struct fsm_outcome outcome;
    enum fsm_status status;

    CHECK(drill->checkpoint_id == 0);
    memset(&outcome, 0, offsetof(struct fsm_outcome, victims));
    status = allocation == NULL ? FSM_ALLOCATION_NOT_FOUND
                                : fsm_checkpoint_ask(fsm, allocation, &ask, &outcome);
    if (status == FSM_OK || status == FSM_CHECKPOINT_ACTIVE)
        drill->checkpoint_id = outcome.checkpoint_id;
}

static bool can_be_read(const struct fsm *fsm, const struct checkpoint *checkpoint,
                        const struct allocation *only)
{
    return checkpoint != NULL && fsm_checkpoint_restorable(checkpoint) &&
           !checkpoint->view.damaged &&
           (only == NULL || allocation_at(fsm, checkpoint->view.allocation_slot) == only);
}

/* The newest one of the job, or of all jobs. */
static void checkpoint_read(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    const struct allocation *only =
        drill->allocation_id[0] == '\0' ? NULL : allocation_find(fsm, drill->allocation_id);
    size_t looked = 0;

    CHECK(drill->checkpoint_id == 0);
    if (drill->allocation_id[0] != '\0' && only == NULL)
        return;
    for (size_t i = fsm->checkpoint_refs; i-- > 0 && looked < READ_LOOKED_MAX; looked++) {
        struct checkpoint *checkpoint = fsm->checkpoints[i].checkpoint;

        if (!can_be_read(fsm, checkpoint, only))
            continue;
        fsm_verify_ask(fsm, checkpoint_edit(fsm, checkpoint));
        drill->checkpoint_id = checkpoint->view.id;
        return;
    }
}

static void fault_begin(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    CHECK(drill->state == STATE(ARMED));
    CHECK(drill->duration_ms >= FSM_DRILL_MIN_MS);
    drill->fault_ms = fsm->now_ms;
    drill->paused_before = fsm->paused_total;
    drill->resumed_before = fsm->resumed_total;
    drill->due_ms = drill->look_ms = fsm->now_ms + drill->duration_ms;
    fsm_drill_state(fsm, drill, STATE(FAULT), NULL);
    if (drill->kind == KIND(RESTORE))
        checkpoint_read(fsm, drill);
    else if (drill->allocation_id[0] != '\0')
        checkpoint_begin(fsm, drill);
}

/* The members compare their states as of this instant. */
static void settling_begin(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    CHECK(drill->state == STATE(FAULT));
    CHECK(fsm_drill_kind(drill->kind) != NULL);
    drill->check_hash = fsm->state_hash;
    drill->due_ms = fsm->now_ms + fsm_drill_kind(drill->kind)->settle_ms;
    drill->look_ms = fsm->now_ms + FSM_DRILL_LOOK_MS;
    fsm_drill_state(fsm, drill, STATE(SETTLING), NULL);
}

/* ---- the end ---- */

static void take_checkpoint(const struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    const struct checkpoint *checkpoint =
        drill->checkpoint_id == 0 ? NULL : checkpoint_find(fsm, drill->checkpoint_id);

    drill->checkpoint_complete =
        checkpoint != NULL && fsm_checkpoint_restorable(checkpoint) && !checkpoint->view.damaged &&
        (drill->kind != KIND(RESTORE) || checkpoint->view.verified_at_ms >= drill->fault_ms);
    drill->checkpoint_attempts = checkpoint == NULL ? 0 : checkpoint->view.attempt;
}

/* The drill waits for nothing any more. An outage is over when the target is back, and those that
 * were paused go on with it. */
static bool has_settled(const struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    const struct checkpoint *checkpoint =
        drill->checkpoint_id == 0 ? NULL : checkpoint_find(fsm, drill->checkpoint_id);

    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->word == NULL)
            return false;
    if (drill->kind == KIND(STORAGE_OUTAGE) && (drill->down_ms == 0 || drill->up_ms == 0))
        return false;
    if (drill->kind == KIND(RESTORE))
        return drill->checkpoint_id == 0 || drill->checkpoint_complete || checkpoint == NULL ||
               checkpoint->view.damaged;
    return checkpoint == NULL || !fsm_checkpoint_state_active(checkpoint->view.state);
}

/* Those of another target that has gone away meanwhile are no fault of the drill. */
static uint32_t count_left_paused(const struct fsm *fsm, const Ckpt__V1__Drill *drill)
{
    uint32_t count = 0;

    CHECK(drill->target_id != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL &&
            (target->view.available || strcmp(target->view.id, drill->target_id) == 0))
            count += target->view.paused_count;
    }
    return count;
}

static void drill_end(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    struct fsm_drill_check checks[FSM_DRILL_CHECK_COUNT];
    const char *broken = NULL;
    bool passed;

    CHECK(drill->state == STATE(SETTLING));
    drill->left_paused = count_left_paused(fsm, drill);
    passed = fsm_drill_check(drill, checks);
    for (size_t i = 0; i < FSM_DRILL_CHECK_COUNT && broken == NULL; i++)
        if (checks[i].failed)
            broken = checks[i].name;
    CHECK(passed == (broken == NULL));
    fsm_drill_state(fsm, drill, passed ? STATE(PASSED) : STATE(FAILED), broken);
}

static void settling_look(struct fsm *fsm, Ckpt__V1__Drill *drill)
{
    CHECK(fsm->paused_total >= drill->paused_before);
    CHECK(fsm->resumed_total >= drill->resumed_before);
    drill->paused = fsm->paused_total - drill->paused_before;
    drill->resumed = fsm->resumed_total - drill->resumed_before;
    take_checkpoint(fsm, drill);
    if (has_settled(fsm, drill) || fsm->now_ms >= drill->due_ms) {
        drill_end(fsm, drill);
        return;
    }
    drill->look_ms = fsm_min(drill->due_ms, fsm->now_ms + FSM_DRILL_LOOK_MS);
    fsm_timer_set(&fsm->timers, &fsm->drills->timer, drill->look_ms);
}

void fsm_drill_due(struct fsm *fsm)
{
    Ckpt__V1__Drill *drill = drill_open(fsm);

    CHECK(drill != NULL); /* the timer is armed for nothing else */
    if (drill->state == STATE(ARMED))
        fault_begin(fsm, drill);
    else if (drill->state == STATE(FAULT))
        settling_begin(fsm, drill);
    else
        settling_look(fsm, drill);
}

/* ---- what other commands tell ---- */

/* Another leader before the fault: it would hit another one than was planned. */
void fsm_drill_leader(struct fsm *fsm, uint64_t member_id, uint64_t term)
{
    Ckpt__V1__Drill *drill = drill_open(fsm);

    CHECK(fsm->drills->count <= FSM_DRILLS_MAX);
    if (drill == NULL || term <= drill->term)
        return;
    if (drill->state == STATE(ARMED)) {
        fsm_drill_abort(fsm, "another leader");
        return;
    }
    if (drill->new_term != 0)
        return;
    drill->new_term = term;
    drill->new_leader_id = member_id;
    drill->carried = fsm->checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED];
}

void fsm_drill_target(struct fsm *fsm, const char *target_id, bool available)
{
    Ckpt__V1__Drill *drill = drill_open(fsm);

    CHECK(target_id != NULL);
    if (drill == NULL || drill->fault_ms == 0 || strcmp(drill->target_id, target_id) != 0)
        return;
    if (!available && drill->down_ms == 0)
        drill->down_ms = time_since_fault(fsm, drill);
    else if (available && drill->down_ms != 0 && drill->up_ms == 0)
        drill->up_ms = time_since_fault(fsm, drill);
}
