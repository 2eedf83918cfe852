/* The present state as the first thing of a watch. See watch_current.h. */
#include "src/broker/api/watch_current.h"

#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"

#define KIND(name) CKPT__V1__EVENT_KIND__EVENT_KIND_##name

char *watch_path(const struct fsm *fsm, uint64_t checkpoint_id, char path[WATCH_PATH_BYTES])
{
    const struct fsm_checkpoint *checkpoint =
        checkpoint_id == 0 ? NULL : fsm_checkpoint_find(fsm, checkpoint_id);

    if (checkpoint == NULL || fsm_checkpoint_path(fsm, checkpoint, path, WATCH_PATH_BYTES) == 0)
        path[0] = '\0';
    return path;
}

void watch_current_begin(struct watch_current *current)
{
    *current = (struct watch_current){.stage = WATCH_BEGINS};
}

bool watch_current_left(const struct watch_current *current)
{
    return current->stage != WATCH_NOTHING;
}

static Ckpt__V1__Event *begin_event(struct watch_told *told, Ckpt__V1__EventKind kind)
{
    ckpt__v1__event__init(&told->event);
    told->event.kind = kind;
    told->event.current = true;
    return &told->event;
}

static void enter_stage(struct watch_current *current, enum watch_stage stage)
{
    current->stage = stage;
    current->slot = 0;
}

static bool tell_target(const struct fsm *fsm, uint32_t slot, struct watch_told *told)
{
    const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

    if (target == NULL)
        return false;
    begin_event(told, target->available ? KIND(TARGET_UP) : KIND(TARGET_DOWN))->subject =
        text_message(target->id);
    return true;
}

/* A node that is READY, or that nobody has heard of yet, needs no word: there are thousands. */
static bool tell_node(const struct fsm_node *node, struct watch_told *told)
{
    Ckpt__V1__Event *event;

    if (node == NULL || node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY ||
        node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED)
        return false;
    event = begin_event(told, node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINED
                                  ? KIND(NODE_DRAINED)
                                  : KIND(NODE_STATE));
    event->subject = text_message(node->id);
    event->old_state = event->new_state = (uint32_t)node->state;
    event->at_ms = node->state_since_ms;
    return true;
}

static bool has_ended(const struct fsm_allocation *job)
{
    return job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED ||
           job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED;
}

static bool tell_job(const struct fsm_allocation *job, const char *allocation_id,
                     struct watch_told *told)
{
    Ckpt__V1__Event *event;

    if (job == NULL ||
        (allocation_id[0] == '\0' ? has_ended(job) : strcmp(allocation_id, job->id) != 0))
        return false;
    event = begin_event(told, KIND(ALLOCATION_STATE));
    event->allocation_id = text_message(job->id);
    event->old_state = event->new_state = (uint32_t)job->state;
    event->reason = job->reason;
    event->at_ms = job->state_since_ms;
    return true;
}

static bool tell_checkpoint(const struct fsm *fsm, const struct fsm_allocation *job,
                            struct watch_told *told)
{
    const struct fsm_checkpoint *checkpoint =
        job == NULL || job->active_checkpoint_id == 0
            ? NULL
            : fsm_checkpoint_find(fsm, job->active_checkpoint_id);
    Ckpt__V1__Event *event;

    if (checkpoint == NULL)
        return false;
    event = begin_event(told, KIND(CHECKPOINT_STATE));
    event->allocation_id = text_message(job->id);
    event->checkpoint_id = checkpoint->id;
    event->old_state = event->new_state = (uint32_t)checkpoint->state;
    event->reason = checkpoint->reason;
    event->number = checkpoint->attempt;
    event->at_ms = checkpoint->state_since_ms;
    event->path = watch_path(fsm, checkpoint->id, told->path);
    return true;
}

static bool next_job(struct watch_current *current, const struct fsm *fsm,
                     const char *allocation_id, struct watch_told *told)
{
    if (current->slot >= fsm_allocation_slots(fsm)) {
        begin_event(told, KIND(CURRENT_END))->sequence = current->sequence;
        enter_stage(current, WATCH_NOTHING);
        return true;
    }
    if (tell_job(fsm_allocation_find_slot(fsm, current->slot), allocation_id, told)) {
        current->stage = WATCH_CHECKPOINT;
        return true;
    }
    current->slot++;
    return false;
}

bool watch_current_next(struct watch_current *current, const struct fsm *fsm,
                        const char *allocation_id, struct watch_told *ret_told)
{
    struct fsm_summary summary;

    switch (current->stage) {
    case WATCH_BEGINS:
        fsm_get_summary(fsm, &summary);
        CHECK(summary.next_event_sequence > 0);
        current->sequence = summary.next_event_sequence - 1;
        enter_stage(current, allocation_id[0] == '\0' ? WATCH_TARGETS : WATCH_JOBS);
        return false;
    case WATCH_TARGETS:
        if (current->slot < fsm_target_slots(fsm))
            return tell_target(fsm, current->slot++, ret_told);
        enter_stage(current, WATCH_NODES);
        return false;
    case WATCH_NODES:
        if (current->slot < fsm_node_slots(fsm))
            return tell_node(fsm_node_find_slot(fsm, current->slot++), ret_told);
        enter_stage(current, WATCH_JOBS);
        return false;
    case WATCH_JOBS:
        return next_job(current, fsm, allocation_id, ret_told);
    case WATCH_CHECKPOINT: /* of the job that was told just now */
        current->stage = WATCH_JOBS;
        return tell_checkpoint(fsm, fsm_allocation_find_slot(fsm, current->slot++), ret_told);
    case WATCH_NOTHING:
        break;
    }
    CHECK_UNREACHABLE("nothing is left to be told");
}
