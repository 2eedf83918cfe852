/* The end of a restore: the checkpoint from which the application begins, or why it does not begin.
 * See restorer.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/restorer_internal.h"
#include "src/agent/run/words.h"
#include "src/ask/ask.h"

enum { ERROR_BYTES = OWNER_TEXT_BYTES };

/* `ckpt-run` says it in the owner's words (src/cli/owner_words.c). */
void restorer_unregistered(const struct restorer *restorer, char *text, size_t size)
{
    const char *id = restorer->restore.asked.allocation_id;

    CHECK(id[0] != '\0');
    snprintf(text, size,
             "the broker does not know this allocation; register it first: ckptctl register "
             "--alloc %s --tenant TENANT --project PROJECT, or have the site's scheduler do so "
             "(ckptctl jobs lists them)",
             id);
}

/* ---- errors ---- */

/* It is nobody's on this node, and the cluster leaves none to whoever comes. */
static void unowned_text(const struct restorer *restorer, char text[ERROR_BYTES])
{
    const char *owner = restorer->point->owner;
    char whose[2 * ID_MAX_BYTES + 64];

    if (owner[0] == '\0')
        snprintf(whose, sizeof(whose), "without an owner");
    else
        snprintf(whose, sizeof(whose), "for owner %.128s, which is no user of node %.128s", owner,
                 restorer->agent->node_id);
    snprintf(text, ERROR_BYTES,
             "allocation %s is registered %s; register one with --owner USER of this node, or let "
             "whoever comes first have such ones: ckptctl policy set owner_rule=first",
             restorer->restore.asked.allocation_id, whose);
}

static void profile_text(const struct restorer *restorer, enum restore_over over,
                         char text[ERROR_BYTES])
{
    const struct restore_asked *asked = &restorer->restore.asked;
    char profiles[ASK_PROFILES_BYTES];

    CHECK(over == OVER_PROFILE_UNKNOWN || over == OVER_PROFILE_OTHER);
    if (over == OVER_PROFILE_UNKNOWN)
        snprintf(
            text, ERROR_BYTES,
            "allocation %s is registered with profile %.64s, which the agent of this node does "
            "not know; there are: %.300s",
            asked->allocation_id, restorer->point->profile, ask_profiles(profiles));
    else
        snprintf(text, ERROR_BYTES,
                 "allocation %s is registered with profile %.64s, and ckpt-run says --profile %s: "
                 "leave that out, or register an allocation with the other one",
                 asked->allocation_id, restorer->point->profile, asked->profile);
}

static void mode_text(const struct restorer *restorer, char text[ERROR_BYTES])
{
    const ProtobufCEnumDescriptor *modes = &ckpt__v1__restore_mode__descriptor;
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char own[WORDS_BYTES], other[WORDS_BYTES];

    CHECK(point->restored_as != CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED);
    words_enum(modes, (int)restore_mode(&restorer->restore, point), own);
    words_enum(modes, (int)point->restored_as, other);
    snprintf(text, ERROR_BYTES,
             "part %u of allocation %s restores %s, part %u has restored %s: all parts restore in "
             "one way; start this one with --restore %s, or all of them alike",
             (unsigned)restorer->restore.place, restorer->restore.asked.allocation_id, own,
             (unsigned)point->restored_part, other, other);
}

/* The other parts of the job do not allow it. */
static void parts_text(const struct restorer *restorer, enum restore_over over,
                       char text[ERROR_BYTES])
{
    const char *allocation_id = restorer->restore.asked.allocation_id;
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(over == OVER_BESIDE || over == OVER_BEGUN_GONE);
    if (over == OVER_BESIDE)
        snprintf(text, ERROR_BYTES,
                 "allocation %s has %zu parts, which all begin from checkpoint %s: one alone does "
                 "not start from scratch; start it without --from-scratch, or all of them (ckptctl "
                 "restart %s --from-scratch)",
                 allocation_id, point->n_node_ids, checkpoint_id_format(point->checkpoint_id, id),
                 allocation_id);
    else
        snprintf(text, ERROR_BYTES,
                 "the parts of allocation %s have begun from checkpoint %s, which is kept no more: "
                 "one alone does not start again; end the job and restart all of them (ckptctl "
                 "end, ckptctl restart)",
                 allocation_id, checkpoint_id_format(point->part->restart_checkpoint_id, id));
}

