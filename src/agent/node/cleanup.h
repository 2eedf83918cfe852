/* Removes a folder tree of a job off the loop, as the job's user.
 *
 * Flow     cleanup_start() runs `ckpt-worker sweep`, one folder after the other; done() comes on
 *          the loop, exactly once. cleanup_detach() forgets the caller.
 * Shapes   tree_remove(): never follows a link.
 * Errors   what cannot be removed stays and is not reported: it is swept again before the
 *          application starts next time.
 */
#ifndef CKPT_AGENT_CLEANUP_H
#define CKPT_AGENT_CLEANUP_H

#include <stddef.h>
#include <uv.h>

#include "src/agent/node/machine.h"

enum { CLEANUP_FOLDERS_MAX = 3 };

struct cleanup;
struct cleanup *cleanup_start(uv_loop_t *loop, const struct machine_folders *folders,
                              struct machine_user user, void (*done)(void *data), void *data);
void cleanup_detach(struct cleanup *cleanup); /* NULL allowed; done() does not come any more */

#endif
