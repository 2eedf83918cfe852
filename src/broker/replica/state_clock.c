/* The time that commands are stamped with. See state_clock.h, which has the rules. All comparisons
 * are made in leads: a wall clock less the monotonic one, which does not change while both run, so
 * that clocks which were heard at different moments can be compared. */
#include "src/broker/replica/state_clock.h"

#include "src/base/bytes.h"
#include "src/base/check.h"

enum { SAID_SETTLED = 1, SAID_LEADS = 2 };
#define WORDS_TIME_MAX (UINT64_C(1) << 48) /* the year 10889: what is above makes no sense */

static state_clock_lead lead_of(uint64_t monotonic_us, uint64_t ms)
{
    return (state_clock_lead)ms - (state_clock_lead)(monotonic_us / 1000);
}

/* The wall clock of a lead at a moment of the monotonic clock; never below 0. */
static uint64_t clock_at(state_clock_lead lead_ms, uint64_t monotonic_us)
{
    state_clock_lead ms = lead_ms + (state_clock_lead)(monotonic_us / 1000);

    return ms < 0 ? 0 : (uint64_t)ms;
}

/* The time in the range that needs the smallest correction. */
static state_clock_lead find_nearest(const struct state_clock_range *range,
                                     state_clock_lead lead_ms)
{
    if (lead_ms < range->from_ms)
        return range->from_ms;
    return lead_ms > range->to_ms ? range->to_ms : lead_ms;
}

static void set_anchor(struct state_clock *clock, uint64_t monotonic_us, uint64_t ms)
{
    clock->anchor_us = monotonic_us;
    clock->anchor_ms = ms;
    clock->anchored = true;
}

/* ---- the time ---- */

/* Before there is an anchor: the earlier of the two middle clocks, since a time that is too early
 * ends nothing too soon. A leader anchors it at once. */
static uint64_t first_now(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                          uint64_t state_ms)
{
    uint64_t now_ms = clock->looked ? clock_at(clock->right.from_ms, monotonic_us) : wall_ms;

    if (now_ms < state_ms)
        now_ms = state_ms;
    if (!clock->leads)
        return now_ms;
    set_anchor(clock, monotonic_us, now_ms);
    clock->settled |= clock->agreed;
    return now_ms;
}

/* From the anchor on the monotonic clock counts, and the time leans towards the right one by a
 * tenth of what has passed. A leader that is not settled is set forward once, when a majority
 * agrees. The time of the state is never undercut. */
uint64_t state_clock_now(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                         uint64_t state_ms)
{
    uint64_t elapsed_ms, lean_ms, now_ms, right_ms;

    if (!clock->anchored)
        return first_now(clock, monotonic_us, wall_ms, state_ms);
    elapsed_ms = (monotonic_us - clock->anchor_us) / 1000;
    lean_ms = elapsed_ms / STATE_CLOCK_SLEW;
    now_ms = clock->anchor_ms + elapsed_ms;
    right_ms = clock_at(find_nearest(&clock->right, lead_of(monotonic_us, now_ms)), monotonic_us);
    if (clock->leads && clock->agreed && !clock->settled) {
        clock->settled = true;
        lean_ms = right_ms > now_ms ? right_ms - now_ms : lean_ms;
    }
    if (!clock->leads || !clock->looked)
        right_ms = now_ms;
    if (right_ms > now_ms)
        now_ms += right_ms - now_ms < lean_ms ? right_ms - now_ms : lean_ms;
    else
        now_ms -= now_ms - right_ms < lean_ms ? now_ms - right_ms : lean_ms;
    if (now_ms < state_ms)
        now_ms = state_ms;
    else if (elapsed_ms < STATE_CLOCK_SAMPLE_US / 1000)
        return now_ms; /* anchors that are close together would round the lean away */
    set_anchor(clock, monotonic_us, now_ms);
    return now_ms;
}

/* ---- comparing ---- */

static bool is_voter(const struct state_clock_voters *voters, uint64_t member_id)
{
    for (size_t i = 0; i < voters->count; i++)
        if (voters->ids[i] == member_id)
            return true;
    return false;
}

static bool is_fresh(uint64_t heard_us, uint64_t monotonic_us)
{
    return monotonic_us - heard_us < STATE_CLOCK_FRESH_US;
}

static bool is_counted(const struct state_clock_wall *wall, uint64_t monotonic_us)
{
    return wall->heard && is_fresh(wall->heard_us, monotonic_us);
}

