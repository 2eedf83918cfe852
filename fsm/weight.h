/* The weight of an allocation: its GPUs, or its nodes where they count for more.
 *
 * Flow     whatever is worth, lost or given up by holding nodes is multiplied by it. A job without
 *          GPUs keeps its nodes from others all the same, and computes there. A preemption that
 *          asks for GPUs is given real ones alone (fsm_allocation.gpu_count).
 * Units    GPUs; a node counts as Policy.node_gpus of them, which came with level 2.
 * Source   V-006; RULES.md, What a job weighs.
 */
#ifndef CKPT_FSM_WEIGHT_H
#define CKPT_FSM_WEIGHT_H

#include <stdint.h>

struct fsm;
struct fsm_allocation;

struct fsm_weight {
    uint32_t gpus;
    uint32_t nodes; /* its nodes count, so many; 0: its own GPUs do */
};
/* Of so many GPUs on so many nodes, each of which counts as node_gpus. Equal ones are told as
 * GPUs. */
struct fsm_weight fsm_weight_of(uint32_t gpus, uint32_t nodes, uint32_t node_gpus);
/* The policy's; 0 below level 2. */
uint32_t fsm_node_gpus(const struct fsm *fsm);
/* By the policy of now. */
struct fsm_weight fsm_allocation_weight(const struct fsm *fsm,
                                        const struct fsm_allocation *allocation);
/* The weight with which its account counts: by the policy that the account has taken over. */
uint32_t fsm_account_gpus(const struct fsm_allocation *allocation);

#endif
