/* The rules that make libraft 0.15 safe, applied around its five entry points. Without them it
 * loses committed entries.
 *
 * Flow     every received message goes through safety_receive(), every sent one through
 *          safety_send(), every tick asks safety_may_tick(), every finished append is followed by
 *          safety_replay().
 * Shapes   one per member; at most one held result per peer.
 * Units    log indexes, terms, milliseconds.
 * Errors   none: a message that breaks a rule is changed or dropped, as one may be lost.
 * Source   raft/RULES.md says why each rule exists; S4 (fail-stop) is in wal.c and consensus.c, S10
 *          (warm connections) in transport.c, the trigger of S11 and S21 in consensus_election.c,
 *          S15 in consensus_io.c.
 */
#ifndef CKPT_RAFT_SAFETY_H
#define CKPT_RAFT_SAFETY_H

#include <raft.h>

#include "raft/core/consensus.h"
#include "raft/core/membership.h"
#include "raft/net/frame.h"

/* For the simulator alone, to show that each rule is needed: while bit n is set, rule Sn is
 * switched off. No program sets it. */
extern uint32_t safety_rules_off;

static inline bool safety_rule(unsigned rule)
{
    return __builtin_expect((safety_rules_off >> rule & 1) == 0, 1);
}

/* libraft's state of struct raft_progress; its names are not in the public header. */
enum { PROGRESS_PROBE = 0, PROGRESS_PIPELINE = 1, PROGRESS_SNAPSHOT = 2 };

/* S2: the newest good answer of a peer, which waits until an entry of our term is stored here. */
struct safety_held {
    uint64_t peer; /* 0: free */
    struct raft_append_entries_result result;
    uint64_t ahead_ms; /* after the election it had stored an entry of the term; 0: has not */
};

struct safety {
    struct raft *raft;
    void (*receive)(struct raft_io *io, struct raft_message *message); /* libraft's */
    /* S1: what the leader of verified_term has proved to share with us. */
    uint64_t verified_term;
    uint64_t verified_index;
    uint64_t verifying_index; /* while an AppendEntries is handled, else 0 */
    uint64_t install_term;    /* of the snapshot that libraft is shown with another one; else 0 */
    bool refusing;            /* S20: while an AppendEntries of an older term is handled */
    struct safety_held held[CONSENSUS_MEMBERS_MAX]; /* S2 */
    uint64_t elected_ms;                            /* S2: when this member was, the last time */
    bool lent;                                      /* S3: libraft sees another last_stored */
    uint64_t stored;                                /* than this one */
    struct membership membership;                   /* S16 */
    bool leader_gone;                               /* S9: its connection is dead */
    uint64_t leader_heard_ms;
    /* All that was committed when the leader said what was heard then is applied here; 0: never.
     * And what it said next. */
    uint64_t level_ms;
    uint64_t awaited_index, awaited_term, awaited_ms; /* ms 0: nothing is awaited */
};

/* raft must live until safety_close(); libraft's receive callback is set in `receive` later, when
 * it starts. */
void safety_init(struct safety *safety, struct raft *raft);
void safety_close(struct safety *safety);
/* Hands the message to libraft, changed as the rules want, later, or not at all. Takes its entries
 * like libraft does. */
void safety_receive(struct safety *safety, struct raft_message *message);
/* May change the message; false: it must not be sent. */
bool safety_send(const struct safety *safety, struct raft_message *message);
/* False while libraft's timers must not run (S8). */
bool safety_may_tick(const struct safety *safety);
/* The connection of the last known leader has ended, or it has said nothing for an election
 * timeout: an election disturbs nobody. */
bool safety_leader_lost(const struct safety *safety);
/* This member leads since now; once per election. */
void safety_elected(struct safety *safety);
/* Hands libraft the answers that were held, when they may count by now; those of an older term are
 * dropped. */
void safety_replay(struct safety *safety);

/* The end of what is durable here, also while S3 lends libraft another one. */
uint64_t safety_last_stored(const struct safety *safety);
/* The entry at index, NULL when it is not in memory. */
const struct raft_entry *safety_entry(const struct raft *raft, uint64_t index);
/* The term of the entry at index, 0 when it is not known (compacted, or not there yet). */
uint64_t safety_term_of(const struct raft *raft, uint64_t index);
/* When the leader was heard whose every committed entry of that time is applied here; 0: never. Not
 * the moment at which it was heard last: a member that catches up hears it all the time. */
uint64_t safety_level_ms(struct safety *safety);
/* A leader had it all itself at that time. */
void safety_led_until(struct safety *safety, uint64_t at_ms);
/* A snapshot is being installed. */
bool safety_installing(const struct raft *raft);

#endif
