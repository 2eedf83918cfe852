/* Commands about nodes: seen (ready, degraded, down), drain, remove, off. Rows F-006, F-007,
 * L-001..L-003, S3-001. */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/job/job.h"

#include <malloc.h>

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

/* The node's allocations in the order of their slots: the list's order is history, slots are state.
 * All of them are held for writing, and collected first: what is done to one may take it off the
 * list. */
static size_t node_allocations(struct fsm *fsm, const struct node *node,
                               struct sort_item **ret_items)
{
    size_t count = 0;
    struct sort_item *items =
        fsm_arena_take(&fsm->arena, (node->view.allocation_count + 1) * sizeof(*items));

    CHECK(node->view.id != NULL);
    for (const struct list *at = node->assignments.next; at != &node->assignments; at = at->next) {
        const struct assignment *part = LIST_ITEM_CONST(at, struct assignment, in_node);

        CHECK(count < node->view.allocation_count);
        fsm_hold_allocation(fsm, part->allocation);
        items[count].high = 0;
        items[count].low = part->allocation->view.slot;
        items[count].item = part->allocation;
        count++;
    }
    fsm_sort(items, count);
    *ret_items = items;
    return count;
}

/* A part that was leaving has left. Else the job cannot go on without the part: what is written now
 * fails, and the others are ended, to start again together. */
static void node_lost_part(struct fsm *fsm, struct allocation *allocation, struct node *node)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
    struct assignment *part = fsm_allocation_part(allocation, node->view.slot);
    const struct fsm_plan plan =
        fsm_plan_failure(fsm, allocation, CKPT__V1__REASON__REASON_NODE_DOWN, true);

    CHECK(allocation->view.id != NULL);
    CHECK(node->view.id != NULL);
    if (part->leaving) {
        fsm_scale_part(fsm, allocation, part);
        return;
    }
    if (active != NULL && fsm_checkpoint_writes(active)) /* F-007 */
        fsm_checkpoint_end(fsm, active, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED,
                           CKPT__V1__REASON__REASON_NODE_DOWN);
    fsm_cause_lost(fsm, allocation, part, plan);
    fsm_terminate_without(fsm, allocation, part, plan);
}

/* What ran there is gone, whatever the node's state is now: it may be back already, with another
 * boot id. */
void fsm_node_lost(struct fsm *fsm, struct node *node)
{
    struct sort_item *items;
    size_t count = node_allocations(fsm, node, &items);

    CHECK(node->view.id != NULL);
    for (size_t i = 0; i < count; i++)
        node_lost_part(fsm, items[i].item, node);
    fsm_removal_node_lost(fsm, node);
    fsm_verify_node_lost(fsm, node);
    fsm_scan_node_lost(fsm, node);
}

/* It was silent, not dead: what is being ended goes on there until it is told to end. Nobody is let
 * in beside it (I30). */
static void node_returned(struct fsm *fsm, const struct node *node)
{
    struct sort_item *items;
    size_t count = node_allocations(fsm, node, &items);

    CHECK(node->view.id != NULL);
    for (size_t i = 0; i < count; i++) {
        struct allocation *allocation = items[i].item;
        struct assignment *part = fsm_allocation_part(allocation, node->view.slot);

        CHECK(part != NULL);
        if (part->away)
            fsm_terminate_again(fsm, allocation, part);
    }
}

/* A move is an event; being told the same again is none. A node that was down may still run what
 * was being ended there. */
static void node_set_state(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState state)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE,
                              .old_state = node->view.state,
                              .new_state = state,
                              .subject = node->view.id};
    bool was_down = node->view.state == NODE(DOWN);

    CHECK(node->view.id != NULL);
    if (node->view.state == state)
        return;
    node->view.state = state;
    node->view.state_since_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    fsm_event_emit(fsm, &event);
    if (was_down)
        node_returned(fsm, node);
}

/* A node that came back with another boot id lost everything that ran on it, even when nobody saw
 * it down (S3-001). */
