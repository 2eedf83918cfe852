/* The moves of a restore, each with the effects that belong to it. See restore_step.h. */
#include "src/agent/job/restore_point_step.h"
#include "src/base/check.h"

enum {
    HELD_AGAIN_MS = 5000, /* when no order set tells of a change */
    PATIENCE_US = 1000000,
    REFUSALS_MAX = 10 /* a job may be started a moment before it is registered or restarted */
};

void restore_move_to(const struct restore_stepping *step, enum restore_state to)
{
    CHECK(restore_move_allowed(step->restore->state, to));
    step->restore->state = to;
}

struct restore_effect *restore_add(const struct restore_stepping *step,
                                   enum restore_effect_kind kind)
{
    struct restore_effects *effects = step->effects;

    CHECK(effects->count < RESTORE_EFFECTS_MAX);
    CHECK(effects->count == 0 || effects->effects[effects->count - 1].kind != RESTORE_DO_OVER);
    effects->effects[effects->count] = (struct restore_effect){.kind = kind};
    return &effects->effects[effects->count++];
}

void restore_say(const struct restore_stepping *step, enum restore_saying says)
{
    CHECK(says <= SAYS_READING);
    restore_add(step, RESTORE_DO_SAY)->says = says;
}

void restore_pause(const struct restore_stepping *step, uint64_t delay_ms)
{
    restore_move_to(step, RESTORE_PAUSED);
    CHECK(step->restore->state == RESTORE_PAUSED);
    restore_add(step, RESTORE_DO_WAIT)->delay_ms = delay_ms;
}

void restore_hold(const struct restore_stepping *step)
{
    restore_move_to(step, RESTORE_HELD);
    CHECK(step->restore->state == RESTORE_HELD);
    restore_add(step, RESTORE_DO_WAIT)->delay_ms = HELD_AGAIN_MS;
}

void restore_over(const struct restore_stepping *step, enum restore_over over)
{
    CHECK(over <= OVER_TOO_MANY);
    restore_move_to(step, RESTORE_OVER);
    restore_add(step, RESTORE_DO_OVER)->over = over;
}

bool restore_is_patient(const struct restore_stepping *step)
{
    CHECK(step->facts->now_us >= step->restore->began_us);
    return step->facts->now_us - step->restore->began_us < PATIENCE_US;
}

bool restore_ends_unregistered(const struct restore *restore)
{
    CHECK(restore->refusals < REFUSALS_MAX);
    return restore->asked.what == RESTORE_OWNER || restore->refusals + 1 == REFUSALS_MAX;
}

bool restore_count_refusal(struct restore *restore)
{
    CHECK(restore->refusals < REFUSALS_MAX);
    return ++restore->refusals == REFUSALS_MAX;
}
