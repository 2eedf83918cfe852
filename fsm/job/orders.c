/* What a node's agent must do, derived from the state and never stored: the complete set each time
 * (design "Effects are state").
 *
 * Flow     a checkpoint that is DISPATCHED or WRITING is an order for every node of it, until it
 *          leaves these states: paused, cancelled, timed out or complete means withdrawn. A
 *          terminate order stands until the node's part is done; the checkpoint order beside it
 *          stays during the grace after the walltime. Of a victim whose complete checkpoint is read
 *          once more the order stands as well: who has saved computes no further meanwhile. A part
 *          of a stopped job, or one that left its job, has one while it may run on: until its node
 *          has said that it ended.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

/* Counts beyond its room, so that a caller learns how much it would have needed. */
struct order_sink {
    struct fsm_order *orders;
    size_t max, count;
};

static void order_add(struct order_sink *sink, const struct fsm_order *order)
{
    if (sink->count < sink->max)
        sink->orders[sink->count] = *order;
    sink->count++;
}

/* The place of its shard, whoever takes that over later: while an attempt is under way the nodes
 * stay as they are, but for one that is lost. */
static uint32_t orders_part(const struct checkpoint *active, const struct assignment *part)
{
    const struct fsm_shard *shard = fsm_checkpoint_shard(
        active, part->share, part->allocation->view.nodes[part->share].node_slot);

    CHECK(active->view.id != 0);
    return shard == NULL ? part->share : (uint32_t)(shard - active->shards);
}

/* The timeout that is sent is the attempt's whole one, since agents count from the moment they
 * asked. What was put off in earlier attempts is taken off: an agent knows only this one. A hurried
 * checkpoint may not be put off any longer. */
static void orders_of(const struct fsm *fsm, const struct assignment *part, struct order_sink *sink)
{
    const struct allocation *allocation = part->allocation;
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);
    struct fsm_order order = {.allocation = &allocation->view,
                              .grace_ms = fsm_stop_grace_ms(fsm, allocation),
                              .run = allocation->view.nodes[part->share].run};

    if (active == NULL && allocation->view.next_count == 0) /* who shrinks goes on meanwhile */
        active = fsm_verify_held(fsm, allocation);
    if (active != NULL && (fsm_checkpoint_writes(active) || active->verification != NULL)) {
        order.kind = FSM_ORDER_CHECKPOINT;
        order.checkpoint = &active->view;
        order.part = orders_part(active, part);
        order.timeout_ms = active->view.timeout_ms;
        order.max_deferral_ms =
            active->hurried ? 0 : active->view.max_deferral_ms - active->view.deferred_before_ms;
        order.deferred_ms = active->view.deferred_ms - active->view.deferred_before_ms;
        order_add(sink, &order);
    }
    if ((allocation->view.terminating || part->leaving) && !part->terminated) {
        order.kind = FSM_ORDER_TERMINATE;
        order.checkpoint = NULL;
        order.timeout_ms = 0;
        order.max_deferral_ms = 0;
        order.deferred_ms = 0;
        order.reason = allocation->view.terminating ? allocation->view.terminate_reason
                                                    : CKPT__V1__REASON__REASON_PREEMPTED;
        order_add(sink, &order);
    }
}

/* Its job has stopped, or goes on without it, and nobody has said that this run ended there: the
 * order stands until the agent says so, and asks for its word also where nothing runs. */
static void order_of_unended(const struct fsm *fsm, const struct allocation *allocation,
                             uint64_t run, struct order_sink *sink)
{
    const struct fsm_order order = {.kind = FSM_ORDER_TERMINATE,
                                    .allocation = &allocation->view,
                                    .grace_ms = fsm_allocation_grace_ms(fsm, allocation),
                                    .reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                    .run = run};

    CHECK(allocation->view.id != NULL);
    order_add(sink, &order);
}

static void orders_of_unended(const struct fsm *fsm, const struct node *node,
                              struct order_sink *sink)
{
    CHECK(fsm_level(fsm) >= 2);
    for (const struct list *at = node->unended.next; at != &node->unended; at = at->next) {
        const struct assignment *part = LIST_ITEM_CONST(at, struct assignment, in_node);

        CHECK(fsm_part_unended(part));
        order_of_unended(fsm, part->allocation, part->allocation->view.nodes[part->share].run,
                         sink);
    }
    for (const struct list *at = node->departed.next; at != &node->departed; at = at->next) {
        const struct departed *departed = LIST_ITEM_CONST(at, struct departed, in_node);

        order_of_unended(fsm, departed->allocation, departed->run, sink);
    }
}

/* The list's order is the order in which jobs came to the node; agents look at the set as a whole,
 * so it means nothing. */
size_t fsm_orders_for_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_order *ret_orders,
                           size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    struct order_sink sink = {ret_orders, max, 0};

    CHECK(ret_orders != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->assignments.next; at != &node->assignments; at = at->next)
        orders_of(fsm, LIST_ITEM_CONST(at, struct assignment, in_node), &sink);
    if (fsm_level(fsm) >= 2)
        orders_of_unended(fsm, node, &sink);
    return sink.count;
}

/* The jobs that hold the node, in an order that means nothing. */
size_t fsm_allocations_on_node(const struct fsm *fsm, uint32_t node_slot, uint32_t *ret_slots,
                               size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    size_t count = 0;

    CHECK(ret_slots != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->assignments.next; at != &node->assignments && count < max;
         at = at->next) {
        const struct assignment *part = LIST_ITEM_CONST(at, struct assignment, in_node);

        ret_slots[count++] = part->allocation->view.slot;
    }
    return node->view.allocation_count;
}

/* A part that counts as done because its node was down is listed again when the node is back and
 * its order stands again. */
size_t fsm_parts_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_part *ret_parts,
                         size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    size_t count = 0;

    CHECK(ret_parts != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->assignments.next; at != &node->assignments; at = at->next) {
        const struct assignment *part = LIST_ITEM_CONST(at, struct assignment, in_node);

        if (part->terminated)
            continue;
        if (count < max)
            ret_parts[count] = fsm_begin_part(part);
        count++;
    }
    return count;
}
