/* Failover drills: faults that the members bring about themselves, as a record of the state.
 *
 * Flow     start_drill is taken when every guard holds. The drill is ARMED for FSM_DRILL_LEAD_MS,
 *          in which the members' probers begin, then the fault is on. Its end, and the end of all,
 *          come by a timer of the state. Then the members tell their words, and the checks decide.
 * Shapes   one at a time; the last FSM_DRILLS_MAX are kept. The part of each member is derived
 *          from the record (src/broker/drill), so a new leader goes on with it.
 * Units    milliseconds of the state's clock.
 * Errors   a guard that does not hold refuses with its own status.
 * Absent   faults. The state knows of them what is told in commands.
 */
#ifndef CKPT_FSM_DRILL_H
#define CKPT_FSM_DRILL_H

#include "fsm/fsm.h"

enum {
    FSM_DRILL_LEAD_MS = 3000,
    FSM_DRILL_LOOK_MS = 500, /* between looks whether it has settled */
    FSM_DRILL_MIN_MS = 2000,
    FSM_DRILL_MAX_MS = 600000,
    FSM_DRILL_AWAY_MAX_MS = 10000 /* agents and clients wait out that much */
};

/* X(identifier, name, duration, longest, settle, hits), in the order of DrillKind: the duration
 * where none is asked for, and the longest one; the time within which the members' words come; and
 * whom it hits. A hang ends before a watchdog of 30 s, which is fed every 15 s, can bite. */
enum fsm_drill_hits {
    FSM_DRILL_HITS_LEADER,
    FSM_DRILL_HITS_FOLLOWER,
    FSM_DRILL_HITS_TARGET,
    FSM_DRILL_HITS_NOBODY
};
#define FSM_DRILL_KINDS(X)                                                                         \
    X(LEADER_KILL, "leader-kill", 20000, FSM_DRILL_MAX_MS, 30000, LEADER)                          \
    X(LEADER_HANG, "leader-hang", 20000, 28000, 30000, LEADER)                                     \
    X(MEMBER_LOSS, "member-loss", 20000, FSM_DRILL_MAX_MS, 30000, FOLLOWER)                        \
    X(STORAGE_OUTAGE, "storage-outage", 60000, FSM_DRILL_MAX_MS, 120000, TARGET)                   \
    X(RESTORE, "restore", 2000, FSM_DRILL_MAX_MS, 600000, NOBODY)
struct fsm_drill_kind {
    Ckpt__V1__DrillKind kind;
    const char *name;
    uint64_t duration_ms, longest_ms, settle_ms;
    enum fsm_drill_hits hits;
};
const struct fsm_drill_kind *fsm_drill_kind(Ckpt__V1__DrillKind kind); /* NULL: none of ours */
const struct fsm_drill_kind *fsm_drill_kind_named(const char *name);   /* likewise */

/* A condition for a begin. They are asked in their order (apply_drill.c). */
struct fsm_drill_guard {
    const char *name;
    enum fsm_status status; /* of a refusal */
};
/* NULL: there is no i-th one. */
const struct fsm_drill_guard *fsm_drill_guard(size_t i);
/* At this instant; `asked` has passed its validation. FSM_OK, or the guard's status with its
 * numbers. */
enum fsm_status fsm_drill_guard_ask(const struct fsm *fsm, size_t i,
                                    const Ckpt__Log__V1__StartDrill *asked, uint64_t now_ms,
                                    struct fsm_outcome *ret_outcome);

/* Whether the target and the job that it names are there and fit. */
enum fsm_status fsm_drill_names(const struct fsm *fsm, const Ckpt__Log__V1__StartDrill *asked,
                                struct fsm_outcome *ret_outcome);

/* The checks by which a drill passes (drill_checks.c). */
enum { FSM_DRILL_CHECK_COUNT = 9 };
struct fsm_drill_check {
    const char *name;
    uint64_t value, limit; /* at most */
    bool failed;
};
/* Of a drill that has ended, and so far of one under way. Returns whether all hold. */
bool fsm_drill_check(const Ckpt__V1__Drill *drill,
                     struct fsm_drill_check ret_checks[FSM_DRILL_CHECK_COUNT]);

/* The i-th kept drill, the oldest first; NULL: no more. */
const Ckpt__V1__Drill *fsm_drill_at(const struct fsm *fsm, size_t i);
const Ckpt__V1__Drill *fsm_drill_find(const struct fsm *fsm,
                                      uint64_t drill_id);     /* NULL: not kept */
const Ckpt__V1__Drill *fsm_drill_open(const struct fsm *fsm); /* under way; NULL: none */
bool fsm_drill_over(Ckpt__V1__DrillState state);              /* it has ended */
uint64_t fsm_drill_passed_ms(const struct fsm *fsm); /* end of the last good one; 0: none */
/* Of the record, after each entry. */
bool fsm_drills_kept(const struct fsm *fsm);

#endif
