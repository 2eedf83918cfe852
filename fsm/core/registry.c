/* Tables of records by id: checkpoints in one array sorted by id (ids only grow, so each is
 * appended), nodes, targets, allocations.
 *
 * Flow     a node or target that is removed while records name it stays in its slot, marked as
 *          removed, until the last of them has left; refer() and unrefer() count. Lists of nodes
 *          whose orders changed, and of jobs that changed, are collected here for the leader; they
 *          are no part of the state.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/node_life.h"

enum { REGISTRY_HOLES_MIN = 1024 };

/* Binary: the array has its holes in place, so that ids stay in order. */
size_t fsm_registry_search(const struct fsm *fsm, uint64_t id)
{
    size_t low = 0;
    size_t high = fsm->checkpoint_refs;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fsm->checkpoints[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void fsm_registry_add(struct fsm *fsm, struct checkpoint *checkpoint)
{
    size_t count = fsm->checkpoint_refs;

    CHECK(checkpoint->view.id != 0);
    CHECK(count == 0 || fsm->checkpoints[count - 1].id < checkpoint->view.id);
    if (count == fsm->checkpoint_capacity) {
        fsm->checkpoint_capacity = count == 0 ? 64 : count * 2;
        fsm->checkpoints =
            check_realloc(fsm->checkpoints, fsm->checkpoint_capacity, sizeof(*fsm->checkpoints));
    }
    fsm->checkpoints[count].id = checkpoint->view.id;
    fsm->checkpoints[count].checkpoint = checkpoint;
    fsm->checkpoint_refs++;
}

/* More than half of the array is freed by it, so its cost is spread over as many removals. */
static void registry_compact(struct fsm *fsm)
{
    size_t kept = 0;

    for (size_t i = 0; i < fsm->checkpoint_refs; i++)
        if (fsm->checkpoints[i].checkpoint != NULL)
            fsm->checkpoints[kept++] = fsm->checkpoints[i];
    fsm->checkpoint_refs = kept;
    fsm->checkpoint_holes = 0;
}

/* A snapshot at work knows checkpoints by their places, which stay as they are until it has
 * ended. */
void fsm_registry_remove(struct fsm *fsm, struct checkpoint *checkpoint)
{
    size_t i = fsm_registry_search(fsm, checkpoint->view.id);

    CHECK(checkpoint->view.id != 0);
    CHECK(i < fsm->checkpoint_refs);
    CHECK(fsm->checkpoints[i].checkpoint == checkpoint);
    fsm->checkpoints[i].checkpoint = NULL;
    fsm->checkpoint_holes++;
    if (list_empty(fsm->snapshots) && fsm->checkpoint_holes > REGISTRY_HOLES_MIN &&
        fsm->checkpoint_holes > fsm->checkpoint_refs / 2)
        registry_compact(fsm);
}

size_t fsm_registry_place(const struct fsm *fsm, uint64_t id)
{
    size_t i = fsm_registry_search(fsm, id);

    CHECK(i < fsm->checkpoint_refs);
    CHECK(fsm->checkpoints[i].id == id);
    return i;
}

const struct checkpoint *fsm_registry_next(const struct fsm *fsm, uint64_t after)
{
    size_t i = after == UINT64_MAX ? fsm->checkpoint_refs : fsm_registry_search(fsm, after + 1);

    while (i < fsm->checkpoint_refs && fsm->checkpoints[i].checkpoint == NULL)
        i++;
    return i < fsm->checkpoint_refs ? fsm->checkpoints[i].checkpoint : NULL;
}

bool fsm_node_is(const void *item, const char *key)
{
    CHECK(key != NULL);
    return strcmp(((const struct node *)item)->view.id, key) == 0;
}

/* Neither down nor to be emptied: whoever is given the node could run there. */
bool fsm_node_serves(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_at(fsm, slot);

    return !node->removed && !fsm_node_gone(&node->view) && fsm_node_refusal(&node->view) == FSM_OK;
}

void fsm_node_release_texts(struct fsm *fsm, const struct fsm_node *from)
{
    CHECK(from->id != NULL);
    RECORD_RELEASE_TEXTS(FSM_NODE, fsm, from);
    fsm_intern_release(fsm, from->id);
}

/* The number of the command tells this node from one that had the slot before. */
struct node *fsm_node_create(struct fsm *fsm, uint32_t slot, const char *id)
{
    struct node *node = fsm_pool_take(&fsm->nodes, slot);

    CHECK(id != NULL);
    CHECK(fsm->nodes.used <= FSM_NODES_MAX);
    if (!list_empty(fsm->snapshots))
        fsm_save_empty_node(fsm, slot);
    node->view.slot = slot;
    node->view.made = fsm->command_count;
    node->view.id = fsm_intern(fsm, id);
    RECORD_EMPTY_TEXTS(FSM_NODE, fsm, &node->view);
    node->view.state_since_ms = fsm->now_ms;
    list_init(&node->assignments);
    list_init(&node->unended);
    list_init(&node->departed);
    list_init(&node->removals);
    list_init(&node->verifications);
    list_init(&node->copies);
    node->timer.kind = TIMER_NODE;
    node->timer.key = slot;
    fsm_map_add(&fsm->node_map, fsm_hash_text(id), node);
    return node;
}

/* Nothing is known of it but the numbers that its reports had: an agent that kept its journal goes
 * on from there. */
static struct node *node_revive(struct fsm *fsm, struct node *node)
{
    CHECK(node->removed);
    CHECK(list_empty(&node->assignments));
    fsm_hold_node(fsm, node);
    RECORD_EMPTY_TEXTS(FSM_NODE, fsm, &node->view);
    node->view.made = fsm->command_count;
    node->view.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED;
    node->view.state_since_ms = fsm->now_ms;
    node->view.steady_since_ms = 0;
    node->view.failure_count = 0;
    node->view.silent_since_ms = 0;
    node->view.off_at_ms = 0;
    node->view.word_at_ms = 0;
    node->view.witness = CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED;
    node->view.wanted = CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED;
    node->view.leave = CKPT__LOG__V1__NODE_LEAVE__NODE_LEAVE_UNSPECIFIED;
    node->view.drain_until_ms = 0;
    node->removed = false;
    return node;
}

/* One that was removed and is still named comes back in its slot: its name would else be there
 * twice. */
struct node *fsm_node_make(struct fsm *fsm, const char *id)
{
    struct node *removed = fsm_map_find(&fsm->node_map, fsm_hash_text(id), fsm_node_is, id);

    if (removed != NULL)
        return node_revive(fsm, removed);
    return fsm_node_create(fsm, fsm_pool_free_slot(&fsm->nodes), id);
}

void fsm_node_refer(struct fsm *fsm, uint32_t slot)
{
    struct node *node = fsm_pool_at(&fsm->nodes, slot);

    node->name_count++;
}

void fsm_node_unrefer(struct fsm *fsm, uint32_t slot)
{
    struct node *node = fsm_pool_at(&fsm->nodes, slot);

    CHECK(node->name_count > 0);
    node->name_count--;
    fsm_node_leave(fsm, node);
}

void fsm_node_leave(struct fsm *fsm, struct node *node)
{
    if (!node->removed || node->name_count > 0)
        return;
    CHECK(node->going_count == 0);
    CHECK(list_empty(&node->assignments));
    CHECK(list_empty(&node->unended));
    CHECK(list_empty(&node->departed));
    CHECK(list_empty(&node->removals));
    CHECK(list_empty(&node->verifications));
    fsm_hold_node(fsm, node);
    fsm_map_remove(&fsm->node_map, fsm_hash_text(node->view.id), node);
    fsm_node_release_texts(fsm, &node->view);
    fsm_pool_give(&fsm->nodes, node->view.slot);
}

static void slot_queue_reach(struct slot_queue *queue, uint32_t slot)
{
    uint32_t capacity = queue->capacity == 0 ? 64 : queue->capacity;

    CHECK(queue->first == 0 || queue->last != 0);
    if (slot < queue->capacity)
        return;
    while (capacity <= slot)
        capacity *= 2;
    queue->next = check_realloc(queue->next, capacity, sizeof(*queue->next));
    queue->capacity = capacity;
}

/* A queue in which each node is once: a change of a thousand jobs on a node is one look at it.
 * First come, first served: no node waits for ever while others change. */
void fsm_node_changed(struct fsm *fsm, const struct node *node)
{
    struct slot_queue *queue = &fsm->changed_nodes;
    uint32_t slot = node->view.slot;

    CHECK(node->view.id != NULL);
    if (fsm_bitmap_get(&queue->queued, slot))
        return;
    fsm_bitmap_set(&queue->queued, slot);
    slot_queue_reach(queue, slot);
    queue->next[slot] = 0;
    if (queue->last != 0)
        queue->next[queue->last - 1] = slot + 1;
    else
        queue->first = slot + 1;
    queue->last = slot + 1;
}

bool fsm_take_changed_node(struct fsm *fsm, uint32_t *ret_node_slot)
{
    struct slot_queue *queue = &fsm->changed_nodes;

    CHECK(ret_node_slot != NULL);
    if (queue->first == 0)
        return false;
    *ret_node_slot = queue->first - 1;
    queue->first = queue->next[*ret_node_slot];
    if (queue->first == 0)
        queue->last = 0;
    fsm_bitmap_clear(&queue->queued, *ret_node_slot);
    return true;
}

void fsm_prefetch_allocation(const struct fsm *fsm, uint32_t slot)
{
    const char *at = fsm_pool_at(&fsm->allocations, slot);

    for (size_t i = 0; at != NULL && i < sizeof(struct fsm_allocation); i += FSM_LINE_BYTES)
        fsm_prefetch(at + i);
}

void fsm_prefetch_allocation_nodes(const struct fsm *fsm, uint32_t slot)
{
    const struct allocation *allocation = fsm_pool_at(&fsm->allocations, slot);

    if (allocation != NULL)
        fsm_prefetch(allocation->view.nodes);
}

/* The bits are handed over and cleared: what changes from now on is for the next time. */
uint64_t fsm_take_changed_allocations(struct fsm *fsm, uint32_t word)
{
    struct bitmap *changed = &fsm->changed_allocations;
    uint64_t bits;

    if (word >= changed->word_count)
        return 0;
    bits = changed->words[word];
    changed->words[word] = 0;
    return bits;
}

const struct target *target_find_any(const struct fsm *fsm, const char *id)
{
    CHECK(id != NULL);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL && strcmp(target->view.id, id) == 0)
            return target;
    }
    return NULL;
}

