/* A log entry under construction, then on its way: packed commands, and who waits for each.
 *
 * Flow     batch_append() writes one element of ckpt.log.v1.Entry.commands behind the others;
 *          nothing is encoded twice. batch_outcome() and batch_fail() tell the waiters.
 * Pace     While up to REPLICA_ENTRIES_IN_FLIGHT entries are on their way, commands that arrive
 *          collect here, and the next entry takes all of them. The flush runs one turn of the loop
 *          after the first command, so that requests that were read from one socket in one go share
 *          an entry; REPLICA_ENTRY_EARLY of them go at once, so that disks and followers work while
 *          the rest is read. A command is packed once, straight behind the others, and its size is
 *          counted once: validation gets it.
 * Shapes   heap; owned by the replica, in its queue until proposed. At most REPLICA_ENTRY_COMMANDS
 *          commands and REPLICA_ENTRY_BYTES bytes.
 */
#ifndef CKPT_BROKER_BATCH_H
#define CKPT_BROKER_BATCH_H

#include "src/base/buf.h"
#include "src/base/list.h"
#include "src/broker/replica/replica.h"

struct batch_waiter {
    replica_done_fn *done; /* NULL: nobody waits, or it was told */
    void *data;
};

struct batch {
    struct list node;
    bool first; /* the new leader's own: not counted as waiting */
    uint64_t proposed_us;
    struct buf bytes; /* a ckpt.log.v1.Entry */
    struct batch_waiter *waiters;
    size_t count;
    size_t capacity;
};

/* What a new leader says before anything else. */
struct batch_first {
    uint64_t now_ms;
    const struct fsm *fsm;
    const char *cluster_id;
    uint64_t epoch_min; /* of the folder: after a restore or recovery above the state's */
    uint64_t member_id, term;
    const Ckpt__Log__V1__ClusterInit *initial; /* NULL: none */
    const Ckpt__Log__V1__MemberFacts *facts;   /* NULL: none */
    uint32_t level;                            /* a new cluster's */
};

struct batch *batch_new(void);
/* An empty one becomes the first of a reign. */
void batch_fill_first(struct batch *batch, const struct batch_first *first);
void batch_free(struct batch *batch);
/* As a new one, in the memory that it has. */
void batch_clear(struct batch *batch);
/* Room for one more command of `size` packed bytes. */
bool batch_fits(const struct batch *batch, size_t size);
/* size: the command's packed size. */
void batch_append(struct batch *batch, const Ckpt__Log__V1__Command *command, size_t size,
                  replica_done_fn *done, void *data);
/* What became of command i, in the order of batch_append(): tells its waiter, each once. */
void batch_outcome(struct batch *batch, size_t i, const struct fsm_outcome *outcome);
/* Tells every waiter that is left. */
void batch_fail(struct batch *batch, const struct err *failed);

#endif
