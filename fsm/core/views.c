/* What others may read: pointers into the state, valid until the next apply or restore. fsm.h says
 * what each function gives.
 *
 * Absent   copies of records: a reader looks at a million of them per cycle. Removed nodes and
 *          targets: nobody outside may begin anything with them; their names alone are shown.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <malloc.h>

static uint64_t oldest_paused_ms(const struct fsm *fsm)
{
    uint64_t oldest_ms = 0;

    /* all paused ones of a target were paused when it went down */
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL && target->view.paused_count > 0 &&
            (oldest_ms == 0 || target->view.since_ms < oldest_ms))
            oldest_ms = target->view.since_ms;
    }
    return oldest_ms;
}

void fsm_get_summary(const struct fsm *fsm, struct fsm_summary *ret_summary)
{
    struct fsm_summary summary = {
        .initialised = fsm->initialised,
        .cluster_id = fsm->cluster_id,
        .epoch = fsm->epoch,
        .now_ms = fsm->now_ms,
        .applied_index = fsm->index,
        .applied_term = fsm->term,
        .state_hash = fsm->state_hash,
        .command_count = fsm->command_count,
        .next_event_sequence = fsm->next_event_sequence,
        .allocation_count = fsm->allocations.used,
        .checkpoint_count = (uint32_t)(fsm->checkpoint_refs - fsm->checkpoint_holes),
        .oldest_paused_since_ms = oldest_paused_ms(fsm),
        .past_request_count = fsm->past_request_count,
    };

    CHECK(ret_summary != NULL);
    RECORD_COPY(FSM_COUNTERS, fsm, &summary);
    summary.hung_count = fsm->hung_count;
    memcpy(summary.allocations_by_state, fsm->allocations_by_state,
           sizeof(summary.allocations_by_state));
    memcpy(summary.checkpoints_by_state, fsm->checkpoints_by_state,
           sizeof(summary.checkpoints_by_state));
    memcpy(summary.checkpoints_total, fsm->checkpoints_total, sizeof(summary.checkpoints_total));
    *ret_summary = summary;
}

const Ckpt__V1__Policy *fsm_policy(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return &fsm->policy;
}

uint32_t fsm_allocation_slots(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->allocations.slot_end;
}

const struct fsm_allocation *fsm_allocation_at(const struct fsm *fsm, uint32_t slot)
{
    CHECK(fsm != NULL);
    return &allocation_at(fsm, slot)->view;
}

const struct fsm_allocation *fsm_allocation_find_slot(const struct fsm *fsm, uint32_t slot)
{
    const struct allocation *allocation = allocation_find_slot(fsm, slot);

    return allocation == NULL ? NULL : &allocation->view;
}

/* A run above the part's own counts as well: the state was restored from a backup then, and what
 * runs was begun after it. */
bool fsm_part_awaits(const struct fsm_allocation *view, uint32_t node_slot, uint64_t run)
{
    const struct allocation *allocation = (const struct allocation *)(const void *)view;
    const struct assignment *part = fsm_allocation_part(allocation, node_slot);

    return part != NULL && part->starting && !part->exited && !part->leaving &&
           !view->terminating && fsm_allocation_runs(allocation) &&
           run >= view->nodes[part->share].run;
}

const struct fsm_allocation *fsm_allocation_find(const struct fsm *fsm, const char *id)
{
    const struct allocation *allocation = allocation_find(fsm, id);

    return allocation == NULL ? NULL : &allocation->view;
}

uint32_t fsm_node_slots(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->nodes.slot_end;
}

/* A removed one is named by records of what has ended alone, for which fsm_node_name() is meant. */
const struct fsm_node *fsm_node_at(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_at(fsm, slot);

    CHECK(!node->removed);
    return &node->view;
}

const struct fsm_node *fsm_node_find_slot(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_find_slot(fsm, slot);

    return node == NULL || node->removed ? NULL : &node->view;
}

const char *fsm_node_name(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_find_slot(fsm, slot);

    return node == NULL ? "" : node->view.id;
}

const struct fsm_node *fsm_node_find(const struct fsm *fsm, const char *id)
{
    const struct node *node = node_find(fsm, id);

    return node == NULL ? NULL : &node->view;
}

uint32_t fsm_target_slots(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->targets.slot_end;
}

const struct fsm_target *fsm_target_at(const struct fsm *fsm, uint32_t slot)
{
    const struct target *target = target_at(fsm, slot);

    CHECK(!target->removed);
    return &target->view;
}

uint32_t fsm_target_records(const struct fsm *fsm, uint32_t slot)
{
    return target_at(fsm, slot)->checkpoint_count;
}

const struct fsm_target *fsm_target_find_slot(const struct fsm *fsm, uint32_t slot)
{
    const struct target *target = target_find_slot(fsm, slot);

    return target == NULL || target->removed ? NULL : &target->view;
}

