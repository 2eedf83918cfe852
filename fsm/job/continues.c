/* A job under a new id goes on from the checkpoints of one that has stopped (S3-007, S3-008,
 * S3-049).
 *
 * Flow     check() runs before the new job is made. The old job must be of the same tenant, project
 *          and owner, must hold no nodes, and must have left a checkpoint that the new job can
 *          begin from. take() runs when the new job is made: the complete checkpoints change hands
 *          in one step, and the new job begins from one of them.
 * Shapes   no byte moves: the record of a checkpoint keeps the name of the job in whose folder the
 *          checkpoint lies (`home`). So nothing in the new job's folder is overwritten. Two folders
 *          of checkpoints never have one name, since ids are given once. Damaged, expired and
 *          failed checkpoints stay with the old job and leave by its retention.
 * Errors   the owner is compared first, so a refusal never tells how the job of somebody else
 *          stands.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* What is restored is read by the new one's owner, and is billed to its tenant. */
static bool continue_alike(const struct fsm_allocation *old, const Ckpt__V1__AllocationSpec *spec)
{
    CHECK(old->id != NULL);
    CHECK(spec->tenant != NULL);
    return strcmp(old->tenant, spec->tenant) == 0 && strcmp(old->project, spec->project) == 0 &&
           strcmp(old->owner, spec->owner) == 0 && old->sensitive == fsm_spec_sensitive(spec) &&
           (spec->jurisdiction[0] == '\0' || strcmp(old->jurisdiction, spec->jurisdiction) == 0);
}

/* S3-049: why nothing of it can be restored. */
static enum fsm_status continue_nothing(const struct allocation *old, struct fsm_outcome *outcome)
{
    CHECK(old->view.id != NULL);
    if (fsm_allocation_continued(old))
        return FSM_CONTINUED;
    outcome->current = old->view.complete_count;
    outcome->limit = fsm_damaged_count(old);
    return FSM_CONTINUES_NOTHING;
}

/* A node that no agent reported yet may be any, as at a restart. */
static enum fsm_status continue_nodes(const struct fsm *fsm, const struct fsm_checkpoint *point,
                                      const Ckpt__V1__AllocationSpec *spec,
                                      struct fsm_outcome *outcome)
{
    const char *domain = target_at(fsm, point->target_slot)->view.domain;
    Ckpt__V1__DomainRule rule = spec->domain_rule == CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_UNSPECIFIED
                                    ? fsm->policy.domain_rule
                                    : spec->domain_rule;
    bool bound = rule == CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED && domain[0] != '\0';

    CHECK(point->id != 0);
    outcome->limit = spec->n_nodes;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        const struct node *node = node_find(fsm, spec->nodes[i]->node_id);

        outcome->current = i + 1;
        if (node == NULL)
            continue;
        if (bound && strcmp(node->view.domain, domain) != 0)
            return FSM_NODE_OUTSIDE_DOMAIN;
        if (!fsm_platform_fits(point, &node->view))
            return FSM_NODE_UNLIKE;
    }
    outcome->current = 0;
    outcome->limit = 0;
    return FSM_OK;
}

/* Whether its nodes can ever begin from that. */
static enum fsm_status continue_begins(const struct fsm *fsm, const struct fsm_checkpoint *point,
                                       const Ckpt__V1__AllocationSpec *spec,
                                       struct fsm_outcome *outcome)
{
    bool own = spec->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN ||
               spec->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED;

    CHECK(point->shard_count > 0);
    if (!own || spec->n_nodes == point->shard_count)
        return continue_nodes(fsm, point, spec, outcome);
    outcome->current = spec->n_nodes;
    outcome->limit = point->shard_count;
    return FSM_PARTS_DIFFER;
}

/* As of a restart: the old job may compute on there, beside the new one. */
static uint32_t continue_unended(const struct fsm *fsm, const struct allocation *old,
                                 const Ckpt__V1__AllocationSpec *spec)
{
    uint32_t place = fsm_unended_place(fsm, old, 0);

    for (; place != UINT32_MAX; place = fsm_unended_place(fsm, old, place + 1)) {
        const char *name = fsm_unended_node(fsm, old, place)->view.id;
        size_t i = 0;

        while (i < spec->n_nodes && strcmp(spec->nodes[i]->node_id, name) != 0)
            i++;
        if (i == spec->n_nodes)
            return place;
    }
    return UINT32_MAX;
}

enum fsm_status fsm_continue_ask(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec)
{
    const struct allocation *old = allocation_find(fsm, spec->continues);

    CHECK(spec->continues != NULL);
    return fsm_level(fsm) < 2 || old == NULL || continue_alike(&old->view, spec)
               ? FSM_OK
               : FSM_CONTINUES_OTHERS;
}

