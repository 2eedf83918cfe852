/* Joins consensus, state machine and callers: the only file that knows both raft/ and fsm/.
 *
 * Flow     replica_propose() validates a command, stamps it with the wall clock, and batches it with others that arrive while an
 *          entry is in flight into one log entry; when that is applied here, done() gets the command's outcome.
 *          Duties of the leader (evaluator, dispatcher, ticker, storage watch, collector) are observers.
 * Shapes   one per process. At most REPLICA_WAITING_MAX commands wait; one more is ERR_FULL (RESOURCE_EXHAUSTED to the caller).
 * Errors   done() with an error means: not applied as far as this member knows. ERR_UNAVAILABLE before proposal: certainly not
 *          applied. ERR_TIMEOUT: leadership was lost, it may still commit; a retry with the same request id tells.
 */
#ifndef CKPT_BROKER_REPLICA_H
#define CKPT_BROKER_REPLICA_H

#include "fsm/fsm.h"
#include "raft/consensus.h"
#include "src/base/list.h"

struct replica;

enum { REPLICA_WAITING_MAX = 16384 };

/* Exactly one of failed and outcome is not NULL; both are valid during the call only. */
typedef void replica_done_fn(void *data, const struct err *failed, const struct fsm_outcome *outcome);

/* Told in the order of subscription, on the loop. Any callback may be NULL. The caller's storage, never unsubscribed. */
struct replica_observer {
    struct list node;
    void *context;
    void (*serving)(void *context);     /* this member leads and an entry of its own term is applied: start duties, re-derive all */
    void (*not_serving)(void *context); /* stop at once; also told at shutdown */
    void (*applied)(void *context);     /* after each applied entry, on every member */
};

/* consensus_config's tables and members are the caller's and live as long as the replica. fatal() must exit the process. */
int replica_open(const struct consensus_config *config,
                 const Ckpt__Log__V1__ClusterInit *initial, /* proposed by the first leader of an uninitialised cluster */
                 void (*fatal)(void *context, const struct err *err), void *context,
                 struct replica **ret_replica, struct err *err);
void replica_close(struct replica *replica, void (*closed)(void *context), void *context);
void replica_observe(struct replica *replica, struct replica_observer *observer);

/* The command is packed before this returns; now_ms is set here. done is called exactly once, possibly before this returns
 * (refusals found by fsm_validate_command, not serving, full). done may be NULL. */
void replica_propose(struct replica *replica, Ckpt__Log__V1__Command *command, replica_done_fn *done,
                     void *data);
/* done(data, NULL, NULL) when a read of replica_fsm() is linearizable. */
void replica_read(struct replica *replica, replica_done_fn *done, void *data);

bool replica_serving(const struct replica *replica);
const struct fsm *replica_fsm(const struct replica *replica);
struct fsm *replica_fsm_mutable(struct replica *replica); /* for fsm_take_changed_node only */
void replica_get_status(const struct replica *replica, struct consensus_status *ret_status);
uint64_t replica_wall_ms(const struct replica *replica);
size_t replica_waiting(const struct replica *replica);
/* Hashes of recent indexes, oldest first; returns how many were written. */
struct replica_hash { uint64_t index, hash; };
size_t replica_hashes(const struct replica *replica, struct replica_hash *ret_hashes, size_t max);
struct consensus *replica_consensus(struct replica *replica);

#endif
