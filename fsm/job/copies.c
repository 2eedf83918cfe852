/* Where the parts of a checkpoint lie: each verified one at its target, and on nodes that keep a
 * copy of what they wrote.
 *
 * Flow     a shard that is verified lies at the checkpoint's target. An agent reports the copy that
 *          its node keeps, and that it dropped one. A copy is wanted as long as the job may start
 *          again on its node from it: of its newest whole checkpoint, and of the one that is being
 *          written, which may become that. What is wanted of a node is in its order set
 *          (fsm_copies_on_node); what the set does not name, its agent removes.
 * Shapes   a shard has up to FSM_SHARD_PLACES_MAX places; a copy's record is in the lists of its
 *          checkpoint and of its node, and is made anew from the places when a snapshot is read.
 * Errors   what an agent says of a copy that is not wanted, of another manifest, or beyond the
 *          limits changes nothing but that its node's order set is sent again: it removes the copy.
 * Absent   copies on nodes that did not write the part: a place may name any node, and a report
 *          the part, so that they need no new format.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#include <stdio.h>
#include <stdlib.h>

#define KIND(name) FSM_PLACE_##name

/* One node's copy of a shard. */
struct copy {
    struct list in_node, in_checkpoint;
    struct checkpoint *checkpoint;
    uint32_t part, node_slot;
};

/* Places are few: a look at all of them is cheaper than an order that is kept. */
static bool shard_lies_at(const struct fsm_shard *shard, uint64_t place)
{
    CHECK(shard->place_count <= FSM_SHARD_PLACES_MAX);
    for (uint32_t i = 0; i < shard->place_count; i++)
        if (shard->places[i] == place)
            return true;
    return false;
}

/* Places mean something of a verified shard alone: an attempt that failed left nothing to count
 * on. */
static void shard_add_place(struct fsm_shard *shard, uint64_t place)
{
    CHECK(shard->verified);
    CHECK(shard->place_count < FSM_SHARD_PLACES_MAX);
    shard->places[shard->place_count++] = place;
}

static void shard_remove_place(struct fsm_shard *shard, uint64_t place)
{
    uint32_t kept = 0;

    CHECK(shard_lies_at(shard, place));
    CHECK(shard->place_count <= FSM_SHARD_PLACES_MAX);
    for (uint32_t i = 0; i < shard->place_count; i++)
        if (shard->places[i] != place)
            shard->places[kept++] = shard->places[i];
    shard->places[kept] = 0;
    shard->place_count = kept;
}

/* ---- records of copies ---- */

/* The node's agent hears of it by its next order set; the slot stays the node's for as long. */
static void copy_link(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part,
                      uint32_t node_slot)
{
    struct node *node = node_edit(fsm, node_at(fsm, node_slot));
    struct copy *copy = check_calloc(1, sizeof(*copy));

    CHECK(part < checkpoint->view.shard_count);
    CHECK(node->copy_count < FSM_COPIES_PER_NODE_MAX);
    CHECK(checkpoint->shards[part].verified);
    copy->checkpoint = checkpoint;
    copy->part = part;
    copy->node_slot = node_slot;
    list_push_back(&node->copies, &copy->in_node);
    list_push_back(&checkpoint->copies, &copy->in_checkpoint);
    node->copy_count++;
    fsm_node_refer(fsm, node_slot);
    fsm_node_changed(fsm, node);
}

/* A removed node whose last name this was leaves by it. */
static void copy_unlink(struct fsm *fsm, struct copy *copy)
{
    struct node *node = node_edit(fsm, node_at(fsm, copy->node_slot));
    uint32_t node_slot = copy->node_slot;

    CHECK(node->copy_count > 0);
    CHECK(node->name_count > 0);
    node->copy_count--;
    list_remove(&copy->in_node);
    list_remove(&copy->in_checkpoint);
    free(copy);
    fsm_node_changed(fsm, node);
    fsm_node_unrefer(fsm, node_slot);
}

/* From the shard, from its node's list and from its checkpoint's: all three say the same. */
static void copy_remove(struct fsm *fsm, struct copy *copy)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, copy->checkpoint);

    shard_remove_place(&checkpoint->shards[copy->part],
                       fsm_place_make(KIND(NODE), copy->node_slot));
    copy_unlink(fsm, copy);
}