/* The shards at the destination do not allow it. */
static void shards_text(const struct restorer *restorer, enum restore_over over,
                        const struct restore_event *event, char text[ERROR_BYTES])
{
    const struct restore *restore = &restorer->restore;
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char id[CHECKPOINT_ID_TEXT_BYTES], name[PART_NAME_BYTES];
    const Ckpt__V1__ShardInfo *shard;

    checkpoint_id_format(restore->brought.checkpoint_id, id);
    if (over == OVER_NO_SHARD) {
        snprintf(text, ERROR_BYTES,
                 "checkpoint %s has %zu parts and this job %zu, and none of them is for part %u; "
                 "restart it on %zu nodes, or let it restore all parts or the path (--restore)",
                 id, point->n_shards, point->n_node_ids, (unsigned)restore->place, point->n_shards);
        return;
    }
    if (over == OVER_TOO_MANY) {
        snprintf(text, ERROR_BYTES,
                 "the checkpoint has %zu parts, and a node restores all of them up to %d; let it "
                 "restore the path (--restore path)",
                 point->n_shards, RESTORE_ALL_PARTS_MAX);
        return;
    }
    CHECK(over == OVER_UNREADABLE);
    shard = restore_shard(restore, point, restore->brought.part_next);
    snprintf(text, ERROR_BYTES, "checkpoint %s cannot be restored (%s, written on %.128s): %.300s",
             id, part_name_format(shard->part, name), shard->node_id, event->why.text);
}

/* The first thing that the point leaves out. */
static void incomplete_text(const struct restorer *restorer, char text[ERROR_BYTES])
{
    const struct restore *restore = &restorer->restore;
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char id[CHECKPOINT_ID_TEXT_BYTES], name[PART_NAME_BYTES], what[64] = "its path";

    CHECK(restore->brought.checkpoint_id != 0);
    checkpoint_id_format(restore->brought.checkpoint_id, id);
    if (point->path[0] != '\0')
        snprintf(what, sizeof(what), "its parts");
    for (size_t i = 0; i < restore->brought.part_count; i++) {
        const Ckpt__V1__ShardInfo *shard = restore_shard(restore, point, i);

        if (shard->manifest_sha256[0] != '\0')
            continue;
        snprintf(what, sizeof(what), "the sum of %s", part_name_format(shard->part, name));
        break;
    }
    snprintf(text, ERROR_BYTES,
             "the leader names checkpoint %s without %s, so that nothing tells whether the right "
             "files are restored: its ckptd is of an earlier version (ckptctl status), or the "
             "record is incomplete (ckptctl checkpoint %s); when all members have this version, "
             "start it again, or begin without it (--from-scratch)",
             id, what, id);
}

/* "": nobody's. */
static void error_text(const struct restorer *restorer, enum restore_over over,
                       const struct restore_event *event, char text[ERROR_BYTES])
{
    const struct restore *restore = &restorer->restore;
    const struct restore_owning *owner = &restore->owner;

    CHECK(over >= OVER_FIRST_ERROR);
    text[0] = '\0';
    switch ((int)over) {
    case OVER_REFUSED:
    case OVER_RUN_ENDED:
        restore_refusal_text(restore, restorer->point, restorer->agent->node_id, text);
        return;
    case OVER_UNREGISTERED:
        restorer_unregistered(restorer, text, ERROR_BYTES);
        return;
    case OVER_NOBODYS:
        return;
    case OVER_UNOWNED:
        unowned_text(restorer, text);
        return;
    case OVER_STRANGER:
        allocation_owner_text(restore->asked.allocation_id, owner->named ? owner->name : "",
                              owner->uid, restore->asked.uid, text);
        return;
    case OVER_PROFILE_UNKNOWN:
    case OVER_PROFILE_OTHER:
        profile_text(restorer, over, text);
        return;
    case OVER_BESIDE:
    case OVER_BEGUN_GONE:
        parts_text(restorer, over, text);
        return;
    case OVER_MODE_OTHER:
        mode_text(restorer, text);
        return;
    case OVER_INCOMPLETE:
        incomplete_text(restorer, text);
        return;
    case OVER_UNWRITABLE:
        snprintf(text, ERROR_BYTES, "its checkpoints could not be written: %.450s",
                 event->why.text);
        return;
    default:
        shards_text(restorer, over, event, text);
        return;
    }
}

/* ---- a start ---- */

/* The newer checkpoint that was passed over; "": none was. */
static void notice_text(const struct restore_passed *passed, char text[ATTACH_NOTICE_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES], repeated[WORDS_BYTES], limit[WORDS_BYTES];

    text[0] = '\0';
    if (passed->checkpoint_id == 0)
        return;
    checkpoint_id_format(passed->checkpoint_id, id);
    if (passed->given_up)
        snprintf(text, ATTACH_NOTICE_BYTES,
                 "checkpoint %s is waited for no more, its target is away: %s of run time are "
                 "repeated (max_discarded %s)",
                 id, words_duration(passed->repeated_ms, repeated),
                 words_duration(passed->max_ms, limit));
    else
        snprintf(text, ATTACH_NOTICE_BYTES,
                 "checkpoint %s is passed over, another part found a shard of it damaged", id);
}

/* The reason for a start from scratch; "": its user asked, or a broker of an earlier version does
 * not say it. */
