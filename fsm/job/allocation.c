/* Allocation records: their parts on nodes, their sums, their timer. Who decides that they move is
 * terminate.c and apply_*.c. */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* The id has a text of its own: a million ids are found by the map of allocations, and would only
 * fill the table of shared texts. */
struct allocation *fsm_allocation_create(struct fsm *fsm, uint32_t slot, const char *id)
{
    struct allocation *allocation = fsm_pool_take(&fsm->allocations, slot);
    uint32_t hash = fsm_hash_text(id);

    CHECK(fsm->allocations.used <= FSM_ALLOCATIONS_MAX);
    if (!list_empty(fsm->snapshots))
        fsm_save_empty_slot(fsm, slot);
    allocation->view.slot = slot;
    fsm_bitmap_set(&fsm->changed_allocations, slot);
    allocation->view.id = fsm_intern_alone(fsm, id, hash);
    RECORD_EMPTY_TEXTS(FSM_ALLOCATION_STATUS, fsm, &allocation->view);
    list_init(&allocation->checkpoints);
    list_init(&allocation->in_reads);
    allocation->timer.kind = TIMER_ALLOCATION;
    allocation->timer.key = slot;
    fsm_map_add(&fsm->allocation_map, hash, allocation);
    return allocation;
}

/* A node may be removed when no job that has not ended names it: that must be known without a walk
 * over all jobs. It is counted once, whatever says it: `going` keeps what was counted. */
void fsm_allocation_count_going(struct fsm *fsm, struct allocation *allocation, bool going)
{
    CHECK(allocation->view.id != NULL);
    if (allocation->going == going)
        return;
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct node *node = fsm_pool_at(&fsm->nodes, allocation->view.nodes[i].node_slot);

        CHECK(going || node->going_count > 0);
        node->going_count += going ? 1 : (uint32_t)-1;
    }
    allocation->going = going;
}

/* Shares name nodes by slot. Called when the shares are filled: slots of 0 would be counted
 * before. */
void fsm_allocation_name_nodes(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        fsm_node_refer(fsm, allocation->view.nodes[i].node_slot);
    fsm_allocation_count_going(fsm, allocation, fsm_allocation_goes_on(allocation));
    fsm_departed_return(fsm, allocation);
    fsm_copies_review(fsm, allocation);
}

/* A removed node whose last name this was leaves by it. */
static void allocation_unname_nodes(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    fsm_allocation_count_going(fsm, allocation, false);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        fsm_node_unrefer(fsm, allocation->view.nodes[i].node_slot);
}

static size_t parts_bytes(uint32_t count)
{
    return count * (sizeof(struct assignment) + sizeof(struct fsm_node_share));
}

static void parts_give(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    fsm_block_give(fsm->blocks, allocation->assignments, parts_bytes(allocation->view.node_count));
}

/* The map finds the record by its id, and its checkpoints find it by its slot: both are given back
 * last. */
void fsm_allocation_remove(struct fsm *fsm, struct allocation *allocation)
{
    struct target *target = target_edit(fsm, target_at(fsm, allocation->view.target_slot));
    uint32_t slot = allocation->view.slot;

    CHECK(!allocation->assigned);
    fsm_hold_allocation(fsm, allocation);
    while (!list_empty(&allocation->checkpoints))
        fsm_checkpoint_free(
            fsm, LIST_ITEM(allocation->checkpoints.next, struct checkpoint, in_allocation));
    fsm_timer_set(&fsm->timers, &allocation->timer, 0);
    fsm_allocation_forget(fsm, allocation);
    fsm_map_remove(&fsm->allocation_map, fsm_intern_hash(allocation->view.id), allocation);
    RECORD_RELEASE_TEXTS(FSM_ALLOCATION_SPEC, fsm, &allocation->view);
    RECORD_RELEASE_TEXTS(FSM_ALLOCATION_STATUS, fsm, &allocation->view);
    fsm_intern_release(fsm, allocation->view.id);
    fsm_scale_clear(fsm, allocation);
    fsm_unended_clear(fsm, allocation);
    fsm_departed_clear(fsm, allocation);
    allocation_unname_nodes(fsm, allocation);
    parts_give(fsm, allocation);
    fsm_pool_give(&fsm->allocations, slot);
    fsm_target_leave(fsm, target);
}