/* A node has few of them, a checkpoint may have thousands. */
static struct copy *copy_find(const struct fsm *fsm, const struct checkpoint *checkpoint,
                              uint32_t part, uint32_t node_slot)
{
    const struct node *node = node_at(fsm, node_slot);

    CHECK(checkpoint->view.id != 0);
    CHECK(part < checkpoint->view.shard_count);
    for (struct list *at = node->copies.next; at != &node->copies; at = at->next) {
        struct copy *copy = LIST_ITEM(at, struct copy, in_node);

        if (copy->checkpoint == checkpoint && copy->part == part)
            return copy;
    }
    return NULL;
}

/* ---- which are wanted ---- */

/* Parts keep their nodes' order most of the time, so the part's own place is looked at first. */
static bool job_has_node(const struct allocation *allocation, uint32_t part, uint32_t node_slot)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(view->id != NULL);
    if (part < view->node_count && view->nodes[part].node_slot == node_slot)
        return true;
    for (uint32_t i = 0; i < view->node_count; i++)
        if (view->nodes[i].node_slot == node_slot)
            return true;
    return false;
}

/* The newest whole one, and the one that may become it. What has expired is about to be removed at
 * its target, and its copies go before. Agents keep copies with the job that wrote them: of what
 * came from another job none is found. */
static bool checkpoint_wanted(const struct allocation *allocation,
                              const struct checkpoint *checkpoint)
{
    uint64_t id = checkpoint->view.id;

    CHECK(id != 0);
    return fsm_allocation_restartable(allocation) && !checkpoint->view.damaged &&
           !checkpoint->expired && !allocation->view.sensitive &&
           checkpoint->view.home[0] == '\0' &&
           (id == allocation->view.last_complete_id || id == allocation->view.active_checkpoint_id);
}

static bool copy_wanted(const struct allocation *allocation, const struct checkpoint *checkpoint,
                        uint32_t part, uint32_t node_slot)
{
    CHECK(part < checkpoint->view.shard_count);
    CHECK(checkpoint->view.allocation_slot == allocation->view.slot);
    return checkpoint_wanted(allocation, checkpoint) && job_has_node(allocation, part, node_slot);
}

/* Removing one leaves the rest of the list as it is, so the next one is found before. */
static void checkpoint_review(struct fsm *fsm, const struct allocation *allocation,
                              struct checkpoint *checkpoint)
{
    bool wanted = checkpoint_wanted(allocation, checkpoint);
    struct list *next;

    for (struct list *at = checkpoint->copies.next; at != &checkpoint->copies; at = next) {
        struct copy *copy = LIST_ITEM(at, struct copy, in_checkpoint);

        next = at->next;
        if (!wanted || !job_has_node(allocation, copy->part, copy->node_slot))
            copy_remove(fsm, copy);
    }
}

void fsm_copies_review(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next)
        checkpoint_review(fsm, allocation, LIST_ITEM(at, struct checkpoint, in_allocation));
}

void fsm_copies_forget(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    while (!list_empty(&checkpoint->copies))
        copy_remove(fsm, LIST_ITEM(checkpoint->copies.next, struct copy, in_checkpoint));
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        checkpoint->shards[i].place_count = 0;
        memset(checkpoint->shards[i].places, 0, sizeof(checkpoint->shards[i].places));
    }
}

/* A node that keeps a copy of the part and is there; NULL: none. */
static const struct node *part_keeper(const struct fsm *fsm, const struct fsm_shard *shard)
{
    CHECK(shard->place_count <= FSM_SHARD_PLACES_MAX);
    for (uint32_t i = 0; i < shard->place_count; i++) {
        const struct node *node =
            shard->places[i] >> 32 == KIND(NODE) ? node_at(fsm, (uint32_t)shard->places[i]) : NULL;

        if (node != NULL && !node->removed && !fsm_node_gone(&node->view))
            return node;
    }
    return NULL;
}

