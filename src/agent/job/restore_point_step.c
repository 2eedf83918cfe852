/* The meaning of the leader's answer for a restore: whether its part may begin, for whom and from
 * which checkpoint. See restore_step.h. */
#include "src/agent/job/restore_point_step.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

/* The place of this node among the allocation's, which is that of its part. */
static bool point_names_node(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;

    CHECK(step->facts->node_id[0] != '\0');
    for (uint32_t i = 0; i < point->n_node_ids && i < point->n_runs; i++) {
        if (strcmp(point->node_ids[i], step->facts->node_id) != 0)
            continue;
        step->restore->place = i;
        return point->runs[i] != 0; /* nothing starts without it */
    }
    return false;
}

/* ---- the owner ---- */

/* The cluster knows the user who came first when this agent has lost its journal: an application of
 * that user may run here. */
static void take_first(struct restore_owning *owner, const Ckpt__V1__RestartPoint *point)
{
    CHECK(!owner->named || owner->name[0] != '\0');
    if (owner->named || owner->first || point->user == 0 ||
        point->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST)
        return;
    owner->first = true;
    owner->uid = (uid_t)(point->user - 1);
}

/* A stranger is told no more than that. True: the owner is not known yet, or the caller is another
 * one. */
static bool owner_refuses(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    struct restore_owning *owner = &step->restore->owner;
    bool registered = point->owner[0] != '\0' && id_valid(point->owner);
    const uid_t uid = step->restore->asked.uid;

    CHECK(step->restore->state == RESTORE_ASKING);
    if (registered && strcmp(owner->name, point->owner) != 0) {
        owner->named = false;
        snprintf(owner->name, sizeof(owner->name), "%s", point->owner);
        restore_move_to(step, RESTORE_NAMING);
        restore_add(step, RESTORE_DO_NAME);
        return true;
    }
    owner->named = registered && owner->named;
    take_first(owner, point);
    if (uid == 0)
        return false;
    if (!owner->named && !owner->first) {
        if (point->owner_rule == CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST)
            return false;
        restore_over(step, OVER_UNOWNED);
        return true;
    }
    if (uid == owner->uid)
        return false;
    restore_over(step, OVER_STRANGER);
    return true;
}

/* ---- whether it runs here ---- */

/* The leader hears of it with the next heartbeat, which is sent soon. */
static void set_awaits(const struct restore_stepping *step, bool awaits)
{
    CHECK(step->restore->state == RESTORE_ASKING);
    if (step->restore->awaits == awaits)
        return;
    step->restore->awaits = awaits;
    restore_add(step, RESTORE_DO_HURRY);
}

/* Nothing may begin here before the cluster says so, and whoever asks is kept for that. */
static void await_run(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;
    bool told = restore->awaits;

    CHECK(restore->state == RESTORE_ASKING);
    set_awaits(step, true);
    if (!told || (!step->facts->point->restarts && restore->asked.wait == WAIT(ANY)))
        restore_add(step, RESTORE_DO_SAY_AWAITS);
    else
        restore_say(step, SAYS_REFUSAL);
    restore_hold(step);
}

/* Its part has finished in this run, and others of it go on: it begins again with them alone. */
static bool has_finished(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;
    const Ckpt__V1__RestartPoint *point = step->facts->point;

    CHECK(restore->state == RESTORE_ASKING);
    return restore->asked.finished_run != 0 && restore_point_runs(point) &&
           point_names_node(step) && point->runs[restore->place] == restore->asked.finished_run;
}

/* It may be registered or restarted in a moment; whoever waits for less than the agent does is to
 * know for what. */
static void refuse_start(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    struct restore *restore = step->restore;
    bool may_come = /* a restart, on any nodes */
        point->allocation_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED;

    CHECK(restore->asked.wait != WAIT(NONE));
    if (may_come && (point->restarts || restore_starts_elsewhere(restore, point) ||
                     restore->asked.wait == WAIT(ANY))) {
        await_run(step);
        return;
    }
    if (restore_count_refusal(restore) || restore->asked.wait == WAIT(RESTART)) {
        restore_over(step, OVER_REFUSED);
        return;
    }
    if (!restore_is_patient(step))
        restore_say(step, SAYS_REFUSAL);
    restore_pause(step, RESTORE_RETRY_MS);
}

/* Nothing begins for it: it hears why its run has ended, when that is known. */
static void tell_why(const struct restore_stepping *step)
{
    CHECK(step->restore->asked.wait == WAIT(NONE));
    CHECK(!step->restore->awaits);
    if (restore_point_runs(step->facts->point))
        restore_pause(step, RESTORE_RETRY_MS);
    else
        restore_over(step, OVER_RUN_ENDED);
}