/* One block: the parts, then the shares. A job of one node, which most are, has one block of memory
 * less. Parts are linked into lists of their nodes by address: they cannot move while the job is
 * assigned. */
struct fsm_node_share *fsm_allocation_set_shares(struct fsm *fsm, struct allocation *allocation,
                                                 uint32_t count)
{
    size_t parts_size = count * sizeof(struct assignment);
    struct assignment *parts =
        memset(fsm_block_take(fsm->blocks, parts_bytes(count)), 0, parts_bytes(count));
    struct fsm_node_share *shares = (struct fsm_node_share *)(void *)((char *)parts + parts_size);

    CHECK(!allocation->assigned);
    CHECK(count <= FSM_NODES_PER_ALLOCATION_MAX);
    for (uint32_t i = 0; i < count; i++) {
        parts[i].allocation = allocation;
        parts[i].share = i;
        list_init(&parts[i].in_node);
    }
    fsm_unended_clear(fsm, allocation);
    allocation_unname_nodes(fsm, allocation);
    parts_give(fsm, allocation);
    allocation->assignments = parts;
    allocation->view.nodes = shares;
    allocation->view.node_count = count;
    allocation->terminated_count = 0;
    allocation->exited_count = 0;
    allocation->starting_count = 0;
    allocation->restored_count = 0;
    allocation->joined_count = 0;
    return shares;
}

struct fsm_node_share *fsm_allocation_shares(struct allocation *allocation)
{
    struct fsm_node_share *shares =
        (struct fsm_node_share *)(void *)(allocation->assignments + allocation->view.node_count);

    CHECK(allocation->view.id != NULL);
    CHECK(shares == allocation->view.nodes);
    return shares;
}

/* The runs of its parts begin here: of all, or of those that have none yet. The number of the
 * command is a clock that all members share and that never stands still: a later run has a higher
 * number, in a restored cluster by its epoch. */
void fsm_allocation_begin_runs(struct fsm *fsm, struct allocation *allocation, bool all)
{
    struct fsm_node_share *shares = fsm_allocation_shares(allocation);

    CHECK(allocation->view.id != NULL);
    CHECK(fsm->command_count >> CHECKPOINT_SEQUENCE_BITS == 0);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        if (!all && shares[i].run != 0)
            continue;
        shares[i].run = run_make(fsm->epoch, fsm->command_count);
        fsm_node_taken(fsm, node_at(fsm, shares[i].node_slot));
    }
}

/* The sums are read for each decision, and change with the shares alone. */
void fsm_allocation_sum_shares(struct allocation *allocation)
{
    struct fsm_allocation *view = &allocation->view;

    CHECK(allocation->view.id != NULL);
    view->gpu_count = 0;
    view->borrowed_count = 0;
    for (uint32_t i = 0; i < view->node_count; i++) {
        view->gpu_count += view->nodes[i].gpu_count;
        view->borrowed_count += view->nodes[i].borrowed;
    }
}

/* S1-004: used GPU memory, until a completed checkpoint taught better; then scaled with the nodes
 * (S1-080). old_count is 0 for a new job, which has nothing to be scaled. */
void fsm_allocation_estimate(struct allocation *allocation, uint32_t old_count)
{
    struct fsm_allocation *view = &allocation->view;
    uint64_t memory_bytes = 0;

    CHECK(allocation->view.id != NULL);
    if (view->complete_count > 0 && old_count > 0) {
        fsm_learn_nodes_changed(view, old_count);
        return;
    }
    for (uint32_t i = 0; i < view->node_count; i++)
        memory_bytes += view->nodes[i].gpu_memory_used_bytes;
    view->size_estimate_bytes = memory_bytes;
}

