/* See state_flip.h. Apart from world_flips.c: fsm/core/state.h and what a broker includes do not go
 * together. */
#include "tests/sim/state_flip.h"

#include "fsm/core/state.h"

void state_flip_hash(const struct fsm *fsm, unsigned bit)
{
    ((struct fsm *)(uintptr_t)fsm)->state_hash ^= UINT64_C(1) << bit;
}

void state_flip_ids(const struct fsm *fsm, uint64_t skipped)
{
    ((struct fsm *)(uintptr_t)fsm)->checkpoint_sequence += skipped;
}

bool state_is_written(const struct fsm *fsm)
{
    return !list_empty(fsm->snapshots);
}