/* True: the broker does not count on this allocation here, which may change in a moment. */
static bool point_refuses(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    struct restore *restore = step->restore;

    CHECK(restore->asked.what != RESTORE_OWNER);
    if (restore->asked.wait == WAIT(NONE)) {
        tell_why(step);
        return true;
    }
    if (has_finished(step)) {
        restore_hold(step);
        return true;
    }
    if (restore_point_runs(point) && point_names_node(step)) {
        set_awaits(step, false);
        restore_add(step, RESTORE_DO_TELL)->number = point->runs[restore->place];
        return false;
    }
    refuse_start(step);
    return true;
}

/* ---- starts that may not be ---- */

/* ckpt-run says another profile than the registration, or nobody here can ask so. The first profile
 * stands for none where nobody named it. */
static bool profile_refuses(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const char *profile = step->restore->asked.profile;

    CHECK(step->restore->asked.what != RESTORE_OWNER);
    if (!restore_profile_registered(step->facts))
        return false;
    if (step->facts->profile_known && (profile[0] == '\0' || strcmp(profile, point->profile) == 0))
        return false;
    restore_over(step, step->facts->profile_known ? OVER_PROFILE_OTHER : OVER_PROFILE_UNKNOWN);
    return true;
}

/* True: it would begin from nothing beside parts that begin from a checkpoint; or the run has begun
 * from what has gone since, and a part of it would begin from something else. */
static bool others_refuse(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const Ckpt__V1__AllocationPart *part = point->part;

    CHECK(point->n_node_ids > 0);
    if (point->n_node_ids == 1 || (part != NULL && part->joined))
        return false;
    if (step->restore->asked.what == RESTORE_NOTHING && point->checkpoint_id != 0)
        restore_over(step, OVER_BESIDE);
    else if (part != NULL && part->restart_checkpoint_id != point->checkpoint_id)
        restore_over(step, OVER_BEGUN_GONE);
    else
        return false;
    return true;
}

/* True: another part has restored in another way, as its ckpt-run said. */
static bool mode_refuses(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const Ckpt__V1__RestoreMode mode = restore_mode(step->restore, point);

    CHECK(mode != MODE(UNSPECIFIED));
    CHECK(step->restore->place < point->n_node_ids);
    if (point->restored_as == MODE(UNSPECIFIED) || point->restored_as == mode ||
        point->restored_part == step->restore->place)
        return false;
    restore_over(step, OVER_MODE_OTHER);
    return true;
}

/* ---- before it begins ---- */

/* Root may start anybody's job. A folder that was made for it would be root's, and keep that user
 * out. */
static bool is_anothers(const struct restore *restore)
{
    CHECK(restore->state == RESTORE_ASKING);
    return restore_owner_known(restore) && restore->owner.uid != restore->asked.uid;
}

/* True: a worker looks where the job's checkpoints go, and the leader is asked again when it has
 * ended. Once for each ckpt-run that starts an application; not before a restart in place, which
 * goes on with what it had: a refusal would end it. */
static bool prepares_folder(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;
    bool wanted = restore->prepares && step->facts->point->checkpoints_path[0] != '\0' &&
                  !is_anothers(restore);

    restore->prepares = false;
    if (!wanted)
        return false;
    CHECK(restore->brought.checkpoint_id == 0); /* nothing of it is brought yet */
    restore_move_to(step, RESTORE_PREPARING);
    restore_add(step, RESTORE_DO_PREPARE);
    return true;
}

static void note_given_up(struct restore *restore, uint64_t checkpoint_id, uint64_t repeated_ms,
                          uint64_t max_ms)
{
    CHECK(checkpoint_id != 0);
    restore->left_away = true;
    restore->passed = (struct restore_passed){checkpoint_id, true, repeated_ms, max_ms};
}

/* Another part found it damaged; or its target was away for too long, perhaps before this restore
 * began. */
static void note_passed(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const Ckpt__V1__BeginWithout *without = point->without;
    struct restore *restore = step->restore;
    const struct restore_outage *outage = &restore->outage;
    const uint64_t id = restore->brought.checkpoint_id;

    CHECK(restore->state == RESTORE_ASKING);
    if (restore->asked.what == RESTORE_FILES && without != NULL && without->checkpoint_id != 0 &&
        without->cause == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP &&
        without->checkpoint_id != restore->passed.checkpoint_id &&
        (restore->begin == BEGIN(MAY) || restore->begin == BEGIN(RESTORING))) {
        note_given_up(restore, without->checkpoint_id, without->repeated_ms,
                      point->max_discarded_ms);
        return;
    }
    if (id == 0 || restore->brought.have == RESTORE_DAMAGED || id == point->checkpoint_id ||
        restore->passed.checkpoint_id == id)
        return;
    if (outage->at_ms != 0)
        note_given_up(restore, id, outage->discarded_ms, outage->max_ms);
    else
        restore->passed = (struct restore_passed){.checkpoint_id = id};
}

