/* When time alone does something to a job. Who changes what that follows from arms its timer anew;
 * what is done then is terminate.c's to say. */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

enum { WALLTIME_LAST_PART = 10 };

/* Of the last tenth of the walltime, in which who waits for the job can still save what it has. */
static uint64_t walltime_warning_ms(const struct fsm_allocation *view)
{
    return view->started_at_ms + (view->walltime_ms - view->walltime_ms / WALLTIME_LAST_PART);
}

uint64_t fsm_walltime_due_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->walltime_ms != 0);
    return fsm_level(fsm) < 2 || view->walltime_warned ? view->started_at_ms + view->walltime_ms
                                                       : walltime_warning_ms(view);
}

bool fsm_walltime_warns(struct fsm *fsm, struct allocation *allocation)
{
    struct fsm_allocation *view = &allocation->view;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_WALLTIME_WARNING,
                              .allocation_id = view->id};

    CHECK(view->id != NULL);
    if (fsm_level(fsm) < 2 || view->walltime_ms == 0 || view->walltime_warned ||
        fsm->now_ms < walltime_warning_ms(view))
        return false;
    CHECK(fsm->now_ms < view->started_at_ms + view->walltime_ms); /* else it is ended */
    view->walltime_warned = true;
    event.number = view->started_at_ms + view->walltime_ms - fsm->now_ms;
    fsm_event_emit(fsm, &event);
    return true;
}

/* The next instant at which time alone does something to the job; 0: none. SUSPENDED and REQUEUED
 * ones wait for ever: somebody will want their checkpoints. */
static uint64_t allocation_due_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t end_ms = UINT64_MAX;

    CHECK(allocation->view.id != NULL);
    if (!allocation->assigned) { /* it does not run */
        if (view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED &&
            view->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED)
            return 0;
        return allocation->expired ? 0 : fsm_kept_until_ms(fsm, allocation, view->state_since_ms);
    }
    if (view->terminating)
        return view->active_checkpoint_id != 0 ? allocation->grace_end_ms
                                               : allocation->terminate_deadline_ms;
    if (view->walltime_ms != 0)
        end_ms = fsm_walltime_due_ms(fsm, view);
    if (view->leaving)
        end_ms = fsm_min(end_ms, allocation->terminate_deadline_ms);
    end_ms = fsm_min(end_ms, fsm_read_due_ms(fsm, allocation));
    return end_ms == UINT64_MAX ? 0 : end_ms;
}

/* Called by whoever changes what the instant follows from; arming it again costs little. */
void fsm_allocation_arm(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    fsm_timer_set(&fsm->timers, &allocation->timer, allocation_due_ms(fsm, allocation));
}