const char *fsm_target_name(const struct fsm *fsm, uint32_t slot)
{
    const struct target *target = target_find_slot(fsm, slot);

    return target == NULL ? "" : target->view.id;
}

const struct fsm_target *fsm_target_find(const struct fsm *fsm, const char *id)
{
    const struct target *target = target_find(fsm, id);

    return target == NULL ? NULL : &target->view;
}

size_t fsm_queue_count(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->queue_count;
}

void fsm_queue_at(const struct fsm *fsm, size_t i, struct fsm_queue *ret_queue)
{
    const Ckpt__V1__ReportQueueRequest *report;

    CHECK(fsm != NULL);
    CHECK(ret_queue != NULL);
    CHECK(i < fsm->queue_count);
    report = fsm->queues[i].report;
    ret_queue->vcluster = fsm->queues[i].vcluster;
    ret_queue->reported_at_ms = fsm->queues[i].reported_at_ms;
    ret_queue->queued_gpu_ms = report->queued_gpu_ms;
    ret_queue->running_gpu_ms = report->running_gpu_ms;
    ret_queue->waiting_count = report->n_waiting;
    ret_queue->waiting = (const Ckpt__V1__WaitingJob *const *)report->waiting;
}

const struct fsm_checkpoint *fsm_checkpoint_find(const struct fsm *fsm, uint64_t id)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, id);

    return checkpoint == NULL ? NULL : &checkpoint->view;
}

const struct fsm_checkpoint *fsm_checkpoint_next(const struct fsm *fsm, uint64_t after)
{
    const struct checkpoint *checkpoint = fsm_registry_next(fsm, after);

    return checkpoint == NULL ? NULL : &checkpoint->view;
}

/* From the beginning each time: the list is short (FSM_CHECKPOINTS_PER_ALLOCATION_MAX). */
const struct fsm_checkpoint *fsm_checkpoint_next_of(const struct fsm *fsm, uint32_t allocation_slot,
                                                    uint64_t after)
{
    const struct allocation *allocation = allocation_find_slot(fsm, allocation_slot);

    if (allocation == NULL)
        return NULL;
    for (struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, in_allocation);

        if (checkpoint->view.id > after)
            return &checkpoint->view;
    }
    return NULL;
}

/* A text that is filled as far as there is room, and its length as if there were enough. */
struct path {
    char *text;
    size_t size, length;
};

static void path_add(struct path *path, const char *text)
{
    size_t length = strlen(text);

    if (path->length + length < path->size)
        memcpy(path->text + path->length, text, length + 1);
    path->length += length;
}

/* What names a folder: of a checkpoint's record, or of what is left when that has gone. One that
 * went over to another job stays in the folder of the one that wrote it: no byte moves. */
struct folder {
    uint32_t target_slot;
    const char *tenant, *project, *allocation_id;
    uint64_t checkpoint_id; /* 0: that of all checkpoints of the job */
};

/* Each part is an id, which never has a slash; the target's prefix alone may have some. */
static size_t folder_path(const struct fsm *fsm, const struct folder *folder, char *ret_path,
                          size_t size)
{
    struct path path = {ret_path, size, 0};
    char id[CHECKPOINT_ID_TEXT_BYTES];

    path_add(&path, target_at(fsm, folder->target_slot)->view.prefix);
    if (path.length == 0 || path.length >= size || ret_path[path.length - 1] != '/')
        path_add(&path, "/"); /* "/" and "s3://" end in one */
    path_add(&path, folder->tenant);
    path_add(&path, "/");
    path_add(&path, folder->project);
    path_add(&path, "/");
    path_add(&path, folder->allocation_id);
    path_add(&path, "/checkpoints");
    if (folder->checkpoint_id != 0) {
        path_add(&path, "/");
        path_add(&path, checkpoint_id_format(folder->checkpoint_id, id));
    }
    return path.length < size ? path.length : 0;
}

size_t fsm_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                           char *ret_path, size_t size)
{
    const struct fsm_allocation *view = &allocation_at(fsm, checkpoint->allocation_slot)->view;
    struct folder folder = {checkpoint->target_slot, view->tenant, view->project,
                            checkpoint->home[0] == '\0' ? view->id : checkpoint->home,
                            checkpoint->id};

    CHECK(ret_path != NULL);
    CHECK(checkpoint->id != 0);
    return folder_path(fsm, &folder, ret_path, size);
}

size_t fsm_checkpoints_path(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            const struct fsm_target *target, char *ret_path, size_t size)
{
    struct folder folder = {target->slot, allocation->tenant, allocation->project, allocation->id,
                            0};

    CHECK(ret_path != NULL);
    CHECK(allocation->id != NULL);
    return folder_path(fsm, &folder, ret_path, size);
}

