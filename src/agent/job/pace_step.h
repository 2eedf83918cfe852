/* The pace of a job's ranks on this node: the steps that they say unasked, the gaps between these,
 * and for how long none of them has stepped.
 *
 * Flow     pace_stepped() for each step that a rank says; pace_turn() before each heartbeat.
 *          pace_quiet() and pace_stuck() judge from that, so that no clock is read here.
 * Shapes   a ring of PACE_GAPS gaps of each rank, 1 KiB, from its first step on.
 * Units    microseconds of the agent's monotonic clock; gaps in milliseconds.
 * Time     quiet time is the sum of what passed between turns, each at most PACE_TURN_MAX_US. It is
 *          told up to the turn before: while the agent itself stood still, the words of ranks wait
 *          in its sockets, and are heard by the next turn. It stands still while something is under
 *          way in which ranks do not step. A gap with such a time in it is none of their pace.
 * Absent   whether the job hangs: its other nodes count as well, and the leader judges that.
 */
#ifndef CKPT_AGENT_PACE_STEP_H
#define CKPT_AGENT_PACE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PACE_GAPS = 256,
    PACE_TURN_MAX_US = 30000000, /* three heartbeats */
    PACE_LOOK_MS = 1000          /* a rank says a step once a second at most */
};

/* Of one rank. Begins as zeros. */
struct pace_rank {
    bool told; /* it has said a step */
    bool cut;  /* the gap that is open is none of its pace */
    uint64_t step;
    uint64_t step_us;     /* when it was said */
    uint64_t ns_per_step; /* as it measured; 0: not known */
    uint32_t gap_count, gap_next;
    uint32_t gaps_ms[PACE_GAPS];
};

/* Of all of them. Begins as zeros. */
struct pace {
    bool told;
    uint64_t step_us;  /* when one of them stepped last */
    uint64_t quiet_us; /* for so long none has, up to the turn before the last one */
    uint64_t open_us;  /* ... and up to the last one */
    uint64_t turn_us;  /* when that was */
    uint64_t kept_us;  /* when the journal was last told (pace_kept.h); 0: not yet */
};

/* under_way: as at pace_turn(). A step that it has said before is none. */
void pace_stepped(struct pace *pace, struct pace_rank *rank, uint64_t step, uint64_t ns_per_step,
                  uint64_t now_us, bool under_way);
/* under_way: a checkpoint, its barrier, or a stop. */
void pace_turn(struct pace *pace, uint64_t now_us, bool under_way);
/* The gap that 99 of 100 are not longer than, by nearest rank; 0: there is none yet. */
uint32_t pace_gap_p99_ms(const struct pace_rank *rank);
/* The step that it may have come to by the time at which it would have said the next. */
uint64_t pace_step_most(const struct pace_rank *rank);
/* It is quiet for longer than its steps take: it is worth a look at its processes. gap_p99_ms: the
 * longest of its ranks. */
bool pace_stuck(const struct pace *pace, uint32_t gap_p99_ms);

#endif
