/* Drains: nodes that take nothing new, how their jobs leave them, nodes that are out of use. Rows
 * L-001..L-003. The states: node_life.c. */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"

#include <malloc.h>

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

/* The release of level 1 has a drain in the state alone. */
static enum fsm_status drain_first(struct fsm *fsm, struct node *node, bool undo)
{
    CHECK(fsm_level(fsm) < 2);
    if (!undo)
        fsm_node_move(fsm, node, NODE(DRAINING));
    else if (node->view.state == NODE(DRAINING)) /* the leader says soon when its agent is silent */
        fsm_node_move(fsm, node, node->view.boot_id[0] != '\0' ? NODE(READY) : NODE(UNSPECIFIED));
    return FSM_OK;
}

/* L-003: what runs there fails as with a node that is down. Its agent is there, so that each part
 * has an order to end until the agent has said that it did. */
static void node_disabled(struct fsm *fsm, struct node *node)
{
    struct sort_item *items;
    size_t count = fsm_node_allocations(fsm, node, &items);

    CHECK(node->view.id != NULL);
    for (size_t i = 0; i < count; i++) {
        struct allocation *allocation = items[i].item;
        struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

        if (fsm_leave_passes(allocation, node))
            continue;
        if (active != NULL && fsm_checkpoint_writes(active))
            fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED,
                               CKPT__V1__REASON__REASON_NODE_DOWN);
        fsm_terminate_begin(
            fsm, allocation,
            fsm_plan_failure(fsm, allocation, CKPT__V1__REASON__REASON_NODE_DOWN, true));
    }
}

/* The deadline of a drain: what is still there is ended, with what it last saved. */
void fsm_drain_due(struct fsm *fsm, struct node *node)
{
    struct sort_item *items;
    size_t count = fsm_node_allocations(fsm, node, &items);

    CHECK(node->view.id != NULL);
    fsm_hold_node(fsm, node);
    node->view.drain_until_ms = 0;
    fsm_timer_set(&fsm->timers, &node->timer, 0);
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    for (size_t i = 0; i < count; i++)
        if (!fsm_leave_passes(items[i].item, node))
            fsm_leave_begin(fsm, items[i].item);
}

/* The wish of an operator is kept while the node is gone, and holds when it is back. */
static void node_want(struct fsm *fsm, struct node *node, const Ckpt__Log__V1__DrainNode *drain)
{
    struct fsm_node *view = &node->view;

    CHECK(view->id != NULL);
    if (fsm_level(fsm) < 2) {
        drain_first(fsm, node, drain->undo);
        return;
    }
    view->wanted = drain->undo      ? CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED
                   : drain->disable ? CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DISABLE
                                    : CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN;
    view->leave = drain->undo || drain->disable ? CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_UNSPECIFIED
                  : drain->move                 ? CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_MOVE
                  : drain->at_next_checkpoint
                      ? CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_AT_NEXT_CHECKPOINT
                      : CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_UNSPECIFIED;
    view->drain_until_ms = drain->undo || drain->disable || drain->deadline_ms == 0
                               ? 0
                               : fsm_add(fsm->now_ms, drain->deadline_ms);
    fsm_timer_set(&fsm->timers, &node->timer, view->drain_until_ms);
    fsm_moved(fsm, FSM_RECORD_NODE, view->slot);
    fsm_node_move(fsm, node, fsm_node_contact(view));
}

/* L-001: undo takes it back into use. urgent: the jobs on it are checkpointed and go on running.
 * move: they leave it with a checkpoint that is made now. A job for which none can be asked for
 * now, because one is being written or it has just begun, leaves with the one that completes next.
 * outcome: current asked for of limit. */
enum fsm_status fsm_apply_drain_node(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__DrainNode *drain = command->drain_node;
    struct node *node = node_edit(fsm, node_find(fsm, drain->node_id));
    struct checkpoint_ask ask = {
        .purpose =
            drain->move ? CKPT__V1__PURPOSE__PURPOSE_MIGRATE : CKPT__V1__PURPOSE__PURPOSE_DRAIN,
        .after = drain->move ? CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE
                             : CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
    struct sort_item *items;
    size_t count;
    uint64_t asked = 0;

    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    if (!drain->undo && (drain->urgent || drain->move) && fsm_pause(fsm) != NULL)
        return fsm_pause_refusal(fsm, outcome);
    node_want(fsm, node, drain);
    fsm_node_changed(fsm, node);
    if (drain->disable)
        node_disabled(fsm, node);
    if (drain->undo || drain->disable || !(drain->urgent || drain->move))
        return FSM_OK;
    count = fsm_node_allocations(fsm, node, &items);
    for (size_t i = 0; i < count; i++)
        asked += fsm_checkpoint_ask(fsm, items[i].item, &ask, outcome) == FSM_OK;
    outcome->current = asked;
    outcome->limit = count;
    return FSM_OK;
}
