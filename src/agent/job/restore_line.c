/* The line of those who read checkpoints from a target: a restore stands there until the state lets
 * it in. See restart_points.h.
 *
 * Flow     the answer to "from where do I begin" says whether the part may read from the target.
 *          When it has to ask, it says so, and asks the leader again when its order set has
 *          changed. Who was let in and cannot read gives its place back after a while: others may
 *          be able to.
 * Shapes   what the node kept itself is read without a place.
 */
#include <stdio.h>

#include "src/agent/job/copies.h"
#include "src/agent/job/restore_internal.h"
#include "src/agent/run/words.h"

#define READ(name) CKPT__V1__READ_STATE__READ_STATE_##name

const struct ledger_copy *restore_copy_of(const struct restore *restore,
                                          const struct restore_part *part)
{
    CHECK(restore->checkpoint_id != 0);
    if (part->to[0] == '\0' || part->manifest_sha256[0] == '\0' || restore->copy_unusable)
        return NULL;
    return copies_find(restore->agent, restore->allocation_id, restore->checkpoint_id, part->name,
                       part->manifest_sha256, restore->user.uid);
}

static bool needs_target(const struct restore *restore)
{
    CHECK(restore->parts != NULL);
    for (size_t i = 0; i < restore->part_count; i++)
        if (restore_copy_of(restore, &restore->parts[i]) == NULL)
            return true;
    return false;
}

static const char *ordinal_suffix(uint32_t number)
{
    CHECK(number > 0);
    if (number % 100 / 10 == 1)
        return "th";
    switch (number % 10) {
    case 1:
        return "st";
    case 2:
        return "nd";
    case 3:
        return "rd";
    default:
        return "th";
    }
}

/* The words that people wait by. */
static void say_place(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], place[32], outage[RESTORE_TEXT_BYTES / 2];

    CHECK(restore->checkpoint_id != 0);
    CHECK(restore->worker == NULL);
    if (point->read_place == 0)
        snprintf(place, sizeof(place), "in line");
    else
        snprintf(place, sizeof(place), "%u%s", (unsigned)point->read_place,
                 ordinal_suffix(point->read_place));
    restore_waits(restore, "it waits to read its checkpoint %s: %s of %u at target %.128s%s",
                  checkpoint_id_format(restore->checkpoint_id, id), place,
                  (unsigned)point->read_line, point->target_id,
                  restore_outage_text(restore, outage));
}

static void say_wanted(struct restore *restore)
{
    CHECK(restore->read == READ(ASK));
    CHECK(restore->checkpoint_id != 0);
    restore->reads_id = restore->checkpoint_id;
    restore->reads(restore->data, restore->checkpoint_id, true);
    restore->said_sequence = ledger_last_sequence(restore->agent->ledger);
}

void restore_note_heard(struct restore *restore)
{
    const struct ledger_report *first = ledger_report_after(restore->agent->ledger, 0);

    CHECK(restore->call == NULL && restore->worker == NULL);
    restore->heard = first == NULL || first->sequence > restore->said_sequence;
}

/* A state that has heard it, and asks for it all the same, has taken the place back: it took too
 * long. Each time that nothing woke it, too: the state may have been restored from a backup. */
bool restore_may_read(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(restore->worker == NULL);
    restore->read = point->part == NULL ? READ(UNSPECIFIED) : point->part->read;
    restore->rate_bytes_per_s = point->part == NULL ? 0 : point->part->read_bytes_per_s;
    if (restore->read == READ(WAITS)) {
        restore->reads_id = restore->checkpoint_id;
        say_place(restore, point);
        restore_hold(restore);
        return false;
    }
    if (restore->read == READ(MAY) && needs_target(restore))
        restore->reads_id = restore->checkpoint_id; /* also said by the agent before */
    if (restore->read != READ(ASK) || !needs_target(restore))
        return true;
    if (restore->reads_id != restore->checkpoint_id || restore->heard || restore->unheard)
        say_wanted(restore);
    restore_hold(restore);
    return false;
}

bool restore_lacks_place(const struct restore *restore, const struct restore_part *part)
{
    CHECK(restore->worker == NULL);
    return restore->read == READ(ASK) && restore_copy_of(restore, part) == NULL;
}

void restore_leave_line(struct restore *restore)
{
    uint64_t id = restore->reads_id;

    CHECK(!restore->cancelled);
    restore->reads_id = 0;
    if (id != 0)
        restore->reads(restore->data, id, false);
}

uint64_t restore_reading(const struct restore *restore)
{
    return restore == NULL ? 0 : restore->reads_id;
}

const char *restore_outage_text(const struct restore *restore, char text[RESTORE_TEXT_BYTES / 2])
{
    const struct restore_outage *outage = &restore->outage;
    char repeated[WORDS_BYTES], limit[WORDS_BYTES], at[WORDS_BYTES];

    text[0] = '\0';
    if (outage->discarded_ms == 0)
        return text;
    words_duration(outage->discarded_ms, repeated);
    words_duration(outage->max_ms, limit);
    if (outage->at_ms != 0)
        snprintf(
            text, RESTORE_TEXT_BYTES / 2,
            "; if the target is still away at %s, it begins without that and repeats %s of its "
            "run time (max_discarded %s)",
            words_clock(outage->at_ms, at), repeated, limit);
    else
        snprintf(text, RESTORE_TEXT_BYTES / 2,
                 "; the target is waited for however long: without it %s of run time would be "
                 "repeated, more than max_discarded (%s)",
                 repeated, limit);
    return text;
}
