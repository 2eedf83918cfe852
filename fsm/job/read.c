/* Who reads a checkpoint from its target to begin from it, and who waits in line for that (S2-032).
 *
 * Flow     a part that needs bytes of its target says so and waits; from then on the target's line
 *          moves: the first job of it is let in with as many of its parts as there are places,
 *          until a place or the bandwidth is missing. A part gives its place back when it has
 *          restored, gives up, begins, is ended, moves, or takes longer than it may. What its agent
 *          may do follows from the state (fsm_part.read), so nothing is lost with a leader, and an
 *          agent that hears that it is not in line any more says so again.
 * Shapes   a job has one place in the line, from the first of its parts that waits; parts that come
 *          later stand there too. It is in one of two lists of its target: `line` while a part of
 *          it waits, ordered by read_sequence, else `readers` while a part of it reads. Nobody is
 *          passed over: the first job that does not fit holds up all behind it. Who reads waits for
 *          nobody, so a place always comes back.
 * Units    bytes per second; parts are counted, not jobs.
 */
#include "fsm/begin.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <malloc.h>

enum { READ_LOOKED_MAX = 1024 }; /* jobs, for a place in a line */

/* Of one part. A part that does neither has no place: it has what it needs, reads what its node
 * kept, or has not said so yet. */
enum read_state { READ_NOT, READ_WAITS, READ_READS };

static bool reads_any(const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return allocation->read_waiting_count + allocation->reading_count > 0;
}

/* The target is that of the checkpoint, which may have left while its last reader still reads. */
static struct target *reads_target(struct fsm *fsm, const struct allocation *allocation)
{
    return target_edit(fsm, target_at(fsm, allocation->read_target_slot));
}

/* ---- the two lists ---- */

/* From the front: who was let in and waits with another part came before nearly all others. */
static void line_insert(struct target *target, struct allocation *allocation)
{
    struct list *at = target->line.next;

    CHECK(allocation->read_waiting_count > 0);
    while (at != &target->line &&
           LIST_ITEM(at, struct allocation, in_reads)->read_sequence < allocation->read_sequence)
        at = at->next;
    list_push_back(at, &allocation->in_reads);
    target->view.line_count++;
}

static void reads_unlink(struct target *target, struct allocation *allocation)
{
    CHECK(reads_any(allocation) || list_empty(&allocation->in_reads));
    if (allocation->read_waiting_count > 0)
        target->view.line_count--;
    list_remove(&allocation->in_reads);
}

static void reads_link(struct target *target, struct allocation *allocation)
{
    CHECK(list_empty(&allocation->in_reads));
    if (allocation->read_waiting_count > 0)
        line_insert(target, allocation);
    else if (allocation->reading_count > 0)
        list_push_back(&target->readers, &allocation->in_reads);
}

/* What was excused is used up as places come back. */
static void excuses_shrink(struct target *target)
{
    const struct fsm_target *view = &target->view;

    CHECK(view->id != NULL);
    target->excused_restores = fsm_min(target->excused_restores, view->reading_count);
    target->excused_read_bytes_per_s =
        fsm_min(target->excused_read_bytes_per_s, view->read_granted_bytes_per_s);
    if (view->reading_count <= view->max_restores)
        target->excused_restores = 0;
    if (view->read_granted_bytes_per_s <= view->read_bytes_per_s)
        target->excused_read_bytes_per_s = 0;
}

/* The sums and the part; the lists are the caller's. */
static void part_set(struct fsm *fsm, struct target *target, struct assignment *part,
                     enum read_state to, uint64_t bytes_per_s)
{
    struct allocation *allocation = part->allocation;

    CHECK(!part->reads || !part->read_waits);
    CHECK(to == READ_READS || bytes_per_s == 0);
    allocation->read_waiting_count -= part->read_waits;
    allocation->reading_count -= part->reads;
    target->view.waiting_count -= part->read_waits;
    target->view.reading_count -= part->reads;
    target->view.read_granted_bytes_per_s -= part->read_bytes_per_s;
    part->read_waits = to == READ_WAITS;
    part->reads = to == READ_READS;
    part->read_bytes_per_s = bytes_per_s;
    allocation->read_waiting_count += part->read_waits;
    allocation->reading_count += part->reads;
    target->view.waiting_count += part->read_waits;
    target->view.reading_count += part->reads;
    target->view.read_granted_bytes_per_s += bytes_per_s;
    fsm_node_changed(fsm, node_at(fsm, allocation->view.nodes[part->share].node_slot));
}

/* ---- the line moves ---- */

/* Of so many of its parts together; 0: too little is left. As for writes, a rate below a quarter of
 * the budget is not worth beginning with unless it is all that the nodes can take. */
