/* RestartAllocation: a stopped job runs again. Rows F-016, R-002, S3-045, S3-049.
 *
 * Flow     everything that may refuse is asked first: whether the nodes are there, then what the
 *          run would begin from, and whether these nodes can begin from it. Then the nodes get
 *          their parts, and what was of the run before is cleared.
 * Errors   a refusal says in numbers what is missing; `from_scratch` passes over all that is asked
 *          about a checkpoint.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#include <malloc.h>

#define ENDS(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

/* F-016: what belongs to a placement is cleared, checkpoints and counts are kept. */
static void restart_clear(struct fsm *fsm, struct allocation *allocation)
{
    struct fsm_allocation *view = &allocation->view;

    CHECK(allocation->view.id != NULL);
    fsm_allocation_begin_runs(fsm, allocation, true);
    for (uint32_t i = 0; i < view->node_count; i++) {
        allocation->assignments[i].terminated = false;
        allocation->assignments[i].away = false;
        allocation->assignments[i].exited = false;
    }
    allocation->terminated_count = 0;
    allocation->exited_count = 0;
    allocation->plan_state = 0;
    allocation->plan_reason = 0;
    if (allocation->preemptor_class != 0 || view->resumed_at_ms != 0)
        view->resumed_at_ms = fsm->now_ms;
    allocation->preemptor_class = 0;
    allocation->grace_end_ms = 0;
    allocation->terminate_deadline_ms = 0;
    view->terminate_reason = CKPT__V1__REASON__REASON_NONE;
    view->walltime_asked = view->walltime_warned = false;
    view->waited_ms = fsm_add(view->waited_ms, fsm_since(fsm, view->state_since_ms));
    view->started_at_ms = fsm->now_ms;
    view->scaled_at_ms = fsm->now_ms;
    view->last_complete_snapshot_ms = fsm->now_ms;
}

/* What a restart is made from. A restart that names nodes uses those. Otherwise the job gets back
 * as many of its old nodes as its minimum asks for, or all of them (restart_old_nodes()). */
struct restart {
    const Ckpt__V1__RestartAllocationRequest *request;
    const struct fsm_checkpoint *point; /* NULL: from scratch */
    uint64_t discarded_ms;              /* as fsm_begin_choose() */
    uint32_t *old;                      /* places of its old nodes; unused when nodes are named */
    uint32_t count;
};

/* NULL: it is named for the first time. */
static const struct node *restart_node(const struct fsm *fsm, const struct allocation *allocation,
                                       const struct restart *restart, uint32_t i)
{
    CHECK(i < restart->count);
    if (restart->request->n_nodes > 0)
        return node_find(fsm, restart->request->nodes[i]->node_id);
    return node_at(fsm, allocation->view.nodes[restart->old[i]].node_slot);
}

static bool restart_node_is_there(const struct fsm *fsm, const struct node *node)
{
    if (fsm_level(fsm) >= 2)
        return fsm_node_serves(fsm, node->view.slot);
    return !node->removed && !fsm_node_gone(&node->view);
}

/* A part that is restored by the node that has its place needs as many places as there were. */
static bool restart_needs_all_parts(const struct allocation *allocation,
                                    const struct restart *restart)
{
    return restart->point != NULL &&
           allocation->view.restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
}

/* who can compute with fewer nodes comes back with the fewest, on those that are there. All
 * of its old ones when these are not enough, so that a refusal names one that is missing. */
static void restart_old_nodes(const struct fsm *fsm, const struct allocation *allocation,
                              struct restart *restart)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t minimum = view->reactive_min_nodes;
    uint32_t count = 0;

    CHECK(view->id != NULL);
    restart->old = check_calloc(view->node_count, sizeof(*restart->old));
    for (uint32_t i = 0; i < view->node_count && count < minimum; i++)
        if (restart_node_is_there(fsm, node_at(fsm, view->nodes[i].node_slot)))
            restart->old[count++] = i;
    restart->count = count;
    if (minimum > 0 && count == minimum && !restart_needs_all_parts(allocation, restart))
        return;
    for (uint32_t i = 0; i < view->node_count; i++)
        restart->old[i] = i;
    restart->count = view->node_count;
}

/* What was lost with a node may still run there: it is ended when the agent is back, and must not
 * be taken for the new run before. */