static bool node_rebooted(const struct node *node, const char *boot_id)
{
    CHECK(node->view.id != NULL);
    return boot_id[0] != '\0' && node->view.boot_id[0] != '\0' &&
           strcmp(node->view.boot_id, boot_id) != 0;
}

/* What runs there may write to another target from now on; the evaluator hears of it. */
static void node_set_domain(struct fsm *fsm, struct node *node, const char *domain)
{
    struct sort_item *items;

    CHECK(node->view.id != NULL);
    if (strcmp(node->view.domain, domain) == 0)
        return;
    fsm_intern_set(fsm, &node->view.domain, domain);
    node_allocations(fsm, node, &items); /* holds them for writing */
}

/* Once per failure: one that is down already, that was drained first, or that no agent ever
 * reported did not fail. A failure counts in the rates that the leader learns, so what was meant
 * must not be among them. */
static bool node_failed(const struct node *node, Ckpt__Log__V1__NodeState state, bool rebooted)
{
    CHECK(node->view.id != NULL);
    return (state == NODE(DOWN) || rebooted) &&
           (node->view.state == NODE(READY) || node->view.state == NODE(DEGRADED));
}

/* A hello has a boot id, also of a node that is drained. A drain says nothing of whether its agent
 * is heard. Until level 2 nobody asks. */
static void node_hear(const struct fsm *fsm, struct node *node, const Ckpt__Log__V1__NodeSeen *seen)
{
    struct fsm_node *view = &node->view;
    Ckpt__Log__V1__NodeState said = seen->state;

    CHECK(view->id != NULL);
    if (fsm_level(fsm) < 2)
        return;
    if (said == NODE(READY) || (said == NODE(DRAINING) && seen->boot_id[0] != '\0')) {
        view->silent_since_ms = 0;
        view->off_at_ms = 0;
    } else if ((said == NODE(DOWN) || said == NODE(DEGRADED)) && view->silent_since_ms == 0) {
        view->silent_since_ms = fsm->now_ms;
    }
}

/* Whether a node that is not known may become one: an agent says hello. That a node is silent was
 * said of one that has been removed since, and so was that it is being drained: such an agent is
 * taken as any new one. */
static enum fsm_status node_appears(const struct fsm *fsm, const Ckpt__Log__V1__NodeSeen *seen,
                                    struct fsm_outcome *outcome)
{
    if (seen->state != NODE(READY) && seen->state != NODE(DRAINING))
        return FSM_NODE_NOT_FOUND;
    if (node_find_any(fsm, seen->node_id) != NULL || fsm->nodes.used < FSM_NODES_MAX)
        return FSM_OK;
    outcome->current = fsm->nodes.used;
    outcome->limit = FSM_NODES_MAX;
    return FSM_NODES_FULL;
}

/* An agent's hello, or what the leader made of its silence. The state is set before the jobs are
 * ended, so that their parts count as done at once where the node is down. A node that is only
 * heard of again keeps its jobs. */
enum fsm_status fsm_apply_node_seen(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NodeSeen *seen = command->node_seen;
    struct node *node = node_edit(fsm, node_find(fsm, seen->node_id));
    Ckpt__Log__V1__NodeState state = seen->state;
    bool rebooted;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN);
    CHECK(outcome != NULL);
    if (node == NULL) {
        enum fsm_status status = node_appears(fsm, seen, outcome);

        if (status != FSM_OK)
            return status;
        node = fsm_node_make(fsm, seen->node_id);
        state = NODE(READY);
    }
    rebooted = node_rebooted(node, seen->boot_id);
    if (node_failed(node, state, rebooted))
        fsm_learn_node_failed(fsm, node);
    else if (node->view.steady_since_ms == 0 && state != NODE(DOWN))
        node->view.steady_since_ms = fsm->now_ms;
    if (seen->boot_id[0] != '\0')
        fsm_intern_set(fsm, &node->view.boot_id, seen->boot_id);
    if (seen->version[0] != '\0')
        fsm_intern_set(fsm, &node->view.version, seen->version);
    if (seen->machine[0] != '\0')
        fsm_intern_set(fsm, &node->view.machine, seen->machine);
    if (seen->os[0] != '\0')
        fsm_intern_set(fsm, &node->view.os, seen->os);
    if (seen->domain_told)
        node_set_domain(fsm, node, seen->domain);
    node_hear(fsm, node, seen);
    /* a drain outlives reconnections; it ends when the node goes down */
    if (node->view.state == NODE(DRAINING) && state != NODE(DOWN))
        state = NODE(DRAINING);
    node_set_state(fsm, node, state);
    if (state == NODE(DOWN) || rebooted)
        fsm_node_lost(fsm, node);
    fsm_node_changed(fsm, node);
    return FSM_OK;
}