static uint64_t line_rate(const struct fsm *fsm, const struct target *target,
                          const struct allocation *allocation, uint32_t count)
{
    const struct fsm_target *view = &target->view;
    uint64_t budget = view->read_bytes_per_s;
    uint64_t left = budget - fsm_min(budget, view->read_granted_bytes_per_s);
    uint64_t node = allocation->view.write_bytes_per_s != 0 ? allocation->view.write_bytes_per_s
                                                            : fsm->policy.default_write_bytes_per_s;
    uint64_t wanted = node == 0 ? budget : fsm_min(fsm_multiply(node, count), budget);

    CHECK(budget > 0);
    CHECK(count > 0);
    return left >= fsm_min(wanted, fsm_max(budget / 4, 1)) ? fsm_min(wanted, left) : 0;
}

/* How many of its waiting parts may read now, and each at which rate; 0: none. */
static uint32_t line_fits(const struct fsm *fsm, const struct target *target,
                          const struct allocation *allocation, uint64_t *ret_bytes_per_s)
{
    const struct fsm_target *view = &target->view;
    uint32_t count = allocation->read_waiting_count;
    uint64_t bytes_per_s;

    CHECK(count > 0);
    *ret_bytes_per_s = 0;
    if (view->max_restores > 0)
        count = (uint32_t)fsm_min(count, view->max_restores -
                                             fsm_min(view->max_restores, view->reading_count));
    if (count == 0 || view->read_bytes_per_s == 0)
        return count;
    bytes_per_s = line_rate(fsm, target, allocation, count);
    count = (uint32_t)fsm_min(count, bytes_per_s);
    *ret_bytes_per_s = count == 0 ? 0 : bytes_per_s / count;
    return count;
}

/* As an attempt to write has: twice what the rate needs, and never less than the timeout of a
 * checkpoint. Then others are let in beside a reader that may hang. */
static uint64_t read_until_ms(const struct fsm *fsm, const struct allocation *allocation,
                              uint64_t bytes_per_s)
{
    const struct fsm_checkpoint *point = fsm_begin_of_part(fsm, &allocation->view);
    uint64_t time_ms = fsm_checkpoint_timeout_ms(fsm, allocation);
    uint64_t size_bytes = 0;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; point != NULL && i < point->shard_count; i++)
        size_bytes = fsm_max(size_bytes, point->shards[i].size_bytes);
    if (point != NULL && allocation->view.restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN)
        size_bytes = point->size_bytes;
    if (bytes_per_s > 0)
        time_ms = fsm_max(time_ms, fsm_multiply(size_bytes, 2000) / bytes_per_s);
    return fsm_add(fsm->now_ms, fsm_min(time_ms, FSM_DURATION_MAX_MS));
}

/* In the order of the parts. The job stands in the line for as long as another part of it waits. */
static void line_let_in(struct fsm *fsm, struct target *target, struct allocation *allocation,
                        uint32_t count, uint64_t bytes_per_s)
{
    CHECK(count > 0);
    CHECK(count <= allocation->read_waiting_count);
    fsm_hold_allocation(fsm, allocation);
    reads_unlink(target, allocation);
    for (uint32_t i = 0; i < allocation->view.node_count && count > 0; i++)
        if (allocation->assignments[i].read_waits) {
            part_set(fsm, target, &allocation->assignments[i], READ_READS, bytes_per_s);
            count--;
        }
    allocation->read_until_ms =
        fsm_max(allocation->read_until_ms, read_until_ms(fsm, allocation, bytes_per_s));
    reads_link(target, allocation);
    fsm_allocation_arm(fsm, allocation);
    fsm_moved(fsm, FSM_RECORD_ALLOCATION, allocation->view.slot);
}

/* After whatever may have made room: a place that came back, a limit that was raised. */
static void line_move(struct fsm *fsm, struct target *target)
{
    CHECK(target->view.id != NULL);
    while (!list_empty(&target->line)) {
        struct allocation *first = LIST_ITEM(target->line.next, struct allocation, in_reads);
        uint64_t bytes_per_s;
        uint32_t count = line_fits(fsm, target, first, &bytes_per_s);

        if (count == 0)
            break;
        line_let_in(fsm, target, first, count, bytes_per_s);
    }
    fsm_moved(fsm, FSM_RECORD_TARGET, target->view.slot);
}

/* ---- in and out ---- */

/* What is said of another checkpoint than the one that all parts begin from was said too late. */
void fsm_read_wanted(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                     uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *point = fsm_begin_of_part(fsm, &allocation->view);
    struct target *target;

    CHECK(part->allocation == allocation);
    if (point == NULL || point->id != checkpoint_id || part->read_waits || part->reads ||
        !fsm_read_concerns(part))
        return;
    if (!reads_any(allocation)) {
        allocation->read_target_slot = point->target_slot;
        allocation->read_sequence = fsm->command_count;
    }
    if (allocation->read_target_slot != point->target_slot)
        return;
    target = reads_target(fsm, allocation);
    reads_unlink(target, allocation);
    part_set(fsm, target, part, READ_WAITS, 0);
    reads_link(target, allocation);
    line_move(fsm, target);
    fsm_allocation_arm(fsm, allocation);
}

