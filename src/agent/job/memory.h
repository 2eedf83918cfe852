/* The node's memory as a place where applications write checkpoints: staging memory.
 *
 * Flow     an attempt is to be written there -> ckpt-worker reserve makes {path}/{uid}/out/{hint},
 *          to which a link in the work folder leads -> the application writes -> ckpt-worker put
 *          copies it to the destination, as from a work folder -> it is removed, or kept as the
 *          node's copy in {path}/{uid}/copies (copies.h).
 *          When the user's last job here is over, and none of its copies is left, root removes
 *          {path}/{uid} with whatever else the user has put there: nothing can be written then.
 * Shapes   one folder of the agent's configuration, on a tmpfs; in it one for each user, which
 *          only that user enters. Each checkpoint counts with the bytes of the job's last one,
 *          among all and among its user's: user_max_bytes.
 * Units    bytes.
 * Errors   none: where max_bytes, the user's share or the tmpfs has no room for as much as the last
 *          one took, it is written to the work folder, and the job is told so.
 * Absent   a bound while an application writes, beside the tmpfs' own size and its quota, where the
 *          kernel has one (memory_mount.h): what it cannot write it says itself.
 */
#ifndef CKPT_AGENT_MEMORY_H
#define CKPT_AGENT_MEMORY_H

#include "src/agent/job/allocation.h"

/* The user's folder there; "": this node has no memory for checkpoints. */
void memory_home(const struct agent *agent, uid_t uid, char ret_home[LEDGER_WORK_DIR_BYTES]);
/* Whether a copy's folder lies there. */
bool memory_holds(const struct agent *agent, const char *work_dir);
/* Of max_bytes, and of its user's share, what no job but this one is writing; copies do not count,
 * since they give room. but NULL: none at all, and nobody's share. */
uint64_t memory_room(const struct agent *agent, const struct allocation *but);
/* As much as one user may have there: as configured, or three quarters of all. */
uint64_t memory_user_max(const struct agent *agent);
/* An edge of the job's life: nothing of it may be at work here any more. Removes its user's folder
 * when nobody of that user needs it. */
void memory_close(const struct allocation *allocation);
/* So much of it copies may take. */
uint64_t memory_copies_max(const struct agent *agent);

#endif
