/* Decides when a leader that could go on leading hands over: to the preferred one, because its
 * clock is off, or because it cannot do its work. Then it goes also when nobody takes over.
 *
 * Flow     one look every LEADER_WATCH_MS. Preferred (configuration, preferred_leader): a voter
 *          that was reachable and caught up for LEADER_WATCH_STABLE_MS takes over, when this member
 *          has led that long too. Clock off (state_clock.h): any other one whose is not takes over
 *          as soon as this one's was off and it led for LEADER_WATCH_STABLE_MS; who is off and
 *          follows leaves elections to the others. Cannot serve: it leads and no entry
 *          of its term is applied after LEADER_WATCH_READY_MS, or the evaluator ended no cycle for
 *          LEADER_WATCH_CYCLES intervals, at least LEADER_WATCH_CYCLE_MS: any caught-up voter may
 *          try. When LEADER_WATCH_VAIN hand-overs have come to nothing and it still cannot serve,
 *          it gives up leading, if another one could be elected (raft/core/consensus_transfer.c).
 * Shapes   no flapping: between two hand-overs by this process at least LEADER_WATCH_RETRY_MS,
 *          twice as long after each, up to LEADER_WATCH_RETRY_MAX_MS; forgotten after twice that
 *          long without one. Those to the preferred one and those that are necessary, of which
 *          giving up is one, are counted apart.
 * Units    milliseconds.
 * Absent   full and hanging disks (disk_watch.h).
 * Errors   A hand-over that comes to nothing is logged (transfer_failed) and tried again after the
 *          pause; nothing is told to anybody else, and the leader goes on leading meanwhile.
 */
#ifndef CKPT_BROKER_LEADER_WATCH_H
#define CKPT_BROKER_LEADER_WATCH_H

struct broker;
struct leader_watch;

enum {
    LEADER_WATCH_MS = 500,
    LEADER_WATCH_STABLE_MS = 5000,
    LEADER_WATCH_LAG_MAX = 100, /* entries */
    LEADER_WATCH_READY_MS = 5000,
    LEADER_WATCH_CYCLES = 10,
    LEADER_WATCH_CYCLE_MS = 60000,
    LEADER_WATCH_VAIN = 2,
    LEADER_WATCH_ANSWER_MS = 2000, /* what has not come of a hand-over by then comes to nothing */
    LEADER_WATCH_RETRY_MS = 10000,
    LEADER_WATCH_RETRY_MAX_MS = 600000
};

/* On every member, after the replica was opened; looks from then on. Freed after the replica was
 * closed, when no hand-over is on its way any more. */
struct leader_watch *leader_watch_new(struct broker *broker);
void leader_watch_free(struct leader_watch *watch);

#endif
