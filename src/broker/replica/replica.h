/* Joins consensus, state machine and callers: the only file of a running member that knows both
 * raft/ and fsm/.
 *
 * Flow     replica_propose() validates a command, stamps it with the wall clock, and batches it
 *          with others that arrive while entries are in flight into one log entry; when that is
 *          applied here, done() gets the command's outcome. Duties of the leader (evaluator,
 *          dispatcher, ticker, storage watch, collector) are observers.
 * Leader   A new leader's first entry is its own: ClusterInit while the cluster is uninitialised,
 *          NewEpoch after a restore or recovery, then LeaderElected and MemberFacts. Requests that
 *          arrive before that entry is applied wait for it, and nothing is served before: only then
 *          does this member know that it has applied all that was ever acknowledged.
 * Shapes   one per process. At most REPLICA_WAITING_MAX commands wait; one more is ERR_FULL
 *          (RESOURCE_EXHAUSTED to the caller).
 * Units    milliseconds of the wall clock since the epoch in _ms of stamps and states, milliseconds
 *          as a length elsewhere; log indexes as Raft counts them.
 * Errors   The fate of a command is one of three. An outcome means that it was applied, or refused
 *          by the state, which is the same on every member. ERR_UNAVAILABLE and ERR_FULL mean that
 *          it was certainly not applied. ERR_TIMEOUT means that leadership was lost while it was
 *          on its way, and it may still commit: a retry with the same request id tells.
 */
#ifndef CKPT_BROKER_REPLICA_H
#define CKPT_BROKER_REPLICA_H

#include "fsm/fsm.h"
#include "raft/core/consensus.h"
#include "src/base/list.h"

struct replica;

enum { REPLICA_WAITING_MAX = 16384, REPLICA_WORDS_BYTES = 24 };

enum {
    REPLICA_ENTRY_BYTES = 512 * 1024, /* of commands packed into one log entry */
    REPLICA_ENTRY_COMMANDS = 1024,    /* 4 entries may be applied in one turn of the loop */
    REPLICA_ENTRIES_IN_FLIGHT = 4,
    /* so many commands go at once, the next turn of the loop does not matter */
    REPLICA_ENTRY_EARLY = 128,
    /* a hand-over does not wait for a write of the log that takes longer */
    REPLICA_LOG_HANGS_MS = 400,
    REPLICA_CATCH_UP_MS = 500, /* a hand-over waits so long for a voter that has everything ... */
    REPLICA_TRANSFER_MS = CONSENSUS_TRANSFER_MS, /* ... and then so long for it to take over */
    REPLICA_HASHES = 1024,                       /* recent (index, hash) pairs kept */
    REPLICA_LATENCY_BUCKETS = 24
};
_Static_assert(FSM_COMMAND_MAX_BYTES + 16 <= REPLICA_ENTRY_BYTES,
               "every valid command fits into an entry");
_Static_assert((int)REPLICA_ENTRY_BYTES + (int)FSM_ENTRY_CHECK_BYTES <=
                   (int)CONSENSUS_ENTRY_MAX_BYTES,
               "an entry fits into the log");

/* Exactly one of failed and outcome is not NULL; both are valid during the call only. */
typedef void replica_done_fn(void *data, const struct err *failed,
                             const struct fsm_outcome *outcome);

/* Told in the order of subscription, on the loop. Any callback may be NULL. The caller's storage,
 * never unsubscribed. */
struct replica_observer {
    struct list node;
    void *context;
    /* A duty that gives orders or touches targets: it is not told to serve while the cluster is
     * passive (fsm/passive.h). */
    bool acts;
    bool told; /* the replica's: serving was told, and not_serving not yet */
    /* This member leads and an entry of its own term is applied: start duties, re-derive all. */
    void (*serving)(void *context);
    /* Stop at once; also told at shutdown. */
    void (*not_serving)(void *context);
    /* After each applied entry, on every member. */
    void (*applied)(void *context);
    /* Raft's view, for logs: told before serving and after not_serving. leader_id 0: unknown. */
    void (*role_changed)(void *context, enum consensus_role role, uint64_t term,
                         uint64_t leader_id);
    /* Raft's members, or the address of one, are others now: look at the status. */
    void (*members_changed)(void *context);
};

/* consensus_config's tables and members and `initial` are the caller's and live as long as the
 * replica. `initial` is proposed by the first leader of an uninitialised cluster; NULL: by no one.
 * fatal() must exit the process. */
int replica_open(const struct consensus_config *config, const Ckpt__Log__V1__ClusterInit *initial,
                 void (*fatal)(void *context, const struct err *err), void *context,
                 struct replica **ret_replica, struct err *err);
/* What this member tells about itself when it comes to lead (MemberFacts). Kept by reference. Call
 * before the loop runs. */
void replica_set_facts(struct replica *replica, const Ckpt__Log__V1__MemberFacts *facts);
/* Ends everything in order: callers that wait are answered, not_serving is told, then `closed` is
 * called, once, on the loop. The replica is freed by then. */
void replica_close(struct replica *replica, void (*closed)(void *context), void *context);
/* For tests and the simulator: the process was killed. Everything is freed at once, nothing is
 * written or sent; callers are told as at replica_close(). */
void replica_abandon(struct replica *replica);
/* Subscribes. The observer is not told of what is so already: a part that is made while this member
 * serves looks at replica_serving() itself. */
void replica_observe(struct replica *replica, struct replica_observer *observer);

/* The command is packed before this returns; now_ms is set here. done is called exactly once,
 * possibly before this returns (refusals found by fsm_validate_command, not the leader, full). done
 * may be NULL. A leader that does not serve yet keeps the command until it does. */
