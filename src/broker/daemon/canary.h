/* A canary: a member that watches a new build in its own process, by the rows of CANARY_CHECKS.
 *
 * Flow     upgrades.c takes a sample when the watch begins and every CANARY_LOOK_MS after it.
 *          canary_look() compares the two, row by row.
 * Units    samples count from the start of the process, but for what is of this moment.
 * Absent   clock and I/O: canary.c is a pure function. The state's hash has no row: each entry of
 *          the log carries the leader's, and a member whose own differs ends at once (replica.c),
 *          which fails the watch as well. Nor have ends of the process: ckptd-start counts them.
 */
#ifndef CKPT_BROKER_CANARY_H
#define CKPT_BROKER_CANARY_H

#include "src/broker/replica/replica.h"

enum {
    CANARY_LOOK_MS = 5000,
    CANARY_TEXT_BYTES = 80,
    CANARY_ELECTIONS_MAX = 3,
    CANARY_COMMITS_MIN = 100, /* fewer tell nothing of a p99 */
    CANARY_BEHIND_MS = 10000,
    CANARY_BEHIND_LOOKS = 6, /* in a row */
    CANARY_LOST_PEERS_MAX = 30,
    CANARY_LATE_TURNS_MAX = 200,
    CANARY_JOBS_FAILED_MIN = 3
};
#define CANARY_MEMORY_BYTES UINT64_C(268435456)

/* X(identifier, name, limit): what fails when it is passed; canary.c has a function of each. */
#define CANARY_CHECKS(X)                                                                           \
    X(elections, "elections", "at most 3 changes of the leader")                                   \
    X(commit, "commit", "p99 of commits as leader below 4.2 s")                                    \
    X(behind, "behind", "its state at most 10 s old, or for less than 30 s")                       \
    X(memory, "memory", "at most twice that of the begin and 256 MiB")                             \
    X(peers, "peers", "members lost from sight at most 30 times")                                  \
    X(loop, "loop", "at most 200 turns of the loop late by 50 ms")                                 \
    X(snapshots, "snapshots", "none fails")                                                        \
    X(jobs, "jobs", "at most 3 jobs fail, or a tenth of those that run")

struct canary_sample {
    uint64_t leader_changes;
    uint64_t commit_us[REPLICA_LATENCY_BUCKETS]; /* as in struct replica_stats */
    uint64_t behind_looks; /* in a row with a state older than CANARY_BEHIND_MS, up to now */
    uint64_t memory_bytes; /* resident now */
    uint64_t lost_peers;
    uint64_t late_turns;
    uint64_t snapshot_failures;
    uint64_t jobs_failed; /* in the state now */
    uint64_t jobs_running;
};

struct canary_result {
    const char *name, *limit;
    char value[CANARY_TEXT_BYTES];
    bool failed;
};

#define CANARY_COUNT_ONE(id, name, limit) +1
enum { CANARY_CHECK_COUNT = 0 CANARY_CHECKS(CANARY_COUNT_ONE) };

/* True: every check holds. */
bool canary_look(const struct canary_sample *begin, const struct canary_sample *now,
                 struct canary_result ret_results[CANARY_CHECK_COUNT]);

#endif
