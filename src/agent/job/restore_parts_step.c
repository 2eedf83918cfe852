/* The shards that a part of a job needs of a checkpoint, brought or verified one after the other.
 * See restore_step.h.
 *
 * Shapes   restore own: the shard of this part. All: those of all parts, each in a folder of its
 *          own. Path: the parts verify all shards together, where they lie.
 * Errors   a shard that is not there, or is not what was recorded, is told to the state: all parts
 *          choose again. A destination that is away is tried again. A point that leaves out where
 *          the shards lie, or the sum of one, is refused: nothing tells then which files are right.
 */
#include <stdio.h>
#include <string.h>

#include "src/agent/job/reconcile.h"
#include "src/agent/job/restore_point_step.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"

enum {
    WORKER_REFUSALS_MAX = 3, /* a worker of the agent before may not have ended yet */
    AWAY_TRIES_MAX = 30      /* with a place in line: others may be able to read there */
};

/* ---- the choice ---- */

/* With all parts it is the same at each place, and a part's own stays the same at another one. */
bool restore_is_of(const struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const struct restore_brought *brought = &restore->brought;

    CHECK(!restore_state_works(restore->state));
    if (brought->checkpoint_id == 0 || brought->checkpoint_id != point->checkpoint_id)
        return false;
    if (brought->mode == MODE(PATH))
        return brought->place == restore->place && brought->places == point->n_node_ids;
    return brought->mode == MODE(ALL) || brought->own_shard == point->own_shard;
}

/* The parts verify all shards together; each reads what it wants where it lies. */
static void choose_path(struct restore_brought *brought)
{
    CHECK(brought->places > 0);
    CHECK(brought->place < brought->places);
    brought->folder[0] = '\0';
    snprintf(brought->lies_at, sizeof(brought->lies_at), "%s", brought->path);
    for (size_t i = brought->place; i < brought->parts; i += brought->places)
        brought->part_count++;
}

/* The state chose it when the run began: no other part restores it. */
static void choose_own(struct restore_brought *brought, const Ckpt__V1__ShardInfo *shard)
{
    char name[PART_NAME_BYTES];

    CHECK(brought->own_shard != 0);
    brought->part_count = 1;
    snprintf(brought->lies_at, sizeof(brought->lies_at), "%s/%s", brought->path,
             part_name_format(shard->part, name));
}

/* The sum of each shard that this part needs; they are counted as well. */
static bool names_sums(const struct restore_stepping *step)
{
    struct restore_brought *brought = &step->restore->brought;

    CHECK(brought->part_next == 0);
    for (size_t i = 0; i < brought->part_count; i++) {
        const Ckpt__V1__ShardInfo *shard = restore_shard(step->restore, step->facts->point, i);

        if (shard->manifest_sha256[0] == '\0')
            return false;
        brought->size_bytes += shard->size_bytes;
    }
    return true;
}

/* A member of an earlier version leaves out what it does not know, as does an incomplete record. */
static bool point_incomplete(const Ckpt__V1__RestartPoint *point)
{
    CHECK(point->checkpoint_id != 0);
    return point->path[0] == '\0' || point->n_shards == 0;
}

/* False: it cannot be, and the restore is over. */
static bool choose_parts(const struct restore_stepping *step)
{
    struct restore_brought *brought = &step->restore->brought;
    const Ckpt__V1__RestartPoint *point = step->facts->point;

    CHECK(brought->part_count == 0 && brought->part_next == 0);
    if (brought->mode == MODE(PATH)) {
        choose_path(brought);
        return true;
    }
    if (brought->mode == MODE(ALL) && brought->parts <= RESTORE_ALL_PARTS_MAX) {
        brought->part_count = brought->parts;
        snprintf(brought->lies_at, sizeof(brought->lies_at), "%s", brought->path);
        return true;
    }
    if (brought->mode != MODE(ALL) && brought->own_shard != 0 &&
        brought->own_shard <= brought->parts) {
        choose_own(brought, point->shards[brought->own_shard - 1]);
        return true;
    }
    restore_over(step, brought->mode == MODE(ALL) ? OVER_TOO_MANY : OVER_NO_SHARD);
    return false;
}

