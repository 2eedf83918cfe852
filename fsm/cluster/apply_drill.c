/* Commands about drills: their begin with its guards, the members' probes and words. See
 * fsm/drill.h. */
#include "fsm/cluster/policy_fields.h"
#include "fsm/core/registry.h"
#include "fsm/drill.h"
#include "fsm/job/job.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name
#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum { TOLERANCE_MIN = 1, MINUTE_MS = 60000 };

/* ---- shape ---- */

static bool refuse_value(struct fsm_outcome *outcome, enum fsm_status status, const char *subject,
                         uint64_t current, uint64_t limit)
{
    outcome->subject = subject;
    outcome->current = current;
    outcome->limit = limit;
    outcome->status = status;
    return false;
}

static bool id_holds(const char *field, const char *id, struct fsm_outcome *outcome)
{
    if (id_valid(id))
        return true;
    fsm_outcome_found(outcome, id);
    outcome->subject = field;
    outcome->status = FSM_INVALID_ID;
    return false;
}

static bool optional_id_holds(const char *field, const char *id, struct fsm_outcome *outcome)
{
    return id[0] == '\0' || id_holds(field, id, outcome);
}

static bool lies_within(const char *field, uint64_t value, uint64_t lowest, uint64_t highest,
                        struct fsm_outcome *outcome)
{
    return (value >= lowest && value <= highest) ||
           refuse_value(outcome, FSM_INVALID_ARGUMENT, field, value,
                        value < lowest ? lowest : highest);
}

enum fsm_status fsm_validate_start_drill(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__StartDrill *asked = command->start_drill;
    const struct fsm_drill_kind *kind = fsm_drill_kind(asked->kind);
    bool storage = asked->kind == KIND(STORAGE_OUTAGE);

    CHECK(outcome->status == FSM_OK);
    (void)(lies_within("kind", asked->kind, KIND(LEADER_KILL), KIND(RESTORE), outcome) &&
           lies_within("member_id", asked->member_id, 1, INT64_MAX, outcome) &&
           lies_within("duration_ms", asked->duration_ms, FSM_DRILL_MIN_MS, kind->longest_ms,
                       outcome) &&
           (storage ? id_holds("target_id", asked->target_id, outcome)
                    : lies_within("target_id", strlen(asked->target_id), 0, 0, outcome)) &&
           optional_id_holds("allocation_id", asked->allocation_id, outcome));
    return outcome->status;
}

/* A member's process that speaks of a drill. */
struct speaker {
    uint64_t drill_id, member_id;
    uint64_t run; /* of the process */
};

static bool speaker_holds(const struct speaker *speaker, struct fsm_outcome *outcome)
{
    CHECK(outcome->status == FSM_OK);
    return lies_within("drill_id", speaker->drill_id, 1, INT64_MAX, outcome) &&
           lies_within("member_id", speaker->member_id, 1, INT64_MAX, outcome) &&
           lies_within("run", speaker->run, 1, FSM_TIME_MAX_MS, outcome);
}

enum fsm_status fsm_validate_probe_drill(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__ProbeDrillRequest *probe = command->probe_drill;
    const struct speaker speaker = {probe->drill_id, probe->member_id, probe->run};

    CHECK(outcome->status == FSM_OK);
    (void)speaker_holds(&speaker, outcome);
    return outcome->status;
}

enum fsm_status fsm_validate_tell_drill(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__V1__TellDrillRequest *told = command->tell_drill;
    struct speaker speaker = {.drill_id = told->drill_id, .member_id = told->member_id};

    CHECK(outcome->status == FSM_OK);
    if (told->word == NULL)
        return FSM_INVALID_ARGUMENT;
    speaker.run = told->word->run;
    return speaker_holds(&speaker, outcome) &&
                   lies_within("away_ms", told->word->away_ms, 0, FSM_DURATION_MAX_MS, outcome)
               ? fsm_check_detail(told->word->detail, outcome)
               : outcome->status;
}

/* ---- guards ---- */

struct guard_question {
    const struct fsm *fsm;
    const Ckpt__Log__V1__StartDrill *asked;
    uint64_t now_ms;
    struct fsm_outcome *outcome;
};

static bool is_alone(const struct guard_question *question)
{
    const Ckpt__V1__Drill *drill = fsm_drill_open(question->fsm);

    CHECK(drill == NULL || drill->drill_id != 0);
    question->outcome->current = drill == NULL ? 0 : drill->drill_id;
    return drill == NULL;
}

