/* Who else looks at an entry when the first member applies it, beside world_state.c: each event of
 * it, before that notes it; then the state that it made. The order is that in which they ask each
 * other. */
#include "tests/sim/world_internal.h"

void entries_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                   uint64_t index)
{
    cluster_pauses_event(world, fsm, event);
    drills_event(world, fsm, event);
    victims_event(world, fsm, event);
    comebacks_event(world, fsm, event);
    hangs_event(world, fsm, event);
    grants_event(world, fsm, event);
    ends_event(world, event, index);
    preemptions_event(world, event);
    done_event(world, event, index);
    destinations_event(world, fsm, event);
    retention_event(world, event);
    continues_event(world, event);
    shards_event(world, fsm, event);
    rank_checks_event(world, fsm, event);
    parts_event(world, fsm, event);
}

void entries_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    releases_applied(world, fsm, index);
    ends_applied(world, fsm, index);
    grants_applied(world, fsm);
    victims_applied(world, fsm, index);
    preemptions_applied(world, fsm);
    done_applied(world, fsm, index);
    destinations_applied(world, fsm);
    retention_applied(world, fsm);
    comebacks_applied(world, fsm);
}
