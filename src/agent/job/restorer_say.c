/* The reason why a restore takes so long, for people who wait for it. See restorer.h. */
#include <stdio.h>
#include <stdlib.h>

#include "src/agent/job/restorer_internal.h"
#include "src/agent/run/words.h"

#define BEGIN(name) CKPT__V1__BEGIN_STATE__BEGIN_STATE_##name

enum { SAY_TEXT_BYTES = 768, OUTAGE_TEXT_BYTES = 256 };
_Static_assert((int)SAY_TEXT_BYTES >= (int)RESTORE_TEXT_BYTES, "a refusal is said too");

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

/* The consequence of an outage; "": none is known. */
static const char *outage_text(const struct restore_outage *outage, char text[OUTAGE_TEXT_BYTES])
{
    char repeated[WORDS_BYTES], limit[WORDS_BYTES], at[WORDS_BYTES];

    text[0] = '\0';
    if (outage->discarded_ms == 0)
        return text;
    words_duration(outage->discarded_ms, repeated);
    words_duration(outage->max_ms, limit);
    if (outage->at_ms != 0)
        snprintf(
            text, OUTAGE_TEXT_BYTES,
            "; if the target is still away at %s, it begins without that and repeats %s of its "
            "run time (max_discarded %s)",
            words_clock(outage->at_ms, at), repeated, limit);
    else
        snprintf(text, OUTAGE_TEXT_BYTES,
                 "; the target is waited for however long: without it %s of run time would be "
                 "repeated, more than max_discarded (%s)",
                 repeated, limit);
    return text;
}

static void in_line_text(const struct restorer *restorer, char text[SAY_TEXT_BYTES])
{
    const struct restore *restore = &restorer->restore;
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char id[CHECKPOINT_ID_TEXT_BYTES], place[32], outage[OUTAGE_TEXT_BYTES];

    if (point->read_place == 0)
        snprintf(place, sizeof(place), "in line");
    else
        snprintf(place, sizeof(place), "%u%s", (unsigned)point->read_place,
                 ordinal_suffix(point->read_place));
    snprintf(text, SAY_TEXT_BYTES,
             "it waits to read its checkpoint %s: %s of %u at target "
             "%.128s%s",
             checkpoint_id_format(restore->brought.checkpoint_id, id), place,
             (unsigned)point->read_line, point->target_id, outage_text(&restore->outage, outage));
}

/* The place where it lies, for people. */
static const char *place_text(const struct restore_brought *brought)
{
    CHECK(brought->checkpoint_id != 0);
    return brought->target_prefix[0] != '\0' ? brought->target_prefix : brought->path;
}

static void away_text(const struct restore *restore, char text[SAY_TEXT_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES], since[WORDS_BYTES], outage[OUTAGE_TEXT_BYTES],
        reason[WORDS_BYTES], size[WORDS_BYTES];

    CHECK(restore->since_ms != 0);
    if (restore->away.no_room) {
        snprintf(text, SAY_TEXT_BYTES,
                 "checkpoint %s, %s for this node, cannot be brought here: %.200s; it is tried "
                 "again and again, and goes on by itself when there is room in the work folder "
                 "%.140s",
                 checkpoint_id_format(restore->brought.checkpoint_id, id),
                 words_size(restore->brought.size_bytes, size), restore->away.text,
                 restore->asked.work_dir);
        return;
    }
    snprintf(text, SAY_TEXT_BYTES,
             "checkpoint %s waits for %.100s since %s: %s, %.200s; it is tried again and again, "
             "and goes on by itself when that can be read (ckptctl targets)%s",
             checkpoint_id_format(restore->brought.checkpoint_id, id),
             place_text(&restore->brought), words_clock(restore->since_ms, since),
             words_enum(&ckpt__v1__reason__descriptor, (int)restore->away.reason, reason),
             restore->away.text, outage_text(&restore->outage, outage));
}