/* A window may go over midnight; its begin at minute 1,440 is that of the day itself. */
static bool window_is_open(const struct guard_question *question)
{
    const Ckpt__V1__Policy *policy = &question->fsm->policy;
    uint64_t minute = question->now_ms / MINUTE_MS % FSM_DAY_MINUTES;
    uint64_t from = policy->drill_window_from_minute % FSM_DAY_MINUTES;

    CHECK(policy->drill_window_minutes > 0);
    question->outcome->current = minute;
    question->outcome->limit = from;
    return (minute + FSM_DAY_MINUTES - from) % FSM_DAY_MINUTES < policy->drill_window_minutes;
}

static bool builds_are_equal(const struct guard_question *question)
{
    CHECK(question->outcome != NULL);
    question->outcome->current = question->asked->builds;
    return question->asked->builds <= 1;
}

static bool targets_are_there(const struct guard_question *question)
{
    uint64_t away = 0;

    CHECK(question->fsm->targets.slot_end <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < question->fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(question->fsm, slot);

        away += target != NULL && !target->removed && !target->view.available;
    }
    question->outcome->current = away;
    return away == 0;
}

/* A restore fails nobody. */
static bool tolerance_is_enough(const struct guard_question *question)
{
    CHECK(question->asked->kind != KIND(UNSPECIFIED));
    question->outcome->current = question->asked->tolerance;
    question->outcome->limit = TOLERANCE_MIN;
    return question->asked->kind == KIND(RESTORE) || question->asked->tolerance >= TOLERANCE_MIN;
}

static bool all_have_the_log(const struct guard_question *question)
{
    CHECK(question->asked != NULL);
    return !question->asked->behind;
}

static bool is_started_again(const struct guard_question *question)
{
    CHECK(question->asked->member_id != 0);
    question->outcome->current = question->asked->member_id;
    return question->asked->kind != KIND(LEADER_KILL) || question->asked->supervised;
}

static const struct {
    struct fsm_drill_guard guard;
    bool (*holds)(const struct guard_question *question);
} guards[] = {
    {{"alone", FSM_DRILL_UNDER_WAY}, is_alone},
    {{"window", FSM_DRILL_WINDOW}, window_is_open},
    {{"upgrade", FSM_DRILL_UPGRADE}, builds_are_equal},
    {{"outage", FSM_DRILL_OUTAGE}, targets_are_there},
    {{"tolerance", FSM_DRILL_TOLERANCE}, tolerance_is_enough},
    {{"caught up", FSM_DRILL_BEHIND}, all_have_the_log},
    {{"supervised", FSM_DRILL_UNSUPERVISED}, is_started_again},
};

const struct fsm_drill_guard *fsm_drill_guard(size_t i)
{
    return i < ARRAY_COUNT(guards) ? &guards[i].guard : NULL;
}

enum fsm_status fsm_drill_guard_ask(const struct fsm *fsm, size_t i,
                                    const Ckpt__Log__V1__StartDrill *asked, uint64_t now_ms,
                                    struct fsm_outcome *ret_outcome)
{
    const struct guard_question question = {fsm, asked, now_ms, ret_outcome};

    CHECK(i < ARRAY_COUNT(guards));
    CHECK(ret_outcome != NULL);
    ret_outcome->current = ret_outcome->limit = 0;
    ret_outcome->status = guards[i].holds(&question) ? FSM_OK : guards[i].guard.status;
    return ret_outcome->status;
}

/* ---- commands ---- */

/* The voters of this moment take part, and tell their words at the end. */
static size_t take_members(const struct fsm *fsm, Ckpt__V1__DrillMember *members,
                           Ckpt__V1__DrillMember **pointers)
{
    size_t count = 0;

    CHECK(fsm->member_count <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < fsm->member_count; i++) {
        if (fsm->members[i]->role != CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER)
            continue;
        ckpt__v1__drill_member__init(&members[count]);
        members[count].member_id = fsm->members[i]->member_id;
        members[count].name = fsm->members[i]->name;
        pointers[count] = &members[count];
        count++;
    }
    return count;
}