static enum fsm_status restart_nodes_check(struct fsm *fsm, const struct allocation *allocation,
                                           const struct restart *restart,
                                           struct fsm_outcome *outcome)
{
    const Ckpt__V1__RestartAllocationRequest *request = restart->request;
    struct holder holder = {allocation->view.sensitive, allocation, NULL};

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < restart->count; i++) {
        const struct node *node = restart_node(fsm, allocation, restart, i);

        outcome->current = i + 1;
        outcome->limit = restart->count;
        if (node != NULL && node->removed)
            return FSM_NODE_NOT_FOUND; /* it was removed when this job had failed */
        if (node != NULL && fsm_node_gone(&node->view))
            return FSM_NODE_DOWN;
        if (node != NULL && fsm_level(fsm) >= 2 && fsm_node_refusal(&node->view) != FSM_OK) {
            outcome->subject = node->view.id;
            return fsm_node_refusal(&node->view);
        }
        if (node != NULL && fsm_level(fsm) >= 2 && fsm_node_is_shared(fsm, node, &holder)) {
            outcome->subject = node->view.id;
            return FSM_NODE_SHARED;
        }
    }
    return fsm_shares_check(fsm, request->n_nodes, request->nodes, &holder, outcome);
}

/* A second copy would compute beside the first one. On the same node the agent ends what it finds
 * before the new run begins. */
static enum fsm_status restart_alone_check(const struct fsm *fsm,
                                           const struct allocation *allocation,
                                           const struct restart *restart,
                                           struct fsm_outcome *outcome)
{
    uint32_t place = fsm_unended_place(fsm, allocation, 0);

    CHECK(allocation->view.id != NULL);
    for (; place != UINT32_MAX; place = fsm_unended_place(fsm, allocation, place + 1)) {
        const struct node *node = fsm_unended_node(fsm, allocation, place);
        uint32_t i = 0;

        while (i < restart->count && restart_node(fsm, allocation, restart, i) != node)
            i++;
        if (i == restart->count)
            return fsm_unended_refusal(fsm, allocation, place, outcome);
    }
    return FSM_OK;
}

/* S3-049: what was computed is not thrown away unless somebody says so. */
static enum fsm_status restart_point_check(const struct allocation *allocation,
                                           const struct restart *restart,
                                           struct fsm_outcome *outcome)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(view->id != NULL);
    outcome->current = view->complete_count;
    outcome->limit = fsm_damaged_count(allocation);
    if (restart->point == NULL && restart->discarded_ms == 0)
        return fsm_allocation_continued(allocation) ? FSM_CONTINUED : FSM_NO_USABLE_CHECKPOINT;
    if (restart->point == NULL)
        return FSM_OK; /* nothing of a checkpoint is to be fitted */
    outcome->current = restart->count;
    outcome->limit = restart->point->shard_count;
    if (restart_needs_all_parts(allocation, restart) && outcome->current != outcome->limit)
        return FSM_PARTS_DIFFER;
    outcome->limit = view->reactive_min_nodes;
    return outcome->current < outcome->limit ? FSM_TOO_FEW_NODES : FSM_OK;
}

/* S3-045: what one architecture or operating system wrote, another one does not read. */
static enum fsm_status restart_platform_check(const struct fsm *fsm,
                                              const struct allocation *allocation,
                                              const struct restart *restart,
                                              struct fsm_outcome *outcome)
{
    CHECK(restart->point != NULL);
    for (uint32_t i = 0; i < restart->count; i++) {
        const struct node *node = restart_node(fsm, allocation, restart, i);

        outcome->current = i + 1;
        outcome->limit = restart->count;
        if (node != NULL && !fsm_platform_fits(restart->point, &node->view))
            return FSM_NODE_UNLIKE;
    }
    return FSM_OK;
}

/* S2-028: it waits until nodes of its domain are free. */
static enum fsm_status restart_domain_check(const struct fsm *fsm,
                                            const struct allocation *allocation,
                                            const struct restart *restart,
                                            struct fsm_outcome *outcome)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < restart->count; i++) {
        const struct node *node = restart_node(fsm, allocation, restart, i);

        outcome->current = i + 1;
        outcome->limit = restart->count;
        if (node != NULL && !fsm_domain_allows(fsm, &allocation->view, &node->view))
            return FSM_NODE_OUTSIDE_DOMAIN;
    }
    return FSM_OK;
}

/* Whether it can begin from its checkpoint on these nodes. */
static enum fsm_status restart_begins_check(struct fsm *fsm, const struct allocation *allocation,
                                            const struct restart *restart,
                                            struct fsm_outcome *outcome)
{
    enum fsm_status status = restart_point_check(allocation, restart, outcome);

    CHECK(!restart->request->from_scratch);
    if (status == FSM_OK)
        status = restart_domain_check(fsm, allocation, restart, outcome);
    if (status == FSM_OK && restart->point != NULL)
        status = restart_platform_check(fsm, allocation, restart, outcome);
    return status;
}

