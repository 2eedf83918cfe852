/* The tmpfs on which jobs write checkpoints in the node's memory: staging memory.
 *
 * Flow     once, when the agent starts: a folder on a tmpfs that is there is taken as it is; else
 *          root mounts one of its own there, of max_bytes.
 * Errors   ERR_REFUSED with what to do: it is on no tmpfs, and none may be mounted.
 * Absent   unmounting: what jobs keep there is used by the next agent. Another size for one that
 *          is mounted.
 */
#ifndef CKPT_AGENT_MEMORY_MOUNT_H
#define CKPT_AGENT_MEMORY_MOUNT_H

#include <stdint.h>

#include "src/base/err.h"

/* path "": nothing is to be done. */
/* user_max_bytes: each user's quota there, where the kernel has quotas of a tmpfs (Linux 6.6 and
 * CONFIG_TMPFS_QUOTA). */
int memory_mount(const char *path, uint64_t max_bytes, uint64_t user_max_bytes, struct err *err);

#endif