/* By insertion: there are at most nine. */
static void sort_in(state_clock_lead *leads, size_t *count, state_clock_lead lead_ms)
{
    size_t place = (*count)++;

    for (; place > 0 && leads[place - 1] > lead_ms; place--)
        leads[place] = leads[place - 1];
    leads[place] = lead_ms;
}

/* The clocks of voters that were heard lately, in order; this member's too. */
static size_t leads_now(const struct state_clock *clock, uint64_t monotonic_us,
                        state_clock_lead own_ms, const struct state_clock_voters *voters,
                        state_clock_lead leads[STATE_CLOCK_MEMBERS_MAX + 1])
{
    size_t count = 0;

    for (size_t i = 0; i < STATE_CLOCK_MEMBERS_MAX; i++) {
        const struct state_clock_wall *wall = &clock->walls[i];
        if (wall->member_id != voters->self_id && is_counted(wall, monotonic_us) &&
            is_voter(voters, wall->member_id))
            sort_in(leads, &count, wall->lead_ms);
    }
    if (count == 0 || is_voter(voters, voters->self_id))
        sort_in(leads, &count, own_ms);
    return count;
}

static bool majority_agrees(const struct state_clock_range *right, const state_clock_lead *leads,
                            size_t count, size_t voter_count)
{
    size_t near = 0;

    for (size_t i = 0; i < count; i++)
        near += leads[i] >= right->to_ms - STATE_CLOCK_OFF_MS &&
                leads[i] <= right->from_ms + STATE_CLOCK_OFF_MS;
    return near > voter_count / 2;
}

/* Two looks that differ may be one of words that came late. True: `off` is another one now. */
static bool judge_clocks(struct state_clock *clock)
{
    int64_t off_ms = clock->offset_ms < 0 ? -clock->offset_ms : clock->offset_ms;
    bool off = off_ms > (clock->off ? STATE_CLOCK_OFF_MS / 2 : STATE_CLOCK_OFF_MS);

    if (off == clock->off)
        clock->looks = 0;
    else if (++clock->looks == STATE_CLOCK_LOOKS) {
        clock->off = off;
        clock->looks = 0;
        return true;
    }
    return false;
}

/* The middle of the clocks that were heard is right; of an even number everything between the two
 * middle ones. A leader of two judges by its own clock, a follower by what the leader told, and by
 * its own view only when more than two were heard. */
bool state_clock_look(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                      const struct state_clock_voters *voters)
{
    state_clock_lead leads[STATE_CLOCK_MEMBERS_MAX + 1], own_ms = lead_of(monotonic_us, wall_ms);
    size_t count = leads_now(clock, monotonic_us, own_ms, voters, leads);
    bool due = !clock->looked || monotonic_us - clock->looked_us >= STATE_CLOCK_LOOK_US;

    CHECK(count > 0);
    clock->right = (struct state_clock_range){leads[(count - 1) / 2], leads[count / 2]};
    clock->agreed = majority_agrees(&clock->right, leads, count, voters->count);
    clock->leads = voters->leads;
    clock->looked = true;
    if (voters->leads)
        clock->judged = count == 2 ? (struct state_clock_range){own_ms, own_ms} : clock->right;
    else if (clock->told && is_fresh(clock->told_us, monotonic_us))
        clock->judged = clock->told_right;
    else if (count > 2)
        clock->judged = clock->right;
    else
        return false; /* nobody says what is right: what was found before stands */
    clock->offset_ms = own_ms - find_nearest(&clock->judged, own_ms);
    if (!due)
        return false;
    clock->looked_us = monotonic_us;
    return judge_clocks(clock);
}

bool state_clock_offset(const struct state_clock *clock, uint64_t monotonic_us, uint64_t member_id,
                        int64_t *ret_offset_ms)
{
    for (size_t i = 0; i < STATE_CLOCK_MEMBERS_MAX; i++) {
        const struct state_clock_wall *wall = &clock->walls[i];
        if (wall->member_id != member_id || !is_counted(wall, monotonic_us) || !clock->leads)
            continue;
        *ret_offset_ms = wall->lead_ms - find_nearest(&clock->judged, wall->lead_ms);
        return true;
    }
    return false;
}

/* ---- words ---- */

/* NULL: nothing was heard of the member since the start. */
static const struct state_clock_wall *wall_known(const struct state_clock *clock,
                                                 uint64_t member_id)
{
    for (size_t i = 0; i < STATE_CLOCK_MEMBERS_MAX; i++)
        if (clock->walls[i].member_id == member_id && member_id != 0)
            return &clock->walls[i];
    return NULL;
}

