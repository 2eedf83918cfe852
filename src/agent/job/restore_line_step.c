/* The line of those who read checkpoints from a target: a restore stands there until the state lets
 * it in. See restore_step.h.
 *
 * Flow     the answer to "from where do I begin" says whether the part may read from the target.
 *          When it has to ask, it says so, and asks the leader again when its order set has
 *          changed. A restore that was let in and cannot read gives its place back after a while:
 *          others may be able to.
 * Shapes   the node's own copies are read without a place.
 */
#include <string.h>

#include "src/agent/job/restore_point_step.h"
#include "src/base/check.h"

/* Both hashes are text that a program of this project wrote, in lower case. */
const struct ledger_copy *restore_copy_find(const struct ledger_entry *entry,
                                            uint64_t checkpoint_id, uint32_t part,
                                            const char *manifest_sha256, uid_t uid)
{
    CHECK(checkpoint_id != 0);
    CHECK(manifest_sha256[0] != '\0');
    for (uint32_t i = 0; i < entry->copy_count; i++) {
        const struct ledger_copy *copy = &entry->copies[i];

        if (copy->state == COPY_HERE && copy->checkpoint_id == checkpoint_id &&
            copy->part == part && copy->uid == uid &&
            strcmp(copy->manifest_sha256, manifest_sha256) == 0)
            return copy;
    }
    return NULL;
}

const struct ledger_copy *restore_copy_of(const struct restore *restore,
                                          const struct ledger_entry *entry,
                                          const Ckpt__V1__ShardInfo *shard)
{
    const struct restore_brought *brought = &restore->brought;

    CHECK(brought->checkpoint_id != 0);
    if (entry == NULL || brought->mode == MODE(PATH) || shard->manifest_sha256[0] == '\0' ||
        brought->copy_unusable)
        return NULL;
    return restore_copy_find(entry, brought->checkpoint_id, shard->part, shard->manifest_sha256,
                             restore->asked.uid);
}

static bool needs_target(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;

    CHECK(restore->brought.checkpoint_id != 0);
    for (size_t i = 0; i < restore->brought.part_count; i++)
        if (restore_copy_of(restore, step->facts->entry,
                            restore_shard(restore, step->facts->point, i)) == NULL)
            return true;
    return false;
}

static void say_wanted(const struct restore_stepping *step)
{
    struct restore_turn *turn = &step->restore->turn;

    CHECK(turn->read == READ(ASK));
    CHECK(step->restore->brought.checkpoint_id != 0);
    turn->reads_id = step->restore->brought.checkpoint_id;
    restore_add(step, RESTORE_DO_WANT)->number = turn->reads_id;
}

/* A state that has heard it, and asks for it all the same, has taken the place back: it took too
 * long. Each time that nothing woke it, too: the state may have been restored from a backup. */
bool restore_may_read(const struct restore_stepping *step)
{
    const Ckpt__V1__AllocationPart *part = step->facts->point->part;
    const uint64_t id = step->restore->brought.checkpoint_id;
    struct restore_turn *turn = &step->restore->turn;

    CHECK(step->restore->state == RESTORE_ASKING);
    turn->read = part == NULL ? READ(UNSPECIFIED) : part->read;
    turn->rate_bytes_per_s = part == NULL ? 0 : part->read_bytes_per_s;
    if (turn->read == READ(WAITS)) {
        turn->reads_id = id;
        restore_say(step, SAYS_IN_LINE);
        restore_hold(step);
        return false;
    }
    if (turn->read == READ(MAY) && needs_target(step))
        turn->reads_id = id; /* also said by the agent before */
    if (turn->read != READ(ASK) || !needs_target(step))
        return true;
    if (turn->reads_id != id || turn->heard || step->restore->unheard)
        say_wanted(step);
    restore_hold(step);
    return false;
}

bool restore_lacks_place(const struct restore_stepping *step, const Ckpt__V1__ShardInfo *shard)
{
    CHECK(step->restore->state == RESTORE_READING);
    return step->restore->turn.read == READ(ASK) &&
           restore_copy_of(step->restore, step->facts->entry, shard) == NULL;
}

void restore_leave_line(const struct restore_stepping *step)
{
    struct restore_turn *turn = &step->restore->turn;

    CHECK(step->restore->state == RESTORE_READING);
    if (turn->reads_id != 0)
        restore_add(step, RESTORE_DO_LEAVE)->number = turn->reads_id;
    turn->reads_id = 0;
}
