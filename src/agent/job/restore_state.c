/* The states of a restore: their names, the moves between them, the events that each takes, and the
 * fields that are legal in each. See restore_step.h. */
#include <string.h>

#include "src/agent/job/restore_step.h"
#include "src/base/check.h"
#include "src/base/text.h"

static const char *const state_names[] = {RESTORE_STATES(TEXT_OF_NAME)};
#define TO(name) [RESTORE_##name] = true
static const bool state_moves[RESTORE_STATE_COUNT][RESTORE_STATE_COUNT] = {
    [RESTORE_PAUSED] = {TO(ASKING)},
    [RESTORE_ASKING] = {TO(PAUSED), TO(HELD), TO(NAMING), TO(PREPARING), TO(SWEEPING), TO(READING),
                        TO(OVER)},
    [RESTORE_HELD] = {TO(PAUSED), TO(ASKING)},
    [RESTORE_NAMING] = {TO(PAUSED)},
    [RESTORE_PREPARING] = {TO(PAUSED), TO(ASKING), TO(OVER)},
    [RESTORE_SWEEPING] = {TO(PAUSED)},
    [RESTORE_READING] = {TO(PAUSED), TO(HELD), TO(DROPPING), TO(OVER)},
    [RESTORE_DROPPING] = {TO(PAUSED)},
};
/* A wake comes at any time. */
static const bool state_events[RESTORE_STATE_COUNT][RESTORE_EVENT_COUNT] = {
    [RESTORE_PAUSED] = {TO(TIMER), TO(WAKE)},
    [RESTORE_ASKING] = {TO(WAKE), TO(POINT), TO(UNANSWERED)},
    [RESTORE_HELD] = {TO(TIMER), TO(WAKE)},
    [RESTORE_NAMING] = {TO(WAKE), TO(UNSTARTED), TO(NAMED)},
    [RESTORE_PREPARING] = {TO(WAKE), TO(UNSTARTED), TO(PREPARED)},
    [RESTORE_SWEEPING] = {TO(WAKE), TO(SWEPT)},
    [RESTORE_READING] = {TO(WAKE), TO(STARTED), TO(UNSTARTED), TO(READ), TO(LOOK), TO(LOOKED)},
    [RESTORE_DROPPING] = {TO(WAKE), TO(READ), TO(LOOK), TO(LOOKED)},
};
#undef TO
#define MODE(name) CKPT__V1__RESTORE_MODE__RESTORE_MODE_##name

const char *restore_state_name(enum restore_state state)
{
    CHECK(state < RESTORE_STATE_COUNT);
    return state_names[state];
}

bool restore_move_allowed(enum restore_state from, enum restore_state to)
{
    CHECK(from < RESTORE_STATE_COUNT);
    CHECK(to < RESTORE_STATE_COUNT);
    return state_moves[from][to];
}

bool restore_event_allowed(enum restore_state state, enum restore_event_kind kind)
{
    CHECK(state < RESTORE_STATE_COUNT);
    CHECK(kind < RESTORE_EVENT_COUNT);
    return state_events[state][kind];
}

bool restore_state_works(enum restore_state state)
{
    CHECK(state < RESTORE_STATE_COUNT);
    return state == RESTORE_NAMING || state == RESTORE_PREPARING || state == RESTORE_READING ||
           state == RESTORE_DROPPING;
}

static void check_brought(const struct restore *restore)
{
    const struct restore_brought *brought = &restore->brought;

    CHECK(brought->part_next <= brought->part_count);
    if (brought->checkpoint_id == 0) {
        CHECK(brought->have == RESTORE_LACKS);
        CHECK(brought->folder[0] == '\0');
        CHECK(restore->turn.reads_id == 0);
    } else {
        CHECK(restore->asked.what == RESTORE_FILES);
        CHECK(brought->mode != CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED);
    }
    CHECK(brought->have != RESTORE_DAMAGED || brought->damage[0] != '\0');
}

void restore_check(const struct restore *restore)
{
    const struct restore_brought *brought = &restore->brought;

    CHECK(restore->state < RESTORE_STATE_COUNT);
    CHECK(restore->asked.allocation_id[0] != '\0');
    check_brought(restore);
    switch (restore->state) {
    case RESTORE_HELD:
    case RESTORE_PAUSED:
    case RESTORE_ASKING:
    case RESTORE_OVER:
    case RESTORE_STATE_COUNT:
        return;
    case RESTORE_NAMING:
        CHECK(restore->owner.name[0] != '\0');
        return;
    case RESTORE_PREPARING:
        CHECK(!restore->prepares);
        CHECK(brought->checkpoint_id == 0);
        return;
    case RESTORE_SWEEPING:
        CHECK(brought->folder[0] != '\0');
        CHECK(brought->have != RESTORE_HAS);
        return;
    case RESTORE_READING:
    case RESTORE_DROPPING:
        CHECK(brought->checkpoint_id != 0);
        CHECK(brought->have == RESTORE_LACKS);
        CHECK(brought->part_next < brought->part_count);
        return;
    }
}

bool restore_owner_known(const struct restore *restore)
{
    CHECK(!restore->owner.named || restore->owner.name[0] != '\0');
    return restore->owner.named || restore->owner.first;
}

bool restore_awaits(const struct restore *restore)
{
    CHECK(restore->state < RESTORE_STATE_COUNT);
    return restore->awaits && (restore->asked.uid == 0 || restore_owner_known(restore));
}

bool restore_profile_registered(const struct restore_facts *facts)
{
    const Ckpt__V1__RestartPoint *point = facts->point;

    CHECK(facts->profile[0] != '\0');
    return point->profile_named ||
           (point->profile[0] != '\0' && strcmp(point->profile, facts->profile) != 0);
}

bool restore_point_runs(const Ckpt__V1__RestartPoint *point)
{
    const Ckpt__V1__AllocationState state = point->allocation_state;

    CHECK(point != NULL);
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
}

/* It has waited for the restart, which takes other nodes. The choice may still be taken back, when
 * a chosen node has nobody left to begin. */
bool restore_starts_elsewhere(const struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(restore->state < RESTORE_STATE_COUNT);
    return restore->awaits &&
           point->allocation_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING;
}

Ckpt__V1__RestoreMode restore_mode(const struct restore *restore,
                                   const Ckpt__V1__RestartPoint *point)
{
    CHECK((unsigned)restore->asked.override <= MODE(PATH));
    if (restore->asked.override != MODE(UNSPECIFIED))
        return restore->asked.override;
    return point->restore != MODE(UNSPECIFIED) ? point->restore : MODE(OWN);
}

const Ckpt__V1__ShardInfo *restore_shard(const struct restore *restore,
                                         const Ckpt__V1__RestartPoint *point, size_t index)
{
    const struct restore_brought *brought = &restore->brought;

    CHECK(index < brought->part_count);
    CHECK(brought->parts == point->n_shards);
    if (brought->mode == MODE(PATH))
        return point->shards[brought->place + index * brought->places];
    if (brought->mode == MODE(ALL))
        return point->shards[index];
    return point->shards[brought->own_shard - 1];
}