void replica_propose(struct replica *replica, Ckpt__Log__V1__Command *command,
                     replica_done_fn *done, void *data);
/* done(data, NULL, NULL) when a read of replica_fsm() is linearizable. */
void replica_read(struct replica *replica, replica_done_fn *done, void *data);

/* Hands leadership over to a voter (0: any that has caught up). Commands wait from now on; when
 * none is in flight any more the other member is told to campaign, so no fate is left unknown.
 * done(data, NULL, NULL) when the member asked for leads (0: any other one). failed: refused;
 * nobody took over and this one goes on; leadership went elsewhere (ERR_REFUSED); it is lost and
 * who has it is not known (ERR_TIMEOUT). */
void replica_transfer(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                      void *data);
/* For a leader that does not come to serve: asks any caught-up voter to campaign, whatever waits
 * here. */
int replica_yield(struct replica *replica, struct err *err);
/* By force, when hand-overs come to nothing: this member leads no more when it returns 0, and lets
 * another one win (consensus_step_down()). What is in flight gets the usual answers of lost
 * leadership. Not inside of callbacks. */
int replica_step_down(struct replica *replica, struct err *err);

/* Raft's members (raft/core/consensus.h has what is checked). done(data, NULL, NULL): it is
 * committed. */
void replica_member_probe(struct replica *replica, const struct consensus_member *member,
                          replica_done_fn *done, void *data);
void replica_member_add(struct replica *replica, const struct consensus_member *member,
                        replica_done_fn *done, void *data);
void replica_member_promote(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                            void *data);
void replica_member_remove(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                           void *data);
void replica_member_put(struct replica *replica, const struct consensus_member *member);
/* False: it has not spoken yet, and ret_build is that of a member without levels. */
bool replica_member_build(const struct replica *replica, uint64_t member_id,
                          struct consensus_build *ret_build);
const char *replica_member_contact(struct replica *replica, uint64_t member_id);

/* This member leads and has applied an entry of its own term: it may answer for the cluster. False
 * on a leader that does not serve yet. */
bool replica_serving(const struct replica *replica);
uint64_t replica_leader_id(const struct replica *replica); /* 0: unknown */
/* The replicated state: one object from replica_open() to replica_close(), also when a snapshot
 * replaces its content. What a look-up in it returns is valid until the next entry is applied, at
 * the latest until the loop goes on. */
const struct fsm *replica_fsm(const struct replica *replica);
struct fsm *replica_fsm_mutable(struct replica *replica); /* for fsm_take_changed_* only */
/* For the simulator's checks. */
struct consensus *replica_consensus(const struct replica *replica);
/* Raft's view of this moment: role, term, indexes, members and how far each is. It is copied; call
 * it as often as needed. */
void replica_get_status(const struct replica *replica, struct consensus_status *ret_status);
/* This member's wall clock, for logs. Nothing that is replicated goes by it. */
uint64_t replica_wall_ms(const struct replica *replica);
/* What a command proposed now would be stamped with: every look whether a deadline has come goes by
 * it (state_clock.h). */
uint64_t replica_state_ms(struct replica *replica);
/* This member's wall clock beside what the voters' clocks say is right. */
struct replica_clock {
    bool off;          /* by more than STATE_CLOCK_OFF_MS, for a while */
    int64_t offset_ms; /* ahead is positive */
};
/* Compares the clocks; to be called every second or so. True: `off` has changed. */
bool replica_clock_look(struct replica *replica);
void replica_clock_get(const struct replica *replica, struct replica_clock *ret_clock);
/* Words of another part that go along with Raft's messages, to the leader. say: writes them; hear:
 * of a member. From level 2 on, since a member of level 1 reads no note that is longer. */
struct replica_words {
    void *context; /* NULL: there are none */
    size_t (*say)(void *context, uint8_t bytes[REPLICA_WORDS_BYTES]);
    void (*hear)(void *context, uint64_t member_id, const uint8_t *bytes, size_t length);
};
void replica_set_words(struct replica *replica, const struct replica_words *words);
/* Of another member's; leader only. False: not heard lately. */
bool replica_clock_of(const struct replica *replica, uint64_t member_id, int64_t *ret_offset_ms);
/* consensus_set_reluctant() */
void replica_set_reluctant(struct replica *replica, bool reluctant);
/* Commands whose fate is not known yet, of all callers of this member. */
size_t replica_waiting(const struct replica *replica);
/* Hashes of recent indexes, oldest first; returns how many were written. */
struct replica_hash {
    uint64_t index, hash;
};
size_t replica_hashes(const struct replica *replica, struct replica_hash *ret_hashes, size_t max);

struct replica_stats {
    uint64_t entries_total;  /* proposed by this member */
    uint64_t commands_total; /* in them */
    uint64_t batch_max;      /* most commands in one entry */
    uint64_t dropped_total;  /* commands whose fate was unknown when leadership was lost */
    uint64_t commit_us_total;
    uint64_t commit_us_max;
    /* Proposal to apply; bucket i counts entries that took less than 2^i microseconds and at least
     * 2^(i-1); the last one also counts longer ones. */
    uint64_t commit_us[REPLICA_LATENCY_BUCKETS];
    uint64_t leader_since_ms; /* wall clock at which this member learned of the present leader; 0:
                                 no leader */
    /* since this member applied an entry; UINT64_MAX: none since start */
    uint64_t last_commit_age_ms;
    uint64_t snapshots_read; /* state replaced by one from disk or from the leader */
};
/* Counters since the start of the process, for metrics and Status. */
void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats);

#endif