/* L-001: undo takes it back into use; urgent checkpoints what runs on it; those go on running until
 * the scheduler moves them. */
enum fsm_status fsm_apply_drain_node(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    struct node *node = node_edit(fsm, node_find(fsm, command->drain_node->node_id));
    struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_DRAIN,
                                 .after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
    struct sort_item *items;
    size_t count;
    uint64_t asked = 0;

    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    if (command->drain_node->undo) {
        if (node->view.state == NODE(DRAINING)) /* the leader says soon when its agent is silent */
            node_set_state(fsm, node,
                           node->view.boot_id[0] != '\0' ? NODE(READY) : NODE(UNSPECIFIED));
        fsm_node_changed(fsm, node);
        return FSM_OK;
    }
    node_set_state(fsm, node, NODE(DRAINING));
    fsm_node_emptied(fsm, node);
    if (!command->drain_node->urgent)
        return FSM_OK;
    count = node_allocations(fsm, node, &items);
    for (size_t i = 0; i < count; i++)
        asked += fsm_checkpoint_ask(fsm, items[i].item, &ask, outcome) == FSM_OK;
    outcome->current = asked;
    outcome->limit = count;
    return FSM_OK;
}

/* No agent speaks for it: one that is heard would bring the node back at once. Also a node that no
 * agent ever spoke for: somebody mistyped a name. */
static bool node_silent(const struct fsm_node *view)
{
    CHECK(view->id != NULL);
    return view->state == NODE(DOWN) ||
           (view->boot_id[0] == '\0' &&
            (view->state == NODE(UNSPECIFIED) || view->state == NODE(DRAINING)));
}

/* Records of what ended keep its name, and with it its slot. A node whose agent is heard would be
 * back with its next heartbeat, and one that a job needs must not lose its slot: both are
 * refused. */
enum fsm_status fsm_apply_remove_node(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    struct node *node = node_edit(fsm, node_find(fsm, command->remove_node->node_id));
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_REMOVED};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_REMOVE_NODE);
    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    if (!node_silent(&node->view))
        return FSM_NODE_NOT_DOWN;
    outcome->current = node->going_count;
    if (node->going_count > 0)
        return FSM_NODE_HAS_JOBS;
    CHECK(list_empty(&node->assignments));
    CHECK(list_empty(&node->removals));
    event.subject = node->view.id;
    fsm_event_emit(fsm, &event);
    fsm_node_changed(fsm, node);
    node->removed = true;
    fsm_node_leave(fsm, node);
    return FSM_OK;
}

/* The word of one who looked: what the node's jobs had there is gone, whatever its agent might say.
 * An agent that is heard knows better. */
enum fsm_status fsm_apply_node_off(struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *outcome)
{
    struct node *node = node_edit(fsm, node_find_any(fsm, command->node_off->node_id));
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_OFF};

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_OFF);
    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    if (fsm_node_silent_since_ms(&node->view) == 0)
        return FSM_NODE_NOT_DOWN;
    event.subject = node->view.id;
    fsm_event_emit(fsm, &event);
    node->view.silent_since_ms = fsm_node_silent_since_ms(&node->view);
    node->view.off_at_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    if (node->removed || node->view.state == NODE(DOWN))
        return FSM_OK;
    if (node_failed(node, NODE(DOWN), false))
        fsm_learn_node_failed(fsm, node);
    node_set_state(fsm, node, NODE(DOWN));
    fsm_node_lost(fsm, node);
    fsm_node_changed(fsm, node);
    return FSM_OK;
}