size_t fsm_copy_nodes(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      const char **ret_names, size_t max)
{
    const struct checkpoint *last = checkpoint_find(fsm, allocation->last_complete_id);

    CHECK(ret_names != NULL || max == 0);
    if (last == NULL || list_empty(&last->copies))
        return 0;
    for (uint32_t i = 0; i < last->view.shard_count && i < max; i++) {
        const struct node *node = part_keeper(fsm, &last->shards[i]);

        ret_names[i] = node == NULL ? NULL : node->view.id;
    }
    return last->view.shard_count;
}

bool fsm_copies_serve(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint)
{
    const struct fsm_allocation *job = &allocation_at(fsm, checkpoint->allocation_slot)->view;
    const struct checkpoint *whole = checkpoint_find(fsm, checkpoint->id);

    CHECK(whole != NULL);
    if (job->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN)
        return false;
    /* not by the count of copies: a part may have two, and another none */
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        if (part_keeper(fsm, &whole->shards[i]) == NULL)
            return false;
    return checkpoint->shard_count > 0;
}

/* ---- what is said of them ---- */

void fsm_copies_verified(const struct checkpoint *checkpoint, struct fsm_shard *shard)
{
    CHECK(shard->place_count == 0);
    shard_add_place(shard, fsm_place_make(KIND(TARGET), checkpoint->view.target_slot));
}

/* One event for the copies of a checkpoint and one for each that is lost: of a job of thousands of
 * nodes each report as an event would drive all others out of the list. */
static void copies_event(struct fsm *fsm, const struct checkpoint *checkpoint,
                         Ckpt__V1__EventKind kind, const struct fsm_event *of)
{
    struct fsm_event event = *of;

    CHECK(checkpoint->view.id != 0);
    event.kind = kind;
    event.allocation_id = allocation_at(fsm, checkpoint->view.allocation_slot)->view.id;
    event.checkpoint_id = checkpoint->view.id;
    fsm_event_emit(fsm, &event);
}

/* Counted anew: each part tells once. */
static bool all_parts_copied(const struct checkpoint *checkpoint)
{
    uint32_t count = 0;

    CHECK(checkpoint->view.id != 0);
    for (const struct list *at = checkpoint->copies.next; at != &checkpoint->copies; at = at->next)
        count++;
    return count >= checkpoint->view.shard_count;
}

void fsm_copies_kept(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part,
                     const struct node *node)
{
    const struct allocation *allocation = allocation_at(fsm, checkpoint->view.allocation_slot);
    uint64_t place = fsm_place_make(KIND(NODE), node->view.slot);
    struct fsm_shard *shard = &checkpoint->shards[part];

    CHECK(part < checkpoint->view.shard_count);
    if (!shard->verified || !copy_wanted(allocation, checkpoint, part, node->view.slot) ||
        shard->place_count == FSM_SHARD_PLACES_MAX || node->copy_count == FSM_COPIES_PER_NODE_MAX ||
        shard_lies_at(shard, place)) {
        fsm_node_changed(fsm, node); /* its agent hears that this one is not wanted */
        return;
    }
    shard_add_place(shard, place);
    copy_link(fsm, checkpoint, part, node->view.slot);
    if (all_parts_copied(checkpoint))
        copies_event(fsm, checkpoint, CKPT__V1__EVENT_KIND__EVENT_KIND_COPIES_KEPT,
                     &(struct fsm_event){.number = checkpoint->view.shard_count});
}

void fsm_copies_dropped(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part,
                        const struct node *node)
{
    struct copy *copy = copy_find(fsm, checkpoint, part, node->view.slot);
    char subject[FSM_ID_BYTES + FSM_DETAIL_BYTES];

    CHECK(node->view.id != NULL);
    if (copy == NULL)
        return;
    copy_remove(fsm, copy);
    snprintf(subject, sizeof(subject), "%s%s%s", node->view.id, fsm->detail == NULL ? "" : ": ",
             fsm->detail == NULL ? "" : fsm->detail);
    copies_event(fsm, checkpoint, CKPT__V1__EVENT_KIND__EVENT_KIND_COPY_DROPPED,
                 &(struct fsm_event){.subject = subject, .number = part});
}

/* ---- from a snapshot ---- */

