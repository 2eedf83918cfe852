/* The barrier of an attempt: how all ranks of all parts come to one step, without a collective of
 * the application.
 *
 * Flow     NONE ──a part starts whose ranks take part──► GATHERING ──every part has started, and
 *          all ranks that take part know that they are asked──► STEPPING ──every such part has said
 *          the first step that all of its ranks can meet──► AGREED: the latest of these is the step
 *          of all. There are two rounds because a step that is said while a slow rank is awaited is
 *          old when that has come; those of the second round are all of one moment.
 * Shapes   what was said is of the attempt, in its shards: a retry clears it
 *          (fsm_checkpoint_clear_shards). A word of a phase that is over, or that is said twice,
 *          changes nothing. Parts without a barrier are not waited for once they have started, nor
 *          are shards that are verified: their labels judge them. No phase has a timer: the
 *          attempt's deadline ends it. A part that is put off has left the step that it said, or
 *          that was agreed, behind when it is asked again: all parts begin again with GATHERING,
 *          where those that still save need not say anew that they know.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define PHASE(name) CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_##name

static bool barrier_gathered(const struct fsm_shard *shard)
{
    return shard->started && (!shard->barrier || shard->aware || shard->verified);
}

static bool barrier_stepped(const struct fsm_shard *shard)
{
    return !shard->barrier || shard->step != 0 || shard->verified;
}

static bool barrier_of_all(const struct checkpoint *checkpoint,
                           bool (*met)(const struct fsm_shard *shard))
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (!met(&checkpoint->shards[i]))
            return false;
    return true;
}

/* 0: no part has said one. */
static uint64_t barrier_latest_step(const struct checkpoint *checkpoint)
{
    uint64_t step = 0;

    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (checkpoint->shards[i].barrier)
            step = fsm_max(step, checkpoint->shards[i].step);
    return step;
}

/* The orders of all parts change with a phase, and only then: with each report they would be sent
 * as often as the square of their number. */
static void barrier_move(struct fsm *fsm, struct checkpoint *checkpoint, Ckpt__V1__BarrierPhase to)
{
    CHECK(fsm_checkpoint_writes(checkpoint));
    CHECK(to > checkpoint->view.barrier);
    checkpoint->view.barrier = to;
    fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

void fsm_barrier_review(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (checkpoint->view.barrier == PHASE(GATHERING) &&
        barrier_of_all(checkpoint, barrier_gathered))
        barrier_move(fsm, checkpoint, PHASE(STEPPING));
    if (checkpoint->view.barrier != PHASE(STEPPING) || !barrier_of_all(checkpoint, barrier_stepped))
        return;
    checkpoint->view.agreed_step = barrier_latest_step(checkpoint);
    if (checkpoint->view.agreed_step != 0)
        barrier_move(fsm, checkpoint, PHASE(AGREED));
}

void fsm_barrier_started(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                         bool barrier)
{
    CHECK(fsm_checkpoint_writes(checkpoint));
    CHECK(shard->started);
    shard->barrier = barrier;
    if (barrier && checkpoint->view.barrier == PHASE(NONE))
        barrier_move(fsm, checkpoint, PHASE(GATHERING));
    fsm_barrier_review(fsm, checkpoint);
}

void fsm_barrier_deferred(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard)
{
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (!shard->barrier || shard->verified)
        return;
    shard->aware = false;
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        checkpoint->shards[i].step = 0;
    checkpoint->view.agreed_step = 0;
    if (checkpoint->view.barrier == PHASE(GATHERING))
        return;
    checkpoint->view.barrier = PHASE(GATHERING);
    fsm_allocation_changed(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
}

void fsm_barrier_reported(struct fsm *fsm, struct checkpoint *checkpoint, struct fsm_shard *shard,
                          uint64_t step)
{
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (!shard->barrier)
        return;
    shard->aware = true;
    if (checkpoint->view.barrier == PHASE(STEPPING) && shard->step == 0)
        shard->step = step;
    fsm_barrier_review(fsm, checkpoint);
}
