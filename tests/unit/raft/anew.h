/* A member that lost its disk and is begun anew under its old id, beside one that lags (S17, I11): what its former self had acknowledged,
 * and whom it had voted for, is lost. Two scenes, whatever the way to begin.
 *
 * Owner   the cluster, of three that are up, is the caller's. */
#ifndef TESTS_UNIT_RAFT_ANEW_H
#define TESTS_UNIT_RAFT_ANEW_H

#include "tests/unit/raft/cluster.h"

struct anew {
    struct cluster *cluster;
    unsigned leader, wiped, late;   /* set by the scene */
    uint64_t acknowledged, lagging; /* indexes: the last that was, the last that `late` has */
};

/* Starts the node, whose disk is empty. */
typedef void anew_begin_fn(struct cluster *cluster, unsigned node);

/* It must not help a member elect itself that lacks what it and the leader had acknowledged; it has a vote again when it is filled. */
void anew_has_no_vote(struct anew *anew, anew_begin_fn *begin);
/* While a leader fills it, it has a say only when it holds all that was committed: half a log would win with the vote of one that has
 * less. */
void anew_half_filled_has_no_vote(struct anew *anew, anew_begin_fn *begin);
/* The first part of that: only the leader and `wiped` are up, unless that has ended. */
void anew_half_filled(struct anew *anew, anew_begin_fn *begin);

#endif