size_t fsm_undeleted_path(const struct fsm *fsm, const struct fsm_undeleted *undeleted,
                          char *ret_path, size_t size)
{
    struct folder folder = {undeleted->target_slot, undeleted->tenant, undeleted->project,
                            undeleted->allocation_id, undeleted->checkpoint_id};

    CHECK(fsm != NULL);
    CHECK(ret_path != NULL);
    CHECK(undeleted->checkpoint_id != 0);
    return folder_path(fsm, &folder, ret_path, size);
}

/* What was collected meanwhile, or does not expire, has no path here: a collector that comes late
 * removes nothing. */
size_t fsm_collectable_path(const struct fsm *fsm, uint64_t id, uint32_t *ret_target_slot,
                            char *ret_path, size_t size)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, id);
    const struct fsm_undeleted *undeleted = fsm_undeleted_find(fsm, id);

    CHECK(ret_target_slot != NULL);
    CHECK(ret_path != NULL);
    if (checkpoint != NULL && checkpoint->expired && !checkpoint->collected) {
        *ret_target_slot = checkpoint->view.target_slot;
        return fsm_checkpoint_path(fsm, &checkpoint->view, ret_path, size);
    }
    if (checkpoint != NULL || undeleted == NULL)
        return 0;
    *ret_target_slot = undeleted->target_slot;
    return fsm_undeleted_path(fsm, undeleted, ret_path, size);
}

uint64_t fsm_next_deadline_ms(const struct fsm *fsm)
{
    const struct timer *timer = fsm_timer_first(&fsm->timers);

    if (fsm->retention_review != 0)
        return fsm->now_ms;
    return timer == NULL ? UINT64_MAX : timer->at_ms;
}

enum { LOOKED_AT_MAX = 4096 }; /* the oldest: most of those that write are among them */

static const struct checkpoint *queued_checkpoint(const struct list *at)
{
    return LIST_ITEM_CONST(at, struct checkpoint, queue);
}

/* Estimated: the job's size, less what its grant would have written since the dispatch. */
uint64_t fsm_target_writing_bytes(const struct fsm *fsm, uint32_t slot, uint64_t now_ms)
{
    const struct target *target = target_find_slot(fsm, slot);
    uint64_t bytes = 0;
    size_t looked = 0;

    if (target == NULL)
        return 0;
    for (const struct list *at = target->active.next;
         at != &target->active && looked < LOOKED_AT_MAX; at = at->next, looked++) {
        const struct checkpoint *checkpoint = queued_checkpoint(at);
        const struct fsm_checkpoint *view = &checkpoint->view;
        uint64_t size_bytes = allocation_at(fsm, view->allocation_slot)->view.size_estimate_bytes;
        uint64_t passed_ms = now_ms - fsm_min(now_ms, view->dispatched_at_ms);
        uint64_t written = fsm_multiply(view->granted_bytes_per_s, passed_ms) / 1000;

        if (fsm_checkpoint_writes(checkpoint))
            bytes = fsm_add(bytes, size_bytes - fsm_min(size_bytes, written));
    }
    return bytes;
}

/* Of those that write to it; of the first ones alone when they are many. */
static uint64_t target_rate(const struct fsm *fsm, uint32_t slot,
                            bool (*counts)(const struct fsm *, const struct checkpoint *),
                            uint32_t *ret_parts)
{
    const struct target *target = target_find_slot(fsm, slot);
    uint64_t bytes_per_s = 0;
    size_t looked = 0;

    *ret_parts = 0;
    if (target == NULL)
        return 0;
    for (const struct list *at = target->active.next;
         at != &target->active && looked < LOOKED_AT_MAX; at = at->next, looked++) {
        const struct checkpoint *checkpoint = queued_checkpoint(at);

        if (!counts(fsm, checkpoint))
            continue;
        bytes_per_s = fsm_add(bytes_per_s, checkpoint->view.granted_bytes_per_s);
        *ret_parts += checkpoint->view.shard_count;
    }
    return bytes_per_s;
}

/* Only where a node has said that it began: others hold bandwidth and use none yet. */
static bool has_begun(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(fsm != NULL);
    return checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;
}

uint64_t fsm_target_writing_rate(const struct fsm *fsm, uint32_t slot)
{
    uint32_t ignored;

    return target_rate(fsm, slot, has_begun, &ignored);
}

/* From the dispatch on, and not only when a node has said that it began: the bandwidth is held
 * while the application is asked. */
static bool is_unproven(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    return fsm_checkpoint_writes(checkpoint) &&
           fsm_allocation_unproven(&allocation_at(fsm, checkpoint->view.allocation_slot)->view);
}

uint64_t fsm_target_unproven_rate(const struct fsm *fsm, uint32_t slot, uint32_t *ret_parts)
{
    return target_rate(fsm, slot, is_unproven, ret_parts);
}