/* What a snapshot says of a place is somebody else's word. */
static bool place_valid(const struct fsm *fsm, uint32_t target_slot, uint64_t place)
{
    uint32_t slot = (uint32_t)place;

    CHECK(target_slot < FSM_TARGETS_MAX);
    if (place >> 32 == KIND(TARGET))
        return slot == target_slot;
    return place >> 32 == KIND(NODE) && node_find_slot(fsm, slot) != NULL;
}

bool fsm_copies_valid(const struct fsm *fsm, uint32_t target_slot, const uint64_t *places,
                      size_t count)
{
    if (count > FSM_SHARD_PLACES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!place_valid(fsm, target_slot, places[i]))
            return false;
        for (size_t j = 0; j < i; j++)
            if (places[j] == places[i])
                return false;
    }
    return true;
}

/* More than a node may have are no state's: to go on with them would stop the program. */
bool fsm_copies_restore(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(list_empty(&checkpoint->copies));
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        for (uint32_t j = 0; j < shard->place_count; j++) {
            uint32_t slot = (uint32_t)shard->places[j];

            if (shard->places[j] >> 32 != KIND(NODE))
                continue;
            if (node_at(fsm, slot)->copy_count == FSM_COPIES_PER_NODE_MAX)
                return false;
            copy_link(fsm, checkpoint, i, slot);
        }
    }
    return true;
}

/* ---- what a node is to keep ---- */

size_t fsm_copies_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_copy *ret_copies,
                          size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    size_t count = 0;

    CHECK(ret_copies != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->copies.next; at != &node->copies && count < max;
         at = at->next) {
        const struct copy *copy = LIST_ITEM_CONST(at, struct copy, in_node);

        ret_copies[count++] = (struct fsm_copy){
            .allocation_id = allocation_at(fsm, copy->checkpoint->view.allocation_slot)->view.id,
            .checkpoint_id = copy->checkpoint->view.id,
            .part = copy->part};
    }
    return node->copy_count;
}

/* ---- rules ---- */

/* What a verified shard may say of where it lies, and that the lists say the same. NULL: all
 * holds. */
static const char *shard_broken(const struct fsm *fsm, const struct checkpoint *checkpoint,
                                uint32_t part)
{
    const struct allocation *allocation = allocation_at(fsm, checkpoint->view.allocation_slot);
    const struct fsm_shard *shard = &checkpoint->shards[part];
    bool at_target = false;

    CHECK(part < checkpoint->view.shard_count);
    CHECK(shard->place_count <= FSM_SHARD_PLACES_MAX);
    for (uint32_t i = 0; i < shard->place_count; i++) {
        uint32_t slot = (uint32_t)shard->places[i];

        if (shard->places[i] >> 32 == KIND(TARGET))
            at_target = slot == checkpoint->view.target_slot;
        else if (!copy_wanted(allocation, checkpoint, part, slot))
            return "I48 a copy is of what its job may start from";
        else if (copy_find(fsm, checkpoint, part, slot) == NULL)
            return "INDEX a copy is in its node's list";
    }
    return at_target == (shard->verified && !checkpoint->collected)
               ? NULL
               : "I48 a verified shard lies at its target";
}

const char *fsm_copies_broken(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const char *broken = NULL;

    CHECK(checkpoint->view.id != 0);
    CHECK(checkpoint->shards != NULL);
    for (uint32_t i = 0; i < checkpoint->view.shard_count && broken == NULL; i++)
        broken = shard_broken(fsm, checkpoint, i);
    return broken;
}

bool fsm_copies_counted(const struct node *node)
{
    uint32_t count = 0;

    CHECK(node->view.id != NULL);
    for (const struct list *at = node->copies.next; at != &node->copies; at = at->next) {
        const struct copy *copy = LIST_ITEM_CONST(at, struct copy, in_node);
        const struct fsm_shard *shard = &copy->checkpoint->shards[copy->part];

        CHECK(copy->node_slot == node->view.slot);
        if (!shard_lies_at(shard, fsm_place_make(KIND(NODE), copy->node_slot)))
            return false;
        count++;
    }
    return count == node->copy_count;
}