/* The words: flags, wall clock, time of the state, the range that is right, and the stamps by which
 * the other side finds out how long its own words and these were on their way. */
size_t state_clock_say(const struct state_clock *clock, uint64_t to, uint64_t monotonic_us,
                       uint64_t wall_ms, uint64_t now_ms, uint8_t bytes[STATE_CLOCK_WORDS_BYTES])
{
    const struct state_clock_wall *wall = wall_known(clock, to);

    bytes[0] = (clock->settled ? SAID_SETTLED : 0) | (clock->leads ? SAID_LEADS : 0);
    bytes_put(bytes + 1, wall_ms, 8);
    bytes_put(bytes + 9, now_ms, 8);
    bytes_put(bytes + 17, clock_at(clock->judged.from_ms, monotonic_us), 8);
    bytes_put(bytes + 25, clock_at(clock->judged.to_ms, monotonic_us), 8);
    bytes_put(bytes + 33, monotonic_us, 8);
    bytes_put(bytes + 41, wall == NULL ? 0 : wall->stamp_us, 8);
    bytes_put(bytes + 49, wall == NULL ? 0 : monotonic_us - wall->came_us, 8);
    return STATE_CLOCK_WORDS_BYTES;
}

/* Its own place, a free one, or that of the member that has been silent the longest. */
static struct state_clock_wall *wall_of(struct state_clock *clock, uint64_t member_id)
{
    struct state_clock_wall *place = &clock->walls[0];

    for (size_t i = 0; i < STATE_CLOCK_MEMBERS_MAX; i++) {
        struct state_clock_wall *wall = &clock->walls[i];
        if (wall->member_id == member_id)
            return wall;
        if (place->member_id != 0 && (wall->member_id == 0 || wall->came_us < place->came_us))
            place = wall;
    }
    *place = (struct state_clock_wall){.member_id = member_id};
    return place;
}

/* stamp_us: of the words of this member that were answered, 0: of none; they were held for held_us.
 * Monotonic clocks differ a little. */
static bool came_late(uint64_t monotonic_us, uint64_t stamp_us, uint64_t held_us)
{
    uint64_t elapsed_us = monotonic_us - stamp_us;

    if (stamp_us == 0 || stamp_us > monotonic_us || elapsed_us > STATE_CLOCK_FRESH_US)
        return true;
    return elapsed_us > held_us ? elapsed_us - held_us > STATE_CLOCK_LATE_US
                                : held_us - elapsed_us > STATE_CLOCK_LATE_US;
}

/* A follower has its anchor from the leader, so that it goes on with the same time when it comes to
 * lead. */
static void hear_leader(struct state_clock *clock, uint64_t monotonic_us, const uint8_t *bytes)
{
    clock->settled = (bytes[0] & SAID_SETTLED) != 0;
    clock->told = true;
    clock->told_us = monotonic_us;
    clock->told_right = (struct state_clock_range){lead_of(monotonic_us, bytes_get(bytes + 17, 8)),
                                                   lead_of(monotonic_us, bytes_get(bytes + 25, 8))};
    set_anchor(clock, monotonic_us, bytes_get(bytes + 9, 8));
}

/* Words are kept for their stamp even when they came late: the answer to them needs it. They count
 * only when they were on their way for a short time. */
void state_clock_hear(struct state_clock *clock, uint64_t monotonic_us, uint64_t member_id,
                      bool leads, const uint8_t *bytes, size_t length)
{
    struct state_clock_wall *wall;
    uint64_t wall_ms, to_ms;

    if (length != STATE_CLOCK_WORDS_BYTES || member_id == 0)
        return;
    wall_ms = bytes_get(bytes + 1, 8);
    to_ms = bytes_get(bytes + 25, 8);
    if (wall_ms > WORDS_TIME_MAX || bytes_get(bytes + 9, 8) > WORDS_TIME_MAX ||
        to_ms > WORDS_TIME_MAX || bytes_get(bytes + 17, 8) > to_ms)
        return;
    wall = wall_of(clock, member_id);
    wall->stamp_us = bytes_get(bytes + 33, 8);
    wall->came_us = monotonic_us;
    if (came_late(monotonic_us, bytes_get(bytes + 41, 8), bytes_get(bytes + 49, 8)))
        return;
    wall->heard = true;
    wall->lead_ms = lead_of(monotonic_us, wall_ms);
    wall->heard_us = monotonic_us;
    if (leads && (bytes[0] & SAID_LEADS) != 0) /* its first entry goes out before it has looked */
        hear_leader(clock, monotonic_us, bytes);
}