/* ---- one after the other ---- */

static void say_found(const struct restore_stepping *step)
{
    CHECK(step->restore->brought.have != RESTORE_LACKS);
    restore_add(step, RESTORE_DO_FOUND);
}

void restore_ready(const struct restore_stepping *step)
{
    CHECK(step->restore->brought.have == RESTORE_HAS);
    CHECK(step->restore->begin == BEGIN(MAY));
    restore_over(step, OVER_RESTORED);
}

/* All that this part needs of it is here and verified. The next run has a word of its own on what
 * it begins from. */
static void complete_parts(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;

    CHECK(restore->brought.part_next == restore->brought.part_count);
    if (reconcile_run_over(step->facts->orders, restore->asked.allocation_id, restore->run)) {
        restore_pause(step, RESTORE_RETRY_MS);
        return;
    }
    restore->brought.have = RESTORE_HAS;
    if (restore->begin == BEGIN(MAY)) {
        restore_leave_line(step);
        restore_ready(step);
        return;
    }
    restore->turn.reads_id = 0; /* the state takes its place back by that word */
    say_found(step);
    restore_hold(step);
}

static void read_next(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;
    struct restore_brought *brought = &restore->brought;
    const Ckpt__V1__ShardInfo *shard;

    CHECK(restore->state == RESTORE_READING);
    if (brought->part_next == brought->part_count) {
        complete_parts(step);
        return;
    }
    shard = restore_shard(restore, step->facts->point, brought->part_next);
    if (restore_lacks_place(step, shard)) {
        restore_pause(step, 0); /* it says that it wants to read, and waits */
        return;
    }
    brought->by_copy = restore->turn.read == READ(ASK);
    restore_add(step, RESTORE_DO_READ);
}

static void note_since(const struct restore_stepping *step)
{
    CHECK(step->restore->brought.checkpoint_id != 0);
    if (step->restore->since_ms == 0)
        step->restore->since_ms = step->facts->wall_ms;
}

void restore_take_started(const struct restore_stepping *step)
{
    CHECK(step->restore->state == RESTORE_READING);
    note_since(step);
    restore_add(step, RESTORE_DO_LOOK_LATER);
}

void restore_bring(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    struct restore *restore = step->restore;
    struct restore_brought *brought = &restore->brought;
    bool unusable = brought->copy_unusable && brought->checkpoint_id == point->checkpoint_id;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(point->checkpoint_id != 0);
    *brought = (struct restore_brought){.checkpoint_id = point->checkpoint_id,
                                        .mode = restore_mode(restore, point),
                                        .place = restore->place,
                                        .places = (uint32_t)point->n_node_ids,
                                        .own_shard = point->own_shard,
                                        .parts = (uint32_t)point->n_shards,
                                        .snapshot_at_ms = point->snapshot_at_ms,
                                        .copy_unusable = unusable};
    snprintf(brought->label, sizeof(brought->label), "%s", point->label);
    snprintf(brought->path, sizeof(brought->path), "%s", point->path);
    snprintf(brought->target_prefix, sizeof(brought->target_prefix), "%s", point->target_prefix);
    snprintf(brought->folder, sizeof(brought->folder), "%s/restore/%s", restore->asked.work_dir,
             checkpoint_id_format(brought->checkpoint_id, id));
    if (point_incomplete(point)) {
        restore_over(step, OVER_INCOMPLETE);
        return;
    }
    if (!choose_parts(step))
        return;
    if (!names_sums(step)) {
        restore_over(step, OVER_INCOMPLETE);
        return;
    }
    if (!restore_may_read(step))
        return;
    restore_move_to(step, RESTORE_READING);
    read_next(step);
}

