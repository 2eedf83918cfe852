/* Members of a cluster in the simulated world, with a small state machine and the checks that must
 * hold at every step.
 *
 * Checks   I1 one leader per term; I3/I5 equal entries and equal state at equal index on all
 *          members, also through snapshots; I6 an acknowledged proposal is never lost; I7 a
 *          confirmed read sees everything acknowledged before it began.
 * Shapes   nodes 0 .. founders - 1 bootstrap the cluster; the others join. The replicated address
 *          book of the real program is played by cluster_add(): every member that is up, or starts
 *          later, knows all addresses.
 */
#ifndef CKPT_TESTS_RAFT_CLUSTER_H
#define CKPT_TESTS_RAFT_CLUSTER_H

#include "raft/core/consensus.h"
#include "tests/sim/sim.h"

enum { CLUSTER_TERMS_MAX = 65536, CLUSTER_INDEXES_MAX = 400000 };

struct cluster;

struct cluster_state { /* of the state machine */
    uint64_t index;
    uint64_t hash;
    uint64_t entries;
};

struct cluster_node {
    struct cluster *cluster;
    unsigned number;
    struct clock_ops clock;
    struct random_ops random;
    struct disk_ops disk;
    struct network_ops network;
    struct consensus *consensus; /* NULL: down */
    bool doomed;                 /* fatal() was called */
    struct cluster_state state;
    uint64_t ballast_bytes;     /* written with each snapshot */
    uint64_t applied_here;      /* by apply(), in this life */
    uint64_t restored;          /* snapshots adopted */
    struct cluster_state taken; /* of the snapshot at work */
    uint64_t taken_left;        /* of its ballast */
    bool taking, taken_head;
    enum consensus_role role;
    unsigned words_of[SIM_NODES_MAX],
        leader_words; /* that were heard with messages, in this life */
    struct err fatal;
    bool started; /* at least once */
    bool joins;   /* is not one of the founders */
    bool settled; /* has opened once with config.join */
    bool gone;    /* was removed: never started again */
};

struct cluster {
    struct sim *sim;
    unsigned count;
    unsigned founders;
    bool founds; /* the founders have to agree first; else they have, before the test */
    struct consensus_member members[SIM_NODES_MAX];
    struct consensus_config config;
    struct cluster_node nodes[SIM_NODES_MAX];
    uint64_t *entry_hashes; /* by index, 0: nobody has applied it */
    uint64_t *state_hashes;
    uint64_t *configurations; /* by index of their entry, once committed */
    uint64_t *leaders;        /* by term */
    uint64_t acknowledged_index;
    uint64_t acknowledged, dropped, refused, reads_done, reads_failed;
    uint64_t next_payload;
    unsigned entry_bytes_max;
    uint64_t changes_done, changes_refused, changes_unknown;
    uint64_t change_base, change_done_base; /* when the last one was asked for */
    struct err change_err;                  /* of the last one that did not work */
};

struct cluster *cluster_new(uint64_t seed, unsigned count);
/* Nodes from `founders` on are not part of it yet. */
struct cluster *cluster_new_with(uint64_t seed, unsigned count, unsigned founders);
void cluster_free(struct cluster *cluster);
void cluster_start(struct cluster *cluster, unsigned node, bool bootstrap);
/* Opens and tells whether it worked. */
int cluster_try_start(struct cluster *cluster, unsigned node, bool bootstrap, struct err *err);
void cluster_kill(struct cluster *cluster, unsigned node);
/* One event, then buries members that have failed. */
bool cluster_step(struct cluster *cluster);
void cluster_run(struct cluster *cluster, uint64_t us);
/* The member that leads the highest term, or -1. */
int cluster_leader(struct cluster *cluster);
/* These two print the members when they give up. */
bool cluster_run_until_leader(struct cluster *cluster, uint64_t us_max);
/* New, with a leader, a second after it was elected. */
struct cluster *cluster_up(uint64_t seed, unsigned count, unsigned founders);
struct consensus_status status_of(struct cluster *cluster, unsigned node);
void cluster_print(struct cluster *cluster);
/* Proposes to whoever leads; false when nobody takes it. */
bool cluster_propose(struct cluster *cluster);
/* As many, one after the other, waiting for a leader. */
void cluster_propose_many(struct cluster *cluster, unsigned count);
void cluster_read(struct cluster *cluster);
/* Asks the leader; counted in changes_*, which tell how it went. False: nobody leads. */
bool cluster_add(struct cluster *cluster, unsigned node);
/* The same without telling all members the address first. */
bool cluster_ask(struct cluster *cluster, unsigned node);
bool cluster_promote(struct cluster *cluster, unsigned node);
bool cluster_remove(struct cluster *cluster, unsigned node);
/* Runs until the last change that was asked for is done, refused or lost; true: done. */
bool cluster_change_wait(struct cluster *cluster);
/* Cuts all its connections to others, or lets them be. */
void cluster_isolate(struct cluster *cluster, unsigned node, bool up);
/* One random fault, or the end of some. */
void cluster_fault(struct cluster *cluster);
/* No fault any more, and who was started is started again. */
void cluster_heal(struct cluster *cluster);
/* All members of the leader's configuration are up and have applied what the leader has. */
bool cluster_run_until_equal(struct cluster *cluster, uint64_t us_max);

#endif
