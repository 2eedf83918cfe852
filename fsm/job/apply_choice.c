/* The leader's choice of nodes for a stopped job. See fsm/restart.h.
 *
 * Flow     The choice is checked against all that may have changed since the leader looked, and is
 *          carried out as RestartAllocation is.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/restart.h"

#include <malloc.h>

/* Its old nodes keep their shares. The others get the shares that are left, in order: whatever a
 * part needs, some node had for it. */
static void choice_shares(const struct fsm *fsm, const struct fsm_allocation *view,
                          const Ckpt__Log__V1__RestartChoice *choice, Ckpt__V1__NodeShare *shares)
{
    bool *taken = check_calloc(view->node_count, sizeof(*taken));
    uint32_t next = 0;

    CHECK(choice->n_nodes <= view->node_count);
    for (size_t i = 0; i < choice->n_nodes; i++) {
        uint32_t old = fsm_restart_place(view, &node_find(fsm, choice->nodes[i]->node_id)->view);

        if (old < view->node_count)
            taken[old] = true;
    }
    for (size_t i = 0; i < choice->n_nodes; i++) {
        uint32_t from = fsm_restart_place(view, &node_find(fsm, choice->nodes[i]->node_id)->view);

        while (from == view->node_count && taken[next])
            next++;
        if (from == view->node_count) {
            from = next;
            taken[next] = true;
        }
        ckpt__v1__node_share__init(&shares[i]);
        shares[i].node_id = choice->nodes[i]->node_id;
        shares[i].gpu_count = view->nodes[from].gpu_count;
        shares[i].gpu_memory_used_bytes = view->nodes[from].gpu_memory_used_bytes;
        shares[i].borrowed = view->nodes[from].borrowed;
    }
    free(taken);
}

/* The state may have changed since the leader looked. */
static enum fsm_status choice_check(const struct fsm *fsm, const struct allocation *allocation,
                                    const Ckpt__Log__V1__RestartChoice *choice,
                                    struct fsm_outcome *outcome)
{
    const struct fsm_restart_nodes need = fsm_restart_nodes(fsm, &allocation->view);
    uint32_t others = 0;

    CHECK(allocation->view.id != NULL);
    outcome->current = allocation->view.state;
    if (!fsm_restart_awaited(fsm, &allocation->view) ||
        allocation->view.restart_at_ms > fsm->now_ms)
        return FSM_NOT_RESTARTABLE;
    if (fsm_pause_holds(fsm, &allocation->view))
        return fsm_pause_refusal(fsm, outcome);
    outcome->current = choice->n_nodes;
    outcome->limit = need.fewest;
    if (choice->n_nodes < need.fewest || choice->n_nodes > need.most)
        return FSM_TOO_FEW_NODES;
    for (size_t i = 0; i < choice->n_nodes; i++) {
        const struct node *node = node_find(fsm, choice->nodes[i]->node_id);
        enum fsm_status status =
            node == NULL || node->removed
                ? FSM_NODE_NOT_FOUND
                : fsm_restart_node_status(fsm, &allocation->view, &node->view, fsm->now_ms);

        outcome->subject = choice->nodes[i]->node_id;
        outcome->current = i + 1;
        outcome->limit = choice->n_nodes;
        if (status != FSM_OK)
            return status;
        others += fsm_restart_place(&allocation->view, &node->view) == allocation->view.node_count;
    }
    if (others < need.others)
        return FSM_NODE_LEFT;
    outcome->subject = NULL;
    outcome->current = outcome->limit = 0;
    return FSM_OK;
}

static void choice_note(struct fsm *fsm, struct allocation *allocation, const char *reason)
{
    struct fsm_allocation *view = &allocation->view;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_RESTART_CHOSEN,
                              .allocation_id = view->id,
                              .subject = reason};

    CHECK(view->id != NULL);
    view->restarts_without_progress += view->restarts_without_progress < UINT32_MAX;
    fsm_intern_set(fsm, &view->restart_choice, reason);
    event.number = view->restarts_without_progress;
    fsm_event_emit(fsm, &event);
}

/* The chosen ones had said that they wait, and one of them has gone before it began. */
static enum fsm_status choice_withdraw(struct fsm *fsm, struct allocation *allocation,
                                       const char *node_id)
{
    const struct node *node = node_find(fsm, node_id);
    const struct fsm_allocation *view = &allocation->view;

    CHECK(view->id != NULL);
    if (node == NULL || node->removed)
        return FSM_NODE_NOT_FOUND;
    if (view->restart_choice[0] == '\0' || !fsm_part_awaits(view, node->view.slot, UINT64_MAX))
        return FSM_NOT_RESTARTABLE;
    fsm_terminate_begin(
        fsm, allocation,
        fsm_plan_failure(fsm, allocation, CKPT__V1__REASON__REASON_NOT_ATTACHED, true));
    return FSM_OK;
}

enum fsm_status fsm_apply_restart_choice(struct fsm *fsm, const fsm_command *command,
                                         struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__RestartChoice *choice = command->restart_choice;
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, choice->allocation_id));
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__NodeShare *shares, **list;
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_RESTART_CHOICE);
    CHECK(outcome != NULL);
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    if (choice->absent_node_id[0] != '\0')
        return choice_withdraw(fsm, allocation, choice->absent_node_id);
    status = choice_check(fsm, allocation, choice, outcome);
    if (status != FSM_OK)
        return status;
    shares = check_calloc(choice->n_nodes, sizeof(*shares));
    list = check_calloc(choice->n_nodes, sizeof(*list));
    choice_shares(fsm, &allocation->view, choice, shares);
    for (size_t i = 0; i < choice->n_nodes; i++)
        list[i] = &shares[i];
    request.allocation_id = choice->allocation_id;
    request.n_nodes = choice->n_nodes;
    request.nodes = list;
    /* as at a start again in place: there never was anything that could be thrown away */
    request.from_scratch =
        allocation->view.complete_count == 0 && allocation->inherited_since_ms == 0;
    status = fsm_restart_by(fsm, allocation, &request, outcome);
    if (status == FSM_OK)
        choice_note(fsm, allocation, choice->reason);
    free(list);
    free(shares);
    return status;
}