static enum fsm_status restart_check(struct fsm *fsm, const struct allocation *allocation,
                                     const struct restart *restart, struct fsm_outcome *outcome)
{
    enum fsm_status status = restart_nodes_check(fsm, allocation, restart, outcome);

    CHECK(allocation->view.id != NULL);
    if (status == FSM_OK && !restart->request->from_scratch)
        status = restart_begins_check(fsm, allocation, restart, outcome);
    if (status == FSM_OK) /* the last one: a moment may end it */
        status = restart_alone_check(fsm, allocation, restart, outcome);
    if (status != FSM_OK || restart->request->from_scratch)
        return status;
    outcome->current = 0;
    outcome->limit = 0;
    return FSM_OK;
}

/* A part stays with the node that wrote it: also of its old nodes, which may have changed places
 * since. */
static void restart_shares(struct fsm *fsm, struct allocation *allocation,
                           const struct restart *restart)
{
    struct fsm_node_share *shares = check_calloc(restart->count, sizeof(*shares));
    uint32_t old_count = allocation->view.node_count;

    CHECK(allocation->view.id != NULL);
    if (restart->request->n_nodes > 0)
        fsm_shares_fill(fsm, shares, restart->count, restart->request->nodes);
    else
        for (uint32_t i = 0; i < restart->count; i++)
            shares[i] = allocation->view.nodes[restart->old[i]];
    if (restart->point != NULL)
        fsm_parts_settle(fsm, shares, restart->count, restart->point);
    fsm_shares_take(fsm, allocation, shares, restart->count);
    free(shares);
    if (restart->request->n_nodes > 0 || restart->count != old_count)
        fsm_allocation_estimate(allocation, old_count);
}

static void restart_apply(struct fsm *fsm, struct allocation *allocation,
                          const struct restart *restart)
{
    const struct fsm_checkpoint *point = restart->point;

    CHECK(allocation->view.id != NULL);
    restart_shares(fsm, allocation, restart);
    restart_clear(fsm, allocation);
    fsm_allocation_parts_start(fsm, allocation, point == NULL ? 0 : point->id);
    fsm_destination_discarded(fsm, allocation, restart->discarded_ms);
    fsm_allocation_go_on(fsm, allocation, CKPT__V1__REASON__REASON_NONE);
    fsm_allocation_assign(fsm, allocation);
    fsm_account_update(fsm, allocation);
    fsm_allocation_arm(fsm, allocation);
    fsm_retention_review(fsm, allocation);
}

/* The same record goes on: its checkpoints, counts and account are those of the job, not of a run.
 * The answer names the checkpoint from which its application starts. */
enum fsm_status fsm_restart_by(struct fsm *fsm, struct allocation *allocation,
                               const Ckpt__V1__RestartAllocationRequest *request,
                               struct fsm_outcome *outcome)
{
    struct restart restart = {.request = request, .count = (uint32_t)request->n_nodes};
    enum fsm_status status;

    CHECK(allocation->view.id != NULL);
    outcome->current = allocation->view.state;
    if (allocation->expired || allocation->assigned ||
        !fsm_allocation_move_allowed(allocation->view.state, ENDS(STARTING)))
        return FSM_NOT_RESTARTABLE;
    if (fsm_destination(fsm, &allocation->view) == NULL)
        return FSM_TARGET_NOT_FOUND; /* it was removed when this one had failed */
    if (!request->from_scratch)
        restart.point = fsm_begin_choose(fsm, &allocation->view, &restart.discarded_ms);
    if (request->n_nodes == 0)
        restart_old_nodes(fsm, allocation, &restart);
    status = restart_check(fsm, allocation, &restart, outcome);
    if (status == FSM_OK) {
        restart_apply(fsm, allocation, &restart);
        outcome->checkpoint_id = allocation->view.restart_id;
    }
    free(restart.old);
    return status;
}

enum fsm_status fsm_apply_restart(struct fsm *fsm, const fsm_command *command,
                                  struct fsm_outcome *outcome)
{
    const Ckpt__V1__RestartAllocationRequest *request = command->restart_allocation;
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, request->allocation_id));
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_RESTART_ALLOCATION);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    status = fsm_restart_by(fsm, allocation, request, outcome);
    if (status == FSM_OK)
        allocation->view.cause_count = 0; /* somebody has looked at it */
    if (status == FSM_OK && allocation->view.restart_choice[0] != '\0')
        fsm_intern_set(fsm, &allocation->view.restart_choice, ""); /* these are somebody else's */
    return status;
}