void fsm_target_release_texts(struct fsm *fsm, const struct fsm_target *from)
{
    CHECK(from->id != NULL);
    RECORD_RELEASE_TEXTS(FSM_TARGET_SPEC, fsm, from);
    fsm_intern_release(fsm, from->id);
}

struct target *fsm_target_create(struct fsm *fsm, uint32_t slot, const char *id)
{
    struct target *target = fsm_pool_take(&fsm->targets, slot);

    CHECK(id != NULL);
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    target->view.slot = slot;
    target->view.id = fsm_intern(fsm, id);
    RECORD_EMPTY_TEXTS(FSM_TARGET_SPEC, fsm, &target->view);
    target->view.available = true;
    target->view.since_ms = fsm->now_ms;
    target->view.made = fsm->command_count;
    list_init(&target->active);
    list_init(&target->line);
    list_init(&target->readers);
    target->timer.kind = TIMER_TARGET;
    target->timer.key = slot;
    return target;
}

void fsm_target_leave(struct fsm *fsm, struct target *target)
{
    if (!target->removed || target_named(target))
        return;
    fsm_target_release_texts(fsm, &target->view);
    fsm_pool_give(&fsm->targets, target->view.slot);
}

/* The configured bandwidth less staging, at most the measured one. */
uint64_t fsm_target_budget_when_up(const struct fsm_target *target)
{
    uint64_t share_ppm = FSM_PPM - fsm_min(target->staging_share_ppm, FSM_PPM);

    CHECK(target->id != NULL);
    uint64_t configured = (uint64_t)((__uint128_t)target->write_bytes_per_s * share_ppm / FSM_PPM);

    /* the measured bandwidth is without staging: no share is kept back once more */
    return target->measured_bytes_per_s > 0 ? fsm_min(configured, target->measured_bytes_per_s)
                                            : configured;
}

/* A budget that falls below what is granted excuses the difference until grants have come back:
 * nobody is stopped, and check.c still finds a grant that was never covered. */
void fsm_target_budget(struct target *target)
{
    struct fsm_target *view = &target->view;

    CHECK(target->view.id != NULL);
    view->budget_bytes_per_s = view->available ? fsm_target_budget_when_up(view) : 0;
    if (target->budgeted_bytes_per_s > view->budget_bytes_per_s)
        target->excused_bytes_per_s =
            fsm_max(target->excused_bytes_per_s, target->budgeted_bytes_per_s);
    else
        target->excused_bytes_per_s = 0;
}

bool fsm_allocation_is(const void *item, const char *key)
{
    CHECK(key != NULL);
    return strcmp(((const struct allocation *)item)->view.id, key) == 0;
}
