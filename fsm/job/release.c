/* A victim's last checkpoint is read by another node before its nodes are given away: what cannot
 * be read again is found while the application is still there, and can save its work once more.
 *
 * Flow     hold() when the checkpoint is complete: a node that did not write the part reads it
 *          (verify_nodes.c), and the job keeps its nodes. passed() with the last part, or when
 *          nobody can read or the time is over: the job is ended as ever. damaged(): another
 *          checkpoint is asked for, as long as its stop has time; else it goes on, or is ended
 *          without where that is forced.
 * Shapes   at most the policy's release_check in all, and no longer than the stop has, so that no
 *          preemption waits for ever. Of 16 parts at most a sample is read, of a target whose
 *          read_back is always all of it; one that reads nothing back before a checkpoint counts is
 *          sampled here all the same. A job whose end is ordered for another reason holds nothing
 *          any more. One that shrinks goes on meanwhile, and writes no other checkpoint before
 *          that.
 */
#include <stdio.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define REASON(name) CKPT__V1__REASON__REASON_##name
#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum { RELEASE_PARTS_SAMPLED = 16 };

/* What a job that stopped with a complete checkpoint becomes: nothing of it is lost. */
static struct fsm_plan release_plan(const struct checkpoint *checkpoint)
{
    bool preempted = checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT;
    struct fsm_plan stop = {REASON(PREEMPTED), ENDS(SUSPENDED),
                            preempted ? REASON(PREEMPTED) : REASON(NONE)};
    struct fsm_plan end = {REASON(ENDED_BY_SCHEDULER), ENDS(COMPLETED), REASON(NONE)};
    struct fsm_plan migrate = {REASON(MIGRATED), ENDS(REQUEUED), REASON(MIGRATED)};

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->view.after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_KILL)
        return end;
    if (checkpoint->view.after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE)
        return migrate;
    return stop;
}

/* Nobody waits for the nodes of other stops, or their jobs end with them; nor for those that a
 * scheduler takes out of its own job. */
static bool release_wanted(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);
    bool stops = checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT &&
                 checkpoint->view.after == CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_STOP;

    CHECK(checkpoint->view.id != 0);
    return (stops || (fsm_allocation_shrinks(job) && job->view.preemption_id != 0)) &&
           fsm->policy.release_check_ms != 0;
}

/* The operator hears of each victim that is ended although nobody else has read what it saved. */
static void release_unread(struct fsm *fsm, const struct checkpoint *checkpoint, const char *why)
{
    char text[FSM_DETAIL_BYTES];
    const struct fsm_event event = {
        .kind = CKPT__V1__EVENT_KIND__EVENT_KIND_VERIFIED,
        .allocation_id = allocation_at(fsm, checkpoint->view.allocation_slot)->view.id,
        .checkpoint_id = checkpoint->view.id,
        .new_state = CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_UNREADABLE,
        .subject = text,
        .number = checkpoint->view.size_bytes};

    CHECK(why != NULL);
    snprintf(text, sizeof(text), "its nodes are released all the same; %.150s", why);
    fsm->released_unverified_total++;
    fsm_event_emit(fsm, &event);
}

/* Whoever waits for the nodes was promised them by the stop's deadline (L4). */
static uint64_t release_until_ms(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    uint64_t until_ms = fsm_add(fsm->now_ms, fsm->policy.release_check_ms);

    CHECK(checkpoint->view.id != 0);
    return checkpoint->stop_deadline_ms == 0 ? until_ms
                                             : fsm_min(until_ms, checkpoint->stop_deadline_ms);
}

/* Its nodes go: all of them, or those that it is to give up. */
static void release_go(struct fsm *fsm, struct allocation *allocation,
                       const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->verification == NULL);
    if (fsm_allocation_shrinks(allocation))
        fsm_scale_done(fsm, allocation, REASON(NONE));
    else
        fsm_terminate_begin(fsm, allocation, release_plan(checkpoint));
}

void fsm_release_begin(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    uint64_t until_ms = release_until_ms(fsm, checkpoint);

    CHECK(checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    if (release_wanted(fsm, checkpoint)) {
        if (fsm_verify_hold(fsm, checkpoint, 0, 0, until_ms)) {
            fsm_allocation_changed(fsm, allocation);
            return;
        }
        release_unread(fsm, checkpoint,
                       until_ms <= fsm->now_ms ? "the time of its stop is over"
                                               : "no other node is there to read it");
    }
    release_go(fsm, allocation, checkpoint);
}

Ckpt__V1__ReadBack fsm_release_read_back(const struct fsm_target *target)
{
    CHECK(target->id != NULL);
    return target->read_back == CKPT__V1__READ_BACK__READ_BACK_NEVER
               ? CKPT__V1__READ_BACK__READ_BACK_SAMPLED
               : target->read_back;
}

uint32_t fsm_release_step(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct target *target = target_at(fsm, checkpoint->view.target_slot);
    uint32_t count = checkpoint->view.shard_count;

    CHECK(count > 0);
    if (fsm_release_read_back(&target->view) == CKPT__V1__READ_BACK__READ_BACK_ALWAYS)
        return 1;
    return (count + RELEASE_PARTS_SAMPLED - 1) / RELEASE_PARTS_SAMPLED;
}

void fsm_release_passed(struct fsm *fsm, struct checkpoint *checkpoint, const char *unread)
{
    CHECK(checkpoint->verification == NULL);
    if (unread == NULL)
        fsm->released_verified_total++;
    else
        release_unread(fsm, checkpoint, unread);
    release_go(fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)),
               checkpoint);
}

/* The new one has no longer than the stop that it is of (L4). */
static bool release_ask_again(struct fsm *fsm, struct allocation *allocation,
                              const struct checkpoint *old)
{
    bool shrinks = fsm_allocation_shrinks(allocation);
    const struct checkpoint_ask ask = {.purpose = shrinks ? CKPT__V1__PURPOSE__PURPOSE_SCALE_DOWN
                                                          : old->view.purpose,
                                       .after = old->view.after};
    uint64_t stop_deadline_ms = old->stop_deadline_ms, stop_limit_ms = old->stop_limit_ms;
    struct fsm_outcome ignored = {.status = FSM_OK};
    struct checkpoint *next;

    CHECK(old->view.damaged);
    if (stop_deadline_ms == 0 || fsm->now_ms + fsm->policy.retry_backoff_ms >= stop_deadline_ms)
        return false;
    if (!shrinks)
        fsm_allocation_go_on(fsm, allocation, REASON(VERIFY_FAILED));
    if (fsm_checkpoint_ask(fsm, allocation, &ask, &ignored) != FSM_OK)
        return false;
    next = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    next->stop_deadline_ms = stop_deadline_ms;
    next->stop_limit_ms = stop_limit_ms;
    fsm_preemption_renewed(fsm, allocation);
    return true;
}

/* It is marked by now. What it was before is what the job has, if anything. */
void fsm_release_damaged(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));

    CHECK(checkpoint->view.damaged);
    if (release_ask_again(fsm, allocation, checkpoint))
        fsm_allocation_changed(fsm, allocation);
    else if (fsm_allocation_shrinks(allocation))
        fsm_scale_done(fsm, allocation, REASON(SCALED_WITHOUT_CHECKPOINT));
    else if (fsm_level(fsm) >= 2 && !fsm_preemption_forced(fsm, allocation))
        fsm_checkpoint_spare(fsm, allocation, REASON(VERIFY_FAILED));
    else
        fsm_checkpoint_stop_without(fsm, allocation, REASON(PREEMPTED_WITHOUT_CHECKPOINT));
}