/* All nodes or none (I30): a job is in the lists of all its nodes from one command to the next. */
void fsm_allocation_assign(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(!allocation->assigned);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct node *node = node_edit(fsm, node_at(fsm, allocation->view.nodes[i].node_slot));

        list_push_back(&node->assignments, &allocation->assignments[i].in_node);
        node->view.allocation_count++;
        if (node->view.state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINED)
            fsm_node_adopt(fsm, node); /* it was to come there before the node was drained */
        fsm_node_changed(fsm, node);
    }
    allocation->assigned = true;
}

/* Ended jobs hold nothing, and are released once more when the whole state is freed. */
void fsm_allocation_release(struct fsm *fsm, struct allocation *allocation)
{
    if (!allocation->assigned)
        return;
    fsm_read_clear(fsm, allocation);
    fsm_allocation_changed(fsm, allocation);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct node *node = node_edit(fsm, node_at(fsm, allocation->view.nodes[i].node_slot));

        CHECK(node->view.allocation_count > 0);
        list_remove(&allocation->assignments[i].in_node);
        node->view.allocation_count--;
    }
    allocation->assigned = false;
}

/* All parts of a new run are to start; the counters of states follow when the job moves. */
void fsm_allocation_parts_start(struct fsm *fsm, struct allocation *allocation,
                                uint64_t checkpoint_id)
{
    const struct checkpoint *point = checkpoint_find(fsm, checkpoint_id);

    CHECK(allocation->view.id != NULL);
    fsm_read_clear(fsm, allocation);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        allocation->assignments[i].shard =
            point == NULL ? 0 : fsm_begin_shard_at(&allocation->view, i, &point->view);
        allocation->assignments[i].starting = true;
        allocation->assignments[i].restored = false;
        allocation->assignments[i].restored_as = 0;
        allocation->assignments[i].joined = false;
    }
    allocation->starting_count = allocation->view.node_count;
    allocation->restored_count = 0;
    allocation->joined_count = 0;
    allocation->view.restart_id = checkpoint_id;
}

/* The account changes its rate before the state does: what is held while a part starts is the
 * restart's. A job that is to stop stays in its state, since its end needs no running part. */
void fsm_allocation_part_starting(struct fsm *fsm, struct allocation *allocation,
                                  struct assignment *part, bool starting)
{
    CHECK(part != NULL);
    if (!starting)
        fsm_read_ended(fsm, allocation, part);
    if (part->starting == starting)
        return;
    part->starting = starting;
    if (starting)
        allocation->starting_count++;
    else
        allocation->starting_count--;
    CHECK(allocation->starting_count <= allocation->view.node_count);
    if (starting && allocation->starting_count == allocation->view.node_count) { /* in place */
        uint64_t discarded_ms;
        const struct fsm_checkpoint *point =
            fsm_begin_choose(fsm, &allocation->view, &discarded_ms);

        fsm_allocation_parts_start(fsm, allocation, point == NULL ? 0 : point->id);
        fsm_destination_discarded(fsm, allocation, discarded_ms);
        fsm_allocation_changed(fsm, allocation);
    }
    fsm_part_check(allocation, part);
    fsm_account_update(fsm, allocation);
    if (allocation->view.state !=
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP)
        fsm_allocation_go_on(fsm, allocation,
                             starting ? CKPT__V1__REASON__REASON_APPLICATION_EXITED
                                      : CKPT__V1__REASON__REASON_NONE);
}

/* The dispatcher derives the orders of these nodes anew. A job that holds no nodes has no
 * orders. */
void fsm_allocation_changed(struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; allocation->assigned && i < allocation->view.node_count; i++)
        fsm_node_changed(fsm, node_edit(fsm, node_at(fsm, allocation->view.nodes[i].node_slot)));
}
