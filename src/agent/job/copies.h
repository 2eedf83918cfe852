/* The node's own copies of what its jobs wrote: a job that starts again here begins from one,
 * without a byte from the destination.
 *
 * Flow     an attempt is verified -> its files are moved to {work_dir}/copies/{checkpoint}/{part}
 *          (ckpt-worker retain) -> reported as kept -> named in the order sets as long as the job
 *          may start again here from it -> removed when it is not named any more. A restore tries
 *          it first (ckpt-worker restore --copy); the restart point says which checkpoint, and with
 *          which manifest.
 * Shapes   at most LEDGER_COPIES_MAX for each job, in its entry of the ledger; of all jobs as many
 *          bytes as the key local_copies allows, the oldest go first. Nothing is kept, and
 *          what is kept goes, where less than keep_free, or than the copy itself has, is left for
 *          the next checkpoint. What was written in the node's memory is kept there, in half of
 *          it at most (memory.h); it is lost when the node starts again.
 * Errors   a copy that is lost, damaged or another user's is no failure: the destination is read.
 */
#ifndef CKPT_AGENT_COPIES_H
#define CKPT_AGENT_COPIES_H

#include <limits.h>

#include "src/agent/job/allocation.h"

struct worker_result;

enum { COPIES_WATCH_US = 10000000 };

/* Where it lies, without its part. */
const char *copies_folder(const struct ledger_copy *copy, char ret_path[PATH_MAX]);
/* What is to stay free beside it. */
uint64_t copies_keep_free(const struct agent *agent, const struct ledger_copy *copy);
/* The oldest in the node's memory go, until the others fit there beside what jobs write. */
void copies_give_room(struct agent *agent);
/* This job's in the node's memory go: its next checkpoint did not fit beside them. */
void copies_give_way(struct allocation *allocation);
/* The worker that moved it has ended; NULL: it could not be started. */
void copies_made(struct allocation *allocation, const struct worker_result *result);
/* The last order set: what it does not name goes. */
void copies_take_orders(struct agent *agent);
/* What the agent before was removing. */
void copies_resume(struct allocation *allocation);
/* The allocation goes away, from here. */
void copies_detach(struct allocation *allocation);

/* A restore could not use that of this part; those of other parts may be well. lost: it is not
 * there any more, or not what it was. */
void copies_failed(struct agent *agent, const char *allocation_id, uint64_t checkpoint_id,
                   uint32_t part, bool lost, const char *why);

/* Looks each COPIES_WATCH_US whether there is still room beside them. */
void copies_watch_start(struct agent *agent);
void copies_watch_stop(struct agent *agent);

#endif
