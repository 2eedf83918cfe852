/* The restart point of an application as a pure state machine. See restore_step.h. */
#include "src/agent/job/restore_point_step.h"

#include <string.h>

#include "src/agent/job/reconcile.h"
#include "src/base/check.h"

enum { SCRATCH_WAIT_US = 5000000 };

bool restore_may_go_alone(const struct restore *restore, uint64_t now_us)
{
    CHECK(now_us >= restore->began_us);
    return restore->asked.what == RESTORE_NOTHING && now_us - restore->began_us >= SCRATCH_WAIT_US;
}

/* ---- the leader is asked, in vain ---- */

static void ask_leader(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;

    restore->unheard = restore->state == RESTORE_HELD; /* nothing woke it */
    restore->turn.heard = step->facts->heard;
    restore_move_to(step, RESTORE_ASKING);
    CHECK(!restore_state_works(restore->state));
    restore_add(step, RESTORE_DO_ASK);
}

static void take_unregistered(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;

    CHECK(restore->state == RESTORE_ASKING);
    if (restore->asked.what == RESTORE_OWNER) {
        restore_over(step, OVER_NOBODYS);
        return;
    }
    if (restore_count_refusal(restore)) {
        restore_over(step, OVER_UNREGISTERED);
        return;
    }
    if (!restore_is_patient(step))
        restore_say(step, SAYS_UNREGISTERED);
    restore_pause(step, RESTORE_RETRY_MS);
}

/* True: no broker can be asked, and the last word of one was that it may start; not that its run
 * is being ended, or that others are waited for. */
static bool starts_alone(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;
    uint64_t run = step->facts->outage_run;

    CHECK(!restore_state_works(restore->state));
    if (!restore_may_go_alone(restore, step->facts->now_us))
        return false;
    if (run == 0 || (run == restore->run && restore->begin != BEGIN(MAY)))
        return false;
    restore_add(step, RESTORE_DO_TELL_ALONE)->number = run;
    restore_over(step, OVER_ALONE);
    return true;
}

static void take_unanswered(const struct restore_stepping *step, const struct restore_event *event)
{
    uint64_t delay_ms = event->delay_ms;

    CHECK(step->restore->state == RESTORE_ASKING);
    switch (event->silence) {
    case RESTORE_GARBLED:
        restore_pause(step, RESTORE_RETRY_MS);
        return;
    case RESTORE_UNREGISTERED:
        take_unregistered(step);
        return;
    case RESTORE_LEADERLESS:
        if (starts_alone(step))
            return;
        if (!restore_is_patient(step))
            restore_say(step, SAYS_LEADERLESS);
        restore_pause(step, delay_ms < RESTORE_RETRY_MS ? RESTORE_RETRY_MS : delay_ms);
        return;
    }
}

/* ---- its workers ---- */

static void take_named(const struct restore_stepping *step, const struct restore_event *event)
{
    struct restore_owning *owner = &step->restore->owner;

    CHECK(owner->name[0] != '\0');
    owner->named = event->end == RESTORE_WELL;
    if (owner->named) {
        owner->uid = event->uid;
    } else if (event->end != RESTORE_MISSING) {
        restore_say(step, SAYS_OWNER_UNKNOWN);
        owner->name[0] = '\0'; /* it is asked again */
        restore_pause(step, RESTORE_RETRY_MS);
        return;
    }
    restore_pause(step, 0);
}

/* A folder of a stranger, a link, a mode: no waiting changes that. A destination that is away,
 * hangs or is full keeps nobody from starting. */
static void take_prepared(const struct restore_stepping *step, const struct restore_event *event)
{
    CHECK(step->restore->state == RESTORE_PREPARING);
    if (event->end == RESTORE_REFUSED) {
        restore_over(step, OVER_UNWRITABLE);
        return;
    }
    CHECK(event->end == RESTORE_WELL || event->why.reason != CKPT__V1__REASON__REASON_NONE);
    if (event->end != RESTORE_WELL)
        step->restore->unwritten = event->why;
    restore_pause(step, 0);
}