/* When none is left, nothing of it is kept. */
static void reads_settle(struct fsm *fsm, struct allocation *allocation, struct target *target)
{
    reads_link(target, allocation);
    if (allocation->reading_count == 0)
        allocation->read_until_ms = 0;
    if (!reads_any(allocation)) {
        allocation->read_sequence = 0;
        allocation->read_target_slot = 0;
    }
    excuses_shrink(target);
    line_move(fsm, target);
    fsm_allocation_arm(fsm, allocation);
}

void fsm_read_ended(struct fsm *fsm, struct allocation *allocation, struct assignment *part)
{
    struct target *target;

    CHECK(part->allocation == allocation);
    if (!part->read_waits && !part->reads)
        return;
    target = reads_target(fsm, allocation);
    reads_unlink(target, allocation);
    part_set(fsm, target, part, READ_NOT, 0);
    reads_settle(fsm, allocation, target);
}

/* waiting: those that wait as well. */
static void reads_clear(struct fsm *fsm, struct allocation *allocation, bool waiting)
{
    struct target *target;

    if (!reads_any(allocation))
        return;
    target = reads_target(fsm, allocation);
    reads_unlink(target, allocation);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        struct assignment *part = &allocation->assignments[i];

        if (part->reads || (waiting && part->read_waits))
            part_set(fsm, target, part, READ_NOT, 0);
    }
    reads_settle(fsm, allocation, target);
}

void fsm_read_clear(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    reads_clear(fsm, allocation, true);
}

/* Who reads goes on when a limit is lowered, and is excused: nobody else is let in until enough of
 * them have ended. */
void fsm_read_limits_changed(struct fsm *fsm, struct target *target)
{
    const struct fsm_target *view = &target->view;

    CHECK(view->id != NULL);
    target->excused_restores = view->max_restores == 0 ? 0 : view->reading_count;
    target->excused_read_bytes_per_s =
        view->read_bytes_per_s == 0 ? 0 : view->read_granted_bytes_per_s;
    excuses_shrink(target);
    line_move(fsm, target);
}

static void reads_arm(struct fsm *fsm, const struct list *jobs)
{
    for (struct list *at = jobs->next; at != jobs; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, in_reads);

        fsm_hold_allocation(fsm, allocation);
        fsm_allocation_arm(fsm, allocation);
    }
}

/* What a job that waits for an outage waits for follows from all targets and from the policy. */
void fsm_read_review(struct fsm *fsm)
{
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        struct target *target = target_edit(fsm, target_find_slot(fsm, slot));

        if (target == NULL)
            continue;
        reads_arm(fsm, &target->line);
        reads_arm(fsm, &target->readers);
        line_move(fsm, target);
    }
}

static void reads_clear_all(struct fsm *fsm, const struct list *jobs)
{
    while (!list_empty(jobs)) {
        struct allocation *allocation = LIST_ITEM(jobs->next, struct allocation, in_reads);

        fsm_hold_allocation(fsm, allocation);
        fsm_read_clear(fsm, allocation);
    }
}

/* Nothing lies there any more, so whoever still stands there waits for nothing. */
void fsm_read_target_gone(struct fsm *fsm, struct target *target)
{
    CHECK(target->view.id != NULL);
    reads_clear_all(fsm, &target->line);
    reads_clear_all(fsm, &target->readers);
}

/* ---- time ---- */

/* Who took too long loses the place, and says again when it still wants to read. */
void fsm_read_due(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(reads_any(allocation));
    if (allocation->reading_count > 0 && allocation->read_until_ms <= fsm->now_ms)
        reads_clear(fsm, allocation, false);
}

/* ---- what is told ---- */

void fsm_reads(const struct fsm *fsm, const struct fsm_allocation *view,
               struct fsm_reads *ret_reads)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    const struct target *target;

    CHECK(ret_reads != NULL);
    *ret_reads = (struct fsm_reads){.reading = allocation->reading_count,
                                    .waiting = allocation->read_waiting_count};
    if (!reads_any(allocation))
        return;
    target = target_at(fsm, allocation->read_target_slot);
    ret_reads->target = &target->view;
    ret_reads->line = target->view.line_count;
    if (allocation->read_waiting_count == 0)
        return;
    for (const struct list *at = target->line.next; ret_reads->place < READ_LOOKED_MAX;
         at = at->next) {
        CHECK(at != &target->line);
        ret_reads->place++;
        if (at == &allocation->in_reads)
            return;
    }
    ret_reads->place = 0;
}

/* ---- from a snapshot ---- */

