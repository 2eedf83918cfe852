/* I43 in time: a job whose application runs on all of its nodes is not STARTING for ever, whatever
 * reports were lost. */
#include <stdio.h>

#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

static bool runs_everywhere(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            unsigned job)
{
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot));

        if (agent < 0 || (!world_model_lives((unsigned)agent, job, UINT64_MAX) &&
                          !world_shipping_lives((unsigned)agent, allocation->id, UINT64_MAX)))
            return false;
    }
    return true;
}

const char *starts_unsettled(struct world *world)
{
    static char text[96];
    const struct world_member *leader = members_leader(world);

    for (unsigned i = 0; leader != NULL && i < world->job_count; i++) {
        const struct fsm *fsm = member_fsm(leader);
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, world->jobs[i].id);

        if (allocation == NULL ||
            allocation->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
            !runs_everywhere(fsm, allocation, i))
            continue;
        snprintf(text, sizeof(text), "%s runs on all of its nodes and is STARTING", allocation->id);
        return text;
    }
    return "";
}
