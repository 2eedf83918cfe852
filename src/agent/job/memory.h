/* The node's memory as a place where applications write checkpoints: staging memory.
 *
 * Flow     an attempt is to be written there -> ckpt-worker reserve makes {path}/{uid}/out/{hint},
 *          to which a link in the work folder leads -> the application writes -> ckpt-worker put
 *          copies it to the destination, as from a work folder -> it is removed, or kept as the
 *          node's copy in {path}/{uid}/copies (copies.h).
 * Shapes   one folder of the agent's configuration, on a tmpfs; in it one for each user, which
 *          only that user enters. Each checkpoint counts with the bytes of the job's last one.
 * Units    bytes.
 * Errors   MEMORY_FULL: max_bytes, or the tmpfs, has no room for as much as the last one took.
 * Absent   a bound while an application writes, beside the tmpfs' own size: what it cannot write
 *          it says itself.
 */
#ifndef CKPT_AGENT_MEMORY_H
#define CKPT_AGENT_MEMORY_H

#include "src/agent/job/allocation.h"

/* The user's folder there; "": this node has no memory for checkpoints. */
void memory_home(const struct agent *agent, uid_t uid, char ret_home[LEDGER_WORK_DIR_BYTES]);
/* Whether a copy's folder lies there. */
bool memory_holds(const struct agent *agent, const char *work_dir);
/* Of max_bytes what no job but this one (NULL: none at all) is writing; copies do not count, since
 * they give room. */
uint64_t memory_room(const struct agent *agent, const struct allocation *but);
/* So much of it copies may take. */
uint64_t memory_copies_max(const struct agent *agent);

#endif
