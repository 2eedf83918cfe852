/* The barrier of an attempt: how all ranks of all parts come to one step, without a collective of
 * the application.
 *
 * Flow     STARTED says whether a node's ranks take part; then BARRIER without a step, when all of
 *          them know that they are asked; then BARRIER with the first step that all of them can
 *          meet.
 * Shapes   what was said is of the attempt, in its shards: a retry clears it
 *          (fsm_checkpoint_clear_shards). A word said twice changes nothing.
 */
#include "fsm/job/job.h"

void fsm_barrier_started(struct fsm *fsm, const struct checkpoint *checkpoint,
                         struct fsm_shard *shard, bool barrier)
{
    CHECK(fsm != NULL);
    CHECK(fsm_checkpoint_writes(checkpoint));
    shard->barrier = barrier;
}

void fsm_barrier_reported(struct fsm *fsm, const struct checkpoint *checkpoint,
                          struct fsm_shard *shard, uint64_t step)
{
    CHECK(fsm != NULL);
    CHECK(fsm_checkpoint_writes(checkpoint));
    if (!shard->barrier)
        return;
    shard->aware = true;
    if (shard->step == 0)
        shard->step = step;
}
