/* The checks by which a drill passes, a function for each. See fsm/drill.h. */
#include "fsm/core/state.h"
#include "fsm/drill.h"

#define KIND(name) CKPT__V1__DRILL_KIND__DRILL_KIND_##name

/* Whether it came is told by its consequence where there is one: a leader's end by the next leader,
 * an outage by the target. */
static uint64_t fault_missing(const Ckpt__V1__Drill *drill)
{
    bool came = false;

    CHECK(drill->drill_id != 0);
    if (drill->kind == KIND(LEADER_KILL) || drill->kind == KIND(LEADER_HANG))
        return drill->new_term == 0;
    if (drill->kind == KIND(STORAGE_OUTAGE))
        return drill->down_ms == 0 || drill->up_ms == 0;
    for (size_t i = 0; i < drill->n_members; i++) {
        const Ckpt__V1__DrillMember *member = drill->members[i];

        if (member->word == NULL)
            continue;
        came = came || (drill->kind == KIND(RESTORE)
                            ? member->word->backup_restored
                            : member->member_id == drill->member_id && member->word->fault_done);
    }
    return !came;
}

static uint64_t words_missing(const Ckpt__V1__Drill *drill)
{
    uint64_t count = 0;

    CHECK(drill->n_members <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < drill->n_members; i++)
        count += drill->members[i]->word == NULL;
    return count;
}

/* Of one process of a member: each of its probes was answered, so each must have been counted,
 * once. Another process than the one that was counted last says nothing. */
static uint64_t difference_of(const Ckpt__V1__DrillMember *member, bool twice)
{
    uint64_t asked = member->word == NULL ? 0 : member->word->probes;

    CHECK(member->member_id != 0);
    if (member->word == NULL || member->word->run != member->run)
        return 0;
    if (twice)
        return member->counted > asked ? member->counted - asked : 0;
    return asked > member->counted ? asked - member->counted : 0;
}

static uint64_t lost_found(const Ckpt__V1__Drill *drill)
{
    uint64_t count = 0;

    CHECK(drill->n_members <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < drill->n_members; i++)
        count += difference_of(drill->members[i], false);
    return count;
}

static uint64_t twice_found(const Ckpt__V1__Drill *drill)
{
    uint64_t count = 0;

    CHECK(drill->n_members <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < drill->n_members; i++)
        count += difference_of(drill->members[i], true);
    return count;
}

static uint64_t hashes_found(const Ckpt__V1__Drill *drill)
{
    uint64_t count = 0;

    CHECK(drill->n_members <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < drill->n_members; i++)
        count += drill->members[i]->word != NULL &&
                 drill->members[i]->word->check_hash != drill->check_hash;
    return count;
}

/* A member that was cut off or stood still does not count: the cluster goes on without it. */
static uint64_t away_found(const Ckpt__V1__Drill *drill)
{
    uint64_t longest = 0;

    CHECK(drill->n_members <= FSM_MEMBERS_MAX);
    for (size_t i = 0; i < drill->n_members; i++) {
        const Ckpt__V1__DrillMember *member = drill->members[i];

        if (member->word != NULL &&
            ((drill->kind != KIND(MEMBER_LOSS) && drill->kind != KIND(LEADER_HANG)) ||
             member->member_id != drill->member_id))
            longest = fsm_max(longest, member->word->away_ms);
    }
    return longest;
}

/* Those that are paused yet are another check's. */
static uint64_t resumed_found(const Ckpt__V1__Drill *drill)
{
    uint64_t gone = drill->resumed + drill->left_paused;

    CHECK(gone >= drill->resumed);
    return gone > drill->paused ? gone - drill->paused : 0;
}

static uint64_t paused_found(const Ckpt__V1__Drill *drill)
{
    CHECK(drill->left_paused == 0 || drill->ended_ms != 0 || drill->fault_ms != 0);
    return drill->left_paused;
}

/* A restore without any checkpoint in the cluster has none to read. */
static uint64_t checkpoint_missing(const Ckpt__V1__Drill *drill)
{
    bool wanted = drill->checkpoint_id != 0 || drill->allocation_id[0] != '\0';

    CHECK(!drill->checkpoint_complete || drill->checkpoint_id != 0);
    return wanted && !drill->checkpoint_complete;
}

bool fsm_drill_check(const Ckpt__V1__Drill *drill,
                     struct fsm_drill_check ret_checks[FSM_DRILL_CHECK_COUNT])
{
    static const struct {
        const char *name;
        uint64_t (*find)(const Ckpt__V1__Drill *drill);
        uint64_t limit;
    } rows[FSM_DRILL_CHECK_COUNT] = {
        {"the fault did not come", fault_missing, 0},
        {"members that told nothing", words_missing, 0},
        {"acknowledged changes lost", lost_found, 0},
        {"changes done twice", twice_found, 0},
        {"members with another state", hashes_found, 0},
        {"service away, ms", away_found, FSM_DRILL_AWAY_MAX_MS},
        {"resumed more than once", resumed_found, 0},
        {"left paused", paused_found, 0},
        {"the checkpoint did not come", checkpoint_missing, 0},
    };
    bool all = true;

    CHECK(drill != NULL);
    CHECK(drill->kind != KIND(UNSPECIFIED));
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fsm_drill_check *check = &ret_checks[i];

        check->name = rows[i].name;
        check->value = rows[i].find(drill);
        check->limit = rows[i].limit;
        check->failed = check->value > check->limit;
        all = all && !check->failed;
    }
    return all;
}
