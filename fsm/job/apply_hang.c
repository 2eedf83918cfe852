/* The leader's word that a job hangs, or steps again. See fsm/hang.h.
 *
 * Flow     the word is checked against all that may have changed since the leader looked. It marks
 *          the job, or takes the mark off; on_hang says what else follows.
 */
#include "fsm/core/registry.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"

static void hang_note(struct fsm *fsm, const struct fsm_allocation *view, Ckpt__V1__EventKind kind,
                      const char *evidence, uint64_t number)
{
    const struct fsm_event event = {
        .kind = kind, .allocation_id = view->id, .subject = evidence, .number = number};

    CHECK(view->id != NULL);
    fsm_event_emit(fsm, &event);
}

/* on_hang RESTART ends the run where the job would be queued again after a node's failure, whoever
 * restarts it then. It counts as one without progress. Any other job would be lost, and is only
 * told. */
static void hang_begin(struct fsm *fsm, struct allocation *allocation,
                       const Ckpt__Log__V1__Hang *hang)
{
    struct fsm_allocation *view = &allocation->view;

    CHECK(!fsm_hung(view));
    CHECK(fsm->now_ms > 0);
    fsm_intern_set(fsm, &view->hang_text, hang->evidence);
    view->hung_since_ms = fsm->now_ms;
    view->last_step_at_ms = fsm_since(fsm, hang->quiet_ms);
    fsm->hung_count++;
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, view->slot);
    hang_note(fsm, view, CKPT__V1__EVENT_KIND__EVENT_KIND_HUNG, view->hang_text, hang->quiet_ms);
    if (view->on_hang == CKPT__V1__ON_HANG__ON_HANG_RESTART && fsm_requeue_wanted(allocation, true))
        fsm_terminate_begin(fsm, allocation,
                            fsm_plan_failure(fsm, allocation, CKPT__V1__REASON__REASON_HUNG, true));
}

static void hang_end(struct fsm *fsm, struct allocation *allocation)
{
    struct fsm_allocation *view = &allocation->view;
    uint64_t since_ms = view->hung_since_ms;

    CHECK(fsm_hung(view));
    CHECK(fsm->hung_count > 0);
    view->hung_since_ms = 0;
    fsm->hung_count--;
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, view->slot);
    hang_note(fsm, view, CKPT__V1__EVENT_KIND__EVENT_KIND_HANG_OVER, NULL,
              fsm_since(fsm, since_ms));
}

/* The state may have changed since the leader looked. */
enum fsm_status fsm_apply_hang(struct fsm *fsm, const fsm_command *command,
                               struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__Hang *hang = command->hang;
    struct allocation *allocation = allocation_edit(fsm, allocation_find(fsm, hang->allocation_id));

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_HANG);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    outcome->current = hang->quiet_ms;
    outcome->limit = fsm_hang_limit_ms(&fsm->policy, hang->gap_p99_ms);
    if (hang->state_since_ms != allocation->view.state_since_ms ||
        fsm_hung(&allocation->view) != (hang->quiet_ms == 0))
        return FSM_NOT_HUNG;
    if (hang->quiet_ms == 0) {
        hang_end(fsm, allocation);
        return FSM_OK;
    }
    if (hang->quiet_ms < outcome->limit || fsm_hang_possible(fsm, &allocation->view) != FSM_OK)
        return FSM_NOT_HUNG;
    /* the leader looks again when the pause is over, and the job is told and restarted then */
    if (allocation->view.on_hang == CKPT__V1__ON_HANG__ON_HANG_RESTART && fsm_pause(fsm) != NULL)
        return fsm_pause_refusal(fsm, outcome);
    hang_begin(fsm, allocation, hang);
    return FSM_OK;
}