static void scratch_text(const struct restorer *restorer, char text[RESTORE_TEXT_BYTES])
{
    const struct restore *restore = &restorer->restore;
    const Ckpt__V1__BeginWithout *without = restorer->point->without;
    char id[CHECKPOINT_ID_TEXT_BYTES], repeated[WORDS_BYTES];

    CHECK(restore->state == RESTORE_OVER);
    text[0] = '\0';
    if (restore->asked.what != RESTORE_FILES || without == NULL)
        return;
    checkpoint_id_format(without->checkpoint_id, id);
    words_duration(without->repeated_ms, repeated);
    switch ((int)without->cause) {
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE:
        snprintf(text, RESTORE_TEXT_BYTES, "there is no complete checkpoint of it yet");
        return;
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE:
        snprintf(text, RESTORE_TEXT_BYTES,
                 "no checkpoint of it can be read, all its work is done again");
        return;
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP:
        snprintf(text, RESTORE_TEXT_BYTES,
                 "checkpoint %s is given up, since its target is away, and %s of run time are "
                 "repeated",
                 id, repeated);
        return;
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_LEFT:
        snprintf(text, RESTORE_TEXT_BYTES,
                 "checkpoint %s is left aside, %s, and %s of run time are repeated", id,
                 restore->left_away ? "since its target was away"
                                    : "as its restart said, or since its target was away then",
                 repeated);
        return;
    default:
        return;
    }
}

/* Nobody has left a checkpoint aside. */
static bool begins_without(const struct restorer *restorer)
{
    const Ckpt__V1__BeginWithout *without = restorer->point->without;

    return restorer->restore.asked.what == RESTORE_FILES && without != NULL &&
           (without->cause == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE ||
            without->cause == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE ||
            without->cause == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP);
}

/* "": nothing is known against it. */
static void unwritten_text(const struct restore_why *unwritten, char text[RESTORE_TEXT_BYTES])
{
    char what[WORDS_BYTES];

    text[0] = '\0';
    if (unwritten->reason == CKPT__V1__REASON__REASON_NONE)
        return;
    snprintf(
        text, RESTORE_TEXT_BYTES,
        "its checkpoints cannot be written at the moment (%s): %.300s; it starts all the same, "
        "and they wait until they can be",
        words_enum(&ckpt__v1__reason__descriptor, (int)unwritten->reason, what), unwritten->text);
}

static void take_brought(const struct restore_brought *brought, struct restore_result *result)
{
    CHECK(brought->have == RESTORE_HAS);
    result->checkpoint_id = brought->checkpoint_id;
    result->folder = brought->folder;
    result->path = brought->lies_at;
    result->snapshot_at_ms = brought->snapshot_at_ms;
    result->mode = brought->mode;
    result->label = brought->label;
    result->from_copy = brought->from_copy;
    result->parts = brought->parts;
}

static void finish_with(struct restorer *restorer, const struct restore_result *result)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restorer->call == NULL && restorer->worker == NULL);
    CHECK(result->checkpoint_id == 0 || result->path != NULL);
    log_info("restart_point",
             "allocation=%s checkpoint=%s folder=\"%s\" notice=\"%s\" error=\"%s\"",
             restorer->restore.asked.allocation_id, checkpoint_id_format(result->checkpoint_id, id),
             result->folder, result->notice, result->error);
    restorer->caller->done(restorer->data, result);
}

static void end_well(struct restorer *restorer, enum restore_over over)
{
    const struct restore *restore = &restorer->restore;
    const struct restore_brought *brought = &restore->brought;
    char notice[ATTACH_NOTICE_BYTES], scratch[RESTORE_TEXT_BYTES] = "",
                                      unwritten[RESTORE_TEXT_BYTES];
    char uri[LEDGER_PATH_BYTES + 8] = "";
    struct restore_result result = {.folder = "", .error = "", .notice = notice};

    CHECK(over < OVER_FIRST_ERROR);
    notice_text(&restore->passed, notice);
    unwritten_text(&restore->unwritten, unwritten);
    result.unwritten = unwritten;
    if (over == OVER_SCRATCH) {
        scratch_text(restorer, scratch);
        result.scratch = scratch;
        result.begins_without = begins_without(restorer);
    } else if (over == OVER_JOINED) {
        result.notice = "this node joined a run that had begun: it restores nothing";
    } else if (over == OVER_ALONE) {
        result.notice = "";
    } else {
        take_brought(brought, &result);
        if (brought->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH)
            snprintf(uri, sizeof(uri), "file://%s", brought->path);
        result.uri = uri;
    }
    finish_with(restorer, &result);
}

void restorer_end(struct restorer *restorer, enum restore_over over,
                  const struct restore_event *event)
{
    const Ckpt__V1__RestartPoint *point = restorer->point;
    struct restore_result result = {.folder = "", .notice = "", .unwritten = ""};
    char error[ERROR_BYTES];

    CHECK(restorer->restore.state == RESTORE_OVER);
    if (over < OVER_FIRST_ERROR) {
        end_well(restorer, over);
        return;
    }
    error_text(restorer, over, event, error);
    result.error = error;
    if (over == OVER_REFUSED)
        result.may_come =
            point->allocation_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED;
    if (over == OVER_REFUSED || over == OVER_RUN_ENDED)
        result.cause_wait_status = point->cause_wait_status;
    finish_with(restorer, &result);
}