/* The job must take a checkpoint now, or have one under way. */
static enum fsm_status check_job(const struct fsm *fsm, const Ckpt__Log__V1__StartDrill *asked,
                                 struct fsm_outcome *outcome)
{
    const struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_MANUAL,
                                       .after =
                                           CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE};
    const struct allocation *allocation = allocation_find(fsm, asked->allocation_id);
    enum fsm_status status;

    CHECK(asked->allocation_id[0] != '\0');
    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    if (asked->kind == KIND(RESTORE))
        return FSM_OK;
    status = fsm_checkpoint_refusal(fsm, allocation, &ask, outcome);
    return status == FSM_CHECKPOINT_ACTIVE ? FSM_OK : status;
}

enum fsm_status fsm_drill_names(const struct fsm *fsm, const Ckpt__Log__V1__StartDrill *asked,
                                struct fsm_outcome *ret_outcome)
{
    const struct target *target =
        asked->target_id[0] == '\0' ? NULL : target_find(fsm, asked->target_id);

    CHECK(ret_outcome != NULL);
    if (asked->target_id[0] != '\0' && (target == NULL || target->removed))
        return FSM_TARGET_NOT_FOUND;
    return asked->allocation_id[0] == '\0' ? FSM_OK : check_job(fsm, asked, ret_outcome);
}

enum fsm_status fsm_apply_start_drill(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__StartDrill *asked = command->start_drill;
    Ckpt__V1__DrillMember members[FSM_MEMBERS_MAX], *pointers[FSM_MEMBERS_MAX];
    Ckpt__V1__Drill drill = CKPT__V1__DRILL__INIT;
    enum fsm_status status = fsm_drill_names(fsm, asked, outcome);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_START_DRILL);
    CHECK(outcome != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(guards) && status == FSM_OK; i++)
        status = fsm_drill_guard_ask(fsm, i, asked, fsm->now_ms, outcome);
    if (status != FSM_OK)
        return status;
    drill.drill_id =
        fsm->drills->count == 0 ? 1 : fsm->drills->items[fsm->drills->count - 1]->drill_id + 1;
    drill.kind = asked->kind;
    drill.member_id = asked->member_id;
    drill.term = fsm->term;
    drill.duration_ms = asked->duration_ms;
    drill.target_id = asked->target_id;
    drill.allocation_id = asked->allocation_id;
    drill.begun_ms = fsm->now_ms;
    drill.due_ms = drill.look_ms = fsm->now_ms + FSM_DRILL_LEAD_MS;
    drill.members = pointers;
    drill.n_members = take_members(fsm, members, pointers);
    CHECK(drill.drill_id > 0);
    CHECK(drill.look_ms > fsm->now_ms);
    outcome->checkpoint_id = 0;
    outcome->current = drill.drill_id;
    outcome->limit = 0;
    fsm_drill_state(fsm, fsm_drill_add(fsm, &drill), STATE(ARMED), NULL);
    return FSM_OK;
}

/* Of the drill under way; NULL: it is another one, or the member has no part in it. */
static Ckpt__V1__DrillMember *member_of(const struct fsm *fsm, uint64_t drill_id,
                                        uint64_t member_id, struct fsm_outcome *outcome)
{
    const Ckpt__V1__Drill *drill = fsm_drill_open(fsm);

    CHECK(drill_id != 0);
    CHECK(member_id != 0);
    outcome->current = drill_id;
    if (drill == NULL || drill->drill_id != drill_id)
        return NULL;
    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->member_id == member_id)
            return drill->members[i];
    return NULL;
}

/* A process that was started again counts anew: what its predecessor asked for is known to nobody
 * any more. */
enum fsm_status fsm_apply_probe_drill(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__V1__ProbeDrillRequest *probe = command->probe_drill;
    Ckpt__V1__DrillMember *member = member_of(fsm, probe->drill_id, probe->member_id, outcome);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_PROBE_DRILL);
    if (member == NULL || probe->run < member->run)
        return FSM_DRILL_NOT_FOUND;
    if (probe->run != member->run)
        member->counted = 0;
    member->run = probe->run;
    member->counted++;
    CHECK(member->counted > 0);
    return FSM_OK;
}

/* The first word of a member counts; it may be sent twice. */
enum fsm_status fsm_apply_tell_drill(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__V1__TellDrillRequest *told = command->tell_drill;
    Ckpt__V1__DrillMember *member = member_of(fsm, told->drill_id, told->member_id, outcome);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_TELL_DRILL);
    if (member == NULL || fsm_drill_open(fsm)->state != STATE(SETTLING))
        return FSM_DRILL_NOT_FOUND;
    if (member->word == NULL)
        member->word = (Ckpt__V1__DrillWord *)fsm_message_copy(fsm, &told->word->base);
    return FSM_OK;
}
