/* Restarts by the broker: when, and on which nodes. See fsm/restart.h.
 *
 * Flow     awaits() when a job ends: from when on it is restarted. progress() at each complete
 *          checkpoint: the counts of restarts begin anew. apply_choice.c carries a choice out.
 */
#include "fsm/restart.h"
#include "fsm/node_life.h"

#include "fsm/core/hash.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define STATE(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

bool fsm_restart_is_auto(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return fsm_level(fsm) >= 2 && !view->sensitive && /* F-008 */
           view->restart != CKPT__V1__RESTART_MODE__RESTART_MODE_MANUAL &&
           view->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER; /* F-015 */
}

/* It gave its nodes up to others, and goes on when these have given them back. */
static bool restart_was_preempted(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->preemptor_class != 0;
}

bool fsm_restart_awaited(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(view->id != NULL);
    return view->restart_at_ms != 0 && fsm_restart_is_auto(fsm, view) && !allocation->expired &&
           !fsm_allocation_continued(allocation) && fsm_allocation_state_waits(view->state);
}

/* Jobs that died together do not come back together: up to a quarter of the pause is taken off, by
 * the job and the count. */
static uint64_t restart_pause_ms(const struct fsm_allocation *view)
{
    uint32_t count = view->restarts_without_progress;
    uint64_t pause_ms = FSM_RESTART_BACKOFF_MS;

    CHECK(view->id != NULL);
    if (count == 0)
        return 0;
    while (--count > 0 && pause_ms < FSM_RESTART_BACKOFF_MAX_MS)
        pause_ms *= 2;
    pause_ms = fsm_min(pause_ms, FSM_RESTART_BACKOFF_MAX_MS);
    return pause_ms -
           fsm_hash_mix(view->registered_index, view->restarts_without_progress) % (pause_ms / 4);
}

void fsm_restart_awaits(const struct fsm *fsm, struct allocation *allocation)
{
    struct fsm_allocation *view = &allocation->view;
    bool waits = view->state == STATE(REQUEUED) ||
                 (view->state == STATE(SUSPENDED) && restart_was_preempted(allocation));

    CHECK(view->id != NULL);
    view->restart_at_ms = 0;
    if (waits && fsm_restart_is_auto(fsm, view))
        view->restart_at_ms = fsm_add(fsm->now_ms, restart_pause_ms(view));
}

/* Only what is complete counts: a run that dies before its first checkpoint would begin where it
 * has begun. */
void fsm_restart_progress(const struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (fsm_level(fsm) < 2)
        return;
    allocation->view.restarts_without_progress = 0;
    allocation->view.cause_count = 0;
    allocation->view.requeue_count = 0;
}

struct fsm_restart_nodes fsm_restart_nodes(const struct fsm *fsm, const struct fsm_allocation *view)
{
    struct fsm_restart_nodes nodes = {view->node_count, view->node_count,
                                      view->reason == CKPT__V1__REASON__REASON_MIGRATED ? 1 : 0};
    bool every_part = fsm_restart_point(fsm, view->id, 0) != NULL &&
                      view->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;

    CHECK(view->id != NULL);
    if (view->reactive_min_nodes != 0 && !every_part) /* */
        nodes.fewest = (uint32_t)fsm_min(view->reactive_min_nodes, view->node_count);
    return nodes;
}

uint32_t fsm_restart_requeues_used(const struct fsm *fsm, const struct fsm_allocation *view)
{
    uint32_t limit = view->max_requeue != 0 ? view->max_requeue : fsm->policy.max_requeue;

    CHECK(view->id != NULL);
    if (view->state != STATE(FAILED) || !fsm_restart_is_auto(fsm, view) ||
        view->cause_node_id[0] == '\0' || view->requeue_count == 0 || view->requeue_count < limit)
        return 0;
    return view->requeue_count;
}

uint32_t fsm_restart_place(const struct fsm_allocation *view, const struct fsm_node *node)
{
    uint32_t i = 0;

    CHECK(node->id != NULL);
    while (i < view->node_count && view->nodes[i].node_slot != node->slot)
        i++;
    return i;
}

void fsm_node_freed(struct fsm *fsm, const struct node *at, uint8_t acting_class)
{
    struct node *node = node_edit(fsm, at);

    CHECK(node->view.id != NULL);
    if (fsm_level(fsm) < 2)
        return;
    node->preempted_at_ms = fsm->now_ms;
    node->preempted_class = acting_class;
}

void fsm_node_taken(struct fsm *fsm, const struct node *at)
{
    CHECK(at->view.id != NULL);
    if (at->preempted_at_ms == 0)
        return;
    node_edit(fsm, at)->preempted_at_ms = 0;
    node_edit(fsm, at)->preempted_class = 0;
}

/* A preemption freed it for a job that has still to come. Whoever is of its class may be that. */
static bool restart_kept(const struct fsm *fsm, const struct fsm_allocation *view,
                         const struct fsm_node *at, uint64_t now_ms)
{
    const struct node *node = node_at(fsm, at->slot);

    CHECK(view->id != NULL);
    return node->preempted_at_ms != 0 && view->preemption_class < node->preempted_class &&
           now_ms < fsm_add(node->preempted_at_ms, FSM_PREEMPTED_KEPT_MS);
}

/* A job of one node that moved does not come back to it by itself. Nodes that a preemption took are
 * free again when whoever came has given them back, or when nobody has come in time. */
static bool restart_left(const struct fsm *fsm, const struct fsm_allocation *view,
                         const struct fsm_node *node, uint64_t now_ms)
{
    CHECK(view->id != NULL);
    if (view->reason == CKPT__V1__REASON__REASON_MIGRATED && view->node_count == 1 &&
        fsm_restart_place(view, node) == 0)
        return true;
    return restart_kept(fsm, view, node, now_ms) ||
           (restart_was_preempted(allocation_at(fsm, view->slot)) && node->allocation_count > 0);
}

bool fsm_restart_failed_on(const struct fsm_allocation *view, const struct fsm_node *node)
{
    CHECK(node->id != NULL);
    return view->cause_count >= FSM_FAILED_ON_MIN && strcmp(view->cause_node_id, node->id) == 0;
}

uint64_t fsm_restart_excluded_until_ms(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return view->cause_count >= FSM_FAILED_ON_MIN ? fsm_add(view->cause_at_ms, FSM_EXCLUDED_MS) : 0;
}

enum fsm_status fsm_restart_node_status(const struct fsm *fsm, const struct fsm_allocation *view,
                                        const struct fsm_node *node, uint64_t now_ms)
{
    const struct fsm_checkpoint *point = fsm_restart_point(fsm, view->id, 0);
    struct holder holder = {view->sensitive, allocation_at(fsm, view->slot), NULL};

    CHECK(view->id != NULL);
    CHECK(node->id != NULL);
    if (fsm_node_refusal(node) != FSM_OK)
        return fsm_node_refusal(node);
    if (node->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
        return FSM_NODE_DOWN;
    if (fsm_node_is_shared(fsm, node_at(fsm, node->slot), &holder))
        return FSM_NODE_SHARED;
    if (restart_left(fsm, view, node, now_ms))
        return FSM_NODE_LEFT;
    if (fsm_restart_failed_on(view, node) && now_ms < fsm_restart_excluded_until_ms(view))
        return FSM_NODE_EXCLUDED;
    if (!fsm_domain_allows(fsm, view, node))
        return FSM_NODE_OUTSIDE_DOMAIN;
    return point == NULL || fsm_platform_fits(point, node) ? FSM_OK : FSM_NODE_UNLIKE;
}
