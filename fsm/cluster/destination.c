/* Where the next checkpoint of a job goes, and which nodes are near its last one: S2-022, S2-023,
 * S2-026 to S2-030.
 *
 * Flow     asked each time one is made, and by whoever weighs a checkpoint that might be made. The
 *          record of a checkpoint keeps what was chosen; a job keeps what it was registered with.
 * Shapes   a domain is a text that a node's agent and an operator's target have in common. Several
 *          nodes have one together when each of them has the same; else they choose nothing.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

bool fsm_pool_assured(Ckpt__V1__Assured encrypted, Ckpt__V1__Assured hot_only)
{
    CHECK((unsigned)encrypted <= CKPT__V1__ASSURED__ASSURED_YES);
    CHECK((unsigned)hot_only <= CKPT__V1__ASSURED__ASSURED_YES);
    return encrypted == CKPT__V1__ASSURED__ASSURED_YES &&
           hot_only == CKPT__V1__ASSURED__ASSURED_YES;
}

/* N-003: what a sensitive job writes lies in its pool and its jurisdiction, and follows no node, no
 * operator and no outage out of them. */
bool fsm_pool_takes(const struct target *target, const char *jurisdiction)
{
    CHECK(target->view.id != NULL);
    return target->view.pool == CKPT__V1__POOL__POOL_SENSITIVE &&
           (jurisdiction[0] == '\0' || strcmp(target->view.jurisdiction, jurisdiction) == 0);
}

static bool pool_takes(const struct target *target, const struct fsm_allocation *allocation)
{
    return !allocation->sensitive || fsm_pool_takes(target, allocation->jurisdiction);
}

/* The oldest of the pool that is in use, beside that one; an assured one goes before, and none is
 * assured below level 2. By slot, so that all members choose the same one. */
const struct target *fsm_target_sensitive(const struct fsm *fsm, const struct target *beside,
                                          const char *jurisdiction)
{
    const struct target *oldest = NULL;

    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target == NULL || target == beside || target->removed || target->view.draining ||
            !fsm_pool_takes(target, jurisdiction))
            continue;
        if (fsm_pool_assured(target->view.encrypted, target->view.hot_only))
            return target;
        if (oldest == NULL)
            oldest = target;
    }
    return oldest;
}

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

/* Texts are compared, not pointers: those of nodes and of targets are held apart. */
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
                                          const struct target *own,
                                          const struct fsm_allocation *allocation)
{
    const struct target *chosen = NULL;

    CHECK(own->view.id != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end && domain[0] != '\0'; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target == NULL || target->removed || target->view.draining ||
            strcmp(target->view.domain, domain) != 0 || !pool_takes(target, allocation))
            continue;
        if (target == own)
            return own;
        if (chosen == NULL || target->view.is_default)
            chosen = target;
    }
    return chosen;
}

/* There is one from the first put with `default` on: it is neither drained nor removed. */
const struct target *fsm_target_default(const struct fsm *fsm)
{
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL && target->view.is_default)
            return target;
    }
    return NULL;
}

/* One step: the fail-over target has no fail-over target of its own here. */
static const struct target *destination_now(const struct fsm *fsm, const struct target *target,
                                            const struct fsm_allocation *allocation)
{
    const struct target *other =
        target->view.failed_over ? target_find(fsm, target->view.failover_target_id) : NULL;

    CHECK(target->view.id != NULL);
    return other == NULL || !pool_takes(other, allocation) ? target : other;
}

/* Where no node chooses. */
static const struct target *destination_usual(const struct fsm *fsm, const struct target *own,
                                              const struct fsm_allocation *allocation)
{
    const struct target *usual = own->view.draining ? fsm_target_default(fsm)
                                 : own->removed     ? NULL
                                                    : own;

    CHECK(own->view.id != NULL);
    if (usual != NULL && pool_takes(usual, allocation))
        return usual;
    return allocation->sensitive ? fsm_target_sensitive(fsm, NULL, allocation->jurisdiction)
                                 : usual;
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
        nearest = domain_target(fsm, fsm_nodes_domain(fsm, allocation), own, allocation);
    if (nearest == NULL)
        nearest = destination_usual(fsm, own, allocation);
    return nearest == NULL ? NULL : &destination_now(fsm, nearest, allocation)->view;
}

/* False also where there is none: of a job that has ended, whose target was removed. */
bool fsm_destination_available(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const struct fsm_target *target = fsm_destination(fsm, allocation);

    CHECK(allocation->id != NULL);
    return target != NULL && target->available;
}

/* Called for what an operator does, which is rare: a bit for each job is little beside looking at
 * the jobs, which the evaluator does in its own time. */
void fsm_destinations_changed(struct fsm *fsm)
{
    CHECK(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++)
        fsm_bitmap_set(&fsm->changed_allocations, slot);
}

/* The domain is the target's of today, not that of the day of the checkpoint: an operator who moves
 * a target to another domain moves what is bound to it. */
const char *fsm_bound_domain(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const struct checkpoint *last = checkpoint_find(fsm, allocation->last_complete_id);

    CHECK(allocation->id != NULL);
    return last == NULL ? "" : target_at(fsm, last->view.target_slot)->view.domain;
}

bool fsm_domain_fits(const struct fsm *fsm, const struct fsm_allocation *allocation,
                     const struct fsm_node *node)
{
    const char *domain = fsm_bound_domain(fsm, allocation);

    CHECK(node->id != NULL);
    return domain[0] == '\0' || strcmp(domain, node->domain) == 0;
}

/* A preference never forbids: whoever looks for nodes asks fsm_domain_fits() first. */
bool fsm_domain_allows(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_node *node)
{
    return allocation->domain_rule != CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED ||
           fsm_domain_fits(fsm, allocation, node);
}

void fsm_destination_discarded(struct fsm *fsm, const struct allocation *allocation,
                               uint64_t discarded_ms)
{
    const struct fsm_checkpoint *newest = fsm_restart_point(fsm, allocation->view.id, 0);
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED,
                              .allocation_id = allocation->view.id,
                              .checkpoint_id = allocation->view.restart_id,
                              .number = discarded_ms};

    if (discarded_ms == 0)
        return;
    CHECK(newest != NULL);
    event.subject = target_at(fsm, newest->target_slot)->view.id;
    fsm_event_emit(fsm, &event);
}