/* ---- its worker has ended ---- */

/* A shard is not there or is not what was recorded: all parts choose again, by the state. */
static void take_damage(const struct restore_stepping *step, const char *text)
{
    struct restore_brought *brought = &step->restore->brought;
    const Ckpt__V1__ShardInfo *shard =
        restore_shard(step->restore, step->facts->point, brought->part_next);
    char whole[2 * RESTORE_TEXT_BYTES], name[PART_NAME_BYTES];

    CHECK(brought->checkpoint_id != 0);
    brought->have = RESTORE_DAMAGED;
    snprintf(whole, sizeof(whole), "%s (written on %.128s): %s",
             part_name_format(shard->part, name), shard->node_id, text);
    words_cut(whole, brought->damage, sizeof(brought->damage));
    say_found(step);
    restore_hold(step);
}

/* The files there are not those that the broker wrote, and somebody must see to it: no try of ours
 * changes that. */
static void take_refusal(const struct restore_stepping *step)
{
    CHECK(step->restore->worker_refusals < WORKER_REFUSALS_MAX);
    if (++step->restore->worker_refusals < WORKER_REFUSALS_MAX) {
        restore_pause(step, RESTORE_STORAGE_RETRY_MS);
        return;
    }
    restore_leave_line(step);
    restore_over(step, OVER_UNREADABLE);
}

/* The destination is away: the checkpoint is neither lost nor damaged. */
static void take_away(const struct restore_stepping *step, const struct restore_why *why)
{
    struct restore *restore = step->restore;

    CHECK(why->reason != CKPT__V1__REASON__REASON_NONE);
    note_since(step);
    restore->away = *why;
    restore_say(step, SAYS_AWAY);
    if (++restore->away_count % AWAY_TRIES_MAX == 0)
        restore_leave_line(step);
    restore_pause(step, RESTORE_STORAGE_RETRY_MS);
}

/* The use that the worker made of the node's own copy, if it was given one. */
static void take_copy(const struct restore_stepping *step, enum restore_copy copy)
{
    CHECK(copy <= RESTORE_COPY_FAILED);
    if (copy == RESTORE_COPY_NOT_GIVEN)
        return;
    step->restore->brought.from_copy = copy == RESTORE_COPY_USED;
    if (copy == RESTORE_COPY_USED)
        restore_add(step, RESTORE_DO_COUNT_COPY);
    else
        restore_add(step, RESTORE_DO_COPY_FAILED)->number = step->restore->brought.part_next;
}

static void take_part(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;

    CHECK(restore->brought.part_next < restore->brought.part_count);
    restore->away_count = 0;
    restore->since_ms = 0;
    restore->away.reason = CKPT__V1__REASON__REASON_NONE;
    restore->brought.part_next++;
    read_next(step);
}

void restore_take_read(const struct restore_stepping *step, const struct restore_event *event)
{
    struct restore *restore = step->restore;

    CHECK(restore->brought.part_next < restore->brought.part_count);
    restore_add(step, RESTORE_DO_LOOK_END);
    if (restore->state == RESTORE_DROPPING) {
        restore_pause(step, 0);
        return;
    }
    take_copy(step, event->copy);
    if (event->end == RESTORE_WELL) {
        take_part(step);
        return;
    }
    if (restore->brought.by_copy) { /* the target has it as well */
        restore->brought.copy_unusable = true;
        restore_pause(step, 0);
        return;
    }
    restore_add(step, RESTORE_DO_WARN);
    switch (event->end) {
    case RESTORE_WELL:
        return;
    case RESTORE_CORRUPT:
    case RESTORE_MISSING:
        take_damage(step, event->why.text);
        return;
    case RESTORE_REFUSED:
        take_refusal(step);
        return;
    case RESTORE_FAILED:
        take_away(step, &event->why);
        return;
    }
}