static void take_unstarted(const struct restore_stepping *step, const struct restore_event *event)
{
    struct restore *restore = step->restore;

    CHECK(restore_state_works(restore->state));
    if (restore->state == RESTORE_PREPARING) {
        restore->unwritten = event->why;
        restore_move_to(step, RESTORE_ASKING); /* with the answer that it has */
        restore_begin(step);
        return;
    }
    if (restore->state == RESTORE_NAMING) {
        restore->owner.name[0] = '\0';
        restore->owner.named = false;
        restore_say(step, SAYS_OWNER_UNKNOWN);
    }
    restore_pause(step, RESTORE_STORAGE_RETRY_MS);
}

/* ---- while one reads ---- */

/* A checkpoint that the state has given up for all parts is not waited for: its worker may hang. */
static bool is_superseded(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;
    const Ckpt__V1__OrderSet *orders = step->facts->orders;
    const Ckpt__V1__AllocationPart *part =
        orders == NULL ? NULL : reconcile_part(orders, restore->asked.allocation_id);

    CHECK(restore->brought.checkpoint_id != 0);
    return part != NULL && part->run == restore->run &&
           part->restart_checkpoint_id != restore->brought.checkpoint_id;
}

static void take_wake(const struct restore_stepping *step)
{
    CHECK(step->restore->state < RESTORE_STATE_COUNT);
    if (step->restore->state == RESTORE_HELD) {
        restore_pause(step, 0);
    } else if (step->restore->state == RESTORE_READING && is_superseded(step)) {
        restore_move_to(step, RESTORE_DROPPING);
        restore_add(step, RESTORE_DO_DROP);
    }
}

/* Other changes are taken when the worker has ended; orders end one that reads in vain. */
static void take_look(const struct restore_stepping *step, const Ckpt__V1__RestartPoint *look)
{
    struct restore *restore = step->restore;

    CHECK(restore->brought.checkpoint_id != 0);
    if (look != NULL && look->checkpoint_id == restore->brought.checkpoint_id)
        restore_take_outage(restore, look);
    restore_say(step, SAYS_READING);
    restore_add(step, RESTORE_DO_LOOK_LATER);
}

static void take_swept(const struct restore_stepping *step)
{
    CHECK(step->restore->state == RESTORE_SWEEPING);
    step->restore->brought.folder[0] = '\0';
    restore_pause(step, 0);
}

static void take_event(const struct restore_stepping *step, const struct restore_event *event)
{
    CHECK(restore_event_allowed(step->restore->state, event->kind));
    switch (event->kind) {
    case RESTORE_TIMER:
        ask_leader(step);
        return;
    case RESTORE_WAKE:
        take_wake(step);
        return;
    case RESTORE_POINT:
        restore_take_point(step);
        return;
    case RESTORE_UNANSWERED:
        take_unanswered(step, event);
        return;
    case RESTORE_STARTED:
        restore_take_started(step);
        return;
    case RESTORE_UNSTARTED:
        take_unstarted(step, event);
        return;
    case RESTORE_NAMED:
        take_named(step, event);
        return;
    case RESTORE_PREPARED:
        take_prepared(step, event);
        return;
    case RESTORE_READ:
        restore_take_read(step, event);
        return;
    case RESTORE_LOOK:
        restore_add(step, RESTORE_DO_LOOK);
        return;
    case RESTORE_LOOKED:
        take_look(step, event->look);
        return;
    case RESTORE_SWEPT:
        take_swept(step);
        return;
    case RESTORE_EVENT_COUNT:
        return;
    }
}

void restore_step(struct restore *restore, const struct restore_event *event,
                  const struct restore_facts *facts, struct restore_effects *ret_effects)
{
    const struct restore_stepping step = {restore, facts, ret_effects};

    CHECK(event->kind < RESTORE_EVENT_COUNT);
    CHECK(facts->now_us >= restore->began_us);
    ret_effects->count = 0;
    take_event(&step, event);
    restore_check(restore);
}