static void reading_text(const struct restore *restore, char text[SAY_TEXT_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES], since[WORDS_BYTES], outage[OUTAGE_TEXT_BYTES];

    CHECK(restore->since_ms != 0);
    outage_text(&restore->outage, outage);
    if (restore->away.reason != CKPT__V1__REASON__REASON_NONE)
        away_text(restore, text);
    else if (outage[0] != '\0')
        snprintf(text, SAY_TEXT_BYTES,
                 "checkpoint %s is read from %.150s since %s, and that target is away; this "
                 "goes on by itself when it answers again (ckptctl targets)%s",
                 checkpoint_id_format(restore->brought.checkpoint_id, id),
                 place_text(&restore->brought), words_clock(restore->since_ms, since), outage);
    else
        snprintf(text, SAY_TEXT_BYTES,
                 "checkpoint %s is read from %.150s since %s; if nothing comes from there, "
                 "this goes on by itself when it answers again (ckptctl targets)",
                 checkpoint_id_format(restore->brought.checkpoint_id, id),
                 place_text(&restore->brought), words_clock(restore->since_ms, since));
}

/* The reason why nothing begins yet. */
static void begin_text(const struct restorer *restorer, char text[SAY_TEXT_BYTES])
{
    const char *why = "it waits for what the other parts restore";

    switch ((int)restorer->restore.begin) {
    case BEGIN(ENDING):
        why = "the run is being ended; what comes next is waited for";
        break;
    case BEGIN(RUNS):
        why = "the cluster has still to hear that this part has ended; what comes next is waited "
              "for";
        break;
    case BEGIN(MAY): /* not from scratch in the place of what is damaged: the run is over */
        why = "what it was to begin from is damaged; what comes next is waited for";
        break;
    default:
        break;
    }
    snprintf(text, SAY_TEXT_BYTES, "part %u of %u: %s", (unsigned)restorer->restore.place,
             (unsigned)restorer->point->n_node_ids, why);
}

static void others_text(const struct restorer *restorer, char text[SAY_TEXT_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restorer->restore.brought.have == RESTORE_HAS);
    snprintf(text, SAY_TEXT_BYTES,
             "part %u of %zu: what it needs of checkpoint %s is restored; it waits for the "
             "other parts",
             (unsigned)restorer->restore.place, restorer->point->n_node_ids,
             checkpoint_id_format(restorer->restore.brought.checkpoint_id, id));
}

void restorer_say(const struct restorer *restorer, enum restore_saying says,
                  const struct restore_event *event)
{
    const struct restore *restore = &restorer->restore;
    char text[SAY_TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    switch (says) {
    case SAYS_REFUSAL:
        restore_refusal_text(restore, restorer->point, restorer->agent->node_id, text);
        break;
    case SAYS_UNREGISTERED:
        restorer_unregistered(restorer, text, sizeof(text));
        break;
    case SAYS_LEADERLESS:
        snprintf(text, sizeof(text),
                 "the agent is there, but no leader of the cluster answers it: %.340s; the "
                 "application starts when one does",
                 event->why.text);
        break;
    case SAYS_OWNER_UNKNOWN:
        snprintf(text, sizeof(text),
                 "which user of this node the owner %s is cannot be found out: %.200s; it is "
                 "tried again",
                 restorer->point->owner, event->why.text);
        break;
    case SAYS_BEGIN:
        begin_text(restorer, text);
        break;
    case SAYS_ANOTHER:
        snprintf(text, sizeof(text), "another checkpoint than %s is waited for",
                 checkpoint_id_format(restore->brought.checkpoint_id, id));
        break;
    case SAYS_OTHERS:
        others_text(restorer, text);
        break;
    case SAYS_IN_LINE:
        in_line_text(restorer, text);
        break;
    case SAYS_AWAY:
        away_text(restore, text);
        break;
    case SAYS_READING:
        reading_text(restore, text);
        break;
    }
    restorer->caller->waits(restorer->data, text);
}