void restore_take_outage(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(restore->state != RESTORE_OVER);
    restore->outage =
        (struct restore_outage){point->discarded_ms, point->discard_at_ms, point->max_discarded_ms};
}

/* True: files that were brought before are not those that begin, and go first: beside them the
 * application would find two checkpoints, and the disk both of them. */
static bool sweeps_earlier(const struct restore_stepping *step, bool from_nothing)
{
    struct restore_brought *brought = &step->restore->brought;

    CHECK(step->restore->state == RESTORE_ASKING);
    if (brought->folder[0] == '\0' ||
        (!from_nothing && restore_is_of(step->restore, step->facts->point)))
        return false;
    if (brought->have == RESTORE_HAS)
        brought->have = RESTORE_LACKS;
    restore_move_to(step, RESTORE_SWEEPING);
    restore_add(step, RESTORE_DO_SWEEP);
    return true;
}

/* ---- whether it begins ---- */

/* The state ends the run, or counts this part as running. A damaged checkpoint is not followed by a
 * start from scratch either: the end of the run is on its way. */
static void begin_from_nothing(const struct restore_stepping *step, bool joined)
{
    const struct restore *restore = step->restore;

    CHECK(restore->asked.what != RESTORE_OWNER);
    if (restore->begin == BEGIN(MAY) &&
        (restore->brought.have != RESTORE_DAMAGED || restore->asked.what == RESTORE_NOTHING)) {
        restore_over(step, joined ? OVER_JOINED : OVER_SCRATCH);
        return;
    }
    restore_say(step, SAYS_BEGIN);
    restore_hold(step);
}

/* The state names what was tried already: the others have still to say what they found. A state
 * that was restored from a backup does not know what it had been told. */
static void stand_by(const struct restore_stepping *step)
{
    const struct restore *restore = step->restore;
    const Ckpt__V1__AllocationPart *part = step->facts->point->part;
    bool damaged = restore->brought.have == RESTORE_DAMAGED;

    CHECK(restore->brought.have != RESTORE_LACKS);
    if (!damaged && restore->begin == BEGIN(MAY)) {
        restore_ready(step);
        return;
    }
    if (damaged)
        restore_say(step, SAYS_ANOTHER);
    else
        restore_say(step, restore->begin != BEGIN(RESTORING) ? SAYS_BEGIN : SAYS_OTHERS);
    if (restore->unheard && (damaged || (part != NULL && !part->restored)))
        restore_add(step, RESTORE_DO_FOUND);
    restore_hold(step);
}

static void take_run(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    struct restore *restore = step->restore;
    const uint64_t run = point->runs[restore->place];

    CHECK(restore->place < point->n_node_ids && restore->place < point->n_runs);
    if (run != restore->run) { /* its findings were of the run before */
        restore->brought.have = RESTORE_LACKS;
        restore->turn.reads_id = 0;
    }
    restore->run = run;
    restore->begin = point->part == NULL ? BEGIN(MAY) : point->part->begin;
}

/* The application runs already: its run is told, and that it is the user's. */
static void tell_owner(const struct restore_stepping *step)
{
    const bool named = point_names_node(step);

    CHECK(step->restore->asked.what == RESTORE_OWNER);
    restore_add(step, RESTORE_DO_TELL)->number =
        named ? step->facts->point->runs[step->restore->place] : 0;
    restore_over(step, OVER_SCRATCH);
}

static void begin_from(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const struct restore *restore = step->restore;

    CHECK(point->checkpoint_id != 0);
    if (mode_refuses(step))
        return;
    if (point->checkpoint_id == restore->brought.checkpoint_id &&
        (restore->brought.have == RESTORE_DAMAGED ||
         (restore->brought.have == RESTORE_HAS && restore_is_of(restore, point))))
        stand_by(step);
    else
        restore_bring(step);
}

/* Nothing speaks against a start, and its folder was looked at, or is not. */
void restore_begin(const struct restore_stepping *step)
{
    const Ckpt__V1__RestartPoint *point = step->facts->point;
    const bool joined = point->part != NULL && point->part->joined;
    const bool from_nothing =
        step->restore->asked.what == RESTORE_NOTHING || point->checkpoint_id == 0 || joined;

    CHECK(step->restore->state == RESTORE_ASKING);
    note_passed(step);
    restore_take_outage(step->restore, point);
    if (sweeps_earlier(step, from_nothing))
        return;
    if (from_nothing)
        begin_from_nothing(step, joined);
    else
        begin_from(step);
}

void restore_take_point(const struct restore_stepping *step)
{
    struct restore *restore = step->restore;

    CHECK(step->facts->point != NULL);
    if (owner_refuses(step))
        return;
    if (restore->asked.what == RESTORE_OWNER) {
        tell_owner(step);
        return;
    }
    if (profile_refuses(step) || point_refuses(step))
        return;
    take_run(step);
    if (others_refuse(step) || prepares_folder(step))
        return;
    restore_begin(step);
}
