/* See weight.h. */
#include "fsm/weight.h"

#include "fsm/core/state.h"

struct fsm_weight fsm_weight_of(uint32_t gpus, uint32_t nodes, uint32_t node_gpus)
{
    uint32_t of_nodes = nodes * node_gpus;

    CHECK(nodes <= FSM_NODES_PER_ALLOCATION_MAX);
    CHECK(node_gpus <= FSM_GPUS_PER_NODE_MAX);
    return of_nodes > gpus ? (struct fsm_weight){of_nodes, nodes} : (struct fsm_weight){gpus, 0};
}

uint32_t fsm_node_gpus(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm_level(fsm) >= 2 ? fsm->policy.node_gpus : 0;
}

struct fsm_weight fsm_allocation_weight(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return fsm_weight_of(view->gpu_count, view->node_count, fsm_node_gpus(fsm));
}

uint32_t fsm_account_gpus(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return fsm_weight_of(view->gpu_count, view->node_count, view->node_gpus).gpus;
}
