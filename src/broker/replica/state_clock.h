/* The time that commands are stamped with, and what the members' wall clocks say beside each other.
 *
 * Flow     state_clock_now() for every stamp and for every look whether a deadline has come.
 *          Members tell each other their clocks along with heartbeats, answers and votes:
 *          state_clock_say() writes what goes out, state_clock_hear() takes what came. Words carry
 *          back the stamp of the last ones from there and for how long they were held: what took
 *          longer than STATE_CLOCK_LATE_US for its way there and back, or answers nothing, says
 *          nothing of this moment and does not count. The leader hears all, and tells the others
 *          what it takes for the right time, and its own state's time. state_clock_look() every
 *          STATE_CLOCK_LOOK_US, and as a member comes to lead.
 * Shapes   the anchor says which time it was at which moment of the monotonic clock: a leader's
 *          stamps run with that clock and only lean towards the right time, the median of the
 *          voters' wall clocks, or where it lies between two of them, the nearer one. Who follows
 *          has the anchor from the leader. So a wall clock that is off moves nothing, whoever
 *          leads. Settled: the anchor was a leader's, or a majority of all voters agreed on the
 *          time since the start. Until then it is the earlier one of the two middle clocks, and is
 *          set forward once when such a majority is heard: a time that is too early ends nothing
 *          too soon.
 * Units    milliseconds since the epoch; microseconds of the monotonic clock.
 * Errors   a step of most members' wall clocks makes timers at most a tenth faster or slower. What
 *          counts came at most STATE_CLOCK_LATE_US late, never early: a clock looks behind by that
 *          at most. A machine that was suspended, whose monotonic clock stood still, may be wrong
 *          until it hears the others anew: a member is off only after STATE_CLOCK_LOOKS looks that
 *          agree.
 * Absent   setting clocks right: chrony's work. Where only two clocks are heard nobody knows which
 *          of them is right: who follows is said to be off.
 * When     state_clock_look() at least every STATE_CLOCK_LOOK_US, and once before a new leader's
 *          first stamp; state_clock_now() whenever the time is needed: it moves the anchor.
 */
#ifndef CKPT_BROKER_STATE_CLOCK_H
#define CKPT_BROKER_STATE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STATE_CLOCK_SLEW = 10,
    STATE_CLOCK_SAMPLE_US = 1000000, /* between two anchors of a leader */
    STATE_CLOCK_LATE_US = 2000000,
    STATE_CLOCK_LOOK_US = 1000000,
    STATE_CLOCK_FRESH_US = 10000000, /* so long after it was heard a clock counts */
    STATE_CLOCK_OFF_MS = 5000,       /* more is off ... */
    STATE_CLOCK_LOOKS = 3,           /* ... after so many looks; or well again */
    STATE_CLOCK_MEMBERS_MAX = 9,
    STATE_CLOCK_WORDS_BYTES = 57
};

/* One of this member's, in milliseconds: the wall clock less the monotonic one. */
typedef int64_t state_clock_lead;

struct state_clock_wall {
    uint64_t member_id; /* 0: a free place */
    uint64_t stamp_us;  /* of its last words, by its monotonic clock; goes back to it */
    uint64_t came_us;   /* when these came */
    bool heard;         /* words that count */
    state_clock_lead lead_ms;
    uint64_t heard_us;
};

/* The times that are right: one, or what lies between the two middle clocks. */
struct state_clock_range {
    state_clock_lead from_ms, to_ms;
};

/* All zero: not started. */
struct state_clock {
    uint64_t anchor_ms, anchor_us;
    bool anchored, settled;
    struct state_clock_wall walls[STATE_CLOCK_MEMBERS_MAX];
    /* As of the last look. */
    bool looked;
    uint64_t looked_us;
    bool leads;
    struct state_clock_range right;
    bool agreed; /* a majority of all voters is within STATE_CLOCK_OFF_MS of `right` */
    struct state_clock_range judged; /* what the members' clocks are compared with, and told */
    /* What a leader said is right. */
    bool told;
    uint64_t told_us;
    struct state_clock_range told_right;
    int64_t offset_ms; /* of this member's wall clock; ahead is positive */
    unsigned looks;    /* in a row that say otherwise than `off` */
    bool off;
};

/* The clocks that count. The ids are of the voters, this member among them or not. */
struct state_clock_voters {
    uint64_t self_id;
    const uint64_t *ids;
    size_t count;
    bool leads; /* this member */
};

/* The time of the state at this moment, in milliseconds since the epoch. Never below state_ms, the
 * time of the replicated state. */
uint64_t state_clock_now(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                         uint64_t state_ms);
/* Compares the clocks that were heard lately. True: this member's is off now and was not, or the
 * other way round. */
bool state_clock_look(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                      const struct state_clock_voters *voters);
/* Of a member's clock beside the right time, as of the last look; false: not heard lately. */
bool state_clock_offset(const struct state_clock *clock, uint64_t monotonic_us, uint64_t member_id,
                        int64_t *ret_offset_ms);

/* To one member. now_ms: what state_clock_now() said. */
size_t state_clock_say(const struct state_clock *clock, uint64_t to, uint64_t monotonic_us,
                       uint64_t wall_ms, uint64_t now_ms, uint8_t bytes[STATE_CLOCK_WORDS_BYTES]);
/* leads: the leader of this term says so. What makes no sense is passed over. */
void state_clock_hear(struct state_clock *clock, uint64_t monotonic_us, uint64_t member_id,
                      bool leads, const uint8_t *bytes, size_t length);

#endif
