/* Where the next checkpoint of a job goes: S2-022, S2-023, S2-027.
 *
 * Flow     asked each time one is made, and by whoever weighs a checkpoint that might be made. The
 *          record of a checkpoint keeps what was chosen; a job keeps what it was registered with.
 * Shapes   a domain is a text that a node's agent and an operator's target have in common. Several
 *          nodes have one together when each of them has the same; else they choose nothing.
 */
#include "fsm/core/registry.h"

/* Nothing is asked of the nodes where no target has a domain, which is the usual case. */
static bool domains_used(const struct fsm *fsm)
{
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL && !target->removed && target->view.domain[0] != '\0')
            return true;
    }
    return false;
}

const char *fsm_nodes_domain(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const char *domain = NULL;

    CHECK(allocation->node_count > 0);
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        const char *other = node_at(fsm, allocation->nodes[i].node_slot)->view.domain;

        if (domain != NULL && strcmp(domain, other) != 0)
            return "";
        domain = other;
    }
    return domain;
}

/* Of several targets of one domain: the job's own, then the default one, then the oldest slot. */
static const struct target *domain_target(const struct fsm *fsm, const char *domain,
                                          const struct target *own)
{
    const struct target *chosen = NULL;

    CHECK(own->view.id != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end && domain[0] != '\0'; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target == NULL || target->removed || strcmp(target->view.domain, domain) != 0)
            continue;
        if (target == own)
            return own;
        if (chosen == NULL || target->view.is_default)
            chosen = target;
    }
    return chosen;
}

const struct fsm_target *fsm_destination(const struct fsm *fsm,
                                         const struct fsm_allocation *allocation)
{
    const struct target *own = target_at(fsm, allocation->target_slot);
    const struct target *nearest = NULL;

    CHECK(allocation->id != NULL);
    if (allocation->active_checkpoint_id != 0)
        return &target_at(fsm,
                          checkpoint_at(fsm, allocation->active_checkpoint_id)->view.target_slot)
                    ->view;
    if (fsm->policy.node_chooses_target != 0 && domains_used(fsm))
        nearest = domain_target(fsm, fsm_nodes_domain(fsm, allocation), own);
    if (nearest != NULL)
        return &nearest->view;
    return own->removed ? NULL : &own->view;
}

bool fsm_destination_available(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const struct fsm_target *target = fsm_destination(fsm, allocation);

    CHECK(allocation->id != NULL);
    return target != NULL && target->available;
}

void fsm_destinations_changed(struct fsm *fsm)
{
    CHECK(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++)
        fsm_bitmap_set(&fsm->changed_allocations, slot);
}
