/* Commands about nodes: seen (ready, degraded, down), remove, off. Rows F-006, F-007, S3-001,
 * S3-060. The states and their moves: node_life.c; drains: apply_drain.c. */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"

#include <malloc.h>

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

/* The node's allocations in the order of their slots: the list's order is history, slots are state.
 * All of them are held for writing, and collected first: what is done to one may take it off the
 * list. */
size_t fsm_node_allocations(struct fsm *fsm, const struct node *node, struct sort_item **ret_items)
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
    size_t count = fsm_node_allocations(fsm, node, &items);

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
    size_t count = fsm_node_allocations(fsm, node, &items);

    CHECK(node->view.id != NULL);
    for (size_t i = 0; i < count; i++) {
        struct allocation *allocation = items[i].item;
        struct assignment *part = fsm_allocation_part(allocation, node->view.slot);

        CHECK(part != NULL);
        if (part->away)
            fsm_terminate_again(fsm, allocation, part);
    }
}

/* Until level 2. A move is an event; being told the same again is none. */
static void node_set_state(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState state)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE,
                              .old_state = node->view.state,
                              .new_state = state,
                              .subject = node->view.id};

    CHECK(node->view.id != NULL);
    if (node->view.state == state)
        return;
    node->view.state = state;
    node->view.state_since_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    fsm_event_emit(fsm, &event);
}

/* A node that was gone may still run what was being ended there. */
void fsm_node_move(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState state)
{
    bool was_gone = fsm_node_gone(&node->view);

    CHECK(node->view.id != NULL);
    if (fsm_level(fsm) >= 2)
        fsm_node_live(fsm, node, state);
    else
        node_set_state(fsm, node, state);
    if (was_gone && !fsm_node_gone(&node->view))
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
    fsm_node_allocations(fsm, node, &items); /* holds them for writing */
}

/* Once per failure: one that is gone already, that was drained first, or that no agent ever
 * reported did not fail. A failure counts in the rates that the leader learns, so what was meant
 * must not be among them. */
static bool node_failed(const struct node *node, bool gone, bool rebooted)
{
    CHECK(node->view.id != NULL);
    return (gone || rebooted) &&
           (node->view.state == NODE(READY) || node->view.state == NODE(DEGRADED));
}

/* The contact that the leader tells, from level 2 on. A silence alone never makes a node DOWN
 * (S3-060, V-003), and what a witness said is not taken back by more silence. A drain says nothing
 * of whether its agent is heard; a hello has a boot id, also of a node that is drained. */
static Ckpt__Log__V1__NodeState node_contact_told(const struct node *node,
                                                  const Ckpt__Log__V1__NodeSeen *seen)
{
    const struct fsm_node *view = &node->view;
    bool witnessed = seen->state == NODE(DOWN) &&
                     seen->witness != CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED;

    CHECK(view->id != NULL);
    switch (seen->state) {
    case NODE(READY):
        return NODE(READY);
    case NODE(DEGRADED):
        return fsm_node_gone(view) ? view->state : NODE(DEGRADED);
    case NODE(DOWN):
    case NODE(AGENT_LOST):
        return witnessed || view->state == NODE(DOWN) ? NODE(DOWN) : NODE(AGENT_LOST);
    case NODE(DRAINING):
        return seen->boot_id[0] != '\0' ? NODE(READY) : fsm_node_contact(view);
    case NODE(UNSPECIFIED):
    case NODE(DRAINED):
    case NODE(DISABLED):
    case _CKPT__LOG__V1__NODE_STATE_IS_INT_SIZE:
        break;
    }
    return fsm_node_contact(view);
}

/* The second witness: from here on the machine is off, until its agent is heard. */
static void node_proven_off(struct fsm *fsm, struct node *node, Ckpt__V1__NodeWitness witness,
                            const char *evidence)
{
    char subject[ID_MAX_BYTES + 2 + FSM_DETAIL_BYTES];
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_OFF,
                                    .new_state = witness,
                                    .subject = subject};

    CHECK(node->view.id != NULL);
    CHECK(witness != CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED);
    snprintf(subject, sizeof(subject), "%s%s%s", node->view.id, evidence[0] == '\0' ? "" : ": ",
             evidence);
    fsm_event_emit(fsm, &event);
    node->view.silent_since_ms = fsm_node_silent_since_ms(&node->view);
    if (node->view.silent_since_ms == 0) /* a BMC speaks before the silence is noticed */
        node->view.silent_since_ms = fsm_max(fsm->now_ms, 1);
    node->view.off_at_ms = fsm_max(fsm->now_ms, 1);
    node->view.word_at_ms = 0;
    node->view.witness = witness;
    fsm_intern_set(fsm, &node->view.evidence, evidence);
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
}

/* Since when it is silent, and that no witness counts of a node that is heard. Until level 2 nobody
 * asks. */
