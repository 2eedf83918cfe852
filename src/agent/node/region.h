/* A region of memory that an application and its agent share (src/ask/region.h), on this node.
 *
 * Flow     each call opens it, looks whose it is, and closes it: nothing is held between two calls,
 *          so an agent that restarts has nothing to find again.
 * Shapes   the job's user may write anything into it, cut it or remove it at any time. So the
 *          agent reads and writes it by system calls, which fail then. The kernel changes the words
 *          of a mapping (futex(2)), indivisibly, and returns a fault where there is none any more.
 * Errors   ERR_NOT_FOUND, ERR_INVALID (another user's, a link, cut, a folder in which others could
 *          replace it), ERR_IO; the text names the path and the next step.
 * Source   S1-034, S1-035.
 */
#ifndef CKPT_AGENT_REGION_H
#define CKPT_AGENT_REGION_H

#include "src/agent/node/machine.h"

/* Before its application starts, by an agent that is root: whatever another user has put at the
 * name gives way to an empty file of the job's user, which ckpt-run then replaces. A file of that
 * user stays. */
int region_claim(const struct machine_region *region, struct err *err);
int region_read(const struct machine_region *region, size_t offset, void *ret_bytes, size_t length,
                struct err *err);
int region_write(const struct machine_region *region, size_t offset, const void *bytes,
                 size_t length, struct err *err);
int region_change(const struct machine_region *region, enum ask_region_change change,
                  const size_t *offsets, size_t count, struct err *err);
void region_remove(const struct machine_region *region);

#endif