enum fsm_status fsm_continue_check(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec,
                                   const struct fsm_checkpoint **ret_point,
                                   struct fsm_outcome *outcome)
{
    const struct allocation *old;
    enum fsm_status status;
    uint32_t place;

    CHECK(ret_point != NULL);
    *ret_point = NULL;
    if (spec->continues[0] == '\0')
        return FSM_OK;
    old = allocation_find(fsm, spec->continues);
    if (old == NULL)
        return FSM_CONTINUES_NOT_FOUND;
    if (!continue_alike(&old->view, spec))
        return FSM_CONTINUES_OTHERS;
    outcome->current = old->view.state;
    if (old->assigned)
        return FSM_CONTINUES_RUNS;
    outcome->current = 0;
    place = continue_unended(fsm, old, spec);
    *ret_point = fsm_restart_point(fsm, old->view.id, 0);
    status = *ret_point == NULL ? continue_nothing(old, outcome)
                                : continue_begins(fsm, *ret_point, spec, outcome);
    return status != FSM_OK || place == UINT32_MAX
               ? status
               : fsm_unended_refusal(fsm, old, place, outcome); /* the one that a moment may end */
}

/* Back in the hands of a job of its folder's name it lies in its own again. */
static void continue_home(struct fsm *fsm, struct checkpoint *checkpoint,
                          const struct allocation *from, const struct allocation *to)
{
    const char *home = checkpoint->view.home[0] == '\0' ? from->view.id : checkpoint->view.home;

    CHECK(from != to);
    fsm_intern_set(fsm, &checkpoint->view.home, strcmp(home, to->view.id) == 0 ? "" : home);
}

/* The sums of the tenant and the counts of its state are taken out and put in again: both jobs have
 * the same ones, whatever becomes of that. */
static void continue_move(struct fsm *fsm, struct checkpoint *checkpoint, struct allocation *from,
                          struct allocation *to)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CONTINUED,
                              .allocation_id = to->view.id,
                              .checkpoint_id = checkpoint->view.id,
                              .subject = from->view.id,
                              .number = checkpoint->view.size_bytes};

    CHECK(checkpoint->view.allocation_slot == from->view.slot);
    CHECK(checkpoint->view.id > to->view.last_complete_id);
    fsm_hold_checkpoint(fsm, checkpoint);
    fsm_checkpoint_forget(fsm, checkpoint);
    list_remove(&checkpoint->in_allocation);
    from->checkpoint_count--;
    checkpoint->view.allocation_slot = to->view.slot;
    list_push_back(&to->checkpoints, &checkpoint->in_allocation);
    to->checkpoint_count++;
    continue_home(fsm, checkpoint, from, to);
    fsm_checkpoint_adopt(fsm, checkpoint);
    to->view.previous_complete_id = to->view.last_complete_id;
    to->view.last_complete_id = checkpoint->view.id;
    to->inherited_gpu_ms = checkpoint->view.useful_gpu_ms;
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint->view.id);
    fsm_event_emit(fsm, &event);
}

/* In the order of their ids, which is that of their snapshots. The old one has nothing to begin
 * from any more, and leaves if it stayed for these alone. */
void fsm_continue_take(struct fsm *fsm, struct allocation *to)
{
    struct allocation *from = allocation_edit(fsm, allocation_find(fsm, to->view.continues));
    struct list *next;

    CHECK(from != NULL);
    CHECK(list_empty(&to->checkpoints));
    for (struct list *at = from->checkpoints.next; at != &from->checkpoints; at = next) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        next = at->next;
        if (fsm_checkpoint_restorable(checkpoint))
            continue_move(fsm, checkpoint, from, to);
    }
    to->inherited_since_ms =
        from->inherited_since_ms != 0 ? from->inherited_since_ms : from->view.submitted_at_ms;
    from->view.last_complete_id = 0;
    from->view.previous_complete_id = 0;
    fsm_intern_set(fsm, &from->view.continued_by, to->view.id);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, from->view.slot);
    fsm_retention_review(fsm, to);
    fsm_retention_review(fsm, from);
    fsm_retention_leave(fsm, from);
}

/* I57: what lies in another job's folder came from there by a registration, complete. */
const char *fsm_continue_broken(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *job = allocation_at(fsm, view->allocation_slot);

    CHECK(view->id != 0);
    if (view->home[0] == '\0')
        return NULL;
    if (strcmp(view->home, job->view.id) == 0)
        return "I57 what lies in another job's folder is not of that job";
    if (job->view.continues[0] == '\0')
        return "I57 only what a job continues came to it";
    if (view->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE &&
        view->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COLLECTED)
        return "I57 only what is complete comes to another job";
    return NULL;
}