static void node_hear(struct fsm *fsm, struct node *node, const Ckpt__Log__V1__NodeSeen *seen,
                      Ckpt__Log__V1__NodeState contact)
{
    struct fsm_node *view = &node->view;
    uint64_t heard_ms = seen->heard_ms != 0 ? seen->heard_ms : fsm->now_ms;

    CHECK(view->id != NULL);
    if (contact == NODE(READY)) {
        view->silent_since_ms = view->off_at_ms = view->word_at_ms = 0;
        view->witness = CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED;
        fsm_intern_set(fsm, &view->evidence, "");
    } else if (contact != NODE(UNSPECIFIED) && view->silent_since_ms == 0) {
        view->silent_since_ms = fsm_max(heard_ms < fsm->now_ms ? heard_ms : fsm->now_ms, 1);
    }
    if (contact == NODE(DOWN) && view->off_at_ms == 0 &&
        seen->witness != CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED)
        node_proven_off(fsm, node, seen->witness, seen->evidence);
    if (seen->probe[0] != '\0')
        fsm_intern_set(fsm, &view->probe, strcmp(seen->probe, "-") == 0 ? "" : seen->probe);
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

/* Its agent's words of itself. */
static void node_take_facts(struct fsm *fsm, struct node *node, const Ckpt__Log__V1__NodeSeen *seen)
{
    CHECK(node->view.id != NULL);
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
}

/* An agent's hello, or what the leader made of its silence. The state is set before the jobs are
 * ended, so that their parts count as done at once where the node is gone. A node that is only
 * heard of again keeps its jobs. */
enum fsm_status fsm_apply_node_seen(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NodeSeen *seen = command->node_seen;
    struct node *node = node_edit(fsm, node_find(fsm, seen->node_id));
    Ckpt__Log__V1__NodeState state = seen->state;
    bool rebooted, gone;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN);
    CHECK(outcome != NULL);
    if (node == NULL) {
        enum fsm_status status = node_appears(fsm, seen, outcome);

        if (status != FSM_OK)
            return status;
        node = fsm_node_make(fsm, seen->node_id);
        state = NODE(READY);
    } else if (fsm_level(fsm) >= 2) {
        fsm_node_adopt(fsm, node);
        state = node_contact_told(node, seen);
    }
    gone = state == NODE(DOWN) || state == NODE(AGENT_LOST);
    rebooted = node_rebooted(node, seen->boot_id);
    if (node_failed(node, gone, rebooted))
        fsm_learn_node_failed(fsm, node);
    else if (node->view.steady_since_ms == 0 && !gone)
        node->view.steady_since_ms = fsm->now_ms;
    node_take_facts(fsm, node, seen);
    if (fsm_level(fsm) >= 2)
        node_hear(fsm, node, seen, state);
    else if (node->view.state == NODE(DRAINING) && !gone)
        state = NODE(DRAINING); /* a drain outlives reconnections; it ends when the node is down */
    fsm_node_move(fsm, node, state);
    if (gone || rebooted)
        fsm_node_lost(fsm, node);
    if (rebooted) {
        fsm_unended_rebooted(fsm, node);
        fsm_departed_rebooted(fsm, node);
    }
    fsm_node_changed(fsm, node);
    return FSM_OK;
}

/* No agent speaks for it: one that is heard would bring the node back at once. Also a node that no
 * agent ever spoke for: somebody mistyped a name. */
static bool node_silent(const struct fsm_node *view)
{
    CHECK(view->id != NULL);
    return fsm_node_gone(view) || (view->boot_id[0] == '\0' && (view->state == NODE(UNSPECIFIED) ||
                                                                fsm_node_refusal(view) != FSM_OK));
}

/* Orders to read and to remove leave a node when it is lost. Until then its agent may carry them
 * out, also one that has never said which boot it is of. */
static bool node_works_for_others(const struct fsm *fsm, const struct node *node)
{
    CHECK(node->view.id != NULL);
    return !list_empty(&node->removals) ||
           (!list_empty(&node->verifications) && (fsm_level(fsm) >= 2 || node->name_count == 0));
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
    if (!node_silent(&node->view) || node_works_for_others(fsm, node))
        return FSM_NODE_NOT_DOWN;
    outcome->current = node->going_count;
    if (node->going_count > 0)
        return FSM_NODE_HAS_JOBS;
    CHECK(list_empty(&node->assignments));
    CHECK(list_empty(&node->removals));
    event.subject = node->view.id;
    fsm_event_emit(fsm, &event);
    fsm_node_changed(fsm, node);
    node->view.drain_until_ms = 0;
    fsm_timer_set(&fsm->timers, &node->timer, 0);
    node->removed = true;
    fsm_node_leave(fsm, node);
    return FSM_OK;
}

/* A witness whose word counts: what the node's jobs had there is gone, whatever its agent might
 * say. */
static void node_off(struct fsm *fsm, struct node *node, Ckpt__V1__NodeWitness witness,
                     const char *evidence)
{
    CHECK(node->view.id != NULL);
    node_proven_off(fsm, node, witness, evidence);
    if (node->removed || node->view.state == NODE(DOWN))
        return;
    if (node_failed(node, true, false))
        fsm_learn_node_failed(fsm, node);
    fsm_node_move(fsm, node, NODE(DOWN));
    fsm_node_lost(fsm, node);
    fsm_node_changed(fsm, node);
}

/* An operator has looked, and a BMC knows: their words count as soon as the agent is silent. A
 * scheduler may know no more than we do, so its word waits until the silence has lasted for
 * node_down_after. A BMC's word of a node that is heard waits for the first missed heartbeat: the
 * leader counts those (src/broker/health). */
enum fsm_status fsm_apply_node_off(struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NodeOff *off = command->node_off;
    struct node *node = node_edit(fsm, node_find_any(fsm, off->node_id));
    Ckpt__V1__NodeWitness witness = off->witness != CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED
                                        ? off->witness
                                        : CKPT__V1__NODE_WITNESS__NODE_WITNESS_OPERATOR;
    bool silent, waits;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_OFF);
    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    silent = fsm_node_silent_since_ms(&node->view) != 0;
    waits = !node->removed && (witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC
                                   ? !silent
                                   : witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER &&
                                         !fsm_node_gone(&node->view));
    if (!silent && !(waits && witness == CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC))
        return FSM_NODE_NOT_DOWN;
    if (!waits) {
        node_off(fsm, node, witness, off->evidence);
        return FSM_OK;
    }
    node->view.word_at_ms = fsm_max(fsm->now_ms, 1);
    node->view.witness = witness;
    fsm_intern_set(fsm, &node->view.evidence, off->evidence);
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    return FSM_OK;
}