/* No record is touched before all parts are known to be such that they can be given back: what is
 * refused is freed by the ways that records leave. */
static bool restore_valid(const struct allocation *allocation, const struct target *target)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];

        if ((part->read_waits && part->reads) || (!part->reads && part->read_bytes_per_s != 0) ||
            ((part->reads || part->read_waits) && (target == NULL || !fsm_read_concerns(part))))
            return false;
    }
    return true;
}

/* Sums, lists and places follow from the parts. False: no state has such ones. */
bool fsm_read_restore(struct fsm *fsm, struct allocation *allocation)
{
    struct target *target = target_edit(fsm, target_find_slot(fsm, allocation->read_target_slot));
    bool overflows = false;

    CHECK(allocation->view.id != NULL);
    if (!restore_valid(allocation, target))
        return false;
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];

        if (!part->read_waits && !part->reads)
            continue;
        allocation->read_waiting_count += part->read_waits;
        allocation->reading_count += part->reads;
        target->view.waiting_count += part->read_waits;
        target->view.reading_count += part->reads;
        overflows |=
            __builtin_add_overflow(target->view.read_granted_bytes_per_s, part->read_bytes_per_s,
                                   &target->view.read_granted_bytes_per_s);
    }
    if (allocation->read_waiting_count == 0 && reads_any(allocation))
        list_push_back(&target->readers, &allocation->in_reads);
    if (reads_any(allocation))
        return !overflows;
    return allocation->read_sequence == 0 && allocation->read_target_slot == 0 &&
           allocation->read_until_ms == 0;
}

/* Sorted at once: in the order of their slots each would be looked for in the whole line. */
void fsm_read_restore_lines(struct fsm *fsm)
{
    uint32_t count = 0;
    struct sort_item *items;

    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        const struct allocation *allocation = allocation_find_slot(fsm, slot);

        count += allocation != NULL && allocation->read_waiting_count > 0;
    }
    items = check_calloc(count + 1, sizeof(*items));
    count = 0;
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        struct allocation *allocation = allocation_edit(fsm, allocation_find_slot(fsm, slot));

        if (allocation == NULL || allocation->read_waiting_count == 0)
            continue;
        items[count++] = (struct sort_item){.low = allocation->read_sequence, .item = allocation};
    }
    fsm_sort(items, count);
    for (uint32_t i = 0; i < count; i++) {
        struct allocation *allocation = items[i].item;
        struct target *target = reads_target(fsm, allocation);

        list_push_back(&target->line, &allocation->in_reads);
        target->view.line_count++;
    }
    free(items);
}

/* ---- rules ---- */

/* I49 of one job: who reads or waits is to begin, and stands where its record says. */
const char *fsm_read_broken(const struct fsm *fsm, const struct allocation *allocation)
{
    uint32_t waiting = 0, reading = 0;

    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];

        if ((part->read_waits || part->reads) && !fsm_read_concerns(part))
            return "I49 only what is to begin reads";
        waiting += part->read_waits;
        reading += part->reads;
    }
    if (waiting != allocation->read_waiting_count || reading != allocation->reading_count ||
        list_empty(&allocation->in_reads) != (waiting + reading == 0))
        return "INDEX parts that read";
    if (waiting + reading > 0 && allocation->read_sequence > fsm->command_count)
        return "I49 a place in line was taken in the past";
    return (reading > 0) == (allocation->read_until_ms != 0) ? NULL : "L9 who reads has a deadline";
}

/* I49 of one target: no more read than may, and nobody waits who would fit. */
const char *fsm_read_target_broken(const struct fsm *fsm, const struct target *target)
{
    const struct fsm_target *view = &target->view;
    uint64_t last = 0, bytes_per_s;
    uint32_t waiting = 0, jobs = 0;

    CHECK(view->id != NULL);
    for (const struct list *at = target->line.next; at != &target->line; at = at->next) {
        const struct allocation *allocation =
            (const struct allocation *)(const void *)((const char *)at -
                                                      offsetof(struct allocation, in_reads));

        if (allocation->read_waiting_count == 0 || allocation->read_sequence < last)
            return "INDEX a line in its order";
        if (jobs == 0 && line_fits(fsm, target, allocation, &bytes_per_s) > 0)
            return "L9 nobody waits for a place that is free";
        last = allocation->read_sequence;
        waiting += allocation->read_waiting_count;
        jobs++;
    }
    if (waiting != view->waiting_count || jobs != view->line_count)
        return "INDEX a line's length";
    if (view->max_restores != 0 &&
        view->reading_count > fsm_max(view->max_restores, target->excused_restores))
        return "I49 no more parts read than may";
    return view->read_bytes_per_s == 0 ||
                   view->read_granted_bytes_per_s <=
                       fsm_max(view->read_bytes_per_s, target->excused_read_bytes_per_s)
               ? NULL
               : "I49 restores within the bandwidth";
}
